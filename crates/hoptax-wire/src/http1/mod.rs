//! HTTP/1.0 and HTTP/1.1 (RFC 9112): decoders for both directions, and the encoding of heads.
//!
//! A decoder receives the bytes that were not consumed so far. Each step returns one event and the number of bytes
//! that it consumed:
//!
//! ```text
//!            ┌── Interim ──┐ (responses: 1xx)
//!            ▼             │
//!   begin ─► head ─────────┘─► Head ─► Body … Body ─► End ─► (responses: begin; requests: head)
//! ```
//!
//! `NeedMore` consumes nothing: the caller keeps the bytes, appends the next ones and calls again. A decoder therefore
//! stores no bytes, and the split of the input does not affect the events. Callers must step until `NeedMore`, also
//! with empty input, because the end of an empty body is an event of its own.

mod body;
mod chunked;
mod encode;
mod head;
mod request;
mod response;
#[cfg(test)]
mod splits;

pub use encode::{
    BadField, chunk_size_line, chunked, is_field_value, is_target, is_token, reason, request_head,
    response_head,
};
pub use head::{Field, HeadCache, fields, has_token, start_line_length};
pub use request::{RequestDecoder, RequestHead, RequestStep};
pub use response::{ParsedResponse, ResponseDecoder, ResponseHead, Step};

/// Longest head accepted, and longest trailer section: 64 KiB. Servers commonly stop at 8 to 32 KiB.
pub const MAX_HEAD: usize = 64 * 1024;
/// Maximum number of header fields in one head.
pub const MAX_FIELDS: usize = 128;
/// Longest chunk-size line, including its extensions.
pub const MAX_CHUNK_LINE: usize = 4096;

/// Version of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

impl Version {
    /// The version as sent: `HTTP/1.1`.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        }
    }
}

/// How the end of a body is found (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// The body has this many bytes.
    Length(u64),
    /// The body uses the chunked transfer coding.
    Chunked,
    /// The body is everything until the connection ends; only in responses.
    UntilClose,
}

/// Why bytes are not a valid HTTP/1 message. After this error, the connection cannot be used further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    /// The start line or a header field is syntactically wrong.
    #[error("not an HTTP/1 head: {0}")]
    Head(&'static str),
    /// The head exceeds [`MAX_HEAD`].
    #[error("the head is longer than 64 KiB")]
    HeadTooLong,
    /// The head has more than [`MAX_FIELDS`] fields.
    #[error("the head has more than 128 header fields")]
    TooManyFields,
    /// A status below 100.
    #[error("the status is below 100")]
    Status,
    /// `101 Switching Protocols`, which no request asked for.
    #[error("the server switches protocols (101) although it was not asked to")]
    Upgrade,
    /// A content length that is not a plain decimal number below 2^64.
    #[error("the content-length is not a plain decimal number")]
    ContentLength,
    /// Several content lengths that differ.
    #[error("the message has several different content-lengths")]
    ContentLengthsDiffer,
    /// Both Transfer-Encoding and Content-Length: two parsers may see two different ends of the body (RFC 9112 §6.1).
    #[error("the message has both transfer-encoding and content-length, so the end of the body is ambiguous")]
    TwoFramings,
    /// A transfer coding other than a single `chunked`, or any transfer coding in HTTP/1.0, which does not have them.
    #[error("the transfer-encoding is not supported: only a single `chunked`, in HTTP/1.1, is accepted")]
    TransferCoding,
    /// An HTTP/1.1 request without exactly one `host` (RFC 9112 §3.2).
    #[error("the request has no host header, or several")]
    Host,
    /// A chunk-size line that is syntactically wrong.
    #[error("a chunk does not begin with its size in hexadecimal and CRLF")]
    ChunkSize,
    /// A chunk size of 2^64 or more.
    #[error("a chunk size is 2^64 or more")]
    ChunkSizeOverflow,
    /// A chunk-size line that exceeds [`MAX_CHUNK_LINE`].
    #[error("a chunk-size line is longer than 4 KiB")]
    ChunkLineTooLong,
    /// A chunk's data is not followed by CRLF.
    #[error("a chunk's data is not followed by CRLF")]
    ChunkEnd,
    /// Trailer fields that are syntactically wrong, or too many trailer fields.
    #[error("the trailer fields after the last chunk are malformed")]
    Trailers,
    /// Bytes after a response, or between two responses.
    #[error(
        "the server sent more bytes than the response has: a wrong length, an unexpected body, or a second response"
    )]
    UnexpectedBytes,
    /// The connection ended before the message was complete.
    #[error("the connection ended before the message was complete")]
    CutShort,
}
