//! A call in which both sides send a stream: each complete message gets a reply. Does no I/O.

use super::reflection::Reflection;
use hoptax_format::grpc::Status;
use hoptax_wire::grpc::{Fault, Messages, PREFIX, Step};
use std::sync::Arc;

/// Largest message that is accepted, bytes.
const MOST_MESSAGE: u32 = 16 << 20;
/// Maximum number of bytes that are kept, of an incomplete message and of replies that the client does not
/// read. Room for two of the largest messages.
const MOST_KEPT: usize = 2 * (PREFIX + MOST_MESSAGE as usize);
/// Minimum number of sent bytes before they are removed from the front of the buffer, because removing them
/// moves the other bytes.
const COMPACT: usize = 64 * 1024;

/// Why a call ends before all its messages were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Abort {
    TooLate,
    TooLarge,
    Malformed,
}

impl Abort {
    /// In the order of the variants.
    pub(super) const ALL: [Self; 3] = [Self::TooLate, Self::TooLarge, Self::Malformed];

    pub(super) fn status(self) -> (Status, &'static str) {
        match self {
            Self::TooLate => (Status::DeadlineExceeded, "the deadline has passed"),
            Self::TooLarge => (Status::ResourceExhausted, "a message is too large, or replies are not read"),
            Self::Malformed => (Status::Internal, "the request is not a sequence of messages"),
        }
    }
}

/// How a conversation replies.
#[derive(Debug, Clone)]
pub(super) enum Replies {
    /// Each message is sent back as it is, with its prefix.
    Echo,
    Reflection(Arc<Reflection>),
    /// The server sends nothing, and the call stays open until the client ends it.
    Never,
}

/// The messages of a call, in both directions.
#[derive(Debug)]
pub(super) struct Conversation {
    replies: Replies,
    decoder: Messages,
    /// Replies, followed by the incomplete message.
    kept: Vec<u8>,
    /// Length of the replies.
    whole: usize,
    /// Number of bytes at the front that were sent.
    sent: usize,
    has_ended: bool,
    /// The client's `grpc-encoding`, which replies repeat. Empty if it has none.
    pub(super) encoding: Vec<u8>,
}

impl Conversation {
    pub(super) fn new(replies: Replies) -> Self {
        Self {
            replies,
            decoder: Messages::default(),
            kept: Vec::new(),
            whole: 0,
            sent: 0,
            has_ended: false,
            encoding: Vec::new(),
        }
    }

    /// A conversation that consists of one message, which includes its prefix.
    pub(super) fn only(message: &[u8]) -> Self {
        let mut only = Self::new(Replies::Never);
        only.kept.extend_from_slice(message);
        only.whole = message.len();
        only
    }

    /// Receives a part of the request's body.
    ///
    /// # Errors
    /// If the body is not a sequence of messages, a message is too long, or too much must be kept. The call
    /// must then end.
    pub(super) fn receive(&mut self, data: &[u8]) -> Result<(), Abort> {
        if matches!(self.replies, Replies::Never) {
            return Ok(());
        }
        let (before, answered) = (self.kept.len(), self.whole);
        self.kept.extend_from_slice(data);
        let mut at = 0;
        loop {
            let (consumed, step) =
                self.decoder.advance(&data[at..], MOST_MESSAGE).map_err(|fault| match fault {
                    Fault::Flag(_) => Abort::Malformed,
                    Fault::TooLong { .. } => Abort::TooLarge,
                })?;
            at += consumed;
            match step {
                Step::NeedMore => break,
                Step::Begin { length: 0, .. } | Step::Data { end: true, .. } => self.whole = before + at,
                Step::Begin { .. } | Step::Data { .. } => {}
            }
        }
        if let Replies::Reflection(reflection) = &self.replies
            && self.whole > answered
        {
            let replies = reflection.replies(&self.kept[answered..self.whole]);
            let length = replies.len();
            drop(self.kept.splice(answered..self.whole, replies));
            self.whole = answered + length;
        }
        if self.kept.len() - self.sent > MOST_KEPT { Err(Abort::TooLarge) } else { Ok(()) }
    }

    /// Called when the request has ended.
    pub(super) fn end(&mut self) {
        self.has_ended = !matches!(self.replies, Replies::Never);
    }

    /// The replies that were not sent yet.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.kept[self.sent..self.whole]
    }

    /// Removes the first bytes of the unsent replies.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent == self.whole || (self.sent >= COMPACT && self.sent >= self.kept.len() / 2) {
            self.kept.drain(..self.sent);
            self.whole -= self.sent;
            self.sent = 0;
        }
    }

    /// How the call ends, if the client has ended its side and all replies were sent.
    pub(super) fn outcome(&self) -> Option<Result<(), Abort>> {
        let is_over = self.has_ended && self.sent == self.whole;
        is_over.then(|| if self.decoder.is_between() { Ok(()) } else { Err(Abort::Malformed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_wire::grpc::write_message;

    fn three_messages() -> Vec<u8> {
        let mut body = Vec::new();
        write_message(&mut body, b"first").expect("short");
        write_message(&mut body, b"").expect("short");
        body.extend_from_slice(b"\x01\0\0\0\x04gzip");
        body
    }

    #[test]
    fn messages_return_when_they_are_whole() {
        let body = three_messages();
        for piece in 1..=body.len() {
            let mut echo = Conversation::new(Replies::Echo);
            let mut returned = Vec::new();
            for (place, bytes) in body.chunks(piece).enumerate() {
                echo.receive(bytes).expect("messages");
                let received = (place * piece + bytes.len()).min(body.len());
                returned.extend_from_slice(echo.unsent());
                echo.sent(echo.unsent().len());
                // The messages end after 10, 15 and 24 bytes.
                let whole = [24, 15, 10].into_iter().find(|end| *end <= received).unwrap_or(0);
                assert_eq!(returned, body[..whole], "{received} bytes in pieces of {piece}");
                assert_eq!(echo.outcome(), None);
            }
            echo.end();
            assert_eq!(echo.outcome(), Some(Ok(())));
        }
    }

    #[test]
    fn replies_wait_for_a_slow_client() {
        let body = three_messages();
        let mut echo = Conversation::new(Replies::Echo);
        echo.receive(&body[..12]).expect("messages");
        echo.sent(4);
        echo.receive(&body[12..]).expect("messages");
        echo.end();
        assert_eq!((echo.unsent(), echo.outcome()), (&body[4..], None));
        echo.sent(20);
        assert_eq!((echo.unsent().len(), echo.outcome()), (0, Some(Ok(()))));
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let mut large = b"\0\x01\0\0\0".to_vec();
        large.resize(PREFIX + MOST_MESSAGE as usize, 0);
        let mut echo = Conversation::new(Replies::Echo);
        assert_eq!(echo.receive(&large), Ok(()), "the largest message");
        assert_eq!(echo.receive(&large), Ok(()), "another one");
        assert_eq!(echo.receive(b"\0"), Err(Abort::TooLarge), "the client reads nothing");
        let mut echo = Conversation::new(Replies::Echo);
        for _ in 0..5 {
            echo.receive(&large).expect("the client reads all");
            while !echo.unsent().is_empty() {
                echo.sent(echo.unsent().len().min(1_000_000));
            }
        }
        assert_eq!(echo.receive(b"\0\x01\0\0\x01"), Err(Abort::TooLarge), "a message that is too long");
    }

    #[test]
    fn a_conversation_of_one_message_stays_open() {
        let mut only = Conversation::only(b"\0\0\0\0\x02hi");
        only.receive(b"\0\0\0\0\0").expect("ignored");
        only.end();
        assert_eq!(only.unsent(), b"\0\0\0\0\x02hi");
        only.sent(7);
        assert_eq!((only.unsent().len(), only.outcome()), (0, None));
    }
}
