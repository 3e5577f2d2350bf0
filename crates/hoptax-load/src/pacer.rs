//! When requests of an open loop are due: pure arithmetic on (worker, index), so that workers share nothing and no
//! error adds up over a trial.
//!
//! Worker `w` of `n` owns the global indexes `w, w + n, w + 2n, …`. The line of requests that are due but not sent needs
//! no memory: it is the distance between the pacer's next moment and the clock.

use crate::clock::SECOND;
use crate::random::{Random, unit_at};
use crate::spec::Arrivals;

/// Highest rate accepted, requests per second: far above what any machine can carry.
pub const HIGHEST_RATE: f64 = 1e7;
/// Lowest rate accepted: one request in a thousand seconds.
pub const LOWEST_RATE: f64 = 1e-3;
/// Largest jitter accepted: a whole interval either way. Neighbours may change places then, but no others.
pub const LARGEST_JITTER: f64 = 1.0;

/// Rates are kept as whole requests per this many seconds, so that moments are exact quotients.
const RATE_UNIT: f64 = 1e6;

/// The scheduled moments of one worker over one stretch of time, in order.
#[derive(Debug, Clone)]
pub(crate) struct Pacer {
    arrivals: Arrivals,
    /// Requests per million seconds, over all workers.
    rate: u128,
    seed: u64,
    /// Index of the next request among all workers' requests.
    index: u64,
    /// Number of workers.
    stride: u64,
    /// First index that is not due any more.
    limit: u64,
    origin: u64,
    /// First moment that is not due any more.
    end: u64,
    poisson: Poisson,
    next: Option<u64>,
    /// Jitter only: the later of the two moments looked at, so that neighbours come out in order.
    held: Option<u64>,
}

/// State of the Poisson process: the only one whose moments are not a closed form.
#[derive(Debug, Clone)]
struct Poisson {
    random: Random,
    /// Mean gap of this worker's process, nanoseconds.
    gap: f64,
    /// Nanoseconds since the origin. 53 bits hold nanoseconds for a hundred days.
    elapsed: f64,
}

/// Which part of the traffic a pacer makes: one worker's, of how many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// The worker, from 0.
    pub(crate) worker: u32,
    /// All workers.
    pub(crate) workers: u32,
}

impl Pacer {
    /// Moments from `origin` up to, not including, `end`; at most `limit` over all workers.
    pub(crate) fn new(
        (rate, arrivals): (f64, Arrivals),
        share: Share,
        seed: u64,
        (origin, end): (u64, u64),
        limit: Option<u64>,
    ) -> Self {
        let rate_fixed = (rate * RATE_UNIT).round().max(1.0) as u128;
        let mut pacer = Self {
            arrivals,
            rate: rate_fixed,
            seed,
            index: u64::from(share.worker),
            stride: u64::from(share.workers),
            limit: limit.unwrap_or(u64::MAX),
            origin,
            end,
            // The superposition of n independent Poisson processes of rate r/n is a Poisson process of rate r
            // (Kingman, "Poisson Processes", 1993, section 2.2), so workers need not know of each other.
            poisson: Poisson {
                random: Random::stream(seed, u64::from(share.worker)),
                gap: SECOND as f64 * f64::from(share.workers) / rate,
                elapsed: 0.0,
            },
            next: None,
            held: None,
        };
        pacer.next = pacer.compute();
        pacer
    }

    /// The next scheduled moment; `None` when there are no more.
    pub(crate) fn peek(&self) -> Option<u64> {
        self.next
    }

    /// Takes the next scheduled moment if it is not after `now`.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<u64> {
        let due = self.next.filter(|due| *due <= now)?;
        self.next = self.compute();
        Some(due)
    }

    /// How many moments before `until` have not been taken: what stands in line then.
    pub(crate) fn in_line(&self, until: u64) -> u64 {
        if self.next.is_none_or(|next| next >= until) {
            return 0;
        }
        if self.arrivals != Arrivals::Constant {
            let mut rest = self.clone();
            return std::iter::from_fn(|| rest.take_due(until - 1)).count() as u64;
        }
        // Constant moments never go back, so the first one that is not before `until` is found by halving; `index` is
        // the one behind `next`.
        let is_due = |step: u64| {
            let index = u128::from(self.index) + u128::from(step) * u128::from(self.stride);
            u64::try_from(index).ok().and_then(|index| self.at(index)).is_some_and(|moment| moment < until)
        };
        let mut bound = 1;
        while is_due(bound - 1) {
            bound *= 2;
        }
        let (mut due, mut not_due) = (bound / 2, bound);
        while not_due - due > 1 {
            let middle = due + (not_due - due) / 2;
            if is_due(middle - 1) { due = middle } else { not_due = middle }
        }
        due + 1
    }

    fn compute(&mut self) -> Option<u64> {
        match self.arrivals {
            Arrivals::Constant => self.advance(),
            Arrivals::Jitter(_) => {
                let held = self.held.take().or_else(|| self.advance())?;
                let Some(fresh) = self.advance() else { return Some(held) };
                self.held = Some(held.max(fresh));
                Some(held.min(fresh))
            }
            Arrivals::Poisson if self.index >= self.limit => None,
            Arrivals::Poisson => {
                self.index = self.index.saturating_add(self.stride);
                self.poisson.elapsed += self.poisson.random.exponential() * self.poisson.gap;
                let moment = self.origin.saturating_add(self.poisson.elapsed as u64);
                Some(moment).filter(|moment| *moment < self.end)
            }
        }
    }

    /// The moment of the present index, and on to the next one.
    fn advance(&mut self) -> Option<u64> {
        let moment = self.at(self.index);
        self.index = self.index.saturating_add(self.stride);
        moment
    }

    /// The moment of one index, for constant and jittered arrivals.
    ///
    /// Constant: `origin + index / rate`. Jitter moves that by at most its share of the interval, but never out of the
    /// stretch of time, so that the number of requests is the constant one's.
    fn at(&self, index: u64) -> Option<u64> {
        if index >= self.limit {
            return None;
        }
        let per_rate_unit = SECOND as u128 * RATE_UNIT as u128;
        let offset = u64::try_from(u128::from(index) * per_rate_unit / self.rate).ok()?;
        let constant = self.origin.checked_add(offset).filter(|moment| *moment < self.end)?;
        let Arrivals::Jitter(share) = self.arrivals else { return Some(constant) };
        let interval = per_rate_unit as f64 / self.rate as f64;
        let moved = (2.0 * unit_at(self.seed, index) - 1.0) * share * interval;
        Some(constant.saturating_add_signed(moved as i64).clamp(self.origin, self.end - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::MILLISECOND;

    const ALONE: Share = Share { worker: 0, workers: 1 };

    fn moments(mut pacer: Pacer) -> Vec<u64> {
        std::iter::from_fn(|| pacer.take_due(u64::MAX)).collect()
    }

    fn all(rate: f64, arrivals: Arrivals, workers: u32, end: u64, limit: Option<u64>) -> Vec<u64> {
        let mut all: Vec<u64> = (0..workers)
            .flat_map(|worker| {
                moments(Pacer::new((rate, arrivals), Share { worker, workers }, 5, (0, end), limit))
            })
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn constant_moments_are_exact_quotients() {
        for (rate, duration, first, count) in [
            (1000.0, SECOND, [0, 1_000_000, 2_000_000], 1000),
            (3.0, 10 * SECOND, [0, 333_333_333, 666_666_666], 30),
            (0.5, 6 * SECOND, [0, 2 * SECOND, 4 * SECOND], 3),
            (1e6, SECOND / 100, [0, 1000, 2000], 10_000),
        ] {
            let moments = all(rate, Arrivals::Constant, 1, duration, None);
            assert_eq!(&moments[..3], &first, "rate {rate}");
            assert_eq!(moments.len(), count, "rate {rate}");
        }
    }

    #[test]
    fn a_day_in_there_is_no_accumulated_error() {
        let day = 86_400 * SECOND;
        let pacer = Pacer::new((3.0, Arrivals::Constant), ALONE, 0, (0, 2 * day), None);
        assert_eq!(pacer.at(3 * 86_400), Some(day));
    }

    #[test]
    fn workers_share_the_moments_of_one() {
        for arrivals in [Arrivals::Constant, Arrivals::Jitter(0.1)] {
            let one = all(777.0, arrivals, 1, SECOND, None);
            assert_eq!(all(777.0, arrivals, 3, SECOND, None), one);
        }
    }

    #[test]
    fn a_limit_counts_over_all_workers() {
        for arrivals in [Arrivals::Constant, Arrivals::Jitter(0.5), Arrivals::Poisson] {
            assert_eq!(all(1000.0, arrivals, 3, u64::MAX / 2, Some(100)).len(), 100, "{arrivals:?}");
        }
    }

    #[test]
    fn jitter_stays_in_order_even_where_neighbours_change_places() {
        for share in [0.1, 0.5, 1.0] {
            let pacer = Pacer::new((1000.0, Arrivals::Jitter(share)), ALONE, 9, (SECOND, 2 * SECOND), None);
            let mut unordered: Vec<u64> = (0..1000).filter_map(|index| pacer.at(index)).collect();
            unordered.sort_unstable();
            assert_eq!(moments(pacer), unordered, "share {share}");
        }
    }

    #[test]
    fn jitter_stays_within_its_share() {
        let interval = MILLISECOND;
        let pacer = Pacer::new((1000.0, Arrivals::Jitter(0.5)), ALONE, 9, (SECOND, 2 * SECOND), None);
        let jittered = moments(pacer);
        assert_eq!(jittered.len(), 1000);
        let mut moved = 0;
        for (index, moment) in jittered.iter().enumerate() {
            let constant = SECOND + index as u64 * interval;
            assert!(moment.abs_diff(constant) <= interval / 2);
            moved += u32::from(moment.abs_diff(constant) > interval / 10);
        }
        assert!(moved > 600, "only {moved} of 1000 moved by more than a tenth");
    }

    #[test]
    fn poisson_has_the_rate_and_the_spread_of_its_name() {
        let moments = all(10_000.0, Arrivals::Poisson, 4, 10 * SECOND, None);
        // Mean 100,000, standard deviation 316.
        assert!(moments.len().abs_diff(100_000) < 1600, "{} arrivals", moments.len());
        let gaps: Vec<f64> = moments.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.03, "exponential gaps vary as much as their mean");
    }

    #[test]
    fn the_line_is_what_was_due_and_not_taken() {
        for arrivals in [Arrivals::Constant, Arrivals::Jitter(0.3), Arrivals::Poisson] {
            let share = Share { worker: 1, workers: 2 };
            let mut pacer = Pacer::new((1000.0, arrivals), share, 3, (100, SECOND), Some(900));
            for _ in 0..10 {
                pacer.take_due(u64::MAX).expect("hundreds are due");
            }
            for until in [0, 100, SECOND / 3, SECOND / 2 + 1, SECOND] {
                let expected = moments(pacer.clone()).iter().filter(|moment| **moment < until).count();
                assert_eq!(pacer.in_line(until), expected as u64, "{arrivals:?} until {until}");
            }
        }
    }

    #[test]
    fn nothing_is_due_before_its_moment() {
        let mut pacer = Pacer::new((1000.0, Arrivals::Constant), ALONE, 0, (SECOND, 2 * SECOND), None);
        assert_eq!(pacer.take_due(SECOND - 1), None);
        assert_eq!(pacer.take_due(SECOND), Some(SECOND));
        assert_eq!(pacer.peek(), Some(SECOND + MILLISECOND));
        assert_eq!(pacer.take_due(SECOND + MILLISECOND - 1), None);
    }
}
