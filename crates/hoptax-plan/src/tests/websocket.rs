//! Tests of targets that are WebSockets.

use super::*;
use hoptax_format::messages::{Carrier, ENDLESS, StreamKind, StreamSpec, UNKNOWN};

/// A plan with this target.
fn plan(target: &str) -> String {
    format!(
        "target: {target}\ngateways: [nginx]\nload: [{{ loop: closed, connections: 1, duration: 10s }}]\n"
    )
}

fn stream(kind: StreamKind, messages: u32, every_ns: u64) -> StreamSpec {
    StreamSpec { carrier: Carrier::WebSocket, ..StreamSpec::grpc(kind, messages, every_ns) }
}

fn built_in(plan: &Plan) -> &BuiltInUpstream {
    match &plan.upstream {
        Upstream::BuiltIn(upstream) => upstream,
        Upstream::Running(_) => panic!("it is built in"),
    }
}

#[test]
fn a_websocket_is_a_handshake_and_messages() {
    let read = good(&plan("{ path: /chat, headers: { authorization: x }, websocket: {} }"));
    let target = &read.targets[0];
    assert_eq!((target.name.as_str(), target.method.as_str()), ("WebSocket /chat", "GET"));
    assert_eq!(target.stream, Some(stream(StreamKind::BothWays, 10, 0)));
    assert_eq!(target.body, Some(Body::Size(64)));
    let names: Vec<&str> = target.headers.iter().map(|(name, _)| name.as_str()).collect();
    let expected = ["authorization", "connection", "upgrade", "sec-websocket-version", "sec-websocket-key"];
    assert_eq!(names, expected);
    assert!(built_in(&read).streams.is_empty() && !built_in(&read).websocket_compression);
    let typed = "{ kind: echo, messages: endless, every: 1s, message: { text: hi }, compression: deflate }";
    let read = good(&plan(&format!("{{ websocket: {typed} }}")));
    let target = &read.targets[0];
    assert_eq!(target.stream, Some(stream(StreamKind::BothWays, ENDLESS, 1_000_000_000)));
    assert_eq!(target.body, Some(Body::Text("hi".into())));
    assert_eq!(target.headers.last().map(|(name, _)| name.as_str()), Some("sec-websocket-extensions"));
    assert!(built_in(&read).websocket_compression);
    assert_eq!((read.warmup, read.until_settled), (Duration::from_secs(2), None));
}

#[test]
fn the_upstream_knows_what_it_pushes() {
    let targets = "[{ name: a, path: \"/push?{{seq}}\", websocket: { kind: push, messages: 5, every: 1s } }, \
                   { name: b, path: /all, websocket: { kind: fan-out } }, \
                   { name: c, path: /push, websocket: { kind: push, messages: 5, every: 1s } }, \
                   { name: d, path: \"/{{seq}}\", websocket: {} }, \
                   { name: e, path: /echo, websocket: {} }, \
                   { name: f, path: /echo, websocket: { messages: 2 } }]";
    let read = good(&plan(targets));
    let push = stream(StreamKind::ServerStream, 5, 1_000_000_000);
    let all = StreamSpec { fan_out: true, ..stream(StreamKind::ServerStream, 10, 0) };
    let streams = built_in(&read).streams.iter().map(|one| (one.path.as_str(), one.stream));
    assert_eq!(streams.collect::<Vec<_>>(), [("/push", push), ("/all", all)]);
    let push = plan("{ websocket: { kind: push } }");
    let running = format!("upstream: {{ url: \"http://127.0.0.1:9\" }}\n{push}");
    assert_eq!(good(&running).targets[0].stream, Some(stream(StreamKind::ServerStream, UNKNOWN, 0)));
}

#[test]
fn websockets_can_use_http2_but_not_http10() {
    let socket = plan("{ websocket: {} }");
    let over = |version: &str| socket.replace("closed,", &format!("closed, http: {version},"));
    assert_eq!(good(&over("2")).load[0].http, hoptax_format::spec::HttpVersion::Http2);
    one_fault(&over("1.0"), "HTTP/1.0 has no WebSockets, but the target `WebSocket /` is one; use 1.1 or 2");
}

#[test]
fn wrong_websockets_are_refused() {
    for (target, expected) in [
        ("{ method: GET, websocket: {} }", "a target with `websocket` has no `method`; remove it"),
        ("{ body: 1B, websocket: {} }", "a target with `websocket` has no `body`; write `message`"),
        ("{ body: { size: 1B, chunked: true }, websocket: {} }", "a target with `websocket` has no `body`;"),
        ("{ expect: { status: 404 }, websocket: {} }", "has no `expect.status`; remove it: the status is"),
        ("{ expect: { body: { contains: a } }, websocket: {} }", "has no `expect.body`; remove it"),
        ("{ websocket: { kind: stream } }", "unknown value `stream`"),
        ("{ websocket: { messages: 0 } }", "`messages` is zero"),
        ("{ websocket: { messages: all } }", "`all` is not a number of messages; write a number such as"),
        ("{ websocket: { message: 18B } }", "a message of 18B has no room for its number and its time; use"),
        ("{ websocket: { message: 5MiB } }", "with its number and its time; use at most 4MiB"),
        ("{ websocket: { message: { text: \"{{seq}}\" } } }", "a message cannot contain templates"),
        ("{ websocket: { message: { json: { a: 1 } } } }", "`json` is only for gRPC calls; write the"),
        ("{ websocket: { message: { size: 19B, text: a } } }", "a message needs one of `size`, `text`"),
        ("{ websocket: { compression: gzip } }", "unknown value `gzip`"),
        ("{ websocket: { kind: push, message: 64B } }", "only with `kind: echo` does the client send"),
        ("{ websocket: { kind: push, messages: endless } }", "endless messages without `every` would"),
        ("{ path: \"/{{seq}}\", websocket: { kind: push } }", "knows a WebSocket by its path, but this"),
        ("[{ name: a, websocket: { kind: push } }, { name: b, websocket: {} }]", "`a` and `b` have one"),
        ("{ websocket: { every: 3s } }", "every WebSocket would time out: its messages are 3s apart, and"),
        ("{ websocket: { messages: 11, every: 1s } }", "no WebSocket would end in a trial: the 11 messages"),
    ] {
        one_fault(&plan(target), expected);
    }
    let both = plan("{ websocket: {}, grpc: { service: a, method: B } }");
    let both = both.replace("closed,", "closed, http: 2,").replace("[nginx]", "[]");
    one_fault(&both, "a target has either `grpc` or `websocket`; remove one of the two");
    let hop = plan("{ websocket: {} }").replace("closed,", "closed, http: 2,").replace("[nginx]", "[hop-h2]");
    one_fault(&hop, "`hop-h2` does not pass WebSockets; use hop-l7 or hop-l4");
    // Echoes wait for answers, so they can be endless without a pause.
    good(&plan("{ websocket: { messages: endless } }"));
}

#[test]
fn starts_need_requests() {
    let start = "target: { websocket: {} }\ngateways: [nginx]\nstart: {}\n";
    one_fault(start, "`start` measures single requests, but a target is a WebSocket; remove `start`");
}
