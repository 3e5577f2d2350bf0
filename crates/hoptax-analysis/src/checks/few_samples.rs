//! `few-samples`: too few samples lie above a reported percentile.

use super::{Finding, Measured, Rule, Severity, Subject, evidence};
use hoptax_stats::Statistic;

const CODE: &str = "few-samples";
/// Number of samples that must lie above a percentile. With fewer samples, a single request could decide the
/// percentile.
const ABOVE: f64 = 10.0;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning; a note if only p99.9 is affected".into(),
        when: format!(
            "any of these holds. (1) Fewer than {ABOVE} samples lie above a reported percentile. (2) In a single \
             trial, fewer than {ABOVE} samples lie above a percentile from which a tax is calculated"
        ),
        seen: "A percentile of few samples depends on chance: the p99.9 of 500 requests is the slowest request, and \
               the next run shows another value.",
        advice: "Measure longer, at a higher rate, or in more trials.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(|measured| shown(measured).or_else(|| of_tax(measured))).collect()
}

/// The percentiles in `of` that need more than `samples` samples.
fn doubtful(samples: u64, of: &[Statistic]) -> Vec<Statistic> {
    let few = |statistic: &Statistic| statistic.quantile().is_some_and(|quantile| samples < needed(quantile));
    of.iter().copied().filter(few).collect()
}

fn shown((case, _): Measured<'_>) -> Option<Finding> {
    let samples = case.response_time.as_ref()?.samples;
    let doubtful = doubtful(samples, &Statistic::ALL);
    let (least, most) = (*doubtful.first()?, needed(doubtful.last()?.quantile()?));
    let names: Vec<&str> = doubtful.iter().map(|statistic| statistic.name()).collect();
    Some(Finding {
        code: CODE,
        severity: if least < Statistic::P999 { Severity::Warning } else { Severity::Note },
        case: Some(case.case.clone()),
        evidence: evidence([
            ("samples", samples.into()),
            ("percentiles", names.clone().into()),
            ("needed", most.into()),
        ]),
        message: format!(
            "{samples} samples are too few for {}: at least {ABOVE} samples must lie above a percentile.",
            names.join(", ")
        ),
        advice: format!("Measure longer or in more trials, until there are {most} samples."),
    })
}

/// Checks that each trial has enough samples for the percentiles of the tax.
fn of_tax((case, trials): Measured<'_>) -> Option<Finding> {
    let of = case.tax.as_ref().map(|_| [Statistic::P50, Statistic::P90, Statistic::P95, Statistic::P99])?;
    let samples = trials.iter().map(|trial| trial.response_time.len()).min()?;
    let doubtful = doubtful(samples, &of);
    let most = needed(doubtful.last()?.quantile()?);
    let names: Vec<String> = doubtful.iter().map(|statistic| format!("added {}", statistic.name())).collect();
    Some(Finding {
        code: CODE,
        severity: Severity::Warning,
        case: Some(case.case.clone()),
        evidence: evidence([
            ("samples_of_a_trial", samples.into()),
            ("percentiles", names.clone().into()),
            ("needed", most.into()),
        ]),
        message: format!(
            "A trial of {samples} samples is too short for {}: the tax is computed from each trial's own percentile, \
             and fewer than {ABOVE} samples lie above that percentile.",
            names.join(", ")
        ),
        advice: format!("Make trials longer or the rate higher, until each trial has {most} samples."),
    })
}

/// Smallest number of samples for which at least [`ABOVE`] samples lie above the quantile.
fn needed(quantile: f64) -> u64 {
    (ABOVE / (1.0 - quantile)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::fixture::{Run, via};

    #[test]
    fn raised_below_ten_samples_above_a_percentile() {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0)).push(via("envoy", 0).response_times_us(100..110));
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[0].severity, Severity::Warning);
        assert_eq!(
            findings[0].evidence["percentiles"],
            serde_json::json!(["p50", "p90", "p95", "p99", "p99.9"])
        );
        assert_eq!(findings[1].severity, Severity::Note);
        assert_eq!(findings[1].evidence["percentiles"], serde_json::json!(["p99.9"]));
        assert_eq!(findings[1].evidence["needed"], 10_000);
    }

    #[test]
    fn raised_by_trials_too_short_for_the_tax() {
        let mut run = Run::closed(1);
        for round in 0..25 {
            run.direct(round, 100, 100);
            run.push(via("nginx", round).response_times_us((0..500).map(|index| 100 + index % 50)));
        }
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].evidence["percentiles"], serde_json::json!(["added p99"]));
        assert_eq!(findings[0].evidence["needed"], 1000);
    }

    #[test]
    fn not_raised_by_enough_samples() {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0).response_times_us((0..10_000).map(|index| 100 + index % 50)));
        assert_eq!(raised(&run, CODE), []);
    }
}
