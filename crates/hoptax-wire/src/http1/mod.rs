//! HTTP/1.0 and HTTP/1.1 (RFC 9112): decoders for both directions, and the encoding of heads.
//!
//! A decoder is given the bytes that have not been consumed so far, from the front, and says in each step what stands
//! there and how many bytes that took:
//!
//! ```text
//!            ┌── Interim ──┐ (responses: 1xx)
//!            ▼             │
//!   begin ─► head ─────────┘─► Head ─► Body … Body ─► End ─► (responses: begin; requests: head)
//! ```
//!
//! `NeedMore` consumes nothing: the caller keeps the bytes, adds what arrives next and asks again. So a decoder holds
//! no bytes of its own, and how the input is split has no bearing on what comes out. A caller steps until `NeedMore`,
//! with empty input too: the end of a body without bytes is a step of its own.

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
/// Most header fields in one head.
pub const MAX_FIELDS: usize = 128;
/// Longest chunk-size line, its extensions included.
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
    /// As it stands on the wire: `HTTP/1.1`.
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
    /// This many bytes.
    Length(u64),
    /// Chunks.
    Chunked,
    /// Everything until the connection ends: responses only.
    UntilClose,
}

/// Why bytes are not the HTTP/1 message they should be. The connection cannot be used further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    /// The start line or a header field breaks the grammar.
    #[error("not an HTTP/1 head: {0}")]
    Head(&'static str),
    /// The head goes on beyond [`MAX_HEAD`].
    #[error("the head is longer than 64 KiB")]
    HeadTooLong,
    /// The head has more than [`MAX_FIELDS`].
    #[error("the head has more than 128 header fields")]
    TooManyFields,
    /// A status below 100.
    #[error("the status is below 100")]
    Status,
    /// `101 Switching Protocols`, which nobody asked for.
    #[error("the server switches protocols (101) without having been asked to")]
    Upgrade,
    /// A content length that is not a plain decimal number below 2^64.
    #[error("the content-length is not a plain decimal number")]
    ContentLength,
    /// Several content lengths that differ.
    #[error("there are several content-lengths, and they differ")]
    ContentLengthsDiffer,
    /// Transfer-Encoding and Content-Length together: two peers may see two different ends of the body (RFC 9112 §6.1).
    #[error("transfer-encoding and content-length stand together, so the body has two possible ends")]
    TwoFramings,
    /// A transfer coding other than a single `chunked`, or one in HTTP/1.0, which has none.
    #[error("the transfer-encoding is not a single `chunked` in HTTP/1.1")]
    TransferCoding,
    /// An HTTP/1.1 request without exactly one `host` (RFC 9112 §3.2).
    #[error("the request has no host header, or several")]
    Host,
    /// A chunk-size line that breaks the grammar.
    #[error("a chunk does not begin with its size in hexadecimal and CRLF")]
    ChunkSize,
    /// A chunk size of 2^64 or more.
    #[error("a chunk size is larger than any body can be")]
    ChunkSizeOverflow,
    /// A chunk-size line beyond [`MAX_CHUNK_LINE`].
    #[error("a chunk-size line is longer than 4 KiB")]
    ChunkLineTooLong,
    /// A chunk's bytes are not followed by CRLF.
    #[error("a chunk does not end with CRLF after as many bytes as it announced")]
    ChunkEnd,
    /// Trailer fields that break the grammar, or are too many.
    #[error("the trailer fields after the last chunk are malformed")]
    Trailers,
    /// Bytes behind a response, or between two.
    #[error(
        "more bytes came than the response has: a wrong length, a body where there is none, or a second response"
    )]
    Unasked,
    /// The connection ended within a message, or instead of one.
    #[error("the connection ended before the message did")]
    CutShort,
}
