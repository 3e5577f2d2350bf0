//! Tunnels in a worker: each connection to a forward proxy sends CONNECT and waits for the answer. This time
//! is a part of the time to connect.

use super::Worker;
use crate::connection::Event;
use crate::event_loop::EventLoop;
use crate::tunnel::TunnelAnswer;
use hoptax_format::record::Cause;
use std::io;

impl Worker<'_> {
    /// Called when TCP is connected to the proxy. Sends CONNECT, and starts the connect timeout again.
    pub(super) fn ask_for_tunnel<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64, request: &[u8]) {
        self.timeouts.connected(slot);
        self.timeouts.connecting(slot, now);
        self.slots[slot as usize].step(Event::Reached);
        if let Err(error) = io.send(self.token(slot), request) {
            self.tunnel_broken(io, slot, now, Err(error));
        }
    }

    /// Whether this slot waits for the answer to CONNECT.
    pub(super) fn awaits_tunnel(&self, slot: u32) -> bool {
        self.setup.tunnel.is_some() && self.slots[slot as usize].awaits_tunnel()
    }

    pub(super) fn read_tunnel<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64, bytes: &[u8]) {
        match self.slots[slot as usize].read_tunnel(bytes) {
            TunnelAnswer::More => {}
            TunnelAnswer::Open => self.reached(io, slot, now),
            TunnelAnswer::Refused(text) => self.tunnel_failed(io, slot, now, Cause::ProxyRefused, &text),
        }
    }

    /// Called when the connection has ended before the answer was complete.
    pub(super) fn tunnel_broken<L: EventLoop>(
        &mut self,
        io: &mut L,
        slot: u32,
        now: u64,
        result: io::Result<()>,
    ) {
        let text = match result {
            Ok(()) => "CONNECT: the proxy closed the connection without an answer".to_owned(),
            Err(error) => format!("CONNECT: the connection to the proxy failed: {error}"),
        };
        self.tunnel_failed(io, slot, now, Cause::ConnectReset, &text);
    }

    fn tunnel_failed<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64, cause: Cause, text: &str) {
        self.fail(io, slot, now, cause, text);
        self.connect_error = Some(text.to_owned());
    }
}
