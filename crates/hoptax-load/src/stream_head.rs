//! What the head of a response says about the stream of messages after it.

use hoptax_wire::http1::fields;

const ENCODING: &str = "content-encoding";

/// The head of a response with a stream of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamHead {
    /// True if the body is compressed. Events in it cannot be read.
    pub(crate) is_encoded: bool,
}

impl StreamHead {
    /// Reads a head of HTTP/1.
    pub(crate) fn of_head(head: &[u8]) -> Self {
        let mut is_encoded = false;
        // This cannot fail, because the decoder has already accepted this head.
        let _ = fields(head, |field| {
            is_encoded |= field.name.eq_ignore_ascii_case(ENCODING) && is_compressed(field.value);
        });
        Self { is_encoded }
    }

    /// Reads the fields of a response. `get` returns the value of a field.
    pub(crate) fn of_fields<'f>(get: impl Fn(&str) -> Option<&'f [u8]>) -> Self {
        Self { is_encoded: get(ENCODING).is_some_and(is_compressed) }
    }
}

fn is_compressed(value: &[u8]) -> bool {
    let value = value.trim_ascii();
    !value.is_empty() && !value.eq_ignore_ascii_case(b"identity")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_compressed_unless_its_encoding_is_identity() {
        for (value, expected) in
            [("gzip", true), ("br, gzip", true), ("Identity", false), (" identity ", false), ("", false)]
        {
            let head = format!("HTTP/1.1 200 OK\r\nx: gzip\r\nContent-Encoding: {value}\r\n\r\n");
            assert_eq!(StreamHead::of_head(head.as_bytes()).is_encoded, expected, "{value}");
            let get = |name: &str| (name == ENCODING).then_some(value.as_bytes());
            assert_eq!(StreamHead::of_fields(get).is_encoded, expected, "{value}");
        }
        assert!(!StreamHead::of_head(b"HTTP/1.1 200 OK\r\n\r\n").is_encoded);
        assert!(!StreamHead::of_fields(|_| None).is_encoded);
    }
}
