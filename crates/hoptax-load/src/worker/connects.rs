//! How a worker makes its connections: a few at a time, and no faster than is of use.

use super::{Setup, Worker};
use crate::address::Address;
use crate::cause;
use crate::clock;
use crate::connection::Event;
use crate::event_loop::EventLoop;
use std::io;
use std::net::IpAddr;

/// Connects under way at once, per worker: below the least listen backlog in common use (128), so that opening thousands
/// of connections overflows nobody's.
const CONNECTS_AT_ONCE: usize = 128;
/// Connects started before the loop looks which have succeeded: on loopback one succeeds within the call, and what it took
/// would be counted with everything that the loop did before it looked.
pub(super) const CONNECTS_IN_A_ROW: usize = 8;

impl Worker<'_> {
    pub(super) fn may_connect(&self) -> bool {
        self.connecting < CONNECTS_AT_ONCE && !self.queued.is_empty()
    }

    /// Starts the next few connects, if more may be under way.
    pub(super) fn connect_queued<L: EventLoop>(&mut self, io: &mut L) {
        for _ in 0..CONNECTS_IN_A_ROW {
            if !self.may_connect() {
                return;
            }
            let now = clock::now();
            if now < self.pace.not_before() {
                return;
            }
            let slot = self.queued.pop_front().expect("one is queued");
            self.connect(io, slot, now);
        }
    }

    fn connect<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64) {
        let (token, connection) = (self.token(slot), self.first_address + slot as usize * self.address_step);
        let state = &mut self.slots[slot as usize];
        state.step(Event::Permitted);
        if !self.timeouts.is_connecting(slot) {
            state.connect_started = now;
            self.timeouts.connecting(slot, now);
        }
        self.connecting += 1;
        self.pace.connecting(now);
        let (address, source) = self.setup.route(connection);
        match io.connect(token, address, source) {
            Ok(()) => {}
            // A Unix socket's backlog is full: the kernel does not try again by itself, as it does for TCP.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.slots[slot as usize].step(Event::PutOff);
                self.connecting -= 1;
                self.queued.push_front(slot);
                self.pace.full(now);
            }
            Err(error) => {
                let failed = clock::now();
                self.connect_failed(io, slot, failed, &error);
                self.pace.cost(failed, failed - now);
            }
        }
    }

    pub(super) fn connect_failed<L: EventLoop>(
        &mut self,
        io: &mut L,
        slot: u32,
        now: u64,
        error: &io::Error,
    ) {
        let (cause, text) = cause::of_connect(error);
        self.fail(io, slot, now, cause, &text);
        self.connect_error = Some(text);
    }
}

impl Setup<'_> {
    /// Where connection `connection` of all workers' goes, and from where.
    fn route(&self, connection: usize) -> (&Address, Option<IpAddr>) {
        let source = connection / self.addresses.len() % self.sources.len().max(1);
        (&self.addresses[connection % self.addresses.len()], self.sources.get(source).copied())
    }
}
