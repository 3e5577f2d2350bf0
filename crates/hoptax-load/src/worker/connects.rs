//! Opens the connections of a worker. The number of connects in progress is limited, and so is the rate of
//! connects while connections fail.

use super::{Setup, Worker};
use crate::cause;
use crate::clock;
use crate::codec::Codec;
use crate::connection::{ConnectionId, Event};
use crate::event_loop::EventLoop;
use crate::proxy_protocol;
use hoptax_format::Address;
use hoptax_format::record::Cause;
use std::io;
use std::net::IpAddr;

/// Maximum number of connects in progress per worker. Common listen backlogs have at least this length (128),
/// so a server's backlog does not overflow when a worker opens thousands of connections.
const CONNECTS_AT_ONCE: usize = 128;
/// Number of connects that are started before the loop checks which of them have succeeded. On loopback, a
/// connect succeeds within the call, but the time until this check counts as connect time.
pub(super) const CONNECTS_IN_A_ROW: usize = 8;

impl<C: Codec> Worker<'_, C> {
    pub(super) fn may_connect(&self) -> bool {
        self.connecting < CONNECTS_AT_ONCE && !self.queued.is_empty()
    }

    /// Called when no further requests will be due. If the rate of connects is limited, the worker gives up
    /// the requests that wait for a connect.
    pub(crate) fn leave_unsent(&mut self) {
        if self.pace.is_limited() {
            for index in 0..self.queued.len() {
                let connection = self.queued[index];
                for exchange in self.exchanges_on(connection) {
                    // With HTTP/2, a request can still be in flight on the connection before this one.
                    let exchange = &mut self.exchanges[exchange.index()];
                    if exchange.in_flight {
                        continue;
                    }
                    if let Some(times) = exchange.request.take() {
                        self.connections[connection.index()].in_vain = true;
                        self.active -= 1;
                        self.recorder.unfinished(times);
                    }
                }
            }
            self.cancel_queued();
        }
    }

    pub(super) fn cancel_queued(&mut self) {
        for connection in self.queued.drain(..) {
            // If the connect was put off, its timeout is still armed.
            self.timeouts.connected(connection);
            self.connections[connection.index()].step(Event::Closed);
        }
    }

    pub(super) fn connect_queued<L: EventLoop>(&mut self, io: &mut L) {
        for _ in 0..CONNECTS_IN_A_ROW {
            if !self.may_connect() {
                return;
            }
            let now = clock::now();
            if now < self.pace.not_before() {
                return;
            }
            let connection = self.queued.pop_front().expect("one is queued");
            self.connect(io, connection, now);
        }
    }

    fn connect<L: EventLoop>(&mut self, io: &mut L, id: ConnectionId, now: u64) {
        let (token, number) = (self.token(id), self.connection_number(id));
        let connection = &mut self.connections[id.index()];
        connection.step(Event::Permitted);
        if !self.timeouts.is_connecting(id) {
            connection.connect_started = now;
            self.timeouts.connecting(id, now);
        }
        self.connecting += 1;
        self.pace.connecting(now);
        let (address, source) = self.setup.route(number);
        match io.connect(token, address, source) {
            Ok(()) => {}
            // The backlog of a Unix socket is full. For TCP the kernel would retry, but for Unix sockets the
            // worker must retry.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.connections[id.index()].step(Event::PutOff);
                self.connecting -= 1;
                self.queued.push_front(id);
                self.pace.full(now);
            }
            Err(error) => {
                let failed = clock::now();
                self.connect_failed(io, id, failed, &error);
                self.pace.cost(failed, failed - now);
            }
        }
    }

    /// Number of the connection, counted over all workers.
    fn connection_number(&self, connection: ConnectionId) -> usize {
        self.first_address + connection.index() * self.address_step
    }

    /// Sends the header of the PROXY protocol on a new connection, if the load has one.
    pub(super) fn send_proxy_header<L: EventLoop>(
        &self,
        io: &mut L,
        connection: ConnectionId,
    ) -> io::Result<()> {
        let Some(version) = self.setup.proxy_protocol else { return Ok(()) };
        let token = self.token(connection);
        let ends = match self.setup.route(self.connection_number(connection)).0 {
            Address::Tcp(to) => io.local_address(token).map(|from| (from, *to)),
            Address::Unix(_) => None,
        };
        io.send(token, &proxy_protocol::header(version, ends))
    }

    pub(super) fn connect_failed<L: EventLoop>(
        &mut self,
        io: &mut L,
        connection: ConnectionId,
        now: u64,
        error: &io::Error,
    ) {
        let (cause, text) = cause::of_connect(error);
        self.not_established(io, connection, now, cause, &text);
    }

    /// Called when a connect, a tunnel or a handshake failed.
    pub(super) fn not_established<L: EventLoop>(
        &mut self,
        io: &mut L,
        connection: ConnectionId,
        now: u64,
        cause: Cause,
        text: &str,
    ) {
        self.fail(io, connection, now, cause, text);
        self.connect_error = Some(text.to_owned());
    }
}

impl Setup<'_> {
    /// Returns the destination and the source address of a connection. `connection` is its number, counted
    /// over all workers.
    fn route(&self, connection: usize) -> (&Address, Option<IpAddr>) {
        let source = connection / self.addresses.len() % self.sources.len().max(1);
        (&self.addresses[connection % self.addresses.len()], self.sources.get(source).copied())
    }
}
