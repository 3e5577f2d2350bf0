//! Deadlines of connects, requests and connections that are left: for each kind a linked list through an array that is
//! indexed by slot.
//!
//! All timeouts of one kind are equally long, so the order in which they are armed is the order in which they run out: a
//! first in, first out line is a priority queue here, and arming and disarming are a few stores.

use crate::clock::SECOND;
use crate::spec;

const NONE: u32 = u32::MAX;

/// How long a connection that has carried its last response is left to the other side to close. Servers do it at once,
/// or after a second at the latest (Envoy's `delayed_close_timeout`).
const LEAVING: u64 = 2 * SECOND;

/// What did not happen in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The connection was not established.
    Connect,
    /// No byte of the response came.
    FirstByte,
    /// The response was not whole.
    Total,
    /// The other side did not close a connection that it should.
    Leaving,
}

/// The armed timeouts of one worker's slots. A slot has at most one of each kind.
#[derive(Debug)]
pub(crate) struct Timeouts {
    connect: Line,
    /// Absent where the total timeout comes first anyway.
    first_byte: Option<Line>,
    total: Line,
    leaving: Line,
}

impl Timeouts {
    /// No slot armed.
    pub(crate) fn new(asked: spec::Timeouts) -> Self {
        Self {
            connect: Line::new(asked.connect_ns),
            first_byte: (asked.first_byte_ns < asked.total_ns).then(|| Line::new(asked.first_byte_ns)),
            total: Line::new(asked.total_ns),
            leaving: Line::new(LEAVING),
        }
    }

    /// A connect was started at `now`, which must not be before any earlier arming; nor must it be in what follows.
    pub(crate) fn connecting(&mut self, slot: u32, now: u64) {
        self.connect.arm(slot, now);
    }

    /// Whether a connect is under way, or waits to be tried again.
    pub(crate) fn is_connecting(&self, slot: u32) -> bool {
        self.connect.is_armed(slot)
    }

    /// The connect succeeded.
    pub(crate) fn connected(&mut self, slot: u32) {
        self.connect.disarm(slot);
    }

    /// A request was sent at `now`.
    pub(crate) fn sent(&mut self, slot: u32, now: u64) {
        self.total.arm(slot, now);
        if let Some(first_byte) = &mut self.first_byte {
            first_byte.arm(slot, now);
        }
    }

    /// The response began.
    pub(crate) fn responding(&mut self, slot: u32) {
        if let Some(first_byte) = &mut self.first_byte {
            first_byte.disarm(slot);
        }
    }

    /// The response is whole.
    pub(crate) fn completed(&mut self, slot: u32) {
        self.total.disarm(slot);
    }

    /// The connect or the request failed.
    pub(crate) fn failed(&mut self, slot: u32) {
        self.connect.disarm(slot);
        self.responding(slot);
        self.total.disarm(slot);
    }

    /// A connection is left to the other side to close, since `now`.
    pub(crate) fn leaving(&mut self, slot: u32, now: u64) {
        self.leaving.arm(slot, now);
    }

    /// It is closed.
    pub(crate) fn left(&mut self, slot: u32) {
        self.leaving.disarm(slot);
    }

    /// When the next timeout runs out.
    pub(crate) fn next(&self) -> Option<u64> {
        let first_byte = self.first_byte.as_ref().and_then(Line::next);
        [self.connect.next(), first_byte, self.total.next(), self.leaving.next()].into_iter().flatten().min()
    }

    /// Disarms and names a slot whose timeout has run out at `now`, and which.
    pub(crate) fn expire(&mut self, now: u64) -> Option<(u32, Kind)> {
        let first_byte = self.first_byte.as_mut().map(|line| (line, Kind::FirstByte));
        let lines = [
            Some((&mut self.connect, Kind::Connect)),
            first_byte,
            Some((&mut self.total, Kind::Total)),
            Some((&mut self.leaving, Kind::Leaving)),
        ];
        lines.into_iter().flatten().find_map(|(line, kind)| Some((line.expire(now)?, kind)))
    }
}

#[derive(Debug, Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
    armed_at: u64,
}

/// `before` of a slot that is not armed; the first in line has [`NONE`] there.
const DISARMED: u32 = u32::MAX - 1;

/// The armed timeouts of one kind.
#[derive(Debug)]
struct Line {
    timeout: u64,
    /// As long as the highest slot that was armed needs: a kind that does not occur takes no memory.
    links: Vec<Link>,
    first: u32,
    last: u32,
}

impl Line {
    /// No slot armed; each timeout is `timeout` long.
    fn new(timeout: u64) -> Self {
        Self { timeout, links: Vec::new(), first: NONE, last: NONE }
    }

    fn is_armed(&self, slot: u32) -> bool {
        self.links.get(slot as usize).is_some_and(|link| link.before != DISARMED)
    }

    /// Arms `slot` at `now`, which must not be before any earlier arming.
    fn arm(&mut self, slot: u32, now: u64) {
        debug_assert!(!self.is_armed(slot), "slot {slot} is armed already");
        let index = slot as usize;
        if index >= self.links.len() {
            self.links.resize(index + 1, Link { before: DISARMED, after: NONE, armed_at: 0 });
        }
        self.links[index] = Link { before: self.last, after: NONE, armed_at: now };
        match self.last {
            NONE => self.first = slot,
            last => self.links[last as usize].after = slot,
        }
        self.last = slot;
    }

    /// Disarms `slot`; one that is not armed is left alone.
    fn disarm(&mut self, slot: u32) {
        let Some(&Link { before, after, .. }) = self.links.get(slot as usize) else { return };
        if before == DISARMED {
            return;
        }
        match before {
            NONE => self.first = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.links[after as usize].before = before,
        }
        self.links[slot as usize].before = DISARMED;
    }

    /// When the next timeout runs out.
    fn next(&self) -> Option<u64> {
        (self.first != NONE).then(|| self.links[self.first as usize].armed_at.saturating_add(self.timeout))
    }

    /// Disarms and names a slot whose timeout has run out at `now`.
    fn expire(&mut self, now: u64) -> Option<u32> {
        let slot = self.first;
        self.next().filter(|deadline| *deadline <= now)?;
        self.disarm(slot);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expired(line: &mut Line, now: u64) -> Vec<u32> {
        std::iter::from_fn(|| line.expire(now)).collect()
    }

    #[test]
    fn run_out_in_the_order_of_arming() {
        let mut line = Line::new(100);
        for (slot, now) in [(2, 10), (0, 20), (3, 20), (1, 30)] {
            line.arm(slot, now);
        }
        assert_eq!(line.next(), Some(110));
        assert!(expired(&mut line, 109).is_empty());
        assert_eq!(expired(&mut line, 120), [2, 0, 3]);
        assert_eq!(line.next(), Some(130));
        assert_eq!(expired(&mut line, u64::MAX), [1]);
        assert_eq!(line.next(), None);
    }

    #[test]
    fn disarming_mends_the_line_wherever_it_is_cut() {
        for cut in 0..3 {
            let mut line = Line::new(5);
            (0..3).for_each(|slot| line.arm(slot, u64::from(slot)));
            line.disarm(cut);
            line.disarm(cut);
            line.arm(cut, 9);
            let expected: Vec<u32> = (0..3).filter(|slot| *slot != cut).chain([cut]).collect();
            assert_eq!(expired(&mut line, 100), expected);
        }
    }

    #[test]
    fn follows_a_plain_model_over_many_steps() {
        let mut random = crate::random::Random::new(11);
        let mut line = Line::new(50);
        let mut model: Vec<(u64, u32)> = Vec::new();
        for now in 0..5000 {
            let slot = random.below(20) as u32;
            if random.below(3) == 0 {
                line.disarm(slot);
                model.retain(|(_, other)| *other != slot);
            } else if model.iter().all(|(_, other)| *other != slot) {
                line.arm(slot, now);
                model.push((now, slot));
            }
            assert_eq!(line.next(), model.first().map(|(at, _)| at + 50));
            while let Some(slot) = line.expire(now) {
                assert_eq!(model.remove(0).1, slot);
            }
        }
    }

    fn timeouts(connect_ns: u64, first_byte_ns: u64, total_ns: u64) -> Timeouts {
        Timeouts::new(spec::Timeouts { connect_ns, first_byte_ns, total_ns })
    }

    #[test]
    fn each_kind_has_its_own_length() {
        let mut timeouts = timeouts(10, 20, 30);
        timeouts.connecting(0, 100);
        timeouts.sent(1, 100);
        timeouts.sent(2, 100);
        timeouts.leaving(1, 100);
        assert!(timeouts.is_connecting(0) && !timeouts.is_connecting(1) && !timeouts.is_connecting(9));
        assert_eq!(timeouts.next(), Some(110));
        assert_eq!(timeouts.expire(109), None);
        assert_eq!(timeouts.expire(110), Some((0, Kind::Connect)));
        timeouts.responding(1);
        assert_eq!(timeouts.expire(120), Some((2, Kind::FirstByte)));
        timeouts.failed(2);
        assert_eq!(timeouts.expire(130), Some((1, Kind::Total)));
        assert_eq!(timeouts.next(), Some(100 + LEAVING));
        assert_eq!(timeouts.expire(100 + LEAVING), Some((1, Kind::Leaving)));
        assert_eq!((timeouts.next(), timeouts.expire(u64::MAX)), (None, None));
    }

    #[test]
    fn what_ended_in_time_does_not_run_out() {
        let mut timeouts = timeouts(10, 20, 30);
        timeouts.connecting(0, 100);
        timeouts.connected(0);
        timeouts.sent(0, 105);
        timeouts.responding(0);
        timeouts.completed(0);
        timeouts.leaving(0, 110);
        timeouts.left(0);
        assert_eq!(timeouts.next(), None);
    }

    #[test]
    fn the_first_byte_is_not_watched_where_the_total_comes_first() {
        for first_byte in [30, 31, u64::MAX] {
            let mut timeouts = timeouts(10, first_byte, 30);
            timeouts.sent(0, 0);
            assert_eq!(timeouts.expire(1000), Some((0, Kind::Total)));
            assert_eq!(timeouts.next(), None);
        }
    }
}
