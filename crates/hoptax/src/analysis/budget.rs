//! Budgets: limits of the plan set against what was measured.

use super::case::Case;
use super::stats::Estimate;
use super::tax::TaxMetric;
use crate::plan::{Budget, Metric};
use serde::Serialize;

/// How a budget fared at one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Inside the limit, or not beyond it with confidence.
    Kept,
    /// Beyond the limit: the whole interval where there is one, the value where there is none.
    Breached,
    /// There was nothing to set against the limit.
    Unmeasured,
}

/// One budget against one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BudgetResult {
    /// The case.
    pub case: String,
    /// What is limited.
    pub metric: Metric,
    /// A breach is above this.
    pub max: Option<f64>,
    /// A breach is below this.
    pub min: Option<f64>,
    /// What was measured.
    pub measured: Option<Estimate>,
    /// How it fared.
    pub outcome: Outcome,
}

/// Sets every budget against every gateway case that it limits.
pub(super) fn judge(budgets: &[Budget], cases: &[Case]) -> Vec<BudgetResult> {
    let limits = |budget: &Budget, case: &Case| match &budget.gateway {
        Some(gateway) => *gateway == case.gateway,
        None => !case.is_direct(),
    };
    budgets
        .iter()
        .flat_map(|budget| cases.iter().filter(|case| limits(budget, case)).map(|case| against(budget, case)))
        .collect()
}

fn against(budget: &Budget, case: &Case) -> BudgetResult {
    let measured = measured(budget.metric, case);
    let outcome = match measured {
        None => Outcome::Unmeasured,
        Some(value) if beyond(budget, &value) => Outcome::Breached,
        Some(_) => Outcome::Kept,
    };
    BudgetResult {
        case: case.case.clone(),
        metric: budget.metric,
        max: budget.max,
        min: budget.min,
        measured,
        outcome,
    }
}

fn beyond(budget: &Budget, value: &Estimate) -> bool {
    let (low, high) = value.interval().unwrap_or((value.estimate, value.estimate));
    budget.max.is_some_and(|max| low > max) || budget.min.is_some_and(|min| high < min)
}

fn measured(metric: Metric, case: &Case) -> Option<Estimate> {
    if let Some(tax) = TaxMetric::limited_by(metric) {
        return Some(case.tax.as_ref()?.get(tax)?.estimate);
    }
    let plain = match metric {
        Metric::ErrorShare => case.error_share(),
        Metric::MemoryRssBytes => Some(case.memory.as_ref()?.gateway_rss_bytes_max? as f64),
        _ => None,
    };
    // A share of everything counted and a maximum are facts of the run, not samples: they have no interval.
    plain.map(|estimate| Estimate { estimate, low: None, high: None, trials: case.trials })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture::{Run, failure, via};
    use crate::record::Stage;

    fn outcome(run: &mut Run, metric: Metric, max: Option<f64>, min: Option<f64>) -> Outcome {
        run.record.plan.budget = vec![Budget { gateway: Some("nginx".into()), metric, max, min }];
        let results = run.analyse().budget;
        assert_eq!(results.len(), 1);
        results[0].outcome
    }

    #[test]
    fn a_breach_needs_the_whole_interval_beyond_the_limit() {
        let mut run = Run::closed(1);
        for (round, via_us) in [140, 150, 160].into_iter().enumerate() {
            run.direct(round as u32, 100, 100);
            run.push(via("nginx", round as u32).all_at_us(via_us));
        }
        // Added 50 µs. Of 27 draws 7 have the median 140, 7 have 160: s*² = 100 · 14/27, and t(2)·√1.5·s* = 37.9.
        assert_eq!(outcome(&mut run, Metric::AddedP50, Some(10.0), None), Outcome::Breached);
        assert_eq!(outcome(&mut run, Metric::AddedP50, Some(15.0), None), Outcome::Kept);
        assert_eq!(outcome(&mut run, Metric::AddedP50, None, Some(90.0)), Outcome::Breached);
    }

    #[test]
    fn without_an_interval_the_value_decides() {
        let mut run = Run::steady(1, 100, &[("nginx", 150)]);
        assert_eq!(outcome(&mut run, Metric::AddedP50, Some(45.0), None), Outcome::Breached);
        assert_eq!(outcome(&mut run, Metric::AddedP50, Some(55.0), None), Outcome::Kept);
        assert_eq!(outcome(&mut run, Metric::ErrorShare, Some(0.0), None), Outcome::Kept);
    }

    #[test]
    fn nothing_measured_is_not_kept() {
        let mut run = Run::steady(2, 100, &[]);
        run.contender("nginx", Some(failure(Stage::Start, "did not start")));
        assert_eq!(outcome(&mut run, Metric::AddedP50, Some(45.0), None), Outcome::Unmeasured);
    }

    #[test]
    fn a_budget_without_a_gateway_limits_all_of_them_but_not_direct() {
        let mut run = Run::steady(2, 100, &[("nginx", 150), ("envoy", 170)]);
        run.record.plan.budget =
            vec![Budget { gateway: None, metric: Metric::AddedP50, max: Some(60.0), min: None }];
        let results = run.analyse().budget;
        let outcomes: Vec<Outcome> = results.iter().map(|result| result.outcome).collect();
        assert_eq!(outcomes, [Outcome::Kept, Outcome::Breached]);
    }
}
