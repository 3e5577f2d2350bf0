//! The server's answer to the key of a WebSocket handshake.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hoptax_wire::websocket::GUID;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

/// The value of `sec-websocket-accept` that answers this value of `sec-websocket-key` (RFC 6455,
/// section 4.2.2).
pub fn accept(key: &[u8]) -> String {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    context.update(key);
    context.update(GUID.as_bytes());
    STANDARD.encode(context.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_standard_is_answered() {
        // RFC 6455, section 1.3.
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
