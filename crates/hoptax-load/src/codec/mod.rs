//! The protocols of a connection: how the bytes of the peer become responses.
//!
//! A worker has one protocol for all its connections, and is compiled for it. The protocols differ too much
//! for one interface. HTTP/1 reads one response at a time, which may end the connection. HTTP/2 reports
//! events of many streams, and answers the peer by itself. So a worker gets the codec of its protocol from
//! [`Codec::one`] or [`Codec::many`].

mod http1;
mod http2;

pub(crate) use http1::{Http1, Read};
pub(crate) use http2::Http2;

use std::fmt::Debug;

/// What a connection knows of its protocol. [`Default`] is a new connection.
pub(crate) trait Codec: Debug + Default {
    /// True if a connection can carry several requests at the same time.
    const STREAMS: bool;

    /// The codec, if a connection carries one request at a time.
    fn one(&mut self) -> Option<&mut Http1>;

    /// The codec, if a connection carries several requests at the same time.
    fn many(&mut self) -> Option<&mut Http2>;

    /// True if the connection has begun to speak the protocol, but cannot carry requests yet.
    fn is_greeting(&self) -> bool;

    /// Input that waits for more input. While a connection waits for a tunnel, this is the proxy's answer.
    fn kept(&mut self) -> &mut Vec<u8>;
}

impl Codec for Http1 {
    const STREAMS: bool = false;

    #[inline]
    fn one(&mut self) -> Option<&mut Http1> {
        Some(self)
    }

    #[inline]
    fn many(&mut self) -> Option<&mut Http2> {
        None
    }

    #[inline]
    fn is_greeting(&self) -> bool {
        false
    }

    fn kept(&mut self) -> &mut Vec<u8> {
        &mut self.spill
    }
}

impl Codec for Http2 {
    const STREAMS: bool = true;

    #[inline]
    fn one(&mut self) -> Option<&mut Http1> {
        None
    }

    #[inline]
    fn many(&mut self) -> Option<&mut Http2> {
        Some(self)
    }

    fn is_greeting(&self) -> bool {
        Http2::is_greeting(self)
    }

    fn kept(&mut self) -> &mut Vec<u8> {
        &mut self.spill
    }
}
