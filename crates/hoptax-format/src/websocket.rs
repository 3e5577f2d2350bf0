//! The handshake of WebSockets that loads send (RFC 6455, section 4.1).

pub use hoptax_wire::websocket::EXTENSIONS;
use hoptax_wire::websocket::{DEFLATE, KEY, VERSION};

/// Key of all handshakes: 16 bytes in base64. A key keeps caches from answering, which need not be
/// unpredictable for this: the bytes are `hoptax-websocket`.
pub const KEY_VALUE: &str = "aG9wdGF4LXdlYnNvY2tldA==";

/// The extension that clients offer to compress messages. Each message is compressed by itself, so that no
/// connection keeps a window of 32 KiB.
pub const OFFERED_DEFLATE: &str =
    "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

/// Adds the headers of a handshake over HTTP/1.1. `compression` is true if the client offers to compress
/// messages. A load over HTTP/2 leaves `connection`, `upgrade` and the key out (RFC 8441, section 5).
pub fn add_headers(headers: &mut Vec<(String, String)>, compression: bool) {
    let mut add = |name: &str, value: &str| {
        if !headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            headers.push((name.to_owned(), value.to_owned()));
        }
    };
    add("connection", "Upgrade");
    add("upgrade", "websocket");
    add("sec-websocket-version", VERSION);
    add(KEY, KEY_VALUE);
    if compression {
        add(EXTENSIONS, OFFERED_DEFLATE);
    }
}

/// True if the headers of a handshake offer to compress messages.
pub fn offers_compression(headers: &[(String, String)]) -> bool {
    let of_name = |name: &str| name.eq_ignore_ascii_case(EXTENSIONS);
    headers.iter().any(|(name, value)| of_name(name) && compresses(value.as_bytes()))
}

/// True if the value of `sec-websocket-extensions` compresses messages.
pub fn compresses(value: &[u8]) -> bool {
    let mut extensions = value.split(|byte| *byte == b',');
    extensions.any(|extension| {
        let name = extension.split(|byte| *byte == b';').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(DEFLATE.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine as _, engine::general_purpose::STANDARD};

    #[test]
    fn the_key_has_sixteen_bytes() {
        assert_eq!(STANDARD.decode(KEY_VALUE).as_deref(), Ok(&b"hoptax-websocket"[..]));
    }

    #[test]
    fn own_headers_are_kept() {
        let mut headers = vec![("Sec-WebSocket-Key".to_owned(), "mine".to_owned())];
        add_headers(&mut headers, true);
        let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        let expected = ["Sec-WebSocket-Key", "connection", "upgrade", "sec-websocket-version", EXTENSIONS];
        assert_eq!(names, expected);
        assert!(offers_compression(&headers) && !offers_compression(&headers[..4]));
    }

    #[test]
    fn compression_is_an_extension_by_name() {
        for (value, expected) in [
            (OFFERED_DEFLATE, true),
            ("x-other, permessage-deflate", true),
            ("Permessage-Deflate;server_max_window_bits=10", true),
            ("x-permessage-deflate", false),
            ("", false),
        ] {
            assert_eq!(compresses(value.as_bytes()), expected, "{value}");
        }
    }
}
