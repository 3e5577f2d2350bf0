//! Tests of language models.

use super::*;
use hoptax_format::llm::{Api, Leave, Pause, TokenLimits, TokenSpec};
use hoptax_format::messages::{Carrier, StreamSpec, UNKNOWN};

const LOAD: &str = "gateways: []\nload: [{ loop: closed, connections: 1, duration: 10s }]\n";
const RUNNING: &str = "upstream: { url: \"http://127.0.0.1:9\" }\n";

/// A plan with this model of the upstream, and this target.
fn plan(model: &str, target: &str) -> String {
    format!("upstream: {{ llm: {{ {model} }} }}\ntarget: {target}\n{LOAD}")
}

/// The only target, whose request is one to a model.
fn target(text: &str) -> (Target, LlmRequest) {
    let target = good(text).targets.remove(0);
    let request = target.llm.clone().expect("a request to a model");
    (target, request)
}

fn stream(target: &Target) -> (u32, u64, TokenSpec) {
    let stream: StreamSpec = target.stream.expect("a stream");
    assert_eq!(stream.carrier, Carrier::Events);
    (stream.messages, stream.every_ns, stream.tokens.expect("tokens"))
}

#[test]
fn short_forms_have_defaults() {
    let text = plan("", "{ llm: openai }");
    let Upstream::BuiltIn(upstream) = good(&text).upstream else { panic!("it is built in") };
    assert_eq!(upstream.llm, Some(UpstreamLlm::default()));
    let (target, request) = target(&text);
    assert_eq!(request, LlmRequest::usual(Api::OpenAi));
    let tokens = TokenSpec { api: Api::OpenAi, usage: true, leave: None, pause: None, goodput: None };
    assert_eq!(stream(&target), (20, 0, tokens));
    assert_eq!((target.method.as_str(), target.path.as_str()), ("POST", "/v1/chat/completions"));
    insta::assert_snapshot!(target.name);
    assert_eq!(target.body, Some(Body::Like { kind: BodyKind::Text, size: 1024 }));
    assert_eq!(target.headers, request.headers("hoptax"));
    assert!(target.varies && !target.body_is_template);
}

#[test]
fn all_keys_are_understood() {
    let model = "apis: [anthropic, openai], first_token: \"uniform(50ms, 90ms)\", gap: 10ms, tokens: 2000, \
                 bytes_per_token: 64B, split: 3, crlf: true, headers_of_provider: true, usage: 1234567, \
                 heartbeat: 5s, \
                 failures: [{ kind: rate-limit, share: 10% }, { kind: cut, share: 0.5, at: 5 }]";
    let asked = "{ path: /x, headers: { authorization: own }, llm: { api: anthropic, model: m/1, prompt: { \
                 text: \"a {{seq}}\" }, tools: 2, tool_call: true, include_usage: false, \
                 leave: { after: 200ms }, key: k } }";
    let text = plan(model, asked);
    let Upstream::BuiltIn(upstream) = good(&text).upstream else { panic!("it is built in") };
    let expected = UpstreamLlm {
        apis: vec![Api::Anthropic, Api::OpenAi],
        first_token: Delay::Uniform { from: Duration::from_millis(50), to: Duration::from_millis(90) },
        gap: Duration::from_millis(10),
        tokens: 2000,
        bytes_per_token: 64,
        per_write: 1,
        split: 3,
        crlf: true,
        headers_of_provider: true,
        usage: Some(1_234_567),
        heartbeat: Some(Duration::from_secs(5)),
        failures: vec![
            LlmFailure { kind: LlmFailureKind::RateLimit, share: 0.1, at: 0 },
            LlmFailure { kind: LlmFailureKind::Cut, share: 0.5, at: 5 },
        ],
    };
    assert_eq!(upstream.llm, Some(expected));
    let (target, request) = target(&text);
    // Requests of Anthropic's API name at least a usual maximum.
    let leave = Some(Leave::AfterNs(200_000_000));
    let tokens = TokenSpec { api: Api::Anthropic, usage: true, leave, pause: None, goodput: None };
    assert_eq!(stream(&target), (1024, 10_000_000, tokens));
    let named = (target.path.as_str(), request.model.as_str(), request.tools, request.tool_call);
    assert_eq!((named, target.body_is_template), (("/x", "m/1", 2, true), true));
    for (name, value) in [("authorization", "own"), ("x-api-key", "k")] {
        assert!(target.headers.contains(&(name.to_owned(), value.to_owned())), "{:?}", target.headers);
    }
    insta::assert_snapshot!(target.name);
}

#[test]
fn requests_decide_how_long_responses_are() {
    let of = |asked: &str| target(&plan("tokens: 50, gap: 1ms", &format!("{{ llm: {{ {asked} }} }}")));
    let tokens = |asked: &str| stream(&of(asked).0);
    assert_eq!(tokens("max_tokens: 7").0, 7);
    assert!(!tokens("max_tokens: 70, include_usage: false").2.usage);
    assert_eq!(tokens("leave: { after_tokens: 50 }").2.leave, Some(Leave::AfterTokens(50)));
    let (paused, request) = of("pause: { after_tokens: 5, time: 2s }");
    let pause = Some(Pause { after_tokens: 5, time_ns: 2_000_000_000 });
    assert_eq!((stream(&paused).2.pause, request.pause), (pause, pause));
    let (whole, request) = of("api: responses, stream: false");
    assert_eq!((whole.stream, request.stream, whole.varies), (None, false, true));
    let (unique, _) = of("unique: true");
    assert!(unique.body_is_template);
    let (any, _) = target(&format!("{RUNNING}target: {{ llm: {{ prompt: 2MiB }} }}\n{LOAD}"));
    assert_eq!(stream(&any).0, UNKNOWN);
    insta::assert_snapshot!(any.name);
    // Streams of tokens are searched for a number of connections, as those of other messages are.
    let search = "load: [{ loop: closed, connections: 64, search: { slo: 'p99 < 50ms', from: 4, to: 64 } }]";
    let text = plan("", "{ llm: openai }").replace(LOAD, &format!("gateways: []\n{search}\n"));
    assert!(good(&text).load[0].search.is_some());
}

#[test]
fn wrong_models_of_the_upstream_are_refused() {
    let mut told = refusals(
        &[
            "apis: gemini",
            "tokens: 0",
            "bytes_per_token: 34",
            "per_write: 1001",
            "split: 41",
            "split: 2, per_write: 2",
            "heartbeat: 0s",
            "first_token: fast",
            "failures: [{ kind: cut, at: 20 }]",
            "failures: [{ kind: overloaded, at: 1 }]",
            "failures: [{ kind: cut, share: 60% }, { kind: silence, share: 0.5 }]",
            "gap: 3s",
            "first_token: 4s",
            "tokens: 11, gap: 1s",
        ],
        |model| mistake(&plan(model, "{ llm: openai }")),
    );
    let running = RUNNING.replace(" }", ", llm: {} }");
    told += &refusals(&[&format!("{running}{LOAD}")], mistake);
    insta::assert_snapshot!(told);
    for good_model in ["first_token: 4s, heartbeat: 1s", "tokens: 11, gap: 1s, per_write: 2"] {
        good(&plan(good_model, "{ llm: openai }"));
    }
}

#[test]
fn wrong_requests_are_refused() {
    let mut told = refusals(
        &[
            "{ llm: gemini }",
            "{ llm: responses }",
            "{ llm: openai, grpc: { service: a, method: B } }",
            "{ llm: openai, websocket: {} }",
            "{ llm: openai, events: true }",
            "{ llm: openai, method: POST }",
            "{ llm: openai, body: 1KiB }",
            "{ llm: { model: a b } }",
            "{ llm: { prompt: 9MiB } }",
            "{ llm: { prompt: {} } }",
            "{ llm: { prompt: { text: \"{{sqe}}\" } } }",
            "{ llm: { prompt: { file: absent } } }",
            "{ llm: { max_tokens: 0 } }",
            "{ llm: { tools: 1001 } }",
            "{ llm: { tools: 0, tool_call: true } }",
            "{ llm: { leave: {} } }",
            "{ llm: { leave: { after: 0s } } }",
            "{ llm: { leave: { after_tokens: 21 } } }",
            "{ llm: { stream: false, leave: { after: 1s } } }",
            "{ llm: { stream: false, pause: { after_tokens: 1, time: 1s } } }",
            "{ llm: { leave: { after: 1s }, pause: { after_tokens: 1, time: 1s } } }",
            "{ llm: { pause: { after_tokens: 0, time: 1s } } }",
            "{ llm: { pause: { after_tokens: 20, time: 1s } } }",
            "{ llm: { pause: { after_tokens: 1, time: 0s } } }",
            "{ llm: { pause: { after_tokens: 1, time: 3s } } }",
            "{ llm: { pause: { after_tokens: 1 } } }",
            "[{ llm: openai }, { llm: openai }]",
        ],
        |target| mistake(&plan("apis: openai", target)),
    );
    let whole = "{ llm: { stream: false } }";
    let no_model = format!("upstream: {{ instances: 1 }}\ntarget: {{ llm: openai }}\n{LOAD}");
    told += &refusals(&[&plan("first_token: 3s", whole), &no_model], mistake);
    insta::assert_snapshot!(told);
}

#[test]
fn goodput_needs_limits_and_whole_streams() {
    let of = |target: &str, limits: &str| plan("", target) + &format!("goodput: {{ {limits} }}\n");
    let (target, _) = target(&of("{ llm: openai }", "first_content: 300ms, token_time: 5us"));
    let limits = TokenLimits {
        first_content_ns: Some(300_000_000),
        token_time_ns: Some(5_000),
        response_time_ns: None,
    };
    assert_eq!(stream(&target).2.goodput, Some(limits));
    let told = [
        ("{ llm: openai }", ""),
        ("{ llm: openai }", "token_time: 0s"),
        ("{ llm: openai }", "age: 5ms"),
        ("{ path: / }", "token_time: 5ms"),
        ("{ llm: { stream: false } }", "token_time: 5ms"),
        ("{ name: a, llm: { leave: { after: 1s } } }", "response_time: 5s"),
    ]
    .map(|(target, limits)| refusal(&format!("{target} | {limits}"), &mistake(&of(target, limits))))
    .concat();
    insta::assert_snapshot!(told);
}

#[test]
fn budgets_and_objectives_of_goodput_need_its_limits() {
    let text = |load: &str, budget: &str, limits: &str| {
        let plan = plan("", "{ llm: openai }").replace(LOAD.trim(), load.trim());
        plan.replace("gateways: []", "gateways: [nginx]") + budget + limits
    };
    let limits = "goodput: { first_content: 300ms }\n";
    let budget = "budget: [{ metric: goodput_share, min: 99% }, { metric: good_rate, min: 5/s }]\n";
    let read = good(&text(LOAD, budget, limits));
    assert_eq!([0, 1].map(|index| read.budget[index].min), [Some(0.99), Some(5.0)]);
    let one = "budget: [{ metric: goodput_share, min: 99% }]\n";
    let search = "gateways: []\nload: [{ loop: open, connections: 8, duration: 5s, search: { slo: \"goodput \
                  >= 99%\", from: 100/s, to: 900/s } }]\n";
    good(&text(search, "", limits));
    insta::assert_snapshot!(refusals(&[&text(LOAD, one, ""), &text(search, "", "")], mistake));
}

#[test]
fn features_and_budgets_must_fit_requests_to_models() {
    let text = |api: &str| {
        let gateways = "gateways: [{ name: nginx, features: [key-auth] }]";
        plan("", &format!("{{ llm: {api} }}")).replace("gateways: []", gateways)
    };
    good(&text("openai"));
    let budget = |metric: &str| {
        let load = LOAD.replace("[]", "[nginx]");
        let max = if metric.ends_with("p50") { "2ms" } else { "2" };
        let budget = format!("budget: [{{ metric: {metric}, max: {max} }}]\n");
        format!("{RUNNING}target: {{ llm: openai }}\n{load}{budget}")
    };
    good(&budget("first_content_p50"));
    let refused = [text("anthropic"), budget("first_age_p50"), budget("extra_tokens_per_stream")];
    insta::assert_snapshot!(refused.map(|text| refusal(&text, &mistake(&text))).concat());
}

#[test]
fn lines_of_prompts_must_be_text_of_json() {
    let directory = tempfile::tempdir().expect("a directory");
    let context = Context { directory: directory.path().to_owned(), ..context() };
    let text = plan("", "{ llm: { prompt: { text: \"{{line p.txt}}\" } } }");
    let read = |lines: &str| {
        std::fs::write(directory.path().join("p.txt"), lines).expect("written");
        parse("plans/x.yaml", &text, &[], &context)
    };
    read("one\ntwo\n").unwrap_or_else(|errors| panic!("{errors}"));
    insta::assert_snapshot!(read("one\nsay \"two\"\n").expect_err("a quote"));
}
