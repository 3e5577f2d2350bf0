//! gRPC over HTTP/2 ([protocol](https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md)): messages in
//! a body, the status of a call, and the texts of its headers.
//!
//! ```text
//!   request:   HEADERS (POST /SERVICE/METHOD, te: trailers) ─► DATA: messages
//!   response:  HEADERS (200) ─► DATA: messages ─► HEADERS (grpc-status)
//!              HEADERS (200, grpc-status)                      trailers only
//! ```

mod message;
mod status;
mod text;

pub use message::{Fault, Messages, PREFIX, Step, write_message};
pub use status::Status;
pub use text::{decode_message, encode_message, read_timeout, timeout};

/// The header, or the field of the trailers, with the number of the status.
pub const STATUS: &str = "grpc-status";
/// The header, or the field of the trailers, with a text about the status.
pub const MESSAGE: &str = "grpc-message";
/// The header with the time limit of a call.
pub const TIMEOUT: &str = "grpc-timeout";
/// The media type of requests and responses. Types such as `application/grpc+proto` name the content of the
/// messages too.
pub const CONTENT_TYPE: &str = "application/grpc";

/// The media type of gRPC-Web that says that messages are protobuf.
pub const WEB_CONTENT_TYPE: &str = "application/grpc-web+proto";

/// True if a content type is that of gRPC. `application/grpc-web` is another protocol.
pub fn is_grpc(content_type: &[u8]) -> bool {
    let Some((start, rest)) = content_type.split_at_checked(CONTENT_TYPE.len()) else { return false };
    start.eq_ignore_ascii_case(CONTENT_TYPE.as_bytes()) && matches!(rest.first(), None | Some(b'+' | b';'))
}

#[cfg(test)]
mod tests {
    use super::is_grpc;

    #[test]
    fn a_content_type_of_grpc_may_name_the_messages() {
        for yes in ["application/grpc", "Application/gRPC", "application/grpc+proto", "application/grpc; a=b"]
        {
            assert!(is_grpc(yes.as_bytes()), "{yes}");
        }
        for no in ["", "application/grp", "application/grpc-web", "application/grpcx", "text/plain"] {
            assert!(!is_grpc(no.as_bytes()), "{no}");
        }
    }
}
