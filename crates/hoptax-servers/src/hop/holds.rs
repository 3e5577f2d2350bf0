//! Timers of planted delays: requests wait before they are forwarded, responses before they are sent to the
//! client.
//!
//! The delay of a request starts at the end of its head. The delay of a response starts at its first byte.
//! Both last exactly the given time. Later bytes of the same message wait until the delay is over.

use super::warming::Warming;
use hoptax_format::clock;
use hoptax_format::random::Random;
use hoptax_load::event_loop::Token;
use hoptax_plan::{HopDelay, HopDelayHow, HopFaults, HopLlm};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

/// Length of the final part of a delay, in which a worker with its own CPU polls instead of sleeping. Waking
/// up from sleep would take tens of µs on an idle CPU. The generator does the same before a request is due.
const POLL_NS: u64 = 50_000;

#[derive(Debug)]
pub(super) struct Holds {
    pub(super) delay: Option<HopDelay>,
    pub(super) faults: Option<HopFaults>,
    /// `None` if there is no warm-up, or if it is over. A warm hop then costs no more than a hop without a
    /// warm-up.
    warming: Option<Arc<Warming>>,
    random: Random,
    polls: bool,
    timers: BinaryHeap<Reverse<Timer>>,
    next_id: u64,
}

/// Timers are ordered by time. The id distinguishes a timer from other timers of the same token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timer {
    due: u64,
    pub(super) id: u64,
    /// The connection of `hop-l7`, or the place of the exchange of `hop-h2`.
    pub(super) token: Token,
}

impl Holds {
    /// The workers share a seed, but each uses its own random stream. They share the warm-up, too.
    pub(super) fn new(
        delay: Option<HopDelay>,
        warming: Option<Arc<Warming>>,
        seed: u64,
        worker: usize,
        polls: bool,
    ) -> Self {
        Self {
            faults: delay.and_then(|delay| delay.faults),
            // A hop that only warms up has zero delays. Without them, it costs no more than any hop when it
            // is warm.
            delay: delay.filter(|delay| !delay.is_zero()),
            warming,
            random: Random::stream(seed, worker as u64),
            polls,
            timers: BinaryHeap::new(),
            next_id: 0,
        }
    }

    /// The faults of requests to language models.
    pub(super) fn llm(&self) -> HopLlm {
        self.faults.and_then(|faults| faults.llm).unwrap_or_default()
    }

    pub(super) fn any(&self) -> bool {
        self.delay.is_some()
    }

    /// Spends the extra CPU time of the next request while the hop warms up.
    pub(super) fn warm_up(&mut self) {
        let Some(warming) = &self.warming else { return };
        match warming.count() {
            Some(extra) => spin_until(clock::now() + extra.as_nanos() as u64),
            None => self.warming = None,
        }
    }

    /// Decides at random whether the next request is delayed, and returns the delay if so.
    pub(super) fn draw(&mut self) -> Option<HopDelay> {
        let delay = self.delay?;
        (self.random.unit() < delay.share).then_some(delay)
    }

    /// Decides at random with this probability.
    pub(super) fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.random.unit() < share
    }

    /// Applies a delay. If `how` is `Spin`, waits here and returns `None`. Otherwise starts a timer and
    /// returns its id.
    pub(super) fn spend(&mut self, token: Token, how: HopDelayHow, time: Duration) -> Option<u64> {
        if time.is_zero() {
            return None;
        }
        let due = clock::now() + time.as_nanos() as u64;
        if how == HopDelayHow::Spin {
            spin_until(due);
            return None;
        }
        self.next_id += 1;
        self.timers.push(Reverse(Timer { due, id: self.next_id, token }));
        Some(self.next_id)
    }

    pub(super) fn next(&self) -> Option<u64> {
        let early = if self.polls { POLL_NS } else { 0 };
        self.timers.peek().map(|Reverse(timer)| timer.due.saturating_sub(early))
    }

    pub(super) fn over(&mut self, now: u64) -> Option<Timer> {
        let &Reverse(timer) = self.timers.peek()?;
        if timer.due > now {
            return None;
        }
        self.timers.pop();
        Some(timer)
    }
}

/// Keeps the CPU busy until `due` on the clock, in nanoseconds.
fn spin_until(due: u64) {
    while clock::now() < due {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_plan::{HopWarming, HopWarmingFall};

    fn holds() -> Holds {
        let delay = HopDelay { inbound: Duration::from_millis(2), ..HopDelay::default() };
        Holds::new(Some(delay), None, 1, 0, false)
    }

    #[test]
    fn holds_end_in_their_order_and_not_before_they_are_due() {
        let mut holds = holds();
        assert_eq!(holds.spend(Token(1), HopDelayHow::Sleep, Duration::ZERO), None);
        let late = holds.spend(Token(1), HopDelayHow::Sleep, Duration::from_secs(2));
        let early = holds.spend(Token(2), HopDelayHow::Sleep, Duration::from_secs(1));
        let due = holds.next().expect("two wait");
        assert_eq!(holds.over(due - 1), None);
        assert_eq!(holds.over(due).map(|timer| (Some(timer.id), timer.token)), Some((early, Token(2))));
        assert_eq!(holds.over(due), None);
        assert_eq!(holds.over(u64::MAX).map(|timer| Some(timer.id)), Some(late));
        assert_eq!(holds.next(), None);
        holds.polls = true;
        holds.spend(Token(1), HopDelayHow::Sleep, Duration::from_secs(1));
        let polled = holds.next();
        holds.polls = false;
        assert_eq!(polled.map(|early| early + POLL_NS), holds.next());
    }

    #[test]
    fn a_busy_wait_has_the_given_length() {
        let before = clock::now();
        let time = Duration::from_millis(2);
        assert_eq!(holds().spend(Token(0), HopDelayHow::Spin, time), None);
        assert!(clock::now() - before >= 2 * clock::MILLISECOND);
    }

    #[test]
    fn workers_share_a_warm_up_and_forget_it_when_it_is_over() {
        let planted = HopWarming { requests: 3, extra: Duration::from_millis(1), fall: HopWarmingFall::Step };
        let delay = HopDelay { warming: Some(planted), ..HopDelay::default() };
        let shared = Arc::new(Warming::new(planted));
        let worker = |index| Holds::new(Some(delay), Some(Arc::clone(&shared)), 0, index, false);
        let mut workers = [worker(0), worker(1)];
        assert!(workers.iter().all(|worker| !worker.any()), "there is no delay");
        let before = clock::now();
        for request in 0..3 {
            workers[request % 2].warm_up();
        }
        assert!(clock::now() - before >= 3 * clock::MILLISECOND);
        for worker in &mut workers {
            worker.warm_up();
            assert!(worker.warming.is_none());
        }
    }
}
