//! A TLS client without I/O. Its input is bytes from the socket. Its output is plaintext, and bytes that must
//! be sent.
//!
//! [`Client`] is the configuration, and [`Session`] is the TLS state of one connection. rustls performs the
//! handshake. Afterwards, `records` encrypts and decrypts with the agreed keys. A request therefore allocates
//! nothing, and a connection stores little more than its keys.

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
#[cfg(target_os = "linux")]
mod to_proxy;
mod trust;

pub(crate) use buffers::Buffers;
pub(crate) use config::Client;
pub use config::client_config;
pub(crate) use failure::Failure;
pub use failure::{describe, of_proxy};
pub(crate) use session::{Agreed, Received, Session};
#[cfg(target_os = "linux")]
pub(crate) use to_proxy::{HandshakeFailed, TlsToProxy};
