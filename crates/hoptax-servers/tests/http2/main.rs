//! HTTP/2 of the built-in upstream and of `hop-h2`, and the upstream's server-sent events and language model,
//! over real sockets.

mod calls;
mod client;
mod events;
mod hop;
mod llm;
mod messages;
mod websocket;

use client::{Answer, Client, Request};
use hoptax_format::Address;
use hoptax_format::clock;
use hoptax_format::stamp::{self, Stamp};
use hoptax_plan::{Body, BuiltInUpstream, Delay, parse_answer};
use hoptax_servers::ledger::{self, Ledger};
use hoptax_servers::upstream::{Order, Placement, RunningUpstream, send_order};
use hoptax_wire::http2::{Code, Config};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn settings() -> BuiltInUpstream {
    BuiltInUpstream::with_body(Body::Size(1024))
}

fn start(settings: &BuiltInUpstream, placement: &Placement) -> RunningUpstream {
    RunningUpstream::start(settings, placement).expect("it starts")
}

fn with_answers(answers: &[&str]) -> RunningUpstream {
    let answers = answers.iter().map(|text| parse_answer(text).expect("an answer")).collect();
    start(&BuiltInUpstream { answers, ..settings() }, &Placement::default())
}

fn address(upstream: &RunningUpstream) -> &Address {
    &upstream.ready().instances[0]
}

fn connect(upstream: &RunningUpstream) -> Client {
    Client::connect(address(upstream), Config::default())
}

fn counts(upstream: &RunningUpstream) -> Ledger {
    ledger::fetch(upstream.ready().control).expect("a ledger")
}

/// Sends raw bytes, and reads until the upstream closes the connection.
fn raw(upstream: &RunningUpstream, bytes: &[u8]) -> Vec<u8> {
    let Address::Tcp(address) = address(upstream) else { panic!("a port") };
    let mut socket = TcpStream::connect(address).expect("connects");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    socket.write_all(bytes).expect("sent");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("an answer and the end");
    answer
}

/// The pattern of bodies that have only a size.
fn pattern(size: usize) -> Vec<u8> {
    const LINE: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ\n";
    LINE.iter().copied().cycle().take(size).collect()
}

fn tags(answers: &[Answer]) -> Vec<u32> {
    answers.iter().map(|answer| answer.tag).collect()
}

#[test]
fn one_port_answers_both_protocols_as_configured() {
    let configured = BuiltInUpstream {
        status: 201,
        headers: vec![("X-A".into(), "b c".into())],
        body: Body::Text("hello".into()),
        ..settings()
    };
    let upstream = start(&configured, &Placement::default());
    let mut client = connect(&upstream);
    for _ in 0..3 {
        let head =
            [(":status", "201"), ("content-type", "text/plain"), ("x-a", "b c"), ("content-length", "5")];
        let head = head.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let get = client.get("/");
        assert_eq!((get.status, &get.headers[..], get.body.as_slice()), (201, &head[..], &b"hello"[..]));
        let to_head = client.exchange(&[Request { method: "HEAD", ..Request::get(7, "/") }]).remove(0);
        assert_eq!((&to_head.headers[..], to_head.body.len()), (&head[..], 0));
        let over_http1 = raw(&upstream, b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        let over_http1 = String::from_utf8_lossy(&over_http1).into_owned();
        assert!(
            over_http1.starts_with("HTTP/1.1 201 ") && over_http1.ends_with("\r\n\r\nhello"),
            "{over_http1}"
        );
    }
    let versions = counts(&upstream).instances.remove(0).http_version;
    assert_eq!(versions, [("1.1".to_owned(), 3), ("2".to_owned(), 6)].into());

    let upstream = start(&BuiltInUpstream { status: 204, ..settings() }, &Placement::default());
    let answer = connect(&upstream).get("/");
    assert_eq!((answer.status, answer.body.len(), answer.header("content-length")), (204, 0, None));
}

#[test]
fn bodies_are_sent_as_windows_open() {
    let upstream = start(&BuiltInUpstream { body: Body::Size(300_000), ..settings() }, &Placement::default());
    let body = pattern(300_000);
    for (window, connection_window) in [(100, 65_535), (1000, 65_535), (65_535, 65_535), (1 << 20, 1 << 24)] {
        let config = Config { window, connection_window, ..Config::default() };
        let mut client = Client::connect(address(&upstream), config);
        let streams = if window == 100 { 2 } else { 40 };
        let requests: Vec<Request> = (0..streams).map(|tag| Request::get(tag, "/")).collect();
        let answers = client.exchange(&requests);
        assert!(answers.iter().all(|answer| answer.body == body), "{window}");
    }
}

#[test]
fn a_short_response_overtakes_a_long_one() {
    let upstream = with_answers(&["{ path: /long, body: 20MiB }", "{ path: /short, body: 1B }"]);
    let config = Config { window: 1 << 30, connection_window: 1 << 30, ..Config::default() };
    let mut client = Client::connect(address(&upstream), config);
    let answers = client.exchange(&[Request::get(0, "/long"), Request::get(1, "/short")]);
    assert_eq!(tags(&answers), [1, 0]);
    assert_eq!(answers[1].body.len(), 20 << 20);
}

#[test]
fn request_bodies_are_read_to_their_end() {
    let upstream = start(&settings(), &Placement::default());
    let mut client = connect(&upstream);
    // Together, the bodies are larger than the window of the connection.
    let body = pattern(3_000_000);
    let bodies = [0, 1, 100_000].into_iter().chain([body.len(); 8]);
    let requests: Vec<Request> = (0..)
        .zip(bodies)
        .map(|(tag, length)| Request { method: "POST", body: &body[..length], ..Request::get(tag, "/") })
        .collect();
    let answers = client.exchange(&requests);
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.body.len() == 1024));
    let counts = &counts(&upstream).instances[0];
    assert_eq!((counts.requests, counts.streams), (11, Some(11)));
    assert!(counts.bytes_in > 24_000_000, "{}", counts.bytes_in);
}

#[test]
fn a_client_that_waits_gets_100_continue() {
    let upstream = start(&settings(), &Placement::default());
    let mut client = connect(&upstream);
    let waits = [("expect", "100-continue")];
    let body = pattern(200_000);
    let request = Request { method: "POST", headers: &waits, body: &body, ..Request::get(0, "/") };
    client.waits = true;
    let answer = client.exchange(&[request]).remove(0);
    assert_eq!((answer.status, answer.body.len(), answer.interim), (200, 1024, 1));
    let without_body = Request { method: "POST", headers: &waits, ..Request::get(1, "/") };
    assert_eq!(client.exchange(&[without_body]).remove(0).interim, 0);
    client.waits = false;
    let at_once = Request { method: "POST", headers: &waits, body: b"abc", ..Request::get(2, "/") };
    assert_eq!(client.exchange(&[at_once]).remove(0).interim, 0, "the body has arrived with the head");
}

#[test]
fn rules_failures_and_distributions_apply_to_each_stream() {
    let statuses = |seed| {
        let configured = BuiltInUpstream {
            failures: 0.3,
            delay: Delay::Uniform { from: Duration::ZERO, to: Duration::from_millis(2) },
            answers: vec![
                parse_answer(r#"{ path: "/users/*", status: 404, body: 20B }"#).expect("an answer"),
                parse_answer("{ path: /users/me, method: POST, body: 0B }").expect("an answer"),
            ],
            ..settings()
        };
        let upstream = start(&configured, &Placement { seed, ..Placement::default() });
        let mut client = connect(&upstream);
        let mut statuses = Vec::new();
        for _ in 0..20 {
            let requests: Vec<Request> = (0..30)
                .map(|tag| match tag % 3 {
                    0 => Request::get(tag, "/users/17?x"),
                    1 => Request { method: "POST", ..Request::get(tag, "/users/me") },
                    _ => Request::get(tag, "/"),
                })
                .collect();
            let mut answers = client.exchange(&requests);
            answers.sort_by_key(|answer| answer.tag);
            for answer in &answers {
                let expected = [(404, 20), (200, 0), (200, 1024)][answer.tag as usize % 3];
                let found = (answer.status, answer.body.len());
                assert!(found == expected || found == (500, 32), "{answer:?}");
            }
            statuses.extend(answers.into_iter().map(|answer| answer.status));
        }
        statuses
    };
    let first = statuses(1);
    let failed = first.iter().filter(|status| **status == 500).count();
    assert!((120..240).contains(&failed), "{failed} of 600 failed");
    assert_eq!(first, statuses(1), "the same seed");
    assert_ne!(first, statuses(2));
}

#[test]
fn stamps_say_when_a_request_was_read_and_answered() {
    let delayed = BuiltInUpstream { delay: Delay::Fixed(Duration::from_millis(20)), ..settings() };
    let upstream = start(&delayed, &Placement { stamps: true, ..Placement::default() });
    let mut client = connect(&upstream);
    let before = clock::now();
    let requests: Vec<Request> = (0..10).map(|tag| Request::get(tag, "/")).collect();
    let answers = client.exchange(&requests);
    let after = clock::now();
    for answer in answers {
        let value = answer.header(stamp::HEADER).expect("a stamp");
        let Stamp { received, replied } = Stamp::read(value.as_bytes()).expect("two times");
        assert!(before <= received && replied <= after, "{value}");
        assert!(replied - received >= 20 * clock::MILLISECOND, "{value}");
    }
}

#[test]
fn the_ledger_counts_streams_and_cancels() {
    let upstream =
        with_answers(&["{ path: /late, body: 1B, delay: 60s }", "{ path: /soon, body: 2B, delay: 300ms }"]);
    let mut client = connect(&upstream);
    client.get("/");
    let before = counts(&upstream);
    assert_eq!(before.instances[0].most_streams, Some(1));
    let streams: Vec<u32> = (0..7).map(|tag| client.begin(&Request::get(tag, "/late"))).collect();
    client.flush();
    client.get("/");
    for stream in streams {
        client.connection.reset(stream, Code::CANCEL, &mut client.output);
    }
    // The new streams take the places of the cancelled ones. The timers of those must not affect them.
    let began = Instant::now();
    let answers = client.exchange(&[Request::get(11, "/soon"), Request::get(12, "/soon")]);
    assert_eq!(tags(&answers), [11, 12]);
    assert!(began.elapsed() >= Duration::from_millis(300));
    let delta = counts(&upstream).since(&before);
    assert_eq!((delta.requests, delta.connections), (10, 0));
    assert_eq!((delta.streams, delta.most_streams, delta.cancels), (Some(10), Some(8), Some(7)));
    assert_eq!(delta.http_version, [("2".to_owned(), 10)].into());
}

#[test]
fn verification_paths_answer() {
    let upstream = start(&settings(), &Placement { stamps: true, ..Placement::default() });
    let mut client = connect(&upstream);
    let posted = Request {
        method: "PUT",
        headers: &[("x-a", "b"), ("cookie", "c=d")],
        body: b"some text",
        ..Request::get(0, "/prefix/.hoptax/echo?x=y")
    };
    let echo = client.exchange(&[posted]).remove(0);
    let echo: serde_json::Value = serde_json::from_slice(&echo.body).expect("JSON");
    assert_eq!(echo["protocol"], "HTTP/2");
    assert_eq!(echo["method"], "PUT");
    assert_eq!(echo["body_bytes"], 9);
    assert_eq!(echo["path"], "/prefix/.hoptax/echo?x=y");
    let headers = [["host", "upstream.test"], ["x-a", "b"], ["cookie", "c=d"], ["content-length", "9"]];
    assert_eq!(echo["headers"], serde_json::json!(headers));

    let mut get = |path: &str| client.get(&format!("/.hoptax/{path}"));
    assert_eq!((get("status/418").status, get("status/204").body.len()), (418, 0));
    assert_eq!(get("bytes/100000").body, pattern(100_000));
    let without_length = get("chunked/100000");
    assert_eq!((&without_length.body, without_length.header("content-length")), (&pattern(100_000), None));
    // It needs CONTINUATION frames.
    assert_eq!(get("header/40000").header("x-hoptax-long"), Some("h".repeat(40_000).as_str()));
    let began = Instant::now();
    assert_eq!(get("slow/50ms").body, b"slow\n");
    assert!(began.elapsed() >= Duration::from_millis(50));
    assert_eq!(get("other").status, 404);

    let cut = Some((Code::INTERNAL_ERROR, false));
    let close = get("close");
    assert_eq!((close.status, close.reset), (0, cut));
    let midway = get("close-midway");
    assert_eq!((midway.status, midway.body.len(), midway.reset), (200, 500, cut));
    assert_eq!(midway.header("content-length"), Some("1000"));
    assert_eq!(get("status/200").status, 200, "the connection is still open");

    let trailers = get("trailers");
    assert_eq!((trailers.status, trailers.header("content-length")), (200, None));
    assert_eq!(trailers.trailers, [("x-hoptax-trailer".to_owned(), "by-upstream".to_owned())]);
    let hints = get("hints");
    assert_eq!((hints.status, hints.interim), (200, 1));
    let early = Request { method: "POST", body: b"the body", ..Request::get(0, "/.hoptax/early") };
    assert_eq!(client.exchange(&[early]).remove(0).body, b"early\n");
    assert_eq!(client.go_away, None);
    assert_eq!(client.get("/.hoptax/goaway").status, 200);
    assert!(matches!(client.go_away, Some((_, Code::NO_ERROR))), "{:?}", client.go_away);
    assert_eq!(counts(&upstream).instances[0].requests, 15);
}

#[test]
fn a_limit_of_requests_ends_connections() {
    let close_after = Placement { close_after: Some(5), ..Placement::default() };
    let delayed = BuiltInUpstream { delay: Delay::Fixed(Duration::from_millis(50)), ..settings() };
    let upstream = start(&delayed, &close_after);
    let mut client = connect(&upstream);
    client.get("/");
    let requests: Vec<Request> = (1..10).map(|tag| Request::get(tag, "/")).collect();
    let mut answers = client.exchange(&requests);
    answers.sort_by_key(|answer| answer.tag);
    for answer in &answers {
        // Stream 9 is the fifth. The later ones can be sent again.
        let (status, reset) = match answer.tag {
            0..5 => (200, None),
            _ => (0, Some((Code::NO_ERROR, true))),
        };
        assert_eq!((answer.status, answer.reset), (status, reset), "{answer:?}");
    }
    assert_eq!(client.go_away, Some((9, Code::NO_ERROR)));
    assert_eq!(client.next(), None, "the connection ends");
    let seen = counts(&upstream);
    assert_eq!((seen.instances[0].requests, seen.instances[0].cancels), (5, Some(0)));

    let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let answers = String::from_utf8(raw(&upstream, request.repeat(9).as_bytes())).expect("text");
    assert_eq!(answers.matches("HTTP/1.1 200 OK\r\n").count(), 5);
    assert_eq!(answers.matches("connection: close\r\n").count(), 1);
    let last = answers.rfind("HTTP/1.1 200 OK\r\n").expect("five answers");
    assert!(answers[last..].contains("connection: close\r\n"));
    assert_eq!(counts(&upstream).instances[0].closing, Some(0), "the upstream closed it");
}

#[test]
fn violations_end_the_connection_with_goaway() {
    let upstream = start(&settings(), &Placement::default());
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    // PING on stream 1.
    let violation = b"\0\0\x08\x06\0\0\0\0\x01abcdefgh";
    let answer = raw(&upstream, &[&preface[..], violation].concat());
    let go_away = [&b"\0\0\x08\x07\0\0\0\0\0"[..], &[0, 0, 0, 0], &[0, 0, 0, 1]].concat();
    assert!(answer.ends_with(&go_away), "GOAWAY with PROTOCOL_ERROR: {answer:?}");
    let almost = raw(&upstream, b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n");
    assert!(almost.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&almost));
    assert_eq!(counts(&upstream).instances[0].requests, 0);
}

#[test]
fn a_client_that_has_ended_its_side_gets_its_answers() {
    let delayed = BuiltInUpstream { delay: Delay::Fixed(Duration::from_millis(50)), ..settings() };
    let upstream = start(&delayed, &Placement::default());
    let mut client = connect(&upstream);
    for tag in 0..3 {
        client.begin(&Request::get(tag, "/"));
    }
    // The end of this request never arrives, so it gets no answer.
    client.begin(&Request { method: "POST", body: &pattern(1 << 20), ..Request::get(3, "/") });
    client.finish();
    let ended: Vec<u32> = std::iter::from_fn(|| client.next()).map(|answer| answer.tag).collect();
    assert_eq!(ended, [0, 1, 2]);
}

#[test]
fn a_closed_instance_ends_its_connections_and_listens_again() {
    let upstream = start(&settings(), &Placement::default());
    let mut client = connect(&upstream);
    client.get("/");
    let control = upstream.ready().control;
    send_order(control, 0, Order::Close).expect("closed");
    assert_eq!(client.next(), None);
    send_order(control, 0, Order::Open).expect("open");
    assert_eq!(connect(&upstream).get("/").status, 200);
}
