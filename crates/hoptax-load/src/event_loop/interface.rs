//! The interface between an event loop and its handler.

use crate::address::Address;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};

/// Identifies a connection or listener; chosen by the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u32);

impl Token {
    /// For use as an array index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Socket operations of one thread.
pub trait EventLoop: Sized {
    /// Starts to connect; [`Handler::connected`] receives the result. The local address is `from`, if given; a Unix
    /// socket has none.
    ///
    /// # Errors
    /// If the socket cannot be created, or the connect fails at once because there is no descriptor or port. The
    /// token then remains free. `WouldBlock` means that the backlog of a Unix socket is full, and the caller can
    /// retry later.
    fn connect(&mut self, token: Token, to: &Address, from: Option<IpAddr>) -> io::Result<()>;

    /// Accepts from `listener` until [`EventLoop::close`]; each connection is passed to [`Handler::accepted`].
    ///
    /// # Errors
    /// If the listener cannot be registered.
    fn listen(&mut self, token: Token, listener: TcpListener) -> io::Result<()>;

    /// Sends `bytes` after all earlier bytes. If the kernel does not accept all of them at once, the rest is buffered
    /// and sent later, in order; [`EventLoop::unsent`] returns its length.
    ///
    /// # Errors
    /// If the connection is broken; the caller should [`close`](EventLoop::close) it.
    fn send(&mut self, token: Token, bytes: &[u8]) -> io::Result<()>;

    /// True if `token` is an established connection. False for a listener, a connect in progress, or a free token.
    fn is_connected(&self, token: Token) -> bool;

    /// Number of bytes passed to [`send`](EventLoop::send) that the kernel has not accepted yet.
    fn unsent(&self, token: Token) -> usize;

    /// Stops calls of [`Handler::received`] for this connection. A proxy uses this to slow down a sender whose
    /// receiver is slow.
    fn pause(&mut self, token: Token);

    /// Undoes [`pause`](EventLoop::pause).
    fn resume(&mut self, token: Token);

    /// Ends our side of the stream: the peer sees the end after all data sent before.
    ///
    /// # Errors
    /// If the connection is broken already.
    fn finish(&mut self, token: Token) -> io::Result<()>;

    /// Closes the connection and frees the token at once. Unsent data is dropped. Does nothing for a free token.
    fn close(&mut self, token: Token);

    /// Waits for events until `deadline` (on [`crate::clock::now`]) and passes them to `handler`. Without a deadline,
    /// waits without limit; with a deadline in the past, polls once. Returns early after a signal.
    ///
    /// # Errors
    /// If the loop itself fails. Errors of a connection are passed to the handler.
    fn turn(&mut self, handler: &mut impl Handler<Self>, deadline: Option<u64>) -> io::Result<()>;
}

/// Reactions to events. `io` is the loop that delivers the event, so that a handler can respond at once.
pub trait Handler<L: EventLoop> {
    /// A connect has succeeded or failed; after a failure the token is free.
    fn connected(&mut self, io: &mut L, token: Token, result: io::Result<()>);

    /// `listener` accepted a connection from `peer`. Returns the token for this connection, or `None` to drop it.
    fn accepted(&mut self, io: &mut L, listener: Token, peer: SocketAddr) -> Option<Token> {
        let _ = (io, listener, peer);
        None
    }

    /// Bytes arrived, in order. They are valid only during the call.
    fn received(&mut self, io: &mut L, token: Token, bytes: &[u8]);

    /// The peer ended its side (`Ok`) or the connection failed. Afterwards, the connection is closed and the token
    /// free. The exception: if the peer ended its side, [`AfterEnd::KeepSending`] keeps the connection open.
    fn closed(&mut self, io: &mut L, token: Token, result: io::Result<()>) -> AfterEnd;

    /// All data counted by [`EventLoop::unsent`] for this token has been sent.
    fn drained(&mut self, io: &mut L, token: Token) {
        let _ = (io, token);
    }
}

/// What to do with a connection after the peer has ended its side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterEnd {
    /// Close it.
    Close,
    /// Keep it half open to send the rest. Nothing more is received, but a failure is still reported.
    KeepSending,
}
