//! One WebSocket.

use super::pushes::Push;
use super::talk::Talk;

/// Largest buffer that a stream keeps for its next frames, bytes.
const MOST_KEPT: usize = 16 * 1024;
/// Sent bytes are removed from the front of longer buffers only when there are this many, because that moves
/// the others.
const COMPACT: usize = 64 * 1024;

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
        } else if self.sent >= COMPACT && self.sent >= self.unsent.len() / 2 {
            self.unsent.drain(..self.sent);
            self.sent = 0;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_frames_need_no_memory() {
        let mut on_stream = OnStream::new(WebSocket::new(None, None));
        let mut waiting = 0;
        // The client never catches up.
        for _ in 0..1000 {
            on_stream.unsent.extend_from_slice(&[7; 10_000]);
            waiting += 10_000;
            let sent = if waiting > 100_000 { 10_000 } else { 5000 };
            on_stream.sent(sent);
            waiting -= sent;
            assert_eq!(on_stream.waiting().len(), waiting);
        }
        assert!(on_stream.unsent.capacity() < 1_000_000, "{}", on_stream.unsent.capacity());
        on_stream.sent(waiting);
        assert!(on_stream.unsent.capacity() <= MOST_KEPT);
        assert!(on_stream.is_open() && !on_stream.is_over());
        on_stream.has_ended = true;
        assert!(!on_stream.is_open() && on_stream.is_over());
    }
}
