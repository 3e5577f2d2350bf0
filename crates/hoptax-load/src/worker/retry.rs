//! Requests that have lost their connection before the response was complete: they fail, or are sent again.

use super::Worker;
use crate::cause;
use crate::codec::Codec;
use crate::connection::Event;
use crate::event_loop::EventLoop;
use crate::exchange::ExchangeId;
use hoptax_format::spec::Retry;
use std::io;

impl<C: Codec> Worker<'_, C> {
    /// Called when a connection has ended although the request of this exchange has no complete response yet.
    pub(super) fn unanswered<L: EventLoop>(
        &mut self,
        io: &mut L,
        exchange: ExchangeId,
        now: u64,
        result: io::Result<()>,
    ) {
        let connection = self.connection_of(exchange);
        let times = self.exchanges[exchange.index()].request.expect("the request is unanswered");
        let begun = times.first_byte.is_some();
        // `carried` includes the unanswered request.
        let answered = self.connections[connection.index()].carried - 1;
        if begun {
            self.recorder.closed_by_peer(now);
        } else {
            self.recorder.closed_unannounced(now, answered);
        }
        if !begun && answered > 0 {
            self.recorder.closed_on_reuse(times.scheduled);
            if self.may_retry(times.target) {
                self.recorder.retried(times.scheduled);
                return self.retry(io, exchange);
            }
        }
        let (cause, text) = cause::of_end(result, begun);
        self.fail(io, connection, now, cause, &text);
    }

    pub(super) fn may_retry(&self, target: u32) -> bool {
        self.setup.retry == Retry::IdleClose && self.setup.mix.target(target).is_idempotent
    }

    /// Sends the request of an exchange again on a new connection, which starts the timeouts again. A request
    /// is sent at most twice, because only a request on a reused connection is sent again, and the second
    /// connection is new.
    fn retry<L: EventLoop>(&mut self, io: &mut L, exchange: ExchangeId) {
        let connection = self.connection_of(exchange);
        io.close(self.token(connection));
        self.timeouts.failed(exchange);
        self.cancel_upload(exchange);
        self.exchanges[exchange.index()].in_flight = false;
        self.connections[connection.index()].step(Event::Closed);
        self.queue_connect(connection);
        self.connect_queued(io);
    }
}
