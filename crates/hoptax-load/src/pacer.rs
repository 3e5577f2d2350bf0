//! Schedule of open-loop requests. It is pure arithmetic on (worker, index), so workers share nothing and errors do
//! not accumulate.
//!
//! Worker `w` of `n` owns the global indexes `w, w + n, w + 2n, …`. The queue of requests that are due but not sent
//! needs no memory: it is the distance between the pacer's next scheduled time and the clock.

mod refusal;
mod schedule;
#[cfg(test)]
mod tests;

use crate::random::{Random, unit_at};
use crate::spec::{Arrivals, Rate};
use schedule::{REQUEST, Schedule};

pub(crate) use refusal::refusal;

/// Highest rate accepted, requests per second: far more than any machine can serve.
pub const HIGHEST_RATE: f64 = 1e7;
/// Lowest rate accepted above zero, requests per second: one request in a thousand seconds.
pub const LOWEST_RATE: f64 = 1e-3;
/// Largest jitter accepted: a whole interval in each direction. With it, neighbors can swap places, but no other
/// requests can.
pub const LARGEST_JITTER: f64 = 1.0;

/// Scheduled times of one worker, in order, for the warm-up or the measured time.
///
/// Request `k` has position `k` on the axis of requests due. Jitter shifts this position. With Poisson arrivals,
/// positions are sums of exponential gaps with mean 1. The schedule maps a position to a time.
#[derive(Debug, Clone)]
pub(crate) struct Pacer {
    schedule: Schedule,
    arrivals: Arrivals,
    seed: u64,
    /// Index of the next request, counted over all workers.
    index: u64,
    stride: u64,
    /// First index that is not scheduled, because it exceeds the limit of requests.
    limit: u64,
    origin: u64,
    poisson: Poisson,
    next: Option<u64>,
    /// Used only with jitter: the later of two computed times, which is held back so that neighbors are returned in
    /// order.
    held: Option<u64>,
}

/// State of the Poisson process. Unlike the other arrivals, it has no closed form.
#[derive(Debug, Clone)]
struct Poisson {
    random: Random,
    /// Current position, in units of [`REQUEST`]: an integer, so that errors do not accumulate.
    position: u128,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) worker: u32,
    pub(crate) workers: u32,
}

impl Pacer {
    /// Creates the scheduled times from `origin` on. With a fixed rate they end before `end`; otherwise they end with
    /// the last stage. There are at most `limit` of them over all workers.
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

    pub(crate) fn peek(&self) -> Option<u64> {
        self.next
    }

    /// Takes the next scheduled time if it is not later than `now`.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<u64> {
        let due = self.next.filter(|due| *due <= now)?;
        self.next = self.compute();
        Some(due)
    }

    /// Number of scheduled times before `until` that were not taken. These requests are due but not sent.
    pub(crate) fn due_unsent(&self, until: u64) -> u64 {
        if self.next.is_none_or(|next| next >= until) {
            return 0;
        }
        if self.arrivals != Arrivals::Constant {
            let mut rest = self.clone();
            return std::iter::from_fn(|| rest.take_due(until - 1)).count() as u64;
        }
        // Constant arrivals are in order, so a binary search finds the first time at or after `until`. `index`
        // belongs to the request after `next`.
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
                // workers need not coordinate. A monotone function maps a Poisson process to another Poisson process,
                // whose rate is the slope of the inverse function (Kingman, "Poisson Processes", 1993, sections 2.2
                // and 2.3). So a process of rate 1 on the axis of requests due can produce any rate profile.
                let gap = self.poisson.random.exponential() * self.stride as f64;
                self.poisson.position += (gap * REQUEST as f64) as u128;
                self.moment(self.poisson.position)
            }
        }
    }

    fn advance(&mut self) -> Option<u64> {
        let moment = self.at(self.index);
        self.index = self.index.saturating_add(self.stride);
        moment
    }

    /// Scheduled time of `index`, for constant and jittered arrivals. Jitter shifts a position by at most its share
    /// of one request, but never out of the schedule. The number of requests is therefore the same as for constant
    /// arrivals.
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
