//! Tests of gateways that pass no WebSockets or no server-sent events.

use super::*;

/// The errors of a plan with this target or upstream, and this gateway.
fn refusals(keys: &str, gateway: &str) -> String {
    let mut context = context();
    for pack in &mut context.known {
        match pack.name.as_str() {
            "haproxy" => pack.unsupported.insert("websocket".to_owned(), "no tunnels".to_owned()),
            "envoy" => pack.unsupported.insert("sse".to_owned(), "it buffers".to_owned()),
            _ => None,
        };
    }
    let text = format!("{keys}\ngateways: [{gateway}]\nload: [{{ loop: closed, connections: 1 }}]\n");
    parse("plans/x.yaml", &text, &[], &context).map_or_else(|errors| errors.to_string(), |_| String::new())
}

#[test]
fn a_gateway_must_pass_the_websockets_of_the_plan() {
    let websocket = "target: { path: /, websocket: { kind: echo } }";
    assert_eq!(refusals(websocket, "nginx"), "");
    let refused = refusals(websocket, "haproxy");
    assert!(refused.contains("`haproxy` does not pass WebSockets: no tunnels"), "{refused}");
    let refused = refusals(websocket, "{ name: envoy, label: mine }");
    let expected = "the pack `envoy` does not say that its gateway passes WebSockets";
    assert!(refused.contains(expected), "{refused}");
    assert!(refused.contains("or write `websocket: true` in its gateway.yaml"), "{refused}");
    assert_eq!(refusals("target: { path: / }", "haproxy"), "");
}

#[test]
fn a_gateway_must_pass_the_events_of_the_plan() {
    let events = "upstream: { events: { count: 2 } }";
    assert_eq!(refusals(events, "nginx, haproxy"), "");
    let refused = refusals(events, "envoy");
    let expected = "`envoy` does not pass server-sent events as they arrive: it buffers";
    assert!(refused.contains(expected), "{refused}");
    assert_eq!(refusals("upstream: { instances: 1 }", "envoy"), "");
}
