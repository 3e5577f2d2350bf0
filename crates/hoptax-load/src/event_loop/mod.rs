//! The event loop ([`Epoll`]), and the traits between a loop and its handlers.
//!
//! Handlers use a loop only through the trait [`EventLoop`], for three reasons. Handlers can be tested with
//! scripted or random loops, without sockets (`worker/tests`). The upstream can insert TLS between [`Epoll`]
//! and its handler, so that one handler serves both plain and encrypted connections. A load inserts TLS to a
//! forward proxy in the same way. Handlers deal only with bytes, never with sockets.
//!
//! A loop belongs to one thread. The *handler* chooses the tokens. They must be small integers from zero,
//! without large gaps, because loops and handlers use them as array indexes. A token is free after
//! [`EventLoop::close`] has returned, after [`Handler::closed`] was called, and after [`Handler::connected`]
//! was called with an error. The handler then receives no later events of the token's former connection.

#[cfg(target_os = "linux")]
mod client;
#[cfg(target_os = "linux")]
mod epoll;
mod interface;
#[cfg(test)]
mod tests;

#[cfg(target_os = "linux")]
pub use epoll::Epoll;
pub use interface::{AfterEnd, EventLoop, Handler, ListeningSocket, Token};
