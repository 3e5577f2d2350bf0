//! WebSockets of the built-in upstream over HTTP/1.1, on real sockets. Those over HTTP/2 are tested with the
//! rest of it.

mod client;
mod peer;
mod pushed;

use client::{Client, HANDSHAKE, add_frame, connect, raw};
use flate2::{Decompress, FlushDecompress};
use hoptax_format::stamp::{self, Stamp};
use hoptax_plan::{Body, BuiltInUpstream, Delay, parse_answer};
use hoptax_servers::ledger::{self, Ledger, WebSocketCounts};
use hoptax_servers::upstream::{Placement, RunningUpstream};
use hoptax_wire::websocket::{Frame, Opcode, close, write_frame};
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::time::{Duration, Instant};

fn settings() -> BuiltInUpstream {
    BuiltInUpstream::with_body(Body::Size(100))
}

fn start(settings: &BuiltInUpstream) -> RunningUpstream {
    RunningUpstream::start(settings, &Placement::default()).expect("it starts")
}

fn counts(upstream: &RunningUpstream) -> Ledger {
    ledger::fetch(upstream.ready().control).expect("a ledger")
}

/// Waits until the counts of the first instance fulfil a condition.
fn eventually(upstream: &RunningUpstream, is_right: impl Fn(&WebSocketCounts) -> bool) {
    let began = Instant::now();
    loop {
        let found = counts(upstream).instances[0].websockets.unwrap_or_default();
        if is_right(&found) {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{found:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A frame of the upstream.
fn answer(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_frame(&mut bytes, opcode, None, payload);
    bytes
}

/// A request for a WebSocket on `/`, with these bytes after it.
fn handshake_and(bytes: &[u8]) -> Vec<u8> {
    [format!("GET / HTTP/1.1\r\n{HANDSHAKE}\r\n").as_bytes(), bytes].concat()
}

/// What follows the head of a response.
fn after_head(response: &[u8]) -> &[u8] {
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    &response[end + 4..]
}

#[test]
fn handshakes_are_answered() {
    let forbidden = parse_answer("{ path: /forbidden, status: 403, body: 0B }").expect("an answer");
    let headers = [("x-a", "b"), ("content-type", "text/html")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let upstream = start(&BuiltInUpstream { answers: vec![forbidden], headers, ..settings() });
    let client = Client::open(&upstream, "/any?x=y", "");
    let expected = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
        sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nx-a: b\r\n\r\n";
    assert_eq!(client.head, expected);
    client.close();
    let status = |request: String| {
        let response = raw(&upstream, request.as_bytes());
        String::from_utf8_lossy(&response).get(9..12).map(str::to_owned).expect("a status")
    };
    let good = format!("GET / HTTP/1.1\r\n{HANDSHAKE}\r\n");
    assert_eq!(status(good.replace("version: 13", "version: 8")), "426");
    assert_eq!(status(good.replace("dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ=")), "400");
    assert_eq!(status(good.replace("sec-websocket-key", "x-key")), "400");
    assert_eq!(status(good.replace("GET", "POST")), "400");
    // These requests do not ask for a WebSocket, or get the answer of their path.
    let ends = |request: &str| format!("{request}GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert_eq!(status(ends(&good.replace("upgrade: websocket", "upgrade: h2c"))), "200");
    assert_eq!(status(ends(&good.replace("connection: Upgrade", "connection: keep-alive"))), "200");
    assert_eq!(status(ends(&good.replace("GET /", "GET /forbidden"))), "403");
    // 400 is not counted.
    let found = counts(&upstream).instances.remove(0);
    assert_eq!(found.requests, 1 + 1 + 3 * 2);
    assert_eq!(found.websockets.map(|websockets| websockets.opened), Some(1));
}

#[test]
fn a_handshake_follows_other_requests() {
    let delayed = BuiltInUpstream { delay: Delay::Fixed(Duration::from_millis(50)), ..settings() };
    let upstream = RunningUpstream::start(&delayed, &Placement { stamps: true, ..Placement::default() });
    let upstream = upstream.expect("it starts");
    let mut bytes = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".to_vec();
    bytes.extend(handshake_and(b""));
    // The client sends frames before it has the answer.
    add_frame(&mut bytes, Opcode::Text, b"early");
    add_frame(&mut bytes, Opcode::Close, b"");
    let began = Instant::now();
    let response = raw(&upstream, &bytes);
    assert!(began.elapsed() >= Duration::from_millis(50), "the delay");
    let text = String::from_utf8_lossy(&response);
    let at = text.find("HTTP/1.1 101 ").expect("a handshake");
    assert!(text.starts_with("HTTP/1.1 200 OK") && at > 100, "{text}");
    let stamp = text[at..].split_once(stamp::HEADER).expect("a stamp").1;
    let Stamp { received, replied } =
        Stamp::read(&stamp.as_bytes()[2..][..stamp::LENGTH]).expect("two times");
    assert!(replied >= received + 50_000_000, "{stamp}");
    let expected = [answer(Opcode::Text, b"early"), answer(Opcode::Close, &close::NORMAL.to_be_bytes())];
    assert_eq!(after_head(&response[at..]), expected.concat());
}

#[test]
fn messages_return_at_every_split() {
    let upstream = start(&settings());
    let mut input = handshake_and(b"");
    add_frame(&mut input, Opcode::Text, "grüße".as_bytes());
    add_frame(&mut input, Opcode::Text, b"gr\xc3");
    let part = input.len() - 9;
    input[part] &= 0x7f;
    add_frame(&mut input, Opcode::Ping, b"there?");
    add_frame(&mut input, Opcode::Continuation, b"\xbc\xc3\x9fe");
    add_frame(&mut input, Opcode::Pong, b"unasked");
    add_frame(&mut input, Opcode::Binary, &[0xff; 130]);
    add_frame(&mut input, Opcode::Binary, b"");
    add_frame(&mut input, Opcode::Close, &[0x0f, 0xa1, b'o', b'k']);
    let expected = [
        answer(Opcode::Text, "grüße".as_bytes()),
        answer(Opcode::Pong, b"there?"),
        answer(Opcode::Text, "grüße".as_bytes()),
        answer(Opcode::Binary, &[0xff; 130]),
        answer(Opcode::Binary, b""),
        answer(Opcode::Close, &4001_u16.to_be_bytes()),
    ]
    .concat();
    for split in 0..input.len() {
        let mut socket = connect(&upstream);
        let (start, rest) = input.split_at(split);
        socket.write_all(start).expect("sent");
        socket.write_all(rest).expect("sent");
        let mut response = Vec::new();
        socket.read_to_end(&mut response).expect("an answer and the end");
        assert_eq!(after_head(&response), expected, "{split}");
    }
    let opened = input.len() as u64;
    let found = counts(&upstream).instances[0].websockets;
    let expected = WebSocketCounts { opened, cut: 0, received: 4 * opened, sent: 4 * opened, left_out: 0 };
    assert_eq!(found, Some(expected));
}

#[test]
fn faults_close_the_connection() {
    let upstream = start(&settings());
    let masked = |opcode, payload: &[u8]| {
        let mut bytes = Vec::new();
        add_frame(&mut bytes, opcode, payload);
        bytes
    };
    for (bytes, code) in [
        (answer(Opcode::Text, b"without a mask"), close::PROTOCOL_ERROR),
        (masked(Opcode::Continuation, b"of nothing"), close::PROTOCOL_ERROR),
        (masked(Opcode::Close, &1005_u16.to_be_bytes()), close::PROTOCOL_ERROR),
        // Compressed, without an agreement.
        (vec![0xc1, 0x81, 0, 0, 0, 0, b'a'], close::PROTOCOL_ERROR),
        (masked(Opcode::Text, b"\xed\xa0\x80"), close::INVALID_DATA),
        (masked(Opcode::Close, b"\x03\xe8\xff"), close::INVALID_DATA),
        (vec![0x82, 0xff, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0], close::TOO_LONG),
    ] {
        // Bytes after the fault do not matter.
        let response = raw(&upstream, &handshake_and(&[&bytes[..], &masked(Opcode::Text, b"late")].concat()));
        let expected = answer(Opcode::Close, &code.to_be_bytes());
        assert_eq!(after_head(&response), expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn clients_that_leave_are_counted() {
    let upstream = start(&settings());
    for _ in 0..3 {
        let mut client = Client::open(&upstream, "/", "");
        client.send(Opcode::Text, b"hello");
        assert_eq!(client.next(), Some((Opcode::Text, b"hello".to_vec())));
        client.socket.shutdown(Shutdown::Write).expect("open");
        assert_eq!(client.next(), None);
    }
    Client::open(&upstream, "/", "").close();
    let expected = WebSocketCounts { opened: 4, cut: 3, received: 3, sent: 3, left_out: 0 };
    eventually(&upstream, |found| *found == expected);
}

/// A compressed message without its tail.
fn inflated(packed: &[u8]) -> Vec<u8> {
    let mut output = Vec::with_capacity(1 << 20);
    let whole = [packed, &[0, 0, 0xff, 0xff]].concat();
    let inflated = Decompress::new(false).decompress_vec(&whole, &mut output, FlushDecompress::Sync);
    inflated.expect("compressed");
    output
}

#[test]
fn messages_are_compressed_if_both_sides_agree() {
    const OFFER: &str = "sec-websocket-extensions: permessage-deflate; client_max_window_bits\r\n";
    let without = start(&settings());
    assert!(!Client::open(&without, "/", OFFER).head.contains("sec-websocket-extensions"));
    let upstream = start(&BuiltInUpstream { websocket_compression: true, ..settings() });
    assert!(!Client::open(&upstream, "/", "").head.contains("sec-websocket-extensions"));
    let mut client = Client::open(&upstream, "/", OFFER);
    let agreed = "sec-websocket-extensions: permessage-deflate; server_no_context_takeover; \
        client_no_context_takeover\r\n";
    assert!(client.head.contains(agreed), "{}", client.head);
    // "Hello", RFC 7692, section 7.2.3.1.
    let mut bytes = Vec::new();
    add_frame(&mut bytes, Opcode::Text, &[0xf2, 0x48, 0xcd]);
    // Compressed, and not the last frame.
    bytes[0] = 0x41;
    add_frame(&mut bytes, Opcode::Continuation, &[0xc9, 0xc9, 0x07, 0x00]);
    client.socket.write_all(&bytes).expect("sent");
    let (opcode, packed) = client.next().expect("a message");
    assert_eq!((opcode, inflated(&packed)), (Opcode::Text, b"Hello".to_vec()));
    // Messages that are not compressed return compressed, too.
    let long = vec![b'x'; 500_000];
    client.send(Opcode::Binary, &long);
    client.send(Opcode::Ping, b"in between");
    let (opcode, packed) = client.next().expect("a message");
    assert!(opcode == Opcode::Binary && packed.len() < 5000 && inflated(&packed) == long);
    assert_eq!(client.next(), Some((Opcode::Pong, b"in between".to_vec())));
    client.close();
}

#[test]
fn large_messages_return_to_slow_readers() {
    let upstream = start(&settings());
    let mut client = Client::open(&upstream, "/", "");
    let message: Vec<u8> = (0..4 << 20).map(|place: u32| (place % 251) as u8).collect();
    let (parts, last) = message.split_at(3 << 20);
    let mut bytes = Vec::new();
    let frame = |fin, opcode, length| Frame { fin, compressed: false, opcode, mask: Some([0; 4]), length };
    for (place, part) in parts.chunks(100_000).enumerate() {
        let opcode = if place == 0 { Opcode::Binary } else { Opcode::Continuation };
        frame(false, opcode, part.len() as u64).write(&mut bytes);
        bytes.extend_from_slice(part);
    }
    frame(true, Opcode::Continuation, last.len() as u64).write(&mut bytes);
    bytes.extend_from_slice(last);
    // The upstream stops reading, so that only another thread can send all.
    let mut sender = client.socket.try_clone().expect("a socket");
    let sent = std::thread::spawn(move || (0..5).try_for_each(|_| sender.write_all(&bytes)));
    for _ in 0..5 {
        assert_eq!(client.next(), Some((Opcode::Binary, message.clone())));
    }
    sent.join().expect("no panic").expect("sent");
    client.close();
}
