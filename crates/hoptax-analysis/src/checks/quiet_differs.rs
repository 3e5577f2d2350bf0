//! `quiet-differs`: a tax is distinguishable from noise in all windows but not in quiet windows, or the
//! reverse.

use super::{Concerns, Figures, Finding, Rule, Severity, Subject, about, evidence, percent};
use crate::Case;
use crate::quiet_cases::{Disagreement, disagreements};
use hoptax_plan::Metric;
use hoptax_record::report::Difference;
use serde_json::{Map, Value, json};

const CODE: &str = "quiet-differs";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning; a note if only quiet windows show the tax, or if only p99 is affected".into(),
        when:
            "a tax (p50, p99, in closed loops throughput) is distinguishable from noise only in all windows \
               of 100 ms, or only in quiet windows, which the hypervisor did not disturb. A quiet tax within \
               the interval of all windows does not count"
                .into(),
        seen: "A hypervisor that stalls a gateway's trial for a second determines its p99.",
        advice: "Draw no conclusion until a longer run, or a quieter machine, confirms the tax.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(|(case, _)| of_case(case)).collect()
}

fn of_case(case: &Case) -> Option<Finding> {
    let differing = disagreements(case);
    // If no window of the gateway was left out, only direct's figures changed.
    let quiet = case.quiet.as_ref().filter(|quiet| quiet.leaves_out() && !differing.is_empty())?;
    let figures = |difference: &Difference| {
        let estimate = &difference.estimate;
        json!({
            "estimate": estimate.estimate, "low": estimate.low, "high": estimate.high,
            "distinguishable": difference.distinguishable,
        })
    };
    let metrics: Map<String, Value> = differing
        .iter()
        .map(|one| {
            (one.metric.name().to_string(), json!({ "all": figures(one.all), "quiet": figures(one.quiet) }))
        })
        .collect();
    // If a tax is distinguishable only with the disturbed windows, the hypervisor may be its cause. If a tax
    // is distinguishable only without the disturbed windows, the disturbance hid it.
    let doubtful = differing.iter().any(|one| one.all.distinguishable);
    let tails_only = differing.iter().all(|one| one.metric == Metric::AddedP99);
    let words: Vec<String> = differing.iter().map(in_words).collect();
    Some(Finding {
        concerns: Concerns::only(if tails_only { Figures::Tails } else { Figures::All }),
        evidence: evidence([
            ("metrics", Value::Object(metrics)),
            ("share_left_out", quiet.share_left_out.into()),
            ("trials", case.trials.into()),
            ("quiet_trials", quiet.trials.into()),
        ]),
        message: format!(
            "The figures of all windows and of quiet windows disagree: {}. The quiet figures leave out the \
             {} of windows that the hypervisor disturbed, and come from {} of {} trials.",
            words.join("; "),
            percent(quiet.share_left_out),
            quiet.trials,
            case.trials
        ),
        advice: match doubtful {
            true => {
                "Draw no conclusion from these figures until a longer run, or a run on a quieter machine, \
                     confirms them."
            }
            false => "The quiet figures are closer to the gateway's cost. A longer run should confirm them.",
        }
        .into(),
        ..about(CODE, if doubtful && !tails_only { Severity::Warning } else { Severity::Note }, &case.case)
    })
}

/// Describes a disagreement, for example: `added_p50 is 40 µs in all windows and not distinguishable (12 µs)
/// in quiet ones`.
fn in_words(one: &Disagreement<'_>) -> String {
    let value = |difference: &Difference| match one.metric {
        Metric::ThroughputRatio => format!("{:.1} %", difference.estimate.estimate * 100.0),
        _ => format!("{:.1} µs", difference.estimate.estimate),
    };
    let verdict = |difference: &Difference| match difference.distinguishable {
        true => value(difference),
        false => format!("not distinguishable ({})", value(difference)),
    };
    format!(
        "{} is {} in all windows and {} in quiet windows",
        one.metric.name(),
        verdict(one.all),
        verdict(one.quiet)
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    /// A trial of ten windows with 100 requests each. The fifth window has a different response time.
    fn trial(who: &str, round: u32, usual_us: u64, fifth_us: u64) -> MadeTrial {
        let windows: Vec<Vec<u64>> =
            (0..10).map(|window| vec![if window == 4 { fifth_us } else { usual_us }; 100]).collect();
        via(who, round).windows_us(&windows)
    }

    const STOLEN: [u64; 10] = [0, 0, 0, 0, 20, 0, 0, 0, 0, 0];

    #[test]
    fn raised_if_only_disturbed_windows_show_a_tax() {
        let mut run = Run::closed(1);
        for round in 0..4 {
            run.push(trial("direct", round, 100, 100).first().stolen_ms(&[0; 10]));
            run.push(trial("direct", round, 100, 100).last().stolen_ms(&[0; 10]));
            run.push(trial("nginx", round, 100, 9_000 + u64::from(round)).stolen_ms(&STOLEN));
        }
        let findings = raised(&run, CODE);
        assert_eq!((findings[0].severity, findings[0].concerns.figures), (Severity::Note, Figures::Tails));
        assert_eq!(findings[0].evidence["metrics"]["added_p99"]["all"]["distinguishable"], true);
        assert_eq!(findings[0].evidence["metrics"]["added_p99"]["quiet"]["distinguishable"], false);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn a_note_if_disturbed_windows_hid_a_tax() {
        let mut run = Run::closed(1);
        for round in 0..4 {
            run.push(trial("direct", round, 100, 50_000).first().stolen_ms(&STOLEN));
            run.push(trial("direct", round, 100, 100).last().stolen_ms(&[0; 10]));
            run.push(trial("nginx", round, 400 + u64::from(round), 400).stolen_ms(&STOLEN));
        }
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].severity, Severity::Note);
        assert!(findings[0].evidence["metrics"].get("added_p99").is_some());
        for trial in run.trials.iter_mut().filter(|trial| trial.contender == "nginx") {
            trial.host.stolen.as_mut().expect("recorded").ns_by_cpu.clear();
        }
        assert_eq!(raised(&run, CODE), [], "no window of nginx is left out");
    }

    #[test]
    fn not_raised_if_quiet_windows_only_have_fewer_trials() {
        let mut run = Run::closed(1);
        for round in 0..4 {
            let steal = if round < 2 { [0; 10] } else { [20; 10] };
            let us = 160 + [0, 12, 6, 10][round as usize];
            run.push(trial("direct", round, 100, 100).first().stolen_ms(&steal));
            run.push(trial("direct", round, 104, 104).last().stolen_ms(&steal));
            run.push(trial("nginx", round, us, us).stolen_ms(&[0; 10]));
        }
        let analysis = run.analyse();
        let case = analysis.cases.iter().find(|case| !case.is_direct()).expect("nginx");
        let quiet = case.quiet.as_ref().and_then(|quiet| quiet.tax.as_ref());
        let shown = [case.tax.as_ref(), quiet].map(|tax| tax.and_then(|tax| tax.get(Metric::AddedP50)));
        assert_eq!(shown.map(|tax| tax.map(|tax| tax.distinguishable)), [Some(true), Some(false)]);
        assert_eq!(raised(&run, CODE), []);
    }

    #[test]
    fn not_raised_if_both_agree() {
        let mut run = Run::closed(1);
        for round in 0..4 {
            run.push(trial("direct", round, 100, 9_000).first().stolen_ms(&STOLEN));
            run.push(trial("direct", round, 100, 9_000).last().stolen_ms(&STOLEN));
            run.push(trial("nginx", round, 400 + u64::from(round), 9_300).stolen_ms(&STOLEN));
        }
        let findings = raised(&run, CODE);
        assert!(
            findings.iter().all(|one| one.evidence["metrics"].get("added_p50").is_none()),
            "{findings:?}"
        );
    }
}
