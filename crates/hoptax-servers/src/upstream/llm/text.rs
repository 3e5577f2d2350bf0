//! The texts of events, for all APIs.

use std::fmt;
use std::io::Write as _;

/// The facts that the events of a response state.
pub(super) struct Facts<'a> {
    pub(super) id: u64,
    /// When the response was created, seconds since the Unix epoch.
    pub(super) created: u32,
    /// The name of the model, with the quotes and escapes of JSON.
    pub(super) model: &'a str,
    /// Number of tokens that are sent.
    pub(super) tokens: u32,
    /// Numbers of tokens in the stated usage: of the prompt, and of the response.
    pub(super) input: u32,
    pub(super) output: u64,
    /// OpenAI: true if the client has requested the usage.
    pub(super) include_usage: bool,
    /// True if the client's limit ends the response.
    pub(super) is_limited: bool,
    /// The name of the tool that the response calls, with the quotes and escapes of JSON.
    pub(super) tool: Option<&'a str>,
    /// Number of the last token. `None` if the response fails.
    pub(super) last: Option<u32>,
    /// OpenAI: length of the data of each event with text, bytes. Absent unless the client has requested
    /// equal lengths.
    pub(super) padded: Option<usize>,
}

impl Facts<'_> {
    /// The text before and after the content of a token. Empty unless the response is a call, whose arguments
    /// are a JSON object within a JSON string.
    pub(super) fn around(&self, number: u32) -> (&'static str, &'static str) {
        if self.tool.is_none() {
            return ("", "");
        }
        let before = if number == 0 { r#"{\"town\":\""# } else { "" };
        let after = if self.last == Some(number) { r#"\"}"# } else { "" };
        (before, after)
    }
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
    /// Appends an event with one line of data. `name` is empty if the event has none.
    pub(super) fn event(&mut self, name: &str, data: fmt::Arguments<'_>) {
        self.begin(name);
        let _ = self.text.write_fmt(data);
        self.end();
    }

    /// Appends an event whose data are `before`, `content`, `after` and a closing brace. If `length` is
    /// present, padding before the brace extends the data to this number of bytes.
    pub(super) fn token(
        &mut self,
        name: &str,
        before: fmt::Arguments<'_>,
        content: &[u8],
        after: fmt::Arguments<'_>,
        length: Option<usize>,
    ) {
        self.begin(name);
        let start = self.text.len();
        let _ = self.text.write_fmt(before);
        self.text.extend_from_slice(content);
        let _ = self.text.write_fmt(after);
        if let Some(length) = length {
            const EMPTY: &str = r#","obfuscation":""}"#;
            let padding = "x".repeat(length.saturating_sub(self.text.len() - start + EMPTY.len()));
            let _ = write!(self.text, r#","obfuscation":"{padding}""#);
        }
        self.text.push(b'}');
        self.end();
    }

    fn begin(&mut self, name: &str) {
        let end = self.line_end;
        if !name.is_empty() {
            let _ = write!(self.text, "event: {name}{end}");
        }
        self.text.extend_from_slice(b"data: ");
    }

    fn end(&mut self) {
        let end = self.line_end;
        let _ = write!(self.text, "{end}{end}");
        self.events += 1;
    }
}
