//! The reach of a fan-out: the time until the last connection has a message.
//!
//! A message counts once all streams that were open at the same time have it. Streams of several workers
//! belong to the same fan-out, so their arrivals are merged by number.

use hdrhistogram::Histogram;
use hoptax_format::histogram::{self, Encoded, TRIAL_DIGITS};

/// Maximum number of messages that are remembered. They take 24 MB.
const MOST: usize = 1_000_000;
/// Largest number that the first entry can have, so that no number overflows, whatever a server sends.
const LARGEST_BASE: u64 = u64::MAX - 2 * MOST as u64;
/// Number of messages before the first one that can still arrive on other streams.
const BEFORE: u64 = 64;

/// Arrivals of the messages of the measured time, by number.
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// Number of streams that have received a message and have not ended.
    open: u32,
    /// Largest value of `open` when a message arrived.
    most_open: u32,
    /// Number of the message of the first entry.
    base: u64,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    due: u64,
    /// When the latest stream received the message.
    latest: u64,
    /// Number of streams that have received it.
    streams: u32,
    /// True if messages with the same number were due at different times: they come from several instances.
    is_mixed: bool,
}

impl Entry {
    fn add(&mut self, other: Self) {
        self.is_mixed |= other.is_mixed || (self.streams > 0 && self.due != other.due);
        self.due = other.due;
        self.latest = self.latest.max(other.latest);
        self.streams = self.streams.saturating_add(other.streams);
    }
}

impl Reach {
    /// Called when the first message of a stream arrives.
    pub(super) fn opened(&mut self) {
        self.open += 1;
    }

    /// Called when a stream ends that has received a message.
    pub(super) fn ended(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// Notes that a stream has received a message for the first time at `now`.
    pub(super) fn arrived(&mut self, number: u64, due: u64, now: u64) {
        self.most_open = self.most_open.max(self.open);
        if let Some(entry) = self.entry(number) {
            entry.add(Entry { due, latest: now, streams: 1, is_mixed: false });
        }
    }

    /// The entry of a message. `None` if there are too many messages, or if it is too old.
    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        if self.entries.is_empty() {
            self.base = number.saturating_sub(BEFORE).min(LARGEST_BASE);
        }
        let place = usize::try_from(number.checked_sub(self.base)?).ok().filter(|place| *place < MOST)?;
        if place >= self.entries.len() {
            self.entries.resize(place + 1, Entry::default());
        }
        Some(&mut self.entries[place])
    }

    /// Adds the arrivals of another worker.
    pub(super) fn add(&mut self, other: &Self) {
        self.most_open += other.most_open;
        for (number, entry) in (other.base..).zip(&other.entries).filter(|(_, entry)| entry.streams > 0) {
            self.make_room(number);
            if let Some(mine) = self.entry(number) {
                mine.add(*entry);
            }
        }
    }

    /// Makes sure that the entries begin at `number` or before it, if there can be as many entries.
    fn make_room(&mut self, number: u64) {
        let missing = self.base.saturating_sub(number);
        if !self.entries.is_empty() && missing > 0 && missing < (MOST - self.entries.len()) as u64 {
            drop(self.entries.splice(0..0, (0..missing).map(|_| Entry::default())));
            self.base = number;
        }
    }

    /// For each message, the time from when it was due until the last stream had it, nanoseconds.
    pub(super) fn record(&self) -> Encoded {
        let mut times: Histogram<u64> = histogram::empty(TRIAL_DIGITS);
        let whole = |entry: &&Entry| entry.streams >= self.most_open.max(1) && !entry.is_mixed;
        for entry in self.entries.iter().filter(whole) {
            times.saturating_record(entry.latest.saturating_sub(entry.due));
        }
        Encoded::new(&times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::clock::MILLISECOND;

    /// The times that are recorded, in milliseconds.
    fn times(reach: &Reach) -> Vec<u64> {
        let times = reach.record().decode().expect("encoded here");
        let steps = times.iter_recorded();
        steps
            .flat_map(|step| vec![step.value_iterated_to() / MILLISECOND; step.count_at_value() as usize])
            .collect()
    }

    /// Notes an arrival. Times are in milliseconds.
    fn arrive(reach: &mut Reach, number: u64, due: u64, now: u64) {
        reach.arrived(number, due * MILLISECOND, now * MILLISECOND);
    }

    /// A worker with this number of streams.
    fn worker(streams: u32) -> Reach {
        let mut reach = Reach::default();
        (0..streams).for_each(|_| reach.opened());
        reach
    }

    #[test]
    fn a_message_counts_once_the_last_stream_has_it() {
        let mut reach = worker(3);
        for (number, now) in [(100, 1_200), (101, 2_300), (100, 1_250), (100, 1_400), (101, 2_350)] {
            arrive(&mut reach, number, (number - 99) * 1000, now);
        }
        assert_eq!(times(&reach), [400], "one stream does not have the message 101");
        // A message from before the first one, and one from far away.
        arrive(&mut reach, 99, 0, 1_500);
        arrive(&mut reach, 1, 0, 1_500);
        arrive(&mut reach, u64::MAX, 0, 1_500);
        arrive(&mut reach, 101, 2_000, 2_600);
        assert_eq!(times(&reach), [400, 600]);
        assert_eq!(reach.entries.len(), BEFORE as usize + 2);
    }

    #[test]
    fn workers_are_merged_by_number() {
        let (mut first, mut second) = (worker(2), worker(1));
        for (number, now) in [(1000, 300), (1000, 310), (1001, 400), (1001, 410)] {
            arrive(&mut first, number, 100, now);
        }
        for (number, now) in [(600, 200), (1000, 700), (1002, 800)] {
            arrive(&mut second, number, 100, now);
        }
        let mut both = Reach::default();
        both.add(&first);
        both.add(&second);
        assert_eq!(times(&both), [600]);
        assert_eq!(both.base, 600);
    }

    #[test]
    fn a_stream_that_has_ended_is_no_longer_missed() {
        let mut reach = worker(2);
        reach.ended();
        arrive(&mut reach, 7, 0, 500);
        assert_eq!(times(&reach), [500]);
    }

    #[test]
    fn numbers_of_several_instances_say_nothing() {
        let mut reach = worker(2);
        arrive(&mut reach, 7, 100, 500);
        arrive(&mut reach, 7, 150, 600);
        assert_eq!(times(&reach), [0; 0]);
    }
}
