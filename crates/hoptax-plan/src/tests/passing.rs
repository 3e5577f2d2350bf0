//! Tests of gateways that pass no WebSockets or no server-sent events, or only requests to language models.

use super::*;
use crate::LlmGateway;
use hoptax_format::llm::Api;

/// The errors of a plan with this target or upstream, and this gateway. Without errors, an empty text.
fn errors(keys: &str, gateway: &str) -> String {
    let mut context = context();
    for pack in &mut context.known {
        match pack.name.as_str() {
            "haproxy" => pack.unsupported.insert("websocket".to_owned(), "no tunnels".to_owned()),
            "envoy" => pack.unsupported.insert("sse".to_owned(), "it buffers".to_owned()),
            _ => None,
        };
    }
    let text = format!("{keys}\ngateways: [{gateway}]\nload: [{{ loop: closed, connections: 1 }}]\n");
    parse("plans/x.yaml", &text, &[], &context).map_or_else(listed, |_| String::new())
}

#[test]
fn a_gateway_must_pass_the_websockets_of_the_plan() {
    let websocket = "target: { path: /, websocket: { kind: echo } }";
    assert_eq!(errors(websocket, "nginx"), "");
    assert_eq!(errors("target: { path: / }", "haproxy"), "");
    let told = refusals(&["haproxy", "{ name: envoy, label: mine }"], |gateway| errors(websocket, gateway));
    insta::assert_snapshot!(told);
}

#[test]
fn a_gateway_must_pass_the_events_of_the_plan() {
    let events = "upstream: { events: { count: 2 } }";
    assert_eq!(errors(events, "nginx, haproxy"), "");
    assert_eq!(errors("upstream: { instances: 1 }", "envoy"), "");
    insta::assert_snapshot!(errors(events, "envoy"));
}

#[test]
fn a_gateway_for_language_models_must_know_the_api_and_the_model_of_each_target() {
    let mut context = context();
    let llm = LlmGateway {
        apis: vec![Api::OpenAi, Api::Responses],
        prefix: String::new(),
        headers: BTreeMap::new(),
        model: Some("small".to_owned()),
    };
    for pack in context.known.iter_mut().filter(|pack| pack.name == "envoy") {
        pack.llm = Some(llm.clone());
    }
    let refused = |keys: &str| {
        let text = format!("{keys}\ngateways: [nginx, envoy]\nload: [{{ loop: closed, connections: 1 }}]\n");
        parse("plans/x.yaml", &text, &[], &context).map_or_else(listed, |_| String::new())
    };
    let asked = |api: &str, model: &str| {
        refused(&format!("upstream: {{ llm: {{}} }}\ntarget: {{ llm: {{ api: {api}, model: {model} }} }}"))
    };
    assert_eq!(asked("openai", "small"), "");
    let told = [refused("upstream: {}"), asked("anthropic", "small"), asked("responses", "large")];
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn a_variant_can_be_for_language_models_only() {
    let mut context = context();
    let (prefix, headers) = (String::new(), BTreeMap::new());
    let llm = LlmGateway { apis: vec![Api::OpenAi], prefix, headers, model: None };
    for pack in context.known.iter_mut().filter(|pack| pack.name == "envoy") {
        pack.variants = ["default", "ai"].map(str::to_owned).to_vec();
        pack.llm_variants = [("ai".to_owned(), llm.clone())].into();
    }
    let is_refused = |target: &str, gateway: &str| {
        let text = format!("{target}\ngateways: [{gateway}]\nload: [{{ loop: closed, connections: 1 }}]\n");
        parse("plans/x.yaml", &text, &[], &context).is_err()
    };
    let asked = "upstream: { llm: {} }\ntarget: { llm: { api: openai } }";
    for gateway in ["envoy", "{ name: envoy, variant: ai }"] {
        assert!(!is_refused(asked, gateway), "{gateway}");
    }
    let plain = "target: { path: / }";
    assert!(!is_refused(plain, "envoy") && is_refused(plain, "{ name: envoy, variant: ai }"));
}
