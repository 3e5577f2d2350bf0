//! Templates of the pages, and the pages for errors and for redirects.

use crate::serve::assets::ADDRESSES;
use crate::serve::problem::Problem;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use minijinja::{Environment, Value, context};
use std::fmt::Write as _;
use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    for (name, text) in [
        ("base.html", include_str!("../../../assets/serve/base.html")),
        ("parts.html", include_str!("../../../assets/serve/parts.html")),
        ("list.html", include_str!("../../../assets/serve/list.html")),
        ("run.html", include_str!("../../../assets/serve/run.html")),
        ("compare.html", include_str!("../../../assets/serve/compare.html")),
        ("trends.html", include_str!("../../../assets/serve/trends.html")),
        ("live.html", include_str!("../../../assets/serve/live.html")),
        ("failed.html", include_str!("../../../assets/serve/failed.html")),
        ("onwards.html", include_str!("../../../assets/serve/onwards.html")),
    ] {
        environment.add_template(name, text).expect("the tests draw every template");
    }
    environment.add_filter("when", when);
    environment.add_filter("took", took);
    environment.add_filter("escape_address", escape_address);
    environment
});

/// A page, or an error page.
pub(in crate::serve) type Page = Result<Response, NoPage>;

/// A problem that is shown as a page.
pub(in crate::serve) struct NoPage(Problem);

impl From<Problem> for NoPage {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for NoPage {
    fn into_response(self) -> Response {
        failed(self.0)
    }
}

pub(super) fn draw(template: &str, with: Value) -> Result<String, Problem> {
    let drawn = TEMPLATES.get_template(template).and_then(|template| template.render(with));
    drawn.map_err(|error| {
        Problem::fault(format!("cannot fill the page's template, which is a bug of hoptax: {error}"))
    })
}

pub(in crate::serve) fn failed(problem: Problem) -> Response {
    let Problem { status, error, help, .. } = &problem;
    let with =
        context! { error, help, assets => &*ADDRESSES, version => env!("CARGO_PKG_VERSION"), here => "" };
    match draw("failed.html", with) {
        Ok(page) => (*status, Html(page)).into_response(),
        Err(fault) => (StatusCode::INTERNAL_SERVER_ERROR, fault.error).into_response(),
    }
}

/// A page that makes the browser open `place` without a click.
pub(in crate::serve) fn onwards(place: &str) -> Response {
    match draw("onwards.html", context! { place, assets => &*ADDRESSES }) {
        Ok(page) => Html(page).into_response(),
        Err(fault) => fault.into_response(),
    }
}

/// Unix seconds as `2026-11-22 17:45 UTC`.
fn when(unix: i64) -> String {
    let since =
        u64::try_from(unix).ok().and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    // A year with more than four digits can only come from a wrong clock.
    match since.filter(|_| unix < 253_402_300_800) {
        Some(time) => {
            let text = humantime::format_rfc3339_seconds(time).to_string();
            format!("{} UTC", text[..16].replace('T', " "))
        }
        None => "at an unknown time".into(),
    }
}

/// Seconds as `47 s`, `3 min 20 s` or `2 h 5 min`.
fn took(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

/// Percent-encodes a text for a part of an address.
fn escape_address(text: &str) -> String {
    text.bytes().fold(String::new(), |mut address, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            address.push(char::from(byte));
        } else {
            let _ = write!(address, "%{byte:02X}");
        }
        address
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_for_people() {
        let moments = [1_700_000_000, -1, i64::MAX, i64::MIN].map(when);
        let durations = [0.2, 59.6, 200.0, 7500.0, -1.0, f64::NAN].map(took);
        insta::assert_snapshot!([moments.join("\n"), durations.join("\n")].join("\n"));
    }

    #[test]
    fn names_are_escaped_in_addresses() {
        assert_eq!(escape_address("20261122T1-a b/../?&#ü"), "20261122T1-a%20b%2F..%2F%3F%26%23%C3%BC");
    }
}
