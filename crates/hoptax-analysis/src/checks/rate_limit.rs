//! How many requests a rate limit of the plan lets through, and which rejections it explains.

use super::{Measured, Subject};
use crate::thresholds::DOUBTFUL;
use crate::{Case, Trial};
use hoptax_format::record::Counts;
use hoptax_plan::{Feature, GatewayKind};
use hoptax_stats::share;

/// Status of a request that a rate limit rejects.
pub(super) const TOO_MANY: u16 = 429;
/// Statuses of such a rejection by gateways that already run. nginx answers 503 by default.
const REJECTIONS: [u16; 2] = [TOO_MANY, 503];
/// Tolerance, as a share of the requests that a limit allows. Some limiters count inexactly.
pub(super) const INEXACT: f64 = 0.1;
/// Burst that a limit allows, in seconds of its rate. Token buckets of the packs hold the requests of one
/// second. A limiter that counts in windows of one second also lets the requests of one more second through,
/// because a trial can begin and end within a window.
const BURST_S: f64 = 1.0;

/// Rejections that a rate limit of the plan explains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limited {
    /// The limit, requests per second.
    pub(super) per_second: u32,
    /// Number of requests that the limit rejected.
    pub(super) rejected: u64,
    /// Share of the responses that the limit did not reject.
    pub(super) passed: f64,
    /// Responses per second that the limit did not reject.
    pub(super) accepted: f64,
    /// The most frequent status of the rejections.
    pub(super) status: u16,
}

/// Highest number of requests that a limit of `per_second` lets through in a trial of `seconds`. The time is
/// rounded up, because 1.2 s can touch three windows of one second.
pub(super) fn most_passed(per_second: u32, seconds: f64) -> f64 {
    f64::from(per_second) * (seconds.ceil() + BURST_S)
}

/// Lowest number of requests that a limit of `per_second` lets through in a trial of `seconds`, if more are
/// due. The warm-up may have used up the burst.
fn fewest_passed(per_second: u32, seconds: f64) -> f64 {
    f64::from(per_second) * (seconds - BURST_S).max(0.0) * (1.0 - INEXACT)
}

impl Subject<'_> {
    /// The rate limit that the plan sets for a gateway, or expects of a gateway that already runs, requests
    /// per second.
    pub(super) fn rate_limit(&self, gateway: &str) -> Option<u32> {
        let gateway = self.gateway(gateway)?;
        if matches!(gateway.kind, GatewayKind::External { .. }) {
            return self.run.plan.targets.iter().find_map(|target| target.rate_limit);
        }
        gateway.features().iter().find_map(|feature| match feature {
            Feature::RateLimit { per_second } => Some(*per_second),
            _ => None,
        })
    }

    /// The rejections of a case, if a rate limit of the plan explains all of them: more requests were due
    /// than the limit allows, all rejections are 429s (or 503s of a gateway that already runs), and at least
    /// as many requests passed as the limit allows.
    pub(super) fn limited(&self, (case, trials): Measured<'_>) -> Option<Limited> {
        let per_second = self.rate_limit(&case.gateway)?;
        let counts = case.counts.as_ref()?;
        let statuses = self.statuses_of_limits(&case.gateway);
        let of_status = |status: &u16| counts.status.get(status).copied().unwrap_or(0);
        let rejected: u64 = statuses.iter().map(of_status).sum();
        let status = statuses.iter().copied().max_by_key(|status| of_status(status))?;
        let of_responses = |count: u64| share(count as f64, counts.completed as f64);
        let explains_some = highest_rate(case, counts, trials) > f64::from(per_second);
        let explains_all = rejected as f64 <= most_rejected(per_second, case, counts, trials)
            && of_responses(self.rejected_otherwise(statuses, counts))? <= DOUBTFUL;
        let share = of_responses(rejected).filter(|share| *share > DOUBTFUL)?;
        let passed = 1.0 - share;
        let seconds: f64 = trials.iter().map(Trial::seconds).sum();
        let accepted = passed * counts.completed as f64 / seconds;
        (explains_some && explains_all).then_some(Limited { per_second, rejected, passed, accepted, status })
    }

    /// The statuses of requests that a rate limit of this gateway rejects.
    pub(super) fn statuses_of_limits(&self, gateway: &str) -> &'static [u16] {
        let gateway = self.gateway(gateway).map(|gateway| &gateway.kind);
        if matches!(gateway, Some(GatewayKind::External { .. })) { &REJECTIONS } else { &REJECTIONS[..1] }
    }

    /// Number of rejections whose status is not one of `of_limits`.
    fn rejected_otherwise(&self, of_limits: &[u16], counts: &Counts) -> u64 {
        let others = counts.status.iter().filter(|(status, _)| !of_limits.contains(status));
        others.filter(|(status, _)| self.is_rejection(**status)).map(|(_, count)| count).sum()
    }
}

/// The highest rate at which requests were due, requests per second. In a closed loop, it is the mean rate.
fn highest_rate(case: &Case, counts: &Counts, trials: &[Trial<'_>]) -> f64 {
    let seconds: f64 = trials.iter().map(Trial::seconds).sum();
    let stages = case.load.stages.iter().flatten();
    stages.flat_map(|stage| [stage.from, stage.to]).fold(counts.scheduled as f64 / seconds, f64::max)
}

/// Highest number of requests that the limit can have rejected. With stages, the rate may exceed the limit
/// for only a part of the time, so the limit can have rejected any number.
fn most_rejected(per_second: u32, case: &Case, counts: &Counts, trials: &[Trial<'_>]) -> f64 {
    let passed: f64 = match case.load.stages {
        Some(_) => 0.0,
        None => trials.iter().map(|trial| fewest_passed(per_second, trial.seconds())).sum(),
    };
    counts.scheduled as f64 - passed
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "N × (s + {}) requests" number(BURST_S);
    METHODOLOGY "(rounded up), and {} more." fraction(INEXACT);
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use crate::Severity;
    use crate::fixture::features::gateway;
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

    #[test]
    fn a_limit_of_a_gateway_that_already_runs_explains_503_too() {
        let found = |rate_limit, status| {
            let mut run = Run::closed(16);
            run.push(via("direct", 0).first()).push(via("mine", 0).status(status, 880));
            run.record.plan.gateways = vec![crate::fixture::features::external("mine")];
            run.record.plan.targets[0].rate_limit = rate_limit;
            raised(&run, "rejections-counted").remove(0)
        };
        for status in [429, 503] {
            let note = found(Some(100), status);
            assert_eq!(note.severity, Severity::Note, "{note:?}");
            assert!(note.message.contains(&format!("received status {status}")), "{}", note.message);
        }
        let void = found(None, 503);
        assert_eq!(void.severity, Severity::Void);
        insta::assert_snapshot!(texts(std::slice::from_ref(&void)));
    }

    /// A trial of one second with 1,000 requests, in which `rejected` requests have this status. Their bodies
    /// are short, and they do not reach the upstream.
    fn rejecting(status: u16, rejected: u64) -> MadeTrial {
        let trial = via("nginx", 0).status(status, rejected);
        trial.body_bytes((1000 - rejected) * 1024 + rejected * 20).ledger_requests(1000 - rejected)
    }

    #[test]
    fn a_limit_that_bites_in_a_load_or_a_stage_is_one_note() {
        for load in [open_point(1000.0, 8, 1), closed_point(8, 1)] {
            assert_eq!(found(load, 100, rejecting(429, 900)), [("rejections-counted", Severity::Note)]);
        }
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
