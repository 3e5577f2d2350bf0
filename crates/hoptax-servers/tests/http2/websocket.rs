//! WebSockets over HTTP/2: extended CONNECT (RFC 8441).

use super::*;
use hoptax_format::clock::MILLISECOND;
use hoptax_format::messages::{self, Carrier, ENDLESS, StreamKind, StreamSpec};
use hoptax_plan::PathStream;
use hoptax_servers::ledger::WebSocketCounts;
use hoptax_wire::websocket::{Decoder, Opcode, Side, close, write_frame};

const VERSION: (&str, &str) = ("sec-websocket-version", "13");
const KEY: [u8; 4] = [9, 8, 7, 6];

fn frame(opcode: Opcode, key: Option<[u8; 4]>, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_frame(&mut bytes, opcode, key, payload);
    bytes
}

fn connect_to<'a>(path: &'a str, headers: &'a [(&'a str, &'a str)]) -> Request<'a> {
    Request { method: "CONNECT", headers, ..Request::get(1, path) }
}

/// An upstream that pushes on `/feed`.
fn pushing(messages: u32, every_ns: u64, fan_out: bool) -> RunningUpstream {
    let stream = StreamSpec {
        carrier: Carrier::WebSocket,
        fan_out,
        ..StreamSpec::grpc(StreamKind::ServerStream, messages, every_ns)
    };
    let streams = vec![PathStream { path: "/feed".into(), stream }];
    start(&BuiltInUpstream { body: Body::Size(100), streams, ..settings() }, &Placement::default())
}

/// Length of a frame with a pushed message.
const PUSHED: usize = 102;

/// The stamps of frames with pushed messages.
fn stamps(received: &[u8]) -> Vec<messages::Stamp> {
    let of = |frame: &[u8]| {
        assert_eq!(frame[..2], [0x82, 100]);
        messages::Stamp::read(&frame[2..]).expect("a stamp")
    };
    received.chunks_exact(PUSHED).map(of).collect()
}

#[test]
fn messages_return_on_a_stream() {
    let upstream = start(&settings(), &Placement { stamps: true, ..Placement::default() });
    let mut client = connect(&upstream);
    client.get("/");
    let stream = client.open_protocol(&connect_to("/chat", &[VERSION]), "websocket");
    let head = client.receive_until(stream, |answer| answer.status != 0);
    assert_eq!((head.status, head.header("content-length")), (200, None));
    assert!(head.header(stamp::HEADER).is_some());
    let long = vec![7; 100_000];
    let input = [
        frame(Opcode::Text, Some(KEY), b"hello"),
        frame(Opcode::Ping, Some(KEY), b"there?"),
        frame(Opcode::Binary, Some(KEY), &long),
    ]
    .concat();
    let expected = [
        frame(Opcode::Text, None, b"hello"),
        frame(Opcode::Pong, None, b"there?"),
        frame(Opcode::Binary, None, &long),
    ]
    .concat();
    for piece in input.chunks(1000) {
        client.send(stream, piece, false);
    }
    let answer = client.receive_until(stream, |answer| answer.body.len() >= expected.len());
    assert!(answer.body == expected);
    client.send(stream, &frame(Opcode::Close, Some(KEY), &4001_u16.to_be_bytes()), false);
    let answer = client.next().expect("an answer");
    let close = frame(Opcode::Close, None, &4001_u16.to_be_bytes());
    assert_eq!((&answer.body[expected.len()..], answer.reset), (&close[..], None));
    assert_eq!(client.get("/").status, 200, "the connection is still open");
    let found = counts(&upstream).instances.remove(0);
    let expected = WebSocketCounts { opened: 1, received: 2, sent: 2, ..WebSocketCounts::default() };
    assert_eq!((found.websockets, found.requests), (Some(expected), 3));
}

#[test]
fn other_protocols_and_versions_are_refused() {
    let upstream = start(&settings(), &Placement::default());
    let mut client = connect(&upstream);
    client.get("/");
    let old = [("sec-websocket-version", "8")];
    for (protocol, headers) in [("websocket", &[][..]), ("other", &[VERSION][..]), ("websocket", &old[..])] {
        client.open_protocol(&connect_to("/chat", headers), protocol);
        client.flush();
        assert_eq!(client.next().expect("an answer").status, 400, "{protocol}");
    }
}

#[test]
fn faults_and_ends_end_the_stream() {
    let upstream = start(&settings(), &Placement::default());
    let mut client = connect(&upstream);
    client.get("/");
    let unmasked = frame(Opcode::Text, None, b"without a mask");
    for (bytes, end, expected) in [
        (&unmasked[..], false, frame(Opcode::Close, None, &close::PROTOCOL_ERROR.to_be_bytes())),
        (&b""[..], true, Vec::new()),
    ] {
        let stream = client.open_protocol(&connect_to("/chat", &[VERSION]), "websocket");
        client.receive_until(stream, |answer| answer.status == 200);
        client.send(stream, bytes, end);
        assert_eq!(client.next().expect("an answer").body, expected);
    }
    let found = counts(&upstream).instances[0].websockets;
    assert_eq!(found, Some(WebSocketCounts { opened: 2, cut: 1, ..WebSocketCounts::default() }));
}

#[test]
fn messages_are_pushed_by_a_schedule() {
    let upstream = pushing(5, 20 * MILLISECOND, false);
    let mut client = connect(&upstream);
    client.get("/");
    let stream = client.open_protocol(&connect_to("/feed", &[VERSION]), "websocket");
    let answer = client.receive_until(stream, |answer| answer.body.len() >= 5 * PUSHED + 4);
    let (pushed, close) = answer.body.split_at(5 * PUSHED);
    let stamps = stamps(pushed);
    let expected = |number: u64| messages::Stamp { number, due: stamps[0].due + number * 20 * MILLISECOND };
    assert_eq!(stamps, (0..5).map(expected).collect::<Vec<_>>());
    assert_eq!(close, frame(Opcode::Close, None, &close::NORMAL.to_be_bytes()));
    client.send(stream, &frame(Opcode::Close, Some(KEY), &1000_u16.to_be_bytes()), true);
    assert_eq!(client.next().expect("an answer").reset, None);
}

#[test]
fn all_streams_get_the_same_messages() {
    let upstream = pushing(ENDLESS, 5 * MILLISECOND, true);
    let (mut one, mut other) = (connect(&upstream), connect(&upstream));
    one.get("/");
    other.get("/");
    let feed = connect_to("/feed", &[VERSION]);
    let first = one.open_protocol(&feed, "websocket");
    let begun = stamps(&one.receive_until(first, |answer| answer.body.len() >= PUSHED).body)[0];
    assert_eq!(begun.number, 0);
    let (second, third) = (one.open_protocol(&feed, "websocket"), other.open_protocol(&feed, "websocket"));
    one.flush();
    other.flush();
    let check = |client: &mut Client, stream| {
        let found = stamps(&client.receive_until(stream, |answer| answer.body.len() >= 40 * PUSHED).body);
        let from = found[0].number;
        let expected = |number: u64| messages::Stamp { number, due: begun.due + number * 5 * MILLISECOND };
        assert_eq!(found, (from..from + found.len() as u64).map(expected).collect::<Vec<_>>());
    };
    check(&mut one, first);
    check(&mut one, second);
    check(&mut other, third);
    // The messages are well-formed for a decoder, too.
    let mut decoder = Decoder::new(Side::Server, false);
    let body = one.receive_until(first, |_| true).body.clone();
    let mut rest = &body[..body.len() / PUSHED * PUSHED];
    while !rest.is_empty() {
        let (consumed, _) = decoder.advance(rest).expect("frames");
        rest = &rest[consumed..];
    }
    assert!(decoder.is_between());
}
