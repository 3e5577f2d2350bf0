//! HTTP/1.0 and HTTP/1.1 (RFC 9112): decoders of requests and responses, and encoders of their heads.
//!
//! Call a decoder with all bytes that it has not consumed yet. Each step returns one event and the number of
//! bytes that the step consumed:
//!
//! ```text
//!            ┌── Interim ──┐ (responses: 1xx)
//!            ▼             │
//!   begin ─► head ─────────┘─► Head ─► Body … Body ─► End ─► (responses: begin; requests: head)
//! ```
//!
//! Requests are read strictly. Responses may deviate from RFC 9112 where curl and common gateways accept it
//! (`lenient`).
//!
//! `NeedMore` consumes nothing: the caller keeps the bytes, appends the next bytes and calls again. A decoder
//! therefore stores no bytes, and the way in which the input is split does not affect the events. Callers
//! must repeat the call until the result is `NeedMore`, even when the input is empty, because the end of an
//! empty body is an event of its own.

mod body;
mod chunked;
mod encode;
mod fault;
mod head;
mod lenient;
mod request;
mod response;
#[cfg(test)]
pub(crate) mod splits;

pub use encode::{BadField, chunk_size_line, chunked, is_target, reason, request_head, response_head};
pub(crate) use encode::{is_field_value, is_token};
pub(crate) use head::decimal;
pub use head::{HeadCache, fields, has_token, start_line_length};
pub use lenient::Field;
pub use request::{RequestDecoder, RequestHead, RequestStep};
pub use response::{ParsedResponse, ResponseDecoder, ResponseHead, Step};

/// Maximum length of a head, and of a trailer section: 64 KiB. Servers commonly allow 8 to 32 KiB.
pub const MAX_HEAD: usize = 64 * 1024;
/// Maximum number of header fields in a request.
pub const MAX_FIELDS: usize = 128;
/// Maximum number of header fields in a response.
pub const MAX_RESPONSE_FIELDS: usize = 2000;
/// Maximum length of a chunk-size line, including its extensions.
pub const MAX_CHUNK_LINE: usize = 4096;

/// HTTP version of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

impl Version {
    /// The version as it is sent, for example `HTTP/1.1`.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        }
    }
}

/// How a decoder finds the end of a body (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// The body has a known length. The value is this length in bytes.
    Length(u64),
    /// The body uses the chunked transfer coding.
    Chunked,
    /// The body continues until the connection ends. Only responses can use this.
    UntilClose,
}

/// Reason why bytes are not a valid HTTP/1 message. After this error, the connection cannot be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    /// The start line or a header field is syntactically wrong.
    #[error("not an HTTP/1 head: {0}")]
    Head(&'static str),
    /// The head exceeds [`MAX_HEAD`].
    #[error("the head is longer than 64 KiB")]
    HeadTooLong,
    /// The head has more than this number of fields: [`MAX_FIELDS`] or [`MAX_RESPONSE_FIELDS`].
    #[error("the head has more than {0} header fields")]
    TooManyFields(usize),
    /// The status is below 100.
    #[error("the status is below 100")]
    Status,
    /// The response is `101 Switching Protocols`. The rest of the connection is not HTTP/1.
    #[error(
        "the server switches protocols (101), which hoptax cannot follow; do not send the header `upgrade`"
    )]
    Upgrade,
    /// The content length is not a plain decimal number below 2^64.
    #[error("the content-length is not a plain decimal number")]
    ContentLength,
    /// The message has several content lengths, and they differ.
    #[error("the message has several different content-lengths")]
    ContentLengthsDiffer,
    /// The message has both Transfer-Encoding and Content-Length. Two parsers may then find different ends of
    /// the body (RFC 9112 §6.1).
    #[error("the message has both transfer-encoding and content-length, so the end of the body is ambiguous")]
    TwoFramings,
    /// The transfer coding is not `chunked`. In a request, `chunked` is also refused if it is repeated, and
    /// in HTTP/1.0.
    #[error("the transfer-encoding is not supported: only `chunked` is accepted")]
    TransferCoding,
    /// An HTTP/1.1 request has no `host` header, or more than one (RFC 9112 §3.2).
    #[error("the request has no host header, or several")]
    Host,
    /// A chunk-size line is syntactically wrong.
    #[error("a chunk does not begin with its size in hexadecimal and CRLF")]
    ChunkSize,
    /// A chunk size is 2^64 or more.
    #[error("a chunk size is 2^64 or more")]
    ChunkSizeOverflow,
    /// A chunk-size line exceeds [`MAX_CHUNK_LINE`].
    #[error("a chunk-size line is longer than 4 KiB")]
    ChunkLineTooLong,
    /// A chunk's data is not followed by CRLF.
    #[error("a chunk's data is not followed by CRLF")]
    ChunkEnd,
    /// Trailer fields are syntactically wrong, or there are too many of them.
    #[error("the trailer fields after the last chunk are malformed")]
    Trailers,
    /// There are unexpected bytes after a response, or between two responses.
    #[error(
        "the server sent more bytes than the response has: a wrong length, an unexpected body, or a second \
        response"
    )]
    UnexpectedBytes,
    /// The connection ended before the message was complete.
    #[error("the connection ended before the message was complete")]
    CutShort,
}
