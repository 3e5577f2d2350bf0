//! Exchanges on HTTP/2 streams: many requests in flight on a connection.
//!
//! Requests are collected in the connection's buffer. [`Worker::flush`] sends them when the worker has
//! handled an event. The requests that follow from the responses of one read therefore leave in one write.
//!
//! How connections end is in [`drain`](super::drain).

use super::Worker;
use crate::clock;
use crate::codec::{Codec, Http2};
use crate::connection::{Connection, ConnectionId, Event, State};
use crate::event_loop::EventLoop;
use crate::exchange::{ExchangeId, Rest};
use crate::redirect;
use crate::stamped::Stamped;
use crate::stream_head::StreamHead;
use hoptax_format::messages::Carrier;
use hoptax_format::record::{Cause, is_redirect};
use hoptax_format::stamp;
use hoptax_wire::http2::{Code, Fault, Step, StreamRef};
use std::io;

/// Returns the codec of a connection, or of the retired connection before it.
pub(super) fn codec_of<C: Codec>(
    connections: &mut [Connection<C>],
    id: ConnectionId,
    present: bool,
) -> Option<&mut Http2> {
    let connection = &mut connections[id.index()];
    match present {
        true => connection.codec.many(),
        false => connection.former.as_mut()?.codec.many(),
    }
}

impl<C: Codec> Worker<'_, C> {
    pub(super) fn many(&mut self, id: ConnectionId) -> &mut Http2 {
        self.connections[id.index()].codec.many().expect("only HTTP/2 comes here")
    }

    /// Called when TCP, the tunnel and TLS of a connection are ready, and again when the server's settings
    /// have arrived. Returns true if the connection can carry requests.
    pub(super) fn greeted(&mut self, id: ConnectionId, now: u64) -> bool {
        let connection = &mut self.connections[id.index()];
        if connection.state() == State::Connecting {
            connection.step(Event::Reached);
        }
        let codec = connection.codec.many().expect("only HTTP/2 comes here");
        if codec.has_begun() {
            return !codec.is_greeting();
        }
        codec.begin(self.setup.streams, self.setup.mix.has_pauses(), &mut self.scratch.pieces);
        // The time limit for the server's settings is the same as for each step before.
        self.timeouts.connected(id);
        self.timeouts.connecting(id, now);
        self.list(id);
        false
    }

    /// Makes sure that [`Worker::flush`] sends the output of a connection, or retires the connection.
    pub(super) fn list(&mut self, id: ConnectionId) {
        let codec = self.many(id);
        if !std::mem::replace(&mut codec.is_listed, true) {
            self.unsent.push(id);
        }
    }

    /// Puts the request of an exchange into the buffer of its connection. If the server allows no further
    /// stream, the request waits.
    pub(super) fn send_on_stream(&mut self, id: ExchangeId, now: u64) {
        let connection_id = self.connection_of(id);
        let connection = &mut self.connections[connection_id.index()];
        let codec = connection.codec.many().expect("only HTTP/2 comes here");
        let exchange = &mut self.exchanges[id.index()];
        if !codec.has_room() {
            codec.waiting.push_back(id);
            if exchange.stream.waits_since.is_none() {
                exchange.stream.waits_since = Some(now);
                self.timeouts.sending(id, now);
            }
            return;
        }
        if exchange.stream.waits_since.is_some() {
            self.timeouts.failed(id);
        }
        let times = exchange.request.as_mut().expect("only an exchange with a request sends");
        connection.carried = connection.carried.saturating_add(1);
        let target = self.setup.mix.target(times.target);
        let parts = self.requests.next_parts(times.target);
        codec.prepare(&mut self.scratch.pieces);
        let (wire, out) = codec.parts().expect("a connection with room has begun");
        let (before, scheduled) = (out.len(), times.scheduled);
        let (has_talk, has_stream) = (target.has_talk(), target.stream.is_some());
        let ends = parts.body.is_empty() && !has_talk;
        let stream = wire.request(id.0, target.is_head, parts.block, parts.varying, ends, out);
        let stream = stream.expect("the connection has room");
        if !ends && !has_talk {
            let sent = wire.send_data(stream, parts.body, true, out).unwrap_or(0);
            if sent < parts.body.len() {
                let own = (!parts.body_is_fixed).then(|| parts.body.to_vec());
                exchange.stream.rest = Some(Box::new(Rest { sent, own, since: now }));
            } else {
                self.recorder.window_waited(times.scheduled, 0);
            }
        }
        times.length = (out.len() - before) as u64;
        (exchange.stream.id, exchange.stream.second) = (stream, connection.second);
        exchange.sent(target);
        codec.unsent.push(id);
        codec.in_flight += 1;
        self.recorder.streams_open(codec.in_flight);
        codec.draining |= self.setup.mix.is_last(connection.carried);
        self.list(connection_id);
        if self.sockets.is_some() {
            self.begin_socket(id);
        }
        // The messages of a WebSocket follow the answer to its handshake.
        if has_talk && target.handshake.is_none() {
            self.begin_talk(id, now);
        } else if has_stream && !has_talk {
            self.sent_talk(id, now, scheduled);
        }
    }

    /// Sends what the connections have collected.
    #[inline]
    pub(super) fn flush<L: EventLoop>(&mut self, io: &mut L) {
        if C::STREAMS && !self.unsent.is_empty() {
            self.flush_all(io);
        }
    }

    fn flush_all<L: EventLoop>(&mut self, io: &mut L) {
        let mut at = 0;
        while let Some(&id) = self.unsent.get(at) {
            at += 1;
            self.flush_one(io, id);
            if self.many(id).draining {
                self.make_way(io, id, clock::now());
            }
        }
        self.unsent.clear();
    }

    pub(super) fn flush_one<L: EventLoop>(&mut self, io: &mut L, id: ConnectionId) {
        let token = self.token(id);
        let connection = &mut self.connections[id.index()];
        let codec = connection.codec.many().expect("only HTTP/2 comes here");
        codec.is_listed = false;
        if codec.out.is_empty() {
            return;
        }
        let (out, mut unsent) = (std::mem::take(&mut codec.out), std::mem::take(&mut codec.unsent));
        let now = clock::now();
        let given = match &mut self.tls {
            None => io.send(token, &out),
            Some(tls) => tls.send(io, token, connection.session.as_deref_mut(), &out),
        };
        self.scratch.pieces.give_back(out);
        for exchange_id in unsent.drain(..) {
            let exchange = &mut self.exchanges[exchange_id.index()];
            // GOAWAY may have excluded a request that was not sent yet.
            if !exchange.in_flight || exchange.stream.second != connection.second {
                continue;
            }
            let Some(times) = &mut exchange.request else { continue };
            let is_retry = times.sent.is_some();
            times.sent.get_or_insert(now);
            let waited = exchange.stream.waits_since.take().map_or(0, |since| now.saturating_sub(since));
            if !is_retry {
                self.recorder.sent(times.scheduled, now, exchange.stream.id > 1);
                self.recorder.sent_on_stream(times.scheduled, now, waited);
            }
            let is_sending = self.messages.as_ref().is_some_and(|messages| {
                let stream = self.setup.mix.target(times.target).stream.as_ref();
                messages.is_sending(exchange_id, stream)
            });
            if is_sending {
                self.timeouts.sending(exchange_id, now);
            } else {
                self.timeouts.sent(exchange_id, now);
            }
        }
        self.many(id).unsent = unsent;
        if let Err(error) = given {
            self.streams_ended(io, id, now, Err(error));
        }
    }

    pub(super) fn read_current<L: EventLoop>(
        &mut self,
        io: &mut L,
        id: ConnectionId,
        now: u64,
        bytes: &[u8],
    ) {
        if self.awaits_tunnel(id) {
            return self.read_tunnel(io, id, now, bytes);
        }
        let Err(fault) = self.read_streams(io, id, now, bytes, true) else { return };
        let text = format!("HTTP/2: {fault}");
        if self.connections[id.index()].state() == State::Handshaking {
            let cause = match fault {
                Fault::Http1Answer | Fault::FirstFrame => Cause::NotHttp2,
                _ => Cause::MalformedResponse,
            };
            return self.not_established(io, id, now, cause, &text);
        }
        // Send the reason to the server.
        self.flush_one(io, id);
        if self.connections[id.index()].state() == State::Open {
            // The flush may have sent requests later than `now`.
            let now = clock::now().max(now);
            self.fail(io, id, now, Cause::MalformedResponse, &text);
        }
    }

    /// Reads bytes on a retired connection.
    pub(super) fn read_former<L: EventLoop>(&mut self, io: &mut L, id: ConnectionId, now: u64, bytes: &[u8]) {
        let Some(former) = &mut self.connections[id.index()].former else { return };
        let ended = match (&mut self.tls, &mut former.session) {
            (Some(tls), Some(session)) => {
                let received = session.receive(bytes, &mut tls.buffers, |_| {});
                let closed = session.peer_closed();
                let plain = std::mem::take(&mut tls.buffers.plain);
                let read = self.read_streams(io, id, now, &plain, false);
                if let Some(tls) = &mut self.tls {
                    tls.buffers.plain = plain;
                }
                let failure = received.err().map(|failure| failure.text().to_owned());
                failure
                    .or(read.err().map(|fault| fault.to_string()))
                    .map(io::Error::other)
                    .map(Err)
                    .or(closed.then_some(Ok(())))
            }
            _ => self.read_streams(io, id, now, bytes, false).err().map(|fault| Err(io::Error::other(fault))),
        };
        match ended {
            None => self.finish_former(io, id, now),
            Some(result) => {
                io.close(self.former_token(id));
                self.former_ended(io, id, now, result);
                self.retired(id);
            }
        }
    }

    /// Decodes bytes and handles their events. `present` is false for a retired connection.
    ///
    /// # Errors
    /// If the server violated the protocol. The connection cannot be used again.
    fn read_streams<L: EventLoop>(
        &mut self,
        io: &mut L,
        id: ConnectionId,
        now: u64,
        bytes: &[u8],
        present: bool,
    ) -> Result<(), Fault> {
        self.messages_read();
        let Some(codec) = codec_of(&mut self.connections, id, present) else { return Ok(()) };
        let mut joined = std::mem::take(&mut codec.spill);
        let input = if joined.is_empty() {
            bytes
        } else {
            joined.extend_from_slice(bytes);
            &joined
        };
        let mut at = 0;
        let result = loop {
            // An event can end the connection.
            let Some(codec) = codec_of(&mut self.connections, id, present) else { break Ok(()) };
            codec.prepare(&mut self.scratch.pieces);
            let Some((wire, out)) = codec.parts() else { break Ok(()) };
            match wire.advance(&input[at..], &mut self.scratch.sections, out) {
                Err(fault) => break Err(fault),
                Ok((consumed, Step::NeedMore)) => {
                    at += consumed;
                    break Ok(());
                }
                Ok((consumed, step)) => {
                    let frame = &input[at..at + consumed];
                    at += consumed;
                    self.handle(io, (id, present), now, step, frame);
                }
            }
        };
        let rest = &input[at.min(input.len())..];
        if let Some(codec) = codec_of(&mut self.connections, id, present)
            && codec.has_begun()
        {
            if !rest.is_empty() {
                codec.spill = self.scratch.pieces.take();
                codec.spill.extend_from_slice(rest);
            }
            if codec.out.is_empty() {
                self.scratch.pieces.give_back(std::mem::take(&mut codec.out));
            }
            if present && (!codec.out.is_empty() || codec.draining) {
                self.list(id);
            }
        }
        self.scratch.pieces.give_back(joined);
        result
    }

    /// Handles an event of a connection. `frame` has the bytes that belong to it.
    fn handle<L: EventLoop>(
        &mut self,
        io: &mut L,
        (id, present): (ConnectionId, bool),
        now: u64,
        step: Step,
        frame: &[u8],
    ) {
        match step {
            Step::NeedMore | Step::Pong(_) => {}
            Step::Settings => {
                let limit =
                    codec_of(&mut self.connections, id, present).and_then(|codec| codec.stream_limit());
                self.recorder.stream_limit(limit);
                match (present, self.connections[id.index()].state()) {
                    (true, State::Handshaking) => self.established(io, id, now),
                    (true, State::Open) => self.send_waiting(id, now),
                    _ => {}
                }
            }
            Step::Interim { stream } => {
                if let Some(exchange) = self.exchange_of(id, present, stream) {
                    self.begin_response(exchange, now, frame);
                }
            }
            Step::Head { stream, end } => {
                let Some(exchange) = self.exchange_of(id, present, stream) else { return };
                self.begin_response(exchange, now, frame);
                self.read_head(exchange, now, end);
                if self.sockets.is_some() && self.is_accepting(exchange) {
                    self.accepted_on_stream(io, exchange, now, present, end);
                } else if end {
                    self.response_complete(io, exchange, now, present);
                }
            }
            Step::Body { stream, data, end } => {
                let Some(exchange_id) = self.exchange_of(id, present, stream) else {
                    return self.late_end(id, now, present && end);
                };
                if self.is_socket(exchange_id) {
                    self.exchanges[exchange_id.index()].answer.bytes += frame.len() as u64;
                    self.hear_frames(io, exchange_id, now, present, &frame[data]);
                    if end && self.exchange_of(id, present, stream).is_some() {
                        self.socket_cut(io, exchange_id, now, Ok(()));
                    }
                    return;
                }
                let exchange = &mut self.exchanges[exchange_id.index()];
                let target = self.setup.mix.target(exchange.request.expect("a request in flight").target);
                exchange.answer.bytes += frame.len() as u64;
                exchange.answer.body += data.len() as u64;
                target.checks.body(&frame[data.clone()], &mut exchange.answer.progress);
                match target.carrier() {
                    Some(Carrier::Grpc | Carrier::Events) => {
                        self.hear(exchange_id, now, present, &frame[data]);
                    }
                    None if target.is_call => exchange.answer.read_messages(target, &frame[data]),
                    Some(Carrier::WebSocket) | None => {}
                }
                if end {
                    self.response_complete(io, exchange_id, now, present);
                }
            }
            Step::Trailers { stream } => {
                let Some(exchange) = self.exchange_of(id, present, stream) else {
                    return self.late_end(id, now, present);
                };
                if self.is_socket(exchange) {
                    return self.socket_cut(io, exchange, now, Ok(()));
                }
                let of = &mut self.exchanges[exchange.index()];
                let times = of.request.expect("a request in flight");
                of.answer.bytes += frame.len() as u64;
                let target = self.setup.mix.target(times.target);
                // Clients of gRPC-Web do not see HTTP trailers.
                if target.is_call && !target.is_web {
                    of.answer.read_call_status(self.scratch.sections.trailers.fields());
                }
                self.response_complete(io, exchange, now, present);
            }
            Step::Reset { stream, code, unprocessed } => {
                self.recorder.stream_reset(code == Code::REFUSED_STREAM);
                if let Some(exchange) = self.exchange_of(id, present, stream) {
                    self.stream_reset(io, exchange, now, code, unprocessed);
                }
                self.send_waiting(id, now);
            }
            Step::Failed { stream, fault } => {
                if let Some(exchange) = self.exchange_of(id, present, stream) {
                    self.leave_stream(exchange, now);
                    self.fail_request(exchange, now, Cause::MalformedResponse, &format!("HTTP/2: {fault}"));
                    self.freed(io, exchange, now);
                }
                self.send_waiting(id, now);
            }
            Step::Writable { stream } => {
                if let Some(exchange) = self.exchange_of(id, present, stream) {
                    self.send_rest(exchange, now, present);
                }
            }
            Step::GoAway { code, .. } => {
                self.recorder.go_away(code == Code::ENHANCE_YOUR_CALM);
                let Some(codec) = codec_of(&mut self.connections, id, present) else { return };
                if !std::mem::replace(&mut codec.draining, true) {
                    self.recorder.closed_by_peer(now);
                }
            }
        }
    }

    /// Called for data on a stream whose request already has its outcome. This happens with WebSockets: they
    /// are complete at the server's close frame, but their streams can end later. `ends` is true if the
    /// stream has ended and is on the current connection, so that another request can use its place.
    fn late_end(&mut self, id: ConnectionId, now: u64, ends: bool) {
        if ends {
            self.send_waiting(id, now);
        }
    }

    /// Returns the exchange of a stream. `None` if its request has its outcome already.
    fn exchange_of(&self, id: ConnectionId, present: bool, stream: StreamRef) -> Option<ExchangeId> {
        let exchange = self.exchanges.get(stream.tag as usize)?;
        let second = self.connections[id.index()].second == present;
        let is_same =
            exchange.in_flight && exchange.stream.id == stream.id && exchange.stream.second == second;
        is_same.then_some(ExchangeId(stream.tag))
    }

    /// True if the stream of an exchange is on the current connection, and not on the retired one.
    pub(super) fn is_present(&self, exchange: ExchangeId) -> bool {
        let connection = &self.connections[self.connection_of(exchange).index()];
        self.exchanges[exchange.index()].stream.second == connection.second
    }

    fn begin_response(&mut self, id: ExchangeId, now: u64, frame: &[u8]) {
        let exchange = &mut self.exchanges[id.index()];
        exchange.answer.bytes += frame.len() as u64;
        let times = exchange.request.as_mut().expect("a request in flight");
        if times.first_byte.is_none() {
            times.first_byte = Some(now);
            self.timeouts.responding(id);
        }
    }

    /// Reads the head of a response. `end` is true if the response has nothing else.
    fn read_head(&mut self, id: ExchangeId, now: u64, end: bool) {
        let exchange = &mut self.exchanges[id.index()];
        let target = self.setup.mix.target(exchange.request.expect("a request in flight").target);
        let head = &self.scratch.sections.head;
        exchange.answer.status = head.status();
        if is_redirect(head.status()) && self.scratch.redirected_to.is_none() {
            self.scratch.redirected_to = head.fields().get("location").and_then(redirect::shown);
        }
        target.checks.fields(head.fields().iter(), &mut exchange.answer.progress);
        if (end || target.is_web) && target.is_call {
            exchange.answer.read_call_status(head.fields());
        }
        if self.setup.stamps {
            exchange.answer.stamped = Stamped::of_value(head.fields().get(stamp::HEADER));
        }
        if target.stream.is_some() {
            let head = StreamHead::of_fields(|name| head.fields().get(name));
            self.hear_head(id, now, head);
        }
    }

    /// Called when a response is complete. The exchange gets its next request.
    pub(super) fn response_complete<L: EventLoop>(
        &mut self,
        io: &mut L,
        id: ExchangeId,
        now: u64,
        present: bool,
    ) {
        self.timeouts.completed(id);
        self.pace.proved();
        let connection_id = self.connection_of(id);
        let stream = self.exchanges[id.index()].stream.id;
        let fault = self.token_fault(id);
        let has_rest = self.end_talk(id, now) | self.exchanges[id.index()].stream.rest.is_some();
        let is_overtaken = codec_of(&mut self.connections, connection_id, present)
            .is_some_and(|codec| codec.completed(stream));
        self.leave_stream(id, now);
        if has_rest {
            // The server does not need the rest of the request.
            self.cancel_stream(connection_id, present, stream, now);
        }
        let exchange = &mut self.exchanges[id.index()];
        exchange.in_flight = false;
        let times = exchange.request.take().expect("a request in flight");
        let response = exchange.answer.response(self.setup.mix.target(times.target));
        let stamped = exchange.answer.stamped;
        self.active -= 1;
        let counts = match fault {
            None => self.recorder.completed(times, now, response),
            Some((cause, text)) => {
                self.recorder.failed(times, now, cause, text);
                false
            }
        };
        if counts && is_overtaken {
            self.recorder.overtaken();
        }
        if self.setup.stamps && fault.is_none() {
            self.recorder.stamped(times, now, stamped);
        }
        let connection = &mut self.connections[connection_id.index()];
        connection.failures = 0;
        connection.answered += u32::from(counts);
        if present {
            let is_spent = connection.session.as_ref().is_some_and(|session| session.is_spent());
            self.many(connection_id).draining |= is_spent;
            self.send_waiting(connection_id, now);
        }
        self.freed(io, id, now);
    }

    /// Drops the unsent rest of a body when its request has ended. Its wait for a window counts until now.
    pub(super) fn stop_upload(&mut self, id: ExchangeId, now: u64) {
        let exchange = &mut self.exchanges[id.index()];
        if let (Some(rest), Some(times)) = (exchange.stream.rest.take(), exchange.request) {
            self.recorder.window_waited(times.scheduled, now.saturating_sub(rest.since));
        }
    }

    /// Called when an exchange has no stream any longer.
    pub(super) fn leave_stream(&mut self, id: ExchangeId, now: u64) {
        self.stop_upload(id, now);
        let (connection, present) = (self.connection_of(id), self.is_present(id));
        if let Some(codec) = codec_of(&mut self.connections, connection, present) {
            codec.in_flight = codec.in_flight.saturating_sub(1);
        }
        let stream = &mut self.exchanges[id.index()].stream;
        (stream.id, stream.waits_since) = (0, None);
    }

    /// Resets a stream that is no longer needed. If the server could take this for an attack, the
    /// connection is retired instead.
    pub(super) fn cancel_stream(&mut self, id: ConnectionId, present: bool, stream: u32, now: u64) {
        let Some(codec) = codec_of(&mut self.connections, id, present) else { return };
        if !codec.may_cancel(now) {
            codec.draining = true;
        } else if let Some((wire, out)) = codec.parts() {
            wire.reset(stream, Code::CANCEL, out);
        }
        if present {
            self.list(id);
        }
    }

    /// Sends requests that waited for a stream.
    pub(super) fn send_waiting(&mut self, id: ConnectionId, now: u64) {
        loop {
            let codec = self.many(id);
            if codec.waiting.is_empty() || !codec.has_room() {
                return;
            }
            let next = codec.waiting.pop_front().expect("one waits");
            self.send_on_stream(next, now);
        }
    }

    /// Sends more of a body, as far as the windows allow.
    fn send_rest(&mut self, id: ExchangeId, now: u64, present: bool) {
        if self.is_socket(id) {
            return self.send_waiting_frames(id, now, present);
        }
        let connection = self.connection_of(id);
        let exchange = &mut self.exchanges[id.index()];
        let times = exchange.request.as_mut().expect("a request in flight");
        if self.setup.mix.target(times.target).has_talk() {
            return self.talk(id, now, present);
        }
        let Some(rest) = &mut exchange.stream.rest else { return };
        let Some(codec) = codec_of(&mut self.connections, connection, present) else { return };
        let Some((wire, out)) = codec.parts() else { return };
        let body =
            rest.own.as_deref().or_else(|| self.setup.mix.fixed_body(times.target)).unwrap_or_default();
        let before = out.len();
        rest.sent += wire.send_data(exchange.stream.id, &body[rest.sent..], true, out).unwrap_or(0);
        times.length += (out.len() - before) as u64;
        if rest.sent == body.len() {
            self.recorder.window_waited(times.scheduled, now.saturating_sub(rest.since));
            exchange.stream.rest = None;
        }
    }

    /// Called when the server has reset the stream of a request.
    fn stream_reset<L: EventLoop>(
        &mut self,
        io: &mut L,
        id: ExchangeId,
        now: u64,
        code: Code,
        unprocessed: bool,
    ) {
        self.leave_stream(id, now);
        let exchange = &self.exchanges[id.index()];
        if unprocessed && !exchange.stream.sent_again {
            if let Some(times) = exchange.request.filter(|times| times.sent.is_some()) {
                self.recorder.unprocessed(times.scheduled);
            }
            self.send_again(id);
            return self.resume(io, id, now);
        }
        let (cause, text) = match (unprocessed, code == Code::REFUSED_STREAM) {
            (_, true) => (Cause::StreamRefused, "HTTP/2: the server refused the stream".to_owned()),
            (true, false) => {
                (Cause::GoawayUnprocessed, format!("HTTP/2: GOAWAY ({code}) left the request unprocessed"))
            }
            (false, false) => (Cause::StreamReset, format!("HTTP/2: the server reset the stream ({code})")),
        };
        let (cause, text) = self.cause_of_end(id, now, (cause, text));
        self.fail_request(id, now, cause, &text);
        self.freed(io, id, now);
    }

    /// Prepares to send the request of an exchange once more. It keeps the time when it was due.
    pub(super) fn send_again(&mut self, id: ExchangeId) {
        self.timeouts.failed(id);
        let exchange = &mut self.exchanges[id.index()];
        exchange.in_flight = false;
        exchange.stream.id = 0;
        let times = exchange.request.as_mut().expect("a request without an outcome");
        times.first_byte = None;
        // A request that was still in the buffer is not sent again, but for the first time.
        if times.sent.is_some() {
            exchange.stream.sent_again = true;
            self.recorder.retried(times.scheduled);
        }
    }

    /// Sends the request of an exchange as soon as there is a connection.
    fn resume<L: EventLoop>(&mut self, io: &mut L, id: ExchangeId, now: u64) {
        let connection = self.connection_of(id);
        match self.connections[connection.index()].state() {
            State::Open => self.send_on_stream(id, now),
            State::Down => {
                self.queue_connect(connection);
                self.connect_queued(io);
            }
            _ => {}
        }
    }

    /// Called when a connection can carry requests, or can be opened again after a failure.
    pub(super) fn resume_streams<L: EventLoop>(&mut self, io: &mut L, id: ConnectionId, now: u64) {
        for exchange_id in self.exchanges_on(id) {
            let exchange = &self.exchanges[exchange_id.index()];
            if exchange.in_flight || exchange.stream.waits_since.is_some() {
                continue;
            }
            if exchange.request.is_some() {
                self.resume(io, exchange_id, now);
            } else if !exchange.is_free
                && !self.starting.contains(&exchange_id.0)
                && self.connections[id.index()].state() != State::Resting
            {
                self.freed(io, exchange_id, now);
            }
        }
    }

    /// Called when the connection has failed: no request on it, and none that waits for it, gets a response.
    pub(super) fn streams_failed(&mut self, id: ConnectionId, now: u64, cause: Cause, text: &str) {
        for exchange in self.exchanges_on(id) {
            let is_former = self.exchanges[exchange.index()].in_flight && !self.is_present(exchange);
            if !is_former && self.exchanges[exchange.index()].request.is_some() {
                self.stop_upload(exchange, now);
                self.exchanges[exchange.index()].stream.clear();
                self.fail_request(exchange, now, cause, text);
            }
        }
        self.withdraw(id);
    }

    /// Takes the exchanges of a connection that must rest from the list of free exchanges.
    pub(super) fn withdraw(&mut self, id: ConnectionId) {
        let count = self.connections.len() as u32;
        self.free.retain(|exchange| exchange.0 % count != id.0);
        for exchange in self.exchanges_on(id) {
            self.exchanges[exchange.index()].is_free = false;
        }
    }
}
