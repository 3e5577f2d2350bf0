//! What the scripted upstream answers on one connection.

use super::frames::{Frame, Frames};
use super::link::{Body, Head, is_temporary, marked, value_of};
use super::state::Shared;
use hoptax_load::websocket::accept;
use hoptax_wire::websocket::{ACCEPT, EXTENSIONS, KEY, Opcode, Side};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of events that the upstream sends step by step.
pub(super) const STEPS: usize = 3;
/// An event.
pub(super) const EVENT: &[u8] = b"data: an event\n\n";
/// A comment that keeps a connection open.
pub(super) const HEARTBEAT: &[u8] = b": still here\n\n";
/// Events whose lines end in all three ways.
pub(super) const ENDS: &[u8] =
    b"id: 1\rdata: a\r\rid: 2\r\ndata: b\r\ndata:\r\n\r\ndata: c\n\ndata: \t\xc3\xa4\n\n";
/// An event after a byte order mark.
pub(super) const MARKED: &[u8] = b"\xef\xbb\xbfdata: marked\n\n";
/// Header with the subprotocols of a handshake, in lower case.
pub(super) const SUBPROTOCOL: &str = "sec-websocket-protocol";
/// The payload of the upstream's ping.
pub(super) const PING: &[u8] = b"are you there?";
/// The upstream's own close code and its reason.
pub(super) const CLOSED: (u16, &str) = (4002, "the upstream closes");
/// The status of a refused handshake.
pub(super) const REFUSED: u16 = 403;
/// The message that the upstream sends by itself.
pub(super) const WELCOME: &[u8] = b"welcome";
/// Length of the message that the upstream sends before it closes, bytes.
pub(super) const LAST: usize = 256 * 1024;

/// A connection of the upstream.
pub(super) struct Script<'a> {
    pub(super) stream: TcpStream,
    pub(super) shared: &'a Shared,
    pub(super) must_stop: &'a AtomicBool,
    pub(super) input: Vec<u8>,
}

/// A request, and the script of its answer.
pub(super) struct Request {
    pub(super) number: u64,
    /// The path, or the script that the prompt names.
    pub(super) script: String,
    pub(super) head: Head,
    pub(super) body: Vec<u8>,
}

impl Script<'_> {
    /// Serves the connection until the client leaves.
    ///
    /// # Errors
    /// If the client leaves.
    pub(super) fn serve(&mut self) -> io::Result<()> {
        loop {
            let request = self.request()?;
            let served = self.answer(&request);
            if served.is_err() {
                self.shared.note(request.number, |seen| seen.left = true);
            }
            served?;
        }
    }

    /// Reads what has arrived. Returns whether bytes arrived.
    fn read(&mut self) -> io::Result<bool> {
        if self.must_stop.load(Ordering::Relaxed) {
            return Err(ErrorKind::Interrupted.into());
        }
        let mut piece = vec![0; 64 * 1024];
        match self.stream.read(&mut piece) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.input.extend_from_slice(&piece[..count]);
                Ok(true)
            }
            Err(error) if is_temporary(error.kind()) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn request(&mut self) -> io::Result<Request> {
        loop {
            if let Some(head) = Head::read(&self.input) {
                self.input.drain(..head.length);
                let body = self.body(&head)?;
                let target = head.first.split(' ').nth(1).unwrap_or("/").to_owned();
                let (path, query) = target.split_once('?').unwrap_or((target.as_str(), "0"));
                let usual = (query.parse().unwrap_or(0), path);
                let (number, script) = marked(&body).unwrap_or(usual);
                let script = script.to_owned();
                self.shared.note(number, |seen| {
                    seen.requests += 1;
                    seen.path = path.to_owned();
                    seen.head.clone_from(&head.fields);
                    seen.body.clone_from(&body);
                });
                return Ok(Request { number, script, head, body });
            }
            self.read()?;
        }
    }

    /// The rest of a request. A client sends the next request after it has the answer.
    fn body(&mut self, head: &Head) -> io::Result<Vec<u8>> {
        if ["content-length", "transfer-encoding"].iter().all(|name| head.value(name).is_empty()) {
            return Ok(Vec::new());
        }
        loop {
            let body = Body::read(head, &self.input, false);
            if body.is_whole {
                let length = head.value("content-length").parse().unwrap_or(self.input.len());
                self.input.drain(..length.min(self.input.len()));
                return Ok(body.bytes);
            }
            self.read()?;
        }
    }

    /// Waits until the case has released the request this often.
    pub(super) fn released(&mut self, number: u64, times: u64) -> io::Result<()> {
        while self.shared.releases(number) < times {
            self.read()?;
        }
        Ok(())
    }

    fn answer(&mut self, request: &Request) -> io::Result<()> {
        let Request { number, script, head, .. } = request;
        if head.value("upgrade").eq_ignore_ascii_case("websocket") {
            return self.websocket(*number, script, head);
        }
        match script.as_str() {
            "/steps" => {
                self.begin()?;
                for step in 1..=STEPS {
                    self.released(*number, step as u64)?;
                    self.chunk(EVENT)?;
                }
            }
            "/comment" => {
                self.begin()?;
                self.chunk(HEARTBEAT)?;
                self.released(*number, 1)?;
                self.chunk(EVENT)?;
            }
            "/ends" => {
                self.begin()?;
                self.chunk(ENDS)?;
            }
            "/mark" => {
                self.begin()?;
                self.chunk(MARKED)?;
            }
            "/abort" => {
                self.begin()?;
                self.chunk(EVENT)?;
                return Err(ErrorKind::ConnectionAborted.into());
            }
            "/v1/models" => return self.model(request),
            path if path.starts_with('/') => {
                return self.stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
            }
            _ => return self.model(request),
        }
        self.stream.write_all(b"0\r\n\r\n")
    }

    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.stream.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\n\
              transfer-encoding: chunked\r\n\r\n",
        )
    }

    pub(super) fn chunk(&mut self, data: &[u8]) -> io::Result<()> {
        self.stream.write_all(&[format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat())
    }

    fn websocket(&mut self, number: u64, path: &str, head: &Head) -> io::Result<()> {
        if path == "/refuse" {
            let answer = format!("HTTP/1.1 {REFUSED} Forbidden\r\ncontent-length: 2\r\n\r\nno");
            return self.stream.write_all(answer.as_bytes());
        }
        let accepted = accept(head.value(KEY).as_bytes());
        let mut answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
             {ACCEPT}: {accepted}\r\n"
        );
        // Of several subprotocols, it chooses the last. It accepts extensions as they are offered.
        for name in [SUBPROTOCOL, EXTENSIONS] {
            let offered = value_of(&head.fields, name);
            if let Some(last) = offered.rsplit(", ").next().filter(|last| !last.is_empty()) {
                answer += &format!("{name}: {last}\r\n");
            }
        }
        let mut output = (answer + "\r\n").into_bytes();
        match path {
            "/early" => Frame::new(Opcode::Text, WELCOME).write(&mut output, None),
            "/ping" => Frame::new(Opcode::Ping, PING).write(&mut output, None),
            "/close" => Frame::close(CLOSED.0, CLOSED.1).write(&mut output, None),
            "/last" => {
                Frame::new(Opcode::Binary, vec![b'x'; LAST]).write(&mut output, None);
                Frame::close(CLOSED.0, CLOSED.1).write(&mut output, None);
            }
            _ => {}
        }
        self.stream.write_all(&output)?;
        if path == "/end" {
            self.released(number, 1)?;
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let ended = self.echo(number, !matches!(path, "/close" | "/last"));
        if path == "/half" && ended.is_err() {
            self.shared.note(number, |seen| seen.left = true);
            let mut output = Vec::new();
            Frame::new(Opcode::Text, WELCOME).write(&mut output, None);
            self.stream.write_all(&output)?;
        }
        ended
    }

    /// Sends every message back, and answers pings, until the client leaves or closes. `may_close` is false
    /// if the upstream has sent its own close frame, because no frame follows it.
    fn echo(&mut self, number: u64, may_close: bool) -> io::Result<()> {
        let mut frames = Frames::new(Side::Client);
        loop {
            let input = std::mem::take(&mut self.input);
            for frame in frames.read(&input).map_err(io::Error::other)? {
                let mut output = Vec::new();
                match frame.opcode {
                    Opcode::Pong => {}
                    Opcode::Close if !may_close => {}
                    Opcode::Ping => {
                        Frame::new(Opcode::Pong, frame.payload.clone()).write(&mut output, None);
                    }
                    _ => frame.write(&mut output, None),
                }
                let is_close = frame.opcode == Opcode::Close;
                self.shared.note(number, |seen| seen.frames.push(frame));
                self.stream.write_all(&output)?;
                if is_close {
                    // The server ends the connection first (RFC 6455, section 7.1.1).
                    return Err(ErrorKind::ConnectionAborted.into());
                }
            }
            self.read()?;
        }
    }
}
