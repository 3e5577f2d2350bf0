//! Endless streams: they begin in the warm-up or in the measured time, and the client ends them when the
//! measured time ends.

use super::Worker;
use super::streams::codec_of;
use crate::clock;
use crate::codec::Codec;
use crate::connection::Event;
use crate::event_loop::EventLoop;
use crate::exchange::ExchangeId;
use crate::target::Target;

impl<C: Codec> Worker<'_, C> {
    /// Called when the measured time begins. From now on, the endless streams of the warm-up count.
    pub(crate) fn adopt_endless(&mut self) {
        if self.messages.is_none() {
            return;
        }
        for exchange in &mut self.exchanges {
            if let Some(times) = &mut exchange.request
                && self.setup.mix.target(times.target).is_endless()
            {
                self.recorder.adopt(times);
                (exchange.answer.bytes, exchange.answer.body) = (0, 0);
            }
        }
    }

    /// Called when the measured time has ended, and no requests follow. Ends the endless streams. If `waits`
    /// is true, WebSockets are complete when the server has answered the close frame.
    pub(crate) fn end_endless<L: EventLoop>(&mut self, io: &mut L, waits: bool) {
        if self.messages.is_none() {
            return;
        }
        let now = clock::now();
        for id in (0..self.exchanges.len() as u32).map(ExchangeId) {
            let exchange = &self.exchanges[id.index()];
            let target = exchange.request.map(|times| self.setup.mix.target(times.target));
            if !target.is_some_and(Target::is_endless) {
                continue;
            }
            match (exchange.in_flight, exchange.answer.status) {
                (false, _) => self.withdraw_endless(id),
                (true, 0) => {
                    self.close_endless(io, id, now, false);
                    self.leave_unfinished(id);
                }
                (true, _) if self.is_socket(id) => {
                    self.close_socket(io, id, now);
                    if !waits && self.exchanges[id.index()].in_flight {
                        self.complete_endless(io, id, now, false);
                    }
                }
                (true, _) => self.complete_endless(io, id, now, false),
            }
        }
        self.flush(io);
    }

    /// Counts an endless stream as complete, and ends it. `is_closed` is true if it is a WebSocket that both
    /// sides have closed.
    pub(super) fn complete_endless<L: EventLoop>(
        &mut self,
        io: &mut L,
        id: ExchangeId,
        now: u64,
        is_closed: bool,
    ) {
        let has_rest = self.end_talk(id, now);
        self.close_endless(io, id, now, is_closed && !has_rest);
        let connection = self.connection_of(id);
        let exchange = &mut self.exchanges[id.index()];
        let Some(times) = exchange.request.take() else { return };
        let response = exchange.answer.response(self.setup.mix.target(times.target));
        self.active -= 1;
        let counts = self.recorder.ended_by_client(times, None, response);
        let connection = &mut self.connections[connection.index()];
        connection.failures = 0;
        connection.answered += u32::from(counts);
    }

    /// Ends the stream of an exchange: with HTTP/1, its connection. `is_closed` is as in
    /// [`Self::complete_endless`].
    pub(super) fn close_endless<L: EventLoop>(
        &mut self,
        io: &mut L,
        id: ExchangeId,
        now: u64,
        is_closed: bool,
    ) {
        // The response may not have begun, so the time limit for its first byte ends too.
        self.timeouts.failed(id);
        let connection = self.connection_of(id);
        if C::STREAMS {
            let (stream, present) = (self.exchanges[id.index()].stream.id, self.is_present(id));
            if let Some(codec) = codec_of(&mut self.connections, connection, present) {
                codec.completed(stream);
            }
            self.leave_stream(id, now);
            if !is_closed {
                self.cancel_stream(connection, present, stream, now);
            }
            self.exchanges[id.index()].in_flight = false;
            if !present {
                self.finish_former(io, connection, now);
            }
            return;
        }
        self.cancel_upload(id);
        self.exchanges[id.index()].in_flight = false;
        if is_closed {
            return self.retire(io, connection, now);
        }
        // A closed connection would keep its port in TIME_WAIT, and the next trial could have too few ports.
        io.reset(self.token(connection));
        self.connections[connection.index()].step(Event::Closed);
    }

    /// Gives up a request for an endless stream that is not on a connection.
    fn withdraw_endless(&mut self, id: ExchangeId) {
        self.timeouts.failed(id);
        if C::STREAMS {
            let connection = self.connection_of(id);
            self.many(connection).waiting.retain(|waiting| *waiting != id);
            self.exchanges[id.index()].stream.clear();
        }
        self.leave_unfinished(id);
    }

    /// Records that a request has no outcome.
    fn leave_unfinished(&mut self, id: ExchangeId) {
        let connection = self.connection_of(id);
        if let Some(times) = self.exchanges[id.index()].request.take() {
            self.active -= 1;
            self.connections[connection.index()].in_vain = true;
            self.recorder.unfinished(times);
        }
    }
}
