//! Retires connections: after the last request on a connection, the worker gives the peer a moment to close
//! it.

use super::Worker;
use crate::connection::Event;
use crate::event_loop::{EventLoop, Token};

impl Worker<'_> {
    /// Retires the connection of `slot` after its last response. The side that closes first keeps the port in
    /// TIME_WAIT for a minute, so a client that closed first would soon run out of ports. Most servers close
    /// the connection themselves, so the worker gives them a moment. Meanwhile, the slot opens a new
    /// connection under its other token.
    ///
    /// Some servers wait for the client to close, and may accept no other connection until then. After the
    /// first such wait, the worker resets retired connections at once. A reset leaves no port in TIME_WAIT
    /// either.
    pub(super) fn retire<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64) {
        let (token, former) = (self.token(slot), self.former_token(slot));
        self.slots[slot as usize].step(Event::Closed);
        if self.slots[slot as usize].leaving {
            io.reset(former);
            self.retired(slot);
        }
        if self.peer_waits || self.leaving >= self.setup.most_leaving {
            io.reset(token);
        }
        // If the connection ended together with the response, it is already closed.
        if io.is_connected(token) {
            let state = &mut self.slots[slot as usize];
            (state.second, state.leaving) = (!state.second, true);
            self.leaving += 1;
            self.timeouts.leaving(slot, now);
        }
    }

    pub(super) fn retired(&mut self, slot: u32) {
        self.slots[slot as usize].leaving = false;
        self.leaving -= 1;
        self.timeouts.closed(slot);
    }

    /// Token of the current connection of `slot`. If the slot has no connection, this is the token of its
    /// next connection.
    pub(super) fn token(&self, slot: u32) -> Token {
        self.token_of(slot, self.slots[slot as usize].second)
    }

    pub(super) fn former_token(&self, slot: u32) -> Token {
        self.token_of(slot, !self.slots[slot as usize].second)
    }

    fn token_of(&self, slot: u32, second: bool) -> Token {
        Token(if second { slot + self.slots.len() as u32 } else { slot })
    }

    /// Returns the slot of `token`, and whether the token belongs to the slot's current connection.
    pub(super) fn slot_of(&self, token: Token) -> (u32, bool) {
        let slots = self.slots.len() as u32;
        let (slot, second) = if token.0 < slots { (token.0, false) } else { (token.0 - slots, true) };
        (slot, self.slots[slot as usize].second == second)
    }
}
