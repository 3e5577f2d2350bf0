//! The upstream's sockets, plain or over TLS.

use hoptax_load::event_loop::{Epoll, EventLoop, Token};

/// An event loop that knows the TLS parameters of its connections.
pub(super) trait Sockets: EventLoop {
    /// Version and cipher suite of TLS; `None` on plain connections.
    fn tls(&self, token: Token) -> Option<(String, String)>;

    /// Whether client and server have chosen HTTP/2 in the TLS handshake (ALPN). `None` on plain connections.
    fn is_http2(&self, token: Token) -> Option<bool>;
}

impl Sockets for Epoll {
    fn tls(&self, _: Token) -> Option<(String, String)> {
        None
    }

    fn is_http2(&self, _: Token) -> Option<bool> {
        None
    }
}
