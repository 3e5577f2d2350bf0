//! WebSockets over HTTP/2 (RFC 8441), against servers that behave correctly or incorrectly.

use super::events::messages;
use super::http2::{Peer, multiplexed};
use super::websocket::{MESSAGES, SOCKETS, target};
use super::*;
use hoptax_format::messages::StreamKind;
use hoptax_wire::http2::{Block, Code, Config, Step, response_fields};
use hoptax_wire::websocket::{self, Decoder, Opcode, Side, mask, write_frame};

/// What a server does with a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    /// Sends each message back, and answers the close frame.
    Echo,
    /// As `Echo`, but the stream ends in a frame after the close frame.
    EchoAndEnd,
    /// Ends the stream when the first message has arrived.
    End,
    /// Accepts the handshake and ends the stream at once.
    EndAtOnce,
    /// Resets the stream when the first message has arrived.
    Reset,
    /// Answers the handshake with status 403.
    Refuse,
}

/// The server's end of a WebSocket.
struct Socket {
    decoder: Decoder,
    message: Vec<u8>,
}

impl Socket {
    /// Reads frames of the client. Returns the frames of an echo, and whether the client has closed.
    fn echo(&mut self, mut input: &[u8]) -> (Vec<u8>, bool) {
        let mut out = Vec::new();
        loop {
            let (consumed, step) = self.decoder.advance(input).expect("the client is right");
            match step {
                websocket::Step::NeedMore => return (out, false),
                websocket::Step::Begin { .. } => self.message.clear(),
                websocket::Step::Data { data, end } => {
                    let start = self.message.len();
                    self.message.extend_from_slice(&input[data]);
                    let (key, offset) = self.decoder.unmask().expect("clients mask");
                    mask(&mut self.message[start..], key, offset);
                    if end {
                        write_frame(&mut out, Opcode::Binary, None, &self.message);
                    }
                }
                websocket::Step::Control(Opcode::Close) => {
                    write_frame(&mut out, Opcode::Close, None, self.decoder.control());
                    return (out, true);
                }
                websocket::Step::Control(_) => {}
            }
            input = &input[consumed..];
        }
    }
}

fn accepting(config: Config, behaviour: Behaviour) -> Server {
    Server::new(move |socket, _| serve(socket, config, behaviour))
}

fn serve(socket: TcpStream, config: Config, behaviour: Behaviour) {
    let head = |status| Block::plain(&response_fields(status, [], None).expect("valid"));
    let (accepted, refused, mut sockets) = (head(200), head(403), BTreeMap::new());
    Peer::new(socket, config).run(|peer, step, input| {
        let Peer { wire, out, sections, .. } = peer;
        match step {
            Step::Head { stream, end } => {
                assert_eq!((sections.head.protocol(), end), (Some(&b"websocket"[..]), false));
                if behaviour == Behaviour::Refuse {
                    wire.send_head(stream.id, &refused, &[], true, out);
                    return true;
                }
                let ends = behaviour == Behaviour::EndAtOnce;
                wire.send_head(stream.id, &accepted, &[], ends, out);
                if !ends {
                    let decoder = Decoder::new(Side::Client, false);
                    sockets.insert(stream.id, Socket { decoder, message: Vec::new() });
                }
            }
            Step::Body { stream, data, .. } => {
                let Some(socket) = sockets.get_mut(&stream.id) else { return true };
                let (frames, is_closed) = socket.echo(&input[data]);
                match behaviour {
                    Behaviour::Echo => {
                        wire.send_data(stream.id, &frames, is_closed, out);
                    }
                    Behaviour::EchoAndEnd => {
                        wire.send_data(stream.id, &frames, false, out);
                        if is_closed {
                            wire.send_data(stream.id, b"", true, out);
                        }
                    }
                    Behaviour::End => {
                        wire.send_data(stream.id, b"", true, out);
                    }
                    Behaviour::Reset | Behaviour::Refuse | Behaviour::EndAtOnce => {
                        wire.reset(stream.id, Code::CANCEL, out);
                    }
                }
                if is_closed || !matches!(behaviour, Behaviour::Echo | Behaviour::EchoAndEnd) {
                    sockets.remove(&stream.id);
                }
            }
            _ => {}
        }
        true
    });
}

fn over(server: &Server, every_ns: u64) -> LoadSpec {
    let target = target(StreamKind::BothWays, MESSAGES as u32, every_ns);
    until_done(SOCKETS, LoadSpec { targets: vec![target], ..multiplexed(server, 2, 3) })
}

fn willing() -> Config {
    Config { connect_protocol: true, ..Config::default() }
}

#[test]
fn many_websockets_share_a_connection() {
    let server = accepting(willing(), Behaviour::Echo);
    for every_ns in [0, MILLISECOND] {
        let record = load(&over(&server, every_ns));
        let counts = &record.counts;
        assert_eq!((counts.ok, counts.status[&200]), (SOCKETS, SOCKETS), "{counts:?}");
        assert_eq!(record.lifetime.opened, 2);
        let counts = messages(&record).counts;
        let all = SOCKETS * MESSAGES;
        assert_eq!((counts.sent, counts.received, counts.lost), (all, all, 0), "{counts:?}");
        assert_eq!((counts.cut, counts.refused), (0, 0), "{counts:?}");
    }
}

#[test]
fn a_stream_that_ends_after_the_close_frame_makes_room_for_another_one() {
    let server = accepting(willing(), Behaviour::EchoAndEnd);
    let record = load(&over(&server, 0));
    let counts = &record.counts;
    assert_eq!((counts.ok, record.lifetime.opened), (SOCKETS, 2), "{counts:?}");
}

#[test]
fn frames_wait_for_a_window() {
    // A window holds a part of a message.
    let server = accepting(Config { window: 100, ..willing() }, Behaviour::Echo);
    let mut spec = over(&server, 0);
    spec.targets[0].body.resize(1000, b'x');
    let record = load(&spec);
    assert_eq!(record.counts.ok, SOCKETS, "{:?}", record.counts);
    assert_eq!(messages(&record).counts.received, SOCKETS * MESSAGES);
}

#[test]
fn a_stream_that_ends_without_a_close_frame_is_cut() {
    for (behaviour, text) in [
        (Behaviour::End, "without a close frame"),
        (Behaviour::EndAtOnce, "without a close frame"),
        (Behaviour::Reset, "(CANCEL)"),
    ] {
        let server = accepting(willing(), behaviour);
        let record = load(&over(&server, 0));
        let counts = &record.counts;
        assert_eq!(counts.causes, BTreeMap::from([(Cause::TunnelCut, SOCKETS)]), "{counts:?}");
        assert!(counts.errors.keys().all(|error| error.contains(text)), "{counts:?}");
        assert_eq!((messages(&record).counts.cut, record.lifetime.opened), (SOCKETS, 2));
    }
}

#[test]
fn a_refused_handshake_fails_its_check() {
    let server = accepting(willing(), Behaviour::Refuse);
    let record = load(&over(&server, 0));
    assert_eq!((record.counts.completed, record.counts.ok), (SOCKETS, 0), "{:?}", record.counts);
    let counts = messages(&record).counts;
    assert_eq!((counts.refused, counts.sent, counts.cut), (SOCKETS, 0, 0), "{counts:?}");
}

#[test]
fn a_server_that_takes_no_websockets_is_named() {
    let server = accepting(Config::default(), Behaviour::Echo);
    is_refused(&over(&server, 0), "no WebSockets");
}
