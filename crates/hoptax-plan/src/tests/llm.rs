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

/// Checks that a plan has one error, with this text.
fn one_fault(text: &str, expected: &str) {
    let PlanErrors(errors) = parsed(text, &[]).expect_err(text);
    let shown: Vec<_> = errors.iter().map(|error| format!("{}; {}", error.message, error.help)).collect();
    assert!(shown.len() == 1 && shown[0].contains(expected), "{text}: {shown:?}");
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
    let found = (target.name.as_str(), target.method.as_str(), target.path.as_str());
    assert_eq!(found, ("openai gpt-4o-mini, 1KiB, 20 tokens", "POST", "/v1/chat/completions"));
    assert_eq!(target.body, Some(Body::Like { kind: BodyKind::Text, size: 1024 }));
    assert_eq!(target.headers, request.headers("hoptax"));
    assert!(target.varies && !target.body_is_template);
}

#[test]
fn all_keys_are_understood() {
    let model = "apis: [anthropic, openai], first_token: \"uniform(50ms, 90ms)\", gap: 10ms, tokens: 2000, \
                 bytes_per_token: 64, split: 3, crlf: true, headers_of_provider: true, usage: 1234567, \
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
    assert_eq!(target.name, "anthropic m/1, 9B, 1024 tokens every 10ms");
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
    assert_eq!((stream(&any).0, any.name.as_str()), (UNKNOWN, "openai gpt-4o-mini, 2MiB, tokens"));
    // Streams of tokens are searched for a number of connections, as those of other messages are.
    let search = "load: [{ loop: closed, connections: 64, search: { slo: 'p99 < 50ms', from: 4, to: 64 } }]";
    let text = plan("", "{ llm: openai }").replace(LOAD, &format!("gateways: []\n{search}\n"));
    assert!(good(&text).load[0].search.is_some());
}

#[test]
fn wrong_models_of_the_upstream_are_refused() {
    for (model, expected) in [
        ("apis: gemini", "`gemini` is not an API of language models; use openai, responses or anthropic"),
        ("tokens: 0", "`tokens` cannot be 0; use 1 to 1000000"),
        ("bytes_per_token: 34", "a token of 34 bytes has no room for its number and its time; use 35 to"),
        ("per_write: 1001", "`per_write` cannot be 1001; use 1 to 1000"),
        ("split: 41", "`split` cannot be 41; use 1 to 40"),
        ("split: 2, per_write: 2", "a write cannot have several tokens and also a part of one"),
        ("heartbeat: 0s", "the time until a comment is zero"),
        ("first_token: fast", "fast"),
        ("failures: [{ kind: cut, at: 20 }]", "`cut` after 20 tokens never happens: a response has 20"),
        ("failures: [{ kind: overloaded, at: 1 }]", "`overloaded` is an answer instead of a stream"),
        ("failures: [{ kind: cut, share: 60% }, { kind: silence, share: 0.5 }]", "add up to 110%; lower"),
        ("gap: 3s", "every response would time out: its tokens are 3s apart, and the timeout is 3s; raise"),
        ("first_token: 4s", "every response would time out: its tokens are 4s apart"),
        ("tokens: 11, gap: 1s", "no response would end in a trial: the 11 tokens of a response take 10s"),
    ] {
        one_fault(&plan(model, "{ llm: openai }"), expected);
    }
    let running = RUNNING.replace(" }", ", llm: {} }");
    one_fault(&format!("{running}{LOAD}"), "`llm` is only for the built-in upstream; remove `llm`");
    for good_model in ["first_token: 4s, heartbeat: 1s", "tokens: 11, gap: 1s, per_write: 2"] {
        good(&plan(good_model, "{ llm: openai }"));
    }
}

#[test]
fn wrong_requests_are_refused() {
    for (target, expected) in [
        ("{ llm: gemini }", "`gemini` is not an API of language models; use openai"),
        ("{ llm: responses }", "the upstream does not have the API responses; add it to `apis` of the"),
        ("{ llm: openai, grpc: { service: a, method: B } }", "a target with `llm` has no `grpc`; remove one"),
        ("{ llm: openai, websocket: {} }", "a target with `llm` has no `websocket`"),
        ("{ llm: openai, events: true }", "a target with `llm` has no `events`; remove it, or write"),
        ("{ llm: openai, method: POST }", "a target with `llm` has no `method`; remove it"),
        ("{ llm: openai, body: 1KiB }", "a target with `llm` has no `body`; write `prompt`"),
        ("{ llm: { model: a b } }", "`a b` is not the name of a model"),
        ("{ llm: { prompt: 9MiB } }", "a prompt of 9MiB is too long; use at most 8MiB"),
        ("{ llm: { prompt: {} } }", "a prompt needs one of `text` and `file`"),
        ("{ llm: { prompt: { text: \"{{sqe}}\" } } }", "there is no template `sqe`"),
        ("{ llm: { prompt: { file: absent } } }", "cannot read no-such-directory/absent"),
        ("{ llm: { max_tokens: 0 } }", "`max_tokens` is zero"),
        ("{ llm: { tools: 1001 } }", "`tools` is too large: 1001; write 1000 or less"),
        ("{ llm: { tools: 0, tool_call: true } }", "`tool_call` needs `tools`; add tools: 1"),
        ("{ llm: { leave: {} } }", "`leave` needs one of `after` and `after_tokens`"),
        ("{ llm: { leave: { after: 0s } } }", "`after` is zero"),
        ("{ llm: { leave: { after_tokens: 21 } } }", "a response has 20 tokens, not 21; write 20 or less"),
        ("{ llm: { stream: false, leave: { after: 1s } } }", "a client can leave only a stream"),
        ("{ llm: { stream: false, pause: { after_tokens: 1, time: 1s } } }", "can pause only in a stream"),
        ("{ llm: { leave: { after: 1s }, pause: { after_tokens: 1, time: 1s } } }", "both pause and leave"),
        ("{ llm: { pause: { after_tokens: 0, time: 1s } } }", "`after_tokens` is zero; write 1 or more"),
        ("{ llm: { pause: { after_tokens: 20, time: 1s } } }", "no token would follow the pause: a response"),
        ("{ llm: { pause: { after_tokens: 1, time: 0s } } }", "`time` is zero"),
        ("{ llm: { pause: { after_tokens: 1, time: 3s } } }", "the pause is 3s, and the timeout is 3s"),
        ("{ llm: { pause: { after_tokens: 1 } } }", "time"),
        ("[{ llm: openai }, { llm: openai }]", "two targets have the default name `openai gpt-4o-mini, 1KiB"),
    ] {
        one_fault(&plan("apis: openai", target), expected);
    }
    let whole = "{ llm: { stream: false } }";
    one_fault(&plan("first_token: 3s", whole), "a response without `stream` takes 3s, and the timeout is 3s");
    one_fault(
        &format!("upstream: {{ instances: 1 }}\ntarget: {{ llm: openai }}\n{LOAD}"),
        "the built-in upstream plays no language model; add upstream: { llm: {} }",
    );
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
    for (target, limits, expected) in [
        ("{ llm: openai }", "", "`goodput` has no limit; add one, such as first_content: 300ms"),
        ("{ llm: openai }", "token_time: 0s", "no request meets a limit of zero; write a time such as"),
        ("{ llm: openai }", "age: 5ms", "age"),
        ("{ path: / }", "token_time: 5ms", "but `GET /` is not a stream of tokens; remove `goodput`"),
        ("{ llm: { stream: false } }", "token_time: 5ms", "is not a stream of tokens; remove `goodput`"),
        ("{ name: a, llm: { leave: { after: 1s } } }", "response_time: 5s", "the client leaves `a` early"),
    ] {
        one_fault(&of(target, limits), expected);
    }
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
    one_fault(&text(LOAD, one, ""), "only plans with `goodput` have `goodput_share`");
    let search = "gateways: []\nload: [{ loop: open, connections: 8, duration: 5s, search: { slo: \"goodput \
                  >= 99%\", from: 100/s, to: 900/s } }]\n";
    good(&text(search, "", limits));
    one_fault(&text(search, "", ""), "the search limits the goodput, but the plan has no `goodput`");
}

#[test]
fn features_and_budgets_must_fit_requests_to_models() {
    let text = |api: &str| {
        let gateways = "gateways: [{ name: nginx, features: [key-auth] }]";
        plan("", &format!("{{ llm: {api} }}")).replace("gateways: []", gateways)
    };
    one_fault(&text("anthropic"), "`key-auth` uses the header `x-api-key`, which has the API key of `llm`");
    good(&text("openai"));
    for (metric, is_good) in
        [("first_age_p50", false), ("extra_tokens_per_stream", false), ("first_content_p50", true)]
    {
        let load = LOAD.replace("[]", "[nginx]");
        let max = if metric.ends_with("p50") { "2ms" } else { "2" };
        let budget = format!("budget: [{{ metric: {metric}, max: {max} }}]\n");
        let text = format!("{RUNNING}target: {{ llm: openai }}\n{load}{budget}");
        match is_good {
            true => drop(good(&text)),
            false => one_fault(&text, "needs the built-in upstream, which writes times and counts tokens"),
        }
    }
}

#[test]
fn lines_of_prompts_must_be_text_of_json() {
    let directory = tempfile::tempdir().expect("a directory");
    let context = Context { directory: directory.path().to_owned(), ..context() };
    let text = plan("", "{ llm: { prompt: { text: \"{{line p.txt}}\" } } }");
    for (lines, is_good) in [("one\ntwo\n", true), ("one\nsay \"two\"\n", false)] {
        std::fs::write(directory.path().join("p.txt"), lines).expect("written");
        let read = parse("plans/x.yaml", &text, &[], &context).map_err(|errors| errors.to_string());
        assert_eq!(read.is_ok(), is_good, "{read:?}");
        let error = read.err().unwrap_or_default();
        assert_eq!(error.contains("line 2 of `p.txt` cannot be in JSON as it is"), !is_good, "{error}");
    }
}
