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
    let all = "{ count: endless, gap: 1s, bytes: 35, first: 2s, per_write: 3, heartbeat: 15s }";
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
    for (typed, expected) in [
        ("count: 0", "`count` is zero; write 1 or more"),
        ("count: 1000001", "`count` is too large: 1000001; write 1000000 or less"),
        ("count: many", "`many` is not a number of messages; write a number such as 20, or endless"),
        ("gap: -1s", "-1s"),
        ("bytes: 34", "an event of 34 bytes has no room for its number and its time; write at least 35"),
        ("bytes: 4194305", "`bytes` is too large: 4194305; write 4194304 or less"),
        ("per_write: 0", "`per_write` is zero; write 1 or more"),
        ("per_write: 1001", "`per_write` is too large"),
        ("split: 0", "`split` is zero"),
        ("split: 65", "`split` is too large: 65; write 64 or less"),
        ("split: 2, per_write: 3", "`split` cuts single events, but `per_write` sends 3 at a time; remove"),
        ("heartbeat: 0s", "`heartbeat` is zero; write a longer time"),
        ("count: endless", "endless events without a `gap` would be sent without a pause; add `gap`"),
        ("gap: 3s", "every response would time out: its events are 3s apart, and the timeout is 3s; raise"),
        ("first: 4s", "every response would time out: its events are 4s apart, and the timeout is 3s"),
        ("count: 11, gap: 1s", "no response would end in a trial: the 11 events of a response take 10s,"),
    ] {
        one_fault(&format!("upstream: {{ events: {{ {typed} }} }}\n{CLOSED}"), expected);
    }
    let heard = "upstream: { events: { count: 3, gap: 4s, heartbeat: 1s } }\n";
    good(&format!("{heard}{CLOSED}"));
    let late = "upstream: { events: { count: 3, first: 1s, gap: 500ms, per_write: 2, split: 1 } }\n";
    let length = Duration::from_millis(1500);
    let Upstream::BuiltIn(upstream) = good(&format!("{late}{CLOSED}")).upstream else { panic!("built in") };
    assert_eq!(upstream.events.map(|events| events.length()), Some(length));
    one_fault(
        &format!("upstream: {{ status: 204, events: {{}} }}\n{CLOSED}"),
        "a response with status 204 has no body, and so no events; remove `events`",
    );
    let running = RUNNING.replace(" }", ", events: { count: 2 } }");
    one_fault(&format!("{running}{CLOSED}"), "`events` is only for the built-in upstream; remove `events`");
}

#[test]
fn wrong_events_of_targets_are_refused() {
    let upstream = "upstream: { events: { count: 2 } }\n";
    for (start, target, expected) in [
        ("", "{ events: true }", "the built-in upstream sends no events; add upstream: { events:"),
        (upstream, "{ events: { count: 2 } }", "the events of the built-in upstream are set in `upstream`"),
        (upstream, "{ method: HEAD, events: true }", "the response to HEAD has no body, and so no events"),
        (upstream, "{ events: true, headers: { accept: a/b } }", "sends events only to requests that accept"),
        (RUNNING, "{ events: {} }", "`events` is empty; write true, or add `count` or `every`"),
        (RUNNING, "{ events: { count: 0 } }", "`count` is zero"),
        (RUNNING, "{ events: { count: 11, every: 1s } }", "no response would end in a trial"),
        (RUNNING, "{ events: true, websocket: {} }", "a target with `websocket` has no `events`; remove"),
    ] {
        one_fault(&format!("{start}target: {target}\n{CLOSED}"), expected);
    }
    let call = format!("{upstream}target: {{ events: true, grpc: {{ service: a, method: B }} }}\n{CLOSED}");
    let call = call.replace("closed,", "closed, http: 2,");
    one_fault(&call, "a target with `grpc` has no `events`");
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
    for (load, rest, expected) in [
        (
            "{ loop: open, rate: 1/s, connections: 2 }",
            "",
            "an open loop needs requests that end, but these messages are endless; write `loop: closed`, or",
        ),
        (
            "{ loop: closed, connections: 2, requests: 5, duration: 10s }",
            "",
            "`requests` counts requests that end, but these messages are endless; remove `requests`",
        ),
        (
            "{ loop: open, connections: 3000, search: { from: 1000/s, to: 2000/s } }",
            "",
            "a search needs requests that end, but these messages are endless",
        ),
        (
            closed,
            "target: [{ path: /a }, { path: /b, events: false }]\n",
            "endless messages keep a connection, which then never sends the other targets; use endless",
        ),
    ] {
        one_fault(&plan(load, rest), expected);
    }
}
