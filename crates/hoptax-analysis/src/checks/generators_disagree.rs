//! `generators-disagree`: a gateway adds much more to the requests of one generator than to those of another.

use super::{Finding, Rule, Severity, Subject, about, evidence, percent};
use crate::taxes::difference::{ALPHA, LEAST_CHANGE};
use crate::taxes::generators::{Disagreement, disagreements};
use crate::{Case, Trial};
use hoptax_stats::{Contrast, Statistic, holm, merge};

const CODE: &str = "generators-disagree";
/// Limit for the difference of two generators, as a share of what the gateway adds to all requests. Such a
/// difference is about as large as that between two gateways that users compare. Generators on equal machines
/// differ by far less.
const OF_TAX: f64 = 0.25;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "the added p50 of two generators differs by more than chance explains (p < {ALPHA}, adjusted for \
             all pairs), by more than {} of the case's added p50, and by more than {} of direct's median",
            percent(OF_TAX),
            percent(LEAST_CHANGE)
        ),
        seen: "The case mixes requests from different conditions, such as another network path or a slower \
               machine.",
        advice: "Compare the two machines (`hoptax doctor`) and their paths to gateway and upstream. If \
                 these differ on purpose, use the figures of each generator.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let cases = subject.pairs().filter(|((case, _), _)| case.generators.len() > 1);
    let compared: Vec<(&Case, f64, Disagreement)> = cases
        .flat_map(|((case, via), (_, direct))| {
            let least = least(case, direct);
            disagreements(via, direct).into_iter().filter_map(move |one| Some((case, least?, one)))
        })
        .collect();
    let known: Vec<(usize, f64)> = compared
        .iter()
        .enumerate()
        .filter_map(|(index, (.., one))| Some((index, Contrast::of(&one.difference).p_value?)))
        .collect();
    let adjusted = holm(&known.iter().map(|(_, p_value)| *p_value).collect::<Vec<_>>());
    let apart: Vec<_> = known
        .iter()
        .zip(adjusted)
        .map(|((index, _), adjusted)| (&compared[*index], adjusted.p_value))
        .filter(|((_, least, one), p_value)| *p_value < ALPHA && one.difference.estimate.abs() > *least)
        .collect();
    // Each case is reported with the pair of generators that differs most.
    let mut cases = apart.chunk_by(|(one, _), (other, _)| one.0.case == other.0.case);
    let size = |((.., one), _): &&(&(&Case, f64, Disagreement), f64)| one.difference.estimate.abs();
    let worst = |pairs: &[(&(&Case, f64, Disagreement), f64)]| {
        let ((case, _, one), p_value) = pairs.iter().max_by(|a, b| size(a).total_cmp(&size(b)))?;
        Some(finding(case, one, *p_value))
    };
    cases.by_ref().filter_map(worst).collect()
}

/// Differences up to this size do not matter, µs. `None` if the tax is unknown.
fn least(case: &Case, direct: &[Trial<'_>]) -> Option<f64> {
    let tax = case.tax.as_ref()?.added_p50.as_ref()?.estimate.estimate;
    let median = Statistic::P50.of(&merge(direct.iter().map(|trial| &trial.response_time)))?;
    Some((OF_TAX * tax.abs()).max(LEAST_CHANGE * median))
}

fn finding(case: &Case, one: &Disagreement, p_value: f64) -> Finding {
    let Disagreement { pair: [first, second], added_p50: [of_first, of_second], difference } = one;
    let interval = difference.interval().map(|(low, high)| format!(" (95 % interval {low:.0} to {high:.0})"));
    Finding {
        evidence: evidence([
            ("generators", [first, second].map(String::as_str).to_vec().into()),
            ("added_p50_us", [*of_first, *of_second].to_vec().into()),
            ("difference_us", difference.estimate.into()),
            ("low_us", difference.low.into()),
            ("high_us", difference.high.into()),
            ("p_value", p_value.into()),
            ("limit", OF_TAX.into()),
        ]),
        message: format!(
            "The gateway adds {of_first:.0} µs to the median of the requests from {first}, and \
             {of_second:.0} µs to those from {second}: a difference of {:.0} µs{}. The figures of this case \
             mix both.",
            difference.estimate.abs(),
            interval.unwrap_or_default()
        ),
        advice: format!(
            "Compare the machines of {first} and {second} (`hoptax doctor` there) and their paths to the \
             gateway and the upstream. If these differ on purpose, use the figures of each generator."
        ),
        ..about(CODE, Severity::Warning, &case.case)
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "they differ by more than {} of the case's added p50" fraction(OF_TAX);
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    /// Rounds in which the gateway adds 100 µs to the requests of `a`, and `of_b` µs to those of `b`.
    /// `scatter` moves the requests of `b` from round to round.
    fn run(of_b: u64, scatter: u64) -> Run {
        let mut run = Run::closed(8);
        for round in 0..6 {
            let jitter = u64::from(round % 2);
            run.direct_trials(round, |trial| trial.generators_us(&[("a", 200), ("b", 400 + jitter)]));
            let of_b = 400 + of_b + scatter * u64::from(round % 3);
            run.push(via("nginx", round).generators_us(&[("a", 300 + jitter), ("b", of_b)]));
        }
        run
    }

    #[test]
    fn raised_by_generators_with_different_taxes() {
        let found = raised(&run(190, 0), CODE);
        assert_eq!(found[0].evidence["generators"], serde_json::json!(["a", "b"]));
        insta::assert_snapshot!(texts(&found));
    }

    #[test]
    fn not_raised_by_small_differences_scatter_or_one_round() {
        assert_eq!(raised(&run(115, 0), CODE), [], "15 µs are less than a quarter of the tax");
        assert_eq!(raised(&run(100, 0), CODE), [], "paths of different lengths, and the same tax");
        assert_eq!(raised(&run(60, 90), CODE), [], "chance explains it");
        let mut run = run(190, 0);
        run.trials.retain(|trial| trial.round == 0);
        assert_eq!(raised(&run, CODE), [], "one round has no interval");
    }
}
