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
    insta::assert_snapshot!(mistake(&over("1.0")));
}

#[test]
fn wrong_websockets_are_refused() {
    let targets = [
        "{ method: GET, websocket: {} }",
        "{ body: 1B, websocket: {} }",
        "{ body: { size: 1B, chunked: true }, websocket: {} }",
        "{ expect: { status: 404 }, websocket: {} }",
        "{ expect: { body: { contains: a } }, websocket: {} }",
        "{ websocket: { kind: stream } }",
        "{ websocket: { messages: 0 } }",
        "{ websocket: { messages: all } }",
        "{ websocket: { message: 18B } }",
        "{ websocket: { message: 5MiB } }",
        "{ websocket: { message: { text: \"{{seq}}\" } } }",
        "{ websocket: { message: { json: { a: 1 } } } }",
        "{ websocket: { message: { size: 19B, text: a } } }",
        "{ websocket: { compression: gzip } }",
        "{ websocket: { kind: push, message: 64B } }",
        "{ websocket: { kind: push, messages: endless } }",
        "{ path: \"/{{seq}}\", websocket: { kind: push } }",
        "[{ name: a, websocket: { kind: push } }, { name: b, websocket: {} }]",
        "{ websocket: { every: 3s } }",
        "{ websocket: { messages: 11, every: 1s } }",
    ];
    let both = plan("{ websocket: {}, grpc: { service: a, method: B } }");
    let both = both.replace("closed,", "closed, http: 2,").replace("[nginx]", "[]");
    let hop = plan("{ websocket: {} }").replace("closed,", "closed, http: 2,").replace("[nginx]", "[hop-h2]");
    let told = refusals(&targets, |target| mistake(&plan(target))) + &refusals(&[&both, &hop], mistake);
    insta::assert_snapshot!(told);
    // Echoes wait for answers, so they can be endless without a pause.
    good(&plan("{ websocket: { messages: endless } }"));
}

#[test]
fn starts_need_requests() {
    let start = "target: { websocket: {} }\ngateways: [nginx]\nstart: {}\n";
    insta::assert_snapshot!(mistake(start));
}
