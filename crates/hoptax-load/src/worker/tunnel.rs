//! Tunnels in a worker: each connection to a forward proxy sends CONNECT and waits for the answer. This time
//! is a part of the time to connect.

use super::Worker;
use crate::codec::Codec;
use crate::connection::{ConnectionId, Event};
use crate::event_loop::EventLoop;
use crate::tunnel::TunnelAnswer;
use hoptax_format::record::Cause;
use std::io;

impl<C: Codec> Worker<'_, C> {
    /// Called when TCP is connected to the proxy. Sends CONNECT, and starts the connect timeout again.
    pub(super) fn ask_for_tunnel<L: EventLoop>(
        &mut self,
        io: &mut L,
        connection: ConnectionId,
        now: u64,
        request: &[u8],
    ) {
        self.timeouts.connected(connection);
        self.timeouts.connecting(connection, now);
        self.connections[connection.index()].step(Event::Reached);
        if let Err(error) = io.send(self.token(connection), request) {
            self.tunnel_broken(io, connection, now, Err(error));
        }
    }

    /// Whether this connection waits for the answer to CONNECT.
    pub(super) fn awaits_tunnel(&self, connection: ConnectionId) -> bool {
        self.setup.tunnel.is_some() && self.connections[connection.index()].awaits_tunnel()
    }

    pub(super) fn read_tunnel<L: EventLoop>(
        &mut self,
        io: &mut L,
        connection: ConnectionId,
        now: u64,
        bytes: &[u8],
    ) {
        match self.connections[connection.index()].read_tunnel(bytes) {
            TunnelAnswer::More => {}
            TunnelAnswer::Open => self.reached(io, connection, now),
            TunnelAnswer::Refused(text) => {
                self.not_established(io, connection, now, Cause::ProxyRefused, &text);
            }
        }
    }

    /// Called when the connection has ended before the answer was complete.
    pub(super) fn tunnel_broken<L: EventLoop>(
        &mut self,
        io: &mut L,
        connection: ConnectionId,
        now: u64,
        result: io::Result<()>,
    ) {
        let text = match result {
            Ok(()) => "CONNECT: the proxy closed the connection without an answer".to_owned(),
            Err(error) => format!("CONNECT: the connection to the proxy failed: {error}"),
        };
        self.not_established(io, connection, now, Cause::ConnectReset, &text);
    }
}
