//! TLS as a client, without I/O: bytes from the socket go in, bytes for the socket and plaintext come out.
//!
//! [`Client`] is what a spec says, [`Session`] one connection's TLS. rustls shakes hands; from then on `records` encrypts
//! and decrypts by the keys agreed on, so that a request allocates nothing and a connection keeps little more than its keys.

mod buffers;
mod config;
mod established;
mod failure;
mod handshake;
mod records;
mod session;
mod sessions;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub(crate) use buffers::Buffers;
pub(crate) use config::Client;
pub use config::client_config;
pub(crate) use failure::Failure;
pub(crate) use session::{Agreed, Received, Session};
