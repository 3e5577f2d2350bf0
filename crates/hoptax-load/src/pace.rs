//! How fast a worker may connect while connecting is of no use.
//!
//! Each slot rests after a failure of its own, longer and longer ([`crate::worker`]); but a thousand slots that rest are
//! still a thousand attempts at once. So as long as nothing comes of connections (they are refused, closed at once, reset
//! instead of answered), the worker as a whole connects at a steady pace, and no attempt may take more than a tenth of
//! its time: one that looks in vain for a free port takes the kernel milliseconds, in which no response is read.

use crate::clock::MILLISECOND;

/// Least time between two connects while nothing comes of them: 1,000 per second and worker at the most.
const LEAST_GAP: u64 = MILLISECOND;
/// Gap for each nanosecond that an attempt in vain has kept the thread.
const GAP_PER_COST: u64 = 9;
/// Longest gap, whatever an attempt cost.
const LONGEST_GAP: u64 = 100 * MILLISECOND;
/// Failures in a row that end all hope where nothing else will come…
const HOPELESS_FAILURES: u32 = 5;
/// …or that do after this long: the rests of a single slot between as many attempts, 10, 20, 40 and 80 ms.
const HOPELESS_AFTER: u64 = 150 * MILLISECOND;

/// One worker's pace.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    trouble: Option<Trouble>,
    /// No connect before this moment.
    not_before: u64,
    /// Something came of a connection once.
    proven: bool,
}

/// Nothing comes of connections.
#[derive(Debug, Clone, Copy)]
struct Trouble {
    since: u64,
    /// Failures since then, all in a row.
    failures: u32,
    /// The last one was for want of ports or descriptors.
    exhausted: bool,
}

impl Pace {
    /// The moment from which the next connect may be made.
    pub(crate) fn not_before(&self) -> u64 {
        self.not_before
    }

    /// A connect failed at `now`, or its connection did before it was of any use; `exhausted`: for want of ports or
    /// descriptors.
    pub(crate) fn failed(&mut self, now: u64, exhausted: bool) {
        let Trouble { since, failures, .. } =
            self.trouble.unwrap_or(Trouble { since: now, failures: 0, exhausted });
        self.trouble = Some(Trouble { since, failures: failures.saturating_add(1), exhausted });
        self.put_off(now, LEAST_GAP);
    }

    /// An attempt in vain that ended at `now` kept the thread for `cost` nanoseconds.
    pub(crate) fn cost(&mut self, now: u64, cost: u64) {
        self.put_off(now, cost.saturating_mul(GAP_PER_COST).min(LONGEST_GAP));
    }

    /// The other side has no room for a connect just now, and said so at once.
    pub(crate) fn full(&mut self, now: u64) {
        self.put_off(now, LEAST_GAP);
    }

    fn put_off(&mut self, from: u64, gap: u64) {
        self.not_before = self.not_before.max(from.saturating_add(gap));
    }

    /// A connect begins at `now`: while there is trouble, the next one keeps its distance from it.
    pub(crate) fn connecting(&mut self, now: u64) {
        if self.trouble.is_some() {
            self.put_off(now, LEAST_GAP);
        }
    }

    /// Something came of a connection.
    pub(crate) fn proved(&mut self) {
        self.proven = true;
        if self.trouble.take().is_some() {
            self.not_before = 0;
        }
    }

    /// Whether no more connections can be expected, now that all are opened for the first time: several in a row failed,
    /// for want of ports or descriptors, or for some time with none before them that stood.
    pub(crate) fn is_hopeless(&self, now: u64) -> bool {
        self.trouble.is_some_and(|trouble| {
            trouble.failures >= HOPELESS_FAILURES
                && (trouble.exhausted || !self.proven && now >= trouble.since.saturating_add(HOPELESS_AFTER))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connects that were possible in `time`, each failing at once and costing `cost`.
    fn attempts(pace: &mut Pace, time: u64, cost: u64) -> u64 {
        let (mut now, mut attempts) = (0, 0);
        while now < time {
            now = now.max(pace.not_before());
            pace.connecting(now);
            now += cost;
            pace.failed(now, false);
            pace.cost(now, cost);
            attempts += 1;
        }
        attempts
    }

    #[test]
    fn failing_connects_are_bounded_in_number_and_in_time() {
        let second = 1000 * MILLISECOND;
        assert!((900..=1001).contains(&attempts(&mut Pace::default(), second, 1000)));
        // 1.5 ms to find that no port is free: a tenth of the time, and no more.
        assert!((60..=68).contains(&attempts(&mut Pace::default(), second, 1_500_000)));
        // However long one takes, the next is not put off for ever.
        assert!(attempts(&mut Pace::default(), second, 50 * MILLISECOND) >= 6);
    }

    #[test]
    fn success_ends_the_pace() {
        let mut pace = Pace::default();
        pace.connecting(5);
        assert_eq!(pace.not_before(), 0, "there is no trouble");
        pace.failed(10, false);
        assert_eq!(pace.not_before(), 10 + LEAST_GAP);
        pace.connecting(7 * MILLISECOND);
        assert_eq!(pace.not_before(), 8 * MILLISECOND);
        pace.proved();
        assert_eq!(pace.not_before(), 0);
    }

    #[test]
    fn a_full_backlog_is_given_time_whatever_else_goes_well() {
        let mut pace = Pace::default();
        pace.full(10);
        pace.proved();
        assert_eq!(pace.not_before(), 10 + LEAST_GAP);
    }

    #[test]
    fn hope_ends_after_several_failures_and_some_time() {
        let mut pace = Pace::default();
        assert!(!pace.is_hopeless(u64::MAX));
        for failures in 0..HOPELESS_FAILURES {
            assert!(!pace.is_hopeless(u64::MAX), "after {failures}");
            pace.failed(0, false);
        }
        assert!(!pace.is_hopeless(HOPELESS_AFTER - 1) && pace.is_hopeless(HOPELESS_AFTER));
        pace.proved();
        (0..9).for_each(|_| pace.failed(0, false));
        assert!(!pace.is_hopeless(u64::MAX), "it was of use before");
        pace.failed(0, true);
        assert!(pace.is_hopeless(0), "there will not be more ports");
    }
}
