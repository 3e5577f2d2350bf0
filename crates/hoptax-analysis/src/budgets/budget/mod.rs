//! Checks measured figures against the limits of budgets.
//!
//! A budget is kept if the *whole* interval is within the limit, exceeded if the whole interval is beyond it,
//! and otherwise inconclusive. If there is no interval (one trial only), the value itself is compared with
//! the limit, and a change is inconclusive.

use crate::budgets::limits::{Judged, Limits, together, would_decide};
use crate::side::{Side, counterpart, in_run, is_of_speed, machine_factor, measured, placed_differently};
use crate::starts::Starts;
use crate::taxes::difference::ALPHA;
use crate::trials::merged;
use crate::trials::metric::percentile;
use hoptax_plan::{Budget, LoadPoint, LoadSelector, Metric, Plan};
use hoptax_record::report::{BudgetResult, Case, ChangeResult, Outcome, WouldDecide};
use hoptax_record::{DIRECT, RunRecord};
use hoptax_stats::{Contrast, Estimate, change, change_of_figures, holm, student_beyond, student_within};

/// The baseline run. Budgets on relative changes compare another run with it.
#[derive(Debug, Clone, Copy)]
pub struct Baseline<'a> {
    /// The run's name in messages.
    pub name: &'a str,
    /// The run's trials.
    pub side: &'a Side<'a>,
    /// The run's cases.
    pub cases: &'a [Case],
    /// The run's starts.
    pub starts: &'a [Starts],
}

/// Checks each budget in every case that the budget limits.
pub(crate) fn judge(
    budgets: &[Budget],
    cases: &[Case],
    side: &Side<'_>,
    baseline: Option<&Baseline<'_>>,
) -> Vec<BudgetResult> {
    let judge = Judge { cases, side, baseline };
    budgets
        .iter()
        .flat_map(|budget| {
            cases.iter().filter(|case| judge.limits(budget, case)).map(|case| judge.against(budget, case))
        })
        .collect()
}

/// The result of a budget for a gateway that was not installed and that another one replaced. Such a budget
/// cannot be kept.
pub(crate) fn of_replaced(budget: &Budget, plan: &Plan) -> Option<BudgetResult> {
    let label = budget.gateway.as_ref()?;
    let replacement = plan.replacements.iter().find(|one| one.instead_of == *label)?;
    let reason = format!("{label} is not installed, and its budgets do not apply to {}", replacement.gateway);
    Some(BudgetResult {
        case: label.clone(),
        gateway: label.clone(),
        metric: budget.metric,
        max: budget.max,
        min: budget.min,
        measured: None,
        more_than: None,
        change: budget.is_relative().then(|| ChangeResult {
            max: budget.max_change,
            min: budget.min_change,
            ..unknown(budget.against.as_deref().unwrap_or("the baseline"))
        }),
        outcome: Outcome::Unmeasured,
        reason: Some(reason),
        would_decide: None,
    })
}

/// Says which budgets for all load points were not checked everywhere, because the run left load points out.
/// `None` if there are none.
pub fn not_everywhere(budgets: &[Budget], run: &RunRecord) -> Option<String> {
    let left_out = run.load.iter().filter(|point| point.left_out.is_some()).count();
    let mut metrics: Vec<&str> = Vec::new();
    for budget in budgets.iter().filter(|budget| budget.load == LoadSelector::default()) {
        if !metrics.contains(&budget.metric.name()) {
            metrics.push(budget.metric.name());
        }
    }
    let (points, there) = if left_out == 1 { ("a load point", "there") } else { ("load points", "at them") };
    let metrics = metrics.join(", ");
    (left_out > 0 && !metrics.is_empty())
        .then(|| format!("The run left out {points}, so these budgets were not checked {there}: {metrics}."))
}

/// The outcome of all budgets together. Without a budget, all are kept.
pub fn outcome_of_all(results: &[BudgetResult]) -> Outcome {
    together(results.iter().map(|result| result.outcome))
}

struct Judge<'a> {
    cases: &'a [Case],
    side: &'a Side<'a>,
    baseline: Option<&'a Baseline<'a>>,
}

impl Judge<'_> {
    fn limits(&self, budget: &Budget, case: &Case) -> bool {
        let gateway = match &budget.gateway {
            Some(gateway) => *gateway == case.gateway,
            None => !case.is_direct() && budget.against.as_ref() != Some(&case.gateway),
        };
        let point = self.side.run.load.get(case.load.index);
        // A budget for all load points does not limit those that the run left out.
        let is_meant = |point: &LoadPoint| point.left_out.is_none() || budget.load != LoadSelector::default();
        gateway && point.is_some_and(|point| budget.load.selects(point) && is_meant(point))
    }

    fn against(&self, budget: &Budget, case: &Case) -> BudgetResult {
        let measured = measured(budget.metric, case, self.side);
        let changed = budget.is_relative().then(|| self.change(budget, case));
        let failed = case.failed.as_ref().map(|failure| failure.message.clone());
        let mut parts = Vec::new();
        if budget.max.is_some() || budget.min.is_some() {
            parts.push(match &measured {
                Some(value) => self.of_value(budget, case, value),
                None => {
                    LimitOutcome::unmeasured(failed.clone().unwrap_or_else(|| "it was not measured".into()))
                }
            });
        }
        if let Some(changed) = &changed {
            parts.push(match &changed.measured {
                Some(value) => judge_change(changed, value, self.side.measured_s),
                None => {
                    let which = if measured.is_none() { "it" } else { &changed.against };
                    LimitOutcome::unmeasured(failed.unwrap_or_else(|| format!("{which} was not measured")))
                }
            });
        }
        let LimitOutcome { outcome, reason, would_decide } = LimitOutcome::worst(parts);
        BudgetResult {
            case: case.case.clone(),
            gateway: case.gateway.clone(),
            metric: budget.metric,
            max: budget.max,
            min: budget.min,
            measured,
            more_than: None,
            change: changed,
            outcome,
            reason,
            would_decide,
        }
    }

    /// Judges a figure in its own unit.
    fn of_value(&self, budget: &Budget, case: &Case, value: &Estimate) -> LimitOutcome {
        let limits = Limits { max: budget.max, min: budget.min };
        // A limit of no errors, or of good requests only, is compared with the value itself, because an
        // interval of a share never ends at zero or one.
        let is_extreme = match budget.metric {
            Metric::ErrorShare => budget.max == Some(0.0),
            Metric::GoodputShare => budget.min == Some(1.0),
            _ => false,
        };
        if is_extreme {
            return LimitOutcome::of(limits.judge(&Estimate::bare(value.estimate, 1)));
        }
        // The interval of a share comes entirely from its rounds.
        let is_share = [Metric::ErrorShare, Metric::GoodputShare].contains(&budget.metric);
        let own = in_run(budget.metric, case, self.side).filter(|_| !is_share);
        let of_rounds = own.and_then(|one| one.half_width());
        LimitOutcome::judged(limits, &Judged { value: *value, of_rounds }, self.side.measured_s)
    }

    fn change(&self, budget: &Budget, case: &Case) -> ChangeResult {
        let (metric, load) = (budget.metric, case.load.index);
        let found = match (&budget.against, self.baseline) {
            (Some(label), _) => {
                let other = self.cases.iter().find(|one| one.gateway == *label && one.load.index == load);
                ChangeResult {
                    reference: other.and_then(|other| measured(metric, other, self.side)),
                    measured: self.change_against(label, case, metric).map(|one| estimate(&one)),
                    ..unknown(label)
                }
            }
            (None, Some(baseline)) => self.change_since(baseline, case, metric),
            (None, None) => unknown("no baseline"),
        };
        ChangeResult { max: budget.max_change, min: budget.min_change, ..found }
    }

    fn change_against(&self, label: &str, case: &Case, metric: Metric) -> Option<Contrast> {
        let load = case.load.index;
        let trials = |label| self.side.trials(label, load);
        if percentile(metric).is_some() {
            let (first, second, direct) = (trials(label), trials(&case.gateway), trials(DIRECT));
            return merged::Pair { first, second, direct }.change(metric);
        }
        let pairs = pairs((self.side, label, load), (self.side, &case.gateway, load), metric);
        let (first, second): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        change(&first, &second, true)
    }

    /// The change since a baseline run. Its interval also covers what the machine may have changed.
    fn change_since(&self, baseline: &Baseline<'_>, case: &Case, metric: Metric) -> ChangeResult {
        let unknown = unknown(baseline.name);
        let load = case.load.index;
        let Some(there) = counterpart(&self.side.run.load[load], baseline.side.run) else { return unknown };
        let is_other = |one: &&Case| one.gateway == case.gateway && one.load.index == there;
        let Some(other) = baseline.cases.iter().find(is_other) else { return unknown };
        let (before, now) = (measured(metric, other, baseline.side), measured(metric, case, self.side));
        let of_direct = case.gateway == DIRECT;
        let factor = machine_factor(metric, (baseline.side, there), (self.side, load), of_direct);
        let change = before.zip(now).and_then(|(before, now)| change_of_figures(&before, &now)).map(|one| {
            let one = estimate(&one);
            Estimate {
                low: one.low.map(|low| (1.0 + low) / factor - 1.0),
                high: one.high.map(|high| (1.0 + high) * factor - 1.0),
                ..one
            }
        });
        let own = in_run(metric, case, self.side).and_then(|one| one.half_width());
        ChangeResult {
            reference: before,
            measured: change,
            drift: factor - 1.0,
            between_runs: true,
            of_rounds: own.zip(before).map(|(own, before)| own / before.estimate),
            incomparable: incomparable(metric, baseline, self.side),
            ..unknown
        }
    }
}

/// Widens the intervals of exceeded limits so that they account for the number of limits. A limit within the
/// wider interval is inconclusive, because chance may explain it: equal runs exceed one limit in twenty by
/// chance, and a plan has many limits. Looks only at changes since a baseline run, because a pipeline makes
/// this comparison again and again.
pub(crate) fn allow_for_chance(results: &mut [BudgetResult]) {
    let is_between = |result: &&mut BudgetResult| {
        let is_only_limit = result.max.is_none() && result.min.is_none();
        is_only_limit && result.change.as_ref().is_some_and(|change| change.between_runs)
    };
    let mut results: Vec<&mut BudgetResult> = results.iter_mut().filter(is_between).collect();
    let of_result = |result: &&mut BudgetResult| {
        let exceeded = result.outcome == Outcome::Exceeded;
        result.change.as_ref().filter(|_| exceeded).and_then(p_value).unwrap_or(1.0)
    };
    let adjusted = holm(&results.iter().map(of_result).collect::<Vec<_>>());
    let limits = results.len();
    for (result, one) in results.iter_mut().zip(adjusted) {
        let Some(change) = result.change.as_mut().filter(|_| result.outcome == Outcome::Exceeded) else {
            continue;
        };
        change.measured = change.measured.map(|value| with_confidence(&value, one.confidence));
        if p_value(change).is_none() {
            result.outcome = Outcome::Inconclusive;
            result.reason =
                Some(format!("with {limits} limits, chance alone can exceed one this far. {MEASURE_AGAIN}"));
        }
    }
}

/// Why a baseline cannot decide about a metric: CPUs were placed differently. `None` if it can.
fn incomparable(metric: Metric, baseline: &Baseline<'_>, side: &Side<'_>) -> Option<String> {
    let (there, here) = placed_differently(baseline.side, side).filter(|_| is_of_speed(metric))?;
    let [cpu, neighbor] = here.cpus;
    Some(format!(
        "CPUs {cpu} and {neighbor} were {:.0} ns apart in {} and {:.0} ns in this run, which changes all \
         times. Measure the baseline again, or both versions in one run",
        there.usual_ns, baseline.name, here.usual_ns
    ))
}

const TOO_CLOSE: &str = "it is so close to the limit that more rounds would not decide it";
const ONE_ROUND: &str = "one round says nothing about chance. Measure at least two";
const MEASURE_BOTH: &str = "separate runs scatter too much for this limit. Measure both versions in one run, \
    with `against`, or widen the limit";
const MEASURE_AGAIN: &str = "Measure again, or measure both versions in one run, with `against`";

/// The outcome of one limit.
#[derive(Debug)]
pub(crate) struct LimitOutcome {
    pub(crate) outcome: Outcome,
    pub(crate) reason: Option<String>,
    pub(crate) would_decide: Option<WouldDecide>,
}

impl LimitOutcome {
    pub(crate) fn of(outcome: Outcome) -> Self {
        Self { outcome, reason: None, would_decide: None }
    }

    pub(crate) fn unmeasured(reason: String) -> Self {
        Self { reason: Some(reason), ..Self::of(Outcome::Unmeasured) }
    }

    fn inconclusive(reason: &str) -> Self {
        Self { reason: Some(reason.to_owned()), ..Self::of(Outcome::Inconclusive) }
    }

    /// The outcome of limits for a value with an interval.
    pub(crate) fn judged(limits: Limits, judged: &Judged, measured_s: Option<f64>) -> Self {
        let outcome = limits.judge(&judged.value);
        if outcome != Outcome::Inconclusive {
            return Self::of(outcome);
        }
        if judged.value.interval().is_none() {
            return Self::inconclusive("it has no interval, because the reference may be zero");
        }
        match would_decide(limits.rounds_to_decide(judged), &judged.value, measured_s) {
            Some(would_decide) => Self { would_decide: Some(would_decide), ..Self::of(outcome) },
            None => Self::inconclusive(TOO_CLOSE),
        }
    }

    /// The worst of several outcomes, which is the outcome of all limits together.
    pub(crate) fn worst(parts: Vec<Self>) -> Self {
        let outcome = together(parts.iter().map(|part| part.outcome));
        parts.into_iter().find(|part| part.outcome == outcome).unwrap_or_else(|| Self::of(outcome))
    }
}

/// A change from a reference that was not measured.
pub(crate) fn unknown(against: &str) -> ChangeResult {
    ChangeResult { against: against.to_owned(), ..ChangeResult::default() }
}

/// Degrees of freedom of a change.
fn degrees(value: &Estimate) -> f64 {
    f64::from(value.trials.saturating_sub(1).max(1))
}

/// The logarithm of the ratio. Ratios are compared by their logarithms.
fn log(change: f64) -> f64 {
    (1.0 + change).max(f64::MIN_POSITIVE).ln()
}

/// A change with an interval of another confidence.
fn with_confidence(value: &Estimate, confidence: f64) -> Estimate {
    let quantile = |confidence: f64| student_within(confidence, degrees(value));
    let times = quantile(confidence) / quantile(1.0 - ALPHA);
    let middle = log(value.estimate);
    let wider = |end: f64| (middle + (log(end) - middle) * times).exp_m1();
    Estimate { low: value.low.map(wider), high: value.high.map(wider), ..*value }
}

/// p-value of the hypothesis that the change is within its limits. `None` if a limit is within the interval,
/// and without an interval.
fn p_value(change: &ChangeResult) -> Option<f64> {
    let value = change.measured.as_ref()?;
    let (low, high) = value.interval()?;
    let degrees = degrees(value);
    let beyond = |limit: f64, nearest: f64| {
        let (distance, half) = (log(value.estimate) - log(limit), log(value.estimate) - log(nearest));
        student_beyond(student_within(1.0 - ALPHA, degrees) * distance / half, degrees)
    };
    let max = change.max.filter(|max| low > *max).map(|max| beyond(max, low));
    max.or_else(|| change.min.filter(|min| high < *min).map(|min| beyond(min, high)))
}

/// Judges a change. `value` is the measured change.
pub(crate) fn judge_change(change: &ChangeResult, value: &Estimate, measured_s: Option<f64>) -> LimitOutcome {
    if let Some(reason) = &change.incomparable {
        return LimitOutcome::inconclusive(reason);
    }
    if value.interval().is_none() && value.trials <= 1 {
        return LimitOutcome::inconclusive(ONE_ROUND);
    }
    let limits = Limits { max: change.max, min: change.min };
    let part =
        LimitOutcome::judged(limits, &Judged { value: *value, of_rounds: change.of_rounds }, measured_s);
    let is_undecidable = part.outcome == Outcome::Inconclusive && part.would_decide.is_none();
    if is_undecidable && change.of_rounds.is_some() && value.interval().is_some() {
        return LimitOutcome::inconclusive(MEASURE_BOTH);
    }
    part
}

/// The pairs (first value, second value) of two contenders, one pair for each round that has both values.
pub(crate) fn pairs(
    first: (&Side<'_>, &str, usize),
    second: (&Side<'_>, &str, usize),
    metric: Metric,
) -> Vec<(f64, f64)> {
    let of = |(side, label, load): (&Side<'_>, &str, usize)| side.by_round(metric, label, load);
    let second = of(second);
    of(first).into_iter().filter_map(|(round, value)| Some((value, *second.get(&round)?))).collect()
}

pub(crate) fn estimate(contrast: &Contrast) -> Estimate {
    let Contrast { estimate, low, high, rounds, .. } = *contrast;
    Estimate { estimate, low, high, trials: rounds }
}

#[cfg(test)]
mod tests;
