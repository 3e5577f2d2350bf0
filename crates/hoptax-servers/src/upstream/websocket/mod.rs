//! WebSockets of the upstream, without I/O: the handshake, the messages of a connection, compression, and the
//! messages that the upstream sends by itself.
//!
//! Each WebSocket gets its messages back, except on paths whose settings say that the upstream pushes.

mod connection;
mod deflate;
mod handshake;
mod pushes;
mod talk;
mod tools;

pub(super) use connection::{OnStream, WebSocket};
pub(super) use handshake::{Accepted, Refusal, accept_stream, answer};
pub(super) use pushes::{Push, WebSockets};
pub(super) use tools::{MOST_SPARE, Tools};
