//! `rate-missed`: in an open loop, fewer than 99 % of the requests that were due were achieved.
//!
//! Throughput is set against the requests that were due, not against the rate: Poisson arrivals scatter around their
//! rate by themselves.

use super::{Finding, Rule, Severity, Subject, evidence, percent};
use crate::load::grouped;
use crate::{Load, Trial};
use hoptax_stats::share;

const CODE: &str = "rate-missed";
const LEAST: f64 = 0.99;

/// In words.
pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "in an open loop fewer than {} of the requests that were due were achieved; what failed by an event of the \
             plan is not missed",
            percent(LEAST)
        ),
        seen: "Sidecar tests at 1,000 requests per second that never reached 1,000: their response times are those of an overload.",
        advice: "Lower the rate, or give more connections: a connection carries one request at a time.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject
        .measured()
        .filter_map(|(case, trials)| {
            let rate = case.load.rate?;
            let due: u64 = trials.iter().map(|trial| trial.load.counts.scheduled).sum();
            let done: u64 = trials.iter().map(|trial| trial.load.completed_in_time).sum();
            let timeout = subject.timeout_ns();
            let broken: u64 = trials.iter().map(|trial| trial.failures_of_events(timeout)).sum();
            let seconds: f64 = trials.iter().map(Trial::seconds).sum();
            let achieved = share((done + broken) as f64, due as f64).filter(|achieved| *achieved < LEAST)?;
            let (consequence, lower) = words(&case.load, rate);
            let unsent = case.counts.as_ref().map_or(0, |counts| counts.unsent);
            Some(Finding {
                code: CODE,
                severity: Severity::Warning,
                case: Some(case.case.clone()),
                evidence: evidence([
                    ("rate", rate.into()),
                    ("highest_rate", highest(&case.load, rate).into()),
                    ("throughput", (done as f64 / seconds).into()),
                    ("scheduled", due.into()),
                    ("completed_in_time", done.into()),
                    ("unsent", unsent.into()),
                    ("share", achieved.into()),
                ]),
                message: format!(
                    "{:.0} requests per second were due and {:.0} were achieved ({}); {unsent} requests never left. \
                     {consequence}",
                    due as f64 / seconds,
                    done as f64 / seconds,
                    percent(achieved)
                ),
                advice: format!(
                    "{lower}, or give more connections: a connection carries one request at a time, so the rate \
                     cannot exceed connections ÷ response time."
                ),
            })
        })
        .collect()
}

/// What follows from it, and what to lower. Of stages it is the highest that overloads: what it leaves undone is due in
/// the later ones, too.
fn words(load: &Load, rate: f64) -> (String, String) {
    let highest = grouped(highest(load, rate));
    match load.is_steady() {
        true => (
            "The response times are those of an overload: they grow with the length of the trial.".into(),
            "Lower the rate".into(),
        ),
        false => (
            format!(
                "The rate went up to {highest}/s, and what was not done then was still waiting later: the response \
                 times are those of an overload, in the stages after it as well."
            ),
            format!(
                "Lower the highest rate ({highest}/s), let a lower one follow it for long enough to catch up"
            ),
        ),
    }
}

/// Requests per second at the highest moment.
fn highest(load: &Load, rate: f64) -> f64 {
    let ends = load.stages.iter().flatten().flat_map(|stage| [stage.from, stage.to]);
    ends.reduce(f64::max).unwrap_or(rate)
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::fixture::{Run, open_point, staged_point, via};

    #[test]
    fn raised_below_99_per_cent_of_what_was_due() {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]);
        run.push(via("nginx", 0).scheduled(1000).throughput(980));
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].evidence["share"], 0.98);
    }

    #[test]
    fn of_stages_the_highest_rate_is_named() {
        let mut run = Run::with_load(vec![staged_point("100/s for 1s, ramp to 3000/s over 3s", 8)]);
        run.push(via("nginx", 0).scheduled(4750).throughput(900));
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].evidence["highest_rate"], 3000.0);
        assert!(findings[0].message.contains("went up to 3,000/s"), "{}", findings[0].message);
        assert!(findings[0].advice.starts_with("Lower the highest rate (3,000/s)"), "{}", findings[0].advice);
        let mut kept = Run::with_load(vec![staged_point("100/s for 1s, ramp to 3000/s over 3s", 8)]);
        kept.push(via("nginx", 0).scheduled(900).throughput(900));
        assert_eq!(raised(&kept, CODE), []);
    }

    #[test]
    fn not_raised_when_the_arrivals_themselves_were_fewer() {
        // 950 due at a rate of 1,000: a Poisson process may do that.
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]);
        run.push(via("nginx", 0).scheduled(950).throughput(945));
        assert_eq!(raised(&run, CODE), []);
    }

    #[test]
    fn not_raised_in_a_closed_loop() {
        let mut run = Run::closed(8);
        run.push(via("nginx", 0).scheduled(1000).throughput(500));
        assert_eq!(raised(&run, CODE), []);
    }
}
