//! `few-samples`: a percentile is shown that hardly any sample stands behind.

use super::{Finding, Severity, Subject, evidence};
use crate::analysis::stats::Statistic;

const CODE: &str = "few-samples";
/// Samples that must lie above a percentile for it to be more than one request's luck.
const ABOVE: f64 = 10.0;

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject
        .measured()
        .filter_map(|(case, _)| {
            let samples = case.response_time.as_ref()?.samples;
            let doubtful: Vec<Statistic> = Statistic::ALL
                .into_iter()
                .filter(|statistic| statistic.quantile().is_some_and(|quantile| samples < needed(quantile)))
                .collect();
            let least = *doubtful.first()?;
            let most = needed(doubtful.last()?.quantile()?);
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
                    "{samples} samples are too few for {}: fewer than {ABOVE} of them lie above it.",
                    names.join(", ")
                ),
                advice: format!(
                    "Measure longer or in more trials: {most} samples are enough for all of them."
                ),
            })
        })
        .collect()
}

/// Samples of which [`ABOVE`] lie above the quantile.
fn needed(quantile: f64) -> u64 {
    (ABOVE / (1.0 - quantile)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::analysis::fixture::{Run, via};

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
    fn not_raised_by_enough() {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0).response_times_us((0..10_000).map(|index| 100 + index % 50)));
        assert_eq!(raised(&run, CODE), []);
    }
}
