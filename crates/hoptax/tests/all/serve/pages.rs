//! Tests of the server's pages in Chromium.

use super::comparison_pages;
use super::lab::{TOKEN, analyse, changed_history, current_state, history, put, request, run, served};
use crate::browser::client::Browser;
use crate::support::Scratch;
use crate::support::server::{self, Response};
use hoptax_history::live::{Board, Round, Second, Stage};
use hoptax_history::serve::Server;
use serde_json::json;
use std::path::Path;

/// Environment variable that names a directory for screenshots.
const PICTURES: &str = "HOPTAX_PICTURES";

/// The pages of a server in a browser.
pub(super) struct Page<'b> {
    pub(super) browser: &'b mut Browser,
    origin: String,
}

impl<'b> Page<'b> {
    pub(super) fn open(browser: &'b mut Browser, server: &Server, width: u32, dark: bool) -> Self {
        browser.leave();
        browser.emulate(width, dark);
        let mut page = Self { browser, origin: format!("http://{}", server.address()) };
        // The browser keeps the cookie.
        page.visit(&format!("/?token={TOKEN}"));
        page.browser.until("location.search === '' && Boolean(document.getElementById('runs'))");
        page
    }

    /// Like [`open`](Self::open), with another page.
    pub(super) fn at(browser: &'b mut Browser, server: &Server, width: u32, dark: bool, path: &str) -> Self {
        let mut page = Self::open(browser, server, width, dark);
        page.visit(path);
        page
    }

    pub(super) fn visit(&mut self, path: &str) {
        self.browser.visit(&format!("{}{path}", self.origin));
    }

    /// Waits until this expression is true and the page's script has run.
    pub(super) fn reach(&mut self, expression: &str) {
        self.browser.until(&format!("document.documentElement?.dataset.ready === '1' && ({expression})"));
    }

    pub(super) fn ask(&mut self, expression: &str) -> serde_json::Value {
        self.browser.ask(expression)
    }

    /// Asserts that the text that this expression gives contains all these parts.
    #[track_caller]
    pub(super) fn says(&mut self, expression: &str, parts: &[&str]) {
        let text = self.ask(expression);
        assert!(text.as_str().is_some_and(|text| parts.iter().all(|part| text.contains(part))), "{text}");
    }

    pub(super) fn picture(&mut self, name: &str) {
        if let Some(place) = std::env::var_os(PICTURES) {
            // Waits until charts are drawn completely. Only screenshots need this.
            self.ask("new Promise((done) => setTimeout(done, 1500))");
            self.browser.picture(&Path::new(&place).join(format!("{name}.png")));
        }
    }

    /// Asserts that the page logged no error, requested nothing from other servers, and is not wider than the
    /// window.
    pub(super) fn assert_no_problems(&mut self) {
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

/// All parts use one browser, because it takes longer to start than a part.
#[test]
fn pages_of_a_history_work() {
    let history = history();
    analyse(history.path());
    let (browser, server) = (&mut Browser::start(1440, false), &served(history.path(), None));
    the_list_is_filtered_while_typing(browser, server);
    a_report_is_embedded_and_isolated(browser, server);
    a_trend_has_a_point_for_each_run(browser, server);
    a_live_page_without_a_run_says_so(browser, server);
    comparison_pages::of_a_history(browser, server);
    // This part changes the history.
    a_run_is_read_tagged_and_deleted(browser, server, &history);
}

#[test]
fn pages_of_other_histories_work() {
    let browser = &mut Browser::start(1440, false);
    let history = history();
    analyse(history.path());
    a_long_list_loads_more_on_demand(browser);
    a_trend_marks_where_its_level_changed(browser);
    a_current_run_is_followed_to_its_end(browser, &history);
    short_trials_are_followed_by_round(browser, &history);
    pages_fit_a_phone_in_dark_mode(browser, &history);
    pages_of_other_origins_read_and_change_nothing(browser, &history);
    comparison_pages::of_other_histories(browser);
}

const SHOWN: &str = "[...document.querySelectorAll('#runs .run')].map((run) => run.dataset.id)";

fn the_list_is_filtered_while_typing(browser: &mut Browser, server: &Server) {
    let mut page = Page::at(browser, server, 1440, false, "/");
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

fn a_long_list_loads_more_on_demand(browser: &mut Browser) {
    let scratch = Scratch::new();
    for number in 0..60 {
        put(scratch.path(), &format!("20261101T{number:06}Z-many"), number, run("many", 150), "1");
    }
    let server = served(scratch.path(), None);
    let mut page = Page::at(browser, &server, 390, true, "/");
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

fn a_run_is_read_tagged_and_deleted(browser: &mut Browser, server: &Server, history: &Scratch) {
    let mut page = Page::at(browser, server, 1440, true, "/runs/20261103T000000Z-nightly");
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

fn a_report_is_embedded_and_isolated(browser: &mut Browser, server: &Server) {
    let mut page = Page::at(browser, server, 390, false, "/runs/20261101T000000Z-nightly");
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

fn a_trend_has_a_point_for_each_run(browser: &mut Browser, server: &Server) {
    for (width, dark) in [(1440, false), (390, true)] {
        let mut page =
            Page::at(browser, server, width, dark, "/trends?name=nightly&gateway=nginx&metric=added_p50");
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
        let said = "document.querySelector('#trend [aria-live]').textContent";
        page.says(said, &["changed: nginx 1.24 → 1.26"]);
        page.browser.until("Boolean(document.querySelector('.tip')?.innerText.includes('1.24 → 1.26'))");
        page.ask(
            "(() => { const select = document.querySelector('[name=gateway]'); select.value = 'direct'; \
             select.dispatchEvent(new Event('change', { bubbles: true })); })()",
        );
        page.reach("location.search.includes('gateway=direct')");
        page.assert_no_problems();
    }
    let mut page = Page::at(browser, server, 1440, false, "/trends?name=nightly&gateway=nginx&metric=p99");
    page.ask(
        "(() => { const canvas = document.querySelector('#trend .canvas'); for (const key of ['ArrowRight', \
         'Enter']) canvas.dispatchEvent(new KeyboardEvent('keydown', { key })); })()",
    );
    page.browser.until("location.pathname === '/runs/20261101T000000Z-nightly'");
}

fn a_trend_marks_where_its_level_changed(browser: &mut Browser) {
    let history = changed_history();
    analyse(history.path());
    let server = served(history.path(), None);
    for width in [1440, 390] {
        let mut page =
            Page::at(browser, &server, width, false, "/trends?name=nightly&gateway=nginx&metric=added_p50");
        assert_eq!(page.ask("document.getElementById('trend').dataset.changes"), "1");
        let parts =
            ["worse: the gateway", "20261104T000000Z-nightly", "20261105T000000Z-nightly", "1.24 → 1.26"];
        page.says("document.querySelector('#change-table tbody tr').textContent", &parts);
        if width > 560 {
            page.browser
                .until("document.querySelector('#trend svg').textContent.includes('worse: the gateway')");
        }
        page.picture(&format!("trend-changed-{width}"));
        page.assert_no_problems();
    }
}

fn a_current_run_is_followed_to_its_end(browser: &mut Browser, history: &Scratch) {
    let board = Board::new(current_state());
    let server = served(history.path(), Some(board.clone()));
    let mut page = Page::at(browser, &server, 1440, false, "/");
    page.says("document.querySelector('.notice').textContent", &["3 of 20"]);
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
    page.says("document.getElementById('tiles').innerText", &["12.3 k", "2 ms", "–"]);
    board.change(|state| state.stage = Stage::Ended);
    page.browser.until("!document.getElementById('done').hidden");
    assert_eq!(
        page.ask("document.getElementById('to-report').getAttribute('href')"),
        "/runs/20261105T000000Z-nightly"
    );
    page.assert_no_problems();
    drop(server);
}

fn short_trials_are_followed_by_round(browser: &mut Browser, history: &Scratch) {
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
    let server = served(history.path(), Some(board));
    for (name, width, is_dark) in [("live-rounds", 1440, false), ("live-rounds-390", 390, true)] {
        let mut page = Page::at(browser, &server, width, is_dark, "/live");
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

fn pages_fit_a_phone_in_dark_mode(browser: &mut Browser, history: &Scratch) {
    let board = Board::new(current_state());
    let server = served(history.path(), Some(board));
    let mut page = Page::open(browser, &server, 390, true);
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

fn a_live_page_without_a_run_says_so(browser: &mut Browser, server: &Server) {
    let mut page = Page::at(browser, server, 1440, true, "/live");
    page.says("document.body.innerText", &["No run is in progress"]);
    page.assert_no_problems();
}

/// Serves a page from another port of 127.0.0.1, so that the page has another origin. Browsers treat both
/// origins as the same site, so they send the server's cookie with requests from this page.
fn other_origin() -> server::Server {
    let page = "<!doctype html><html data-ready=1><body>elsewhere</body></html>";
    server::Server::at_localhost(move |_| Response::new(200, page).with("content-type", "text/html"))
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

fn pages_of_other_origins_read_and_change_nothing(browser: &mut Browser, history: &Scratch) {
    let server = served(history.path(), None);
    let mut page = Page::open(browser, &server, 1440, false);
    assert_eq!(page.ask("document.cookie"), "", "scripts cannot read the cookie");
    let other_origin = other_origin();
    page.browser.visit(&format!("http://{}/", other_origin.address));
    let ends = page.ask(&format!("{ATTEMPTS}({:?})", page.origin.clone()));
    assert_eq!(ends, json!(vec!["refused"; 7]));
    let shown = [("Authorization", "Bearer 0123456789abcdef")];
    let run = request(server.address(), "GET", "/api/v1/runs/20261101T000000Z-nightly", &shown, "");
    assert_eq!((run.status, &run.json()["tags"]), (200, &json!([])), "the replacement changed something");
}
