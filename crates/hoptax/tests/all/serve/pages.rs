//! Pages as a reader has them, in Chromium.

use super::lab::{analyse, history, put, request, run, served, under_way};
use crate::browser::client::Browser;
use crate::support::Scratch;
use hoptax::live::{Board, Second, Stage};
use hoptax::serve::Server;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

/// Where pictures go that somebody wants to look at.
const PICTURES: &str = "HOPTAX_PICTURES";

struct Page {
    browser: Browser,
    origin: String,
}

impl Page {
    fn open(server: &Server, width: u32, dark: bool) -> Self {
        Self { browser: Browser::start(width, dark), origin: format!("http://{}", server.address()) }
    }

    fn visit(&mut self, path: &str) {
        self.browser.visit(&format!("{}{path}", self.origin));
    }

    /// Waits for a page of which this is true, and until its script has run.
    fn reach(&mut self, expression: &str) {
        self.browser.until(&format!("document.documentElement?.dataset.ready === '1' && ({expression})"));
    }

    fn ask(&mut self, expression: &str) -> serde_json::Value {
        self.browser.ask(expression)
    }

    fn picture(&mut self, name: &str) {
        if let Some(place) = std::env::var_os(PICTURES) {
            // Frames are drawn by themselves; nobody but who looks depends on it.
            self.ask("new Promise((done) => setTimeout(done, 1500))");
            self.browser.picture(&Path::new(&place).join(format!("{name}.png")));
        }
    }

    /// No error was written, nothing was asked of anybody else, and nothing is wider than the page.
    fn is_well(&mut self) {
        assert_eq!(self.browser.complaints(), [""; 0]);
        let elsewhere: Vec<String> =
            self.browser.requests().into_iter().filter(|url| !url.starts_with(&self.origin)).collect();
        assert_eq!(elsewhere, [""; 0], "the page asked somebody else");
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
    let server = served(history.path(), live, None);
    (history, server)
}

const SHOWN: &str = "[...document.querySelectorAll('#runs .run')].map((run) => run.dataset.id)";

#[test]
fn the_list_is_searched_while_one_types() {
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
    page.ask("(() => { const box = document.querySelector('[name=text]'); box.value = ''; const state = \
         document.querySelector('[name=state]'); state.value = 'broken'; state.dispatchEvent(new Event('input', { bubbles: true })); })()");
    page.browser.until(&format!("{SHOWN}.length === 1"));
    assert_eq!(page.ask("document.querySelector('.run .badge').textContent"), "broken");
    // What stands in the address is what is shown when it is opened again.
    page.visit("/?text=other");
    assert_eq!(page.ask(SHOWN).as_array().map(Vec::len), Some(2));
    assert_eq!(page.ask("document.querySelector('.run h2 a').textContent"), "<b>other</b>");
    page.is_well();
}

#[test]
fn a_long_list_goes_on_where_it_ended() {
    let scratch = Scratch::new();
    for number in 0..60 {
        put(scratch.path(), &format!("20261101T{number:06}Z-many"), number, run("many", 150), "1");
    }
    let server = served(scratch.path(), None, None);
    let mut page = Page::open(&server, 390, true);
    page.visit("/");
    assert_eq!(page.ask(SHOWN).as_array().map(Vec::len), Some(50));
    // Pressed twice, as one does who waits: it is asked for once.
    page.ask("(() => { const more = document.getElementById('more'); more.click(); more.click(); })()");
    page.browser.until(&format!("{SHOWN}.length >= 60"));
    // By the time that this is answered, so is what was asked for before.
    page.ask("fetch('/').then((answer) => answer.text())");
    assert_eq!(page.ask(&format!("[{SHOWN}.length, new Set({SHOWN}).size]")), json!([60, 60]));
    assert_eq!(page.ask("document.getElementById('more')"), json!(null));
    page.is_well();
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
    // What was measured first is before.
    assert_eq!(page.ask("location.search"), "?a=20261101T000000Z-nightly&b=20261104T000000Z-nightly");
    assert_eq!(
        page.ask("document.getElementById('headline').textContent"),
        "20261104T000000Z-nightly is worse than 20261101T000000Z-nightly."
    );
    assert!(page.ask("document.querySelectorAll('#compared tr.stands').length").as_u64() > Some(0));
    page.picture("compare");
    page.ask("document.getElementById('swap').click()");
    page.reach("document.getElementById('headline')?.textContent.includes('better') === true");
    page.is_well();
}

#[test]
fn what_answers_different_questions_is_compared_on_request_only() {
    let (_history, server) = over(None);
    let mut page = Page::open(&server, 390, false);
    page.visit("/compare?a=20261101T000000Z-nightly&b=20261111T000000Z-other");
    assert_eq!(page.ask("document.querySelector('#refused tbody th').textContent"), "target");
    page.picture("refused-390");
    page.is_well();
    page.ask("document.getElementById('force').click()");
    page.reach("document.getElementById('headline') !== null");
    page.is_well();
}

#[test]
fn a_run_is_read_tagged_and_deleted() {
    let (history, server) = over(None);
    let mut page = Page::open(&server, 1440, true);
    page.visit("/runs/20261103T000000Z-nightly");
    page.browser.until("document.getElementById('report') !== null");
    page.picture("run-dark");
    page.ask("(() => { const form = document.getElementById('annotate'); form.elements.tags.value = 'slow, kernel'; \
         form.elements.note.value = 'after <b>'; form.requestSubmit(); })()");
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
    // Who thinks better of it twice, as fast as a script, deletes once.
    page.ask(&format!("{asked}{no}{asked}{yes}"));
    page.reach("location.pathname === '/'");
    assert!(!history.path().join("20261103T000000Z-nightly").exists());
    page.is_well();
}

#[test]
fn a_report_stands_in_its_run_and_cannot_reach_out() {
    let (_history, server) = over(None);
    let mut page = Page::open(&server, 390, false);
    page.visit("/runs/20261101T000000Z-nightly");
    page.browser.until(
        "performance.getEntriesByType('resource').some((one) => one.name.endsWith('report.html') && one.responseEnd > 0)",
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
    page.is_well();
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
        page.ask("(() => { const canvas = document.querySelector('#trend .canvas'); canvas.focus(); for (const _ of [1, 2, 3]) \
             canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' })); })()");
        let said = page.ask("document.querySelector('#trend [aria-live]').textContent");
        assert!(said.as_str().is_some_and(|said| said.contains("changed: nginx 1.24 → 1.26")), "{said}");
        page.browser.until("Boolean(document.querySelector('.tip')?.innerText.includes('1.24 → 1.26'))");
        page.ask(
            "(() => { const select = document.querySelector('[name=gateway]'); select.value = 'direct'; \
             select.dispatchEvent(new Event('change', { bubbles: true })); })()",
        );
        page.reach("location.search.includes('gateway=direct')");
        page.is_well();
    }
    let mut page = Page::open(&server, 1440, false);
    page.visit("/trends?name=nightly&gateway=nginx&metric=p99");
    page.ask(
        "(() => { const canvas = document.querySelector('#trend .canvas'); for (const key of ['ArrowRight', 'Enter']) \
         canvas.dispatchEvent(new KeyboardEvent('keydown', { key })); })()",
    );
    page.browser.until("location.pathname === '/runs/20261101T000000Z-nightly'");
}

#[test]
fn a_run_under_way_is_followed_to_its_end() {
    let board = Board::new(under_way());
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
        state.trial.as_mut().expect("under way").seconds.push(second);
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
    page.is_well();
    drop(server);
}

#[test]
fn pages_fit_a_phone_in_the_dark() {
    let board = Board::new(under_way());
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
            page.is_well();
        }
    }
}

#[test]
fn a_page_without_a_run_under_way_says_so() {
    let (_history, server) = over(None);
    let mut page = Page::open(&server, 1440, true);
    page.visit("/live");
    assert!(
        page.ask("document.body.innerText").as_str().is_some_and(|text| text.contains("No run is under way"))
    );
    page.is_well();
}

/// A page of somebody else's, on another port of this machine: for a browser the same site, so that it sends our cookie along.
fn elsewhere() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    // It ends with the test's process; it waits for connections and holds nothing.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let page = "<!doctype html><html data-ready=1><body>elsewhere</body></html>";
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n", page.len());
            let _ = stream.write_all(format!("{head}Connection: close\r\n\r\n{page}").as_bytes());
        }
    });
    address
}

/// Everything that a page can try; each attempt ends with what came of it.
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
    // Without asking for an answer a browser sends these: they must do nothing.
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
fn a_page_from_elsewhere_reads_and_changes_nothing() {
    let history = history();
    let server = served(history.path(), None, Some("0123456789abcdef"));
    let mut page = Page::open(&server, 1440, false);
    page.visit("/?token=0123456789abcdef");
    page.browser.until("document.cookie === '' && Boolean(document.getElementById('runs'))");
    page.browser.visit(&format!("http://{}/", elsewhere()));
    let ends = page.ask(&format!("{ATTEMPTS}({:?})", page.origin.clone()));
    assert_eq!(ends, json!(vec!["refused"; 7]));
    let shown = [("Authorization", "Bearer 0123456789abcdef")];
    let run = request(server.address(), "GET", "/api/v1/runs/20261101T000000Z-nightly", &shown, "");
    assert_eq!((run.status, &run.json()["tags"]), (200, &json!([])), "something was changed");
}
