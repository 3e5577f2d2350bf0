//! Events of language models: which of them have content, and how a stream ends.
//!
//! OpenAI's chat completions and responses, and Anthropic's messages, put JSON into the data of server-sent
//! events. Gateways rebuild the JSON, so [`Scan`] looks only for a few keys, at any place, and accepts any
//! white space. It works without knowing the API.

use memchr::memchr2;

/// Content of the data of an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scanned {
    /// The event has text of the model that is not empty.
    pub has_content: bool,
    /// The event has no new text, but can repeat text of earlier events, like `response.output_text.done` of
    /// OpenAI's responses.
    pub repeats: bool,
    /// The event announces the end of the stream: `[DONE]`, `response.completed`, `response.incomplete` or
    /// `message_stop`.
    pub ends: bool,
    /// The event reports that the model has failed.
    pub is_error: bool,
    /// Number of tokens of the response so far. A later number replaces an earlier one.
    pub usage: Option<u64>,
}

/// Reads the data of events, one event after another, in pieces of any size. It allocates nothing, because a
/// load has a `Scan` for each stream.
#[derive(Debug, Clone, Copy)]
pub struct Scan {
    /// The first bytes of the current string, or of the last one.
    word: [u8; LONGEST],
    /// Length of that string, bytes.
    length: usize,
    place: Place,
    /// The key of the current value.
    key: Key,
    /// True between the colon after a key and the end of a string or the beginning of another value.
    awaits_value: bool,
    depth: u32,
    /// Depth of the contents of an object whose key ends with `_details`. 0 outside of such objects.
    details: u32,
    number: u64,
    /// Number of bytes of [`DONE`] that were read, or [`DIFFERS`].
    done: u8,
    found: Scanned,
}

/// Maximum length of a word that is compared, bytes. All types of events are shorter.
const LONGEST: usize = 48;
/// The data of the last event of a chat completion.
const DONE: &[u8] = b"[DONE]";
/// Value of [`Scan::done`] if the data are not [`DONE`].
const DIFFERS: u8 = u8::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Between,
    Text,
    /// After a backslash in a string.
    Escape,
    Number,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Content,
    Details,
    Error,
    Other,
    Type,
    Usage,
}

impl Default for Scan {
    fn default() -> Self {
        Self {
            word: [0; LONGEST],
            length: 0,
            place: Place::Between,
            key: Key::Other,
            awaits_value: false,
            depth: 0,
            details: 0,
            number: 0,
            done: 0,
            found: Scanned::default(),
        }
    }
}

impl Scan {
    /// Reads a part of the data of an event.
    pub fn read(&mut self, part: &[u8]) {
        let mut at = 0;
        while let Some(&byte) = part.get(at) {
            match self.place {
                Place::Between => {
                    self.between(byte);
                    at += 1;
                }
                Place::Text => at += self.text(&part[at..]),
                Place::Escape => {
                    self.push(&[byte]);
                    self.place = Place::Text;
                    at += 1;
                }
                Place::Number if byte.is_ascii_digit() => {
                    self.number = self.number.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
                    at += 1;
                }
                Place::Number => {
                    // A fraction or an exponent is no number of tokens.
                    if matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace() {
                        self.found.usage = Some(self.number);
                    }
                    self.place = Place::Between;
                }
            }
        }
    }

    /// Called when the event has ended. Returns its content. The next part belongs to the next event.
    pub fn end(&mut self) -> Scanned {
        let mut found = self.found;
        found.ends |= usize::from(self.done) == DONE.len();
        found.has_content &= !found.repeats;
        *self = Self::default();
        found
    }

    fn between(&mut self, byte: u8) {
        if byte.is_ascii_whitespace() {
            return;
        }
        if self.done != DIFFERS {
            let is_next = DONE.get(usize::from(self.done)) == Some(&byte);
            self.done = if is_next { self.done + 1 } else { DIFFERS };
        }
        match byte {
            b'"' => (self.place, self.length) = (Place::Text, 0),
            b':' => self.awaits_value = true,
            b',' => self.forget_key(),
            b'{' | b'[' => {
                self.depth = self.depth.saturating_add(1);
                match self.key {
                    Key::Error if self.awaits_value && byte == b'{' => self.found.is_error = true,
                    Key::Details if self.awaits_value && self.details == 0 => self.details = self.depth,
                    _ => {}
                }
                self.forget_key();
            }
            b'}' | b']' => {
                if self.details == self.depth {
                    self.details = 0;
                }
                self.depth = self.depth.saturating_sub(1);
                self.forget_key();
            }
            b'0'..=b'9' if self.awaits_value && self.key == Key::Usage && self.details == 0 => {
                (self.place, self.number) = (Place::Number, u64::from(byte - b'0'));
                self.forget_key();
            }
            _ => {}
        }
    }

    fn forget_key(&mut self) {
        (self.key, self.awaits_value) = (Key::Other, false);
    }

    /// Reads a part of a string. Returns the number of bytes that were used.
    fn text(&mut self, rest: &[u8]) -> usize {
        let Some(length) = memchr2(b'"', b'\\', rest) else {
            self.push(rest);
            return rest.len();
        };
        if rest[length] == b'"' {
            self.push(&rest[..length]);
            self.place = Place::Between;
            self.text_ends();
        } else {
            self.push(&rest[..=length]);
            self.place = Place::Escape;
        }
        length + 1
    }

    fn push(&mut self, part: &[u8]) {
        if let Some(room) = self.word.get_mut(self.length..) {
            let kept = room.len().min(part.len());
            room[..kept].copy_from_slice(&part[..kept]);
        }
        self.length = self.length.saturating_add(part.len());
    }

    fn text_ends(&mut self) {
        let word = &self.word[..self.length.min(LONGEST)];
        let is_whole = self.length <= LONGEST;
        if !self.awaits_value {
            self.key = if is_whole { key(word, self.depth == 1) } else { Key::Other };
            return;
        }
        self.awaits_value = false;
        match self.key {
            Key::Content => self.found.has_content |= self.length > 0,
            Key::Type => {
                self.found.is_error |= is_whole && matches!(word, b"error" | b"response.failed");
                self.found.ends |= is_whole
                    && matches!(word, b"message_stop" | b"response.completed" | b"response.incomplete");
                let is_new = is_whole && word.ends_with(b".delta");
                self.found.repeats |= word.starts_with(b"response.") && !is_new;
            }
            _ => {}
        }
    }
}

/// The meaning of a key. `is_top` is true if the key is at the top level of the event.
fn key(word: &[u8], is_top: bool) -> Key {
    match word {
        b"content" | b"text" | b"delta" | b"arguments" | b"partial_json" | b"thinking"
        | b"reasoning_content" => Key::Content,
        b"completion_tokens" | b"output_tokens" => Key::Usage,
        b"type" if is_top => Key::Type,
        b"error" if is_top => Key::Error,
        _ if word.ends_with(b"_details") => Key::Details,
        _ => Key::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Scanned =
        Scanned { has_content: false, repeats: false, ends: false, is_error: false, usage: None };
    const CONTENT: Scanned = Scanned { has_content: true, ..NOTHING };
    const REPEATS: Scanned = Scanned { repeats: true, ..NOTHING };
    const ENDS: Scanned = Scanned { ends: true, ..NOTHING };
    const ERROR: Scanned = Scanned { is_error: true, ..NOTHING };
    const USAGE: Scanned = Scanned { usage: Some(20), ..NOTHING };

    /// Events of chat completions, responses, messages, and others.
    const EVENTS: &[(&str, Scanned)] = &[
        (r#"{"choices":[{"delta":{"role":"assistant","content":""}}],"usage":null}"#, NOTHING),
        (r#"{"choices":[{"index":0,"delta":{"content":"\"Hi\" \u00e9 \\"},"logprobs":null}]}"#, CONTENT),
        (r#"{"choices":[{"index":0,"delta":{"content":null,"reasoning_content":"so"}}]}"#, CONTENT),
        (r#"{"delta":{"tool_calls":[{"type":"x","function":{"name":"text","arguments":""}}]}}"#, NOTHING),
        (r#"{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}}"#, CONTENT),
        (r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"obfuscation":"text"}"#, NOTHING),
        (r#"{"usage":{"completion_tokens":20,"completion_tokens_details":{"output_tokens":7}}}"#, USAGE),
        (r#"{"x_details":{"of":{"a":1},"output_tokens":7},"output_tokens":20}"#, USAGE),
        ("[DONE]", ENDS),
        (r#"{"error":{"message":"busy","type":"server_error","code":null}}"#, ERROR),
        (r#"{"type":"response.created","response":{"error":null,"text":{"type":"text"}}}"#, REPEATS),
        (r#"{"type":"response.output_text.delta","content_index":0,"delta":"Hi"}"#, CONTENT),
        (r#"{"delta":"{\"a\"","type":"response.function_call_arguments.delta"}"#, CONTENT),
        (r#"{"type":"response.output_text.done","content_index":0,"text":"Hi there"}"#, REPEATS),
        (r#"{"text":"Hi there","type":"response.output_text.done"}"#, REPEATS),
        (
            r#"{"type":"response.completed","response":{"text":"Hi","usage":{"output_tokens":20}}}"#,
            Scanned { repeats: true, ends: true, ..USAGE },
        ),
        (r#"{"type":"response.incomplete","response":{}}"#, Scanned { repeats: true, ..ENDS }),
        (r#"{"type":"response.failed","response":{"error":{}}}"#, Scanned { repeats: true, ..ERROR }),
        (
            r#"{"type":"message_start","message":{"content":[],"usage":{"output_tokens":0}}}"#,
            Scanned { usage: Some(0), ..NOTHING },
        ),
        (r#"{"type":"content_block_start","content_block":{"type":"text","text":""}}"#, NOTHING),
        (r#"{"type":"ping"}"#, NOTHING),
        (r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"Hi"}}"#, CONTENT),
        (r#"{"type":"content_block_delta","delta":{"partial_json":"{"}}"#, CONTENT),
        (r#"{"type":"content_block_delta","delta":{"thinking":"so"}}"#, CONTENT),
        (r#"{"type":"message_delta","delta":{"stop_reason":"end"},"usage":{"output_tokens":20}}"#, USAGE),
        (r#"{"type":"message_stop"}"#, ENDS),
        (r#"{"type":"error","error":{"type":"overloaded_error","message":"text"}}"#, ERROR),
        (r#"{"note":"\"content\":\"x\",\"error\":{},\"type\":\"message_stop\" [DONE]"}"#, NOTHING),
        (r#"["content","x",{"names":["content","text"]}]"#, NOTHING),
        (r#"{"content":null,"text":["x"],"delta":7,"thinking":{"a":"x"}}"#, NOTHING),
        (r#"{"error":null,"response":{"error":{"code":1}}}"#, NOTHING),
        (r#"{"a":{"type":"message_stop"},"b":{"type":"error"},"type":"message_stopped"}"#, NOTHING),
        (r#"{"completion_tokens":20.5,"output_tokens":"20","total_tokens":20}"#, NOTHING),
        (r#""[DONE]""#, NOTHING),
        ("[DONE] x", NOTHING),
        ("[DONE", NOTHING),
        ("", NOTHING),
        (r#"{"content":"it has not end"#, NOTHING),
    ];

    #[test]
    fn every_split_and_white_space_give_the_same() {
        let mut scan = Scan::default();
        for (json, expected) in EVENTS {
            let space = |sign: char| match sign {
                '{' | '}' | '[' | ']' | ',' | ':' => vec![' ', sign, '\r', '\n'],
                _ => vec![sign],
            };
            for text in [(*json).to_owned(), json.chars().flat_map(space).collect()] {
                for split in 0..=text.len() {
                    let (start, rest) = text.as_bytes().split_at(split);
                    scan.read(start);
                    scan.read(rest);
                    assert_eq!(scan.end(), *expected, "{text} at {split}");
                }
            }
        }
    }

    #[test]
    fn long_words_are_no_keys() {
        let (long, mut scan) = ("x".repeat(LONGEST), Scan::default());
        let keys = format!(r#""{long}content":"x","content{long}":"x""#);
        scan.read(format!(r#"{{{keys},"type":"response.{long}.delta"}}"#).as_bytes());
        assert_eq!(scan.end(), REPEATS);
        scan.read(format!(r#"{{"content":"{long}{long}"}}"#).as_bytes());
        assert_eq!(scan.end(), CONTENT);
    }
}
