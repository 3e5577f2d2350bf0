//! Names and values of headers.

/// True if `text` is a token: a method or the name of a header (RFC 9110, section 5.6.2).
pub fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// True if `text` is a valid header value: it has no control characters except tabs, and no space or tab at
/// its beginning or end.
pub fn is_field_value(text: &str) -> bool {
    text.trim_matches([' ', '\t']).len() == text.len()
        && text.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}
