//! The event loop ([`Epoll`]) and the trait through which handlers use it.
//!
//! The trait has three purposes. Handlers can be tested with scripted or random loops, without sockets
//! (`worker/tests`). The upstream can insert TLS between [`Epoll`] and its handler, which then serves plain and
//! encrypted connections alike. Finally, handlers see only bytes, never sockets.
//!
//! A loop belongs to one thread. The *handler* chooses tokens: small integers from zero, without large gaps, because
//! both sides index arrays with them. A token is free after [`EventLoop::close`] returns, and after
//! [`Handler::closed`] or a failed [`Handler::connected`] was called. Later events of the token's former connection
//! never reach the handler.

mod client;
mod epoll;
mod interface;
#[cfg(test)]
mod tests;

pub use epoll::Epoll;
pub use interface::{AfterEnd, EventLoop, Handler, Token};
