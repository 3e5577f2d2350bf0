//! The streams of messages of a worker's exchanges: when the next message is due, and what has arrived.

use super::event_reader::EventReader;
use super::token_reader::Tokens;
use crate::exchange::ExchangeId;
use crate::recorder::Arrival;
use crate::target::{Mix, Stream};
use hoptax_format::messages::{Stamp, StreamKind, StreamSpec};
use hoptax_wire::grpc::{self, PREFIX};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Number of messages before the expected one whose arrival is remembered.
const REMEMBERED: u64 = 64;
/// Number of bytes that a stream sends before the worker does other work.
const TURN: usize = 64 * 1024;

/// The streams of a worker's exchanges.
#[derive(Debug)]
pub(super) struct Messages {
    pub(super) talks: Vec<Talk>,
    /// When the next message of an exchange is due. Entries of calls that have ended are skipped, and removed
    /// before there are more than two entries per exchange.
    due: BinaryHeap<Reverse<(u64, ExchangeId)>>,
    /// A gRPC message of each target with its prefix, whose stamp is written before each use.
    pub(super) frames: Vec<Vec<u8>>,
    /// Number of reads so far.
    pub(super) reads: u64,
}

/// The streams of a call.
#[derive(Debug, Default)]
pub(super) struct Talk {
    /// Number of messages that were passed to the connection, whole or in part.
    pub(super) sent: u32,
    /// The part of a message that waits for a flow-control window.
    pub(super) rest: Vec<u8>,
    /// When the next message is due. Absent if that is not known yet, or if there is none. For a stream of
    /// tokens, this is when the client leaves, or reads again.
    pub(super) due: Option<u64>,
    pub(super) received: Received,
    /// Reads server-sent events.
    pub(super) events: EventReader,
    /// Absent if no target has streams of tokens.
    pub(super) tokens: Option<Box<Tokens>>,
}

/// The messages of the server.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// First bytes of the current message.
    start: [u8; Stamp::LENGTH],
    start_length: usize,
    /// The smallest number so far.
    first: u64,
    /// One more than the largest number so far.
    next: u64,
    /// Bit `n` is set if the message with the number `next - 1 - n` has arrived.
    seen: u64,
    /// Number of different messages.
    distinct: u64,
    /// Number of messages without a stamp.
    pub(super) unnumbered: u64,
    /// When the latest message arrived. Absent before the first.
    pub(super) latest: Option<Latest>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Latest {
    pub(super) at: u64,
    pub(super) due: Option<u64>,
    /// Number of the read that brought it.
    pub(super) read: u64,
}

/// How the number of a message fits the numbers before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    InOrder,
    Late,
    Repeated,
}

impl Received {
    /// Reads a part of a message.
    pub(super) fn part(&mut self, data: &[u8]) {
        let room = &mut self.start[self.start_length..];
        let length = room.len().min(data.len());
        room[..length].copy_from_slice(&data[..length]);
        self.start_length += length;
    }

    /// True if a message had a number.
    pub(super) fn has_numbers(&self) -> bool {
        self.distinct > 0
    }

    /// Number of messages between the first and the last one that have not arrived.
    pub(super) fn missing(&self) -> u64 {
        // A faulty gateway can send any number.
        (self.next - self.first).saturating_sub(self.distinct).min(u32::MAX.into())
    }

    /// Notes that a message has arrived at `now`. `read` is the number of the read that brought it.
    pub(super) fn message(
        &mut self,
        stamp: Option<Stamp>,
        (now, read): (u64, u64),
        spec: StreamSpec,
    ) -> (Option<Place>, Arrival) {
        let place = stamp.map(|stamp| self.number(stamp.number));
        self.unnumbered += u64::from(place.is_none());
        let due = stamp.map(|stamp| stamp.due);
        let before = self.latest.replace(Latest { at: now, due, read });
        let arrival = Arrival {
            now,
            number: stamp.map(|stamp| stamp.number),
            due,
            spec,
            repeated: place == Some(Place::Repeated),
            reordered: place == Some(Place::Late),
            before: before.map(|before| before.at),
            merged: before.is_some_and(|before| before.read == read && is_apart(before.due, due)),
            merged_into_one: false,
            after_pause: false,
        };
        (place, arrival)
    }

    /// Number of messages, without those that were repeated.
    pub(super) fn different(&self) -> u64 {
        self.distinct + self.unnumbered
    }

    /// The stamp of the message that has ended.
    pub(super) fn stamp(&mut self) -> Option<Stamp> {
        let length = std::mem::take(&mut self.start_length);
        Stamp::read(&self.start[..length])
    }

    /// Notes the arrival of the message with this number.
    pub(super) fn number(&mut self, number: u64) -> Place {
        self.first = if self.distinct == 0 { number } else { self.first.min(number) };
        if number >= self.next {
            // A faulty gateway can send any number.
            let step = (number - self.next).saturating_add(1);
            self.seen = if step < REMEMBERED { self.seen << step | 1 } else { 1 };
            self.next = number.saturating_add(1);
            self.distinct += 1;
            return Place::InOrder;
        }
        let back = self.next - 1 - number;
        // An older message counts as late, not as repeated, because gateways repeat messages at once.
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
        let streams = || mix.targets().filter_map(|target| target.stream.as_ref());
        let has_tokens = streams().any(|stream| stream.spec.tokens.is_some());
        streams().next().is_some().then(|| {
            let talk = || Talk { tokens: has_tokens.then(Box::default), ..Talk::default() };
            let talks = (0..exchanges).map(|_| talk()).collect();
            let due = BinaryHeap::with_capacity(2 * exchanges as usize);
            Box::new(Self { talks, due, frames, reads: 0 })
        })
    }

    /// When the next message is due, or `u64::MAX` if there is none.
    pub(super) fn next(&self) -> u64 {
        self.due.peek().map_or(u64::MAX, |Reverse((due, _))| *due)
    }

    /// Queues an exchange until its next message is due. `before` is when that was before the exchange sent
    /// messages at `now`. If this time has not changed, the exchange is already queued. A message that waits
    /// for a window is not queued: it is sent when the window opens.
    pub(super) fn queue(&mut self, exchange: ExchangeId, now: u64, before: Option<u64>) {
        let due = self.talks[exchange.index()].due;
        if let Some(at) = due
            && at > now
            && due != before
        {
            // Each exchange has at most one current entry. The others are of calls that have ended.
            if self.due.len() >= 2 * self.talks.len() {
                let talks = &self.talks;
                self.due.retain(|Reverse((at, exchange))| talks[exchange.index()].due == Some(*at));
            }
            self.due.push(Reverse((at, exchange)));
        }
    }

    /// Returns an exchange whose next message is due at `now`.
    pub(super) fn take_due(&mut self, now: u64) -> Option<ExchangeId> {
        while self.next() <= now {
            let Reverse((due, exchange)) = self.due.pop()?;
            if self.talks[exchange.index()].due == Some(due) {
                return Some(exchange);
            }
        }
        None
    }

    /// True if the client has messages of its stream left to send. The server answers after the last one.
    pub(super) fn is_sending(&self, exchange: ExchangeId, stream: Option<&Stream>) -> bool {
        let Some(Stream { spec, .. }) = stream else { return false };
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
    /// Prepares for the next exchange, in which the client has sent this number of messages. Buffers keep
    /// their memory.
    pub(super) fn begin(&mut self, sent: u32, due: Option<u64>) {
        self.rest.clear();
        self.events.begin();
        if let Some(tokens) = &mut self.tokens {
            **tokens = Tokens::default();
        }
        (self.sent, self.due, self.received) = (sent, due, Received::default());
    }

    /// Called when an exchange has its outcome. Returns true if a message of a fan-out had arrived.
    pub(super) fn leave_fan_out(&mut self, spec: StreamSpec) -> bool {
        self.received.latest.take().is_some() && spec.fan_out
    }

    pub(super) fn has_sent_all(&self, spec: StreamSpec) -> bool {
        self.sent == spec.to_send() && self.rest.is_empty()
    }
}

/// True if both times are known, and differ.
fn is_apart(before: Option<u64>, due: Option<u64>) -> bool {
    before.zip(due).is_some_and(|(before, due)| before != due)
}

/// The message of a target with its prefix. Empty unless the target is a gRPC call with streams.
fn frame_of(stream: Option<&Stream>) -> Vec<u8> {
    let mut frame = Vec::new();
    if let Some(stream) = stream.filter(|stream| stream.spec.carrier.is_grpc()) {
        grpc::write_message(&mut frame, &stream.message).expect("the length was checked");
    }
    frame
}

pub(super) fn write_stamp(frame: &mut [u8], stamp: Stamp) {
    let room = &mut frame[PREFIX..PREFIX + Stamp::LENGTH];
    stamp.write(room.try_into().expect("as long as a stamp"));
}

/// When the next message is due, if `sent` messages were sent. `None` if its time depends on an answer.
pub(super) fn due(spec: StreamSpec, first: u64, sent: u32) -> Option<u64> {
    match (spec.every_ns, spec.kind) {
        (0, StreamKind::BothWays) => None,
        (every, _) => Some(first.saturating_add(every.saturating_mul(sent.into()))),
    }
}

/// True if the client sends its next message because this one has arrived.
pub(super) fn is_awaited(spec: StreamSpec, place: Option<Place>) -> bool {
    spec.every_ns == 0 && spec.kind == StreamKind::BothWays && place != Some(Place::Repeated)
}

/// When the next message can be sent, if this stream has sent this number of bytes at `now`.
pub(super) fn after_turn(due: Option<u64>, now: u64, sent: usize) -> Option<u64> {
    if sent < TURN { due } else { due.map(|due| due.max(now.saturating_add(1))) }
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
        assert_eq!((received.next, received.distinct, received.missing()), (105, 8, 105 - 8));
    }

    #[test]
    fn any_number_is_accepted() {
        let mut received = Received::default();
        let places = [u64::MAX, 0, 5].map(|number| received.number(number));
        assert_eq!(places, [Place::InOrder, Place::Late, Place::Late]);
        assert_eq!((received.different(), received.missing()), (3, u64::from(u32::MAX)));
    }

    #[test]
    fn messages_are_missing_between_the_first_and_the_last() {
        let missing = |numbers: &[u64]| {
            let mut received = Received::default();
            numbers.iter().for_each(|number| _ = received.number(*number));
            received.missing()
        };
        assert_eq!(missing(&[]), 0);
        assert_eq!(missing(&[7]), 0, "a stream can begin with any number");
        assert_eq!(missing(&[7, 10, 9, 9, 12]), 2);
        assert_eq!(missing(&[7, 6, 5]), 0, "the first can be late");
    }

    #[test]
    fn only_messages_that_were_due_at_different_times_are_merged() {
        let spec = StreamSpec::grpc(StreamKind::ServerStream, 10, 1000);
        let merged = |first: Option<u64>, second: Option<u64>, reads: (u64, u64)| {
            let mut received = Received::default();
            let stamp = |number, due: Option<u64>| due.map(|due| Stamp { number, due });
            received.message(stamp(0, first), (5, reads.0), spec);
            received.message(stamp(1, second), (5, reads.1), spec).1.merged
        };
        assert!(merged(Some(1), Some(2), (1, 1)));
        assert!(!merged(Some(1), Some(2), (1, 2)));
        assert!(!merged(Some(1), Some(1), (1, 1)));
        assert!(!merged(None, Some(2), (1, 1)));
        assert!(!merged(None, None, (1, 1)), "nothing is known of a foreign server");
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
        let of = |kind, every_ns| StreamSpec::grpc(kind, 10, every_ns);
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
    fn calls_that_end_long_before_they_are_due_leave_few_entries() {
        let talks = vec![Talk { due: Some(5000), ..Talk::default() }, Talk::default()];
        let mut messages = Messages { talks, due: BinaryHeap::new(), frames: Vec::new(), reads: 0 };
        let spec = StreamSpec::grpc(StreamKind::ServerStream, 10, 0);
        messages.queue(ExchangeId(0), 0, None);
        for now in 0..1000 {
            messages.talks[1].due = Some(now + 10_000);
            messages.queue(ExchangeId(1), now, None);
            messages.end(ExchangeId(1), spec);
            assert!(messages.due.len() <= 4, "{now}");
        }
        assert_eq!([5000, 20_000].map(|now| messages.take_due(now)), [Some(ExchangeId(0)), None]);
    }

    #[test]
    fn a_burst_of_messages_lets_others_have_their_turn() {
        assert_eq!(after_turn(Some(5), 10, TURN - 1), Some(5));
        assert_eq!(after_turn(Some(5), 10, TURN), Some(11));
        assert_eq!(after_turn(Some(50), 10, TURN), Some(50));
        assert_eq!(after_turn(None, 10, TURN), None, "its time depends on an answer");
    }
}
