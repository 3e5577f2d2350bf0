//! One WebSocket.

use super::pushes::Push;
use super::talk::Talk;

/// Largest buffer that a stream keeps for its next frames, bytes.
const MOST_KEPT: usize = 16 * 1024;

/// A WebSocket.
#[derive(Debug)]
pub(in crate::upstream) struct WebSocket {
    pub(in crate::upstream) talk: Talk,
    /// Present if the upstream pushes.
    pub(in crate::upstream) push: Option<Push>,
    /// The extension in the answer to the handshake.
    pub(in crate::upstream) extension: Option<&'static str>,
    /// True if the handshake was answered.
    pub(in crate::upstream) has_begun: bool,
}

impl WebSocket {
    /// A WebSocket with this extension. `push` is the place of the messages that the upstream pushes.
    pub(in crate::upstream) fn new(extension: Option<&'static str>, push: Option<u32>) -> Self {
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
pub(in crate::upstream) struct OnStream {
    pub(in crate::upstream) websocket: WebSocket,
    /// Frames for the client. The first `sent` bytes were sent.
    pub(in crate::upstream) unsent: Vec<u8>,
    sent: usize,
    /// True if the client has ended its side of the stream.
    pub(in crate::upstream) has_ended: bool,
}

impl OnStream {
    pub(in crate::upstream) fn new(websocket: WebSocket) -> Self {
        Self { websocket, unsent: Vec::new(), sent: 0, has_ended: false }
    }

    /// The frames that were not sent yet.
    pub(in crate::upstream) fn waiting(&self) -> &[u8] {
        &self.unsent[self.sent..]
    }

    /// Removes the first bytes of those frames.
    pub(in crate::upstream) fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent == self.unsent.len() {
            self.sent = 0;
            self.unsent.clear();
            self.unsent.shrink_to(MOST_KEPT);
        }
    }

    /// True if messages can be sent.
    pub(in crate::upstream) fn is_open(&self) -> bool {
        self.websocket.talk.is_open() && !self.has_ended
    }

    /// True if the stream ends once everything is sent.
    pub(in crate::upstream) fn is_over(&self) -> bool {
        self.websocket.talk.is_over() || self.has_ended
    }
}
