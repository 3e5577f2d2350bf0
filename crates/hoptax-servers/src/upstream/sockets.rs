//! The upstream's sockets, plain or over TLS.

use hoptax_load::event_loop::{Epoll, EventLoop, Token};

/// An event loop that knows the TLS parameters of its connections.
pub(super) trait Sockets: EventLoop {
    /// Version and cipher suite of TLS; `None` on plain connections.
    fn tls(&self, token: Token) -> Option<(String, String)>;
}

impl Sockets for Epoll {
    fn tls(&self, _: Token) -> Option<(String, String)> {
        None
    }
}
