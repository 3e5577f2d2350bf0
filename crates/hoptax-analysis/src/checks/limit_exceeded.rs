//! `limit-exceeded`: a rate limit let more requests through than it allows.

use super::rate_limit::{INEXACT, most_passed};
use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use crate::Trial;
use hoptax_record::units::grouped;

const CODE: &str = "limit-exceeded";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "a gateway with a `rate-limit` of N/s let more than N × (s + 1) requests through in s seconds \
             (rounded up), plus {}. A limiter may allow a burst of one second, and some count inexactly. \
             Trials with events do not count",
            percent(INEXACT)
        ),
        seen: "Two workers with counts of their own, which cost less, let 605 requests through in 3 s at a \
               limit of 100/s.",
        advice: "Configure a count that all workers share, or use one worker. Do not compare its price with \
                 that of a limit that is enforced.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.gateways().filter_map(|measured| of_case(subject, measured)).collect()
}

fn of_case(subject: &Subject<'_>, (case, trials): Measured<'_>) -> Option<Finding> {
    let per_second = subject.rate_limit(&case.gateway)?;
    // A gateway that restarts or reloads during a trial begins to count again.
    let exceeding: Vec<(u64, f64)> = trials
        .iter()
        .filter(|trial| !trial.has_events())
        .map(|trial| (succeeded(subject, &case.gateway, trial), trial.seconds()))
        .filter(|(succeeded, seconds)| {
            *succeeded as f64 > most_passed(per_second, *seconds) * (1.0 + INEXACT)
        })
        .collect();
    let excess = |(succeeded, seconds): &(u64, f64)| *succeeded as f64 / most_passed(per_second, *seconds);
    let (succeeded, seconds) =
        exceeding.iter().max_by(|one, other| excess(one).total_cmp(&excess(other))).copied()?;
    let allowed = most_passed(per_second, seconds);
    let limit = grouped(f64::from(per_second));
    Some(Finding {
        evidence: evidence([
            ("rate_limit", per_second.into()),
            ("succeeded", succeeded.into()),
            ("allowed", allowed.into()),
            ("measured_s", seconds.into()),
            ("trials", trials.len().into()),
            ("trials_hit", exceeding.len().into()),
        ]),
        message: format!(
            "In {} of {} trials, more requests succeeded than the rate limit of {limit}/s allows. In the \
             worst trial, {succeeded} requests succeeded in {seconds:.1} s, and the limit allows \
             {allowed:.0} including a burst. Probably each worker of the gateway counts for itself.",
            exceeding.len(),
            trials.len()
        ),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

/// Number of requests of the trial that the limiter let through and that were answered with success.
fn succeeded(subject: &Subject<'_>, gateway: &str, trial: &Trial<'_>) -> u64 {
    let of_limits = subject.statuses_of_limits(gateway);
    let statuses = trial.load.counts.status.iter();
    statuses
        .filter(|(status, _)| !of_limits.contains(status) && !subject.is_rejection(**status))
        .map(|(_, count)| count)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use crate::fixture::features::gateway;
    use hoptax_format::clock::SECOND;
    use hoptax_plan::Feature;

    /// A trial of `seconds` with 1,000 requests. All but `passed` are rejected.
    fn trial(round: u32, seconds: u64, passed: u64) -> MadeTrial {
        let mut trial = via("nginx", round).status(429, 1000 - passed);
        trial.0.load_record.as_mut().expect("made with one").measured_ns = seconds * SECOND;
        trial
    }

    fn run(features: &[Feature], trials: Vec<MadeTrial>) -> Run {
        let mut run = Run::closed(8);
        run.record.plan.gateways = vec![gateway("nginx", features)];
        for trial in trials {
            run.push(trial);
        }
        run
    }

    const LIMIT: Feature = Feature::RateLimit { per_second: 100 };

    #[test]
    fn raised_if_each_worker_counts_for_itself() {
        let findings = raised(&run(&[LIMIT], vec![trial(0, 3, 605), trial(1, 3, 400)]), CODE);
        assert_eq!(findings[0].evidence["succeeded"], 605);
        assert_eq!(findings[0].evidence["trials_hit"], 1);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn not_raised_by_a_burst_windows_of_a_second_or_without_a_limit() {
        // In 3 s, the limit allows 300 requests and a burst of 100 requests.
        assert_eq!(raised(&run(&[LIMIT], vec![trial(0, 3, 400), trial(1, 3, 440)]), CODE), []);
        // A trial of 0.6 s can touch two windows.
        let mut short = trial(0, 1, 200);
        short.0.load_record.as_mut().expect("made with one").measured_ns = SECOND / 10 * 6;
        assert_eq!(raised(&run(&[LIMIT], vec![short]), CODE), []);
        assert_eq!(raised(&run(&[], vec![trial(0, 3, 1000)]), CODE), []);
        let high = Feature::RateLimit { per_second: 1000 };
        assert_eq!(raised(&run(&[high], vec![trial(0, 3, 1000)]), CODE), []);
    }
}
