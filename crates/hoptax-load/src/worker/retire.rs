//! Retires connections: after the last request on a connection, the worker gives the peer a moment to close
//! it.

use super::Worker;
use crate::codec::Codec;
use crate::connection::{ConnectionId, Event};
use crate::event_loop::{EventLoop, Token};

impl<C: Codec> Worker<'_, C> {
    /// Retires a connection after its last response. The side that closes first keeps the port in
    /// TIME_WAIT for a minute, so a client that closed first would soon run out of ports. Most servers close
    /// the connection themselves, so the worker gives them a moment. Meanwhile, it opens a new connection
    /// under the other token.
    ///
    /// Some servers wait for the client to close, and may accept no other connection until then. After the
    /// first such wait, the worker resets retired connections at once. A reset leaves no port in TIME_WAIT
    /// either.
    pub(super) fn retire<L: EventLoop>(&mut self, io: &mut L, id: ConnectionId, now: u64) {
        let (token, former) = (self.token(id), self.former_token(id));
        self.connections[id.index()].step(Event::Closed);
        if self.connections[id.index()].leaving {
            io.reset(former);
            self.retired(id);
        }
        // A server closes a WebSocket's connection once the client's close frame has passed the gateway. A
        // reset at once could overtake the frame.
        let may_reset = self.peer_waits && self.sockets.is_none();
        if may_reset || self.leaving >= self.setup.most_leaving {
            io.reset(token);
        }
        // If the connection ended together with the response, it is already closed.
        if io.is_connected(token) {
            let connection = &mut self.connections[id.index()];
            (connection.second, connection.leaving) = (!connection.second, true);
            self.leaving += 1;
            self.timeouts.leaving(id, now);
        }
    }

    pub(super) fn retired(&mut self, connection: ConnectionId) {
        self.connections[connection.index()].leaving = false;
        self.leaving -= 1;
        self.timeouts.closed(connection);
    }

    /// Token of the current connection. If there is none, this is the token of the next connection.
    pub(super) fn token(&self, connection: ConnectionId) -> Token {
        self.token_of(connection, self.connections[connection.index()].second)
    }

    pub(super) fn former_token(&self, connection: ConnectionId) -> Token {
        self.token_of(connection, !self.connections[connection.index()].second)
    }

    fn token_of(&self, connection: ConnectionId, second: bool) -> Token {
        Token(if second { connection.0 + self.connections.len() as u32 } else { connection.0 })
    }

    /// Returns the connection with this token, and whether it is the current one and not the one before it.
    pub(super) fn connection_with(&self, token: Token) -> (ConnectionId, bool) {
        let count = self.connections.len() as u32;
        let (index, second) = if token.0 < count { (token.0, false) } else { (token.0 - count, true) };
        (ConnectionId(index), self.connections[index as usize].second == second)
    }
}
