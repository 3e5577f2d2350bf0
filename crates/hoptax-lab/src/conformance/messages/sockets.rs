//! WebSockets: the handshake, messages, and how they end.

use super::frames::{Frame, Frames};
use super::link::{Head, Link, NOTICE, Side, value_of};
use super::script::{CLOSED, LAST, PING, REFUSED, SUBPROTOCOL, WELCOME};
use super::state::Seen;
use crate::conformance::cases::text;
use crate::conformance::http2::side::{Deviation, Outcome};
use hoptax_format::websocket::{KEY_VALUE, OFFERED_DEFLATE};
use hoptax_load::websocket::accept;
use hoptax_wire::websocket::{ACCEPT, EXTENSIONS, KEY, Opcode, Side as Sender, VERSION};
use std::collections::VecDeque;

/// The key that masks all frames of the client.
const MASK: [u8; 4] = *b"mask";

/// A close code of the client and its reason.
const LEAVING: (u16, &str) = (4001, "the client closes");

/// Number of small messages.
const MANY: usize = 1000;

/// A WebSocket of a client.
struct Socket<'a> {
    side: &'a Side<'a>,
    link: Link,
    number: u64,
    head: Head,
    frames: Frames,
    arrived: VecDeque<Frame>,
}

impl<'a> Socket<'a> {
    /// Sends a handshake and waits for the head of the answer.
    fn ask(side: &'a Side<'a>, path: &str, headers: &[(&str, &str)]) -> Result<Self, Deviation> {
        let usual = [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", VERSION),
            (KEY, KEY_VALUE),
        ];
        let (mut link, number) = side.get(path, &[&usual[..], headers].concat())?;
        link.until(side.patience, |link| Head::read(&link.input).is_some());
        let Some(head) = Head::read(&link.input) else {
            let what = if link.is_over { "the connection ends early" } else { "no whole answer" };
            return Err(Deviation::new(what));
        };
        link.input.drain(..head.length);
        Ok(Self { side, link, number, head, frames: Frames::new(Sender::Server), arrived: VecDeque::new() })
    }

    /// Like [`Self::ask`]. The handshake must be accepted.
    fn open(side: &'a Side<'a>, path: &str) -> Result<Self, Deviation> {
        let socket = Self::ask(side, path, &[])?;
        match socket.head.status() {
            101 => Ok(socket),
            status => Err(Deviation(format!("status {status} instead of 101"))),
        }
    }

    fn send(&mut self, frame: &Frame) -> Outcome {
        let mut output = Vec::new();
        frame.write(&mut output, Some(MASK));
        self.link.send(&output)
    }

    /// The next frame. `None` if none arrives in time or the connection has ended.
    fn next(&mut self) -> Result<Option<Frame>, Deviation> {
        let (mut fault, patience) = (None, self.side.patience);
        let (frames, arrived) = (&mut self.frames, &mut self.arrived);
        self.link.until(patience, |link| {
            let input = std::mem::take(&mut link.input);
            match frames.read(&input) {
                Ok(whole) => arrived.extend(whole),
                Err(why) => fault = Some(why),
            }
            fault.is_some() || !arrived.is_empty()
        });
        match (self.arrived.pop_front(), fault) {
            (Some(frame), _) => Ok(Some(frame)),
            (None, Some(why)) => Err(Deviation(why)),
            (None, None) => Ok(None),
        }
    }

    /// Checks the next frame.
    fn expect(&mut self, expected: &Frame) -> Outcome {
        let Some(frame) = self.next()? else {
            return Err(Deviation(format!("no {} frame arrives", name(expected.opcode))));
        };
        compare("the client", &frame, expected)
    }

    /// Checks that the upstream sees this frame at this position.
    fn is_seen(&self, index: usize, expected: &Frame) -> Outcome {
        self.side.sees(self.number, self.side.patience, |seen| seen.frames.len() > index);
        match self.side.upstream.seen(self.number).frames.get(index) {
            Some(frame) => compare("the upstream", frame, expected),
            None => Err(Deviation(format!("the upstream sees no {} frame", name(expected.opcode)))),
        }
    }

    /// Whether the connection ends in time.
    fn ends(&mut self) -> bool {
        self.link.until(self.side.patience, |link| link.is_over);
        self.link.is_over
    }

    /// Waits until the upstream sees that the client left. Returns false after the time limit.
    fn is_left(side: &Side<'_>, number: u64) -> bool {
        side.sees(number, NOTICE, |seen: &Seen| seen.left)
    }
}

fn name(opcode: Opcode) -> &'static str {
    match opcode {
        Opcode::Continuation => "continuation",
        Opcode::Text => "text",
        Opcode::Binary => "binary",
        Opcode::Close => "close",
        Opcode::Ping => "ping",
        Opcode::Pong => "pong",
    }
}

/// Compares a frame that `by` has seen.
fn compare(by: &str, frame: &Frame, expected: &Frame) -> Outcome {
    let (seen, sent) = (name(frame.opcode), name(expected.opcode));
    if frame.opcode != expected.opcode {
        return Err(Deviation(format!("{by} sees a {seen} frame instead of a {sent} frame")));
    }
    if frame.opcode == Opcode::Close && frame.payload != expected.payload {
        let code = |frame: &Frame| frame.payload.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code));
        let (seen, sent) = (code(frame), code(expected));
        let what = match seen == sent {
            true => format!("{by} sees close code {seen} with another reason"),
            false => format!("{by} sees close code {seen} instead of {sent}"),
        };
        return Err(Deviation(what));
    }
    if frame.fin != expected.fin || frame.payload.len() != expected.payload.len() {
        return Err(Deviation(format!("{by} sees a message in other frames than were sent")));
    }
    match frame.payload == expected.payload {
        true => Ok(()),
        false => Err(Deviation(format!("{by} sees another content of a {seen} frame"))),
    }
}

fn differs(by: &str, name: &str, seen: &str, sent: &str) -> Deviation {
    Deviation(format!("{by} saw {name} `{seen}` instead of `{sent}`"))
}

/// Sends a handshake with a header, and checks what both sides see of it.
fn with_header(side: &Side<'_>, header: &str, offered: &str, chosen: &str) -> Outcome {
    let socket = Socket::ask(side, "/echo", &[(header, offered)])?;
    if socket.head.status() != 101 {
        return Err(Deviation(format!("status {} instead of 101", socket.head.status())));
    }
    let seen = value_of(&side.upstream.seen(socket.number).head, header);
    if seen != offered {
        return Err(differs("the upstream", header, &seen, offered));
    }
    let seen = socket.head.value(header);
    if seen != chosen {
        return Err(differs("the client", header, &seen, chosen));
    }
    Ok(())
}

pub(super) fn handshake(side: &Side<'_>) -> Outcome {
    let socket = Socket::open(side, "/echo")?;
    let (seen, expected) = (socket.head.value(ACCEPT), accept(KEY_VALUE.as_bytes()));
    if seen != expected {
        return Err(differs("the client", ACCEPT, &seen, &expected));
    }
    for (name, value) in [("upgrade", "websocket"), ("connection", "upgrade")] {
        let seen = socket.head.value(name);
        if !seen.eq_ignore_ascii_case(value) {
            return Err(differs("the client", name, &seen, value));
        }
    }
    Ok(())
}

pub(super) fn subprotocol(side: &Side<'_>) -> Outcome {
    with_header(side, SUBPROTOCOL, "chat, superchat", "superchat")
}

pub(super) fn extension(side: &Side<'_>) -> Outcome {
    with_header(side, EXTENSIONS, OFFERED_DEFLATE, OFFERED_DEFLATE)
}

pub(super) fn refused(side: &Side<'_>) -> Outcome {
    match Socket::ask(side, "/refuse", &[])?.head.status() {
        REFUSED => Ok(()),
        status => Err(Deviation(format!("status {status} instead of {REFUSED}"))),
    }
}

pub(super) fn early(side: &Side<'_>) -> Outcome {
    Socket::open(side, "/early")?.expect(&Frame::new(Opcode::Text, WELCOME))
}

/// Sends frames. They must arrive and come back as they are.
fn echoed(side: &Side<'_>, frames: &[Frame]) -> Outcome {
    let mut socket = Socket::open(side, "/echo")?;
    frames.iter().try_for_each(|frame| socket.send(frame))?;
    frames.iter().enumerate().try_for_each(|(index, frame)| socket.is_seen(index, frame))?;
    frames.iter().try_for_each(|frame| socket.expect(frame))
}

pub(super) fn types(side: &Side<'_>) -> Outcome {
    let binary = Frame::new(Opcode::Binary, &b"\x00\xff\xfe"[..]);
    echoed(side, &[Frame::new(Opcode::Text, "text".as_bytes()), binary])
}

pub(super) fn large(side: &Side<'_>) -> Outcome {
    echoed(side, &[Frame::new(Opcode::Binary, text(1 << 20))])
}

pub(super) fn fragments(side: &Side<'_>) -> Outcome {
    let part = |opcode, fin, text: &str| Frame { opcode, fin, payload: text.into() };
    echoed(
        side,
        &[
            part(Opcode::Text, false, "one "),
            part(Opcode::Continuation, false, "two "),
            part(Opcode::Continuation, true, "three"),
        ],
    )
}

/// All messages are sent at once, so that a gateway has many in one read.
pub(super) fn many(side: &Side<'_>) -> Outcome {
    let mut socket = Socket::open(side, "/echo")?;
    let message = |number: usize| Frame::new(Opcode::Text, number.to_string());
    let mut output = Vec::new();
    (0..MANY).for_each(|number| message(number).write(&mut output, Some(MASK)));
    socket.link.send(&output)?;
    (0..MANY).try_for_each(|number| socket.expect(&message(number)))
}

pub(super) fn client_ping(side: &Side<'_>) -> Outcome {
    let mut socket = Socket::open(side, "/echo")?;
    let ping = Frame::new(Opcode::Ping, PING);
    socket.send(&ping)?;
    socket.expect(&Frame::new(Opcode::Pong, PING))?;
    if socket.is_seen(0, &ping).is_err() {
        return Err(Deviation::new("the gateway answers the client's ping itself"));
    }
    Ok(())
}

pub(super) fn server_ping(side: &Side<'_>) -> Outcome {
    let mut socket = Socket::open(side, "/ping")?;
    let pong = Frame::new(Opcode::Pong, PING);
    if socket.next()? != Some(Frame::new(Opcode::Ping, PING)) {
        return Err(Deviation::new(match socket.is_seen(0, &pong) {
            Ok(()) => "the gateway answers the upstream's ping itself",
            Err(_) => "the upstream's ping does not arrive",
        }));
    }
    socket.send(&pong)?;
    socket.is_seen(0, &pong)
}

pub(super) fn client_close(side: &Side<'_>) -> Outcome {
    let mut socket = Socket::open(side, "/echo")?;
    let close = Frame::close(LEAVING.0, LEAVING.1);
    socket.send(&close)?;
    socket.is_seen(0, &close)?;
    socket.expect(&close)
}

pub(super) fn server_close(side: &Side<'_>) -> Outcome {
    let mut socket = Socket::open(side, "/close")?;
    let close = Frame::close(CLOSED.0, CLOSED.1);
    socket.expect(&close)?;
    socket.send(&close)?;
    socket.is_seen(0, &close)
}

pub(super) fn silence(side: &Side<'_>) -> Outcome {
    let mut socket = Socket::open(side, "/echo")?;
    socket.link.until(side.silence, |link| link.is_over || !link.input.is_empty());
    if !socket.link.input.is_empty() {
        return Err(Deviation(format!("a frame that nobody sent arrives within {:?}", side.silence)));
    }
    if socket.link.is_over {
        return Err(Deviation(format!("the connection ends within {:?} of silence", side.silence)));
    }
    let message = Frame::new(Opcode::Text, WELCOME);
    socket.send(&message)?;
    socket.expect(&message)
}

pub(super) fn server_end(side: &Side<'_>) -> Outcome {
    let mut socket = Socket::open(side, "/end")?;
    side.upstream.release(socket.number);
    if let Some(frame) = socket.next()? {
        return Err(Deviation(format!("the client sees a {} frame that nobody sent", name(frame.opcode))));
    }
    match socket.ends() {
        true => Ok(()),
        false => Err(Deviation::new("the client does not see that the upstream left")),
    }
}

pub(super) fn client_end(side: &Side<'_>) -> Outcome {
    let Socket { link, number, .. } = Socket::open(side, "/echo")?;
    drop(link);
    match Socket::is_left(side, number) {
        true => Ok(()),
        false => Err(Deviation::new("the upstream does not see within 1 s that the client left")),
    }
}

/// With TCP, the upstream can still send after the client has sent FIN.
pub(super) fn client_half(side: &Side<'_>) -> Outcome {
    let mut socket = Socket::open(side, "/half")?;
    socket.link.stop_sending();
    if !Socket::is_left(side, socket.number) {
        return Err(Deviation::new("the upstream does not see within 1 s that the client stopped sending"));
    }
    socket.expect(&Frame::new(Opcode::Text, WELCOME))
}

pub(super) fn close_behind_data(side: &Side<'_>) -> Outcome {
    let mut socket = Socket::open(side, "/last")?;
    socket.expect(&Frame::new(Opcode::Binary, vec![b'x'; LAST]))?;
    socket.expect(&Frame::close(CLOSED.0, CLOSED.1))
}
