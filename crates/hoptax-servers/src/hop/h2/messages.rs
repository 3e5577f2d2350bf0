//! Changes and delays the messages of gRPC responses, as the plan says.

use super::altered::Planted;
use super::state::Worker;
use hoptax_load::event_loop::{EventLoop, Token};
use hoptax_plan::HopFaults;
use hoptax_wire::grpc;

impl Worker {
    /// What the hop does with the messages of a response whose head is in the sections. `None` if it passes
    /// them unchanged.
    pub(super) fn planted(&self, is_delayed: bool) -> Option<Planted> {
        let delay = self.holds.delay.filter(|_| is_delayed).unwrap_or_default();
        let faults = self.holds.faults.unwrap_or_default();
        let changes = faults != HopFaults { deadline: faults.deadline, ..HopFaults::default() };
        if !changes && delay.message.is_zero() {
            return None;
        }
        let content_type = self.responses.head.fields().get("content-type")?;
        let planted = Planted { faults, delay: delay.message, how: delay.how };
        grpc::is_grpc(content_type).then_some(planted)
    }

    /// Passes a part of a response's body that has just arrived.
    pub(super) fn pass_body(&mut self, io: &mut impl EventLoop, place: u32, fresh: &[u8]) {
        let Some(exchange) = self.exchanges.get(place) else { return };
        let Some(altered) = &mut exchange.response.altered else {
            return self.pass_response(io, place, fresh);
        };
        altered.read(fresh, Token(place), &mut self.holds, &mut exchange.response.data);
        let (from, stream) = (exchange.upstream, exchange.upstream_stream);
        // The hop sends another number of bytes than it has received, so the upstream's window opens now.
        from.into_iter().for_each(|from| self.release(from, stream, fresh.len()));
        self.pass_response(io, place, &[]);
    }

    /// Passes the messages that waited for this timer.
    pub(super) fn release_messages(&mut self, io: &mut impl EventLoop, place: u32, timer: u64) {
        let Some(exchange) = self.exchanges.get(place) else { return };
        let response = &mut exchange.response;
        if response.altered.as_mut().is_some_and(|altered| altered.release(timer, &mut response.data)) {
            self.pass_response(io, place, &[]);
        }
    }
}
