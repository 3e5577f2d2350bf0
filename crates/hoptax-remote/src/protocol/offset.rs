//! The difference between the clocks of two hosts.

use super::message::ClockReading;
use serde::{Deserialize, Serialize};

/// How much another host's monotonic clock is ahead of ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    /// Their clock − ours, ns.
    pub ns: i64,
    /// Largest error of `ns`: half of the round trip of the best message. 0 if both hosts have the same
    /// clock.
    pub uncertainty_ns: u64,
}

/// One message that asked for the other host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// Our clock when the question was sent, ns.
    pub asked_ns: u64,
    /// Our clock when the answer had arrived, ns.
    pub answered_ns: u64,
    /// Their clock in between.
    pub there: ClockReading,
}

impl Offset {
    /// The offset, from several round trips. The fastest one is the most accurate, because the other clock
    /// was read at some moment within it. `None` if there are no round trips.
    pub fn best(trips: &[RoundTrip]) -> Option<Self> {
        let best = trips.iter().min_by_key(|trip| trip.answered_ns.saturating_sub(trip.asked_ns))?;
        let half = best.answered_ns.saturating_sub(best.asked_ns) / 2;
        let middle = best.asked_ns + half;
        let ns = best.there.monotonic_ns.cast_signed().wrapping_sub(middle.cast_signed());
        Some(Self { ns, uncertainty_ns: half })
    }

    /// A moment of our clock on theirs.
    pub fn there(self, here_ns: u64) -> u64 {
        here_ns.saturating_add_signed(self.ns)
    }

    /// A moment of their clock on ours.
    pub fn here(self, there_ns: u64) -> u64 {
        there_ns.saturating_add_signed(self.ns.saturating_neg())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trip(asked_ns: u64, answered_ns: u64, monotonic_ns: u64) -> RoundTrip {
        RoundTrip { asked_ns, answered_ns, there: ClockReading { monotonic_ns, unix_ns: 0 } }
    }

    #[test]
    fn the_fastest_round_trip_decides() {
        let slow = trip(1_000, 9_000, 8_000_000);
        let fast = trip(10_000, 10_200, 5_010_100);
        assert_eq!(Offset::best(&[slow, fast, slow]), Some(Offset { ns: 5_000_000, uncertainty_ns: 100 }));
        assert_eq!(Offset::best(&[]), None);
    }

    #[test]
    fn moments_are_converted_both_ways() {
        for there in [5_000, 500] {
            let offset = Offset::best(&[trip(1_000, 1_000, there)]).expect("one trip");
            assert_eq!(offset.there(1_000), there);
            assert_eq!(offset.here(there + 7), 1_007);
        }
        let behind = Offset { ns: -5_000, uncertainty_ns: 0 };
        assert_eq!(behind.there(1_000), 0, "their host had not been started");
    }
}
