//! The end of HTTP/2 connections, and of streams that take too long.
//!
//! A connection that gets no new requests, because of GOAWAY for example, is *draining*. [`Worker::make_way`]
//! retires it, and the worker opens the next one, while responses still arrive on the retired one.

use super::Worker;
use crate::cause;
use crate::codec::Codec;
use crate::connection::{ConnectionId, Event, Former, State};
use crate::event_loop::EventLoop;
use crate::exchange::ExchangeId;
use hoptax_format::record::Cause;
use std::io;

impl<C: Codec> Worker<'_, C> {
    /// Retires a draining connection, if possible. If not, the worker tries again when the next response of
    /// the connection is complete. If two connections in a row had requests and got no response, the worker
    /// waits before it connects again, so that a server that processes nothing is not flooded.
    pub(super) fn make_way<L: EventLoop>(&mut self, io: &mut L, id: ConnectionId, now: u64) {
        let (token, former_token) = (self.token(id), self.former_token(id));
        let connection = &mut self.connections[id.index()];
        if connection.state() != State::Open {
            return;
        }
        let has_former = connection.former.is_some();
        let codec = connection.codec.many().expect("only HTTP/2 comes here");
        if !codec.draining {
            return;
        }
        let is_busy = codec.in_flight > 0;
        if is_busy && (has_former || self.leaving >= self.setup.most_leaving) {
            return;
        }
        let is_refused = !is_busy && !codec.has_answered() && connection.carried > 0;
        let must_rest = is_refused && connection.failures > 0;
        if is_refused {
            connection.failures = connection.failures.max(1);
        }
        self.stop_waiting(id);
        if must_rest {
            io.reset(token);
            self.rest(id, now, Cause::GoawayUnprocessed);
            return self.withdraw(id);
        }
        if is_busy {
            if self.connections[id.index()].leaving {
                io.reset(former_token);
                self.retired(id);
            }
            let connection = &mut self.connections[id.index()];
            let (codec, session) = (std::mem::take(&mut connection.codec), connection.session.take());
            connection.step(Event::Closed);
            connection.former = Some(Box::new(Former { session, codec }));
            (connection.second, connection.leaving) = (!connection.second, true);
            self.leaving += 1;
        } else if has_former {
            io.reset(token);
            self.connections[id.index()].step(Event::Closed);
        } else {
            self.retire(io, id, now);
        }
        self.reconnect(io, id);
    }

    /// Opens the next connection if a request waits for it.
    fn reconnect<L: EventLoop>(&mut self, io: &mut L, id: ConnectionId) {
        let waits = self.exchanges_on(id).any(|exchange| {
            let exchange = &self.exchanges[exchange.index()];
            exchange.request.is_some() && !exchange.in_flight
        });
        if waits && self.connections[id.index()].state() == State::Down {
            self.queue_connect(id);
            self.connect_queued(io);
        }
    }

    /// Makes requests that wait for a stream wait for a connection instead.
    fn stop_waiting(&mut self, id: ConnectionId) {
        while let Some(exchange) = self.many(id).waiting.pop_front() {
            self.exchanges[exchange.index()].stream.waits_since = None;
            self.timeouts.failed(exchange);
        }
    }

    /// Sends the output of a retired connection. After its last response, gives the peer a moment to close
    /// it.
    pub(super) fn finish_former<L: EventLoop>(&mut self, io: &mut L, id: ConnectionId, now: u64) {
        let token = self.former_token(id);
        let connection = &mut self.connections[id.index()];
        let Some(former) = &mut connection.former else { return };
        let codec = former.codec.many().expect("only HTTP/2 comes here");
        if !codec.out.is_empty() {
            let out = std::mem::take(&mut codec.out);
            // If this fails, the end of the connection is read next.
            let _ = match &mut self.tls {
                None => io.send(token, &out),
                Some(tls) => tls.send(io, token, former.session.as_deref_mut(), &out),
            };
            self.scratch.pieces.give_back(out);
        }
        if codec.in_flight > 0 {
            return;
        }
        connection.former = None;
        if self.peer_waits || !io.is_connected(token) {
            io.reset(token);
            self.retired(id);
        } else {
            self.timeouts.leaving(id, now);
        }
        // The current connection may have waited for this.
        if self.many(id).draining {
            self.list(id);
        }
    }

    /// Called when a retired connection has ended. Its remaining requests get no response.
    pub(super) fn former_ended<L: EventLoop>(
        &mut self,
        io: &mut L,
        id: ConnectionId,
        now: u64,
        result: io::Result<()>,
    ) {
        if self.connections[id.index()].former.is_none() {
            return;
        }
        self.requests_lost(id, now, &result, false);
        self.connections[id.index()].former = None;
        if self.connections[id.index()].state() != State::Resting {
            self.resume_streams(io, id, now);
        }
        if self.many(id).draining {
            self.list(id);
        }
    }

    /// Called when the peer has closed a connection, or when the connection has failed.
    pub(super) fn streams_ended<L: EventLoop>(
        &mut self,
        io: &mut L,
        id: ConnectionId,
        now: u64,
        result: io::Result<()>,
    ) {
        let connection = &mut self.connections[id.index()];
        match (connection.state(), connection.is_greeting()) {
            (State::Handshaking, true) => {
                let text = "HTTP/2: the server closed the connection before it sent its settings";
                return self.not_established(io, id, now, Cause::NotHttp2, text);
            }
            (State::Handshaking, false) => return self.handshake_broken(io, id, now, result),
            _ => {}
        }
        io.close(self.token(id));
        let codec = self.many(id);
        let (in_flight, announced) = (codec.in_flight, codec.draining);
        self.stop_waiting(id);
        if in_flight == 0 {
            if announced {
                self.connections[id.index()].step(Event::Closed);
            } else {
                self.lost(id, now);
            }
            return self.reconnect(io, id);
        }
        if !announced {
            self.recorder.closed_by_peer(now);
        }
        match self.requests_lost(id, now, &result, true) {
            Some(cause) => {
                self.rest(id, now, cause);
                self.withdraw(id);
            }
            None => {
                self.connections[id.index()].step(Event::Closed);
                self.reconnect(io, id);
            }
        }
    }

    /// Fails the requests on a connection that has ended, or prepares to send them again. Returns the cause
    /// if one has failed.
    fn requests_lost(
        &mut self,
        id: ConnectionId,
        now: u64,
        result: &io::Result<()>,
        present: bool,
    ) -> Option<Cause> {
        let mut failed = None;
        for exchange_id in self.exchanges_on(id) {
            let exchange = &self.exchanges[exchange_id.index()];
            if !exchange.in_flight || self.is_present(exchange_id) != present {
                continue;
            }
            let times = exchange.request.expect("a request in flight");
            let (begun, reused) = (times.first_byte.is_some(), exchange.stream.id > 1);
            let sent_again = exchange.stream.sent_again;
            self.stop_upload(exchange_id, now);
            if !begun && reused {
                self.recorder.closed_on_reuse(times.scheduled);
                if self.may_retry(times.target) && !sent_again {
                    self.send_again(exchange_id);
                    continue;
                }
            }
            let result = match result {
                Ok(()) => Ok(()),
                Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            };
            let (cause, text) = self.cause_of_end(exchange_id, now, cause::of_end(result, begun));
            self.exchanges[exchange_id.index()].stream.clear();
            self.fail_request(exchange_id, now, cause, &text);
            failed = Some(cause);
        }
        failed
    }

    /// Called when a request has been in flight, or has waited for a stream, for too long.
    pub(super) fn stream_timed_out<L: EventLoop>(
        &mut self,
        io: &mut L,
        id: ExchangeId,
        now: u64,
        cause: Cause,
        text: &str,
    ) {
        let connection = self.connection_of(id);
        let exchange = &self.exchanges[id.index()];
        if !exchange.in_flight {
            self.many(connection).waiting.retain(|waiting| *waiting != id);
            self.exchanges[id.index()].stream.clear();
            let text = "timeout while waiting for a stream: the server allows too few at the same time";
            self.fail_request(id, now, Cause::NoStream, text);
            return self.freed(io, id, now);
        }
        let (stream, present) = (exchange.stream.id, self.is_present(id));
        self.leave_stream(id, now);
        self.cancel_stream(connection, present, stream, now);
        self.fail_request(id, now, cause, text);
        if present {
            self.send_waiting(connection, now);
        } else {
            self.finish_former(io, connection, now);
        }
        self.freed(io, id, now);
    }
}
