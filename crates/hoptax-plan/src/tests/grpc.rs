//! Tests of targets that are gRPC calls.

use super::*;
use hoptax_format::grpc::Status;
use hoptax_format::messages::{StreamKind, StreamSpec};
use hoptax_format::spec::Check;

/// A plan with this target and these gateways, over HTTP/2.
fn plan(target: &str, gateways: &str) -> String {
    let load = "load: [{ loop: closed, connections: 1, http: 2 }]";
    format!("target: {target}\ngateways: [{gateways}]\n{load}\n")
}

#[test]
fn a_call_is_a_post_of_its_message() {
    let text = plan(
        "{ grpc: { service: echo.Echo, method: Say, message: { size: 100B }, deadline: 150ms }, \
         headers: { authorization: x } }",
        "hop-h2, hop-l4",
    );
    let target = good(&text).targets.remove(0);
    assert_eq!((target.name.as_str(), target.path.as_str()), ("echo.Echo/Say", "/echo.Echo/Say"));
    assert_eq!((target.method.as_str(), &target.body), ("POST", &Some(Body::Size(100))));
    assert!(target.grpc && target.checks.is_empty());
    let expected = [
        ("authorization", "x"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("grpc-timeout", "150m"),
    ];
    let headers: Vec<_> = target.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(headers, expected);
    let short = good(&plan("{ grpc: { service: a, method: B } }", "")).targets.remove(0);
    assert_eq!((short.body, short.headers.len()), (Some(Body::Size(0)), 2));
    let text = good(&plan("{ grpc: { service: a, method: B, message: { text: hi } } }", ""));
    assert_eq!(text.targets[0].body, Some(Body::Text("hi".into())));
}

#[test]
fn other_statuses_can_be_expected() {
    let target = |expected: &str| {
        let target = format!("{{ grpc: {{ service: a, method: B }}, expect: {{ grpc: {expected} }} }}");
        good(&plan(&target, "")).targets.remove(0).checks
    };
    assert_eq!(target("not-found"), [Check::Grpc(vec![Status::NotFound])]);
    assert_eq!(target("[ok, DEADLINE_EXCEEDED]"), [Check::Grpc(vec![Status::Ok, Status::DeadlineExceeded])]);
}

#[test]
fn wrong_calls_are_refused() {
    insta::assert_snapshot!(refusals(
        &[
            "{ grpc: { service: a/b, method: B } }",
            "{ grpc: { service: a, method: B/C } }",
            "{ path: /x, grpc: { service: a, method: B } }",
            "{ method: PUT, grpc: { service: a, method: B } }",
            "{ body: 9B, grpc: { service: a, method: B } }",
            "{ grpc: { service: a, method: B, deadline: 0s } }",
            "{ expect: { grpc: ok } }",
            "{ grpc: { service: a, method: B }, expect: { grpc: fine } }",
        ],
        |target| mistake(&plan(target, ""))
    ));
}

#[test]
fn calls_need_http2_on_both_legs() {
    let call = "{ grpc: { service: a, method: B } }";
    let over_http1 = plan(call, "").replace(", http: 2", "");
    let old = ["hop-h2", "haproxy"].map(|name| format!("{{ name: {name}, upstream_http: 1.1 }}"));
    let told =
        refusals(&[&over_http1, &plan(call, "nginx"), &plan(call, &old[0]), &plan(call, &old[1])], mistake);
    insta::assert_snapshot!(told);
    let external = "{ name: external, label: mine, url: \"http://127.0.0.1:9\" }";
    good(&plan(call, &format!("hop-l4, hop-h2, {external}")));
}

#[test]
fn packs_speak_http2_to_the_upstream_for_calls() {
    let http2 = |target: &str, gateway: &str| good(&plan(target, gateway)).gateways[0].has_http2_upstream();
    let call = "{ grpc: { service: a, method: B } }";
    assert!(http2(call, "haproxy"));
    assert!(http2(&format!("[{{ path: / }}, {call}]"), "haproxy"));
    assert!(!http2("{ path: / }", "haproxy"));
    assert!(http2(call, "{ name: haproxy, upstream_http: 2 }"));
    // A pack can pass calls although it speaks HTTP/1 otherwise, and can list that it does not pass them.
    let mut context = context();
    let edited = |name: &str, context: &mut Context, edit: &dyn Fn(&mut PackInfo)| {
        edit(context.known.iter_mut().find(|pack| pack.name == name).expect("known"));
    };
    edited("nginx", &mut context, &|pack| pack.grpc = true);
    edited("haproxy", &mut context, &|pack| {
        pack.unsupported.insert("grpc".to_owned(), "it loses trailers".to_owned());
    });
    let parsed = |gateway: &str| parse("plans/x.yaml", &plan(call, gateway), &[], &context);
    let nginx = parsed("nginx").unwrap_or_else(|errors| panic!("{errors}"));
    assert!(!nginx.gateways[0].has_http2_upstream());
    insta::assert_snapshot!(parsed("haproxy").expect_err("it passes none"));
}

#[test]
fn streams_reach_the_target_and_the_upstream() {
    let stream = |call: &str| {
        let read = good(&plan(&format!("{{ grpc: {{ service: a, method: B, {call} }} }}"), ""));
        let Upstream::BuiltIn(upstream) = &read.upstream else { panic!("it is built in") };
        let streams = upstream.streams.iter().map(|of_path| (of_path.path.as_str(), of_path.stream));
        let expected = read.targets[0].stream.map(|stream| ("/a/B", stream));
        assert_eq!(streams.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
        (read.targets[0].stream, read.load[0].duration)
    };
    let of = |kind, messages, every_ns| StreamSpec::grpc(kind, messages, every_ns);
    let both = of(StreamKind::BothWays, 4, 10_000_000);
    // By default, a trial has time for 50 calls.
    let trial = Duration::from_millis(50 * 30);
    assert_eq!(stream("kind: both-ways, messages: 4, every: 10ms, message: 100B"), (Some(both), trial));
    let usual = of(StreamKind::ServerStream, 10, 0);
    assert_eq!(stream("kind: server-stream"), (Some(usual), Duration::from_millis(300)));
    assert_eq!(stream("kind: unary").0, None);
}

#[test]
fn wrong_streams_are_refused() {
    let of = |call: &str| plan(&format!("{{ grpc: {{ service: a, method: B, {call} }} }}"), "");
    insta::assert_snapshot!(refusals(
        &[
            "messages: 5",
            "kind: unary, every: 5ms",
            "kind: both-ways, messages: 0",
            "kind: both-ways, messages: 1000001",
            "kind: server-stream, every: 3s",
            "kind: both-ways, every: 20ms, deadline: 180ms",
            "kind: both-ways, message: 10B",
            "kind: both-ways, message: 5MiB",
            "kind: both-ways, compression: gzip",
            "message: { json: { text: hi } }",
            "message: { size: 1B, json: '{}' }",
            "message: { size: 1B, text: a }",
            "message: { text: '{{seq}}' }",
            "proto: missing.proto",
            "kind: both",
        ],
        |call| mistake(&of(call))
    ));
    let call = "{ grpc: { service: a, method: B, kind: client-stream, messages: 2, every: 100ms } }";
    let short = plan(call, "").replace("http: 2", "http: 2, duration: 50ms");
    let open = plan(call, "").replace("loop: closed", "loop: open, rate: 1000/s");
    insta::assert_snapshot!(refusals(&[&short, &open], mistake));
}

#[test]
fn a_stream_can_be_longer_than_the_timeout_or_end_at_its_deadline() {
    let call = "{ grpc: { service: a, method: B, kind: both-ways, messages: 5, every: 1s } }";
    let long = plan(call, "").replace("http: 2", "http: 2, duration: 5s");
    let read = good(&long);
    let length = read.targets[0].stream.expect("a stream").length_ns();
    assert!(Duration::from_nanos(length) > read.timeout.total, "{length}");
    let late = call.replace("1s }", "1s, deadline: 2s }, expect: { grpc: [ok, deadline-exceeded] }");
    good(&plan(&late, "").replace("http: 2", "http: 2, duration: 5s"));
}

#[test]
fn budgets_of_messages_need_such_messages() {
    let with = |kind: &str, metric: &str| {
        let text = plan(&format!("{{ grpc: {{ service: a, method: B, kind: {kind} }} }}"), "");
        format!("{text}budget: [{{ metric: {metric}, max: 1ms }}]\n")
    };
    for (kind, metrics) in [
        ("both-ways", &["message_p99", "added_gap_p50", "first_message_p50", "cpu_us_per_message"][..]),
        ("server-stream", &["age_p50", "added_age_p99", "gap_p99", "added_first_message_p50"]),
        ("client-stream", &["cpu_us_per_message", "first_message_p50", "p99"]),
        ("both-ways", &["headers_p50", "cpu_us_per_stream_second", "added_first_byte_p50"]),
        ("unary", &["first_byte_p50", "added_first_byte_p50"]),
    ] {
        for metric in metrics {
            good(&with(kind, metric));
        }
    }
    let streams = "{ grpc: { service: a, method: B, kind: both-ways } }";
    let mix = plan(&format!("[{streams}, {{ grpc: {{ service: a, method: C }} }}]"), "");
    let budgets = "budget: [{ metric: message_p50, max: 1ms }, { metric: cpu_us_per_message, max: 1ms }]\n";
    let elsewhere = with("server-stream", "age_p50") + "upstream: { url: \"http://127.0.0.1:9\" }\n";
    let memory = with("server-stream", "bytes_per_stream").replace("max: 1ms", "max: 1KiB");
    let mut told = refusals(&[&(mix + budgets), &elsewhere, &memory], mistake);
    for (kind, metric) in [
        ("unary", "cpu_us_per_message"),
        ("server-stream", "added_message_p50"),
        ("both-ways", "age_p50"),
        ("client-stream", "gap_p50"),
        ("server-stream", "token_time_p50"),
        ("server-stream", "reach_p50"),
    ] {
        told += &refusal(&format!("{kind}: {metric}"), &mistake(&with(kind, metric)));
    }
    insta::assert_snapshot!(told);
}

#[test]
fn targets_with_one_method_have_the_same_streams() {
    let two = |second: &str| {
        let first = "{ name: x, grpc: { service: a, method: B, kind: server-stream } }";
        plan(&format!("[{first}, {{ name: y, grpc: {{ service: a, {second} }} }}]"), "")
    };
    let same = good(&two("method: B, kind: server-stream, message: 50B"));
    assert!(matches!(&same.upstream, Upstream::BuiltIn(upstream) if upstream.streams.len() == 1));
    good(&two("method: C"));
    let differ = ["method: B", "method: B, kind: server-stream, messages: 9"];
    insta::assert_snapshot!(refusals(&differ, |second| mistake(&two(second))));
    let elsewhere = "upstream: { url: \"http://127.0.0.1:9\" }\n";
    good(&format!("{elsewhere}{}", two("method: B")));
}

#[test]
fn a_compressed_call_says_so() {
    let target = good(&plan("{ grpc: { service: a, method: B, compression: gzip } }", "")).targets.remove(0);
    assert!(target.gzip, "{target:?}");
    let expected = [("grpc-encoding", "gzip"), ("grpc-accept-encoding", "gzip, identity")];
    let headers: Vec<_> = target.headers[2..].iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(headers, expected);
    assert!(!good(&plan("{ grpc: { service: a, method: B, compression: off } }", "")).targets[0].gzip);
}

const PROTO: &str = r#"syntax = "proto3";
package echo;
service Echo {
  rpc Say (Request) returns (Request);
  rpc Watch (Request) returns (stream Request);
}
message Request { string text = 1; int32 count = 2; bool loud = 3; }
"#;

/// A plan beside `echo.proto`, with this call of its service.
fn with_proto(call: &str) -> Result<Plan, PlanErrors> {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("echo.proto"), PROTO).expect("written");
    let context = Context { directory: directory.path().to_owned(), ..context() };
    let text = plan(&format!("{{ grpc: {{ service: echo.Echo, proto: echo.proto, {call} }} }}"), "");
    parse("plans/x.yaml", &text, &[], &context)
}

#[test]
fn messages_of_a_proto_file_are_encoded() {
    let target = |call: &str| {
        let mut read = with_proto(call).unwrap_or_else(|errors| panic!("{call}: {errors}"));
        read.targets.remove(0)
    };
    let expected = Some(EncodedMessage(b"\x0a\x02hi\x10\xac\x02\x18\x01".to_vec()));
    let say = target("method: Say, message: { json: { text: hi, count: 300, loud: true } }");
    assert_eq!((&say.encoded, say.stream), (&expected, None));
    assert!(matches!(&say.body, Some(Body::Text(json)) if json.contains("\"count\":300")), "{say:?}");
    let text = r#"method: Say, message: { json: '{ "text": "hi", "count": "300", "loud": true }' }"#;
    assert_eq!(target(text).encoded, expected);
    let quoted = target(r#"method: Say, message: { json: { text: "5" } }"#);
    assert_eq!(quoted.encoded, Some(EncodedMessage(b"\x0a\x015".to_vec())));
    let watch = target("method: Watch, messages: 3").stream.expect("it is a stream in the file");
    assert_eq!((watch.kind, watch.messages), (StreamKind::ServerStream, 3));
}

#[test]
fn a_call_must_fit_its_proto_file() {
    insta::assert_snapshot!(refusals(
        &[
            "method: Say, kind: server-stream",
            "method: Sya",
            "method: Say, message: { json: { txet: hi } }",
            "method: Say, message: { json: { text: 5 } }",
            "method: Say, message: { json: { text: '{{seq}}' } }",
            "method: Say, messages: 3",
        ],
        |call| listed(with_proto(call).expect_err(call))
    ));
}

#[test]
fn the_upstream_can_end_calls_with_a_status() {
    let status = |text: &str| {
        let Upstream::BuiltIn(upstream) = good(text).upstream else { panic!("built in") };
        upstream.grpc_status
    };
    let text = plan("{ grpc: { service: echo.Echo, method: Say } }", "");
    assert_eq!(status(&text), None);
    assert_eq!(status(&format!("upstream: {{ grpc_status: not-found }}\n{text}")), Some(Status::NotFound));
}
