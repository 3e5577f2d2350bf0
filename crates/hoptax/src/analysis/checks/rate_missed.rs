//! `rate-missed`: in an open loop, fewer than 99 % of the requests that were due were achieved.
//!
//! Throughput is set against the requests that were due, not against the rate: Poisson arrivals scatter around their
//! rate by themselves.

use super::{Finding, Severity, Subject, evidence, percent};
use crate::analysis::Trial;
use crate::analysis::stats::share;

const CODE: &str = "rate-missed";
const LEAST: f64 = 0.99;

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject
        .measured()
        .filter_map(|(case, trials)| {
            let rate = case.load.rate?;
            let due: u64 = trials.iter().map(|trial| trial.load.counts.scheduled).sum();
            let done: u64 = trials.iter().map(|trial| trial.load.completed_in_time).sum();
            let seconds: f64 = trials.iter().map(Trial::seconds).sum();
            let achieved = share(done as f64, due as f64).filter(|achieved| *achieved < LEAST)?;
            let unsent = case.counts.as_ref().map_or(0, |counts| counts.unsent);
            Some(Finding {
                code: CODE,
                severity: Severity::Warning,
                case: Some(case.case.clone()),
                evidence: evidence([
                    ("rate", rate.into()),
                    ("throughput", (done as f64 / seconds).into()),
                    ("scheduled", due.into()),
                    ("completed_in_time", done.into()),
                    ("unsent", unsent.into()),
                    ("share", achieved.into()),
                ]),
                message: format!(
                    "{:.0} requests per second were due and {:.0} were achieved ({}); {unsent} requests never left. \
                     The response times are those of an overload: they grow with the length of the trial.",
                    due as f64 / seconds,
                    done as f64 / seconds,
                    percent(achieved)
                ),
                advice: "Lower the rate, or give more connections: a connection carries one request at a time, so \
                         the rate cannot exceed connections ÷ response time."
                    .into(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::analysis::fixture::{Run, open_point, via};

    #[test]
    fn raised_below_99_per_cent_of_what_was_due() {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]);
        run.push(via("nginx", 0).scheduled(1000).throughput(980));
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].evidence["share"], 0.98);
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
