//! Encodes heads and chunk-size lines.

use super::Version;
use std::io::Write as _;

/// A part of a head that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadField {
    /// The method is not a token (RFC 9110 §5.6.2).
    #[error("{0:?} is not a method; use letters, digits and !#$%&'*+-.^_`|~")]
    Method(String),
    /// The target does not begin with `/`, or contains spaces or control characters.
    #[error("{0:?} is not a request target; it must begin with `/` and have no spaces (write %20)")]
    Target(String),
    /// The header's name is not a token.
    #[error("{0:?} is not a header name; use letters, digits and !#$%&'*+-.^_`|~")]
    Name(String),
    /// The header's value contains control characters, or begins or ends with a space or tab.
    #[error(
        "the value {value:?} of header {name:?} contains a control character, or begins or ends with a space \
        or tab"
    )]
    Value {
        /// The header's name.
        name: String,
        /// The header's value.
        value: String,
    },
    /// The header defines the length of the body. The encoder adds such headers itself.
    #[error("hoptax adds the header {0:?} itself; leave it out")]
    Framing(String),
}

/// True if `text` is a token: a valid method or header name.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// True if `text` is a valid header value: it has no control characters except tabs, and no space or tab at
/// its beginning or end.
pub(crate) fn is_field_value(text: &str) -> bool {
    text.trim_matches([' ', '\t']).len() == text.len()
        && text.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

/// True if `text` is a valid request target in origin form: it begins with `/`, and has no spaces or control
/// characters.
pub fn is_target(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() || byte >= 0x80)
}

/// Encodes the head of a request, including the final empty line. `content_length` becomes the last header.
///
/// # Errors
/// If a part is not valid, or if `headers` contains a header that the encoder adds itself.
pub fn request_head<'a>(
    version: Version,
    method: &str,
    target: &str,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    content_length: Option<u64>,
) -> Result<Vec<u8>, BadField> {
    if !is_token(method) {
        return Err(BadField::Method(method.into()));
    }
    if !is_target(target) {
        return Err(BadField::Target(target.into()));
    }
    let mut head = format!("{method} {target} {}\r\n", version.as_str()).into_bytes();
    write_fields(&mut head, headers, content_length)?;
    Ok(head)
}

/// Encodes the head of a response, including the final empty line. `content_length` becomes the last header.
///
/// # Errors
/// If a part is not valid, or if `headers` contains a header that the encoder adds itself.
pub fn response_head<'a>(
    version: Version,
    status: u16,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    content_length: Option<u64>,
) -> Result<Vec<u8>, BadField> {
    let mut head = format!("{} {status} {}\r\n", version.as_str(), reason(status)).into_bytes();
    write_fields(&mut head, headers, content_length)?;
    Ok(head)
}

fn write_fields<'a>(
    head: &mut Vec<u8>,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    content_length: Option<u64>,
) -> Result<(), BadField> {
    for (name, value) in headers {
        if !is_token(name) {
            return Err(BadField::Name(name.into()));
        }
        if !is_field_value(value) {
            return Err(BadField::Value { name: name.into(), value: value.into() });
        }
        if ["content-length", "transfer-encoding"].iter().any(|framing| name.eq_ignore_ascii_case(framing)) {
            return Err(BadField::Framing(name.into()));
        }
        for part in [name, ": ", value, "\r\n"] {
            head.extend_from_slice(part.as_bytes());
        }
    }
    if let Some(length) = content_length {
        head.extend_from_slice(format!("content-length: {length}\r\n").as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    Ok(())
}

/// Appends the size line of a chunk. The caller then appends the chunk's data and CRLF, and after the last
/// chunk `0\r\n\r\n`.
pub fn chunk_size_line(line: &mut Vec<u8>, size: usize) {
    write!(line, "{size:x}\r\n").expect("a vector accepts all bytes");
}

/// Appends `body` in chunks of `size` bytes, followed by the last chunk without trailers (RFC 9112, section
/// 7.1).
pub fn chunked(bytes: &mut Vec<u8>, body: &[u8], size: usize) {
    for chunk in body.chunks(size) {
        chunk_size_line(bytes, chunk.len());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
}

/// The standard reason phrase of a status (RFC 9110 §15, RFC 6585), or `Unknown` for other statuses.
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        418 => "I'm a teapot",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        511 => "Network Authentication Required",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RequestDecoder, RequestStep, ResponseDecoder, Step};
    use super::*;

    #[test]
    fn encoded_requests_can_be_decoded() {
        for version in [Version::Http10, Version::Http11] {
            let headers = [("host", "x"), ("accept", "*/*")];
            let head = request_head(version, "POST", "/a?b=c", headers, Some(3)).expect("all good");
            let fields = "host: x\r\naccept: */*\r\ncontent-length: 3\r\n\r\n";
            let expected = format!("POST /a?b=c {}\r\n{fields}", version.as_str());
            assert_eq!(String::from_utf8_lossy(&head), expected);
            let step = RequestDecoder::new().advance(&head);
            assert!(matches!(step, Ok(RequestStep::Head { consumed, .. }) if consumed == head.len()));
        }
    }

    #[test]
    fn encoded_responses_can_be_decoded() {
        for status in 200..600 {
            let head = response_head(Version::Http11, status, [("x", "y")], Some(0)).expect("all good");
            let mut decoder = ResponseDecoder::new();
            decoder.begin(false);
            let step = decoder.advance(&head);
            assert!(matches!(step, Ok(Step::Head { head, .. }) if head.status == status), "{status}");
        }
    }

    #[test]
    fn invalid_parts_are_refused() {
        let one = |method, target, name, value| {
            request_head(Version::Http11, method, target, [(name, value)], None)
        };
        assert!(one("GET", "/", "host", "a b").is_ok());
        assert!(matches!(one("GET /", "/", "a", "b"), Err(BadField::Method(_))));
        assert!(matches!(one("", "/", "a", "b"), Err(BadField::Method(_))));
        assert!(matches!(one("GET", "/a b", "a", "b"), Err(BadField::Target(_))));
        assert!(matches!(one("GET", "a", "a", "b"), Err(BadField::Target(_))));
        assert!(matches!(one("GET", "/", "a:", "b"), Err(BadField::Name(_))));
        assert!(matches!(one("GET", "/", "a", "b\r\nc: d"), Err(BadField::Value { .. })));
        assert!(matches!(one("GET", "/", "a", " b"), Err(BadField::Value { .. })));
        assert!(matches!(one("GET", "/", "Content-Length", "1"), Err(BadField::Framing(_))));
    }
}
