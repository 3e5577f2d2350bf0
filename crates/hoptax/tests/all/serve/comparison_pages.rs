//! Tests of the pages that compare two runs, in Chromium.

use super::lab::{get, put, run, served};
use super::pages::Page;
use crate::browser::CONTRAST;
use crate::browser::client::Browser;
use crate::report::fixture::{Run, via};
use crate::support::{Json, Scratch};
use hoptax_history::serve::Server;
use hoptax_plan::Metric;
use serde_json::json;

/// The pages for the runs of a history with five runs of one plan.
pub(super) fn of_a_history(browser: &mut Browser, server: &Server) {
    two_runs_are_chosen_and_compared(browser, server);
    a_comparison_chart_matches_the_interface(browser, server);
    a_row_of_the_chart_shows_the_values_of_its_table_row(browser, server);
    different_plans_are_compared_only_on_request(browser, server);
}

/// The pages for runs with special figures.
pub(super) fn of_other_histories(browser: &mut Browser) {
    outliers_are_arrows_and_do_not_stretch_the_axis(browser);
    without_percentages_there_is_no_chart(browser);
    one_trial_is_a_mark_without_an_interval(browser);
    a_percentage_that_contradicts_the_verdict_is_left_out(browser);
}

fn two_runs_are_chosen_and_compared(browser: &mut Browser, server: &Server) {
    let mut page = Page::at(browser, server, 1440, false, "/");
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

fn a_comparison_chart_matches_the_interface(browser: &mut Browser, server: &Server) {
    let (few, all) = (rows_of(server, CHANGED, false), rows_of(server, CHANGED, true));
    assert!(
        few.iter().any(is_significant)
            && all.len() > few.len()
            && all.iter().any(|row| row["change"].is_null())
    );
    for (width, dark) in [(1440, false), (390, true)] {
        let mut page = Page::at(browser, server, width, dark, &format!("/compare?{CHANGED}"));
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

fn a_row_of_the_chart_shows_the_values_of_its_table_row(browser: &mut Browser, server: &Server) {
    let mut page = Page::at(browser, server, 1440, false, &format!("/compare?{CHANGED}"));
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
    insta::assert_snapshot!(first.as_str().expect("text"));
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

fn outliers_are_arrows_and_do_not_stretch_the_axis(browser: &mut Browser) {
    let mut after = run("nightly", 190);
    let trials = after.trials.iter_mut().filter(|trial| trial.contender == "haproxy");
    for (round, trial) in trials.enumerate() {
        trial.gateway.as_mut().expect("watched").cpu_ns = if round == 3 { 900_000_000 } else { 15_000_000 };
    }
    let (_history, server) = pair([run("nightly", 150), after]);
    let mut page = Page::at(browser, &server, 1440, false, &format!("/compare?{PAIR}"));
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

fn without_percentages_there_is_no_chart(browser: &mut Browser) {
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
    let mut page = Page::at(browser, &server, 390, false, &format!("/compare?{PAIR}"));
    assert_eq!(page.ask("document.querySelectorAll('#compared tbody tr').length > 0"), true);
    assert_eq!(page.ask("document.querySelector('.chart, .canvas')"), json!(null));
    page.assert_no_problems();
}

fn one_trial_is_a_mark_without_an_interval(browser: &mut Browser) {
    let once = |nginx_us| Run::steady(1, 100, &[("nginx", nginx_us)]);
    let (_history, server) = pair([once(150), once(190)]);
    let mut page = Page::at(browser, &server, 1440, false, &format!("/compare?{PAIR}"));
    let drawn = page.ask(DRAWN);
    assert_eq!((drawn["marks"].as_array().map(Vec::len), &drawn["lines"]), (Some(2), &json!([])), "{drawn}");
    assert_eq!(page.ask("document.querySelector('#changes svg').textContent.includes('one trial')"), true);
    page.assert_no_problems();
}

fn a_percentage_that_contradicts_the_verdict_is_left_out(browser: &mut Browser) {
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
    let mut page = Page::at(browser, &server, 1440, false, &format!("/compare?{query}"));
    let reported = rows_of(&server, "a=20261101T000000Z-a&labels=haproxy,nginx", false);
    let cpu = reported.iter().find(|row| row["metric"] == "cpu_us_per_request").expect("a row");
    assert_eq!(cpu["verdict"], "better");
    assert!(cpu["change"].is_null() && cpu["difference"]["high"].as_f64() < Some(0.0), "{cpu}");
    let is_drawn = "document.querySelector('#changes svg').textContent.includes('better; no percentage')";
    assert_eq!(page.ask(is_drawn), true);
    page.assert_no_problems();
}

fn different_plans_are_compared_only_on_request(browser: &mut Browser, server: &Server) {
    let mut page =
        Page::at(browser, server, 390, false, "/compare?a=20261101T000000Z-nightly&b=20261111T000000Z-other");
    assert_eq!(page.ask("document.querySelector('#refused tbody th').textContent"), "target");
    page.picture("refused-390");
    page.assert_no_problems();
    page.ask("document.getElementById('force').click()");
    page.reach("document.getElementById('headline') !== null");
    page.assert_no_problems();
}
