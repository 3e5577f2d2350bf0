//! Runs with server-sent events and WebSockets: faults that hops plant in them, and nginx's buffering.

use crate::run::{assert_found, cases, measured};
use crate::support::Json;
use hoptax_lab::concurrent::concurrently;
use std::collections::BTreeSet;

/// Findings that are planted here and in `llm_findings`. The report may contain others.
const PLANTED: [&str; 14] = [
    "stream-buffered",
    "events-bunched",
    "messages-differ",
    "tunnel-refused",
    "tunnel-cut",
    "extension-differs",
    "first-event-held",
    "false-end",
    "abort-ignored",
    "retries-multiply",
    "usage-altered",
    "request-altered",
    "silence",
    "no-backpressure",
];

fn case<'a>(report: &'a Json, gateway: &str) -> &'a Json {
    let case = cases(report).iter().find(|case| case["gateway"] == gateway);
    let case = case.unwrap_or_else(|| panic!("no {gateway}"));
    assert!(case["trials"].as_u64() > Some(0), "{gateway}: {}", case["failed"]);
    case
}

fn found(report: &Json, gateway: &str) -> BTreeSet<String> {
    crate::run::found(report, gateway, &PLANTED)
}

/// Gateways with one fault each. `expected` has the findings that it must cause.
type Plants<'a> = &'a [(&'a str, &'a str, &'a [&'a str])];

/// Measures the plan with `hop-l7`, and with one `hop-l7` for each fault. All exchanges of the others must
/// succeed.
fn planted(rest: &str, plants: Plants<'_>) -> Json {
    let report = planted_among(&["hop-l4", "hop-l7"], rest, plants);
    for clean in ["direct", "hop-l4", "hop-l7"] {
        let counts = &case(&report, clean)["counts"];
        assert_eq!(counts["ok"], counts["scheduled"], "{clean}: {counts}");
    }
    report
}

/// Measures the plan with these gateways, which must cause no finding, and with one `hop-l7` for each fault.
pub(crate) fn planted_among(clean: &[&str], rest: &str, plants: Plants<'_>) -> Json {
    let faults = plants
        .iter()
        .map(|(label, fault, _)| format!("{{ name: hop-l7, label: {label}, faults: {{ {fault} }} }}"));
    let gateways: Vec<String> = clean.iter().map(|name| (*name).to_owned()).chain(faults).collect();
    let gateways = gateways.join(", ");
    let report = measured(&format!("name: planted\ngateways: [{gateways}]\n{rest}\nseed: 1\ntrials: 2\n"));
    let none: &[&str] = &[];
    let clean = clean.iter().chain(&["direct"]).map(|label| (*label, none));
    let expected = plants.iter().map(|(label, _, codes)| (*label, *codes));
    assert_found(&report, &PLANTED, expected.chain(clean));
    report
}

fn number(value: &Json) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn faults_in_events_are_found_only_where_they_were_planted() {
    let report = planted(
        "upstream: { events: { count: 10, gap: 20ms } }
load: [{ loop: closed, connections: 8, duration: 600ms }]
warmup: 100ms",
        &[
            ("holds", "hold: 1m", &["stream-buffered"]),
            ("bunches", "bunch: 3", &["events-bunched"]),
            ("merges", "merge: 10%", &["events-bunched"]),
            ("drops", "drop: 5%", &["messages-differ"]),
            ("repeats", "repeat: 5%", &["messages-differ"]),
        ],
    );
    let of = |label: &str| {
        let messages = &case(&report, label)["messages"];
        ["lost", "repeated", "merged_into_one"].map(|what| number(&messages[what]) > 0)
    };
    let seen = ["hop-l7", "holds", "merges", "drops", "repeats"].map(of);
    let [clean, merged] = [[false; 3], [false, false, true]];
    assert_eq!(seen, [clean, clean, merged, [true, false, false], [false, true, false]]);
}

#[test]
fn faults_in_handshakes_are_found_only_where_they_were_planted() {
    let report = planted(
        "target: { path: /chat, websocket: { kind: echo, messages: 5, compression: deflate }, \
         expect: { ignore_headers: [sec-websocket-extensions] } }
load: [{ loop: closed, connections: 2, requests: 400, duration: 20s }]
warmup: 0s",
        &[("refuses", "refuse: 5%", &["tunnel-refused"]), ("plain", "deflate: drop", &["extension-differs"])],
    );
    let of = |label: &str, what: &str| number(&case(&report, label)["messages"][what]);
    assert!(of("refuses", "refused") > 0 && of("hop-l7", "refused") == 0);
    assert!(of("plain", "compressed") == 0 && of("hop-l7", "compressed") > 0);
    let refused = &case(&report, "refuses")["counts"]["status"]["502"];
    assert_eq!(refused.as_u64(), Some(of("refuses", "refused")));
}

#[test]
fn websockets_that_are_cut_are_found_only_where_they_were_planted() {
    let report = planted(
        "target:
  - { name: short, path: /short, websocket: { kind: echo, messages: 2 } }
  - { name: long, path: /long, websocket: { kind: echo, messages: 10, every: 30ms } }
load: [{ loop: closed, connections: 4, duration: 600ms }]
warmup: 100ms",
        &[("cuts", "cut: 100ms", &["tunnel-cut"])],
    );
    let cuts = case(&report, "cuts");
    assert!(number(&cuts["messages"]["cut"]) > 0, "{cuts}");
    assert!(number(&cuts["counts"]["ok"]) > 0, "the short ones end before");
}

/// nginx buffers events unless its configuration says otherwise. The first event then arrives with the last.
#[test]
fn buffering_of_nginx_is_named() {
    needs!("nginx");
    let profiles = [("stock", vec!["stream-buffered".to_owned()]), ("equalised", Vec::new())];
    concurrently(2, &profiles, |(profile, expected)| {
        let report = measured(&format!(
            "name: nginx
upstream: {{ events: {{ count: 5, gap: 100ms }} }}
gateways: [nginx]
profile: {profile}
load: [{{ loop: closed, connections: 4, duration: 1s }}]
trials: 2
warmup: 100ms
"
        ));
        let expected: BTreeSet<String> = expected.iter().cloned().collect();
        assert_eq!(found(&report, "nginx"), expected, "{}", report["findings"]);
        let finding = report["findings"].as_array().expect("findings").iter();
        for finding in finding.filter(|finding| finding["code"] == "stream-buffered") {
            let late = finding["evidence"]["first_message_late_us"].as_f64().expect("a number");
            assert!((late - 400_000.0).abs() < 40_000.0, "{finding}");
            let advice = finding["advice"].as_str().expect("a text");
            assert!(advice.contains("X-Accel-Buffering: no"), "{advice}");
        }
    });
}
