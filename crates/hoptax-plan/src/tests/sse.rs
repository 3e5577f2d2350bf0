//! Tests of server-sent events.

use super::*;
use hoptax_format::messages::{ENDLESS, StreamSpec, UNKNOWN};

const CLOSED: &str = "gateways: []\nload: [{ loop: closed, connections: 1, duration: 10s }]\n";
const RUNNING: &str = "upstream: { url: \"http://127.0.0.1:9\" }\n";

#[test]
fn events_of_the_upstream_reach_the_targets() {
    let plan = good(&format!("upstream: {{ events: {{ count: 20, gap: 100ms }} }}\n{CLOSED}"));
    let Upstream::BuiltIn(upstream) = &plan.upstream else { panic!("it is built in") };
    let expected = UpstreamEvents {
        count: 20,
        gap: Duration::from_millis(100),
        bytes: 64,
        first: Duration::ZERO,
        per_write: 1,
        split: 1,
        heartbeat: None,
    };
    assert_eq!((upstream.events.as_ref(), upstream.streams.len()), (Some(&expected), 0));
    let [target] = plan.targets.as_slice() else { panic!("one target") };
    assert_eq!((target.name.as_str(), target.stream), ("GET /", Some(StreamSpec::events(20, 100_000_000))));
    assert_eq!(target.headers, [("accept".to_owned(), "text/event-stream".to_owned())]);
    let all = "{ count: endless, gap: 1s, bytes: 35B, first: 2s, per_write: 3, heartbeat: 15s }";
    let plan = good(&format!("upstream: {{ events: {all} }}\n{CLOSED}"));
    let Upstream::BuiltIn(upstream) = &plan.upstream else { panic!("it is built in") };
    let found = upstream.events.as_ref().expect("events");
    assert_eq!((found.count, found.bytes, found.per_write), (ENDLESS, 35, 3));
    assert_eq!((found.first, found.heartbeat), (Duration::from_secs(2), Some(Duration::from_secs(15))));
    assert_eq!((plan.warmup, plan.until_settled), (Duration::from_secs(2), None));
}

#[test]
fn only_plain_gets_expect_events() {
    let targets = "[{ path: /a }, { path: /b, events: false }, { path: /c, method: POST, body: 1B }, \
                   { path: /d, method: POST, body: 1B, events: true }, \
                   { path: /e, headers: { accept: text/html } }, \
                   { path: /f, headers: { accept: \"text/html, text/event-stream\" } }]";
    let plan = good(&format!("upstream: {{ events: {{}} }}\ntarget: {targets}\n{CLOSED}"));
    let expects = plan.targets.iter().map(|target| (&target.path[1..], target.stream.is_some()));
    let expected = [("a", true), ("b", false), ("c", false), ("d", true), ("e", false), ("f", true)];
    assert_eq!(expects.collect::<Vec<_>>(), expected);
    assert_eq!(plan.targets[5].headers.len(), 1, "its own header is kept");
    assert_eq!(plan.targets[0].stream, Some(StreamSpec::events(10, 0)));
}

#[test]
fn events_of_a_running_upstream_can_be_known() {
    let stream =
        |typed: &str| good(&format!("{RUNNING}target: {{ events: {typed} }}\n{CLOSED}")).targets[0].stream;
    assert_eq!(stream("true"), Some(StreamSpec::events(UNKNOWN, 0)));
    assert_eq!(stream("false"), None);
    assert_eq!(stream("{ count: 20, every: 100ms }"), Some(StreamSpec::events(20, 100_000_000)));
    assert_eq!(stream("{ every: 1h }"), Some(StreamSpec::events(UNKNOWN, 3_600_000_000_000)));
    assert_eq!(stream("{ count: endless }"), Some(StreamSpec::events(ENDLESS, 0)));
}

#[test]
fn wrong_events_of_the_upstream_are_refused() {
    insta::assert_snapshot!(refusals(
        &[
            "count: 0",
            "count: 1000001",
            "count: many",
            "gap: -1s",
            "bytes: 34",
            "bytes: 4194305",
            "per_write: 0",
            "per_write: 1001",
            "split: 0",
            "split: 65",
            "split: 2, per_write: 3",
            "heartbeat: 0s",
            "count: endless",
            "gap: 3s",
            "first: 4s",
            "count: 11, gap: 1s",
        ],
        |typed| mistake(&format!("upstream: {{ events: {{ {typed} }} }}\n{CLOSED}"))
    ));
    let heard = "upstream: { events: { count: 3, gap: 4s, heartbeat: 1s } }\n";
    good(&format!("{heard}{CLOSED}"));
    let late = "upstream: { events: { count: 3, first: 1s, gap: 500ms, per_write: 2, split: 1 } }\n";
    let length = Duration::from_millis(1500);
    let Upstream::BuiltIn(upstream) = good(&format!("{late}{CLOSED}")).upstream else { panic!("built in") };
    assert_eq!(upstream.events.map(|events| events.length()), Some(length));
    let without_body = "upstream: { status: 204, events: {} }\n";
    let running = RUNNING.replace(" }", ", events: { count: 2 } }");
    let told = refusals(&[without_body, &running], |upstream| mistake(&format!("{upstream}{CLOSED}")));
    insta::assert_snapshot!(told);
}

#[test]
fn wrong_events_of_targets_are_refused() {
    let upstream = "upstream: { events: { count: 2 } }\n";
    let mut told = String::new();
    for (start, target) in [
        ("", "{ events: true }"),
        (upstream, "{ events: { count: 2 } }"),
        (upstream, "{ method: HEAD, events: true }"),
        (upstream, "{ events: true, headers: { accept: a/b } }"),
        (RUNNING, "{ events: {} }"),
        (RUNNING, "{ events: { count: 0 } }"),
        (RUNNING, "{ events: { count: 11, every: 1s } }"),
        (RUNNING, "{ events: true, websocket: {} }"),
    ] {
        let text = format!("{start}target: {target}\n{CLOSED}");
        told += &refusal(&text, &mistake(&text));
    }
    let call = format!("{upstream}target: {{ events: true, grpc: {{ service: a, method: B }} }}\n{CLOSED}");
    let call = call.replace("closed,", "closed, http: 2,");
    insta::assert_snapshot!(told + &refusal(&call, &mistake(&call)));
}

#[test]
fn endless_events_need_a_closed_loop() {
    let plan = |load: &str, rest: &str| {
        let upstream = "upstream: { events: { count: endless, gap: 1s } }";
        format!("{upstream}\ngateways: []\nload: [{load}]\n{rest}")
    };
    let closed = "{ loop: closed, connections: 2, duration: 10s }";
    good(&plan(closed, ""));
    // Without a duration, a trial has time for many events.
    let usual = good(&plan("{ loop: closed, connections: 2 }", ""));
    assert_eq!(usual.load[0].duration, Duration::from_secs(10));
    let texts = [
        plan("{ loop: open, rate: 1/s, connections: 2 }", ""),
        plan("{ loop: closed, connections: 2, requests: 5, duration: 10s }", ""),
        plan("{ loop: open, connections: 3000, search: { from: 1000/s, to: 2000/s } }", ""),
        plan(closed, "target: [{ path: /a }, { path: /b, events: false }]\n"),
    ];
    insta::assert_snapshot!(texts.map(|text| refusal(&text, &mistake(&text))).concat());
}
