//! Streams of tokens of `hoptax upstream --llm`, which `hoptax load --llm` reads directly and through real
//! gateways. Both sides count, and a client in Python measures the same times.

use crate::features_extra::must_skip;
use crate::run::{run_to_success, trials};
use crate::sse::with_gateways;
use crate::stream_peers::{median, record, script};
use crate::support::messages::{assert_intact, count, p50};
use crate::support::{Json, PATIENCE, Scratch, hoptax, json, retry_if_disturbed, wait_until};
use crate::wire::Server;
use hoptax_format::llm::Api;
use hoptax_format::messages::{StreamSpec, UNKNOWN};
use hoptax_format::spec::TargetSpec;
use hoptax_record::LlmCounts;
use hoptax_record::plan::LlmRequest;
use hoptax_servers::ledger;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Four streams at a time, over both versions of HTTP.
const VERSIONS: [&[&str]; 2] = [&["-c", "4"], &["--http", "2", "-c", "1", "--streams", "4"]];

/// Starts a model with all APIs.
fn model(first_token: &str, gap: &str, tokens: u64, more: &[&str]) -> Server {
    let tokens = tokens.to_string();
    let options = ["--llm-first-token", first_token, "--llm-gap", gap, "--llm-tokens", &tokens];
    Server::start(&[&["upstream", "--llm"][..], &options, more].concat())
}

/// Requests this many streams. All must succeed, without a lost token.
#[track_caller]
fn load(name: &str, model: &Server, api: Api, streams: u64, more: &[&str]) -> Json {
    let url = format!("http://{}", model.instance(0));
    let mut command = hoptax();
    command.args(["load", &url, "--llm", api.name(), "-n", &streams.to_string(), "--timeout", "60s"]);
    let result = json(command.args(["--fail-above", "100%", "--json"]).args(more));
    assert_eq!(result["counts"]["ok"].as_u64(), Some(streams), "{name}: {}", result["counts"]);
    assert_intact(name, &result);
    result
}

/// Counts of streams of tokens in the result of a load.
#[track_caller]
fn counts<const N: usize>(result: &Json, names: [&str; N]) -> [u64; N] {
    let tokens = &result["messages"]["tokens"];
    names.map(|name| tokens[name].as_u64().unwrap_or_else(|| panic!("{name}: {tokens}")))
}

/// What the model has counted, as soon as this number of streams has ended or was left.
fn counted(model: &Server, streams: u64) -> LlmCounts {
    let now = || {
        let ledger = ledger::fetch(model.control()).expect("a ledger");
        ledger.instances[0].llm.clone().unwrap_or_default()
    };
    wait_until("the model has counted all streams", PATIENCE, || {
        let counts = now();
        counts.ended + counts.left >= streams
    });
    now()
}

#[test]
fn both_sides_count_the_same_streams_and_tokens() {
    let (streams, tokens) = (12, 20);
    for (how, options) in [
        ("one by one", &["--llm-per-write", "1"][..]),
        ("several in a write", &["--llm-per-write", "4"]),
        ("parts of one", &["--llm-split", "7", "--llm-crlf"]),
    ] {
        for (api, version) in Api::ALL.into_iter().flat_map(|api| VERSIONS.map(|version| (api, version))) {
            let name = format!("{how}, {}, {version:?}", api.name());
            let model = model("20ms", "2ms", tokens, options);
            let result = load(&name, &model, api, streams, version);
            assert_eq!(count(&result, "received"), streams * tokens, "{name}: {}", result["messages"]);
            let ends = counts(&result, ["ended", "unended", "errors", "left", "usage", "usage_tokens"]);
            assert_eq!(ends, [streams, 0, 0, 0, streams, streams * tokens], "{name}");
            let upstream = counted(&model, streams);
            let LlmCounts { requests, refused, with_key, .. } = upstream;
            assert_eq!([requests, refused, with_key], [streams, 0, streams], "{name}");
            let sent = [upstream.streams, upstream.ended, upstream.left, upstream.tokens];
            assert_eq!(sent, [streams, streams, 0, streams * tokens], "{name}");
            // The events without content come with the head, and so before the first token.
            let [event, content] = ["first_event", "first_message"].map(|times| p50(&result, times));
            assert!(content >= 20_000.0 && event < content, "{name}: {event} µs, {content} µs");
        }
    }
}

#[test]
fn tokens_pass_through_gateways_whole() {
    let (streams, tokens) = (24, 20);
    let gateways = with_gateways(&["hop-l4"], &["nginx", "haproxy", "envoy"]);
    let number = gateways.split(", ").count();
    // Without TLS, nginx has either HTTP/1 or HTTP/2 on its port.
    let gateways = gateways.replace("nginx", "{ name: nginx, features: [tls] }");
    let plan = format!(
        "name: llm
upstream: {{ llm: {{ first_token: 20ms, gap: 2ms, tokens: {tokens} }} }}
gateways: [{gateways}]
target:
  - {{ name: openai, llm: {{ api: openai }} }}
  - {{ name: responses, llm: {{ api: responses }} }}
  - {{ name: anthropic, llm: {{ api: anthropic }} }}
load:
  - {{ loop: closed, connections: 4, requests: {streams}, duration: 60s }}
  - {{ loop: closed, connections: 2, http: 2, streams: 4, requests: {streams}, duration: 60s }}
trials: 1
warmup: 0s
"
    );
    let scratch = Scratch::new();
    let trials = trials(&run_to_success(&scratch, &plan, &["--accept-void"]));
    // Direct is first and last in each round.
    assert_eq!(trials.len(), 2 * (2 + number));
    assert_whole(&trials, streams, tokens);
}

/// Requires that all streams of each trial succeeded, and that both sides have counted the same tokens.
#[track_caller]
fn assert_whole(trials: &[Json], streams: u64, tokens: u64) {
    for trial in trials {
        let name = format!("{}, load {}", trial["contender"], trial["load"]);
        assert!(trial["failed"].is_null(), "{name}: {}", trial["failed"]);
        let (client, upstream) = (&trial["load_record"], &trial["ledger"]["llm"]);
        assert_eq!(client["counts"]["ok"].as_u64(), Some(streams), "{name}: {}", client["counts"]);
        let messages = &client["messages"];
        assert_intact(&name, &serde_json::json!({ "messages": messages["counts"] }));
        let of_client = [&messages["counts"]["received"], &messages["tokens"]["counts"]["ended"]];
        for (name_of, ours, theirs, right) in [
            ("tokens", of_client[0], &upstream["tokens"], streams * tokens),
            ("ended", of_client[1], &upstream["ended"], streams),
        ] {
            let found = [ours, theirs].map(Json::as_u64);
            assert_eq!(found, [Some(right); 2], "{name}, {name_of}: {messages} {upstream}");
        }
    }
}

/// Each gets the headers that its pack names. Both APIs are those that all of them have.
#[test]
fn tokens_pass_through_gateways_for_language_models() {
    let known = ["portkey", "ferro", "litellm", "sglang-router", "vllm-router"];
    let gateways: Vec<&str> = known.into_iter().filter(|pack| !must_skip(pack)).collect();
    if gateways.is_empty() {
        return;
    }
    let (streams, tokens) = (30, 20);
    let plan = format!(
        "name: llm
upstream: {{ llm: {{ first_token: 20ms, gap: 2ms, tokens: {tokens} }} }}
gateways: [{}]
target:
  - {{ name: openai, llm: {{ api: openai }} }}
  - {{ name: responses, llm: {{ api: responses }} }}
load: [{{ loop: closed, connections: 4, requests: {streams}, duration: 60s }}]
trials: 1
warmup: 0s
",
        gateways.join(", ")
    );
    let scratch = Scratch::new();
    let trials = trials(&run_to_success(&scratch, &plan, &["--accept-void"]));
    assert_eq!(trials.len(), 2 + gateways.len());
    assert_whole(&trials, streams, tokens);
}

#[test]
fn clients_that_leave_are_counted_by_both_sides() {
    let (streams, tokens) = (12, 200);
    for leave in ["5 tokens", "60ms", "20ms"] {
        for version in VERSIONS {
            let name = format!("after {leave}, {version:?}");
            // The first token is due after clients that leave after 20 ms.
            let model = model("40ms", "5ms", tokens, &[]);
            let more = [&["--llm-leave", leave][..], version].concat();
            let result = load(&name, &model, Api::OpenAi, streams, &more);
            assert_eq!(counts(&result, ["left", "ended"]), [streams, 0], "{name}: {}", result["messages"]);
            let (received, upstream) = (count(&result, "received"), counted(&model, streams));
            assert_eq!([upstream.left, upstream.ended], [streams, 0], "{name}: {upstream:?}");
            assert!(leave != "5 tokens" || received >= 5 * streams, "{name}: {received}");
            let sent = upstream.left_tokens;
            assert!((received..streams * tokens).contains(&sent), "{name}: {received} of {sent} tokens");
        }
    }
}

#[test]
fn clients_that_pause_get_all_tokens() {
    let (streams, tokens) = (8, 64);
    for version in VERSIONS {
        // Eight times the window of a stream of HTTP/2.
        let model = model("1ms", "0ms", tokens, &["--llm-token-bytes", "8192"]);
        let more = [&["--llm-pause", "2 tokens,300ms"][..], version].concat();
        let (name, begun) = (format!("{version:?}"), Instant::now());
        let result = load(&name, &model, Api::OpenAi, streams, &more);
        // Four at a time.
        assert!(begun.elapsed() >= Duration::from_millis(600), "{name}: {:?}", begun.elapsed());
        assert_eq!(counts(&result, ["paused", "ended"]), [streams; 2], "{name}: {}", result["messages"]);
        let sent = counted(&model, streams).tokens;
        assert_eq!([count(&result, "received"), sent], [streams * tokens; 2], "{name}");
    }
}

/// Median time to the first token and median age of tokens, µs, as hoptax measures them on one connection.
fn times_by_hoptax(address: SocketAddr, streams: u64, tokens: u64, gap: Duration) -> [f64; 2] {
    let request = LlmRequest::usual(Api::OpenAi);
    let stream = request.tokens(UNKNOWN, gap, None).expect("it is streamed");
    let headers = [vec![("host".to_owned(), "model".to_owned())], request.headers("key")].concat();
    let target = TargetSpec {
        stream: Some(StreamSpec { same_clock: true, ..stream }),
        ..TargetSpec::only("POST", Api::OpenAi.path(), headers, request.body("Hello").into_bytes())
    };
    let messages = record(address, target, streams).messages.expect("a load with tokens records them");
    assert_eq!(messages.counts.received, streams * tokens, "{:?}", messages.counts);
    [&messages.histograms.first_message, &messages.histograms.age].map(median)
}

/// `http.client` of Python blocks on one socket. Its first token agrees within 5 %, and its ages agree as
/// those of events do.
#[test]
fn the_first_token_is_that_of_a_blocking_client() {
    let (streams, tokens, first) = (10, 20, 50_000.0);
    let model = model("50ms", "10ms", tokens, &[]);
    retry_if_disturbed(|| {
        let Some(mut script) = script("python3") else { return Ok(()) };
        let found = json(script.args(["tokens", &model.instance(0).to_string(), &streams.to_string()]));
        assert_eq!(found["tokens"].as_u64(), Some(streams * tokens), "{found}");
        let theirs = ["first", "age"].map(|times| found[times].as_f64().expect("a time"));
        let ours = times_by_hoptax(model.instance(0), streams, tokens, Duration::from_millis(10));
        let agrees = ours[0] >= first
            && theirs[0] >= first
            && (ours[0] - theirs[0]).abs() < 0.05 * first
            && ours[1] > 0.0
            && (ours[1] - theirs[1]).abs() < 500.0;
        agrees.then_some(()).ok_or(format!("{ours:?} µs, and {theirs:?} µs of the blocking client"))
    });
}
