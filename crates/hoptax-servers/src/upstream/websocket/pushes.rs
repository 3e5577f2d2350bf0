//! How an instance answers WebSockets, and the messages that it pushes.

use super::super::answer::allowed_fields;
use super::tools::Tools;
use hoptax_format::messages::{Carrier, ENDLESS, Stamp, StreamKind, StreamSpec, with_room};
use hoptax_plan::{Body, BuiltInUpstream};
use hoptax_wire::http2::{Block, response_fields};
use hoptax_wire::websocket::{Opcode, write_frame};
use std::collections::HashMap;

/// How an instance answers WebSockets.
#[derive(Debug, Clone)]
pub(in crate::upstream) struct WebSockets {
    /// Whether messages are compressed if the client offers it.
    pub(in crate::upstream) compression: bool,
    /// Headers of the settings that the answer to a handshake has too.
    pub(in crate::upstream) headers: Vec<(String, String)>,
    /// The head of the answer over HTTP/2.
    pub(in crate::upstream) head: Block,
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
    pub(in crate::upstream) fn new(settings: &BuiltInUpstream) -> anyhow::Result<Self> {
        const OWN: [&str; 3] = ["connection", "upgrade", "content-type"];
        let is_own = |name: &str| {
            let name = name.to_ascii_lowercase();
            OWN.contains(&&*name) || name.starts_with("sec-websocket-")
        };
        let headers = settings.headers.iter().filter(|(name, _)| !is_own(name)).cloned().collect::<Vec<_>>();
        let head = response_fields(200, allowed_fields(&headers), None)?;
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
    pub(in crate::upstream) fn pushing_paths(&self) -> usize {
        self.pushes.len()
    }

    /// The messages that the upstream pushes on the path of this target. `body` returns the configured body.
    pub(in crate::upstream) fn push<'b>(
        &mut self,
        target: &[u8],
        body: impl FnOnce() -> &'b [u8],
    ) -> Option<u32> {
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
    pub(in crate::upstream) fn spec(&self, place: u32) -> StreamSpec {
        self.pushes[place as usize]
    }

    /// Appends a pushed message.
    pub(in crate::upstream) fn write(
        &mut self,
        stamp: Stamp,
        deflates: bool,
        tools: &mut Tools,
        output: &mut Vec<u8>,
    ) {
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

/// Messages that are pushed to one connection, or to all connections of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::upstream) struct Push {
    /// Place of the settings.
    pub(in crate::upstream) place: u32,
    /// When the first message is due.
    pub(in crate::upstream) begun: u64,
    /// Number of the next message, from 0.
    pub(in crate::upstream) number: u64,
    /// When the latest timer is due.
    pub(in crate::upstream) timer: u64,
}

impl Push {
    /// The stamp of the next message. `None` if there is none.
    pub(in crate::upstream) fn next(&self, spec: StreamSpec) -> Option<Stamp> {
        let is_there = spec.messages == ENDLESS || self.number < u64::from(spec.messages);
        let after = self.number.saturating_mul(spec.every_ns);
        is_there.then(|| Stamp { number: self.number, due: self.begun.saturating_add(after) })
    }

    /// Whether a timer must be set for a time. The timer that was set before fires earlier than that, if it
    /// has not fired yet.
    pub(in crate::upstream) fn needs_timer(&mut self, due: u64, now: u64) -> bool {
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

    #[test]
    fn a_push_has_one_timer_at_a_time() {
        let mut push = Push::default();
        assert!(push.needs_timer(50, 40));
        assert!(!push.needs_timer(50, 45), "it is set");
        assert!(push.needs_timer(100, 50), "it has fired");
    }
}
