//! Tests of the server's pages in Chromium.

use super::lab::{TOKEN, analyse, changed_history, current_state, get, history, put, request, run, served};
use crate::browser::CONTRAST;
use crate::browser::client::Browser;
use crate::report::fixture::{Run, via};
use crate::support::server::{self, Response};
use crate::support::{Json, Scratch};
use hoptax_history::live::{Board, Round, Second, Stage};
use hoptax_history::serve::Server;
use hoptax_plan::Metric;
use serde_json::json;
use std::path::Path;

/// Environment variable that names a directory for screenshots.
const PICTURES: &str = "HOPTAX_PICTURES";

struct Page {
    browser: Browser,
    origin: String,
}

impl Page {
    fn open(server: &Server, width: u32, dark: bool) -> Self {
        let mut page =
            Self { browser: Browser::start(width, dark), origin: format!("http://{}", server.address()) };
        // The browser keeps the cookie.
        page.visit(&format!("/?token={TOKEN}"));
        page.browser.until("location.search === '' && Boolean(document.getElementById('runs'))");
        page
    }

    fn visit(&mut self, path: &str) {
        self.browser.visit(&format!("{}{path}", self.origin));
    }

    /// Waits until this expression is true and the page's script has run.
    fn reach(&mut self, expression: &str) {
        self.browser.until(&format!("document.documentElement?.dataset.ready === '1' && ({expression})"));
    }

    fn ask(&mut self, expression: &str) -> serde_json::Value {
        self.browser.ask(expression)
    }

    fn picture(&mut self, name: &str) {
        if let Some(place) = std::env::var_os(PICTURES) {
            // Waits until charts are drawn completely. Only screenshots need this.
            self.ask("new Promise((done) => setTimeout(done, 1500))");
            self.browser.picture(&Path::new(&place).join(format!("{name}.png")));
        }
    }

    /// Asserts that the page logged no error, requested nothing from other servers, and is not wider than the
    /// window.
    fn assert_no_problems(&mut self) {
        assert_eq!(self.browser.complaints(), [""; 0]);
        let other_origin: Vec<String> =
            self.browser.requests().into_iter().filter(|url| !url.starts_with(&self.origin)).collect();
        assert_eq!(other_origin, [""; 0], "the page requested another server");
        assert_eq!(
            self.ask("document.documentElement.scrollWidth <= innerWidth"),
            true,
            "it is wider than the screen"
        );
    }
}

fn over(live: Option<Board>) -> (Scratch, Server) {
    let history = history();
    analyse(history.path());
    let server = served(history.path(), live);
    (history, server)
}

const SHOWN: &str = "[...document.querySelectorAll('#runs .run')].map((run) => run.dataset.id)";

#[test]
fn the_list_is_filtered_while_typing() {
    let (_history, server) = over(None);
    let mut page = Page::open(&server, 1440, false);
    page.visit("/");
    assert_eq!(page.ask(SHOWN).as_array().map(Vec::len), Some(9));
    page.picture("list");
    page.ask(
        "(() => { const box = document.querySelector('[name=text]'); box.value = 'nightly 1.24'; \
         box.dispatchEvent(new Event('input', { bubbles: true })); })()",
    );
    page.browser.until(&format!("{SHOWN}.length === 2"));
    assert_eq!(page.ask("location.search"), "?text=nightly+1.24");
    page.ask(
        "(() => { const box = document.querySelector('[name=text]'); box.value = ''; const state = \
         document.querySelector('[name=state]'); state.value = 'broken'; state.dispatchEvent(new \
         Event('input', { bubbles: true })); })()",
    );
    page.browser.until(&format!("{SHOWN}.length === 1"));
    assert_eq!(page.ask("document.querySelector('.run .badge').textContent"), "broken");
    // The address contains the search, so that the user can open the same search again.
    page.visit("/?text=other");
    assert_eq!(page.ask(SHOWN).as_array().map(Vec::len), Some(2));
    assert_eq!(page.ask("document.querySelector('.run h2 a').textContent"), "<b>other</b>");
    page.assert_no_problems();
}

#[test]
fn a_long_list_loads_more_on_demand() {
    let scratch = Scratch::new();
    for number in 0..60 {
        put(scratch.path(), &format!("20261101T{number:06}Z-many"), number, run("many", 150), "1");
    }
    let server = served(scratch.path(), None);
    let mut page = Page::open(&server, 390, true);
    page.visit("/");
    assert_eq!(page.ask(SHOWN).as_array().map(Vec::len), Some(50));
    // An impatient user clicks twice. The page must still send only one request.
    page.ask("(() => { const more = document.getElementById('more'); more.click(); more.click(); })()");
    page.browser.until(&format!("{SHOWN}.length >= 60"));
    // When this request has been answered, all earlier requests have been answered too.
    page.ask("fetch('/').then((answer) => answer.text())");
    assert_eq!(page.ask(&format!("[{SHOWN}.length, new Set({SHOWN}).size]")), json!([60, 60]));
    assert_eq!(page.ask("document.getElementById('more')"), json!(null));
    page.assert_no_problems();
}

#[test]
fn two_runs_are_chosen_and_compared() {
    let (_history, server) = over(None);
    let mut page = Page::open(&server, 1440, false);
    page.visit("/");
    let choose = |id: &str| format!("document.querySelector('[data-id=\"{id}\"] input').click()");
    page.ask(&choose("20261104T000000Z-nightly"));
    assert_eq!(page.ask("document.getElementById('compare').disabled"), true);
    page.ask(&choose("20261101T000000Z-nightly"));
    page.ask("document.getElementById('compare').click()");
    page.reach("location.pathname === '/compare'");
    // The earlier run must come first in the comparison.
    assert_eq!(page.ask("location.search"), "?a=20261101T000000Z-nightly&b=20261104T000000Z-nightly");
    assert_eq!(
        page.ask("document.getElementById('headline').textContent"),
        "20261104T000000Z-nightly is worse than 20261101T000000Z-nightly."
    );
    assert!(page.ask("document.querySelectorAll('#compared tr.stands').length").as_u64() > Some(0));
    page.picture("compare");
    page.ask("document.getElementById('swap').click()");
    page.reach("document.getElementById('headline')?.textContent.includes('better') === true");
    page.assert_no_problems();
}

/// Query that compares two runs of one plan. nginx is slower in the second run.
const CHANGED: &str = "a=20261101T000000Z-nightly&b=20261104T000000Z-nightly";

/// Script that reads the chart of a comparison, as drawn on the page.
const DRAWN: &str = include_str!("drawn.js");

/// Rows of the comparison from the JSON interface, in the order of the chart. If `all` is false, returns only
/// the rows that the chart shows at first.
fn rows_of(server: &Server, query: &str, all: bool) -> Vec<Json> {
    let reported = get(server.address(), &format!("/api/v1/compare?{query}")).json();
    let called = |row: &Json| row["verdict"] != "not distinguishable";
    let mut rows = reported["rows"].as_array().expect("rows").clone();
    rows.retain(|row| all || row["headline"] == true || called(row));
    rows.sort_by_key(|row| (!is_significant(row), !called(row)));
    rows
}

fn is_significant(row: &Json) -> bool {
    row["headline"] == true && row["verdict"] != "not distinguishable"
}

/// Compares the chart with the rows of the JSON interface. Each row must be drawn once and in the same order.
/// Its mark must be at the right place on the axis.
fn chart_matches_rows(drawn: &Json, rows: &[Json], colours: &Json) {
    let list = |name: &str| drawn[name].as_array().unwrap_or_else(|| panic!("{name}: {drawn}")).clone();
    let number = |value: &Json| value.as_f64().expect("a number");
    let (axis, names, marks) = (list("axis"), list("names"), list("marks"));
    let reported: Vec<(String, bool)> = rows
        .iter()
        .map(|row| {
            let metric = Metric::ALL.iter().find(|metric| row["metric"] == metric.name()).expect("a metric");
            (format!("{} {}", row["label_b"].as_str().expect("text"), metric.words()), is_significant(row))
        })
        .collect();
    let shown: Vec<(String, bool)> = names
        .iter()
        .map(|name| (name["text"].as_str().expect("text").to_owned(), name["bold"] == true))
        .collect();
    assert_eq!(shown, reported);
    let (first, last) = (&axis[0], &axis[axis.len() - 1]);
    assert!(axis.len() >= 3, "{axis:?}");
    let scale = (number(&last[1]) - number(&first[1])) / (number(&last[0]) - number(&first[0]));
    let on_axis = |share: &Json| number(&first[1]) + (number(share) - number(&first[0])) * scale;
    let mut marks = marks.iter();
    for (row, name) in rows.iter().zip(&names).filter(|(row, _)| row["change"]["low"].is_number()) {
        let (change, mark) = (&row["change"], marks.next().unwrap_or_else(|| panic!("no mark for {row}")));
        assert!((number(&mark["x"]) - on_axis(&change["estimate"])).abs() < 1.5, "{mark} is not {change}");
        assert!(
            (number(&mark["y"]) - number(&name["y"])).abs() < 60.0,
            "{mark} is of another row than {name}"
        );
        let (round, colour, filled) = match row["verdict"].as_str().expect("a verdict") {
            "better" => (true, &colours["good"], true),
            "worse" => (false, &colours["bad"], true),
            _ => (true, &colours["quiet"], false),
        };
        assert_eq!((&mark["round"], &mark["stroke"]), (&json!(round), colour), "{row}");
        assert_eq!(mark["fill"] == *colour, filled, "{row}");
        let [low, high] = ["low", "high"].map(|end| on_axis(&change[end]));
        let here = |line: &&Json| (number(&line[1]) - number(&mark["y"])).abs() < 1.5;
        let lines = list("lines");
        match lines.iter().find(here) {
            Some(line) => {
                assert!(
                    (number(&line[0]) - low).abs() < 1.5 && (number(&line[2]) - high).abs() < 1.5,
                    "{line}: {change}"
                );
            }
            None => assert!(high - low < 1.5, "no interval is drawn of {change}"),
        }
    }
    assert_eq!(marks.next(), None, "marks for what was not measured");
    assert_eq!(list("untold").len(), rows.iter().filter(|row| !row["change"]["low"].is_number()).count());
}

#[test]
fn a_comparison_chart_matches_the_interface() {
    let (_history, server) = over(None);
    let (few, all) = (rows_of(&server, CHANGED, false), rows_of(&server, CHANGED, true));
    assert!(
        few.iter().any(is_significant)
            && all.len() > few.len()
            && all.iter().any(|row| row["change"].is_null())
    );
    for (width, dark) in [(1440, false), (390, true)] {
        let mut page = Page::open(&server, width, dark);
        page.visit(&format!("/compare?{CHANGED}"));
        page.ask("document.getElementById('changes').scrollIntoView({ behavior: 'instant' })");
        page.picture(&format!("changes-{width}"));
        let colours = page.ask(
            "Object.fromEntries(['good', 'bad', 'quiet'].map((name) => [name, \
             getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()]))",
        );
        let drawn = page.ask(DRAWN);
        chart_matches_rows(&drawn, &few, &colours);
        let looked = page.ask(CONTRAST);
        assert!(looked["looked"].as_u64() > Some(60), "{looked}");
        assert_eq!(looked["poor"], json!([]), "dark: {dark}");
        page.ask("document.getElementById('all-changes').click()");
        let drawn_all = page.ask(DRAWN);
        chart_matches_rows(&drawn_all, &all, &colours);
        assert!(drawn_all["height"].as_u64() > drawn["height"].as_u64().map(|height| height * 2), "{width}");
        page.picture(&format!("changes-all-{width}"));
        page.assert_no_problems();
    }
}

#[test]
fn a_row_of_the_chart_shows_the_values_of_its_table_row() {
    let (_history, server) = over(None);
    let mut page = Page::open(&server, 1440, false);
    page.visit(&format!("/compare?{CHANGED}"));
    page.ask("document.getElementById('changes').scrollIntoView({ behavior: 'instant' })");
    let reported = page.ask(
        "(() => { const row = [...document.querySelectorAll('#compared tbody tr')].find((row) => \
         row.innerText.includes('added p50')); const [before, after, change] = [...row.cells].slice(2, \
         5).map((cell) => `${cell.firstChild.textContent} (${cell.querySelector('small').textContent})`); \
         return ['nginx, closed loop, 32 connections', 'added p50', `before ${before}`, `after ${after}`, \
         `change ${change}`, 'worse']; })()",
    );
    let lines: Vec<&str> = reported.as_array().expect("lines").iter().filter_map(Json::as_str).collect();
    assert!(lines[2].contains(" µs (") && lines[4].starts_with("change +80.2 % ("), "{lines:?}");
    // The tooltip must appear when the pointer is anywhere in the row. This place is far from the mark.
    let place = page.ask(&format!(
        "(() => {{ const drawn = {DRAWN}; const all = \
         document.querySelector('#changes svg').getBoundingClientRect(); return [all.x + 30, all.y + \
         drawn.names[1].y]; }})()"
    ));
    page.browser.point_at(place[0].as_f64().expect("x"), place[1].as_f64().expect("y"));
    let tip = "document.querySelector('#changes .tip')?.innerText.trim().split('\\n')";
    page.browser.until(&format!("Boolean({tip}?.includes('added p50'))"));
    assert_eq!(page.ask(tip), reported);
    page.browser.point_at(1.0, 1.0);
    page.ask("document.querySelector('#changes .canvas').focus()");
    let said = "document.querySelector('#changes [aria-live]').textContent";
    page.browser.press("ArrowDown");
    let first = page.ask(said);
    assert!(
        first
            .as_str()
            .is_some_and(|said| said.contains("CPU per request, before ")
                && said.ends_with("worse, part of the verdict")),
        "{first}"
    );
    page.browser.press("ArrowDown");
    assert_eq!(page.ask(said), lines.join(", "));
    page.browser.until(&format!("Boolean({tip}?.includes('added p50'))"));
    page.browser.press("End");
    page.browser.press("ArrowDown");
    let last = page.ask(said);
    assert!(
        last.as_str()
            .is_some_and(|said| said.starts_with("haproxy, ") && said.ends_with("not distinguishable")),
        "{last}"
    );
    // When all rows are shown, the page scrolls to them.
    page.ask("document.getElementById('all-changes').click()");
    page.browser.press("End");
    let seen = format!(
        "(() => {{ const all = document.querySelector('#changes svg').getBoundingClientRect(); const {{ \
         names }} = {DRAWN}; return [names.length, Math.round(all.top), all.top + names.at(-1).y > 60 && \
         all.top + names.at(-1).y + 150 < innerHeight]; }})()"
    );
    let end = page.ask(&seen);
    assert!(end[0].as_u64() > Some(30) && end[1].as_i64() < Some(-300) && end[2] == true, "{end}");
    page.browser.press("ArrowUp");
    page.browser.press("Home");
    assert_eq!(page.ask(said), first);
    assert!(page.ask(&seen)[1].as_i64() > Some(0));
    page.assert_no_problems();
}

/// A history with two runs, `a` and `b`.
fn pair(runs: [Run; 2]) -> (Scratch, Server) {
    let scratch = Scratch::new();
    for (day, (id, run)) in ["20261101T000000Z-a", "20261102T000000Z-b"].into_iter().zip(runs).enumerate() {
        put(scratch.path(), id, day as u64, run, "1.26");
    }
    let server = served(scratch.path(), None);
    (scratch, server)
}

const PAIR: &str = "a=20261101T000000Z-a&b=20261102T000000Z-b";

#[test]
fn outliers_are_arrows_and_do_not_stretch_the_axis() {
    let mut after = run("nightly", 190);
    let trials = after.trials.iter_mut().filter(|trial| trial.contender == "haproxy");
    for (round, trial) in trials.enumerate() {
        trial.gateway.as_mut().expect("watched").cpu_ns = if round == 3 { 900_000_000 } else { 15_000_000 };
    }
    let (_history, server) = pair([run("nightly", 150), after]);
    let mut page = Page::open(&server, 1440, false);
    page.visit(&format!("/compare?{PAIR}"));
    let drawn = page.ask(DRAWN);
    let names = drawn["names"].as_array().expect("names");
    let wild = names.iter().find(|name| name["text"] == "haproxy CPU per request").expect("a row");
    let arrows = drawn["arrows"].as_array().expect("arrows");
    let near = |arrow: &Json| (arrow["y"].as_f64().expect("y") - wild["y"].as_f64().expect("y")).abs() < 20.0;
    // The mark and both ends of the interval are outside the axis, so the chart shows arrows instead.
    assert_eq!((arrows.len(), arrows.iter().filter(|arrow| near(arrow)).count()), (3, 3), "{arrows:?}");
    let most = drawn["axis"].as_array().and_then(|axis| axis.last()).and_then(|last| last[0].as_f64());
    assert!(most < Some(2.0), "{drawn}");
    page.assert_no_problems();
}

#[test]
fn without_percentages_there_is_no_chart() {
    // In the first case, the interval is twice as wide as the value.
    let wild = || {
        let mut run = Run::closed(32);
        for (round, direct, nginx) in [(0, 20, 90_000), (1, 90_000, 20)] {
            let trial = |who: &str, us| via(who, round).all_at_us(us).throughput(90_000 / us + 1).unwatched();
            run.push(trial("direct", direct).first());
            run.push(trial("nginx", nginx)).push(trial("direct", direct).last());
        }
        run
    };
    let (_history, server) = pair([wild(), wild()]);
    assert!(!rows_of(&server, PAIR, true).is_empty());
    for row in rows_of(&server, PAIR, true) {
        assert!(!row["change"]["low"].is_number(), "it is known: {row}");
    }
    let mut page = Page::open(&server, 390, false);
    page.visit(&format!("/compare?{PAIR}"));
    assert_eq!(page.ask("document.querySelectorAll('#compared tbody tr').length > 0"), true);
    assert_eq!(page.ask("document.querySelector('.chart, .canvas')"), json!(null));
    page.assert_no_problems();
}

#[test]
fn one_trial_is_a_mark_without_an_interval() {
    let once = |nginx_us| Run::steady(1, 100, &[("nginx", nginx_us)]);
    let (_history, server) = pair([once(150), once(190)]);
    let mut page = Page::open(&server, 1440, false);
    page.visit(&format!("/compare?{PAIR}"));
    let drawn = page.ask(DRAWN);
    assert_eq!((drawn["marks"].as_array().map(Vec::len), &drawn["lines"]), (Some(2), &json!([])), "{drawn}");
    assert_eq!(page.ask("document.querySelector('#changes svg').textContent.includes('one trial')"), true);
    page.assert_no_problems();
}

#[test]
fn a_verdict_that_its_percentage_does_not_show_is_explained() {
    // In seven rounds, nginx uses half of haproxy's CPU time. In the last round, haproxy's CPU time is tiny,
    // and nginx uses a hundred times as much.
    let mut run = Run::steady(8, 100, &[("haproxy", 150), ("nginx", 150)]);
    for trial in run.trials.iter_mut().filter(|trial| trial.contender != "direct") {
        let us = match (trial.contender.as_str(), trial.round) {
            ("haproxy", 7) => 1,
            (_, 7) => 100,
            ("haproxy", _) => 1_000,
            _ => 500,
        };
        trial.gateway.as_mut().expect("watched").cpu_ns = us * 15_000;
    }
    let (_history, server) = pair([run, Run::steady(2, 100, &[("nginx", 150)])]);
    let query = "a=20261101T000000Z-a&label_a=haproxy&label_b=nginx";
    let mut page = Page::open(&server, 1440, false);
    page.visit(&format!("/compare?{query}"));
    let reported = rows_of(&server, "a=20261101T000000Z-a&labels=haproxy,nginx", false);
    let cpu = reported.iter().find(|row| row["metric"] == "cpu_us_per_request").expect("a row");
    assert_eq!(cpu["verdict"], "better");
    assert!(cpu["change"]["low"].as_f64() < Some(0.0) && cpu["change"]["high"].as_f64() > Some(0.0), "{cpu}");
    assert_eq!(page.ask("document.getElementById('across-zero').hidden"), false);
    page.visit(&format!("/compare?{PAIR}"));
    assert_eq!(page.ask("document.getElementById('across-zero').hidden"), true);
    page.assert_no_problems();
}

#[test]
fn different_plans_are_compared_only_on_request() {
    let (_history, server) = over(None);
    let mut page = Page::open(&server, 390, false);
    page.visit("/compare?a=20261101T000000Z-nightly&b=20261111T000000Z-other");
    assert_eq!(page.ask("document.querySelector('#refused tbody th').textContent"), "target");
    page.picture("refused-390");
    page.assert_no_problems();
    page.ask("document.getElementById('force').click()");
    page.reach("document.getElementById('headline') !== null");
    page.assert_no_problems();
}

#[test]
fn a_run_is_read_tagged_and_deleted() {
    let (history, server) = over(None);
    let mut page = Page::open(&server, 1440, true);
    page.visit("/runs/20261103T000000Z-nightly");
    page.browser.until("document.getElementById('report') !== null");
    page.picture("run-dark");
    page.ask(
        "(() => { const form = document.getElementById('annotate'); form.elements.tags.value = 'slow, \
         kernel'; form.elements.note.value = 'after <b>'; form.requestSubmit(); })()",
    );
    page.browser.until("document.getElementById('outcome').textContent === 'Saved.'");
    page.visit("/runs/20261103T000000Z-nightly");
    assert_eq!(page.ask("document.querySelector('[name=tags]').value"), "kernel, slow");
    assert_eq!(page.ask("document.querySelector('[name=note]').value"), "after <b>");
    assert_eq!(
        page.ask(
            "['prev', 'next'].map((rel) => document.querySelector(`a[rel=${rel}]`).getAttribute('href'))"
        ),
        json!(["/runs/20261102T000000Z-nightly", "/runs/20261104T000000Z-nightly"])
    );
    let click = |place: &str| format!("document.querySelector('{place}').click();");
    let asked = click("#delete");
    let [no, yes] = ["no", "yes"].map(|answer| click(&format!("#sure [value={answer}]")));
    page.ask(&asked);
    assert_eq!(page.ask("document.getElementById('sure').open"), true);
    page.ask(&no);
    assert_eq!(page.ask("document.getElementById('sure').open"), false);
    assert!(history.path().join("20261103T000000Z-nightly").exists());
    // Cancels the dialog, opens it again at once, and confirms. The page must delete the run exactly once.
    page.ask(&format!("{asked}{no}{asked}{yes}"));
    page.reach("location.pathname === '/'");
    assert!(!history.path().join("20261103T000000Z-nightly").exists());
    page.assert_no_problems();
}

#[test]
fn a_report_is_embedded_and_isolated() {
    let (_history, server) = over(None);
    let mut page = Page::open(&server, 390, false);
    page.visit("/runs/20261101T000000Z-nightly");
    page.browser.until(
        "performance.getEntriesByType('resource').some((one) => one.name.endsWith('report.html') && \
        one.responseEnd > 0)",
    );
    assert_eq!(
        page.ask("document.getElementById('report').contentDocument"),
        json!(null),
        "the report is of our origin"
    );
    assert_eq!(
        page.ask("document.getElementById('report').getBoundingClientRect().width <= innerWidth"),
        true
    );
    page.picture("run-390");
    page.assert_no_problems();
}

#[test]
fn a_trend_has_a_point_for_each_run() {
    let (_history, server) = over(None);
    for (width, dark) in [(1440, false), (390, true)] {
        let mut page = Page::open(&server, width, dark);
        page.visit("/trends?name=nightly&gateway=nginx&metric=added_p50");
        assert_eq!(page.ask("document.getElementById('trend').dataset.points"), "5");
        assert_eq!(page.ask("document.querySelectorAll('#trend-table tbody tr').length"), 5);
        let marks = "document.querySelectorAll('#trend svg path').length";
        page.browser.until(&format!("{marks} >= 5"));
        page.picture(&format!("trend-{width}"));
        page.ask(
            "(() => { const canvas = document.querySelector('#trend .canvas'); canvas.focus(); for \
             (const _ of [1, 2, 3]) canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' \
             })); })()",
        );
        let said = page.ask("document.querySelector('#trend [aria-live]').textContent");
        assert!(said.as_str().is_some_and(|said| said.contains("changed: nginx 1.24 → 1.26")), "{said}");
        page.browser.until("Boolean(document.querySelector('.tip')?.innerText.includes('1.24 → 1.26'))");
        page.ask(
            "(() => { const select = document.querySelector('[name=gateway]'); select.value = 'direct'; \
             select.dispatchEvent(new Event('change', { bubbles: true })); })()",
        );
        page.reach("location.search.includes('gateway=direct')");
        page.assert_no_problems();
    }
    let mut page = Page::open(&server, 1440, false);
    page.visit("/trends?name=nightly&gateway=nginx&metric=p99");
    page.ask(
        "(() => { const canvas = document.querySelector('#trend .canvas'); for (const key of ['ArrowRight', \
         'Enter']) canvas.dispatchEvent(new KeyboardEvent('keydown', { key })); })()",
    );
    page.browser.until("location.pathname === '/runs/20261101T000000Z-nightly'");
}

#[test]
fn a_trend_marks_where_its_level_changed() {
    let history = changed_history();
    analyse(history.path());
    let server = served(history.path(), None);
    for width in [1440, 390] {
        let mut page = Page::open(&server, width, false);
        page.visit("/trends?name=nightly&gateway=nginx&metric=added_p50");
        assert_eq!(page.ask("document.getElementById('trend').dataset.changes"), "1");
        let row = page.ask("document.querySelector('#change-table tbody tr').textContent");
        for part in
            ["worse: the gateway", "20261104T000000Z-nightly", "20261105T000000Z-nightly", "1.24 → 1.26"]
        {
            assert!(row.as_str().is_some_and(|row| row.contains(part)), "{part}: {row}");
        }
        if width > 560 {
            page.browser
                .until("document.querySelector('#trend svg').textContent.includes('worse: the gateway')");
        }
        page.picture(&format!("trend-changed-{width}"));
        page.assert_no_problems();
    }
}

#[test]
fn a_current_run_is_followed_to_its_end() {
    let board = Board::new(current_state());
    let (_history, server) = over(Some(board.clone()));
    let mut page = Page::open(&server, 1440, false);
    page.visit("/");
    assert!(
        page.ask("document.querySelector('.notice').textContent")
            .as_str()
            .is_some_and(|text| text.contains("3 of 20"))
    );
    page.visit("/live");
    assert_eq!(
        page.ask("document.getElementById('progress-words').textContent"),
        "3 of 20 trials, round 1/4"
    );
    page.picture("live");
    assert_eq!(
        page.ask(
            "[...document.querySelectorAll('#live-rate, #live-latency')].map((one) => one.dataset.drawn)"
        ),
        json!(["2", "2"])
    );
    board.change(|state| {
        state.trials_done = 4;
        let second = Second { rate: 12_345.0, failed: 3.0, p50_us: None, p99_us: Some(2_000.0) };
        state.trial.as_mut().expect("a current trial").seconds.push(second);
    });
    page.browser.until("document.getElementById('progress-words').textContent.startsWith('4 of 20')");
    let tiles = page.ask("document.getElementById('tiles').innerText");
    assert!(
        tiles
            .as_str()
            .is_some_and(|text| text.contains("12.3 k") && text.contains("2 ms") && text.contains('–')),
        "{tiles}"
    );
    board.change(|state| state.stage = Stage::Ended);
    page.browser.until("!document.getElementById('done').hidden");
    assert_eq!(
        page.ask("document.getElementById('to-report').getAttribute('href')"),
        "/runs/20261105T000000Z-nightly"
    );
    page.assert_no_problems();
    drop(server);
}

#[test]
fn short_trials_are_followed_by_round() {
    let board = Board::new(current_state());
    let round = |gateway: &str, round, rate| Round {
        gateway: gateway.into(),
        round,
        figures: Second { rate, failed: 2.0, p50_us: Some(140.0 + rate / 100.0), p99_us: Some(800.0) },
    };
    board.change(|state| {
        let trial = state.trial.as_mut().expect("a current trial");
        (trial.by_round, trial.duration_s, trial.elapsed_s, trial.seconds) = (true, 0.3, 0.1, Vec::new());
        for number in 1..6 {
            state.rounds.push(round("direct", number, 9_000.0 + 90.0 * f64::from(number)));
            state.rounds.push(round("nginx", number, 7_650.0));
        }
    });
    let (_history, server) = over(Some(board));
    for (name, width, is_dark) in [("live-rounds", 1440, false), ("live-rounds-390", 390, true)] {
        let mut page = Page::open(&server, width, is_dark);
        page.visit("/live");
        page.browser.until("document.documentElement.dataset.shown > 0");
        page.picture(name);
        let text = page.ask("document.getElementById('trial-part').innerText");
        let text = text.as_str().expect("a text");
        assert!(text.contains("7.65 k") && text.contains("its last trial"), "{text}");
        assert!(text.contains("by round: ") && !text.contains("second 0 of"), "{text}");
        assert_eq!(
            page.ask(
                "[...document.querySelectorAll('#live-rate, #live-latency')].map((one) => one.dataset.drawn)"
            ),
            json!(["2", "2"]),
            "direct and nginx"
        );
        page.assert_no_problems();
    }
}

#[test]
fn pages_fit_a_phone_in_dark_mode() {
    let board = Board::new(current_state());
    let (_history, server) = over(Some(board));
    let mut page = Page::open(&server, 390, true);
    for (name, path) in [
        ("list-390", "/"),
        ("compare-390", "/compare?a=20261101T000000Z-nightly&b=20261104T000000Z-nightly"),
        ("live-390", "/live"),
        ("failed-390", "/nowhere"),
    ] {
        page.visit(path);
        page.picture(name);
        if path != "/nowhere" {
            page.assert_no_problems();
        }
    }
}

#[test]
fn a_live_page_without_a_run_says_so() {
    let (_history, server) = over(None);
    let mut page = Page::open(&server, 1440, true);
    page.visit("/live");
    assert!(
        page.ask("document.body.innerText")
            .as_str()
            .is_some_and(|text| text.contains("No run is in progress"))
    );
    page.assert_no_problems();
}

/// Serves a page from another port of this machine, so that the page has another origin. Browsers treat both
/// origins as the same site, so they send the server's cookie with requests from this page.
fn other_origin() -> server::Server {
    let page = "<!doctype html><html data-ready=1><body>elsewhere</body></html>";
    server::Server::start(move |_| Response::new(200, page).with("content-type", "text/html"))
}

/// Script that tries all kinds of requests that a page can send. Returns the outcome of each attempt.
const ATTEMPTS: &str = r#"(async (target) => {
    const run = `${target}/api/v1/runs/20261101T000000Z-nightly`;
    const tried = (how, path = run) => fetch(path, { credentials: "include", ...how }).then((answer) => answer.type, () => "refused");
    const body = JSON.stringify({ tags: ["planted"] });
    const json = { "Content-Type": "application/json" };
    const ends = [
        await tried({}),
        await tried({ method: "PATCH", headers: json, body }),
        await tried({ method: "PATCH", headers: { ...json, "X-Hoptax": "1" }, body }),
        await tried({ method: "DELETE" }),
        await tried({ method: "DELETE", headers: { "X-Hoptax": "1" } }),
        await tried({ method: "POST", headers: json, body }),
    ];
    // A browser sends these requests without a preflight. They must have no effect.
    for (const type of ["text/plain", "application/x-www-form-urlencoded"])
        await tried({ mode: "no-cors", method: "POST", headers: { "Content-Type": type }, body });
    const form = document.createElement("form");
    Object.assign(form, { action: run, method: "post", enctype: "text/plain", target: "frame" });
    const frame = document.createElement("iframe");
    frame.name = "frame";
    form.append(Object.assign(document.createElement("input"), { name: body, value: "" }));
    document.body.append(frame, form);
    const loaded = new Promise((done) => frame.addEventListener("load", done));
    form.submit();
    await loaded;
    const script = await new Promise((done) => document.head.append(Object.assign(document.createElement("script"),
        { src: `${target}/assets/serve.js`, onload: () => done("ran"), onerror: () => done("refused") })));
    return [...ends, script];
})"#;

#[test]
fn pages_of_other_origins_read_and_change_nothing() {
    let history = history();
    let server = served(history.path(), None);
    let mut page = Page::open(&server, 1440, false);
    assert_eq!(page.ask("document.cookie"), "", "scripts cannot read the cookie");
    let other_origin = other_origin();
    page.browser.visit(&format!("http://{}/", other_origin.address));
    let ends = page.ask(&format!("{ATTEMPTS}({:?})", page.origin.clone()));
    assert_eq!(ends, json!(vec!["refused"; 7]));
    let shown = [("Authorization", "Bearer 0123456789abcdef")];
    let run = request(server.address(), "GET", "/api/v1/runs/20261101T000000Z-nightly", &shown, "");
    assert_eq!((run.status, &run.json()["tags"]), (200, &json!([])), "the replacement changed something");
}
