//! The planted warm-up: extra CPU time of the first requests since the hop started.

use hoptax_plan::{HopWarming, HopWarmingFall};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts the requests of all workers until the hop is warm.
#[derive(Debug)]
pub(super) struct Warming {
    planted: HopWarming,
    requests: AtomicU64,
}

impl Warming {
    pub(super) fn new(planted: HopWarming) -> Self {
        Self { planted, requests: AtomicU64::new(0) }
    }

    /// Counts a request. Returns its extra CPU time, or `None` if the hop is warm.
    pub(super) fn count(&self) -> Option<Duration> {
        extra(&self.planted, self.requests.fetch_add(1, Ordering::Relaxed))
    }
}

/// Extra CPU time of a request. The first request is request 0. Returns `None` if the warm-up ended before
/// the request.
fn extra(planted: &HopWarming, request: u64) -> Option<Duration> {
    let left = planted.requests.checked_sub(request).filter(|left| *left > 0)?;
    let full = planted.extra.as_nanos() as u64;
    Some(Duration::from_nanos(match planted.fall {
        // The product is at most 1 s × 1e9 requests = 1e18, which fits into 64 bits.
        HopWarmingFall::Linear => full * left / planted.requests,
        HopWarmingFall::Step => full,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_plan::{LONGEST_WARMING, MOST_WARMING_REQUESTS};

    fn planted(requests: u64, extra: Duration, fall: HopWarmingFall) -> HopWarming {
        HopWarming { requests, extra, fall }
    }

    #[test]
    fn a_linear_warm_up_falls_with_each_request() {
        let four = planted(4, Duration::from_micros(100), HopWarmingFall::Linear);
        let expected = [Some(100), Some(75), Some(50), Some(25), None, None];
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|n| extra(&four, n)),
            expected.map(|us| us.map(Duration::from_micros))
        );
        let largest = planted(MOST_WARMING_REQUESTS, LONGEST_WARMING, HopWarmingFall::Linear);
        assert_eq!(extra(&largest, 0), Some(LONGEST_WARMING));
        assert_eq!(extra(&largest, MOST_WARMING_REQUESTS - 1), Some(Duration::from_nanos(1)));
        assert_eq!(extra(&largest, u64::MAX), None);
    }

    #[test]
    fn a_step_ends_at_once() {
        let full = Duration::from_millis(3);
        let two = planted(2, full, HopWarmingFall::Step);
        assert_eq!([0, 1, 2, 3].map(|n| extra(&two, n)), [Some(full), Some(full), None, None]);
    }

    #[test]
    fn requests_are_counted_from_zero() {
        let warming = Warming::new(planted(2, Duration::from_micros(10), HopWarmingFall::Linear));
        let expected = [Some(10), Some(5), None].map(|us| us.map(Duration::from_micros));
        assert_eq!([(); 3].map(|()| warming.count()), expected);
    }
}
