//! Tests of the report page in Chromium: they open the page, point at charts, type, and switch loads.

pub(crate) mod client;
mod profiles;

use crate::report::fixture::features::matrix;
use crate::report::fixture::{Run, closed_point, open_point, searched_point, via};
use crate::report::on_disk;
use crate::support::{PATIENCE, Scratch, hoptax, retry_if_disturbed, wait_for};
use client::Browser;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A label that would be harmful as markup.
const HOSTILE: &str = "<img src=x onerror=\"hacked=1\">";

/// A run with direct and three gateways, four load points, the path split, and a capacity search.
fn run() -> Run {
    let open = |connections| open_point(1000.0, connections, 1);
    let mut run = Run::with_load(vec![open(2), open(8), open(32), closed_point(4, 1), searched_point()]);
    for round in 0..3 {
        for load in 0..4 {
            let windows = |us: u64| -> Vec<Vec<u64>> {
                (0..10)
                    .map(|window| (0..100).map(|index| us + index * index / 50 + window).collect())
                    .collect()
            };
            let trial = |who: &str, us: u64| {
                let us = us + 10 * u64::from(load) + u64::from(round);
                via(who, round).windows_us(&windows(us)).paths_us(us / 3, us / 2).at_load(load)
            };
            run.push(trial("direct", 100).first());
            run.push(trial("nginx", 160)).push(trial(HOSTILE, 240)).push(trial("envoy", 400));
            run.push(trial("direct", 103).last());
        }
        for (who, us) in [("direct", 900), ("nginx", 1500), (HOSTILE, 1800), ("envoy", 9000)] {
            let searched = |rate: f64| via(who, round).all_at_us(us + rate as u64 / 10).step(rate).at_load(4);
            for rate in [800.0, 1600.0, 3200.0] {
                run.push(searched(rate));
            }
        }
    }
    run
}

fn page(run: &Run, scratch: &Scratch) -> (PathBuf, Value) {
    let (_below, dir) = on_disk(run);
    let file = scratch.path().join("report.html");
    let made = hoptax().arg("report").arg(&dir).args(["--format", "html", "-o"]).arg(&file).status();
    assert!(made.expect("the binary runs").success());
    let report = crate::support::json(hoptax().arg("report").arg(&dir).args(["--format", "json"]));
    (file, report)
}

/// Shows a page at this width, in light or dark mode.
fn open(browser: &mut Browser, file: &Path, width: u32, dark: bool) {
    browser.emulate(width, dark);
    browser.show(file);
}

/// The page of [`run`] in a browser.
struct Shown {
    browser: Browser,
    file: PathBuf,
    report: Value,
}

impl Shown {
    /// Opens the page again.
    fn open(&mut self, width: u32, dark: bool) -> &mut Browser {
        open(&mut self.browser, &self.file, width, dark);
        &mut self.browser
    }
}

/// All parts use one browser, because it takes longer to start than a part.
#[test]
fn the_page_of_a_run_works() {
    let scratch = Scratch::new();
    let (file, report) = page(&run(), &scratch);
    let page = &mut Shown { browser: Browser::start(1440, false), file, report };
    every_chart_has_its_lines_and_the_page_requests_nothing(page);
    the_script_formats_figures_like_the_rest_of_the_report(page);
    a_gateway_is_switched_off_everywhere_at_once(page);
    keys_and_mouse_show_values_with_units(page);
    nothing_is_wider_than_the_screen(page);
    charts_and_tables_are_saved_as_files(page);
    everything_can_be_read_in_light_and_in_dark(page);
    tables_are_copied(page);
    print_includes_folded_parts(page);
}

#[test]
fn pages_of_other_runs_work() {
    let browser = &mut Browser::start(1440, false);
    prices_are_drawn_at_the_load_that_is_chosen(browser);
    the_first_screen_has_all_gateways(browser);
    a_page_with_many_cases_loads_within_a_second(browser);
    profiles::charts_work(browser);
}

/// Scrolls past every chart. Waits until each chart has been drawn, or reports that there is nothing to draw.
const SCROLL: &str = "(async () => { for (const one of document.querySelectorAll('figure.chart')) { \
    one.scrollIntoView({ behavior: 'instant' }); \
    while (one.dataset.series === undefined) await new Promise((done) => setTimeout(done, 10)); } })()";

/// Finds texts with too little contrast.
pub(crate) const CONTRAST: &str = include_str!("contrast.js");

/// Script that returns for each chart: its kind, the number of lines that it should have, and whether the
/// lines are drawn.
const CHARTS: &str = "[...document.querySelectorAll('figure.chart')].filter((one) => !one.hidden).map((one) \
    => [one.dataset.chart, Number(one.dataset.series), Boolean(one.querySelector('svg path'))])";

fn assert_no_errors(browser: &mut Browser) {
    assert_eq!(browser.complaints(), [""; 0]);
    assert_eq!(browser.requests(), [""; 0], "the page sent a request");
    assert_eq!(browser.ask("typeof hacked"), "undefined");
}

fn every_chart_has_its_lines_and_the_page_requests_nothing(page: &mut Shown) {
    let browser = page.open(1440, false);
    browser.ask(SCROLL);
    let expected = [
        ("tax", 3),
        ("frontier", 4),
        ("curve", 4),
        ("sweep", 4),
        ("sweep", 4),
        ("sweep", 4),
        ("sweep", 4),
        ("sweep", 3),
        ("sweep", 3),
        ("time", 5),
        ("cpu", 3),
        ("memory", 2),
        ("path", 6),
    ];
    assert_eq!(browser.ask(CHARTS), json!(expected.map(|(kind, lines)| (kind, lines, true))));
    assert_no_errors(browser);
}

fn prices_are_drawn_at_the_load_that_is_chosen(browser: &mut Browser) {
    let scratch = Scratch::new();
    let (file, _) = page(&matrix(230, 33), &scratch);
    open(browser, &file, 390, true);
    browser.ask(SCROLL);
    let charts = browser.ask(CHARTS);
    let prices: Vec<&Value> =
        charts.as_array().expect("charts").iter().filter(|one| one[0] == "price").collect();
    assert_eq!(prices, [&json!(["price", 3, true])], "{charts}");
    assert_no_errors(browser);
}

fn the_script_formats_figures_like_the_rest_of_the_report(page: &mut Shown) {
    let report = page.report.clone();
    let browser = page.open(1440, false);
    // The table is closed at first. The page fills the table only after the user has opened it.
    browser.ask("document.querySelector('figure[data-chart=tax] details').open = true");
    browser.until("document.querySelector('figure[data-chart=tax] details tbody') !== null");
    let drawn = browser.ask(
        "[...document.querySelectorAll('figure[data-chart=tax] details tbody tr')] \
         .map((row) => [...row.cells].slice(0, 3).map((cell) => cell.textContent))",
    );
    let rows = drawn.as_array().expect("rows");
    assert_eq!(rows.len(), 3, "{drawn}");
    let reported = browser.ask(
        "Object.fromEntries([...document.querySelectorAll('[data-load=\"0\"] \
         table')][0].querySelectorAll('tbody tr') .values().map((row) => [row.dataset.gateway, \
         [row.cells[5].firstChild.textContent, row.cells[5].querySelector('small')?.textContent]]))",
    );
    for row in rows {
        let who = row[0].as_str().expect("a label");
        let (value, range) = (&reported[who][0], &reported[who][1]);
        assert_eq!(
            (row[1].as_str(), &row[2]),
            (value.as_str().map(|text| text.trim_start_matches('~')), range),
            "{who}"
        );
        let cases = report["cases"].as_array().expect("cases");
        let case =
            cases.iter().find(|one| one["gateway"] == who && one["load"]["index"] == 0).expect("measured");
        let us = case["tax"]["added_p50"]["estimate"].as_f64().expect("a tax");
        let digits: String =
            row[1].as_str().expect("text").chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
        assert!((digits.parse::<f64>().expect("a number") - us).abs() < 0.51, "{row} for {us}");
    }
    assert_no_errors(browser);
}

fn a_gateway_is_switched_off_everywhere_at_once(page: &mut Shown) {
    let browser = page.open(1440, false);
    browser.ask(SCROLL);
    let chip = "[...document.querySelectorAll('.chip')].find((one) => one.textContent === 'envoy')";
    browser.ask(&format!("{chip}.click()"));
    assert_eq!(browser.ask(&format!("{chip}.getAttribute('aria-pressed')")), "false");
    let charts = browser.ask(CHARTS);
    let of = |kind: &str| {
        charts.as_array().expect("charts").iter().find(|one| one[0] == kind).expect("there")[1].clone()
    };
    assert_eq!(
        [of("tax"), of("curve"), of("sweep"), of("time"), of("frontier"), of("path")],
        [2, 3, 3, 4, 3, 4].map(Value::from)
    );
    assert_eq!(
        browser.ask("[...document.querySelectorAll('[data-gateway=envoy]')].every((row) => row.hidden)"),
        true
    );
    // Another load has other tables but the same gateways.
    browser.ask(
        "(() => { const load = document.getElementById('load'); load.value = 3; load.dispatchEvent(new \
     Event('change')); })()",
    );
    let shown = browser.ask(
        "[...new Set([...document.querySelectorAll('[data-load]')].filter((part) => \
     !part.hidden).map((part) => part.dataset.load))]",
    );
    assert_eq!(shown, json!(["3"]));
    browser.ask("document.querySelector('.chip.all').click()");
    assert_eq!(browser.ask(CHARTS)[0], json!(["tax", 3, true]));
    assert_no_errors(browser);
}

fn keys_and_mouse_show_values_with_units(page: &mut Shown) {
    let browser = page.open(1440, false);
    browser.ask("document.querySelector('figure[data-chart=tax] .canvas').focus()");
    browser.press("ArrowRight");
    let said = "document.querySelector('figure[data-chart=tax] [aria-live]').textContent";
    browser.until(&format!("{said}.includes('µs')"));
    assert!(
        browser.ask(said).as_str().is_some_and(|text| text.starts_with("nginx")),
        "the least tax comes first"
    );
    browser.press("ArrowRight");
    browser.until(&format!("{said}.startsWith({})", json!(HOSTILE)));
    browser.ask("document.activeElement.blur()");
    browser.ask(SCROLL);
    // Points again until the tooltip is shown, because the chart may be redrawn or moved after the first
    // attempt.
    let begun = Instant::now();
    let shows_value = "document.querySelector('figure[data-chart=curve] .tip')?.textContent.includes('µs')";
    while browser.ask(shows_value) != true {
        assert!(begun.elapsed() < PATIENCE, "the chart shows no value");
        let place = browser.ask(
            "(() => { const curve = document.querySelector('figure[data-chart=curve] .canvas'); \
             curve.scrollIntoView({block: 'center', behavior: 'instant'}); const box = \
             curve.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()",
        );
        let (x, y) = (place[0].as_f64().expect("x"), place[1].as_f64().expect("y"));
        // The pointer must move, because the page reacts only to movement.
        browser.point_at(x - 1.0, y);
        browser.point_at(x, y);
    }
    let tip = browser.ask("document.querySelector('figure[data-chart=curve] .tip').textContent");
    assert!(tip.as_str().is_some_and(|tip| tip.contains("direct") && tip.contains(HOSTILE)), "{tip}");
    assert_no_errors(browser);
}

fn nothing_is_wider_than_the_screen(page: &mut Shown) {
    for (width, dark) in [(390, true), (1440, false)] {
        let browser = page.open(width, dark);
        browser.ask(SCROLL);
        assert_eq!(browser.ask("innerWidth"), width);
        let wide = browser.ask("document.documentElement.scrollWidth");
        assert!(wide.as_u64().is_some_and(|wide| wide <= width.into()), "{wide} at {width}");
        let over = "[...document.querySelectorAll('figure svg')].filter((one) => \
         one.getBoundingClientRect().right > innerWidth).length";
        assert_eq!(browser.ask(over), 0, "charts are cut at {width}");
        let scheme = browser.ask("getComputedStyle(document.documentElement).colorScheme");
        assert_eq!(scheme, if dark { "dark" } else { "light" });
        assert_no_errors(browser);
    }
}

fn charts_and_tables_are_saved_as_files(page: &mut Shown) {
    let browser = page.open(1440, false);
    let place = browser.downloads();
    for name in ["SVG", "PNG"] {
        browser.ask(&format!(
            "[...document.querySelectorAll('figure[data-chart=tax] .tools button')].find((one) => \
             one.textContent === '{name}').click()"
        ));
    }
    browser.ask(
        "[...document.querySelectorAll('[data-load=\"0\"] .table-tools button')].find((one) => \
     one.textContent === 'Save CSV').click()",
    );
    // Waits until the file is complete, because the browser writes it in parts.
    let saved = |ending: &str, last: &[u8]| {
        wait_for(&format!("a whole {ending} is saved"), PATIENCE, || {
            let mut files = std::fs::read_dir(&place).expect("there").flatten().map(|entry| entry.path());
            let found = files.find(|path| path.extension().is_some_and(|one| one == ending));
            found.and_then(|path| std::fs::read(path).ok()).filter(|bytes| bytes.ends_with(last))
        })
    };
    let svg = String::from_utf8(saved("svg", b"</svg>")).expect("text");
    let document = roxmltree::Document::parse(&svg).expect("XML");
    let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
    assert!(texts.contains(&"nginx"), "{texts:?}");
    // The last chunk of a PNG with its checksum.
    assert!(saved("png", b"IEND\xaeB`\x82").starts_with(b"\x89PNG"));
    let csv = String::from_utf8(saved("csv", b"\n")).expect("text");
    assert!(csv.starts_with("gateway,requests/s,") && csv.lines().count() == 5, "{csv}");
    assert_no_errors(browser);
}

fn everything_can_be_read_in_light_and_in_dark(page: &mut Shown) {
    for dark in [false, true] {
        let browser = page.open(1440, dark);
        browser.ask(SCROLL);
        browser.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })");
        browser.until(
            "[...document.querySelectorAll('figure.chart')].every((one) => one.hidden || \
            one.querySelector('details table'))",
        );
        let reported = browser.ask(CONTRAST);
        assert!(reported["looked"].as_u64().expect("a count") > 300, "{reported}");
        assert_eq!(reported["poor"], json!([]), "dark: {dark}");
        browser.ask("document.documentElement.style.setProperty('--quiet', '#777')");
        assert_ne!(browser.ask(CONTRAST)["poor"], json!([]), "the contrast check finds a mid grey");
    }
}

fn tables_are_copied(page: &mut Shown) {
    let browser = page.open(1440, false);
    browser.allow_clipboard();
    let mut copied = |which: &str| {
        let press = format!(
            "(async () => {{ const button = [...document.querySelectorAll('[data-load=\"0\"] .table-tools \
             button')].find((one) => one.textContent === '{which}'); const rest = (ms) => new \
             Promise((done) => setTimeout(done, ms)); const called = async (name) => {{ while \
             (button.textContent !== name) await rest(5); }}; button.click(); await called('Copied'); const \
             text = await navigator.clipboard.readText(); button.click(); await called('{which}'); await \
             rest(300); await called('{which}'); return text; }})()"
        );
        // After the second click, too, the label returns to normal.
        browser.ask(&press).as_str().expect("text").to_owned()
    };
    let (csv, markdown) = (copied("Copy CSV"), copied("Copy Markdown"));
    assert!(csv.starts_with("gateway,requests/s,") && csv.lines().count() == 5, "{csv}");
    let lines: Vec<&str> = markdown.lines().collect();
    assert!(
        lines[0].starts_with("| gateway | requests/s |") && lines[1].starts_with("|---|---:|"),
        "{markdown}"
    );
    assert_eq!(lines.len(), 6, "{markdown}");
    assert_no_errors(browser);
}

fn print_includes_folded_parts(page: &mut Shown) {
    let browser = page.open(1440, false);
    let open =
        "[...document.querySelectorAll('details:not(.figures):not(.file)')].filter((one) => one.open).length";
    let all = browser.ask("document.querySelectorAll('details:not(.figures):not(.file)').length");
    assert!(all.as_u64().expect("a count") > 3 && browser.ask(open) != all);
    browser.ask("dispatchEvent(new Event('beforeprint'))");
    assert_eq!(browser.ask(open), all);
    browser.ask("dispatchEvent(new Event('afterprint'))");
    assert_ne!(browser.ask(open), all);
}

fn the_first_screen_has_all_gateways(browser: &mut Browser) {
    let scratch = Scratch::new();
    let names: Vec<String> = (0..20).map(|index| format!("nginx.key-auth.header-rewrite-{index}")).collect();
    let gateways: Vec<(&str, u64)> =
        names.iter().zip(0..).map(|(name, index)| (name.as_str(), 150 + 10 * index)).collect();
    let (file, _) = page(&Run::steady(3, 100, &gateways), &scratch);
    open(browser, &file, 1440, false);
    let height = browser.ask("document.querySelector('figure[data-chart=tax] .canvas').clientHeight");
    assert!(height.as_u64().expect("px") < 600, "{height}");
    assert_no_errors(browser);
}

fn a_page_with_many_cases_loads_within_a_second(browser: &mut Browser) {
    let scratch = Scratch::new();
    let mut run = Run::with_load((0..6).map(|index| open_point(1000.0, 2 << index, 10)).collect());
    let windows: Vec<Vec<u64>> = (0..100).map(|window| vec![200 + window; 10]).collect();
    for round in 0..5 {
        for load in 0..6 {
            for who in ["direct", "nginx", "haproxy", "envoy"] {
                run.push(via(who, round).windows_us(&windows).at_load(load));
            }
        }
    }
    let (file, _) = page(&run, &scratch);
    assert!(std::fs::metadata(&file).expect("there").len() < 2 << 20);
    open(browser, &file, 1440, false);
    let ready = browser.ask("document.querySelector('figure[data-chart=tax]').dataset.drawn !== undefined");
    assert_eq!(ready, true, "the first screen is complete at once");
    let took = retry_if_disturbed(|| {
        browser.show(&file);
        let event = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd";
        let took = browser.ask(event).as_f64().expect("ms");
        if took < 5000.0 { Ok(took) } else { Err(format!("ready after {took:.0} ms")) }
    });
    println!("24 cases: ready after {took:.0} ms");
    assert!(took < 5000.0, "{took} ms");
    assert_no_errors(browser);
}
