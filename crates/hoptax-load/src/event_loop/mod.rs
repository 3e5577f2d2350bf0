//! The event loop ([`Epoll`]) and the trait through which handlers use it.
//!
//! The trait has three reasons. Handlers are tested on loops that are scripted or random, without sockets (`worker/tests`). The
//! upstream puts TLS between [`Epoll`] and its handler, which then serves plain and encrypted connections alike. And a handler
//! is passed bytes that have arrived and hands over bytes to send, but never touches a socket.
//!
//! One loop belongs to one thread. Tokens are small integers that the *handler* chooses, densely from zero, so that
//! both sides can index arrays with them. A token is free again after [`EventLoop::close`] returns or after
//! [`Handler::closed`] / a failed [`Handler::connected`] was delivered; events of its former connection never reach
//! the handler afterwards.

mod client;
mod epoll;
mod interface;
#[cfg(test)]
mod tests;

pub use epoll::Epoll;
pub use interface::{AfterEnd, EventLoop, Handler, Token};
