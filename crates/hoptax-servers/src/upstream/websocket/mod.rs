//! WebSockets of the upstream, without I/O: the handshake, the messages of a connection, compression, and the
//! messages that the upstream sends by itself.
//!
//! Each WebSocket gets its messages back, except on paths whose settings say that the upstream pushes.

mod deflate;
mod handshake;
mod talk;

pub(super) use handshake::{Accepted, Refusal, accept_stream, answer};

use deflate::Deflate;
use hoptax_format::messages::{Carrier, ENDLESS, Stamp, StreamKind, StreamSpec, with_room};
use hoptax_plan::{Body, BuiltInUpstream};
use hoptax_wire::http2::{Block, response_fields};
use hoptax_wire::websocket::{Frame, Opcode, write_frame};
use std::collections::HashMap;
use std::mem;
use talk::Talk;

/// Largest message that is accepted, bytes.
const MOST_MESSAGE: usize = 16 << 20;
/// Largest buffer that is kept for the next message, bytes.
pub(super) const MOST_SPARE: usize = 1 << 20;
/// Largest buffer that a stream keeps for its next frames, bytes.
const MOST_KEPT: usize = 16 * 1024;

/// How an instance answers WebSockets.
#[derive(Debug, Clone)]
pub(super) struct WebSockets {
    /// Whether messages are compressed if the client offers it.
    pub(super) compression: bool,
    /// Headers of the settings that the answer to a handshake has too.
    pub(super) headers: Vec<(String, String)>,
    /// The head of the answer over HTTP/2.
    pub(super) head: Block,
    /// True if the body of the settings has only a size.
    is_filler: bool,
    /// The paths on which the upstream pushes, as places in `pushes`.
    paths: HashMap<Vec<u8>, u32>,
    pushes: Vec<StreamSpec>,
    /// The frame of a pushed message, with room for a stamp. Made with the first push.
    frame: Vec<u8>,
    /// Place of the message in the frame.
    content: usize,
}

impl WebSockets {
    pub(super) fn new(settings: &BuiltInUpstream) -> anyhow::Result<Self> {
        const OWN: [&str; 3] = ["connection", "upgrade", "content-type"];
        let is_own = |name: &str| {
            let name = name.to_ascii_lowercase();
            OWN.contains(&&*name) || name.starts_with("sec-websocket-")
        };
        let headers = settings.headers.iter().filter(|(name, _)| !is_own(name)).cloned().collect::<Vec<_>>();
        let head = response_fields(200, super::answer::allowed_fields(&headers), None)?;
        let mut websockets = Self {
            compression: settings.websocket_compression,
            head: Block::plain(&head),
            headers,
            is_filler: matches!(settings.body, Body::Size(_) | Body::Like { .. }),
            paths: HashMap::new(),
            pushes: Vec::new(),
            frame: Vec::new(),
            content: 0,
        };
        for entry in &settings.streams {
            let StreamSpec { carrier, kind, .. } = entry.stream;
            if carrier == Carrier::WebSocket && kind == StreamKind::ServerStream {
                let place = websockets.pushes.len() as u32;
                websockets.paths.insert(entry.path.clone().into_bytes(), place);
                websockets.pushes.push(entry.stream);
            }
        }
        Ok(websockets)
    }

    /// Number of paths on which the upstream pushes.
    pub(super) fn pushing_paths(&self) -> usize {
        self.pushes.len()
    }

    /// The messages that the upstream pushes on the path of this target. `body` returns the configured body.
    pub(super) fn push<'b>(&mut self, target: &[u8], body: impl FnOnce() -> &'b [u8]) -> Option<u32> {
        if self.paths.is_empty() {
            return None;
        }
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        let place = *self.paths.get(path)?;
        if self.frame.is_empty() {
            let message = with_room(body().to_vec(), self.is_filler);
            write_frame(&mut self.frame, Opcode::Binary, None, &message);
            self.content = self.frame.len() - message.len();
        }
        Some(place)
    }

    /// The messages of a place that [`WebSockets::push`] has returned.
    pub(super) fn spec(&self, place: u32) -> StreamSpec {
        self.pushes[place as usize]
    }

    /// Appends a pushed message.
    pub(super) fn write(&mut self, stamp: Stamp, deflates: bool, tools: &mut Tools, output: &mut Vec<u8>) {
        let message = &mut self.frame[self.content..];
        if let Some(room) = message.first_chunk_mut() {
            stamp.write(room);
        }
        if deflates {
            tools.write(true, Opcode::Binary, &self.frame[self.content..], output);
        } else {
            output.extend_from_slice(&self.frame);
        }
    }
}

/// What all WebSockets of an instance use in turn, so that a connection between two messages needs no memory
/// for them.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// Memory for a message.
    spare: Vec<u8>,
    /// Present after the first compressed message.
    deflate: Option<Box<Deflate>>,
    /// A compressed message.
    packed: Vec<u8>,
}

impl Tools {
    /// Appends the frame of a whole message.
    fn write(&mut self, deflates: bool, opcode: Opcode, message: &[u8], output: &mut Vec<u8>) {
        if !deflates {
            return write_frame(output, opcode, None, message);
        }
        self.packed.clear();
        self.deflate.get_or_insert_default().compress(message, &mut self.packed);
        let length = self.packed.len() as u64;
        Frame { fin: true, compressed: true, opcode, mask: None, length }.write(output);
        output.extend_from_slice(&self.packed);
    }

    /// Inflates a message. Returns the status code of the close frame if that is not possible.
    fn inflate(&mut self, message: &mut Vec<u8>) -> Result<(), u16> {
        mem::swap(message, &mut self.packed);
        message.clear();
        self.deflate.get_or_insert_default().inflate(&mut self.packed, message, MOST_MESSAGE)
    }
}

/// A WebSocket.
#[derive(Debug)]
pub(super) struct WebSocket {
    pub(super) talk: Talk,
    /// Present if the upstream pushes.
    pub(super) push: Option<Push>,
    /// The extension in the answer to the handshake.
    pub(super) extension: Option<&'static str>,
    /// True if the handshake was answered.
    pub(super) has_begun: bool,
}

impl WebSocket {
    /// A WebSocket with this extension. `push` is the place of the messages that the upstream pushes.
    pub(super) fn new(extension: Option<&'static str>, push: Option<u32>) -> Self {
        Self {
            talk: Talk::new(extension.is_some(), push.is_none()),
            push: push.map(|place| Push { place, ..Push::default() }),
            extension,
            has_begun: false,
        }
    }
}

/// A WebSocket over HTTP/2.
#[derive(Debug)]
pub(super) struct OnStream {
    pub(super) websocket: WebSocket,
    /// Frames for the client. The first `sent` bytes were sent.
    pub(super) unsent: Vec<u8>,
    sent: usize,
    /// True if the client has ended its side of the stream.
    pub(super) has_ended: bool,
}

impl OnStream {
    pub(super) fn new(websocket: WebSocket) -> Self {
        Self { websocket, unsent: Vec::new(), sent: 0, has_ended: false }
    }

    /// The frames that were not sent yet.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.unsent[self.sent..]
    }

    /// Removes the first bytes of those frames.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent == self.unsent.len() {
            self.sent = 0;
            self.unsent.clear();
            self.unsent.shrink_to(MOST_KEPT);
        }
    }

    /// True if messages can be sent.
    pub(super) fn is_open(&self) -> bool {
        self.websocket.talk.is_open() && !self.has_ended
    }

    /// True if the stream ends once everything is sent.
    pub(super) fn is_over(&self) -> bool {
        self.websocket.talk.is_over() || self.has_ended
    }
}

/// Messages that are pushed to one connection, or to all connections of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Push {
    /// Place of the settings.
    pub(super) place: u32,
    /// When the first message is due.
    pub(super) begun: u64,
    /// Number of the next message, from 0.
    pub(super) number: u64,
    /// When the latest timer is due.
    pub(super) timer: u64,
}

impl Push {
    /// The stamp of the next message. `None` if there is none.
    pub(super) fn next(&self, spec: StreamSpec) -> Option<Stamp> {
        let is_there = spec.messages == ENDLESS || self.number < u64::from(spec.messages);
        let after = self.number.saturating_mul(spec.every_ns);
        is_there.then(|| Stamp { number: self.number, due: self.begun.saturating_add(after) })
    }

    /// Whether a timer must be set for a time. The timer that was set before fires earlier than that, if it
    /// has not fired yet.
    pub(super) fn needs_timer(&mut self, due: u64, now: u64) -> bool {
        let needs = self.timer <= now;
        if needs {
            self.timer = due;
        }
        needs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(messages: u32, every_ns: u64) -> StreamSpec {
        StreamSpec {
            carrier: Carrier::WebSocket,
            ..StreamSpec::grpc(StreamKind::ServerStream, messages, every_ns)
        }
    }

    #[test]
    fn messages_are_due_by_a_schedule() {
        let mut push = Push { begun: 1000, ..Push::default() };
        let mut stamps = Vec::new();
        while let Some(stamp) = push.next(spec(3, 50)) {
            stamps.push((stamp.number, stamp.due));
            push.number += 1;
        }
        assert_eq!(stamps, [(0, 1000), (1, 1050), (2, 1100)]);
        push.number = 1 << 40;
        assert!(push.next(spec(ENDLESS, 50)).is_some());
    }

    #[test]
    fn a_push_has_one_timer_at_a_time() {
        let mut push = Push::default();
        assert!(push.needs_timer(50, 40));
        assert!(!push.needs_timer(50, 45), "it is set");
        assert!(push.needs_timer(100, 50), "it has fired");
    }

    #[test]
    fn pushed_messages_have_stamps() {
        let mut settings = BuiltInUpstream::with_body(Body::Size(100));
        settings.streams = vec![hoptax_plan::PathStream { path: "/push".into(), stream: spec(3, 50) }];
        let mut websockets = WebSockets::new(&settings).expect("good settings");
        let body = [b'x'; 100];
        assert_eq!(websockets.push(b"/other", || &body), None);
        assert_eq!(websockets.push(b"/push?x=y", || &body), Some(0));
        let (mut tools, mut output) = (Tools::default(), Vec::new());
        let stamp = Stamp { number: 7, due: 9 };
        websockets.write(stamp, false, &mut tools, &mut output);
        assert_eq!((output.len(), Stamp::read(&output[2..])), (102, Some(stamp)));
        output.clear();
        websockets.write(stamp, true, &mut tools, &mut output);
        assert_eq!(output[0], 0xc2);
        let mut message = output[2..].to_vec();
        tools.inflate(&mut message).expect("compressed");
        assert_eq!((message.len(), Stamp::read(&message)), (100, Some(stamp)));
    }
}
