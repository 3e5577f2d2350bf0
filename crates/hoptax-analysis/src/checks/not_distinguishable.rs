//! `not-distinguishable`: the interval of a tax includes "no tax", or the tax lies within the noise floor.

use super::{Finding, Rule, Severity, Subject, about, about_run, evidence};
use crate::Case;
use hoptax_plan::Metric;
use serde_json::{Map, Value, json};

const CODE: &str = "not-distinguishable";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "note".into(),
        when: "the interval of a tax (p50, p99, in closed loops throughput) includes \"no tax\", or the two \
               direct trials of a round differ by as much as the tax"
            .into(),
        seen: "Rankings based on such a tax can reverse in the next run.",
        advice: "Draw no conclusion from this tax. More rounds (a longer `time`), or a quieter machine, may \
                 show a difference.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let gateways: Vec<&Case> =
        subject.measured().map(|(case, _)| case).filter(|case| !case.is_direct()).collect();
    if !gateways.is_empty() && gateways.iter().all(|case| case.trials == 1) {
        return vec![one_trial()];
    }
    gateways.into_iter().filter_map(|case| of_case(subject, case)).collect()
}

/// The metrics to check. In an open loop, throughput is left out, because the rate decides it.
fn metrics(case: &Case) -> &'static [Metric] {
    match case.load.is_open() {
        true => &[Metric::AddedP50, Metric::AddedP99],
        false => &[Metric::AddedP50, Metric::AddedP99, Metric::ThroughputRatio],
    }
}

fn of_case(subject: &Subject<'_>, case: &Case) -> Option<Finding> {
    let tax = case.tax.as_ref()?;
    let floor = subject.noise_floor.get(case.load.index)?;
    let mut seen = Map::new();
    for metric in metrics(case) {
        let Some(difference) = tax.get(*metric).filter(|difference| !difference.distinguishable) else {
            continue;
        };
        let estimate = &difference.estimate;
        let figures = json!({
            "estimate": estimate.estimate, "low": estimate.low, "high": estimate.high,
            "noise_floor": floor.get(*metric),
        });
        seen.insert(metric.name().to_string(), figures);
    }
    if seen.is_empty() {
        return None;
    }
    let names: Vec<&str> = seen.keys().map(String::as_str).collect();
    Some(Finding {
        message: format!(
            "Not distinguishable from noise: {}. The interval includes zero (for throughput, a ratio of 1), \
             or the two direct trials of a round differ by as much as the tax.",
            names.join(", ")
        ),
        evidence: evidence([("metrics", Value::Object(seen))]),
        ..about(CODE, Severity::Note, &case.case)
    })
}

fn one_trial() -> Finding {
    Finding {
        evidence: evidence([("trials", 1.into())]),
        message: "One trial gives no interval, so no tax is distinguishable from noise.".into(),
        advice: "Measure at least three rounds: raise `time` in the plan, or set `trials` to 3 or more."
            .into(),
        ..about_run(CODE, Severity::Note)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn raised_if_direct_differs_from_itself_as_much() {
        let mut run = Run::closed(1);
        for round in 0..4 {
            run.direct(round, 100, 160);
            run.push(via("nginx", round).all_at_us(150 + u64::from(round)).throughput(500));
        }
        let findings = raised(&run, CODE);
        insta::assert_snapshot!(texts(&findings));
        let metrics = findings[0].evidence["metrics"].as_object().expect("by metric");
        assert_eq!(metrics.keys().collect::<Vec<_>>(), ["added_p50", "added_p99"]);
        assert!(metrics["added_p50"]["noise_floor"].as_f64().expect("a floor") > 59.0);
    }

    #[test]
    fn raised_once_for_a_run_of_one_trial_and_not_by_a_clear_tax() {
        let findings = raised(&Run::steady(1, 100, &[("nginx", 900), ("envoy", 900)]), CODE);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].case, None);
        let mut run = Run::closed(1);
        for round in 0..4 {
            run.direct(round, 100, 101);
            run.push(via("nginx", round).all_at_us(150).throughput(500));
        }
        assert_eq!(raised(&run, CODE), [], "a clear tax");
    }
}
