//! Runs with streams of gRPC calls: every message is accounted for, and planted faults are found.

use crate::run::{assert_found, case, cases, measured};
use crate::support::{Json, retry_if_disturbed};
use crate::world::is_missing;
use std::collections::BTreeSet;

/// Findings that are planted here. The report may contain others.
const PLANTED: [&str; 3] = ["deadline-changed", "messages-differ", "stream-buffered"];

fn found(report: &Json, gateway: &str) -> BTreeSet<String> {
    crate::run::found(report, gateway, &PLANTED)
}

/// `load` has the streams of each connection, and the end of the load.
fn plan(gateways: &str, stream: &str, load: &str) -> String {
    format!(
        "upstream: {{ body: 100B }}
gateways: [{gateways}]
target: {{ grpc: {{ service: echo.Echo, method: Chat, message: 100B, deadline: 2s, {stream} }} }}
load: [{{ loop: closed, connections: 2, http: 2, {load} }}]
trials: 2
warmup: 50ms
"
    )
}

/// Hops and real gateways, which speak HTTP/2 to the upstream.
fn gateways() -> String {
    let mut names = vec!["hop-l4", "hop-h2"];
    for (program, gateway) in [
        ("nginx", "nginx"),
        ("haproxy", "{ name: haproxy, upstream_http: 2 }"),
        ("envoy", "{ name: envoy, upstream_http: 2 }"),
    ] {
        if !is_missing(program) {
            names.push(gateway);
        }
    }
    names.join(", ")
}

/// Runs streams through all gateways. Each call has this many messages of the client and of the server.
fn every_message_passes(stream: &str, end: &str, [to_send, to_receive]: [u64; 2]) {
    let report = measured(&plan(&gateways(), stream, &format!("streams: 2, {end}")));
    for case in cases(&report) {
        let (name, counts, messages) = (&case["case"], &case["counts"], &case["messages"]);
        assert!(case["trials"].as_u64() > Some(0), "{name}: {}", case["failed"]);
        assert_eq!(counts["grpc"], serde_json::json!({ "OK": counts["completed"] }), "{name}");
        let calls = counts["scheduled"].as_u64().expect("a number");
        assert_eq!(counts["ok"].as_u64(), Some(calls), "{name}: {counts}");
        let of = |what: &str| messages[what].as_u64().unwrap_or_else(|| panic!("{name} {what}: {messages}"));
        // Each message counts by when it was due, so the first and the last four calls of a trial count in
        // part.
        let margin = case["trials"].as_u64().expect("a number") * 4 * 20;
        for (what, each) in [("sent", to_send), ("received", to_receive)] {
            let (found, expected) = (of(what), calls * each);
            assert!(found > 0 && found.abs_diff(expected) <= margin, "{name}: {calls} calls, {messages}");
        }
        if to_send == to_receive {
            assert_eq!(of("sent"), of("received"), "{name}: {messages}");
        }
        for wrong in ["lost", "repeated", "reordered", "unnumbered"] {
            assert_eq!(of(wrong), 0, "{name}: {messages}");
        }
        let gateway = case["gateway"].as_str().expect("a label");
        assert_eq!(found(&report, gateway), BTreeSet::new(), "{name}: {}", report["findings"]);
    }
}

#[test]
fn both_way_streams_pass_message_by_message() {
    every_message_passes("kind: both-ways, messages: 20", "requests: 40, duration: 60s", [20, 20]);
}

#[test]
fn both_way_streams_pass_by_schedule() {
    every_message_passes("kind: both-ways, messages: 20, every: 5ms", "duration: 400ms", [20, 20]);
}

#[test]
fn streams_of_servers_pass() {
    every_message_passes("kind: server-stream, messages: 20, every: 5ms", "duration: 400ms", [1, 20]);
}

#[test]
fn streams_of_clients_pass() {
    every_message_passes("kind: client-stream, messages: 20, every: 5ms", "duration: 400ms", [20, 1]);
}

#[test]
fn faults_in_streams_are_found_only_where_they_were_planted() {
    let plants: [(&str, &str, &[&str]); 6] = [
        ("drops", "drop: 0.5%", &["messages-differ"]),
        ("repeats", "repeat: 0.5%", &["messages-differ"]),
        ("holds", "hold: 40ms", &["stream-buffered"]),
        ("forgets", "deadline: drop", &["deadline-changed"]),
        ("shortens", "deadline: 500ms", &["deadline-changed"]),
        ("extends", "deadline: 1m", &["deadline-changed"]),
    ];
    let faults = plants
        .iter()
        .map(|(label, fault, _)| format!("{{ name: hop-h2, label: {label}, faults: {{ {fault} }} }}"));
    let gateways: Vec<String> = ["hop-h2".to_owned()].into_iter().chain(faults).collect();
    let stream = "kind: server-stream, messages: 20, every: 5ms";
    let report = measured(&plan(&gateways.join(", "), stream, "streams: 8, duration: 400ms"));
    let none: &[&str] = &[];
    let expected = plants.iter().map(|(label, _, codes)| (*label, *codes));
    assert_found(&report, &PLANTED, expected.chain([("direct", none), ("hop-h2", none)]));
    let of = |label: &str| {
        let messages = &case(&report, label)["messages"];
        ["lost", "repeated"].map(|what| messages[what].as_u64().expect("a number") > 0)
    };
    assert_eq!([of("drops"), of("repeats"), of("holds")], [[true, false], [false, true], [false; 2]]);
}

/// The hop delays each message of the server by 20 ms. That is large compared with the time that other tests
/// add, which run at the same time.
#[test]
fn a_known_delay_of_each_message_is_found() {
    retry_if_disturbed(|| {
        let gateways = "hop-h2, { name: hop-h2, label: slow, delay: { message: 20ms } }";
        let load = "requests: 100, duration: 400ms";
        let report = measured(&plan(gateways, "kind: both-ways, messages: 5", load));
        let p50 = |label: &str| {
            let times = &case(&report, label)["message"]["response_time"];
            times["p50"]["estimate"].as_f64().unwrap_or_else(|| panic!("{label}: {times}"))
        };
        let (bare, slow) = (p50("hop-h2"), p50("slow"));
        let is_exact = (-50.0..2500.0).contains(&(slow - bare - 20_000.0));
        let seen = format!("20 ms became {slow} µs over {bare} µs");
        is_exact.then_some(()).ok_or(seen)
    });
}
