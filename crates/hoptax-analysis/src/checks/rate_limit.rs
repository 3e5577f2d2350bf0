//! How many requests a rate limit of the plan lets through, and which rejections it explains.

use super::{Measured, Subject};
use crate::{Case, Trial};
use hoptax_load::record::Counts;
use hoptax_plan::Feature;
use hoptax_stats::share;

/// Status of a request that a rate limit rejects.
pub(super) const TOO_MANY: u16 = 429;
/// Tolerance, as a share of the requests that a limit allows. Some limiters count inexactly.
pub(super) const INEXACT: f64 = 0.1;
/// Burst that a limit allows, as the time in which the limit alone allows as many requests, s. Token buckets of the
/// packs hold one second. A limiter that counts in windows of one second also lets one second more through, because a
/// trial can begin and end within a window.
const BURST_S: f64 = 1.0;
/// Limit for the share of rejected requests. Above this share, they change the figures.
pub(super) const DOUBTFUL: f64 = 0.001;

/// Rejections that a rate limit of the plan explains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limited {
    /// The limit, requests per second.
    pub(super) per_second: u32,
    /// Number of requests that the limit rejected.
    pub(super) rejected: u64,
    /// Share of the responses that the limit did not reject.
    pub(super) passed: f64,
}

/// Highest number of requests that a limit of `per_second` lets through in a trial of `seconds`. The time is rounded up,
/// because 1.2 s can touch three windows of one second.
pub(super) fn most_passed(per_second: u32, seconds: f64) -> f64 {
    f64::from(per_second) * (seconds.ceil() + BURST_S)
}

/// Lowest number of requests that a limit of `per_second` lets through in a trial of `seconds`, if more are due. The
/// warm-up may have used up the burst.
fn fewest_passed(per_second: u32, seconds: f64) -> f64 {
    f64::from(per_second) * (seconds - BURST_S).max(0.0) * (1.0 - INEXACT)
}

impl Subject<'_> {
    /// The rate limit that the plan sets for a gateway, requests per second.
    pub(super) fn rate_limit(&self, gateway: &str) -> Option<u32> {
        self.gateway(gateway)?.features().iter().find_map(|feature| match feature {
            Feature::RateLimit { per_second } => Some(*per_second),
            _ => None,
        })
    }

    /// The rejections of a case, if a rate limit of the plan explains all of them: more requests were due than the limit
    /// allows, all rejections are 429s, and at least as many requests passed as the limit allows.
    pub(super) fn limited(&self, (case, trials): Measured<'_>) -> Option<Limited> {
        let per_second = self.rate_limit(&case.gateway)?;
        let counts = case.counts.as_ref()?;
        let rejected = counts.status.get(&TOO_MANY).copied().unwrap_or(0);
        let of_responses = |count: u64| share(count as f64, counts.completed as f64);
        let explains_some = highest_rate(case, counts, trials) > f64::from(per_second);
        let explains_all = rejected as f64 <= most_rejected(per_second, case, counts, trials)
            && of_responses(self.rejected_otherwise(counts))? <= DOUBTFUL;
        let share = of_responses(rejected).filter(|share| *share > DOUBTFUL)?;
        (explains_some && explains_all).then_some(Limited { per_second, rejected, passed: 1.0 - share })
    }

    /// Number of rejections with another status than 429.
    fn rejected_otherwise(&self, counts: &Counts) -> u64 {
        let others = counts.status.iter().filter(|(status, _)| **status != TOO_MANY);
        others.filter(|(status, _)| self.is_rejection(**status)).map(|(_, count)| count).sum()
    }
}

/// The highest rate at which requests were due, requests per second. In a closed loop, it is the mean rate.
fn highest_rate(case: &Case, counts: &Counts, trials: &[Trial<'_>]) -> f64 {
    let seconds: f64 = trials.iter().map(Trial::seconds).sum();
    let stages = case.load.stages.iter().flatten();
    stages.flat_map(|stage| [stage.from, stage.to]).fold(counts.scheduled as f64 / seconds, f64::max)
}

/// Highest number of requests that the limit can have rejected. With stages, the rate may exceed the limit for only a
/// part of the time, so the limit can have rejected any number.
fn most_rejected(per_second: u32, case: &Case, counts: &Counts, trials: &[Trial<'_>]) -> f64 {
    let passed: f64 = match case.load.stages {
        Some(_) => 0.0,
        None => trials.iter().map(|trial| fewest_passed(per_second, trial.seconds())).sum(),
    };
    counts.scheduled as f64 - passed
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::Severity;
    use crate::fixture::features::gateway;
    use crate::fixture::{MadeTrial, Run, closed_point, open_point, staged_point, via};
    use hoptax_plan::LoadPoint;

    /// All findings of a case with a rate limit that a limiter can cause.
    fn found(load: LoadPoint, per_second: u32, trial: MadeTrial) -> Vec<(&'static str, Severity)> {
        let mut run = Run::with_load(vec![load]);
        run.record.plan.gateways = vec![gateway("nginx", &[Feature::RateLimit { per_second }])];
        run.push(via("direct", 0).first());
        run.push(trial);
        let of = |code| raised(&run, code).into_iter().map(|finding| (finding.code, finding.severity));
        ["rejections-counted", "different-work", "amplification"].into_iter().flat_map(of).collect()
    }

    /// A trial of one second with 1,000 requests, in which `rejected` requests have this status. Their bodies are short,
    /// and they do not reach the upstream.
    fn rejecting(status: u16, rejected: u64) -> MadeTrial {
        let trial = via("nginx", 0).status(status, rejected);
        trial.body_bytes((1000 - rejected) * 1024 + rejected * 20).ledger_requests(1000 - rejected)
    }

    #[test]
    fn a_limit_that_bites_is_one_note() {
        for load in [open_point(1000.0, 8, 1), closed_point(8, 1)] {
            assert_eq!(found(load, 100, rejecting(429, 900)), [("rejections-counted", Severity::Note)]);
        }
    }

    #[test]
    fn a_stage_above_the_limit_is_enough() {
        let stages = || staged_point("10/s for 1s, ramp to 3000/s over 1s", 8);
        assert_eq!(found(stages(), 2000, rejecting(429, 100)), [("rejections-counted", Severity::Note)]);
        let below = found(stages(), 4000, rejecting(429, 100));
        assert!(below.contains(&("rejections-counted", Severity::Warning)), "{below:?}");
    }

    #[test]
    fn rejections_that_the_limit_does_not_explain_stay_void() {
        let void = [
            ("rejections-counted", Severity::Void),
            ("different-work", Severity::Void),
            ("amplification", Severity::Void),
        ];
        let load = || open_point(1000.0, 8, 1);
        assert_eq!(found(load(), 1000, rejecting(429, 900)), void, "no more is due than the limit allows");
        assert_eq!(found(load(), 100, rejecting(503, 900)), void, "a limit rejects with 429");
        let mut long = rejecting(429, 900);
        long.0.load_record.as_mut().expect("made with one").measured_ns *= 5;
        assert_eq!(found(load(), 100, long), void, "the limit allows 400 of 1000 in 5 s");
    }
}
