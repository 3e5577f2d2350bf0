//! A client of WebSockets that sends any bytes.

use hoptax_format::Address;
use hoptax_format::messages::Stamp;
use hoptax_servers::upstream::RunningUpstream;
use hoptax_wire::websocket::{Decoder, Opcode, Side, Step, write_frame};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// No read takes longer.
const LIMIT: Duration = Duration::from_secs(60);
const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
/// The handshake of RFC 6455, section 1.3.
pub(crate) const HANDSHAKE: &str = "host: a\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
    sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n";

/// Appends a frame of a client.
pub(crate) fn add_frame(bytes: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
    write_frame(bytes, opcode, Some(KEY), payload);
}

pub(crate) fn connect(upstream: &RunningUpstream) -> TcpStream {
    let Address::Tcp(address) = &upstream.ready().instances[0] else { panic!("a port") };
    let socket = TcpStream::connect(address).expect("connects");
    socket.set_read_timeout(Some(LIMIT)).expect("a socket");
    socket.set_nodelay(true).expect("a socket");
    socket
}

/// Sends raw bytes, and reads until the upstream closes the connection.
pub(crate) fn raw(upstream: &RunningUpstream, bytes: &[u8]) -> Vec<u8> {
    let mut socket = connect(upstream);
    socket.write_all(bytes).expect("sent");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("an answer and the end");
    answer
}

/// A WebSocket.
pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    /// The head of the answer to the handshake.
    pub(crate) head: String,
    input: Vec<u8>,
    decoder: Decoder,
}

impl Client {
    /// Opens a WebSocket with these further header lines.
    pub(crate) fn open(upstream: &RunningUpstream, path: &str, lines: &str) -> Self {
        let mut socket = connect(upstream);
        write!(socket, "GET {path} HTTP/1.1\r\n{HANDSHAKE}{lines}\r\n").expect("sent");
        let mut input = Vec::new();
        let end = loop {
            if let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            let mut bytes = [0; 4096];
            let count = socket.read(&mut bytes).expect("an answer");
            assert!(count > 0, "the connection has ended");
            input.extend_from_slice(&bytes[..count]);
        };
        let head = String::from_utf8(input.drain(..end).collect()).expect("text");
        assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
        let deflates = head.contains("permessage-deflate");
        Self { socket, head, input, decoder: Decoder::new(Side::Server, deflates) }
    }

    pub(crate) fn send(&mut self, opcode: Opcode, payload: &[u8]) {
        let mut bytes = Vec::new();
        add_frame(&mut bytes, opcode, payload);
        self.socket.write_all(&bytes).expect("sent");
    }

    /// The next message or control frame. `None` at the end of the connection.
    pub(crate) fn next(&mut self) -> Option<(Opcode, Vec<u8>)> {
        let (mut kind, mut message) = (Opcode::Binary, Vec::new());
        loop {
            let found = self.decoder.advance(&self.input);
            let (consumed, step) = found.expect("the server keeps to the protocol");
            let mut found = None;
            match step {
                Step::NeedMore => {}
                Step::Begin { opcode, fin, length, .. } => {
                    assert!(fin, "the upstream sends whole messages");
                    kind = opcode;
                    found = (length == 0).then_some(kind);
                }
                Step::Data { ref data, end } => {
                    message.extend_from_slice(&self.input[data.clone()]);
                    found = end.then_some(kind);
                }
                Step::Control(opcode) => {
                    message = self.decoder.control().to_vec();
                    found = Some(opcode);
                }
            }
            self.input.drain(..consumed);
            if let Some(opcode) = found {
                return Some((opcode, message));
            }
            if step == Step::NeedMore {
                let mut bytes = [0; 65_536];
                let count = self.socket.read(&mut bytes).expect("an answer");
                if count == 0 {
                    return None;
                }
                self.input.extend_from_slice(&bytes[..count]);
            }
        }
    }

    /// The stamp of the next message, which must be a pushed one.
    pub(crate) fn next_stamp(&mut self) -> Stamp {
        let (opcode, message) = self.next().expect("a message");
        assert_eq!(opcode, Opcode::Binary);
        Stamp::read(&message).expect("a stamp")
    }

    /// Receives the close frame with this code, answers it, and checks that the connection ends.
    pub(crate) fn expect_close(&mut self, code: u16) {
        assert_eq!(self.next(), Some((Opcode::Close, code.to_be_bytes().to_vec())));
        self.send(Opcode::Close, &code.to_be_bytes());
        assert_eq!(self.next(), None);
    }

    /// Closes the WebSocket, and checks the answer.
    pub(crate) fn close(mut self) {
        self.send(Opcode::Close, &1000_u16.to_be_bytes());
        while let Some((opcode, payload)) = self.next() {
            if opcode == Opcode::Close {
                assert_eq!(payload, 1000_u16.to_be_bytes());
            }
        }
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}
