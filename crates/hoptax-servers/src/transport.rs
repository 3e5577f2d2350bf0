//! How connections over HTTP/2 transfer their bytes.

use crate::request_error::{Awaited, RequestError};
use std::time::Duration;

/// A transport that carries the bytes of a connection.
pub trait Transport {
    /// Sends all bytes.
    ///
    /// # Errors
    /// If the connection fails, or the bytes are not sent in time.
    fn send(&mut self, bytes: &[u8]) -> Result<(), RequestError>;

    /// Receives some bytes. Returns 0 if the server has closed the connection.
    ///
    /// # Errors
    /// If the connection fails, or nothing arrives in time. The error then says that `awaited` did not
    /// happen.
    fn receive(&mut self, piece: &mut [u8], awaited: Awaited) -> Result<usize, RequestError>;

    /// Sets the time limit for all further bytes, from now on. A transport without a clock ignores this.
    fn set_limit(&mut self, _: Duration) {}
}
