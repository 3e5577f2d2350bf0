//! The interface between an event loop and the handler of its events.

use hoptax_format::Address;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// A listening socket, TCP or Unix.
#[cfg(unix)]
pub type ListeningSocket = std::os::fd::OwnedFd;
/// A listening socket.
#[cfg(not(unix))]
pub type ListeningSocket = std::net::TcpListener;

/// Identifies a connection or a listener. The handler chooses the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u32);

impl Token {
    /// The token as an array index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The socket operations of one thread.
pub trait EventLoop: Sized {
    /// Starts to connect to `to`. [`Handler::connected`] receives the result. If `from` is given, it is the
    /// local address; Unix sockets have no local address.
    ///
    /// # Errors
    /// If the socket cannot be created, or if the connect fails at once because no descriptor or port is
    /// free. The token then remains free. `WouldBlock` means that the backlog of a Unix socket is full, and
    /// that the caller can retry later.
    fn connect(&mut self, token: Token, to: &Address, from: Option<IpAddr>) -> io::Result<()>;

    /// Accepts connections from `listener` until [`EventLoop::close`] is called. Each connection is passed to
    /// [`Handler::accepted`].
    ///
    /// # Errors
    /// If the listener cannot be registered.
    fn listen(&mut self, token: Token, listener: impl Into<ListeningSocket>) -> io::Result<()>;

    /// Sends `bytes` after all earlier bytes. The loop buffers the bytes that the kernel does not accept at
    /// once, and sends them later, in order. [`EventLoop::unsent`] returns how many bytes are buffered.
    ///
    /// # Errors
    /// If the connection is broken. The caller should [`close`](EventLoop::close) it.
    fn send(&mut self, token: Token, bytes: &[u8]) -> io::Result<()>;

    /// True if `token` is an established connection. False for a listener, for a connect in progress, and for
    /// a free token.
    fn is_connected(&self, token: Token) -> bool;

    /// The local IP address and port of a connection. Absent for Unix sockets, and if the connection is gone.
    fn local_address(&self, token: Token) -> Option<SocketAddr> {
        let _ = token;
        None
    }

    /// Number of bytes passed to [`send`](EventLoop::send) that the kernel has not accepted yet.
    fn unsent(&self, token: Token) -> usize;

    /// Stops the calls of [`Handler::received`] for this connection. A proxy uses this to slow down a sender
    /// if the receiver is slow.
    fn pause(&mut self, token: Token);

    /// Ends a [`pause`](EventLoop::pause) of this connection.
    fn resume(&mut self, token: Token);

    /// Ends our side of the stream. The peer receives all data that was sent before, and then the end of the
    /// stream.
    ///
    /// # Errors
    /// If the connection is already broken.
    fn finish(&mut self, token: Token) -> io::Result<()>;

    /// Closes the connection and frees its token at once. Unsent data is dropped. If the token is free,
    /// nothing happens.
    fn close(&mut self, token: Token);

    /// Like [`close`](EventLoop::close), but resets a connection that the peer has not ended. Such a
    /// connection leaves no port in TIME_WAIT. The peer may lose data that it has not read yet.
    fn reset(&mut self, token: Token) {
        self.close(token);
    }

    /// Waits for events and passes them to `handler`. Waits until `deadline` (on the clock of
    /// [`hoptax_format::clock::now`]), or without limit if there is no deadline. If the deadline has passed,
    /// polls once. Returns early after a signal.
    ///
    /// # Errors
    /// If the loop itself fails. Errors of a connection are passed to the handler.
    fn turn(&mut self, handler: &mut impl Handler<Self>, deadline: Option<u64>) -> io::Result<()>;
}

/// Reacts to events. `io` is the loop that delivers the event, so the handler can act at once.
pub trait Handler<L: EventLoop> {
    /// A connect has succeeded or failed. After a failure, the token is free.
    fn connected(&mut self, io: &mut L, token: Token, result: io::Result<()>);

    /// `listener` has accepted a connection from `peer`. Returns the token for this connection, or `None` to
    /// drop the connection. The clients of a Unix socket have no address: `peer` is then 0.0.0.0:0.
    fn accepted(&mut self, io: &mut L, listener: Token, peer: SocketAddr) -> Option<Token> {
        let _ = (io, listener, peer);
        None
    }

    /// Bytes have arrived. Calls are in the order of the bytes. `bytes` is valid only during the call.
    fn received(&mut self, io: &mut L, token: Token, bytes: &[u8]);

    /// The peer has ended its side of the stream (`Ok`), or the connection has failed (`Err`). After this
    /// call, the connection is closed and its token is free. There is one exception: if the peer has ended
    /// its side and this method returns [`AfterEnd::KeepSending`], the connection remains open.
    fn closed(&mut self, io: &mut L, token: Token, result: io::Result<()>) -> AfterEnd;

    /// The kernel has accepted all data that [`EventLoop::unsent`] counted for this token.
    fn drained(&mut self, io: &mut L, token: Token) {
        let _ = (io, token);
    }
}

/// What the loop does with a connection after the peer has ended its side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterEnd {
    /// Close the connection.
    Close,
    /// Keep the connection half open, to send the remaining data. Nothing more is received, but a failure is
    /// still reported.
    KeepSending,
}
