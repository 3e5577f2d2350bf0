//! Tests of requests, schedules and failures.

use super::*;
use crate::ledger::InstanceCounts;
use crate::upstream::answer::AnswerTo;
use crate::upstream::counts::Counts;
use hoptax_format::messages::TextStamps;
use hoptax_plan::{Delay, LlmFailure};
use hoptax_wire::http1::Version;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

const MS: u64 = 1_000_000;

fn settings() -> UpstreamLlm {
    UpstreamLlm {
        first_token: Delay::Fixed(Duration::from_millis(50)),
        gap: Duration::from_millis(10),
        tokens: 5,
        ..UpstreamLlm::default()
    }
}

fn failing(kind: LlmFailureKind, at: u32) -> UpstreamLlm {
    UpstreamLlm { failures: vec![LlmFailure { kind, share: 1.0, at }], ..settings() }
}

fn llm(settings: &UpstreamLlm) -> Llm {
    Llm::new(settings, &[], false).expect("good settings")
}

fn ask(llm: &mut Llm, api: Api, more: &str, counts: &ModelCounts) -> Outcome {
    let input = if api == Api::Responses { r#""input":"hi""# } else { r#""messages":[{"content":"hi"}]"# };
    let mut incoming = Incoming::new(b"POST", api.path().as_bytes()).expect("a request to a model");
    incoming.field(b"authorization");
    incoming.body(format!(r#"{{"model":"m",{input}{more}}}"#).as_bytes());
    llm.answer(&incoming, counts)
}

fn stream(llm: &mut Llm, api: Api, more: &str) -> EventStream {
    match ask(llm, api, &format!(r#","stream":true{more}"#), &ModelCounts::default()) {
        Outcome::Stream(completion) => EventStream::of_model(completion),
        Outcome::Whole(whole, _) => panic!("{whole:?}"),
    }
}

/// Sends everything at the times when it is due, until the stream ends, is cut or is silent. Returns the time
/// and the bytes of each part, what was last, and what was sent.
fn all(llm: &mut Llm, mut stream: EventStream) -> (Vec<(u64, Vec<u8>)>, Next, Sent) {
    let (mut now, mut parts, mut sum) = (0, Vec::new(), Sent::default());
    loop {
        let of = stream.completion.expect("of a model");
        match llm.next(&stream, &of, now) {
            end @ (Next::End | Next::Cut | Next::Wait(u64::MAX)) => return (parts, end, sum),
            Next::Wait(due) => {
                assert!(due > now);
                now = due;
            }
            next => {
                let (part, is_last) = llm.part(&stream, &of, next);
                parts.push((now, part.to_vec()));
                let (length, mut of) = (part.len(), of);
                let sent = llm.sent(&mut stream, &mut of, (length, next), now);
                stream.completion = Some(of);
                sum.events += sent.events;
                sum.tokens += sent.tokens;
                sum.is_whole |= sent.is_whole;
                assert_eq!(is_last, llm.next(&stream, &of, now) == Next::End);
            }
        }
    }
}

fn stamps(text: &[u8]) -> Vec<Stamp> {
    let mut stamps = Vec::new();
    TextStamps::default().read(text, |stamp| stamps.push(stamp));
    stamps
}

#[test]
fn tokens_are_due_by_a_schedule() {
    for api in Api::ALL {
        let mut llm = llm(&settings());
        let mut stream = stream(&mut llm, api, "");
        stream.begin(100 * MS);
        let (parts, end, sent) = all(&mut llm, stream);
        assert_eq!((parts.len(), end), (6, Next::End));
        assert_eq!((sent.tokens, sent.is_whole), (5, true));
        assert!(stamps(&parts[0].1).is_empty(), "no content");
        for (number, (now, text)) in (0..).zip(&parts[1..]) {
            let due = (150 + 10 * number) * MS;
            assert_eq!((*now, stamps(text)), (due, vec![Stamp { number, due }]));
        }
        let events = parts.iter().flat_map(|(_, text)| text.windows(2)).filter(|two| *two == b"\n\n").count();
        assert_eq!(sent.events, events as u64);
    }
}

#[test]
fn a_write_has_several_tokens_or_a_part_of_one() {
    let mut several = llm(&UpstreamLlm { per_write: 2, ..settings() });
    let stream_of_several = stream(&mut several, Api::OpenAi, "");
    let (parts, ..) = all(&mut several, stream_of_several);
    let numbers: Vec<(u64, usize)> =
        parts.iter().map(|(now, text)| (*now / MS, stamps(text).len())).collect();
    assert_eq!(numbers, [(0, 0), (50, 2), (60, 2), (70, 1)]);

    let split = UpstreamLlm { split: 3, bytes_per_token: 100, crlf: true, ..settings() };
    let mut split = llm(&split);
    let stream_of_split = stream(&mut split, Api::Responses, "");
    let (parts, ..) = all(&mut split, stream_of_split);
    assert_eq!(parts.len(), 6 * 3);
    let cuts = parts.windows(2).filter(|two| two[0].1.ends_with(b"\r") && two[1].1.starts_with(b"\n"));
    assert!(cuts.count() >= 2, "writes 0 and 4 are cut between CR and LF");
    let cut = parts.iter().filter(|(_, part)| std::str::from_utf8(part).is_err()).count();
    assert!(cut >= 5, "{cut} parts begin or end within a character");
    let text: Vec<u8> = parts.into_iter().flat_map(|(_, part)| part).collect();
    let text = String::from_utf8(text).expect("whole characters");
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    for data in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let event: Value = serde_json::from_str(data).expect("JSON");
        assert!(event["delta"].as_str().is_none_or(|delta| delta.len() == 100));
    }
}

#[test]
fn any_number_of_parts_cuts_a_line_end() {
    for split in [2, 7, 99] {
        let mut llm = llm(&UpstreamLlm { split, bytes_per_token: 100, crlf: true, ..settings() });
        let stream = stream(&mut llm, Api::OpenAi, "");
        let (parts, ..) = all(&mut llm, stream);
        assert!(parts.iter().any(|(_, part)| part.ends_with(b"\r")), "{split}");
        assert_eq!(parts.len(), 6 * split as usize);
    }
}

/// The data of the events of a stream, without the end of chat completions.
fn data(llm: &mut Llm, stream: EventStream) -> Vec<String> {
    let (parts, ..) = all(llm, stream);
    let text: Vec<u8> = parts.into_iter().flat_map(|(_, part)| part).collect();
    let text = String::from_utf8(text).expect("text");
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    data.map(str::to_owned).collect()
}

/// A request that must call the tool, in each API: its members; in events, the places of the name and of the
/// parts of the arguments; the reason of the end; in a whole response, the place of the call.
const CALLS: [(Api, &str, [&str; 2], &str, &str); 3] = [
    (
        Api::OpenAi,
        r#","tools":[{"type":"function","function":{"name":"a\"b"}}],"tool_choice":"required""#,
        ["/choices/0/delta/tool_calls/0/function/name", "/choices/0/delta/tool_calls/0/function/arguments"],
        r#""finish_reason":"tool_calls""#,
        "/choices/0/message/tool_calls/0/function",
    ),
    (
        Api::Responses,
        r#","tools":[{"type":"function","name":"a\"b"}],"tool_choice":{"type":"function","name":"a\"b"}"#,
        ["/item/name", "/delta"],
        r#""type":"response.completed""#,
        "/output/0",
    ),
    (
        Api::Anthropic,
        r#","tools":[{"name":"a\"b"}],"tool_choice":{"type":"any"}"#,
        ["/content_block/name", "/delta/partial_json"],
        r#""stop_reason":"tool_use""#,
        "/content/0",
    ),
];

#[test]
fn tools_are_called() {
    for (api, more, [name, pieces], end, place) in CALLS {
        for tokens in [1, 5] {
            let mut llm = llm(&UpstreamLlm { tokens, ..settings() });
            let stream = stream(&mut llm, api, more);
            let data = data(&mut llm, stream);
            assert_eq!(stamps(data.concat().as_bytes()).len(), tokens as usize, "{data:?}");
            assert_eq!(data.iter().filter(|data| data.contains(end)).count(), 1, "{data:?}");
            let read = |data: &String| -> Value { serde_json::from_str(data).expect(data) };
            let events: Vec<Value> = data.iter().map(read).collect();
            let texts = |place| events.iter().filter_map(move |event| event.pointer(place)?.as_str());
            assert_eq!(texts(name).next(), Some("a\"b"), "{data:?}");
            let arguments: Value = serde_json::from_str(&texts(pieces).collect::<String>()).expect("JSON");
            let length = arguments["town"].as_str().expect("a text").len();
            assert_eq!(length, 40 * tokens as usize);

            let Outcome::Whole(whole, _) = ask(&mut llm, api, more, &ModelCounts::default()) else {
                panic!("no whole response")
            };
            let whole: Value = serde_json::from_slice(&whole.http2(&[]).1).expect("JSON");
            let call = whole.pointer(place).expect("a call");
            assert_eq!(call["name"], "a\"b", "{whole}");
            let input = match call["arguments"].as_str() {
                Some(text) => serde_json::from_str(text).expect("JSON"),
                None => call["input"].clone(),
            };
            assert_eq!(input["town"].as_str().map(str::len), Some(length), "{whole}");
        }
        // The arguments of a call that fails have no end.
        let mut cut = llm(&failing(LlmFailureKind::Cut, 3));
        let stream = stream(&mut cut, api, more);
        let data = data(&mut cut, stream).concat();
        let [starts, ends] = [r#"{\"town\":\""#, r#"\"}"#].map(|part| data.matches(part).count());
        assert_eq!((starts, ends), (1, 0), "{data}");
    }
}

#[test]
fn obfuscation_gives_events_the_same_length() {
    const ASKED: &str = r#","stream_options":{"include_usage":true,"include_obfuscation":true}"#;
    for (api, more, ..) in CALLS {
        for more in ["", more] {
            let mut llm = llm(&settings());
            let plain = stream(&mut llm, api, more);
            assert!(!data(&mut llm, plain).concat().contains("obfuscation"));
            let padded = stream(&mut llm, api, &format!("{ASKED}{more}"));
            let data = data(&mut llm, padded);
            let found: Vec<_> = data.iter().filter(|data| data.contains("obfuscation")).collect();
            let expected = match api {
                Api::OpenAi => data.len(),
                Api::Responses => 5,
                Api::Anthropic => 0,
            };
            assert_eq!(found.len(), expected, "{data:?}");
            assert!(found.windows(2).all(|two| two[0].len() == two[1].len()), "{data:?}");
        }
    }
}

#[test]
fn headers_of_providers_are_optional() {
    let own = [("X-Request-Id".to_owned(), "own".to_owned())];
    for is_on in [false, true] {
        let settings = UpstreamLlm { headers_of_provider: is_on, ..settings() };
        let llm = Llm::new(&settings, &own, false).expect("good settings");
        let (headers, _) = llm.headers();
        let to = AnswerTo { version: Version::Http11, keep_alive: true, head: false, failed: false };
        let stream = String::from_utf8(llm.answers().get(to).0.to_vec()).expect("text");
        for (name, value) in [("request-id", "req_hoptax"), ("openai-processing-ms", "50")] {
            assert_eq!(headers.contains(&(name.to_owned(), value.to_owned())), is_on, "{headers:?}");
            assert_eq!(stream.contains(&format!("\r\n{name}: {value}\r\n")), is_on, "{stream}");
        }
        assert_eq!((headers.len(), &headers[0]), (if is_on { 10 } else { 1 }, &own[0]));
    }
}

#[test]
fn absurd_times_do_not_overflow() {
    let longest = UpstreamLlm {
        first_token: Delay::Fixed(Duration::MAX),
        gap: Duration::MAX,
        heartbeat: Some(Duration::MAX),
        ..settings()
    };
    let mut llm = llm(&longest);
    let mut stream = stream(&mut llm, Api::OpenAi, "");
    stream.begin(u64::MAX - 1);
    let (parts, end, _) = all(&mut llm, stream);
    assert_eq!((parts.len(), end), (1, Next::Wait(u64::MAX)));
    let Outcome::Whole(_, later) = ask(&mut llm, Api::OpenAi, "", &ModelCounts::default()) else {
        panic!("no whole response")
    };
    assert_eq!(later, u64::MAX);
}

#[test]
fn clients_can_ask_for_fewer_tokens() {
    for (api, field) in [
        (Api::OpenAi, "max_tokens"),
        (Api::OpenAi, "max_completion_tokens"),
        (Api::Responses, "max_output_tokens"),
        (Api::Anthropic, "max_tokens"),
    ] {
        for (most, tokens) in [(1, 1), (4, 4), (5, 5), (1000, 5)] {
            let mut llm = llm(&UpstreamLlm { usage: Some(1_234_567), ..settings() });
            let stream = stream(&mut llm, api, &format!(r#","{field}":{most}"#));
            let (parts, _, sent) = all(&mut llm, stream);
            assert_eq!((sent.tokens, sent.is_whole), (tokens, true), "{field} {most}");
            let text: Vec<u8> = parts.into_iter().flat_map(|(_, part)| part).collect();
            let text = String::from_utf8(text).expect("text");
            assert_eq!(text.contains("1234567"), api != Api::OpenAi, "the client has not asked for usage");
            let reason = [r#""length""#, r#""max_tokens""#, "response.incomplete"];
            assert_eq!(reason.iter().any(|reason| text.contains(reason)), most < 5);
        }
    }
}

#[test]
fn silence_is_filled_by_comments_or_pings() {
    for (api, heartbeat) in
        [(Api::OpenAi, ": \n\n"), (Api::Anthropic, "event: ping\ndata: {\"type\": \"ping\"}\n\n")]
    {
        let after = Some(Duration::from_millis(20));
        let mut llm = llm(&UpstreamLlm { heartbeat: after, tokens: 1, ..settings() });
        let stream = stream(&mut llm, api, "");
        let (parts, ..) = all(&mut llm, stream);
        let found: Vec<(u64, bool)> =
            parts.iter().map(|(now, text)| (*now / MS, text == heartbeat.as_bytes())).collect();
        assert_eq!(found, [(0, false), (20, true), (40, true), (50, false)]);
    }
}

#[test]
fn streams_fail_where_the_plan_says() {
    for (kind, end) in [
        (LlmFailureKind::ErrorEvent, Next::End),
        (LlmFailureKind::Cut, Next::Cut),
        (LlmFailureKind::Silence, Next::Wait(u64::MAX)),
    ] {
        for (at, tokens) in [(0, 0), (3, 3), (5, 5), (9, 5)] {
            for api in Api::ALL {
                let mut llm = llm(&failing(kind, at));
                let stream = stream(&mut llm, api, "");
                let (parts, last, sent) = all(&mut llm, stream);
                assert_eq!((last, sent.tokens, sent.is_whole), (end, tokens, false), "{kind:?} {at}");
                let text: Vec<u8> = parts.iter().flat_map(|(_, part)| part.clone()).collect();
                let text = String::from_utf8(text).expect("text");
                let ends = ["[DONE]", "response.completed", "message_stop"];
                assert!(!ends.iter().any(|end| text.contains(end)), "{text}");
                let is_error = kind == LlmFailureKind::ErrorEvent;
                assert_eq!(text.contains(r#"{"error":{"#) || text.contains(r#""type":"error""#), is_error);
                let last = parts.last().expect("at least the opening").0 / MS;
                let of_tokens = if tokens == 0 { 0 } else { 40 + 10 * tokens };
                assert_eq!(last, if is_error { 50 + 10 * tokens } else { of_tokens });
            }
        }
    }
}

#[test]
fn failures_have_their_shares() {
    // Only streams can fail within.
    let mut cut = llm(&failing(LlmFailureKind::Cut, 1));
    let whole = format!("{:?}", ask(&mut cut, Api::OpenAi, "", &ModelCounts::default()));
    assert!(whole.contains("status: 200"), "{whole}");

    let half = vec![LlmFailure { kind: LlmFailureKind::RateLimit, share: 0.3, at: 0 }; 2];
    let mut half = llm(&UpstreamLlm { failures: half, ..settings() });
    half.seed(7, 0);
    let failed = (0..10_000).filter(|_| half.draw_failure().is_some()).count();
    assert!((5800..6200).contains(&failed), "{failed} of 10000, not 6000");
}

#[test]
fn models_are_named_as_in_the_request() {
    let mut llm = llm(&settings());
    let first = llm.place_of("a\"b");
    let quoted = "\"a\\\"b\"";
    assert_eq!((llm.place_of("m"), llm.place_of("a\"b"), &*llm.names[0]), (1, first, quoted));
    (0..MOST_NAMES).for_each(|number| assert!(usize::from(llm.place_of(&number.to_string())) < MOST_NAMES));
    assert_eq!(llm.names.len(), MOST_NAMES);
    assert_ne!(llm.names[0], quoted, "the oldest name is replaced");
}

#[test]
fn impossible_settings_are_refused() {
    let told = [
        UpstreamLlm { bytes_per_token: 34, ..settings() },
        UpstreamLlm { tokens: 0, ..settings() },
        UpstreamLlm { per_write: 2, split: 2, ..settings() },
    ]
    .map(|settings| format!("{}\n", Llm::new(&settings, &[], false).expect_err("refused")));
    insta::assert_snapshot!(told.concat());
}

#[test]
fn requests_are_counted() {
    let counts = Arc::<Counts>::default();
    let mut llm = llm(&UpstreamLlm { apis: vec![Api::OpenAi], ..settings() });
    for (api, more) in [
        (Api::OpenAi, r#","stream":true"#),
        (Api::OpenAi, r#","user":"a""#),
        (Api::OpenAi, r#","max_tokens":0"#),
        (Api::Anthropic, ""),
    ] {
        ask(&mut llm, api, more, &counts.llm);
    }
    let InstanceCounts { llm: Some(found), .. } = Counts::read(&[counts]) else { panic!("counted") };
    assert_eq!((found.requests, found.refused, found.with_key, found.streams), (4, 2, 4, 1));
    let fields = [("messages", 2), ("model", 2), ("stream", 1), ("user", 1)];
    assert_eq!(found.fields, fields.map(|(name, count)| (name.to_owned(), count)).into());
}
