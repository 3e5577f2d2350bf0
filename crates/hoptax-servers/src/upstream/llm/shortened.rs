//! Shortens the long strings in the JSON of requests, so that prompts need no memory.

use memchr::{memchr, memchr2};

/// Number of bytes of each string that are kept. Names of models and tools are shorter.
const KEPT: usize = 1024;
/// Number of hexadecimal digits of an escape `\u`, which are kept together.
const DIGITS: usize = 4;

/// Copies JSON that arrives in pieces of any size, and drops the rest of long strings. The copy is valid if
/// the original is. Errors in dropped text remain unnoticed. Text is never dropped between two escapes, so a
/// string that has only escapes is kept whole.
#[derive(Debug, Default)]
pub(super) struct Shortened {
    json: Vec<u8>,
    place: Place,
    /// Number of further bytes of the current string that must be kept.
    room: usize,
    /// Number of bytes of the current string since its last escape `\u`.
    plain: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Not in a string.
    #[default]
    Between,
    Text,
    /// In a string whose rest is dropped.
    Rest,
    /// After a backslash in [`Self::Text`].
    Escape,
    /// After a backslash in [`Self::Rest`].
    EscapeInRest,
}

impl Shortened {
    pub(super) fn json(&self) -> &[u8] {
        &self.json
    }

    /// Reads the next part.
    pub(super) fn push(&mut self, mut part: &[u8]) {
        while !part.is_empty() {
            let (used, kept) = match self.place {
                Place::Between => self.between(part),
                Place::Text | Place::Rest => self.text(part),
                Place::Escape => {
                    (self.place, self.plain) = (Place::Text, if part[0] == b'u' { 0 } else { DIGITS });
                    (1, 1)
                }
                Place::EscapeInRest => {
                    self.place = Place::Rest;
                    (1, 0)
                }
            };
            self.json.extend_from_slice(&part[..kept]);
            part = &part[used..];
        }
    }

    /// Reads up to the beginning of the next string. Returns how many bytes were read, and how many of them
    /// are kept.
    fn between(&mut self, part: &[u8]) -> (usize, usize) {
        let end = match memchr(b'"', part) {
            None => part.len(),
            Some(quote) => {
                (self.place, self.room, self.plain) = (Place::Text, KEPT, DIGITS);
                quote + 1
            }
        };
        (end, end)
    }

    /// Like [`Self::between`], but within a string: reads up to its end or to the next escape.
    fn text(&mut self, part: &[u8]) -> (usize, usize) {
        let end = memchr2(b'"', b'\\', part).unwrap_or(part.len());
        match (self.place, part[0]) {
            (_, b'"') => {
                self.place = Place::Between;
                (1, 1)
            }
            (Place::Rest, b'\\') => {
                self.place = Place::EscapeInRest;
                (1, 0)
            }
            (_, b'\\') => {
                self.place = Place::Escape;
                (1, 1)
            }
            (Place::Rest, _) => (end, 0),
            _ => {
                // Cut neither an escape nor a character of several bytes.
                let least = self.room.max(DIGITS.saturating_sub(self.plain));
                let cut = (least..end).find(|at| part[*at] & 0b1100_0000 != 0b1000_0000);
                (self.room, self.plain) = (self.room.saturating_sub(end), self.plain.saturating_add(end));
                if cut.is_some() {
                    self.place = Place::Rest;
                }
                (end, cut.unwrap_or(end))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn shortened(json: &str, parts: usize) -> Shortened {
        let mut all = Shortened::default();
        json.as_bytes().chunks(parts).for_each(|part| all.push(part));
        all
    }

    #[test]
    fn short_strings_are_kept() {
        let text = json!({ "model": "a\"b\\", "stream": true, "x": [1.5, null, "語".repeat(300)] });
        let text = text.to_string();
        for parts in [1, 2, 7, 5000] {
            assert_eq!(shortened(&text, parts).json(), text.as_bytes(), "parts of {parts}");
        }
    }

    #[test]
    fn the_rest_of_long_strings_is_dropped() {
        let pair = r"\ud83d\ude00";
        for rest in ["x", "語", r"\\", r#"\"x"#, "a\\n", r"\u8a9e", pair, "ab\\ud83d\\ude00語"] {
            for start in 0..5 {
                let text = format!("{}{}", "s".repeat(start), rest.repeat(5000));
                let json = format!(r#"{{"input":"{text}","model":"m"}}"#);
                for parts in [1, 2, 3, 5, 1000, 1_000_000] {
                    let name = format!("{rest} after {start} bytes in parts of {parts}");
                    let short = shortened(&json, parts);
                    let read: Value = serde_json::from_slice(short.json()).expect(&name);
                    assert_eq!(read["model"], "m", "{name}");
                    let whole: Value = serde_json::from_str(&json).expect(&name);
                    let [read, whole] = [&read, &whole].map(|value| value["input"].as_str().expect(&name));
                    assert!(whole.starts_with(read), "{name}");
                    let is_short = short.json().len() < 4 * KEPT;
                    let is_kept = [r"\\", r"\u8a9e", pair].contains(&rest);
                    assert!(is_short || is_kept, "{name}: {} bytes", short.json().len());
                }
            }
        }
    }
}
