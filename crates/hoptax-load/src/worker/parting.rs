//! How a worker parts with connections that have carried all they may.

use super::Worker;
use crate::connection::Event;
use crate::event_loop::{EventLoop, Token};

impl Worker<'_> {
    /// The connection of `slot` has carried its last response. It is left to the other side to close: who closes first
    /// keeps the port in TIME_WAIT for a minute, and a client that did would soon have none left. Meanwhile the slot
    /// goes on with a connection under its other token, so that nobody waits for a server that takes its time.
    pub(super) fn part<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64) {
        let (token, former) = (self.token(slot), self.former_token(slot));
        self.slots[slot as usize].step(Event::Closed);
        if self.slots[slot as usize].leaving {
            io.close(former);
            self.left(slot);
        }
        if self.leaving >= self.setup.most_leaving {
            io.close(token);
        }
        // It is not when the response ended with it.
        if io.is_connected(token) {
            let state = &mut self.slots[slot as usize];
            (state.second, state.leaving) = (!state.second, true);
            self.leaving += 1;
            self.timeouts.leaving(slot, now);
        }
    }

    /// The former connection of `slot` is closed.
    pub(super) fn left(&mut self, slot: u32) {
        self.slots[slot as usize].leaving = false;
        self.leaving -= 1;
        self.timeouts.left(slot);
    }

    /// What the present connection of `slot` is called, or the next one, if there is none.
    pub(super) fn token(&self, slot: u32) -> Token {
        self.token_of(slot, self.slots[slot as usize].second)
    }

    pub(super) fn former_token(&self, slot: u32) -> Token {
        self.token_of(slot, !self.slots[slot as usize].second)
    }

    fn token_of(&self, slot: u32, second: bool) -> Token {
        Token(if second { slot + self.slots.len() as u32 } else { slot })
    }

    /// The slot of `token`, and whether it is that of the present connection.
    pub(super) fn slot_of(&self, token: Token) -> (u32, bool) {
        let slots = self.slots.len() as u32;
        let (slot, second) = if token.0 < slots { (token.0, false) } else { (token.0 - slots, true) };
        (slot, self.slots[slot as usize].second == second)
    }
}
