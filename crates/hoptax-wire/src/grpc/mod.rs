//! gRPC over HTTP/2 ([protocol](https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md)): messages in
//! a body, the status of a call, and the texts of its headers.
//!
//! ```text
//!   request:   HEADERS (POST /SERVICE/METHOD, te: trailers) ─► DATA: messages
//!   response:  HEADERS (200) ─► DATA: messages ─► HEADERS (grpc-status)
//!              HEADERS (200, grpc-status)                      trailers only
//! ```
//!
//! gRPC-Web ([`WebTrailers`]) needs no HTTP trailers: the body ends with the status.

mod message;
mod status;
mod text;
mod web;

pub use message::{Fault, Messages, PREFIX, Step, write_message};
pub use status::Status;
pub use text::{decode_message, encode_message, read_timeout, timeout};
pub use web::{TRAILERS, WebTrailers, write_trailers};

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

/// The media type of gRPC-Web. `application/grpc-web-text` has the same content in base64.
const OF_WEB: &str = "application/grpc-web";

/// True for the content types of gRPC. `application/grpc-web` is another protocol.
pub fn is_grpc(content_type: &[u8]) -> bool {
    is_type(content_type, CONTENT_TYPE)
}

/// True for the content types of gRPC-Web in its binary form.
pub fn is_grpc_web(content_type: &[u8]) -> bool {
    is_type(content_type, OF_WEB)
}

fn is_type(content_type: &[u8], expected: &str) -> bool {
    let Some((start, rest)) = content_type.split_at_checked(expected.len()) else { return false };
    start.eq_ignore_ascii_case(expected.as_bytes()) && matches!(rest.first(), None | Some(b'+' | b';'))
}

#[cfg(test)]
mod tests {
    use super::{is_grpc, is_grpc_web};

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

    #[test]
    fn the_content_type_of_grpc_web_is_another() {
        for yes in ["application/grpc-web", "Application/gRPC-Web+proto", "application/grpc-web;a=b"] {
            assert!(is_grpc_web(yes.as_bytes()), "{yes}");
        }
        for no in ["", "application/grpc", "application/grpc+proto", "application/grpc-web-text"] {
            assert!(!is_grpc_web(no.as_bytes()), "{no}");
        }
    }
}
