//! Reads the events of a stream of tokens.

use hoptax_wire::llm::{Scan, Scanned};

/// What the events of a response have contained so far.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    pub(super) scan: Scan,
    /// True once an event has arrived.
    has_begun: bool,
    /// When the first token arrived.
    pub(super) first: Option<u64>,
    pub(super) has_ended: bool,
    pub(super) has_error: bool,
    pub(super) usage: Option<u64>,
    /// Absent before the client pauses.
    pub(super) pause: Option<Paused>,
}

/// The client's pause, which may be over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paused {
    /// Time per token before the pause, nanoseconds.
    pub(super) per_token: Option<u64>,
    pub(super) is_over: bool,
}

/// An event of a stream of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenEvent {
    pub(super) is_first: bool,
    /// True if it is a message.
    pub(super) has_content: bool,
}

impl Tokens {
    /// Called when an event has ended. A stamp is content even if the event has an unknown shape.
    pub(super) fn event_ends(&mut self, has_stamps: bool) -> TokenEvent {
        let Scanned { has_content, repeats, ends, is_error, usage } = self.scan.end();
        self.has_ended |= ends;
        self.has_error |= is_error;
        self.usage = usage.or(self.usage);
        TokenEvent {
            is_first: !std::mem::replace(&mut self.has_begun, true),
            has_content: has_content || (has_stamps && !repeats),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_with_a_stamp_has_content_unless_it_repeats_others() {
        let mut tokens = Tokens::default();
        for (data, has_stamps, is_first, has_content) in [
            (r#"{"role":"assistant"}"#, false, true, false),
            (r#"{"unknown":"~hx"}"#, true, false, true),
            (r#"{"type":"response.output_text.done","text":"~hx"}"#, true, false, false),
            (r#"{"content":"hi"}"#, false, false, true),
        ] {
            tokens.scan.read(data.as_bytes());
            assert_eq!(tokens.event_ends(has_stamps), TokenEvent { is_first, has_content }, "{data}");
        }
    }
}
