//! gRPC streams of the built-in upstream: messages by a schedule, echo, deadlines, and its own services.

use super::*;
use hoptax_format::grpc::Status;
use hoptax_format::messages::{Stamp, StreamKind, StreamSpec};
use hoptax_plan::PathStream;
use hoptax_record::Deadlines;

const TYPE: (&str, &str) = ("content-type", "application/grpc");
const WATCH: &str = "/echo.Echo/Watch";
const CHAT: &str = "/echo.Echo/Chat";
const UPLOAD: &str = "/echo.Echo/Upload";
/// Length of the prefix of a message.
const PREFIX: usize = 5;

/// An upstream with one method of each kind.
fn streams(messages: u32, every_ms: u64, body: u64) -> BuiltInUpstream {
    let of = |(path, kind): (&str, StreamKind)| PathStream {
        path: path.to_owned(),
        stream: StreamSpec::grpc(kind, messages, every_ms * clock::MILLISECOND),
    };
    let kinds =
        [(WATCH, StreamKind::ServerStream), (CHAT, StreamKind::BothWays), (UPLOAD, StreamKind::ClientStream)];
    BuiltInUpstream { body: Body::Size(body), streams: kinds.map(of).to_vec(), ..settings() }
}

fn call<'a>(tag: u32, path: &'a str, headers: &'a [(&'a str, &'a str)]) -> Request<'a> {
    Request { method: "POST", headers, ..Request::get(tag, path) }
}

/// A call with a message as its request.
fn with_message(tag: u32, path: &str) -> Request<'_> {
    Request { body: b"\0\0\0\0\x02hi", ..call(tag, path, &[TYPE]) }
}

fn status(answer: &Answer) -> Option<&str> {
    let trailers = answer.trailers.iter().find(|(name, _)| name == "grpc-status");
    trailers.map(|(_, value)| value.as_str()).or(answer.header("grpc-status"))
}

fn message(content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("short");
    [&[0][..], &length.to_be_bytes(), content].concat()
}

/// The stamps of whole messages of this length. Checks that the rest of each is the upstream's pattern.
fn stamps(received: &[u8], length: usize) -> Vec<Stamp> {
    let of = |message: &[u8]| {
        let content = &message[PREFIX..];
        assert_eq!(message[..PREFIX], self::message(content)[..PREFIX]);
        assert_eq!(content[Stamp::LENGTH..], pattern(length)[Stamp::LENGTH..]);
        Stamp::read(content).expect("a stamp")
    };
    received.chunks_exact(PREFIX + length).map(of).collect()
}

#[test]
fn messages_are_sent_by_a_schedule() {
    const EVERY: u64 = 20 * clock::MILLISECOND;
    let delay = Delay::Fixed(Duration::from_millis(30));
    let upstream = start(&BuiltInUpstream { delay, ..streams(5, 20, 100) }, &Placement::default());
    let mut client = connect(&upstream);
    let before = clock::now();
    let stream = client.begin(&with_message(1, WATCH));
    for number in 0..5 {
        let length = (number as usize + 1) * (PREFIX + 100);
        let received = &client.receive_until(stream, |answer| answer.body.len() >= length).body;
        let now = clock::now();
        let stamps = stamps(received, 100);
        let (first, last) = (stamps[0], stamps[stamps.len() - 1]);
        assert!(first.due >= before + 30 * clock::MILLISECOND, "the delay");
        assert_eq!(stamps[number as usize], Stamp { number, due: first.due + number * EVERY });
        assert!(last.due <= now, "no message arrives before it is due");
    }
    let answer = client.next().expect("an answer");
    assert_eq!((answer.status, status(&answer), answer.body.len()), (200, Some("0"), 5 * 105));
    assert_eq!((answer.header("content-type"), answer.reset), (Some("application/grpc"), None));
}

#[test]
fn many_streams_have_their_own_schedules() {
    let upstream = start(&streams(20, 5, 40), &Placement { stamps: true, ..Placement::default() });
    let mut client = connect(&upstream);
    let calls: Vec<Request<'_>> = (0..50).map(|tag| with_message(tag, WATCH)).collect();
    for answer in client.exchange(&calls) {
        let stamps = stamps(&answer.body, 40);
        let expected = |number| Stamp { number, due: stamps[0].due + number * 5 * clock::MILLISECOND };
        assert_eq!(stamps, (0..20).map(expected).collect::<Vec<_>>());
        assert!(answer.header(stamp::HEADER).is_some() && status(&answer) == Some("0"));
    }
    assert_eq!(counts(&upstream).instances[0].requests, 50);
}

#[test]
fn messages_without_a_pace_respect_windows() {
    let upstream = start(&streams(300, 0, 1000), &Placement::default());
    for window in [100, 10_000, 1 << 20] {
        let mut client = Client::connect(address(&upstream), Config { window, ..Config::default() });
        let calls: Vec<Request<'_>> = (0..3).map(|tag| with_message(tag, WATCH)).collect();
        for answer in client.exchange(&calls) {
            let stamps = stamps(&answer.body, 1000);
            assert!(stamps.iter().all(|stamp| stamp.due == stamps[0].due));
            assert!(stamps.iter().map(|stamp| stamp.number).eq(0..300_u64), "a window of {window}");
            assert_eq!(status(&answer), Some("0"));
        }
    }
}

#[test]
fn a_reset_ends_a_stream() {
    let upstream = start(&streams(1_000_000, 5, 100), &Placement::default());
    let mut client = connect(&upstream);
    let first = client.begin(&with_message(1, WATCH));
    client.receive_until(first, |answer| answer.body.len() >= 3 * 105);
    client.connection.reset(first, Code::CANCEL, &mut client.output);
    // This stream takes the place of the first. The timer of the first must not affect it.
    let second = client.begin(&with_message(2, WATCH));
    let received = &client.receive_until(second, |answer| answer.body.len() >= 20 * 105).body;
    let stamps = stamps(received, 100);
    let expected =
        |number: usize| Stamp { number: number as u64, due: stamps[0].due + number as u64 * 5_000_000 };
    assert_eq!(stamps, (0..stamps.len()).map(expected).collect::<Vec<_>>());
    let seen = counts(&upstream);
    assert_eq!((seen.instances[0].requests, seen.instances[0].cancels), (2, Some(1)));
}

#[test]
fn whole_messages_are_echoed_at_once() {
    let upstream = start(&streams(10, 0, 100), &Placement::default());
    let mut client = connect(&upstream);
    let headers = [TYPE, ("grpc-encoding", "gzip")];
    let stream = client.open(&call(1, CHAT, &headers));
    let head = client.receive_until(stream, |answer| answer.status != 0);
    assert_eq!((head.status, head.header("grpc-encoding")), (200, Some("gzip")), "before any message");
    // The requests of open calls are counted, because their answers have begun.
    assert_eq!(counts(&upstream).instances[0].requests, 1);
    let (long, compressed) = (message(&pattern(70_000)), b"\x01\0\0\0\x04gzip".to_vec());
    let all = [message(b"first"), message(b""), compressed, long, message(b"last")].concat();
    // Byte by byte, then several messages together, then the rest.
    let mut sent = 0;
    let pieces = [(1, 10), (14, 24), (70_005, 70_029), (8, 70_029), (1, 70_038)];
    for (piece, whole) in [(1, 0); 9].into_iter().chain(pieces) {
        client.send(stream, &all[sent..sent + piece], false);
        sent += piece;
        if whole > 0 {
            let answer = client.receive_until(stream, |answer| answer.body.len() >= whole);
            assert_eq!(answer.body, all[..whole]);
        }
    }
    assert_eq!(sent, all.len());
    client.send(stream, b"", true);
    let answer = client.next().expect("an answer");
    assert_eq!((answer.body == all, status(&answer), answer.reset), (true, Some("0"), None));
    assert_eq!(answer.header("grpc-status"), None, "it is in the trailers");
}

#[test]
fn echo_respects_windows_and_limits() {
    let upstream = start(&streams(10, 0, 100), &Placement::default());
    let mut client = Client::connect(address(&upstream), Config { window: 1000, ..Config::default() });
    let all = message(&pattern(300_000));
    // The upstream's windows are known after its settings.
    client.get("/");
    let stream = client.open(&call(1, CHAT, &[TYPE]));
    client.send(stream, &all, true);
    let answer = client.next().expect("an answer");
    assert_eq!((answer.body == all, status(&answer)), (true, Some("0")));
    for (wrong, expected) in
        [(&b"\0\x01\0\0\x01"[..], Status::ResourceExhausted), (b"\x02", Status::Internal)]
    {
        let stream = client.open(&call(2, CHAT, &[TYPE]));
        client.send(stream, &message(b"good"), false);
        client.receive_until(stream, |answer| answer.body.len() == 9);
        client.send(stream, wrong, false);
        let answer = client.next().expect("an answer");
        assert_eq!(status(&answer), Some(expected.number().to_string().as_str()), "{answer:?}");
    }
    // The end of a request within a message.
    let stream = client.open(&call(3, CHAT, &[TYPE]));
    client.send(stream, b"\0\0\0\0\x05half", true);
    assert_eq!(status(&client.next().expect("an answer")), Some("13"));
}

#[test]
fn a_stream_of_the_client_gets_one_message() {
    let upstream = start(&streams(10, 0, 100), &Placement::default());
    let mut client = connect(&upstream);
    let stream = client.open(&call(1, UPLOAD, &[TYPE]));
    for number in 0..3_u8 {
        client.send(stream, &message(&[number; 10]), number == 2);
    }
    let answer = client.next().expect("an answer");
    assert_eq!((answer.body, answer.tag), (message(&pattern(100)), 1));
}

#[test]
fn calls_end_at_their_deadline() {
    let slow = parse_answer("{ path: /slow.Slow/Get, body: 1B, delay: 60s }").expect("an answer");
    let upstream =
        start(&BuiltInUpstream { answers: vec![slow], ..streams(1_000_000, 5, 100) }, &Placement::default());
    let mut client = connect(&upstream);
    let before = counts(&upstream);
    let (short, long) = ([TYPE, ("grpc-timeout", "50m")], [TYPE, ("grpc-timeout", "60S")]);
    for (path, ends, has_messages) in
        [("/slow.Slow/Get", true, false), (WATCH, true, true), (CHAT, false, false), (UPLOAD, false, false)]
    {
        let began = Instant::now();
        let request = Request { body: b"\0\0\0\0\x02hi", ..call(1, path, &short) };
        if ends {
            client.begin(&request);
        } else {
            client.open(&request);
        }
        client.flush();
        let answer = client.next().expect("an answer");
        assert!(began.elapsed() >= Duration::from_millis(50), "{path}");
        assert_eq!((answer.status, status(&answer)), (200, Some("4")), "{path}");
        assert_eq!(!answer.body.is_empty(), has_messages, "{path}");
        // With messages, or if the head had been sent, the status is in the trailers.
        let is_late = has_messages || path == CHAT;
        assert_eq!(answer.header("grpc-status").is_none(), is_late, "{path}");
    }
    let in_time = Request { body: b"\0\0\0\0\0", ..call(2, "/echo.Echo/Say", &long) };
    assert_eq!(status(&client.exchange(&[in_time]).remove(0)), Some("0"));
    let deadlines = counts(&upstream).since(&before).deadlines;
    assert_eq!(deadlines, Some(Deadlines { calls: 5, least_ns: 50_000_000, most_ns: 60_000_000_000 }));
    // The upstream looks at this deadline once before it has passed.
    let began = Instant::now();
    client.open(&call(3, CHAT, &[TYPE, ("grpc-timeout", "1200m")]));
    client.flush();
    assert_eq!(status(&client.next().expect("an answer")), Some("4"));
    assert!(began.elapsed() >= Duration::from_millis(1200));
}

#[test]
fn calls_end_with_the_status_of_the_settings() {
    let answers = vec![parse_answer("{ path: /other.Service/Get, body: 5B }").expect("an answer")];
    let grpc_status = Some(Status::NotFound);
    let configured = BuiltInUpstream { grpc_status, answers, ..streams(10, 0, 100) };
    let upstream = start(&configured, &Placement::default());
    let mut client = connect(&upstream);
    for path in ["/echo.Echo/Say", WATCH, CHAT, UPLOAD] {
        let answer = client.exchange(&[with_message(1, path)]).remove(0);
        assert_eq!((answer.header("grpc-status"), answer.body.len()), (Some("5"), 0), "{path}");
    }
    // If both sides send a stream, the status does not wait for the client's end.
    client.open(&call(2, CHAT, &[TYPE]));
    client.flush();
    assert_eq!(status(&client.next().expect("an answer")), Some("5"));
    // The health service, and a path that has its own answer.
    for path in ["/grpc.health.v1.Health/Check", "/other.Service/Get"] {
        assert_eq!(status(&client.exchange(&[with_message(3, path)]).remove(0)), Some("0"), "{path}");
    }
}

#[test]
fn health_can_be_watched() {
    let upstream = start(&BuiltInUpstream { failures: 1.0, ..settings() }, &Placement::default());
    let mut client = connect(&upstream);
    let stream = client.begin(&with_message(1, "/grpc.health.v1.Health/Watch"));
    let serving = client.receive_until(stream, |answer| answer.body.len() >= 7);
    assert_eq!(serving.body, b"\0\0\0\0\x02\x08\x01");
    let failed = client.exchange(&[with_message(2, "/echo.Echo/Say")]).remove(0);
    assert_eq!((failed.tag, status(&failed)), (2, Some("14")), "the other call stays open");
    client.finish();
    assert_eq!(client.next(), None);
}

#[test]
fn reflection_lists_the_services() {
    let upstream = start(&streams(10, 0, 100), &Placement::default());
    let mut client = connect(&upstream);
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let stream = client.open(&call(1, &path, &[TYPE]));
        // `list_services`, then `file_containing_symbol`.
        client.send(stream, &message(b"\x3a\x01*"), false);
        let contains =
            |answer: &Answer, text: &[u8]| answer.body.windows(text.len()).any(|part| part == text);
        let listed = client.receive_until(stream, |answer| contains(answer, b"echo.Echo"));
        assert!(contains(listed, b"grpc.health.v1.Health"));
        client.send(stream, &message(b"\x22\x09echo.Echo"), true);
        let answer = client.next().expect("an answer");
        assert!(contains(&answer, b"no descriptors"), "{answer:?}");
        assert_eq!(status(&answer), Some("0"));
    }
}
