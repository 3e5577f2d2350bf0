//! Flame graphs and the chart of versions in Chromium, and the members of the JSON report about them.

use super::{CHARTS, SCROLL, assert_no_errors, client::Browser, open};
use crate::report::fixture::profiles::versions;
use crate::report::on_disk;
use crate::support::{Scratch, hoptax, json, succeed, wait_until};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Colours of frames that match a search, and of frames without a certain difference.
const FOUND: &str = "rgb(197, 138, 240)";
const GREY: &str = "rgb(201, 203, 207)";

/// Writes a run with two versions of nginx and their profiles. Returns its page and its JSON report.
fn reports(scratch: &Scratch) -> (PathBuf, Value) {
    let (run, passes) = versions();
    let (_below, directory) = on_disk(&run);
    let mut lines = std::fs::File::create(directory.join("profiles.jsonl")).expect("created");
    for pass in &passes {
        writeln!(lines, "{}", serde_json::to_string(pass).expect("JSON")).expect("written");
    }
    let page = scratch.path().join("report.html");
    let written = hoptax().arg("report").arg(&directory).args(["--format", "html", "-o"]).arg(&page).status();
    assert!(written.expect("hoptax runs").success());
    let report = json(hoptax().arg("report").arg(&directory).args(["--format", "json"]));
    (page, report)
}

/// Expression for the elements of the flame graph with this number that a selector finds.
fn of_graph(graph: usize, selector: &str) -> String {
    format!("[...document.querySelector('figure[data-flame=\"{graph}\"]').querySelectorAll('{selector}')]")
}

/// Number of frames in this colour.
fn frames_in(browser: &mut Browser, graph: usize, colour: &str) -> u64 {
    let paths = of_graph(graph, "svg path");
    let count = format!("{paths}.filter((one) => getComputedStyle(one).fill === '{colour}').length");
    browser.ask(&count).as_u64().expect("a number")
}

fn has_frame(graph: usize, name: &str) -> String {
    format!("{}.some((one) => one.textContent.startsWith('{name}'))", of_graph(graph, "svg text"))
}

fn search(browser: &mut Browser, graph: usize, text: &str) {
    let field = format!("{}[0]", of_graph(graph, "input[type=search]"));
    browser.ask(&format!(
        "(() => {{ const field = {field}; field.value = '{text}'; field.dispatchEvent(new Event('input')); \
        }})()"
    ));
}

/// Presses the frame with this name.
fn press(browser: &mut Browser, graph: usize, name: &str) {
    let place = browser.ask(&format!(
        "(() => {{ const frame = {}.find((one) => one.textContent.startsWith('{name}')); \
         frame.scrollIntoView({{ block: 'center', behavior: 'instant' }}); const box = \
         frame.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()",
        of_graph(graph, "svg text")
    ));
    browser.click_at(place[0].as_f64().expect("x"), place[1].as_f64().expect("y"));
}

pub(super) fn charts_work(browser: &mut Browser) {
    let scratch = Scratch::new();
    let (page, report) = reports(&scratch);
    flame_graphs_can_be_searched_and_enlarged(browser, &page, &report);
    versions_have_a_chart_with_a_point_for_each(browser, &page, &report);
}

fn flame_graphs_can_be_searched_and_enlarged(browser: &mut Browser, page: &Path, report: &Value) {
    let profiles = report["profiles"].as_array().expect("profiles").len();
    assert_eq!((profiles, report["profile_differences"].as_array().map(Vec::len)), (2, Some(1)));
    let (gzip, difference) = (1, 2);
    open(browser, page, 1440, false);
    browser.ask(SCROLL);
    for graph in [0, gzip, difference] {
        assert_eq!(browser.ask(&has_frame(graph, "tcp_sendmsg")), true, "graph {graph}");
    }

    assert_eq!(frames_in(browser, gzip, FOUND), 0);
    search(browser, gzip, "DEFLATE");
    browser.until(&format!(
        "{}.some((one) => one.textContent.includes('Found: '))",
        of_graph(gzip, "figcaption, .note")
    ));
    assert_eq!(frames_in(browser, gzip, FOUND), 1);
    assert_eq!(frames_in(browser, 0, FOUND), 0, "each graph has its own search");
    search(browser, gzip, "");
    wait_until("the search ends", crate::support::PATIENCE, || frames_in(browser, gzip, FOUND) == 0);

    let is_gone = format!("!{}", has_frame(gzip, "tcp_sendmsg"));
    wait_until("a press enlarges the frame", crate::support::PATIENCE, || {
        press(browser, gzip, "filter");
        browser.ask(&is_gone) == true
    });
    assert_eq!(browser.ask(&has_frame(gzip, "deflate")), true, "what the frame calls is still there");
    browser
        .ask(&format!("{}.find((one) => one.textContent === 'Show all').click()", of_graph(gzip, "button")));
    browser.until(&has_frame(gzip, "tcp_sendmsg"));

    // The frames that both versions have are grey, and those of zlib are not.
    let grey = frames_in(browser, difference, GREY);
    let nodes =
        format!("JSON.parse(document.getElementById('hoptax-data').textContent).flames[{difference}].nodes");
    let all = browser.ask(&format!("{nodes}.length")).as_u64().expect("a number");
    assert!(grey > 0 && grey < all, "{grey} of {all}");
    assert_no_errors(browser);
}

fn versions_have_a_chart_with_a_point_for_each(browser: &mut Browser, page: &Path, report: &Value) {
    assert_eq!(report["versions"][0]["versions"].as_array().map(Vec::len), Some(2));
    open(browser, page, 1440, true);
    browser.ask(SCROLL);
    let charts = browser.ask(CHARTS);
    let is_of_versions = |one: &&Value| one[0] == "version";
    let found: Vec<&Value> = charts.as_array().expect("charts").iter().filter(is_of_versions).collect();
    assert_eq!(found, [&json!(["version", 2, true])], "{charts}");
    let texts = browser.ask(
        "[...document.querySelectorAll('figure[data-chart=version] svg text')].map((one) => one.textContent)",
    );
    let texts = texts.as_array().expect("texts");
    assert!(["1.26", "1.27"].iter().all(|name| texts.contains(&json!(name))), "{texts:?}");
    assert_no_errors(browser);
}

#[test]
fn a_report_with_versions_and_profiles_matches_the_schema() {
    let scratch = Scratch::new();
    let (_, report) = reports(&scratch);
    let file = scratch.file("report.json", &report.to_string());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let check = "import json, sys; from json_schema import DOCUMENT, faults; \
                 print(*faults(json.load(open(sys.argv[1])), DOCUMENT), sep='\\n')";
    let mut command = Command::new("python3");
    command.args(["-B", "-c", check]).arg(file);
    command.env("PYTHONPATH", format!("{0}/python:{0}/python/tests", root.display()));
    assert_eq!(succeed(&mut command).trim(), "");
}
