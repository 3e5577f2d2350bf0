//! Tests of targets that are gRPC calls.

use super::*;
use hoptax_format::grpc::Status;
use hoptax_format::spec::Check;

/// A plan with this target and these gateways, over HTTP/2.
fn plan(target: &str, gateways: &str) -> String {
    let load = "load: [{ loop: closed, connections: 1, http: 2 }]";
    format!("target: {target}\ngateways: [{gateways}]\n{load}\n")
}

fn faults(text: &str) -> Vec<String> {
    let PlanErrors(errors) = parsed(text, &[]).expect_err(text);
    let shown = |error: &PlanError| {
        let PlanError { line, column, message, help, .. } = error;
        format!("{line}:{column} {message}; {help}")
    };
    errors.iter().map(shown).collect()
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
    for (target, expected) in [
        ("{ grpc: { service: a/b, method: B } }", "`a/b` is not the name of a service; write the full name"),
        ("{ grpc: { service: a, method: B/C } }", "`B/C` is not the name of a method; write the name alone"),
        ("{ path: /x, grpc: { service: a, method: B } }", "a target with `grpc` has no `path`; remove"),
        ("{ method: PUT, grpc: { service: a, method: B } }", "a target with `grpc` has no `method`; remove"),
        ("{ body: 9B, grpc: { service: a, method: B } }", "a target with `grpc` has no `body`; write"),
        ("{ grpc: { service: a, method: B, deadline: 0s } }", "`deadline` is zero; write a longer time"),
        ("{ expect: { grpc: ok } }", "`expect.grpc` needs a target with `grpc`; write `status`"),
        (
            "{ grpc: { service: a, method: B }, expect: { grpc: fine } }",
            "`fine` is not a gRPC status; use one of ok, cancelled, unknown",
        ),
    ] {
        let faults = faults(&plan(target, ""));
        assert!(faults.len() == 1 && faults[0].contains(expected), "{faults:?}");
    }
}

#[test]
fn calls_need_http2_on_both_legs() {
    let call = "{ grpc: { service: a, method: B } }";
    let over_http1 = plan(call, "").replace(", http: 2", "");
    let needs = "gRPC needs HTTP/2, but the load uses HTTP/1; write `http: 2` in each entry of `load`";
    assert!(faults(&over_http1)[0].ends_with(needs), "{:?}", faults(&over_http1));
    let pack = "gRPC needs HTTP/2 on the upstream leg too, but `nginx` speaks HTTP/1 with the upstream; \
                remove this gateway, or use hop-h2 or hop-l4";
    assert!(faults(&plan(call, "nginx"))[0].ends_with(pack), "{:?}", faults(&plan(call, "nginx")));
    let needs = "on the upstream leg too, but `upstream_http` is 1.1; remove `upstream_http`";
    for name in ["hop-h2", "haproxy"] {
        let old = plan(call, &format!("{{ name: {name}, upstream_http: 1.1 }}"));
        assert!(faults(&old)[0].ends_with(needs), "{:?}", faults(&old));
    }
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
    let refused = parsed("haproxy").expect_err("it passes none").to_string();
    assert!(refused.contains("`haproxy` does not pass gRPC calls: it loses trailers"), "{refused}");
}
