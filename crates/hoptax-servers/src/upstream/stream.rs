//! Streams of events: server-sent events, and the responses of the language model.

use hoptax_format::llm::Api;
use hoptax_plan::LlmFailureKind;
use std::time::Duration;

/// What is complete after a send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) events: u64,
    /// Tokens of a language model.
    pub(super) tokens: u64,
    /// True if the language model's stream was sent to its end.
    pub(super) is_whole: bool,
}

/// The events of one response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventStream {
    /// Present if the language model sends the stream.
    pub(super) completion: Option<Completion>,
    /// When the head was due. The schedule counts from here.
    pub(super) begun: u64,
    /// Number of the first event.
    pub(super) from: u64,
    /// Number of the next event; of a language model, of the next write.
    pub(super) number: u64,
    /// Number of bytes of the next write, or of a comment, that were sent.
    pub(super) sent: usize,
    pub(super) is_comment: bool,
    /// When the last write was sent.
    pub(super) last: u64,
    /// HTTP/1: when the stream's timer is due, and whether writes are chunks.
    pub(super) timer: u64,
    pub(super) is_chunked: bool,
}

/// What a stream does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Sends the next part of a message: of a write with events, or of a gRPC message.
    Send,
    /// Sends a comment.
    Comment,
    /// Waits until this time. [`u64::MAX`] if only the client can end the stream.
    Wait(u64),
    /// Closes the connection, or resets the stream of HTTP/2.
    Cut,
    /// Ends: everything was sent.
    End,
}

impl EventStream {
    /// The stream of a request after the event `from` - 1.
    pub(super) fn new(from: u64) -> Self {
        Self {
            completion: None,
            begun: 0,
            from,
            number: from,
            sent: 0,
            is_comment: false,
            last: 0,
            timer: 0,
            is_chunked: false,
        }
    }

    /// The stream of a language model.
    pub(super) fn of_model(completion: Completion) -> Self {
        Self { completion: Some(completion), ..Self::new(0) }
    }

    /// A stream without events, for requests whose response has no body.
    pub(super) fn empty() -> Self {
        Self::new(u64::MAX)
    }

    /// Sets when the head is due.
    pub(super) fn begin(&mut self, due: u64) {
        (self.begun, self.last) = (due, due);
    }
}

/// A streamed response of the language model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Completion {
    /// Time from the head until the first token is due, nanoseconds.
    pub(super) first: u64,
    /// Number of the response.
    pub(super) number: u32,
    /// When it was created, seconds since the Unix epoch.
    pub(super) created: u32,
    /// Number of tokens before the end or the failure, and of those that were sent.
    pub(super) tokens: u32,
    pub(super) sent: u32,
    /// Number of tokens of the prompt.
    pub(super) input: u32,
    /// Indices of the name of the model, and of the name of the tool that the response calls.
    pub(super) model: u16,
    pub(super) tool: Option<u16>,
    pub(super) api: Api,
    pub(super) failure: Option<LlmFailureKind>,
    pub(super) include_usage: bool,
    pub(super) include_obfuscation: bool,
    pub(super) is_limited: bool,
}

/// Where the part ends that has the byte at `from`, if a text is sent in `split` parts of about the same
/// length.
pub(super) fn end_of_part(length: usize, split: usize, from: usize) -> usize {
    let mut part = from * split / length.max(1);
    loop {
        part += 1;
        let end = length * part / split;
        if end > from || part >= split {
            return end;
        }
    }
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_text() {
        for (length, split) in [(1, 1), (10, 1), (10, 3), (3, 10), (100, 7)] {
            let (mut at, mut parts) = (0, 0);
            while at < length {
                let end = end_of_part(length, split, at);
                assert!(end > at && end <= length, "{length} in {split}: {at} to {end}");
                (at, parts) = (end, parts + 1);
            }
            assert_eq!(parts, split.min(length), "{length} in {split}");
        }
    }
}
