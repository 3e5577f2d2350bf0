//! WebSocket (RFC 6455): frames, messages and the fields of the handshake. Hashing the key of a handshake is
//! left to the caller.

mod frame;
mod message;
mod utf8;

pub use frame::{Frame, LONGEST_CONTROL, Opcode, mask, write_frame};
pub use message::{Decoder, Fault, Side, Step};

/// Version of the protocol in `sec-websocket-version` (RFC 6455, section 4.1).
pub const VERSION: &str = "13";
/// What a server appends to the client's key before it hashes it with SHA-1 (RFC 6455, section 1.3).
pub const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Name of the extension that compresses messages (RFC 7692).
pub const DEFLATE: &str = "permessage-deflate";
/// Header with the key of the client, in lower case.
pub const KEY: &str = "sec-websocket-key";
/// Header with the server's answer to the key, in lower case.
pub const ACCEPT: &str = "sec-websocket-accept";
/// Header with the extensions that the client offers, or that the server has chosen, in lower case.
pub const EXTENSIONS: &str = "sec-websocket-extensions";

/// Status codes of close frames (RFC 6455, section 7.4.1).
pub mod close {
    /// The purpose of the connection was fulfilled.
    pub const NORMAL: u16 = 1000;
    /// A side goes away, such as a server that stops.
    pub const GOING_AWAY: u16 = 1001;
    /// A frame violated the protocol.
    pub const PROTOCOL_ERROR: u16 = 1002;
    /// The data of a message do not fit its type, such as text that is not UTF-8.
    pub const INVALID_DATA: u16 = 1007;
    /// A message is too long.
    pub const TOO_LONG: u16 = 1009;
}
