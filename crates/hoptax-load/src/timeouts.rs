//! Timeouts of connects, requests and retired connections. Each kind of timeout has its own queue: a linked
//! list in an array that is indexed by the number of a connection or of an exchange.
//!
//! All timeouts of one kind have the same length, so they expire in the order in which they were armed. A
//! simple queue (first in, first out) is therefore enough, and arming or disarming a timeout takes only a few
//! memory writes.

use crate::connection::ConnectionId;
use crate::exchange::ExchangeId;
use hoptax_format::clock::MILLISECOND;
use hoptax_format::spec;

const NONE: u32 = u32::MAX;

/// Maximum time that a peer has to close a retired connection. Servers that close connections by themselves
/// do so at once. Other servers wait for the client, some without a limit.
const LEAVING: u64 = MILLISECOND;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expired {
    /// The connection was not established in time.
    Connect(ConnectionId),
    /// The first byte of the response did not arrive in time.
    FirstByte(ExchangeId),
    /// The response was not complete in time.
    Total(ExchangeId),
    /// The peer did not close a retired connection in time.
    Leaving(ConnectionId),
}

/// The armed timeouts of one worker: at most two of each connection, and two of each exchange.
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
    pub(crate) fn connecting(&mut self, connection: ConnectionId, now: u64) {
        self.connect.arm(connection.0, now);
    }

    /// True while this connection is connecting, or waits to connect again.
    pub(crate) fn is_connecting(&self, connection: ConnectionId) -> bool {
        self.connect.is_armed(connection.0)
    }

    /// Called when the connection is established, or is no longer needed.
    pub(crate) fn connected(&mut self, connection: ConnectionId) {
        self.connect.disarm(connection.0);
    }

    pub(crate) fn sent(&mut self, exchange: ExchangeId, now: u64) {
        self.total.arm(exchange.0, now);
        if self.watches_first_byte {
            self.first_byte.arm(exchange.0, now);
        }
    }

    /// Called when the first piece of a request is sent at `now`, and more pieces follow.
    pub(crate) fn sending(&mut self, exchange: ExchangeId, now: u64) {
        self.total.arm(exchange.0, now);
    }

    /// Called when the last piece of a request is sent at `now`, if no byte of the response has arrived. The
    /// time limit for the first byte does not include the pauses of the request.
    pub(crate) fn sent_whole(&mut self, exchange: ExchangeId, now: u64) {
        if self.watches_first_byte {
            self.first_byte.arm(exchange.0, now);
        }
    }

    pub(crate) fn responding(&mut self, exchange: ExchangeId) {
        if self.watches_first_byte {
            self.first_byte.disarm(exchange.0);
        }
    }

    /// Called when a message of a stream was sent or has arrived at `now`. The time limit for the response
    /// begins again.
    pub(crate) fn heard(&mut self, exchange: ExchangeId, now: u64) {
        if self.total.is_armed(exchange.0) {
            self.total.disarm(exchange.0);
            self.total.arm(exchange.0, now);
        }
    }

    /// Called when the last message of the client's stream was sent at `now`, if no byte of the response has
    /// arrived. If the head of the call was not sent yet, [`Self::sent`] follows.
    pub(crate) fn sent_last(&mut self, exchange: ExchangeId, now: u64) {
        if self.total.is_armed(exchange.0) {
            self.sent_whole(exchange, now);
        }
    }

    pub(crate) fn completed(&mut self, exchange: ExchangeId) {
        self.total.disarm(exchange.0);
    }

    /// Called when the request has failed, or will be sent again.
    pub(crate) fn failed(&mut self, exchange: ExchangeId) {
        self.responding(exchange);
        self.total.disarm(exchange.0);
    }

    /// Called when a connection is retired at `now`. From then on, the worker waits for the peer to close it.
    pub(crate) fn leaving(&mut self, connection: ConnectionId, now: u64) {
        self.leaving.arm(connection.0, now);
    }

    pub(crate) fn closed(&mut self, connection: ConnectionId) {
        self.leaving.disarm(connection.0);
    }

    /// Time when the next timeout expires, or `u64::MAX` if no timeout is armed.
    pub(crate) fn next(&self) -> u64 {
        let requests = self.total.next().min(self.first_byte.next());
        requests.min(self.connect.next()).min(self.leaving.next())
    }

    /// If a timeout has expired at `now`, disarms it, and returns it.
    pub(crate) fn expire(&mut self, now: u64) -> Option<Expired> {
        let connect = self.connect.expire(now).map(|index| Expired::Connect(ConnectionId(index)));
        connect
            .or_else(|| self.first_byte.expire(now).map(|index| Expired::FirstByte(ExchangeId(index))))
            .or_else(|| self.total.expire(now).map(|index| Expired::Total(ExchangeId(index))))
            .or_else(|| self.leaving.expire(now).map(|index| Expired::Leaving(ConnectionId(index))))
    }
}

#[derive(Debug, Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
    armed_at: u64,
}

/// Value of `before` for a timeout that is not armed. The first timeout in a queue has [`NONE`] in `before`.
const DISARMED: u32 = u32::MAX - 1;

#[derive(Debug)]
struct Queue {
    timeout: u64,
    /// Links of the timeouts. The array grows up to the highest index that was ever armed. A kind of timeout
    /// that is never armed therefore uses no memory.
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

    /// Arms the timeout with the index `slot` at `now`. `now` must never decrease.
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
        let (connections, exchanges) = ([0, 1, 9].map(ConnectionId), [0, 1, 2].map(ExchangeId));
        timeouts.connecting(connections[0], 100);
        timeouts.sent(exchanges[1], 100);
        timeouts.sent(exchanges[2], 100);
        timeouts.leaving(connections[1], 100);
        assert_eq!(connections.map(|one| timeouts.is_connecting(one)), [true, false, false]);
        assert_eq!(timeouts.next(), 110);
        assert_eq!(timeouts.expire(109), None);
        assert_eq!(timeouts.expire(110), Some(Expired::Connect(connections[0])));
        timeouts.responding(exchanges[1]);
        assert_eq!(timeouts.expire(120), Some(Expired::FirstByte(exchanges[2])));
        timeouts.failed(exchanges[2]);
        assert_eq!(timeouts.expire(130), Some(Expired::Total(exchanges[1])));
        assert_eq!(timeouts.next(), 100 + LEAVING);
        assert_eq!(timeouts.expire(100 + LEAVING), Some(Expired::Leaving(connections[1])));
        assert_eq!((timeouts.next(), timeouts.expire(u64::MAX)), (u64::MAX, None));
    }

    #[test]
    fn the_first_byte_is_watched_once_the_whole_request_is_sent() {
        let mut timeouts = timeouts(10, 20, 100);
        let exchange = ExchangeId(0);
        timeouts.sending(exchange, 0);
        assert_eq!(timeouts.next(), 100);
        timeouts.sent_whole(exchange, 50);
        assert_eq!(timeouts.expire(70), Some(Expired::FirstByte(exchange)));
    }

    #[test]
    fn the_first_byte_is_watched_after_the_last_message() {
        let mut timeouts = timeouts(10, 20, 100);
        let exchange = ExchangeId(0);
        timeouts.sent_last(exchange, 0);
        assert_eq!(timeouts.next(), u64::MAX, "the head was not sent");
        timeouts.sending(exchange, 0);
        timeouts.heard(exchange, 90);
        timeouts.sent_last(exchange, 90);
        assert_eq!(timeouts.expire(109), None);
        assert_eq!(timeouts.expire(110), Some(Expired::FirstByte(exchange)));
    }

    #[test]
    fn disarmed_timeouts_do_not_expire() {
        let mut timeouts = timeouts(10, 20, 30);
        let (connection, exchange) = (ConnectionId(0), ExchangeId(0));
        timeouts.connecting(connection, 100);
        timeouts.connected(connection);
        timeouts.sent(exchange, 105);
        timeouts.responding(exchange);
        timeouts.completed(exchange);
        timeouts.leaving(connection, 110);
        timeouts.closed(connection);
        assert_eq!(timeouts.next(), u64::MAX);
    }

    #[test]
    fn the_first_byte_is_not_watched_if_the_total_timeout_is_not_longer() {
        for first_byte in [30, 31, u64::MAX] {
            let mut timeouts = timeouts(10, first_byte, 30);
            timeouts.sent(ExchangeId(0), 0);
            assert_eq!(timeouts.expire(1000), Some(Expired::Total(ExchangeId(0))));
            assert_eq!(timeouts.next(), u64::MAX);
        }
    }
}
