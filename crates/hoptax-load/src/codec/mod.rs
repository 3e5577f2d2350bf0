//! The protocols of a connection: how the bytes of the peer become responses.
//!
//! A worker has one protocol for all its connections, and is compiled for it.

mod http1;

pub(crate) use http1::Http1;

use crate::exchange::Answer;
use crate::recorder::Response;
use crate::scratch::Scratch;
use crate::target::Target;
use std::fmt::Debug;

/// What a connection knows of its protocol. [`Default`] is a new connection.
pub(crate) trait Codec: Debug + Default {
    /// Prepares for the response to a request that was just sent to `target`.
    fn expect_response(&mut self, target: &Target);

    /// Reads the next bytes of the response that `target` sent.
    ///
    /// # Errors
    /// If the bytes are not a valid response.
    fn read(
        &mut self,
        answer: &mut Answer,
        scratch: &mut Scratch,
        target: &Target,
        bytes: &[u8],
    ) -> Result<Read, Box<Refused>>;

    /// Called when the connection has ended. Returns the response if the end of the connection completes it.
    fn read_end(&mut self, answer: &Answer, target: &Target) -> Option<Response>;

    /// Input that waits for more input. While a connection waits for a tunnel, this is the proxy's answer.
    fn kept(&mut self) -> &mut Vec<u8>;
}

/// What the bytes were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    More,
    /// The response is complete. `keep_alive` is true if the connection can carry another request.
    Whole {
        response: Response,
        keep_alive: bool,
    },
}

/// Why a response is not valid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The reason, with the line at fault.
    pub(crate) text: String,
}
