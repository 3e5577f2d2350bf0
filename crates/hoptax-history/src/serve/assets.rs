//! Style, scripts and chart library of the pages. The address of each of these files contains a digest of its
//! content, so that browsers can cache the file forever.

use hoptax_report::assets as report;
use ring::digest::{SHA256, digest};
use std::sync::LazyLock;

static STYLE: LazyLock<String> =
    LazyLock::new(|| [report::STYLE, include_str!("../../assets/serve/serve.css")].concat());
/// Includes the report's code for numbers and charts, so that pages and reports look alike.
static SCRIPT: LazyLock<String> = LazyLock::new(|| {
    let own = concat!(
        include_str!("../../assets/serve/common.js"),
        include_str!("../../assets/serve/chart.js"),
        include_str!("../../assets/serve/list.js"),
        include_str!("../../assets/serve/run.js"),
        include_str!("../../assets/serve/compare.js"),
        include_str!("../../assets/serve/changes.js"),
        include_str!("../../assets/serve/trends.js"),
        include_str!("../../assets/serve/live.js"),
    );
    ["\"use strict\";\n(() => {\n", report::NUMBERS, report::LOOKS, own, "})();\n"].concat()
});
const ICON: &str = include_str!("../../assets/serve/icon.svg");

/// Addresses of the assets, for templates.
#[derive(Debug, serde::Serialize)]
pub(super) struct Addresses {
    style: String,
    script: String,
    charts: String,
    icon: String,
}

pub(super) static ADDRESSES: LazyLock<Addresses> = LazyLock::new(|| Addresses {
    style: address("serve.css", &STYLE),
    script: address("serve.js", &SCRIPT),
    charts: address("echarts.min.js", report::CHARTS),
    icon: address("icon.svg", ICON),
});

fn address(name: &str, content: &str) -> String {
    let digest = digest(&SHA256, content.as_bytes());
    let short: String = digest.as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("/assets/{name}?v={short}")
}

/// Media type and content of an asset.
pub(super) fn content(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "serve.css" => ("text/css; charset=utf-8", &STYLE),
        "serve.js" => ("text/javascript; charset=utf-8", &SCRIPT),
        "echarts.min.js" => ("text/javascript; charset=utf-8", report::CHARTS),
        "icon.svg" => ("image/svg+xml", ICON),
        _ => return None,
    })
}
