//! Budgets of starts: the time until a gateway listens, is ready, and has settled.

use crate::budgets::budget::{self, Baseline, LimitOutcome, estimate, of_replaced};
use crate::budgets::limits::{Judged, Limits};
use crate::side::Side;
use crate::starts::{Starts, medians, of_process};
use hoptax_plan::{Budget, Metric};
use hoptax_record::report::{BudgetResult, Case, ChangeResult, Outcome, StartMedian};
use hoptax_stats::{Allowance, Estimate, RunFigure, TwoRuns, change_of_figures};

/// Checks each budget in every case that it limits. Budgets of starts are checked for each gateway that was
/// started.
pub fn judge(
    budgets: &[Budget],
    (cases, starts): (&[Case], &[Starts]),
    side: &Side<'_>,
    baseline: Option<&Baseline<'_>>,
) -> Vec<BudgetResult> {
    let of_budget = |budget: &Budget| match of_replaced(budget, &side.run.plan) {
        Some(result) => vec![result],
        None if budget.metric.is_start() => of_starts(budget, (starts, side), baseline),
        None => budget::judge(std::slice::from_ref(budget), cases, side, baseline),
    };
    let mut results = budgets.iter().flat_map(of_budget).collect::<Vec<_>>();
    budget::allow_for_chance(&mut results);
    results
}

/// Checks a budget for each gateway that it limits. Budgets limit starts of processes, not reloads.
fn of_starts(
    budget: &Budget,
    all: (&[Starts], &Side<'_>),
    baseline: Option<&Baseline<'_>>,
) -> Vec<BudgetResult> {
    let limits = |one: &&Starts| {
        let gateway = &one.figures.contender;
        let is_meant = match &budget.gateway {
            Some(label) => label == gateway,
            None => budget.against.as_ref() != Some(gateway),
        };
        one.is_of_process() && is_meant
    };
    all.0.iter().filter(limits).map(|one| of_gateway(budget, one, all, baseline)).collect()
}

fn of_gateway(
    budget: &Budget,
    one: &Starts,
    all: (&[Starts], &Side<'_>),
    baseline: Option<&Baseline<'_>>,
) -> BudgetResult {
    let measured = one.measured(budget.metric);
    let changed = budget.is_relative().then(|| change(budget, one, all, baseline));
    let not_measured = |changed| LimitOutcome::unmeasured(unmeasured(one, budget.metric, changed));
    let mut parts = Vec::new();
    if budget.max.is_some() || budget.min.is_some() {
        parts.push(measured.map_or_else(|| not_measured(None), |median| of_limits(budget, &median)));
    }
    if let Some(changed) = &changed {
        parts.push(match &changed.measured {
            Some(value) => budget::judge_change(changed, value, None),
            None => not_measured(Some(changed)),
        });
    }
    let LimitOutcome { outcome, reason, would_decide } = LimitOutcome::worst(parts);
    BudgetResult {
        case: one.case(),
        gateway: one.figures.contender.clone(),
        metric: budget.metric,
        max: budget.max,
        min: budget.min,
        measured: one.estimate(budget.metric),
        more_than: measured.and_then(|median| median.more_than),
        change: changed,
        outcome,
        reason,
        would_decide,
    }
}

/// Judges a median by its interval. If the upper end is only known to exceed a bound, the median cannot be
/// within an upper limit.
fn of_limits(budget: &Budget, median: &StartMedian) -> LimitOutcome {
    let limits = Limits { max: budget.max, min: budget.min };
    if let (Some(low), Some(high), Some(estimate)) = (median.low, median.high, median.estimate) {
        let value = Estimate { low: Some(low), high: Some(high), ..Estimate::bare(estimate, median.starts) };
        return LimitOutcome::judged(limits, &Judged { value, of_rounds: None }, None);
    }
    let above = budget.max.is_some_and(|max| {
        let low = median.low_at_least();
        // A time of more than 10 s exceeds a limit of 10 s.
        let is_bound = if median.has_interval() { median.low.is_none() } else { median.estimate.is_none() };
        low > max || (is_bound && low >= max)
    });
    let below = budget.min.is_some_and(|min| median.high_at_most() < min);
    let is_open = budget.max.is_some() && median.more_than.is_some();
    match (above || below, is_open, median.has_interval()) {
        (true, ..) => LimitOutcome::of(Outcome::Exceeded),
        (false, true, _) => LimitOutcome {
            reason: Some(
                "it had not settled in some starts when its load ended, so its upper end is unknown".into(),
            ),
            ..LimitOutcome::of(Outcome::Inconclusive)
        },
        (false, false, true) => LimitOutcome::of(limits.judge(&Estimate {
            low: Some(median.low_at_least()),
            high: Some(median.high_at_most()),
            ..Estimate::bare(median.low_at_least(), 2)
        })),
        (false, false, false) => LimitOutcome::of(Outcome::Kept),
    }
}

fn unmeasured(one: &Starts, metric: Metric, changed: Option<&ChangeResult>) -> String {
    let (figures, own) = (&one.figures, one.measured(metric));
    match (&figures.failure, own, changed) {
        (Some(failure), None, _) => failure.clone(),
        (None, None, _) => "it was not measured".into(),
        (_, Some(own), _) if own.estimate.is_none() => {
            "it had not settled when its load ended, so its change is unknown".into()
        }
        (_, Some(_), changed) => {
            let against = changed.map_or("the reference", |changed| &changed.against);
            format!("{against} was not measured, or had not settled when its load ended")
        }
    }
}

fn change(
    budget: &Budget,
    one: &Starts,
    (starts, side): (&[Starts], &Side<'_>),
    baseline: Option<&Baseline<'_>>,
) -> ChangeResult {
    let (against, reference) = match (&budget.against, baseline) {
        (Some(label), _) => (label.clone(), of_process(starts, label)),
        (None, Some(base)) => (base.name.to_string(), of_process(base.starts, &one.figures.contender)),
        (None, None) => ("no baseline".to_string(), None),
    };
    let both = reference.and_then(|other| medians(other, one, budget.metric));
    // From run to run, starts scatter like other times. Direct does nothing like a start, so it cannot show
    // how much the machine changed.
    let measured = both.and_then(|(before, now)| match (&budget.against, baseline) {
        (None, Some(base)) => {
            let share = |side: &Side<'_>| side.scatter(&one.figures.contender).between_runs(budget.metric);
            let (before, now) =
                (RunFigure::new(&before, share(base.side)), RunFigure::new(&now, share(side)));
            TwoRuns::new(&before, &now, Allowance { factor: 1.0, floor: 0.0 }).change
        }
        _ => change_of_figures(&before, &now),
    });
    ChangeResult {
        max: budget.max_change,
        min: budget.min_change,
        reference: reference.and_then(|other| other.estimate(budget.metric)),
        measured: measured.map(|change| estimate(&change)),
        between_runs: budget.against.is_none(),
        ..budget::unknown(&against)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Run;
    use crate::fixture::starts::{Cold, started};

    fn outcomes(budget: Budget, gateways: &[(&str, Cold)]) -> Vec<BudgetResult> {
        let mut run = started(20, gateways);
        run.record.plan.budget = vec![budget];
        run.analyse().budget
    }

    /// Checks budgets, given as the metric, the largest time, µs, and the outcome.
    fn assert_outcomes(cold: Cold, more_than: Option<f64>, rows: &[(Metric, f64, Outcome)]) {
        let mut run = started(20, &[("yarp", cold)]);
        let budget = |row: &(Metric, f64, Outcome)| Budget { max: Some(row.1), ..Budget::of(row.0) };
        run.record.plan.budget = rows.iter().map(budget).collect();
        let results = run.analyse().budget;
        assert_eq!(results.len(), rows.len(), "reloads and direct have no budgets: {results:?}");
        for (result, row) in results.iter().zip(rows) {
            assert_eq!((&*result.case, result.outcome), ("yarp, start", row.2), "{row:?}");
            assert_eq!(result.more_than, more_than, "{row:?}");
        }
    }

    #[test]
    fn a_limit_is_exceeded_if_the_whole_interval_is_beyond_it() {
        let cold = Cold { ready_ms: 310.0, slow_us: 900.0, settled_s: Some(3.0), ..Cold::native() };
        let rows = [
            (Metric::Ready, 300e3, Outcome::Exceeded),
            (Metric::Ready, 312e3, Outcome::Inconclusive),
            (Metric::Ready, 320e3, Outcome::Kept),
            (Metric::Listening, 300e3, Outcome::Kept),
            (Metric::FirstRequest, 1e3, Outcome::Kept),
            (Metric::Settled, 3e6, Outcome::Exceeded),
            (Metric::Settled, 4e6, Outcome::Kept),
        ];
        assert_outcomes(cold, None, &rows);
    }

    #[test]
    fn what_has_not_settled_takes_longer_than_the_load() {
        let cold = Cold { settled_s: None, ..Cold::native() };
        // Its end is unknown.
        let limits = [(5e6, Outcome::Exceeded), (10e6, Outcome::Exceeded), (11e6, Outcome::Inconclusive)];
        let rows = limits.map(|(max_us, outcome)| (Metric::Settled, max_us, outcome));
        assert_outcomes(cold, Some(10e6), &rows);
    }

    #[test]
    fn relative_limits_compare_medians() {
        let faster = Cold::native();
        let slower = Cold { ready_ms: 2.0 * faster.ready_ms, ..faster };
        let gateways = [("main", faster), ("pr", slower)];
        let relative = |max| {
            let against = Some("main".to_owned());
            Budget { max_change: Some(max), against, ..Budget::of(Metric::Ready) }
        };
        let results = outcomes(relative(0.5), &gateways);
        assert_eq!((results.len(), results[0].outcome), (1, Outcome::Exceeded), "{results:?}");
        let changed = results[0].change.as_ref().and_then(|one| one.measured).expect("measured");
        assert!((changed.estimate - 1.0).abs() < 0.1 && changed.interval().is_some(), "{changed:?}");
        assert_eq!(outcomes(relative(1.5), &gateways)[0].outcome, Outcome::Kept);
        let budget = Budget { against: Some("gone".into()), ..relative(0.5) };
        assert_eq!(outcomes(budget, &gateways)[0].outcome, Outcome::Unmeasured);
    }

    #[test]
    fn a_gateway_that_never_was_ready_has_the_reason() {
        let mut run: Run = started(3, &[("yarp", Cold::native())]);
        for start in run.starts.iter_mut().filter(|start| start.contender == "yarp") {
            crate::fixture::starts::fail(start, "yarp exited with code 1");
        }
        run.record.plan.budget = vec![Budget { max: Some(1.0), ..Budget::of(Metric::Ready) }];
        let result = run.analyse().budget.remove(0);
        assert_eq!(result.outcome, Outcome::Unmeasured);
        assert_eq!(result.reason.as_deref(), Some("yarp exited with code 1"));
    }
}
