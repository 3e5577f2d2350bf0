//! WebSockets over HTTP/1.1, against servers that behave correctly or incorrectly.

use super::events::{length, messages};
use super::*;
use crate::websocket::accept;
use flate2::{Compress, Compression, FlushCompress};
use hoptax_format::clock;
use hoptax_format::messages::{
    Carrier, ENDLESS, MessagesRecord, Stamp, StreamKind, StreamSpec, UNKNOWN, with_room,
};
use hoptax_format::websocket::{KEY_VALUE, OFFERED_DEFLATE, add_headers};
use hoptax_wire::websocket::{Decoder, Frame, Opcode, Side, Step, close, mask, write_frame};

pub(super) const SOCKETS: u64 = 12;
pub(super) const MESSAGES: u64 = 5;
const ALL: u64 = SOCKETS * MESSAGES;

/// The server's end of a WebSocket.
struct Socket {
    stream: TcpStream,
    decoder: Decoder,
    input: Vec<u8>,
}

impl Socket {
    fn new(stream: TcpStream) -> Self {
        Self { stream, decoder: Decoder::new(Side::Client, false), input: Vec::new() }
    }

    /// The next message or control frame of the client. `None` if there is none.
    fn receive(&mut self) -> Option<(Opcode, Vec<u8>)> {
        let mut message = (Opcode::Binary, Vec::new());
        loop {
            let (consumed, step) = self.decoder.advance(&self.input).expect("the client is right");
            let mut found = None;
            let needs_more = step == Step::NeedMore;
            match step {
                Step::NeedMore => {}
                Step::Begin { opcode, .. } => message.0 = opcode,
                Step::Data { data, end } => {
                    let start = message.1.len();
                    message.1.extend_from_slice(&self.input[data]);
                    let (key, offset) = self.decoder.unmask().expect("clients mask");
                    mask(&mut message.1[start..], key, offset);
                    found = end.then(|| std::mem::replace(&mut message, (Opcode::Binary, Vec::new())));
                }
                Step::Control(opcode) => found = Some((opcode, self.decoder.control().to_vec())),
            }
            self.input.drain(..consumed);
            if found.is_some() {
                return found;
            }
            if needs_more {
                let mut buffer = [0; 4096];
                match self.stream.read(&mut buffer) {
                    Ok(0) | Err(_) => return None,
                    Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                }
            }
        }
    }

    fn send(&mut self, opcode: Opcode, payload: &[u8]) {
        let mut frame = Vec::new();
        write_frame(&mut frame, opcode, None, payload);
        self.raw(&frame);
    }

    /// If the client has closed the connection, the client counts the failure itself.
    fn raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
        let _ = self.stream.flush();
    }

    fn close(&mut self, code: u16) {
        self.send(Opcode::Close, &code.to_be_bytes());
    }

    /// Waits for the client's close frame.
    fn drain(&mut self) {
        while self.receive().is_some_and(|(opcode, _)| opcode != Opcode::Close) {}
    }
}

/// What a server does with a WebSocket, once it has accepted the handshake.
type Behaviour = fn(&mut Socket);

fn shake_hands(stream: &mut (impl io::Read + io::Write), headers: &str) -> bool {
    let accept = accept(KEY_VALUE.as_bytes());
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nsec-websocket-accept: \
         {accept}\r\n{headers}\r\n"
    );
    request(stream) && stream.write_all(head.as_bytes()).and_then(|()| stream.flush()).is_ok()
}

/// Accepts each handshake with these headers too.
fn accepting(headers: &'static str, behave: Behaviour) -> Server {
    Server::new(move |mut stream, requests| {
        if shake_hands(&mut stream, headers) {
            requests.fetch_add(1, Ordering::Relaxed);
            behave(&mut Socket::new(stream));
        }
    })
}

fn echo(socket: &mut Socket) {
    while let Some((opcode, payload)) = socket.receive() {
        socket.send(opcode, &payload);
        if opcode == Opcode::Close {
            return;
        }
    }
}

/// A message with a stamp that is due now.
fn message(number: u64) -> Vec<u8> {
    let mut message = with_room(b"hello".to_vec(), false);
    let room = message.first_chunk_mut().expect("it has room");
    Stamp { number, due: clock::now() }.write(room);
    message
}

fn push(socket: &mut Socket, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        socket.send(Opcode::Binary, &message(number));
    }
    socket.close(close::NORMAL);
    socket.drain();
}

pub(super) fn target(kind: StreamKind, messages: u32, every_ns: u64) -> TargetSpec {
    let mut headers = vec![("host".to_owned(), "test".to_owned())];
    add_headers(&mut headers, false);
    let stream = StreamSpec::grpc(kind, messages, every_ns);
    let stream = Some(StreamSpec { carrier: Carrier::WebSocket, same_clock: true, ..stream });
    let body = with_room(b"hello".to_vec(), false);
    TargetSpec { stream, ..TargetSpec::only("GET", "/chat", headers, body) }
}

fn pushed() -> TargetSpec {
    target(StreamKind::ServerStream, MESSAGES as u32, 0)
}

fn over(server: &Server, target: TargetSpec) -> LoadSpec {
    until_done(SOCKETS, LoadSpec { targets: vec![target], connections: 3, ..spec(&[server.address]) })
}

/// Runs a load whose WebSockets all fail with this cause. Returns its record.
fn fails_with(spec: &LoadSpec, cause: Cause, text: &str) -> LoadRecord {
    let record = load(spec);
    let counts = &record.counts;
    assert_eq!(counts.causes, BTreeMap::from([(cause, SOCKETS)]), "{counts:?}");
    assert!(counts.errors.keys().all(|error| error.contains(text)), "{counts:?}");
    record
}

#[test]
fn every_echo_is_accounted_for_at_any_pace() {
    let server = accepting("", echo);
    for (every_ns, shape) in [
        (0, Shape::Closed),
        (MILLISECOND, Shape::Closed),
        (MILLISECOND, open(200.0, Arrivals::Poisson)),
        (0, open(200.0, Arrivals::Constant)),
    ] {
        let target = target(StreamKind::BothWays, MESSAGES as u32, every_ns);
        let record = load(&LoadSpec { shape, ..over(&server, target) });
        let counts = &record.counts;
        assert_eq!((counts.ok, counts.status[&101]), (SOCKETS, SOCKETS), "{counts:?}");
        // A connection carries one WebSocket. Nobody closes it unexpectedly.
        let opened = record.lifetime.opened;
        assert!((SOCKETS..=SOCKETS + 3).contains(&opened), "{opened}");
        assert_eq!((record.connections.reused, record.connections.closed_by_peer), (0, 0));
        let MessagesRecord { counts, histograms, .. } = messages(&record);
        assert_eq!((counts.sent, counts.received), (ALL, ALL), "{counts:?}");
        assert_eq!((counts.lost, counts.repeated, counts.reordered, counts.unnumbered), (0, 0, 0, 0));
        assert_eq!((counts.cut, counts.refused, counts.pings, counts.compressed), (0, 0, 0, 0));
        assert_eq!((length(&histograms.response_time), length(&histograms.age)), (ALL, 0));
        assert_eq!((length(&histograms.first_message), length(&histograms.gap)), (SOCKETS, ALL - SOCKETS));
        assert_eq!(histograms.headers.as_ref().map(length), Some(SOCKETS));
        if every_ns > 0 {
            let gap = quantile(&histograms.gap, 0.5);
            assert!((MILLISECOND / 2..=5 * MILLISECOND).contains(&gap), "{gap}");
        }
    }
}

#[test]
fn messages_of_the_server_have_ages() {
    let server = accepting("", |socket| push(socket, 0..MESSAGES));
    for expected in [MESSAGES as u32, UNKNOWN] {
        let record = load(&over(&server, target(StreamKind::ServerStream, expected, 0)));
        assert_eq!(record.counts.ok, SOCKETS, "{:?}", record.counts);
        let MessagesRecord { counts, histograms, .. } = messages(&record);
        assert_eq!((counts.sent, counts.received, counts.lost), (0, ALL, 0), "{counts:?}");
        assert_eq!((length(&histograms.age), length(&histograms.response_time)), (ALL, 0));
    }
}

#[test]
fn missing_messages_are_lost() {
    let first = accepting("", |socket| push(socket, 1..MESSAGES));
    let middle = accepting("", |socket| push(socket, [100, 101, 103, 104]));
    for (server, fan_out, lost) in
        [(&first, false, SOCKETS), (&first, true, 0), (&middle, false, SOCKETS), (&middle, true, SOCKETS)]
    {
        let mut target = pushed();
        target.stream.as_mut().expect("set").fan_out = fan_out;
        let record = load(&over(server, target));
        assert_eq!(record.counts.ok, SOCKETS, "{:?}", record.counts);
        assert_eq!(messages(&record).counts.lost, lost, "fan_out: {fan_out}");
        assert_eq!(messages(&record).histograms.reach.is_some(), fan_out);
    }
}

#[test]
fn parts_of_a_message_are_put_together_and_pings_are_answered() {
    let server = accepting("", |socket| {
        let message = message(0);
        let part = |socket: &mut Socket, fin, opcode, part: &[u8]| {
            let mut frame = Vec::new();
            let length = part.len() as u64;
            Frame { fin, compressed: false, opcode, mask: None, length }.write(&mut frame);
            frame.extend_from_slice(part);
            socket.raw(&frame);
        };
        part(socket, false, Opcode::Binary, &message[..7]);
        socket.send(Opcode::Ping, b"are you there?");
        // The rest follows the answer.
        if socket.receive() != Some((Opcode::Pong, b"are you there?".to_vec())) {
            return;
        }
        part(socket, false, Opcode::Continuation, &message[7..]);
        part(socket, true, Opcode::Continuation, b"");
        socket.send(Opcode::Pong, b"nobody asked");
        push(socket, 1..MESSAGES);
    });
    let record = load(&over(&server, pushed()));
    assert_eq!(record.counts.ok, SOCKETS, "{:?}", record.counts);
    let counts = messages(&record).counts;
    assert_eq!((counts.received, counts.pings, counts.unnumbered), (ALL, SOCKETS, 0), "{counts:?}");
}

#[test]
fn a_refused_handshake_fails_its_check() {
    for (response, status) in [
        (&b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno"[..], 403),
        (OK, 200),
        (b"HTTP/1.1 426 Upgrade Required\r\ncontent-length: 0\r\n\r\n", 426),
    ] {
        let server = Server::new(answer(response, Duration::ZERO));
        let record = load(&over(&server, target(StreamKind::BothWays, MESSAGES as u32, 0)));
        let counts = &record.counts;
        assert_eq!((counts.completed, counts.ok, counts.status[&status]), (SOCKETS, 0, SOCKETS));
        let failed: Vec<_> = counts.failed_checks.keys().collect();
        assert!(failed.iter().all(|text| text.contains("is not 101")), "{failed:?}");
        assert_eq!(record.lifetime.opened, 3, "the connection carries the next handshake");
        let counts = messages(&record).counts;
        assert_eq!((counts.refused, counts.sent, counts.lost, counts.cut), (SOCKETS, 0, 0, 0), "{counts:?}");
    }
}

#[test]
fn a_refusal_that_a_check_asks_for_loses_no_messages() {
    let response = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno";
    let server = Server::new(answer(response, Duration::ZERO));
    let checks = vec![Check::Status(vec![(403, 403)])];
    let record = load(&over(&server, TargetSpec { checks, ..pushed() }));
    let counts = messages(&record).counts;
    assert_eq!((record.counts.ok, counts.refused, counts.lost), (SOCKETS, SOCKETS, 0), "{counts:?}");
}

#[test]
fn a_wrong_answer_to_the_handshake_is_a_failure() {
    let wrong = b"HTTP/1.1 101 Switching Protocols\r\nsec-websocket-accept: guess\r\n\r\n\x82\x00";
    let server = Server::new(answer_once(wrong));
    let spec = over(&server, pushed());
    let record = fails_with(&spec, Cause::MalformedResponse, "did not answer the key correctly");
    assert_eq!(messages(&record).counts.refused, SOCKETS);
    let server = accepting("sec-websocket-extensions: x-other\r\n", echo);
    let record = fails_with(&over(&server, pushed()), Cause::MalformedResponse, "not offered");
    assert_eq!(messages(&record).counts.refused, SOCKETS);
}

#[test]
fn the_code_of_a_close_frame_decides() {
    let bad = accepting("", |socket| {
        socket.close(1011);
        socket.drain();
    });
    let record = fails_with(&over(&bad, pushed()), Cause::TunnelClosed, "with the code 1011");
    assert_eq!((messages(&record).counts.cut, messages(&record).counts.lost), (0, 0));
    let silent = accepting("", |socket| {
        socket.send(Opcode::Close, b"");
        socket.drain();
    });
    let record = load(&over(&silent, target(StreamKind::ServerStream, UNKNOWN, 0)));
    assert_eq!(record.counts.ok, SOCKETS, "{:?}", record.counts);
}

#[test]
fn an_end_without_a_close_frame_is_a_failure() {
    let server = accepting("", |socket| {
        socket.receive();
    });
    let spec = over(&server, target(StreamKind::BothWays, MESSAGES as u32, 0));
    let record = fails_with(&spec, Cause::TunnelCut, "without a close frame");
    let counts = messages(&record).counts;
    assert_eq!((counts.cut, counts.lost, counts.sent), (SOCKETS, 0, SOCKETS), "{counts:?}");
    let at_once = accepting("", |_| {});
    let record = fails_with(&over(&at_once, pushed()), Cause::TunnelCut, "without a close frame");
    assert_eq!(messages(&record).counts.cut, SOCKETS);
}

#[test]
fn frames_that_violate_the_protocol_are_failures() {
    let masked = accepting("", |socket| {
        socket.raw(&[0x82, 0x80, 0, 0, 0, 0]);
        socket.drain();
    });
    fails_with(&over(&masked, pushed()), Cause::MalformedResponse, "the server masked a frame");
}

/// Sends a message that is compressed by itself (RFC 7692, section 7.2.1).
fn send_compressed(socket: &mut Socket, message: &[u8]) {
    let mut deflated = Vec::with_capacity(1000);
    let mut state = Compress::new(Compression::default(), false);
    state.compress_vec(message, &mut deflated, FlushCompress::Sync).expect("there is room");
    deflated.truncate(deflated.len() - 4);
    let (length, mut frame) = (deflated.len() as u64, Vec::new());
    Frame { fin: true, compressed: true, opcode: Opcode::Binary, mask: None, length }.write(&mut frame);
    // The frame arrives in two parts.
    let (last, start) = deflated.split_last().expect("not empty");
    frame.extend_from_slice(start);
    socket.raw(&frame);
    socket.raw(&[*last]);
}

#[test]
fn compressed_messages_are_read() {
    let headers = "sec-websocket-extensions: permessage-deflate; server_no_context_takeover\r\n";
    let server = accepting(headers, |socket| {
        (0..2).for_each(|number| send_compressed(socket, &message(number)));
        push(socket, 2..MESSAGES);
    });
    let mut target = pushed();
    target.headers.push(("sec-websocket-extensions".to_owned(), OFFERED_DEFLATE.to_owned()));
    let record = load(&over(&server, target));
    assert_eq!(record.counts.ok, SOCKETS, "{:?}", record.counts);
    let counts = messages(&record).counts;
    assert_eq!((counts.compressed, counts.received, counts.unnumbered), (SOCKETS, ALL, 0), "{counts:?}");
    assert_eq!(record.bytes.body, ALL * message(0).len() as u64, "the length of their content counts");
}

#[test]
fn the_server_has_the_whole_time_limit_to_answer_a_close_frame() {
    let server = accepting("", |socket| {
        socket.send(Opcode::Binary, &message(0));
        socket.drain();
        thread::sleep(Duration::from_millis(300));
        socket.close(close::NORMAL);
    });
    let spec = LoadSpec { requests: None, ..over(&server, target(StreamKind::ServerStream, ENDLESS, 0)) };
    let spec = LoadSpec { timeouts: Timeouts::all(400 * MILLISECOND), ..spec };
    retry_if_disturbed(|| {
        let counts = load(&LoadSpec { duration_ns: 200 * MILLISECOND, ..spec.clone() }).counts;
        seen((counts.ok, counts.ended_by_client) == (3, 3), || format!("{counts:?}"))
    });
}

#[test]
fn the_time_limit_does_not_run_while_the_client_waits() {
    let server = accepting("", echo);
    let every_ns = 300 * MILLISECOND;
    retry_if_disturbed(|| {
        let spec = until_done(3, over(&server, target(StreamKind::BothWays, 3, every_ns)));
        let record = load(&LoadSpec { timeouts: Timeouts::all(100 * MILLISECOND), ..spec });
        seen(record.counts.ok == 3, || format!("{:?}", record.counts))
    });
    let silent = accepting("", Socket::drain);
    let spec = over(&silent, target(StreamKind::BothWays, 3, every_ns));
    let record = load(&LoadSpec { timeouts: Timeouts::all(100 * MILLISECOND), ..spec });
    assert_eq!(record.counts.timeouts, SOCKETS, "{:?}", record.counts);
}

#[test]
fn a_mix_has_ordinary_requests_too() {
    let server = Server::new(|mut stream: TcpStream, _| {
        let mut seen = [0; 8];
        while let Ok(8) = stream.peek(&mut seen) {
            if seen.starts_with(b"GET /cha") {
                if shake_hands(&mut stream, "") {
                    echo(&mut Socket::new(stream));
                }
                return;
            }
            if !request(&mut stream) || stream.write_all(OK).is_err() {
                return;
            }
        }
    });
    let plain = TargetSpec {
        name: "plain".to_owned(),
        weight: 3,
        ..TargetSpec::only("GET", "/plain", vec![("host".to_owned(), "test".to_owned())], Vec::new())
    };
    let mut spec = over(&server, target(StreamKind::BothWays, MESSAGES as u32, 0));
    spec.targets.push(plain);
    let record = load(&LoadSpec { requests: Some(100), ..spec });
    assert_eq!(record.counts.ok, 100, "{:?}", record.counts);
    let sockets = record.counts.status[&101];
    assert_eq!(messages(&record).counts.received, sockets * MESSAGES);
    assert!(messages(&record).mixed);
}
