//! What a handler sees of an event loop, and a loop of its handler.

use crate::address::Address;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};

/// A connection's or listener's name, chosen by the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u32);

impl Token {
    /// For indexing.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a thread can ask of its sockets.
pub trait EventLoop: Sized {
    /// Starts to connect; [`Handler::connected`] tells the result. `from` binds the local address first; a Unix socket
    /// has none.
    ///
    /// # Errors
    /// If the socket cannot be made or the connect is refused on the spot (no descriptors, no ports). The token stays
    /// free then. `WouldBlock`: a Unix socket's backlog is full, and the caller may try again later.
    fn connect(&mut self, token: Token, to: &Address, from: Option<IpAddr>) -> io::Result<()>;

    /// Accepts from `listener` until [`EventLoop::close`]; each connection arrives by [`Handler::accepted`].
    ///
    /// # Errors
    /// If the listener cannot be registered.
    fn listen(&mut self, token: Token, listener: TcpListener) -> io::Result<()>;

    /// Sends `bytes` after everything sent before. What the kernel does not take at once is kept and sent later, in
    /// order; [`EventLoop::unsent`] tells how much that is.
    ///
    /// # Errors
    /// If the connection is broken; the caller should [`close`](EventLoop::close) it.
    fn send(&mut self, token: Token, bytes: &[u8]) -> io::Result<()>;

    /// Whether `token` names a connection that stands, as opposed to a listener, a connect under way, or nothing.
    fn is_connected(&self, token: Token) -> bool;

    /// Bytes handed to [`send`](EventLoop::send) that the kernel has not taken yet.
    fn unsent(&self, token: Token) -> usize;

    /// Stops delivering [`Handler::received`] for this connection, so that a slow peer on the other side of a proxy
    /// holds its sender back.
    fn pause(&mut self, token: Token);

    /// Delivers again what arrives.
    fn resume(&mut self, token: Token);

    /// No more will be sent: the peer sees the end of the stream once everything before it has left.
    ///
    /// # Errors
    /// If the connection is broken already.
    fn finish(&mut self, token: Token) -> io::Result<()>;

    /// Closes and frees the token at once. What is still unsent is dropped. A free token is left alone.
    fn close(&mut self, token: Token);

    /// Waits until something happens or `deadline` (on [`crate::clock::now`]) has come, and delivers what happened to
    /// `handler`. `None` waits without bound; a deadline that has passed polls. Returns early when a signal came.
    ///
    /// # Errors
    /// If the loop itself is broken. Troubles of one connection are delivered to the handler instead.
    fn turn(&mut self, handler: &mut impl Handler<Self>, deadline: Option<u64>) -> io::Result<()>;
}

/// What a thread does when something happens. `io` is the loop that delivers, so that a handler can answer at once.
pub trait Handler<L: EventLoop> {
    /// A connect that was started has succeeded or failed; after a failure the token is free.
    fn connected(&mut self, io: &mut L, token: Token, result: io::Result<()>);

    /// `listener` accepted a connection from `peer`. Returns the token it shall have, or `None` to drop it.
    fn accepted(&mut self, io: &mut L, listener: Token, peer: SocketAddr) -> Option<Token> {
        let _ = (io, listener, peer);
        None
    }

    /// Bytes arrived, in order. They are gone when this returns.
    fn received(&mut self, io: &mut L, token: Token, bytes: &[u8]);

    /// The peer ended its side (`Ok`) or the connection broke. It is closed and the token free, unless
    /// the peer ended its side and this returns [`AfterEnd::KeepSending`].
    fn closed(&mut self, io: &mut L, token: Token, result: io::Result<()>) -> AfterEnd;

    /// Everything that [`EventLoop::unsent`] had counted for this token has now left.
    fn drained(&mut self, io: &mut L, token: Token) {
        let _ = (io, token);
    }
}

/// What to do with a connection whose peer has ended its side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterEnd {
    /// Close it.
    Close,
    /// Half open: keep it to send what remains. Nothing more is received; that it broke is still told.
    KeepSending,
}
