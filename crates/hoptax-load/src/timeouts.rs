//! Timeouts of connects, requests and retired connections. Each kind of timeout has its own queue: a linked
//! list in an array that is indexed by slot.
//!
//! All timeouts of one kind have the same length, so they expire in the order in which they were armed. A
//! simple queue (first in, first out) is therefore enough, and arming or disarming a timeout takes only a few
//! memory writes.

use hoptax_format::clock::MILLISECOND;
use hoptax_format::spec;

const NONE: u32 = u32::MAX;

/// Maximum time that a peer has to close a retired connection. Servers that close connections by themselves
/// do so at once. Other servers wait for the client, some without a limit.
const LEAVING: u64 = MILLISECOND;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The connection was not established in time.
    Connect,
    /// The first byte of the response did not arrive in time.
    FirstByte,
    /// The response was not complete in time.
    Total,
    /// The peer did not close a retired connection in time.
    Leaving,
}

/// The armed timeouts of one worker's slots. A slot has at most one timeout of each kind.
#[derive(Debug)]
pub(crate) struct Timeouts {
    connect: Queue,
    first_byte: Queue,
    /// False if the first-byte timeout is not shorter than the total timeout, because it would then never
    /// expire first.
    watches_first_byte: bool,
    total: Queue,
    leaving: Queue,
}

impl Timeouts {
    pub(crate) fn new(asked: spec::Timeouts) -> Self {
        Self {
            connect: Queue::new(asked.connect_ns),
            first_byte: Queue::new(asked.first_byte_ns),
            watches_first_byte: asked.first_byte_ns < asked.total_ns,
            total: Queue::new(asked.total_ns),
            leaving: Queue::new(LEAVING),
        }
    }

    /// Called when a connect starts at `now`. In all methods of this type, `now` must never decrease.
    pub(crate) fn connecting(&mut self, slot: u32, now: u64) {
        self.connect.arm(slot, now);
    }

    /// True while the slot is connecting, or waits to connect again.
    pub(crate) fn is_connecting(&self, slot: u32) -> bool {
        self.connect.is_armed(slot)
    }

    pub(crate) fn connected(&mut self, slot: u32) {
        self.connect.disarm(slot);
    }

    pub(crate) fn sent(&mut self, slot: u32, now: u64) {
        self.total.arm(slot, now);
        if self.watches_first_byte {
            self.first_byte.arm(slot, now);
        }
    }

    /// Called when the first piece of a request is sent at `now`, and more pieces follow.
    pub(crate) fn sending(&mut self, slot: u32, now: u64) {
        self.total.arm(slot, now);
    }

    /// Called when the last piece of a request is sent at `now`, if no byte of the response has arrived. The
    /// time limit for the first byte does not include the pauses of the request.
    pub(crate) fn sent_whole(&mut self, slot: u32, now: u64) {
        if self.watches_first_byte {
            self.first_byte.arm(slot, now);
        }
    }

    pub(crate) fn responding(&mut self, slot: u32) {
        if self.watches_first_byte {
            self.first_byte.disarm(slot);
        }
    }

    pub(crate) fn completed(&mut self, slot: u32) {
        self.total.disarm(slot);
    }

    pub(crate) fn failed(&mut self, slot: u32) {
        self.connect.disarm(slot);
        self.responding(slot);
        self.total.disarm(slot);
    }

    /// Called when a connection is retired at `now`. From then on, the worker waits for the peer to close it.
    pub(crate) fn leaving(&mut self, slot: u32, now: u64) {
        self.leaving.arm(slot, now);
    }

    pub(crate) fn closed(&mut self, slot: u32) {
        self.leaving.disarm(slot);
    }

    /// Time when the next timeout expires, or `u64::MAX` if no timeout is armed.
    pub(crate) fn next(&self) -> u64 {
        let requests = self.total.next().min(self.first_byte.next());
        requests.min(self.connect.next()).min(self.leaving.next())
    }

    /// If a timeout has expired at `now`, disarms it, and returns its slot and kind.
    pub(crate) fn expire(&mut self, now: u64) -> Option<(u32, Kind)> {
        let queues = [
            (&mut self.connect, Kind::Connect),
            (&mut self.first_byte, Kind::FirstByte),
            (&mut self.total, Kind::Total),
            (&mut self.leaving, Kind::Leaving),
        ];
        queues.into_iter().find_map(|(queue, kind)| Some((queue.expire(now)?, kind)))
    }
}

#[derive(Debug, Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
    armed_at: u64,
}

/// Value of `before` for a slot that is not armed. The first slot in a queue has [`NONE`] in `before`.
const DISARMED: u32 = u32::MAX - 1;

#[derive(Debug)]
struct Queue {
    timeout: u64,
    /// Links of the slots. The array grows up to the highest slot that was ever armed. A kind of timeout that
    /// is never armed therefore uses no memory.
    links: Vec<Link>,
    first: u32,
    last: u32,
}

impl Queue {
    /// Creates an empty queue. Each of its timeouts is `timeout` nanoseconds long.
    fn new(timeout: u64) -> Self {
        Self { timeout, links: Vec::new(), first: NONE, last: NONE }
    }

    fn is_armed(&self, slot: u32) -> bool {
        self.links.get(slot as usize).is_some_and(|link| link.before != DISARMED)
    }

    /// Arms the timeout of `slot` at `now`. `now` must never decrease.
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

    fn next(&self) -> u64 {
        // `NONE` is larger than every valid slot, so it has no link.
        self.links
            .get(self.first as usize)
            .map_or(u64::MAX, |link| link.armed_at.saturating_add(self.timeout))
    }

    /// If the timeout of a slot has expired at `now`, disarms this slot and returns it.
    fn expire(&mut self, now: u64) -> Option<u32> {
        let slot = self.first;
        let due = slot != NONE && self.next() <= now;
        due.then(|| self.disarm(slot)).map(|()| slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expired(queue: &mut Queue, now: u64) -> Vec<u32> {
        std::iter::from_fn(|| queue.expire(now)).collect()
    }

    #[test]
    fn timeouts_expire_in_the_order_of_arming() {
        let mut queue = Queue::new(100);
        for (slot, now) in [(2, 10), (0, 20), (3, 20), (1, 30)] {
            queue.arm(slot, now);
        }
        assert_eq!(queue.next(), 110);
        assert!(expired(&mut queue, 109).is_empty());
        assert_eq!(expired(&mut queue, 120), [2, 0, 3]);
        assert_eq!(queue.next(), 130);
        assert_eq!(expired(&mut queue, u64::MAX), [1]);
        assert_eq!(queue.next(), u64::MAX);
    }

    #[test]
    fn disarming_keeps_the_queue_linked() {
        for cut in 0..3 {
            let mut queue = Queue::new(5);
            (0..3).for_each(|slot| queue.arm(slot, u64::from(slot)));
            queue.disarm(cut);
            queue.disarm(cut);
            queue.arm(cut, 9);
            let expected: Vec<u32> = (0..3).filter(|slot| *slot != cut).chain([cut]).collect();
            assert_eq!(expired(&mut queue, 100), expected);
        }
    }

    #[test]
    fn agrees_with_a_simple_model_over_many_steps() {
        let mut random = hoptax_format::random::Random::new(11);
        let mut queue = Queue::new(50);
        let mut model: Vec<(u64, u32)> = Vec::new();
        for now in 0..5000 {
            let slot = random.below(20) as u32;
            if random.below(3) == 0 {
                queue.disarm(slot);
                model.retain(|(_, other)| *other != slot);
            } else if model.iter().all(|(_, other)| *other != slot) {
                queue.arm(slot, now);
                model.push((now, slot));
            }
            assert_eq!(queue.next(), model.first().map_or(u64::MAX, |(at, _)| at + 50));
            while let Some(slot) = queue.expire(now) {
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
        assert_eq!(timeouts.next(), 110);
        assert_eq!(timeouts.expire(109), None);
        assert_eq!(timeouts.expire(110), Some((0, Kind::Connect)));
        timeouts.responding(1);
        assert_eq!(timeouts.expire(120), Some((2, Kind::FirstByte)));
        timeouts.failed(2);
        assert_eq!(timeouts.expire(130), Some((1, Kind::Total)));
        assert_eq!(timeouts.next(), 100 + LEAVING);
        assert_eq!(timeouts.expire(100 + LEAVING), Some((1, Kind::Leaving)));
        assert_eq!((timeouts.next(), timeouts.expire(u64::MAX)), (u64::MAX, None));
    }

    #[test]
    fn the_first_byte_is_watched_once_the_whole_request_is_sent() {
        let mut timeouts = timeouts(10, 20, 100);
        timeouts.sending(0, 0);
        assert_eq!(timeouts.next(), 100);
        timeouts.sent_whole(0, 50);
        assert_eq!(timeouts.expire(70), Some((0, Kind::FirstByte)));
    }

    #[test]
    fn disarmed_timeouts_do_not_expire() {
        let mut timeouts = timeouts(10, 20, 30);
        timeouts.connecting(0, 100);
        timeouts.connected(0);
        timeouts.sent(0, 105);
        timeouts.responding(0);
        timeouts.completed(0);
        timeouts.leaving(0, 110);
        timeouts.closed(0);
        assert_eq!(timeouts.next(), u64::MAX);
    }

    #[test]
    fn the_first_byte_is_not_watched_if_the_total_timeout_is_not_longer() {
        for first_byte in [30, 31, u64::MAX] {
            let mut timeouts = timeouts(10, first_byte, 30);
            timeouts.sent(0, 0);
            assert_eq!(timeouts.expire(1000), Some((0, Kind::Total)));
            assert_eq!(timeouts.next(), u64::MAX);
        }
    }
}
