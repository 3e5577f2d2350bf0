//! Streams of messages: the calls of a worker that send or receive more than one message.
//!
//! Messages of the client have a fixed schedule that begins when the call is due. A late message does not
//! delay the next ones. If there is no time between messages, each is due when the previous one is answered,
//! or at once if the server does not answer each message.
//!
//! With HTTP/1, only the server sends streams: gRPC-Web and server-sent events.

use super::Worker;
use super::streams::codec_of;
use super::talks::{Messages, after_turn, due, is_awaited, write_stamp};
use crate::codec::Codec;
use crate::event_loop::EventLoop;
use crate::exchange::{Exchange, ExchangeId};
use crate::recorder::Response;
use crate::stream_head::StreamHead;
use hoptax_format::grpc::Status;
use hoptax_format::llm::{Leave, TokenCounts};
use hoptax_format::messages::{Carrier, Stamp, StreamKind};
use hoptax_format::record::Cause;
use hoptax_wire::grpc::Step;

impl<C: Codec> Worker<'_, C> {
    /// Called when the head of a call with streams was written. Sends the messages that are due.
    pub(super) fn begin_talk(&mut self, id: ExchangeId, now: u64) {
        let Some(messages) = &mut self.messages else { return };
        messages.talks[id.index()].begin(0, Some(now));
        self.talk(id, now, true);
    }

    /// Called when the client has sent its only message, which was due at `scheduled`. This is a request for
    /// events, or with HTTP/1, a gRPC-Web call with a stream.
    pub(super) fn sent_talk(&mut self, id: ExchangeId, now: u64, scheduled: u64) {
        let leave = self.token_spec(id).and_then(|tokens| tokens.leave);
        let Some(messages) = &mut self.messages else { return };
        let leaves_at = match leave {
            Some(Leave::AfterNs(ns)) => Some(now.saturating_add(ns.max(1))),
            Some(Leave::AfterTokens(_)) | None => None,
        };
        messages.talks[id.index()].begin(1, leaves_at);
        messages.queue(id, now, None);
        self.recorder.message_sent(scheduled);
    }

    /// Sends all messages that are due at `now`. Also leaves streams of tokens if the client leaves now, and
    /// resumes reading those whose pause is over.
    pub(super) fn send_due_messages<L: EventLoop>(&mut self, io: &mut L, now: u64) {
        while let Some(id) = self.messages.as_mut().and_then(|messages| messages.take_due(now)) {
            let exchange = &self.exchanges[id.index()];
            if exchange.in_flight && self.is_socket(id) {
                self.send_due_frames(io, id, now);
            } else if exchange.in_flight
                && let Some(tokens) = self.token_spec(id)
            {
                match tokens.pause {
                    Some(_) => self.read_on(io, id, now),
                    None => self.leave(io, id, now),
                }
            } else if exchange.in_flight && exchange.stream.id != 0 {
                let present = self.is_present(id);
                self.talk(id, now, present);
                if !present {
                    self.finish_former(io, self.connection_of(id), now);
                }
            }
        }
    }

    /// Sends the messages of an exchange that are due at `now`, as far as the flow-control windows allow.
    pub(super) fn talk(&mut self, id: ExchangeId, now: u64, present: bool) {
        let connection = self.connection_of(id);
        let exchange = &mut self.exchanges[id.index()];
        let (Some(messages), Some(times)) = (&mut self.messages, &mut exchange.request) else { return };
        let Some(stream) = &self.setup.mix.target(times.target).stream else { return };
        let spec = stream.spec;
        let Some(codec) = codec_of(&mut self.connections, connection, present) else { return };
        codec.prepare(&mut self.scratch.pieces);
        let Some((wire, out)) = codec.parts() else { return };
        let Messages { talks, frames, .. } = &mut **messages;
        let (talk, frame) = (&mut talks[id.index()], &mut frames[times.target as usize]);
        let (before, due_before) = (out.len(), talk.due);
        // If the server owes answers, more messages do not extend its time limit.
        let extends =
            spec.kind == StreamKind::ClientStream || talk.received.different() >= u64::from(talk.sent);
        if !talk.rest.is_empty() {
            let is_last = talk.sent == spec.to_send();
            let sent = wire.send_data(exchange.stream.id, &talk.rest, is_last, out).unwrap_or(0);
            talk.rest.drain(..sent);
        }
        while talk.rest.is_empty()
            && let Some(at) = talk.due.take_if(|due| *due <= now)
        {
            // A message that follows an answer is due now. Other messages are due by the schedule.
            let is_first = talk.sent == 0;
            let message_due = due(spec, times.scheduled, talk.sent).unwrap_or(at);
            let message_due = if is_first { times.scheduled } else { message_due };
            write_stamp(frame, Stamp { number: talk.sent.into(), due: message_due });
            talk.sent += 1;
            let is_last = talk.sent == spec.to_send();
            let Some(sent) = wire.send_data(exchange.stream.id, frame, is_last, out) else { break };
            talk.rest.extend_from_slice(&frame[sent..]);
            self.recorder.message_sent(message_due);
            if !is_last {
                talk.due = after_turn(due(spec, times.scheduled, talk.sent), now, out.len() - before);
            }
        }
        times.length += (out.len() - before) as u64;
        let has_sent = out.len() > before;
        if has_sent && extends {
            self.timeouts.heard(id, now);
            let answers_last = spec.kind == StreamKind::ClientStream && talk.has_sent_all(spec);
            if answers_last && times.first_byte.is_none() {
                self.timeouts.sent_last(id, now);
            }
        }
        messages.queue(id, now, due_before);
        // The caller sends the output of a retired connection.
        if present && has_sent {
            self.list(connection);
        }
    }

    /// Called before the bytes of a read are decoded.
    pub(super) fn messages_read(&mut self) {
        if let Some(messages) = &mut self.messages {
            messages.reads += 1;
        }
    }

    /// Called when the head of a response with a stream is whole.
    pub(super) fn hear_head(&mut self, id: ExchangeId, now: u64, head: StreamHead) {
        let request = self.exchanges[id.index()].request;
        let (Some(messages), Some(times)) = (&mut self.messages, request) else { return };
        messages.talks[id.index()].events.is_encoded = head.is_encoded;
        self.recorder.head_arrived(times, now);
    }

    /// Reads a part of the server's messages.
    pub(super) fn hear(&mut self, id: ExchangeId, now: u64, present: bool, mut data: &[u8]) {
        let exchange = &mut self.exchanges[id.index()];
        let (Some(messages), Some(times)) = (&mut self.messages, exchange.request) else { return };
        let target = self.setup.mix.target(times.target);
        let Some(stream) = &target.stream else { return };
        if stream.spec.carrier == Carrier::Events {
            return self.hear_events(id, now, data);
        }
        let (spec, read) = (stream.spec, messages.reads);
        let talk = &mut messages.talks[id.index()];
        let mut arrived = false;
        // After a fault, the call is no success.
        while let Ok((consumed, step)) = exchange.answer.advance(target, data) {
            let is_whole = match step {
                Step::NeedMore => break,
                Step::Begin { length, .. } => length == 0,
                Step::Data { data: part, end } => {
                    talk.received.part(&data[part]);
                    end
                }
            };
            data = &data[consumed..];
            if is_whole {
                arrived = true;
                let stamp = talk.received.stamp();
                let (place, arrival) = talk.received.message(stamp, (now, read), spec);
                self.recorder.message_arrived(times, arrival);
                if is_awaited(spec, place) && talk.sent < spec.to_send() {
                    talk.due = Some(now);
                }
            }
        }
        if arrived {
            self.timeouts.heard(id, now);
            if talk.due.is_some_and(|due| due <= now) && talk.rest.is_empty() {
                self.talk(id, now, present);
            }
        }
    }

    /// HTTP/1: handles the bytes of the last read that belong to a response with a stream of messages.
    /// Returns the response so far. `None` if the read brought no part of its body.
    #[inline]
    pub(super) fn hear_read(&mut self, id: ExchangeId, now: u64) -> Option<Response> {
        self.messages.as_ref()?;
        if let Some(head) = self.scratch.stream_head.take() {
            self.hear_head(id, now, head);
        }
        if self.scratch.messages.is_empty() {
            return None;
        }
        self.messages_read();
        let mut data = std::mem::take(&mut self.scratch.messages);
        self.hear(id, now, true, &data);
        data.clear();
        self.scratch.messages = data;
        let Exchange { request, answer, .. } = &self.exchanges[id.index()];
        request.map(|times| answer.response(self.setup.mix.target(times.target)))
    }

    /// Called when a response with a stream is complete. Returns true if some messages of the client were not
    /// sent.
    pub(super) fn end_talk(&mut self, id: ExchangeId, now: u64) -> bool {
        let exchange = &self.exchanges[id.index()];
        let (Some(messages), Some(times)) = (&mut self.messages, exchange.request) else { return false };
        let target = self.setup.mix.target(times.target);
        let Some(stream) = &target.stream else { return false };
        let talk = &mut messages.talks[id.index()];
        let fault = talk.token_fault(stream.spec, exchange.answer.status).map(|fault| fault.0);
        // A failed call loses no messages: its status says that none follow.
        let is_success = match stream.spec.carrier {
            Carrier::Grpc => exchange.answer.call(target).status == Status::Ok,
            Carrier::Events if talk.events.is_encoded || fault.is_some() => false,
            // A check can expect the server to refuse, and a refusal has no messages.
            Carrier::WebSocket if !self.sockets.as_ref().is_some_and(|all| all.is_accepted(id)) => false,
            Carrier::Events | Carrier::WebSocket => exchange.answer.response(target).failed.is_none(),
        };
        if is_success {
            let received = &talk.received;
            let lost = match stream.spec.to_receive() {
                Some(expected) if !stream.spec.fan_out => {
                    u64::from(expected).saturating_sub(received.different())
                }
                _ => received.missing(),
            };
            let numbers = match (stream.spec.carrier, stream.spec.kind) {
                // Messages of other servers have no numbers.
                (Carrier::Events | Carrier::WebSocket, StreamKind::ServerStream) => {
                    received.has_numbers() || stream.spec.same_clock
                }
                // The answer to a stream of the client is one message, which needs no number.
                _ => target.receives_stream(),
            };
            let unnumbered = if numbers { received.unnumbered } else { 0 };
            self.recorder.messages_lost(times.scheduled, now, lost, unnumbered);
        }
        if let Some((counts, per_token)) = talk.end_tokens(stream.spec, (times, now), is_success) {
            let unended = u64::from(fault == Some(Cause::StreamUnended));
            self.recorder.tokens_ended(times.scheduled, (TokenCounts { unended, ..counts }, per_token));
        }
        if talk.leave_fan_out(stream.spec) {
            self.recorder.fan_out_ended();
        }
        let has_rest = messages.end(id, stream.spec);
        if target.handshake.is_some() {
            return self.end_socket(id, now);
        }
        has_rest
    }

    /// Called when a request with streams has failed.
    pub(super) fn drop_talk(&mut self, id: ExchangeId) {
        let request = self.exchanges[id.index()].request;
        let (Some(messages), Some(times)) = (&mut self.messages, request) else { return };
        let Some(stream) = &self.setup.mix.target(times.target).stream else { return };
        let talk = &mut messages.talks[id.index()];
        if let Some(seen) = talk.take_tokens(stream.spec) {
            self.recorder.tokens_ended(times.scheduled, seen);
        }
        if talk.leave_fan_out(stream.spec) {
            self.recorder.fan_out_ended();
        }
    }
}
