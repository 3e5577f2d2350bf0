//! When requests of an open loop are due: pure arithmetic on (worker, index), so that workers share nothing and no
//! error adds up over a trial.
//!
//! Worker `w` of `n` owns the global indexes `w, w + n, w + 2n, …`. The line of requests that are due but not sent needs
//! no memory: it is the distance between the pacer's next moment and the clock.

mod refusal;
mod schedule;
#[cfg(test)]
mod tests;

use crate::random::{Random, unit_at};
use crate::spec::{Arrivals, Rate};
use schedule::{REQUEST, Schedule};

pub(crate) use refusal::refusal;

/// Highest rate accepted, requests per second: far above what any machine can carry.
pub const HIGHEST_RATE: f64 = 1e7;
/// Lowest rate accepted above zero: one request in a thousand seconds.
pub const LOWEST_RATE: f64 = 1e-3;
/// Largest jitter accepted: a whole interval either way. Neighbours may change places then, but no others.
pub const LARGEST_JITTER: f64 = 1.0;

/// The scheduled moments of one worker over one stretch of time, in order.
///
/// Request `k` stands at position `k` on the axis of requests due, moved there by jitter; Poisson arrivals stand at sums of
/// exponential gaps with mean 1. The schedule says when that many are due.
#[derive(Debug, Clone)]
pub(crate) struct Pacer {
    schedule: Schedule,
    arrivals: Arrivals,
    seed: u64,
    /// Index of the next request among all workers' requests.
    index: u64,
    /// Number of workers.
    stride: u64,
    /// First index that is not due any more.
    limit: u64,
    /// Where the schedule begins.
    origin: u64,
    poisson: Poisson,
    next: Option<u64>,
    /// Jitter only: the later of the two moments looked at, so that neighbours come out in order.
    held: Option<u64>,
}

/// State of the Poisson process: the only one whose positions are not a closed form.
#[derive(Debug, Clone)]
struct Poisson {
    random: Random,
    /// Position reached, in the schedule's units: whole ones, so that no error adds up.
    position: u128,
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
    /// Moments from `origin` on: up to, not including, `end` where the rate is fixed, to the end of the last stage
    /// otherwise; at most `limit` over all workers.
    pub(crate) fn new(
        (rate, arrivals): (&Rate, Arrivals),
        share: Share,
        seed: u64,
        (origin, end): (u64, u64),
        limit: Option<u64>,
    ) -> Self {
        let mut pacer = Self {
            schedule: Schedule::new(rate, end.saturating_sub(origin)),
            arrivals,
            seed,
            index: u64::from(share.worker),
            stride: u64::from(share.workers),
            limit: limit.unwrap_or(u64::MAX),
            origin,
            poisson: Poisson { random: Random::stream(seed, u64::from(share.worker)), position: 0 },
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
                // The superposition of n independent Poisson processes of rate r/n is a Poisson process of rate r, so
                // workers need not know of each other; and the image of one under a monotone function is another, of the
                // rate that the function's inverse grows with (Kingman, "Poisson Processes", 1993, sections 2.2 and 2.3),
                // so that a process of unit rate on the axis of requests due makes any course of the rate.
                let gap = self.poisson.random.exponential() * self.stride as f64;
                self.poisson.position += (gap * REQUEST as f64) as u128;
                self.moment(self.poisson.position)
            }
        }
    }

    /// The moment of the present index, and on to the next one.
    fn advance(&mut self) -> Option<u64> {
        let moment = self.at(self.index);
        self.index = self.index.saturating_add(self.stride);
        moment
    }

    /// The moment of one index, for constant and jittered arrivals. Jitter moves its position by at most its share of one
    /// request, but never out of the schedule, so that the number of requests is the constant one's.
    fn at(&self, index: u64) -> Option<u64> {
        let position = u128::from(index) * REQUEST;
        if index >= self.limit || position >= self.schedule.total() {
            return None;
        }
        let Arrivals::Jitter(share) = self.arrivals else { return self.moment(position) };
        let moved = (2.0 * unit_at(self.seed, index) - 1.0) * share * REQUEST as f64;
        let position = if moved < 0.0 {
            position.saturating_sub(-moved as u128)
        } else {
            (position + moved as u128).min(self.schedule.total() - 1)
        };
        self.moment(position)
    }

    fn moment(&self, position: u128) -> Option<u64> {
        self.origin.checked_add(self.schedule.moment(position)?)
    }
}
