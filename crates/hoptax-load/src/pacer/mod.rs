//! Schedule of the requests of an open loop. Each time is calculated from the worker and the index of the
//! request alone, so workers share nothing and errors do not accumulate.
//!
//! Worker `w` of `n` sends the requests with the global indexes `w`, `w + n`, `w + 2n` and so on. No memory
//! is needed to queue requests that are due but not sent, because these are the requests between the pacer's
//! next scheduled time and the current time.

mod refusal;
mod schedule;
#[cfg(test)]
mod tests;

use hoptax_format::random::{Random, unit_at};
use hoptax_format::spec::{Arrivals, Rate};
use schedule::{REQUEST, Schedule};

pub(crate) use refusal::refusal;

/// Maximum jitter accepted: a whole interval in each direction. With this jitter, two neighboring requests
/// can swap places, but other requests cannot.
pub(crate) const LARGEST_JITTER: f64 = 1.0;

/// Scheduled times of one worker, in order, either for the warm-up or for the measured time.
///
/// Each request has a position, and the schedule converts the position to a time. With constant arrivals,
/// request `k` has position `k`. Jitter shifts that position. With Poisson arrivals, the position is a sum of
/// exponential gaps. Their mean is 1 for one worker and `n` for each of `n` workers.
#[derive(Debug, Clone)]
pub(crate) struct Pacer {
    schedule: Schedule,
    arrivals: Arrivals,
    seed: u64,
    /// Index of the next request. Indexes count the requests of all workers.
    index: u64,
    stride: u64,
    /// First index that is not scheduled, because the number of requests is limited.
    limit: u64,
    origin: u64,
    poisson: Poisson,
    next: Option<u64>,
    /// Used only with jitter: the later one of two computed times. It is kept back, so that two neighboring
    /// requests are returned in order of time.
    held: Option<u64>,
}

/// State of the Poisson process. Each scheduled time of this process depends on all earlier times. With other
/// kinds of arrivals, a scheduled time depends only on the index of the request.
#[derive(Debug, Clone)]
struct Poisson {
    random: Random,
    /// Current position, in units of [`REQUEST`]. It is an integer, so that errors do not accumulate.
    position: u128,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) worker: u32,
    pub(crate) workers: u32,
}

impl Pacer {
    /// Creates the scheduled times, beginning at `origin`. With a fixed rate, they end before `end`. With
    /// stages, they end with the last stage. All workers together have at most `limit` scheduled times.
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

    /// Takes the next scheduled time, if it is not later than `now`.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<u64> {
        let due = self.next.filter(|due| *due <= now)?;
        self.next = self.compute();
        Some(due)
    }

    /// Number of scheduled times before `until` that were not taken: requests that are due but not sent.
    pub(crate) fn due_unsent(&self, until: u64) -> u64 {
        if self.next.is_none_or(|next| next >= until) {
            return 0;
        }
        if self.arrivals != Arrivals::Constant {
            let mut rest = self.clone();
            return std::iter::from_fn(|| rest.take_due(until - 1)).count() as u64;
        }
        // Constant arrivals are in order, so a binary search finds the first time that is not before `until`.
        // `index` is the index of the request after `next`.
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
                // n independent Poisson processes of rate r/n together are a Poisson process of rate r, so
                // workers need not coordinate. A monotone function maps a Poisson process to another Poisson
                // process. The rate of the result is the slope of the inverse function (Kingman, "Poisson
                // Processes", 1993, sections 2.2 and 2.3). A process of rate 1 in the space of positions can
                // therefore produce any rate profile.
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

    /// Scheduled time of request `index`, for constant and jittered arrivals. Jitter shifts a position by at
    /// most `share` requests, and never moves it beyond the start or end of the schedule. The number of
    /// requests is therefore the same as for constant arrivals.
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
