//! Requests that have lost their connection before the response was complete: they fail, or are sent again.

use super::Worker;
use crate::cause;
use crate::connection::Event;
use crate::event_loop::EventLoop;
use hoptax_format::spec::Retry;
use std::io;

impl Worker<'_> {
    /// Called when the connection of `slot` has ended although its request has no complete response yet.
    pub(super) fn unanswered<L: EventLoop>(
        &mut self,
        io: &mut L,
        slot: u32,
        now: u64,
        result: io::Result<()>,
    ) {
        let state = &self.slots[slot as usize];
        let times = state.request.expect("the request is unanswered");
        let begun = times.first_byte.is_some();
        // `carried` includes the unanswered request.
        let answered = state.carried - 1;
        if begun {
            self.recorder.closed_by_peer(now);
        } else {
            self.recorder.closed_unannounced(now, answered);
        }
        if !begun && answered > 0 {
            self.recorder.closed_on_reuse(times.scheduled);
            if self.may_retry(times.target) {
                self.recorder.retried(times.scheduled);
                return self.retry(io, slot);
            }
        }
        let (cause, text) = cause::of_end(result, begun);
        self.fail(io, slot, now, cause, &text);
    }

    fn may_retry(&self, target: u32) -> bool {
        self.setup.retry == Retry::IdleClose && self.setup.mix.target(target).is_idempotent
    }

    /// Sends the request of `slot` again on a new connection, which starts the timeouts again. A request is
    /// sent at most twice, because only a request on a reused connection is sent again, and the second
    /// connection is new.
    fn retry<L: EventLoop>(&mut self, io: &mut L, slot: u32) {
        io.close(self.token(slot));
        self.timeouts.failed(slot);
        self.cancel_upload(slot);
        self.slots[slot as usize].step(Event::Closed);
        self.queue_connect(slot);
        self.connect_queued(io);
    }
}
