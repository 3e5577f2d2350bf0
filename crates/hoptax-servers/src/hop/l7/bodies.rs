//! Faults of AI gateways in the bodies of requests and responses.

use hoptax_plan::HopLlm;
use hoptax_wire::http1::{Framing, fields};
use std::borrow::Cow;

/// The field that is added to JSON, after the brace that opens it.
const FIELD: &[u8] = br#""x_added":1,"#;
/// Added instead to a body that does not begin with a brace. It has the same length, because the body's
/// length was already sent in the head.
const NO_FIELD: &[u8] = &[b' '; FIELD.len()];
/// Keys of numbers of tokens.
const KEYS: [&[u8]; 2] = [br#""completion_tokens""#, br#""output_tokens""#];

/// The body of a request or a response that the hop changes.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// True until the field was added.
    adds: bool,
    usage: Option<Usage>,
}

impl Changed {
    /// The body of a request with this head. `None` if it is forwarded unchanged.
    pub(super) fn of_request(llm: HopLlm, raw: &[u8], framing: Framing) -> Option<Self> {
        (llm.add_field && takes_field(raw, framing)).then_some(Self { adds: true, usage: None })
    }

    /// The body of a response with this head. `None` if it is forwarded unchanged.
    pub(super) fn of_response(llm: HopLlm, raw: &[u8], framing: Framing) -> Option<Self> {
        let adds = llm.alter_response && takes_field(raw, framing);
        let usage = llm.rewrite_usage.then(Usage::default);
        (adds || usage.is_some()).then_some(Self { adds, usage })
    }

    /// The framing of the changed body.
    pub(super) fn framing(&self, framing: Framing) -> Framing {
        match framing {
            Framing::Length(length) if self.adds => Framing::Length(length + FIELD.len() as u64),
            framing => framing,
        }
    }

    /// Changes a part of the body.
    pub(super) fn read<'a>(&mut self, part: &'a [u8]) -> Cow<'a, [u8]> {
        let mut part = Cow::Borrowed(part);
        if self.adds && !part.is_empty() {
            self.adds = false;
            let (at, added) = if part[0] == b'{' { (1, FIELD) } else { (0, NO_FIELD) };
            part = Cow::Owned([&part[..at], added, &part[at..]].concat());
        }
        if let Some(usage) = &mut self.usage {
            usage.rewrite(part.to_mut());
        }
        part
    }
}

/// True if a field can be added to a body: it is JSON, and longer than the two bytes of an object without
/// fields.
fn takes_field(raw: &[u8], framing: Framing) -> bool {
    const JSON: &str = "application/json";
    let mut is_json = false;
    let read = fields(raw, |field| {
        let start = field.value.get(..JSON.len());
        let has_type = start.is_some_and(|start| start.eq_ignore_ascii_case(JSON.as_bytes()));
        is_json |= has_type && field.name.eq_ignore_ascii_case("content-type");
    });
    let is_enough = match framing {
        Framing::Length(length) => length > 2,
        Framing::Chunked => true,
        Framing::None | Framing::UntilClose => false,
    };
    read.is_ok() && is_json && is_enough
}

/// Changes numbers of tokens in JSON that comes in parts. Quotes in texts are escaped, so no text contains a
/// key with its quotes.
#[derive(Debug, Default)]
struct Usage {
    /// How much of each key has been read.
    read: [usize; KEYS.len()],
    /// True between a key and its value.
    is_value_next: bool,
}

impl Usage {
    /// Changes the first digit of each value, so that the length stays the same.
    fn rewrite(&mut self, part: &mut [u8]) {
        for byte in part {
            if self.is_value_next && matches!(*byte, b' ' | b'\t' | b'\r' | b'\n' | b':') {
                continue;
            }
            if self.is_value_next && byte.is_ascii_digit() {
                *byte = if *byte == b'9' { b'1' } else { *byte + 1 };
            }
            self.is_value_next = false;
            for (read, key) in self.read.iter_mut().zip(KEYS) {
                // A quote is only at both ends of a key.
                *read = if *byte == key[*read] { *read + 1 } else { usize::from(*byte == b'"') };
                self.is_value_next |= *read == key.len();
            }
            if self.is_value_next {
                self.read = [0; KEYS.len()];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The changed body, if it arrives in pieces of this length.
    fn changed(mut changed: Changed, body: &str, piece: usize) -> String {
        let parts = body.as_bytes().chunks(piece).flat_map(|part| changed.read(part).into_owned());
        String::from_utf8(parts.collect()).expect("text")
    }

    #[test]
    fn numbers_of_tokens_change_and_keep_their_length_at_every_split() {
        for (body, expected) in [
            (r#"{"completion_tokens":20,"a_tokens":20}"#, r#"{"completion_tokens":30,"a_tokens":20}"#),
            (r#"{"output_tokens" : 999}"#, r#"{"output_tokens" : 199}"#),
            (r#"{"output_tokens":0}"#, r#"{"output_tokens":1}"#),
            (r#"{"a":""output_tokens":7}"#, r#"{"a":""output_tokens":8}"#),
            (r#"{"completion_tokens_details":{"b":2}}"#, r#"{"completion_tokens_details":{"b":2}}"#),
            (r#"{"output_tokens":null,"b":2}"#, r#"{"output_tokens":null,"b":2}"#),
            (r#"{"text":"\"output_tokens\":5"}"#, r#"{"text":"\"output_tokens\":5"}"#),
        ] {
            for piece in 1..=body.len() {
                let usage = Changed { adds: false, usage: Some(Usage::default()) };
                assert_eq!(changed(usage, body, piece), expected, "{piece}");
            }
        }
    }

    #[test]
    fn json_gets_a_field_and_its_head_the_length() {
        let head = |media: &str| format!("POST / HTTP/1.1\r\ncontent-type: {media}\r\n\r\n");
        let llm = HopLlm { add_field: true, ..HopLlm::default() };
        let of = |media: &str, framing| Changed::of_request(llm, head(media).as_bytes(), framing);
        for (body, expected) in [(r#"{"a":1}"#, r#"{"x_added":1,"a":1}"#), ("[1]", "            [1]")] {
            let length = body.len() as u64;
            let json = of("application/json; charset=utf-8", Framing::Length(length)).expect("JSON");
            assert_eq!(json.framing(Framing::Length(length)), Framing::Length(expected.len() as u64));
            assert_eq!(changed(json, body, 2), expected);
        }
        assert!(of("application/json", Framing::Chunked).is_some());
        for (media, framing) in
            [("text/plain", Framing::Chunked), ("application/json", Framing::Length(2)), ("a", Framing::None)]
        {
            assert!(of(media, framing).is_none(), "{media} {framing:?}");
        }
        assert!(Changed::of_response(llm, head("application/json").as_bytes(), Framing::Chunked).is_none());
    }
}
