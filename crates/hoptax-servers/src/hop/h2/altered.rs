//! The messages of a gRPC response that the hop changes or delays.

use crate::hop::holds::Holds;
use hoptax_load::event_loop::Token;
use hoptax_plan::{HopDelayHow, HopFaults};
use hoptax_wire::grpc::{Messages, Step};
use std::collections::VecDeque;
use std::time::Duration;

/// What the hop does with each message of a response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planted {
    pub(super) faults: HopFaults,
    /// Delay of each message.
    pub(super) delay: Duration,
    pub(super) how: HopDelayHow,
}

/// The messages of one response. They are forwarded only when they are complete.
#[derive(Debug)]
pub(super) struct Altered {
    planted: Planted,
    decoder: Messages,
    /// The part of an incomplete message that has arrived.
    part: Vec<u8>,
    /// Messages that wait, one after the other.
    waiting: Vec<u8>,
    /// Their lengths in bytes, and the timers that they wait for.
    timers: VecDeque<(u64, usize)>,
}

impl Altered {
    pub(super) fn new(planted: Planted) -> Self {
        let (part, waiting, timers) = (Vec::new(), Vec::new(), VecDeque::new());
        Self { planted, decoder: Messages::default(), part, waiting, timers }
    }

    /// Reads a part of the body. Appends the messages that need not wait to `to`.
    pub(super) fn read(&mut self, mut input: &[u8], place: Token, holds: &mut Holds, to: &mut Vec<u8>) {
        loop {
            let Ok((consumed, step)) = self.decoder.advance(input, u32::MAX) else {
                // The body is not a sequence of messages. It is forwarded when it has ended.
                self.part.extend_from_slice(input);
                return;
            };
            let (read, rest) = input.split_at(consumed);
            self.part.extend_from_slice(read);
            input = rest;
            match step {
                Step::NeedMore => return,
                Step::Begin { length: 0, .. } | Step::Data { end: true, .. } => self.pass(place, holds, to),
                Step::Begin { .. } | Step::Data { .. } => {}
            }
        }
    }

    /// Handles a whole message.
    fn pass(&mut self, place: Token, holds: &mut Holds, to: &mut Vec<u8>) {
        let Planted { faults, delay, how } = self.planted;
        let copies = match (holds.happens(faults.drop), holds.happens(faults.repeat)) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => 2,
        };
        if copies > 0 {
            let timer = match (faults.hold.is_zero(), self.timers.back()) {
                (false, Some((timer, _))) => Some(*timer),
                (false, None) => holds.spend(place, HopDelayHow::Sleep, faults.hold),
                (true, _) => holds.spend(place, how, delay),
            };
            let (to, added) = match timer {
                Some(_) => (&mut self.waiting, copies * self.part.len()),
                None => (to, 0),
            };
            for _ in 0..copies {
                to.extend_from_slice(&self.part);
            }
            self.timers.extend(timer.map(|timer| (timer, added)));
        }
        self.part.clear();
    }

    /// Appends to `to` the messages that waited for a timer. Returns false if none did.
    pub(super) fn release(&mut self, timer: u64, to: &mut Vec<u8>) -> bool {
        let due = self.timers.iter().take_while(|(id, _)| *id == timer).count();
        let length: usize = self.timers.drain(..due).map(|(_, length)| length).sum();
        to.extend(self.waiting.drain(..length));
        due > 0
    }

    /// Called when the response has ended. Also forwards an incomplete message.
    pub(super) fn end(&mut self, to: &mut Vec<u8>) {
        match self.timers.back_mut() {
            Some((_, length)) => {
                *length += self.part.len();
                self.waiting.append(&mut self.part);
            }
            None => to.append(&mut self.part),
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.timers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_plan::HopDelay;
    use hoptax_wire::grpc;

    const PLACE: Token = Token(7);

    fn body(messages: &[&[u8]]) -> Vec<u8> {
        let mut body = Vec::new();
        messages.iter().for_each(|message| grpc::write_message(&mut body, message).expect("short"));
        body
    }

    fn altered(faults: HopFaults, message: Duration) -> (Altered, Holds) {
        let delay = HopDelay { message, faults: Some(faults), ..HopDelay::default() };
        let planted = Planted { faults, delay: message, how: delay.how };
        (Altered::new(planted), Holds::new(Some(delay), None, 1, 0, false))
    }

    /// The bytes that are forwarded at once, if the body arrives in pieces of this length.
    fn passed(faults: HopFaults, body: &[u8], piece: usize) -> Vec<u8> {
        let (mut altered, mut holds) = altered(faults, Duration::ZERO);
        let mut to = Vec::new();
        body.chunks(piece).for_each(|piece| altered.read(piece, PLACE, &mut holds, &mut to));
        altered.end(&mut to);
        assert!(!altered.is_waiting());
        to
    }

    #[test]
    fn messages_are_dropped_and_repeated_at_every_split() {
        let (first, second) = (body(&[b"first", b""]), body(&[b"first", b"first", b"", b""]));
        let none = HopFaults::default();
        for piece in 1..=first.len() {
            assert_eq!(passed(none, &first, piece), first, "{piece}");
            assert!(passed(HopFaults { drop: 1.0, ..none }, &first, piece).is_empty(), "{piece}");
            assert_eq!(passed(HopFaults { repeat: 1.0, ..none }, &first, piece), second, "{piece}");
        }
        let many = body(&[&b"a"[..]; 10_000]);
        let share = |faults| passed(faults, &many, 1000).len() as f64 / many.len() as f64;
        // The tolerance is five standard deviations of a binomial count.
        assert!((share(HopFaults { drop: 0.1, ..none }) - 0.9).abs() < 0.015);
        assert!((share(HopFaults { repeat: 0.1, ..none }) - 1.1).abs() < 0.015);
    }

    #[test]
    fn other_bodies_pass_when_they_have_ended() {
        let faults = HopFaults { drop: 1.0, ..HopFaults::default() };
        for input in [&b"\x02text"[..], b"\0\0\0\0\x05part"] {
            assert_eq!(passed(faults, input, 2), input);
        }
    }

    #[test]
    fn held_messages_wait_for_the_timer_of_the_first() {
        let faults = HopFaults { hold: Duration::from_secs(1), ..HopFaults::default() };
        let (mut altered, mut holds) = altered(faults, Duration::ZERO);
        let (both, mut to) = (body(&[b"first", b"second"]), Vec::new());
        altered.read(&both[..12], PLACE, &mut holds, &mut to);
        altered.read(&both[12..], PLACE, &mut holds, &mut to);
        altered.end(&mut to);
        assert!(to.is_empty() && altered.is_waiting());
        let timer = holds.over(u64::MAX).expect("one timer");
        assert_eq!((timer.token, holds.next()), (PLACE, None));
        assert!(!altered.release(timer.id + 1, &mut to), "another timer");
        assert!(altered.release(timer.id, &mut to) && !altered.is_waiting());
        assert_eq!(to, both);
    }

    #[test]
    fn each_message_has_its_own_delay() {
        let (mut altered, mut holds) = altered(HopFaults::default(), Duration::from_secs(1));
        let mut to = Vec::new();
        altered.read(&body(&[b"first", b"second"]), PLACE, &mut holds, &mut to);
        assert!(to.is_empty());
        for expected in [body(&[b"first"]), body(&[b"first", b"second"])] {
            let timer = holds.over(u64::MAX).expect("two timers");
            assert!(altered.release(timer.id, &mut to));
            assert_eq!(to, expected);
        }
        assert!(!altered.is_waiting());
    }
}
