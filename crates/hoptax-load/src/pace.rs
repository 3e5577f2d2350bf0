//! Limits how fast a worker connects while its connections fail.
//!
//! After a failure, each slot waits with exponential backoff ([`crate::worker`]). But a thousand waiting
//! slots can still make a thousand attempts at once. Therefore, the whole worker connects at a limited rate
//! while its connections fail. This includes connections that are refused, closed at once or reset before a
//! response, and connects for which no port is free.
//!
//! Failed attempts may take at most a tenth of the worker's time. An unsuccessful search for a free port
//! keeps the kernel busy for milliseconds, and the worker reads no responses meanwhile.

use hoptax_format::clock::MILLISECOND;

/// Minimum time between two connects while connections fail. It allows at most 1,000 connects per second and
/// worker.
const LEAST_GAP: u64 = MILLISECOND;
/// After a failed attempt, the worker waits for the time that the attempt blocked the thread, multiplied by
/// this factor.
const GAP_PER_COST: u64 = 9;
const LONGEST_GAP: u64 = 100 * MILLISECOND;
/// Minimum number of failures in a row before connecting is regarded as hopeless.
const HOPELESS_FAILURES: u32 = 5;
/// Minimum time since the first failure in a row before connecting is regarded as hopeless. If ports or
/// descriptors are exhausted, there is no minimum time. The value is the sum of the first four waits of a
/// slot: 10, 20, 40 and 80 ms.
const HOPELESS_AFTER: u64 = 150 * MILLISECOND;

#[derive(Debug, Default)]
pub(crate) struct Pace {
    trouble: Option<Trouble>,
    not_before: u64,
    /// True once a connection was useful. Before traffic, a connection is useful when it is established.
    /// During traffic, it is useful when it has carried a response.
    proven: bool,
}

/// State while connections fail.
#[derive(Debug, Clone, Copy)]
struct Trouble {
    since: u64,
    /// Number of failures in a row, counted from the time `since`.
    failures: u32,
    /// True if the last failure was caused by a lack of ports or descriptors.
    exhausted: bool,
}

impl Pace {
    pub(crate) fn not_before(&self) -> u64 {
        self.not_before
    }

    /// Records a failure at `now`: a connect failed, or a connection failed before it was useful. `exhausted`
    /// is true if no port or no descriptor was free.
    pub(crate) fn failed(&mut self, now: u64, exhausted: bool) {
        let Trouble { since, failures, .. } =
            self.trouble.unwrap_or(Trouble { since: now, failures: 0, exhausted });
        self.trouble = Some(Trouble { since, failures: failures.saturating_add(1), exhausted });
        self.put_off(now, LEAST_GAP);
    }

    /// Records that a failed attempt ended at `now`, after it had blocked the thread for `cost` nanoseconds.
    pub(crate) fn cost(&mut self, now: u64, cost: u64) {
        self.put_off(now, cost.saturating_mul(GAP_PER_COST).min(LONGEST_GAP));
    }

    /// Records that the peer refused a connect at once because its backlog was full.
    pub(crate) fn full(&mut self, now: u64) {
        self.put_off(now, LEAST_GAP);
    }

    fn put_off(&mut self, from: u64, gap: u64) {
        self.not_before = self.not_before.max(from.saturating_add(gap));
    }

    /// Records a connect that starts at `now`. While connections fail, this delays the next connect by
    /// [`LEAST_GAP`].
    pub(crate) fn connecting(&mut self, now: u64) {
        if self.trouble.is_some() {
            self.put_off(now, LEAST_GAP);
        }
    }

    /// True while the rate of connects is limited because connections fail.
    pub(crate) fn is_limited(&self) -> bool {
        self.trouble.is_some()
    }

    /// Records a successful connect. It shows that a port and a descriptor were free. It does not show yet
    /// that the connection is useful.
    pub(crate) fn connected(&mut self) {
        if self.trouble.is_some_and(|trouble| trouble.exhausted) {
            self.end();
        }
    }

    /// Records that a connection was useful. This does not show that ports are free for more connections.
    pub(crate) fn proved(&mut self) {
        self.proven = true;
        if self.trouble.is_some_and(|trouble| !trouble.exhausted) {
            self.end();
        }
    }

    fn end(&mut self) {
        self.trouble = None;
        self.not_before = 0;
    }

    /// Called while connections are opened before traffic begins. Returns true if further attempts would be
    /// useless. This requires several failures in a row and one of two further conditions. Either ports or
    /// descriptors are exhausted, or the failures have lasted for some time and no connection was useful
    /// before.
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

    /// Counts the connects within `time` nanoseconds if each of them fails and takes `cost` nanoseconds.
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
        // An unsuccessful search for a free port takes 1.5 ms. All searches together must take at most a
        // tenth of the time.
        assert!((60..=68).contains(&attempts(&mut Pace::default(), second, 1_500_000)));
        // Even if each attempt takes very long, the worker must keep trying.
        assert!(attempts(&mut Pace::default(), second, 50 * MILLISECOND) >= 6);
    }

    #[test]
    fn success_lifts_the_limit() {
        let mut pace = Pace::default();
        pace.connecting(5);
        assert_eq!(pace.not_before(), 0, "nothing has failed");
        pace.failed(10, false);
        assert_eq!(pace.not_before(), 10 + LEAST_GAP);
        pace.connecting(7 * MILLISECOND);
        assert_eq!(pace.not_before(), 8 * MILLISECOND);
        pace.proved();
        assert_eq!(pace.not_before(), 0);
    }

    #[test]
    fn exhaustion_lasts_until_a_connect_succeeds() {
        let mut pace = Pace::default();
        pace.failed(10, true);
        pace.proved();
        assert_eq!(pace.not_before(), 10 + LEAST_GAP, "existing connections keep their ports");
        pace.connected();
        assert_eq!(pace.not_before(), 0);
        pace.failed(20, false);
        pace.connected();
        assert_eq!(pace.not_before(), 20 + LEAST_GAP, "a connection that is closed at once is not useful");
    }

    #[test]
    fn a_full_backlog_delays_the_next_connect_in_any_case() {
        let mut pace = Pace::default();
        pace.full(10);
        pace.proved();
        assert_eq!(pace.not_before(), 10 + LEAST_GAP);
    }

    #[test]
    fn connecting_is_hopeless_after_several_failures_and_some_time() {
        let mut pace = Pace::default();
        assert!(!pace.is_hopeless(u64::MAX));
        for failures in 0..HOPELESS_FAILURES {
            assert!(!pace.is_hopeless(u64::MAX), "after {failures}");
            pace.failed(0, false);
        }
        assert!(!pace.is_hopeless(HOPELESS_AFTER - 1) && pace.is_hopeless(HOPELESS_AFTER));
        pace.proved();
        (0..9).for_each(|_| pace.failed(0, false));
        assert!(!pace.is_hopeless(u64::MAX), "a connection was useful before");
        pace.failed(0, true);
        assert!(pace.is_hopeless(0), "there will not be more ports");
    }
}
