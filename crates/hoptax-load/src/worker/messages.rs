//! Streams of messages: the calls of a worker that send or receive more than one message.
//!
//! A message of the client is due at a fixed time after the call was due, however late the one before was
//! sent. Without a time between messages, the next one is due when the answer to the one before has arrived,
//! or at once if the server does not answer each message.
//!
//! With HTTP/1, only the server sends streams (gRPC-Web).

use super::Worker;
use super::streams::codec_of;
use crate::codec::Codec;
use crate::event_loop::EventLoop;
use crate::exchange::{Exchange, ExchangeId};
use crate::recorder::{Arrival, Response};
use crate::target::{CallStream, Mix};
use hoptax_format::grpc::Status;
use hoptax_format::messages::{Stamp, StreamKind, StreamSpec};
use hoptax_wire::grpc::{self, PREFIX, Step};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Number of messages before the expected one whose arrival is remembered.
const REMEMBERED: u64 = 64;
/// Number of bytes after which a stream whose messages are all due lets the worker do its other work.
const TURN: usize = 64 * 1024;

/// The streams of a worker's exchanges.
#[derive(Debug)]
pub(super) struct Messages {
    talks: Vec<Talk>,
    /// When the next message of an exchange is due. Entries of calls that have ended are skipped.
    due: BinaryHeap<Reverse<(u64, ExchangeId)>>,
    /// A message of each target with its prefix, whose stamp is written before each use.
    frames: Vec<Vec<u8>>,
    /// Number of reads so far.
    reads: u64,
}

/// The streams of a call.
#[derive(Debug, Default)]
struct Talk {
    /// Number of messages that were passed to the connection, whole or in part.
    sent: u32,
    /// The part of a message that waits for a flow-control window.
    rest: Vec<u8>,
    /// When the next message is due. Absent if that is not known yet, or if there is none.
    due: Option<u64>,
    received: Received,
}

/// The messages of the server.
#[derive(Debug, Default)]
struct Received {
    /// First bytes of the current message.
    start: [u8; Stamp::LENGTH],
    start_length: usize,
    /// One more than the largest number so far.
    next: u64,
    /// Bit `n` is set if the message with the number `next - 1 - n` has arrived.
    seen: u64,
    /// Number of different messages.
    distinct: u64,
    /// Number of messages without a stamp.
    unnumbered: u64,
    /// When the latest message arrived. Absent before the first.
    latest: Option<Latest>,
}

#[derive(Debug, Clone, Copy)]
struct Latest {
    at: u64,
    due: Option<u64>,
    /// Number of the read that brought it.
    read: u64,
}

/// What the number of a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    InOrder,
    Late,
    Repeated,
}

impl Received {
    /// Reads a part of a message.
    fn part(&mut self, data: &[u8]) {
        let room = &mut self.start[self.start_length..];
        let length = room.len().min(data.len());
        room[..length].copy_from_slice(&data[..length]);
        self.start_length += length;
    }

    /// Number of messages, without those that were repeated.
    fn different(&self) -> u64 {
        self.distinct + self.unnumbered
    }

    /// The stamp of the message that has ended.
    fn stamp(&mut self) -> Option<Stamp> {
        let length = std::mem::take(&mut self.start_length);
        Stamp::read(&self.start[..length])
    }

    /// Notes the arrival of the message with this number.
    fn number(&mut self, number: u64) -> Place {
        if number >= self.next {
            // A faulty gateway can send any number.
            let step = (number - self.next).saturating_add(1);
            self.seen = if step < REMEMBERED { self.seen << step | 1 } else { 1 };
            self.next = number.saturating_add(1);
            self.distinct += 1;
            return Place::InOrder;
        }
        let back = self.next - 1 - number;
        // An older message is late rather than repeated: gateways that repeat do so at once.
        if back < REMEMBERED && self.seen & 1 << back != 0 {
            return Place::Repeated;
        }
        if back < REMEMBERED {
            self.seen |= 1 << back;
        }
        self.distinct += 1;
        Place::Late
    }
}

impl Messages {
    /// Room for the streams of `exchanges` exchanges. `None` if no target has streams.
    pub(super) fn new(mix: &Mix<'_>, exchanges: u32) -> Option<Box<Self>> {
        let frames: Vec<Vec<u8>> = mix.targets().map(|target| frame_of(target.stream.as_ref())).collect();
        frames.iter().any(|frame| !frame.is_empty()).then(|| {
            let talks = (0..exchanges).map(|_| Talk::default()).collect();
            let due = BinaryHeap::with_capacity(2 * exchanges as usize);
            Box::new(Self { talks, due, frames, reads: 0 })
        })
    }

    /// When the next message is due, or `u64::MAX` if there is none.
    pub(super) fn next(&self) -> u64 {
        self.due.peek().map_or(u64::MAX, |Reverse((due, _))| *due)
    }

    /// Queues an exchange until its next message is due. `before` is when its next message was due before the
    /// exchange sent messages at `now`: if this has not changed, the exchange is in the queue already. A
    /// message that waits for a window is not queued, because the window's opening sends it.
    fn queue(&mut self, exchange: ExchangeId, now: u64, before: Option<u64>) {
        let due = self.talks[exchange.index()].due;
        if let Some(at) = due
            && at > now
            && due != before
        {
            self.due.push(Reverse((at, exchange)));
        }
    }

    /// Returns an exchange whose next message is due at `now`.
    fn take_due(&mut self, now: u64) -> Option<ExchangeId> {
        while self.next() <= now {
            let Reverse((due, exchange)) = self.due.pop()?;
            if self.talks[exchange.index()].due == Some(due) {
                return Some(exchange);
            }
        }
        None
    }

    /// True if the client has messages of its stream left to send. The server answers after the last one.
    pub(super) fn is_sending(&self, exchange: ExchangeId, stream: Option<&CallStream>) -> bool {
        let Some(CallStream { spec, .. }) = stream else { return false };
        let talk = &self.talks[exchange.index()];
        spec.kind == StreamKind::ClientStream && !talk.has_sent_all(*spec)
    }

    /// Ends the streams of an exchange. Returns true if some messages were not sent.
    pub(super) fn end(&mut self, exchange: ExchangeId, spec: StreamSpec) -> bool {
        let talk = &mut self.talks[exchange.index()];
        talk.due = None;
        !talk.has_sent_all(spec)
    }
}

impl Talk {
    fn has_sent_all(&self, spec: StreamSpec) -> bool {
        self.sent == spec.to_send() && self.rest.is_empty()
    }
}

/// The message of a target with its prefix. Empty if the target has no streams.
fn frame_of(stream: Option<&CallStream>) -> Vec<u8> {
    let mut frame = Vec::new();
    if let Some(stream) = stream {
        grpc::write_message(&mut frame, &stream.message).expect("the length was checked");
    }
    frame
}

fn write_stamp(frame: &mut [u8], stamp: Stamp) {
    let room = &mut frame[PREFIX..PREFIX + Stamp::LENGTH];
    stamp.write(room.try_into().expect("as long as a stamp"));
}

/// When the message after `sent` others is due. `None` if its time depends on an answer.
fn due(spec: StreamSpec, first: u64, sent: u32) -> Option<u64> {
    match (spec.every_ns, spec.kind) {
        (0, StreamKind::BothWays) => None,
        (every, _) => Some(first.saturating_add(every.saturating_mul(sent.into()))),
    }
}

/// True if the client sends its next message because this one has arrived.
fn is_awaited(spec: StreamSpec, place: Option<Place>) -> bool {
    spec.every_ns == 0 && spec.kind == StreamKind::BothWays && place != Some(Place::Repeated)
}

/// When the next message can be sent, if this stream has sent this number of bytes at `now`.
fn after_turn(due: Option<u64>, now: u64, sent: usize) -> Option<u64> {
    if sent < TURN { due } else { due.map(|due| due.max(now.saturating_add(1))) }
}

impl<C: Codec> Worker<'_, C> {
    /// Called when the head of a call with streams was written. Sends the messages that are due.
    pub(super) fn begin_talk(&mut self, id: ExchangeId, now: u64) {
        let Some(messages) = &mut self.messages else { return };
        let talk = &mut messages.talks[id.index()];
        talk.rest.clear();
        *talk = Talk { rest: std::mem::take(&mut talk.rest), due: Some(now), ..Talk::default() };
        self.talk(id, now, true);
    }

    /// HTTP/1: called when a gRPC-Web call with a stream was sent. The request is the client's only message,
    /// which was due at `scheduled`.
    pub(super) fn sent_talk(&mut self, id: ExchangeId, scheduled: u64) {
        let Some(messages) = &mut self.messages else { return };
        messages.talks[id.index()] = Talk { sent: 1, ..Talk::default() };
        self.recorder.message_sent(scheduled);
    }

    /// Sends all messages that are due at `now`.
    pub(super) fn send_due_messages<L: EventLoop>(&mut self, io: &mut L, now: u64) {
        while let Some(id) = self.messages.as_mut().and_then(|messages| messages.take_due(now)) {
            let exchange = &self.exchanges[id.index()];
            if exchange.in_flight && exchange.stream.id != 0 {
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
            // A message that follows an answer is due now. The others have their place in the schedule.
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

    /// Reads a part of the server's messages.
    pub(super) fn hear(&mut self, id: ExchangeId, now: u64, present: bool, mut data: &[u8]) {
        let exchange = &mut self.exchanges[id.index()];
        let (Some(messages), Some(times)) = (&mut self.messages, exchange.request) else { return };
        let target = self.setup.mix.target(times.target);
        let Some(stream) = &target.stream else { return };
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
                let received = &mut talk.received;
                let stamp = received.stamp();
                let place = stamp.map(|stamp| received.number(stamp.number));
                received.unnumbered += u64::from(place.is_none());
                let due = stamp.map(|stamp| stamp.due);
                let before = received.latest.replace(Latest { at: now, due, read });
                self.recorder.message_arrived(
                    times,
                    Arrival {
                        now,
                        due,
                        spec,
                        repeated: place == Some(Place::Repeated),
                        reordered: place == Some(Place::Late),
                        before: before.map(|before| before.at),
                        merged: before.is_some_and(|before| before.read == read && before.due != due),
                    },
                );
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

    /// HTTP/1: reads what the last read brought of a stream of messages. Returns the response so far. `None`
    /// if the read brought nothing.
    #[inline]
    pub(super) fn hear_read(&mut self, id: ExchangeId, now: u64) -> Option<Response> {
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

    /// Called when the response to a call is complete. Returns true if some of its messages were not sent.
    pub(super) fn end_talk(&mut self, id: ExchangeId, now: u64) -> bool {
        let exchange = &self.exchanges[id.index()];
        let (Some(messages), Some(times)) = (&mut self.messages, exchange.request) else { return false };
        let target = self.setup.mix.target(times.target);
        let Some(stream) = &target.stream else { return false };
        // A call that failed loses no messages: its status says that they do not come.
        if exchange.answer.call(target).status == Status::Ok {
            let received = &messages.talks[id.index()].received;
            let lost = u64::from(stream.spec.to_receive()).saturating_sub(received.different());
            // The answer to a stream of the client is one message, which needs no number.
            let unnumbered = if target.receives_stream() { received.unnumbered } else { 0 };
            self.recorder.messages_lost(times.scheduled, now, lost, unnumbered);
        }
        messages.end(id, stream.spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_tell_late_messages_from_repeated_ones() {
        let mut received = Received::default();
        let places: Vec<Place> =
            [0, 1, 3, 2, 3, 2, 4, 104, 50, 50, 5].map(|number| received.number(number)).into();
        use Place::{InOrder, Late, Repeated};
        let expected =
            [InOrder, InOrder, InOrder, Late, Repeated, Repeated, InOrder, InOrder, Late, Repeated, Late];
        assert_eq!(places, expected);
        assert_eq!((received.next, received.distinct), (105, 8));
    }

    #[test]
    fn any_number_is_accepted() {
        let mut received = Received::default();
        let places = [u64::MAX, 0, 5].map(|number| received.number(number));
        assert_eq!(places, [Place::InOrder, Place::Late, Place::Late]);
        assert_eq!(received.different(), 3);
    }

    #[test]
    fn a_stamp_is_found_in_any_pieces() {
        let stamp = Stamp { number: 3, due: 77 };
        let mut message = [0; Stamp::LENGTH];
        stamp.write(&mut message);
        let mut received = Received::default();
        for split in 0..message.len() {
            let (start, rest) = message.split_at(split);
            received.part(start);
            received.part(rest);
            received.part(b"content");
            assert_eq!(received.stamp(), Some(stamp), "{split}");
        }
        received.part(b"short");
        assert_eq!(received.stamp(), None);
        assert_eq!(received.stamp(), None, "of an empty message");
    }

    #[test]
    fn messages_are_due_by_a_schedule_or_after_an_answer() {
        let of = |kind, every_ns| StreamSpec { kind, messages: 10, every_ns, same_clock: false };
        assert_eq!(due(of(StreamKind::BothWays, 5), 100, 3), Some(115));
        assert_eq!(due(of(StreamKind::BothWays, 0), 100, 3), None);
        assert_eq!(due(of(StreamKind::ClientStream, 0), 100, 3), Some(100));
        let places = [None, Some(Place::InOrder), Some(Place::Late), Some(Place::Repeated)];
        let awaited = |kind, every_ns| places.map(|place| is_awaited(of(kind, every_ns), place));
        assert_eq!(awaited(StreamKind::BothWays, 0), [true, true, true, false]);
        assert_eq!(awaited(StreamKind::BothWays, 5), [false; 4]);
    }

    #[test]
    fn an_exchange_is_queued_once_for_each_message() {
        let talk = Talk { due: Some(20), ..Talk::default() };
        let (due, frames) = (BinaryHeap::new(), Vec::new());
        let mut messages = Messages { talks: vec![talk], due, frames, reads: 0 };
        let exchange = ExchangeId(0);
        messages.queue(exchange, 10, Some(10));
        // A window opens before the next message is due.
        messages.queue(exchange, 12, Some(20));
        assert_eq!((messages.due.len(), messages.next()), (1, 20));
        assert_eq!([19, 20, 21].map(|now| messages.take_due(now)), [None, Some(exchange), None]);
        messages.queue(exchange, 20, Some(20));
        assert_eq!(messages.next(), u64::MAX, "it waits for a window");
    }

    #[test]
    fn a_burst_of_messages_lets_others_have_their_turn() {
        assert_eq!(after_turn(Some(5), 10, TURN - 1), Some(5));
        assert_eq!(after_turn(Some(5), 10, TURN), Some(11));
        assert_eq!(after_turn(Some(50), 10, TURN), Some(50));
        assert_eq!(after_turn(None, 10, TURN), None, "its time depends on an answer");
    }
}
