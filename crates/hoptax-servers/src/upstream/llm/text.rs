//! The texts of events, whatever the API.

use std::fmt;
use std::io::Write as _;

/// What the texts of a response state.
pub(super) struct Facts<'a> {
    pub(super) id: u64,
    /// When the response was created, seconds since the Unix epoch.
    pub(super) created: u32,
    /// The name of the model, with the quotes and escapes of JSON.
    pub(super) model: &'a str,
    /// Number of tokens that are sent.
    pub(super) tokens: u32,
    /// Numbers of tokens that the usage states, of the prompt and of the response.
    pub(super) input: u32,
    pub(super) output: u64,
    /// OpenAI: whether the client has asked for the usage.
    pub(super) include_usage: bool,
    /// True if the client's limit ends the response.
    pub(super) is_limited: bool,
}

/// Appends events to a text.
pub(super) struct Writer<'a> {
    pub(super) text: &'a mut Vec<u8>,
    pub(super) line_end: &'static str,
    /// Number of events that were appended.
    pub(super) events: u64,
}

// Writing to memory cannot fail.
impl Writer<'_> {
    /// Appends an event with these data, which are one line. `name` is empty if it has none.
    pub(super) fn event(&mut self, name: &str, data: fmt::Arguments<'_>) {
        self.token(name, data, b"", format_args!(""));
    }

    /// Appends an event whose data have `content` between two parts.
    pub(super) fn token(
        &mut self,
        name: &str,
        before: fmt::Arguments<'_>,
        content: &[u8],
        after: fmt::Arguments<'_>,
    ) {
        let end = self.line_end;
        if !name.is_empty() {
            let _ = write!(self.text, "event: {name}{end}");
        }
        let _ = write!(self.text, "data: {before}");
        self.text.extend_from_slice(content);
        let _ = write!(self.text, "{after}{end}{end}");
        self.events += 1;
    }
}
