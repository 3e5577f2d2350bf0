//! TLS to a forward proxy: a layer between [`Epoll`] and the worker. The worker sees plain connections to the
//! proxy. It opens a tunnel in each of them, and TLS to the server is inside the tunnel.
//!
//! Loads without such a proxy run on [`Epoll`] itself, so the layer costs them nothing.

use super::buffers::Buffers;
use super::config::Client;
use super::failure::{Failure, of_proxy};
use super::session::{Received, Session};
use crate::clock;
use crate::event_loop::{AfterEnd, Epoll, EventLoop, Handler, ListeningSocket, Token};
use crate::proxy_protocol;
use hoptax_format::Address;
use hoptax_format::record::Cause;
use hoptax_format::spec::ProxyProtocol;
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};

/// Why TLS to the proxy could not be established. It is the inner error of the failed connect.
#[derive(Debug)]
pub(crate) struct HandshakeFailed {
    pub(crate) cause: Cause,
    pub(crate) text: String,
}

impl std::fmt::Display for HandshakeFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for HandshakeFailed {}

impl HandshakeFailed {
    fn error(cause: Cause, text: &str) -> io::Error {
        io::Error::other(Self { cause, text: of_proxy(text) })
    }
}

fn of_failure(failure: &Failure) -> io::Error {
    let cause = match failure {
        Failure::Certificate(_) => Cause::TlsCertificate,
        Failure::Refused(_) => Cause::TlsRefused,
        Failure::Malformed(_) => Cause::TlsMalformed,
    };
    HandshakeFailed::error(cause, failure.text())
}

/// An event loop whose connections use TLS to a proxy.
pub(crate) struct TlsToProxy {
    /// The loop that owns the connections. While this loop delivers events, [`TlsToProxy::spare`] takes its
    /// place here, because the handler cannot borrow the loop twice. [`Between::with`] swaps the two loops
    /// back for each call of the handler.
    epoll: Epoll,
    /// A loop without connections. Absent while `epoll` delivers events.
    spare: Option<Epoll>,
    client: Client,
    buffers: Buffers,
    /// Version of the PROXY protocol's header at the start of each connection, before TLS.
    header: Option<ProxyProtocol>,
    /// Indexed by token.
    connections: Vec<SecureConnection>,
}

/// State of a token. `generation` increases with each connect, so that events of earlier connections can be
/// ignored.
#[derive(Default)]
struct SecureConnection {
    generation: u32,
    to: Option<SocketAddr>,
    session: Option<Box<Session>>,
    established: bool,
}

impl TlsToProxy {
    /// A loop without connections, for a worker with `connections` connections.
    ///
    /// # Errors
    /// If the process has no free descriptor.
    pub(crate) fn new(
        client: &Client,
        connections: usize,
        header: Option<ProxyProtocol>,
    ) -> io::Result<Self> {
        Ok(Self {
            epoll: Epoll::new()?,
            spare: Some(Epoll::new()?),
            client: client.for_one_worker(connections),
            buffers: Buffers::default(),
            header,
            connections: Vec::new(),
        })
    }

    pub(crate) fn reset_all(&mut self) {
        self.epoll.reset_all();
    }

    fn connection(&mut self, token: Token) -> &mut SecureConnection {
        if self.connections.len() <= token.index() {
            self.connections.resize_with(token.index() + 1, SecureConnection::default);
        }
        &mut self.connections[token.index()]
    }

    fn is_current(&self, token: Token, generation: u32) -> bool {
        let connection = self.connections.get(token.index());
        connection
            .is_some_and(|connection| connection.generation == generation && connection.session.is_some())
    }

    fn forget(&mut self, token: Token) {
        let connection = self.connection(token);
        (connection.session, connection.established) = (None, false);
    }

    fn reached(&mut self, handler: &mut impl Handler<Self>, token: Token, result: io::Result<()>) {
        let begun = result.and_then(|()| self.begin(token));
        if let Err(error) = begun {
            self.close(token);
            handler.connected(self, token, Err(error));
        }
    }

    fn begin(&mut self, token: Token) -> io::Result<()> {
        if let Some(version) = self.header {
            let ends = self.connection(token).to.and_then(|to| Some((self.epoll.local_address(token)?, to)));
            self.epoll.send(token, &proxy_protocol::header(version, ends))?;
        }
        let session = Session::start(&self.client, clock::now(), &mut self.buffers);
        let session = session.map_err(|failure| of_failure(&failure))?;
        self.connection(token).session = Some(Box::new(session));
        self.epoll.send(token, &self.buffers.out)
    }

    fn decrypt(&mut self, handler: &mut impl Handler<Self>, token: Token, bytes: &[u8]) {
        let connection = &mut self.connections[token.index()];
        let (generation, was_established) = (connection.generation, connection.established);
        let Some(session) = connection.session.as_mut() else { return };
        let received = session.receive(bytes, &mut self.buffers, |_| {});
        let ended = session.peer_closed();
        let sent = match self.buffers.out.is_empty() {
            true => Ok(()),
            false => self.epoll.send(token, &self.buffers.out),
        };
        let plain = mem::take(&mut self.buffers.plain);
        if matches!(received, Ok(Received::Established)) {
            self.connections[token.index()].established = true;
            handler.connected(self, token, Ok(()));
        }
        if !plain.is_empty() && self.is_current(token, generation) {
            handler.received(self, token, &plain);
        }
        self.buffers.plain = plain;
        if !self.is_current(token, generation) {
            return;
        }
        match (received, sent) {
            (Err(failure), _) if !was_established => {
                self.close(token);
                handler.connected(self, token, Err(of_failure(&failure)));
            }
            (Err(failure), _) => self.end(handler, token, Err(of_failure(&failure))),
            (Ok(_), Err(error)) => self.end(handler, token, Err(error)),
            (Ok(_), Ok(())) if ended => self.end(handler, token, Ok(())),
            (Ok(_), Ok(())) => {}
        }
    }

    /// Called when an established connection has ended or failed. Afterwards, its token is free.
    fn end(&mut self, handler: &mut impl Handler<Self>, token: Token, result: io::Result<()>) {
        let generation = self.connection(token).generation;
        handler.closed(self, token, result);
        if self.is_current(token, generation) {
            self.close(token);
        }
    }

    fn ended(&mut self, handler: &mut impl Handler<Self>, token: Token, result: io::Result<()>) {
        let connection = self.connection(token);
        let Some(session) = &connection.session else { return };
        if connection.established {
            // Only a close_notify is a valid end of the data, because anyone on the network path can close a
            // TCP connection.
            let whole = session.peer_closed();
            let cut =
                || io::Error::new(io::ErrorKind::UnexpectedEof, of_proxy("it ended without a close_notify"));
            let result = result.and_then(|()| if whole { Ok(()) } else { Err(cut()) });
            return self.end(handler, token, result);
        }
        let error = match result {
            Ok(()) => "the server closed the connection during the handshake".to_owned(),
            Err(error) => format!("the connection failed during the handshake: {error}"),
        };
        self.close(token);
        handler.connected(self, token, Err(HandshakeFailed::error(Cause::TlsClosed, &error)));
    }
}

impl EventLoop for TlsToProxy {
    fn connect(&mut self, token: Token, to: &Address, from: Option<IpAddr>) -> io::Result<()> {
        self.epoll.connect(token, to, from)?;
        let connection = self.connection(token);
        let generation = connection.generation.wrapping_add(1);
        *connection = SecureConnection { generation, to: to.tcp(), session: None, established: false };
        Ok(())
    }

    fn listen(&mut self, _: Token, _: impl Into<ListeningSocket>) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "a generator accepts no connections"))
    }

    fn send(&mut self, token: Token, bytes: &[u8]) -> io::Result<()> {
        let connection = self.connections.get_mut(token.index()).filter(|connection| connection.established);
        let Some(session) = connection.and_then(|connection| connection.session.as_mut()) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        session.send(bytes, &mut self.buffers).map_err(|failure| of_failure(&failure))?;
        self.epoll.send(token, &self.buffers.out)
    }

    fn is_connected(&self, token: Token) -> bool {
        let established =
            self.connections.get(token.index()).is_some_and(|connection| connection.established);
        established && self.epoll.is_connected(token)
    }

    fn local_address(&self, token: Token) -> Option<SocketAddr> {
        self.epoll.local_address(token)
    }

    fn unsent(&self, token: Token) -> usize {
        self.epoll.unsent(token)
    }

    fn pause(&mut self, token: Token) {
        self.epoll.pause(token);
    }

    fn resume(&mut self, token: Token) {
        self.epoll.resume(token);
    }

    fn finish(&mut self, token: Token) -> io::Result<()> {
        self.epoll.finish(token)
    }

    fn close(&mut self, token: Token) {
        self.forget(token);
        self.epoll.close(token);
    }

    fn reset(&mut self, token: Token) {
        self.forget(token);
        self.epoll.reset(token);
    }

    fn turn(&mut self, handler: &mut impl Handler<Self>, deadline: Option<u64>) -> io::Result<()> {
        let spare = self.spare.take().expect("a turn does not start another one");
        let mut epoll = mem::replace(&mut self.epoll, spare);
        let turned = epoll.turn(&mut Between { layer: self, handler }, deadline);
        self.spare = Some(mem::replace(&mut self.epoll, epoll));
        turned
    }
}

/// Receives the events of the inner loop.
struct Between<'a, H> {
    layer: &'a mut TlsToProxy,
    handler: &'a mut H,
}

impl<H: Handler<TlsToProxy>> Between<'_, H> {
    /// Calls `act` with the layer. During the call, the inner loop is in `layer.epoll`, so that the handler
    /// can use it. `turn` has put the spare loop there.
    fn with<R>(&mut self, io: &mut Epoll, act: impl FnOnce(&mut TlsToProxy, &mut H) -> R) -> R {
        mem::swap(io, &mut self.layer.epoll);
        let result = act(self.layer, self.handler);
        mem::swap(io, &mut self.layer.epoll);
        result
    }
}

impl<H: Handler<TlsToProxy>> Handler<Epoll> for Between<'_, H> {
    fn connected(&mut self, io: &mut Epoll, token: Token, result: io::Result<()>) {
        self.with(io, |layer, handler| layer.reached(handler, token, result));
    }

    fn received(&mut self, io: &mut Epoll, token: Token, bytes: &[u8]) {
        self.with(io, |layer, handler| layer.decrypt(handler, token, bytes));
    }

    fn closed(&mut self, io: &mut Epoll, token: Token, result: io::Result<()>) -> AfterEnd {
        self.with(io, |layer, handler| layer.ended(handler, token, result));
        AfterEnd::Close
    }

    fn drained(&mut self, io: &mut Epoll, token: Token) {
        self.with(io, |layer, handler| {
            if layer.is_connected(token) {
                handler.drained(layer, token);
            }
        });
    }
}
