//! The language model that the built-in upstream plays, over HTTP/1 and HTTP/2.

use super::events::{Http1, stamps};
use super::*;
use hoptax_format::llm::Api;
use hoptax_plan::{LlmFailure, LlmFailureKind, UpstreamLlm};
use hoptax_record::LlmCounts;
use hoptax_testing::wait_until;
use serde_json::Value;

const GAP: u64 = 10 * clock::MILLISECOND;
/// The number of tokens of a response.
const TOKENS: u64 = 5;
const EACH: [(&str, &str); 4] = [
    ("/v1/chat/completions", r#""messages":[{"role":"user","content":"hi"}]"#),
    ("/v1/responses", r#""input":"hi""#),
    ("/v1/messages", r#""messages":[{"role":"user","content":"hi"}],"max_tokens":100"#),
    ("/v1/embeddings", r#""input":["a","b"]"#),
];
const STREAMED: &str = r#","stream":true,"stream_options":{"include_usage":true}"#;

fn model() -> UpstreamLlm {
    let first_token = Delay::Fixed(Duration::from_millis(20));
    UpstreamLlm { first_token, gap: Duration::from_nanos(GAP), tokens: 5, ..UpstreamLlm::default() }
}

fn upstream(llm: UpstreamLlm) -> RunningUpstream {
    let placement = Placement { stamps: true, ..Placement::default() };
    start(&BuiltInUpstream { llm: Some(llm), ..settings() }, &placement)
}

fn failing(kind: LlmFailureKind, at: u32) -> RunningUpstream {
    upstream(UpstreamLlm { failures: vec![LlmFailure { kind, share: 1.0, at }], ..model() })
}

fn body(input: &str, more: &str) -> String {
    format!(r#"{{"model":"m",{input}{more}}}"#)
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer k\r\n");
    format!("{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

fn on_stream<'a>(path: &'a str, body: &'a str) -> Request<'a> {
    Request { method: "POST", body: body.as_bytes(), ..Request::get(0, path) }
}

fn llm_counts(upstream: &RunningUpstream) -> LlmCounts {
    counts(upstream).since(&Ledger::default()).llm.unwrap_or_default()
}

/// Checks the tokens and the end of a stream.
fn check(api: Api, text: &[u8]) {
    let found = stamps(text);
    let due = |number| found[0].due + number * GAP;
    let expected = (0..TOKENS).map(|number| hoptax_format::messages::Stamp { number, due: due(number) });
    assert!(found.iter().copied().eq(expected), "{found:?}");
    let text = std::str::from_utf8(text).expect("text");
    let last = text.trim_end().lines().last().expect("lines");
    let end = match api {
        Api::OpenAi => "data: [DONE]",
        Api::Responses => r#"data: {"type":"response.completed""#,
        Api::Anthropic => r#"data: {"type":"message_stop"}"#,
    };
    assert!(last.starts_with(end), "{text}");
    let usage = if api == Api::OpenAi { r#""completion_tokens":5"# } else { r#""output_tokens":5"# };
    assert_eq!(text.matches(usage).count(), 1, "{text}");
}

#[test]
fn streams_have_all_tokens_in_time() {
    let upstream = upstream(model());
    let mut client = connect(&upstream);
    for (api, (path, input)) in Api::ALL.into_iter().zip(EACH) {
        let body = body(input, STREAMED);
        let before = clock::now();
        let mut http1 = Http1::sending(&upstream, &post(path, &body).repeat(2));
        for _ in 0..2 {
            let head = http1.head();
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains(stamp::HEADER), "{head}");
            assert!(head.contains("content-type: text/event-stream; charset=utf-8\r\n"), "{head}");
            assert!(!head.contains("cache-control") && !head.contains("content-length"), "{head}");
            let chunks = http1.chunks();
            check(api, &chunks.concat());
            assert!(stamps(&chunks[0]).is_empty(), "the first events have no content");
        }
        assert!(clock::now() - before >= 2 * (20 * clock::MILLISECOND + 4 * GAP), "one after the other");
        let answer = client.exchange(&[on_stream(path, &body)]).remove(0);
        check(api, &answer.body);
        assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
        assert!(answer.header(stamp::HEADER).is_some() && answer.reset.is_none());
    }
    let found = llm_counts(&upstream);
    assert_eq!((found.requests, found.with_key, found.streams, found.ended), (9, 6, 9, 9));
    assert_eq!((found.tokens, found.left, found.left_tokens), (9 * TOKENS, 0, 0));
    assert_eq!(found.fields["stream_options"], 9);
    // For each API: role, finish, usage and [DONE]; 8 events around the tokens; 6 events.
    let seen = counts(&upstream).instances.remove(0);
    assert_eq!((seen.requests, seen.events), (9, Some(3 * (4 + 8 + 6) + 9 * TOKENS)));
}

#[test]
fn windows_and_slow_readers_hold_back_tokens() {
    let llm = UpstreamLlm { gap: Duration::ZERO, tokens: 100, bytes_per_token: 1000, split: 3, ..model() };
    let upstream = upstream(llm);
    let (path, input) = EACH[0];
    let body = body(input, STREAMED);
    for window in [100, 10_000, 1 << 20] {
        let mut client = Client::connect(address(&upstream), Config { window, ..Config::default() });
        for answer in client.exchange(&[on_stream(path, &body), on_stream(path, &body)]) {
            assert!(stamps(&answer.body).iter().map(|stamp| stamp.number).eq(0..100), "{window}");
            assert!(String::from_utf8(answer.body).is_ok_and(|text| text.ends_with("[DONE]\n\n")));
        }
    }
    assert_eq!(llm_counts(&upstream).tokens, 6 * 100);
}

#[test]
fn other_requests_get_json() {
    let upstream = upstream(model());
    let mut client = connect(&upstream);
    let mut http1 = Http1::sending(&upstream, b"");
    let mut ask = |method: &str, path: &str, body: &str| {
        let request = String::from_utf8(post(path, body)).expect("text").replacen("POST", method, 1);
        http1.send(request.as_bytes());
        let head = http1.head();
        let lines = ["content-type: application/json\r\n", stamp::HEADER];
        assert!(lines.iter().all(|line| head.contains(line)), "{head}");
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let over_http1 = http1.take(length.and_then(|length| length.parse().ok()).expect("a length"));
        let over_http1: Value = serde_json::from_slice(&over_http1).expect("JSON");
        let answer = client.exchange(&[Request { method, ..on_stream(path, body) }]).remove(0);
        assert!(answer.header(stamp::HEADER).is_some() && head.contains(&format!(" {} ", answer.status)));
        let over_http2: Value = serde_json::from_slice(&answer.body).expect("JSON");
        for same in ["object", "error", "model", "data", "usage"] {
            assert_eq!(over_http1[same], over_http2[same]);
        }
        (answer.status, over_http2)
    };
    let began = clock::now();
    for ((path, input), (kind, object, text)) in EACH[..3].iter().zip([
        ("object", "chat.completion", "/choices/0/message/content"),
        ("object", "response", "/output/0/content/0/text"),
        ("type", "message", "/content/0/text"),
    ]) {
        let (status, answer) = ask("POST", path, &body(input, ""));
        assert_eq!((status, &answer[kind], &answer["model"]), (200, &object.into(), &"m".into()));
        assert_eq!(answer.pointer(text).and_then(Value::as_str).map(str::len), Some(5 * 40), "{answer}");
    }
    let length = 20 * clock::MILLISECOND + 4 * GAP;
    assert!(clock::now() - began >= 6 * length, "they come with the last token");
    let (path, input) = EACH[3];
    let (_, floats) = ask("POST", path, &body(input, ""));
    assert_eq!(floats["data"][1]["embedding"].as_array().map(Vec::len), Some(1536));
    let (_, base64) = ask("POST", path, &body(input, r#","encoding_format":"base64""#));
    assert_eq!(base64["data"][1]["embedding"].as_str().map(str::len), Some(1536 * 4 * 4 / 3));
    assert_eq!(ask("GET", "/v1/models", "").1["data"][0]["id"], "gpt-4o-mini");
    assert_eq!(ask("GET", "/health", "").0, 200);
    for (path, body) in [(EACH[0].0, "{"), (EACH[1].0, r#"{"model":"m"}"#), (EACH[2].0, "")] {
        let (status, answer) = ask("POST", path, body);
        assert_eq!((status, answer["error"]["type"].as_str()), (400, Some("invalid_request_error")));
    }
    let found = llm_counts(&upstream);
    assert_eq!((found.requests, found.refused, found.streams), (16, 6, 0));
    assert_eq!(client.get("/other").body, pattern(1024));
}

#[test]
fn failures_are_those_of_the_plan() {
    for (kind, api, status) in [
        (LlmFailureKind::RateLimit, 0, 429),
        (LlmFailureKind::ServerError, 1, 500),
        (LlmFailureKind::Overloaded, 0, 503),
        (LlmFailureKind::Overloaded, 2, 529),
    ] {
        let upstream = failing(kind, 0);
        let (path, input) = EACH[api];
        let body = body(input, STREAMED);
        let head = Http1::sending(&upstream, &post(path, &body)).head();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert_eq!(head.contains("retry-after: 1\r\n"), status == 429);
        assert_eq!(connect(&upstream).exchange(&[on_stream(path, &body)])[0].status, status);
        assert_eq!(llm_counts(&upstream).failures.into_values().collect::<Vec<_>>(), [2]);
    }
    let (path, input) = EACH[0];
    let body = body(input, STREAMED);
    for kind in [LlmFailureKind::ErrorEvent, LlmFailureKind::Cut] {
        let upstream = failing(kind, 3);
        let request = post(path, &body);
        let over_http1 = if kind == LlmFailureKind::Cut {
            // The end of the connection, without a last chunk.
            let answer = raw(&upstream, &request);
            assert!(!answer.ends_with(b"0\r\n\r\n"));
            answer
        } else {
            let mut client = Http1::sending(&upstream, &request);
            client.head();
            client.chunks().concat()
        };
        let answer = connect(&upstream).exchange(&[on_stream(path, &body)]).remove(0);
        let is_cut = kind == LlmFailureKind::Cut;
        assert_eq!(answer.reset, is_cut.then_some((Code::INTERNAL_ERROR, false)));
        for text in [over_http1, answer.body] {
            assert_eq!(stamps(&text).len(), 3);
            let text = String::from_utf8(text).expect("text");
            assert_eq!((text.contains(r#"{"error":"#), text.contains("[DONE]")), (!is_cut, false));
        }
        let found = llm_counts(&upstream);
        assert_eq!((found.streams, found.ended, found.tokens, found.left), (2, 0, 6, 0));
    }
}

#[test]
fn clients_that_leave_are_counted_with_their_tokens() {
    let upstream = failing(LlmFailureKind::Silence, 3);
    let (path, input) = EACH[2];
    let body = body(input, STREAMED);
    let have_left = |expected: u64| {
        wait_until("a stream ends", Duration::from_secs(60), || llm_counts(&upstream).left == expected);
    };
    let mut http1 = Http1::sending(&upstream, &post(path, &body));
    http1.head();
    while stamps(&http1.chunk().expect("a token")).iter().all(|stamp| stamp.number < 2) {}
    drop(http1);
    have_left(1);
    let mut client = connect(&upstream);
    let stream = client.begin(&on_stream(path, &body));
    client.receive_until(stream, |answer| stamps(&answer.body).len() == 3);
    client.connection.reset(stream, Code::CANCEL, &mut client.output);
    client.flush();
    have_left(2);
    let found = llm_counts(&upstream);
    assert_eq!((found.ended, found.tokens, found.left_tokens), (0, 6, 6));
    assert_eq!(found.failures, [("silence".to_owned(), 2)].into());
    assert_eq!(counts(&upstream).instances[0].event_streams_left, Some(2));
}
