//! `few-samples`: too few samples lie above a reported percentile.

use super::{Concerns, Figures, Finding, Measured, Rule, Severity, Subject, about, evidence};
use crate::Case;
use hoptax_stats::Statistic;

const CODE: &str = "few-samples";
/// Number of samples that must lie above a percentile. With fewer samples, a single request could decide the
/// percentile.
const ABOVE: f64 = 10.0;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "note; a warning if the median is affected".into(),
        when: format!(
            "fewer than {ABOVE} samples of a case, all trials together, lie above a reported percentile (of \
             streams that end with the load: samples of messages)"
        ),
        seen: "The p99.9 of 500 requests is the slowest request, which depends on chance.",
        advice: "Measure more rounds (a longer `time`), or at a higher rate.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let of_messages = subject.has_only_endless_streams();
    subject.measured().filter_map(|measured| shown(of_messages, measured)).collect()
}

/// Number of messages that have a time.
fn message_samples(case: &Case) -> Option<u64> {
    let message = case.message.as_ref()?;
    let times = [&message.age, &message.response_time, &message.gap];
    times.into_iter().flatten().map(|times| times.samples).max()
}

/// The percentiles in `of` that need more than `samples` samples.
fn doubtful(samples: u64, of: &[Statistic]) -> Vec<Statistic> {
    let few = |statistic: &Statistic| statistic.quantile().is_some_and(|quantile| samples < needed(quantile));
    of.iter().copied().filter(few).collect()
}

fn shown(of_messages: bool, (case, _): Measured<'_>) -> Option<Finding> {
    // Streams that end with the load have no meaningful response times.
    let samples = match of_messages {
        true => message_samples(case)?,
        false => case.response_time.as_ref()?.samples,
    };
    let doubtful = doubtful(samples, &Statistic::ALL);
    let (least, most) = (*doubtful.first()?, needed(doubtful.last()?.quantile()?));
    let names: Vec<&str> = doubtful.iter().map(|statistic| statistic.name()).collect();
    Some(Finding {
        concerns: Concerns::only(if least > Statistic::P50 { Figures::Tails } else { Figures::All }),
        evidence: evidence([
            ("samples", samples.into()),
            ("percentiles", names.clone().into()),
            ("needed", most.into()),
        ]),
        message: format!(
            "{samples} samples are too few for {}: at least {ABOVE} samples must lie above a percentile.",
            names.join(", ")
        ),
        advice: format!("Measure more rounds (a longer `time`), until there are {most} samples."),
        ..about(CODE, if least == Statistic::P50 { Severity::Warning } else { Severity::Note }, &case.case)
    })
}

/// Smallest number of samples for which at least [`ABOVE`] samples lie above the quantile.
fn needed(quantile: f64) -> u64 {
    (ABOVE / (1.0 - quantile)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::messages::{Carrier, ENDLESS};

    #[test]
    fn raised_below_ten_samples_above_a_percentile() {
        let run = Run::closed(1).with([via("nginx", 0), via("envoy", 0).response_times_us(100..110)]);
        let findings = raised(&run, CODE);
        insta::assert_snapshot!(texts(&findings));
        assert_eq!(
            findings[0].evidence["percentiles"],
            serde_json::json!(["p50", "p90", "p95", "p99", "p99.9"])
        );
        assert_eq!(findings[1].evidence["percentiles"], serde_json::json!(["p99.9"]));
        assert_eq!(findings[1].evidence["needed"], 10_000);
    }

    #[test]
    fn not_raised_by_enough_samples_of_one_or_many_trials() {
        let mut run = Run::closed(1);
        for round in 0..7 {
            run.direct(round, 100, 100);
            run.push(via("nginx", round).response_times_us((0..1500).map(|index| 100 + index % 50)));
        }
        assert_eq!(raised(&run, CODE), [], "many trials");
        let mut run = Run::closed(1);
        run.push(via("nginx", 0).response_times_us((0..10_000).map(|index| 100 + index % 50)));
        assert_eq!(raised(&run, CODE), [], "one trial");
    }

    #[test]
    fn of_endless_streams_the_messages_count() {
        let mut run = Run::closed(1).streams(Carrier::Events, ENDLESS);
        run.push(via("nginx", 0).response_times_us(100..110).server_stream_us(40, 1000));
        assert_eq!(raised(&run, CODE), []);
        let mut run = Run::closed(1).streams(Carrier::Events, 10);
        run.push(via("nginx", 0).response_times_us(100..110).server_stream_us(40, 1000));
        assert_eq!(raised(&run, CODE).len(), 1);
    }
}
