//! Compares two cases, metric by metric.

use super::{Row, Subject, Verdict};
use crate::Case;
use crate::budgets::budget::{estimate, pairs};
use crate::side::{in_run, machine_factor, measured};
use crate::starts::{medians, of_process};
use crate::trials::merged;
use crate::trials::metric::percentile;
use hoptax_plan::{Metric, Quantity};
use hoptax_record::report::Load;
use hoptax_record::{DIRECT, Times};
use hoptax_stats::{
    Adjusted, Allowance, Contrast, Estimate, RunFigure, TwoRuns, change, change_of_figures,
    independent_figures, mean, paired, student_within,
};

/// The metrics that are compared for gateways. Taxes come first, because they remain comparable even if the
/// machine changed.
fn of_gateway() -> impl Iterator<Item = Metric> {
    let taxes = [
        Metric::AddedP50,
        Metric::AddedP90,
        Metric::AddedP99,
        Metric::ThroughputRatio,
        Metric::CpuUsPerRequest,
        Metric::ExtraUpstreamRequests,
    ];
    let others = [Metric::MemoryRssBytes, Metric::MemoryPssBytes, Metric::ErrorShare];
    taxes.into_iter().chain(Metric::further()).chain(plain()).chain(others)
}

/// The metrics that are compared for direct.
fn of_direct() -> impl Iterator<Item = Metric> {
    plain().chain([Metric::ErrorShare])
}

/// The metrics that gateways and direct have. For messages, these are the metrics from which their taxes are
/// computed.
fn plain() -> impl Iterator<Item = Metric> {
    let of_requests = [Metric::P50, Metric::P99, Metric::P999, Metric::Throughput];
    of_requests.into_iter().chain(Metric::further().filter_map(Metric::plain))
}

/// True for times to the first byte. Only responses with messages are compared by these times. For other
/// responses, they show little more than response times do.
fn is_of_first_byte(metric: Metric) -> bool {
    metric.times() == Some(Times::FirstByte)
}

/// The metrics of starts that decide the overall verdict. The other times of a start are parts of these
/// times.
const HEADLINES_OF_STARTS: [Metric; 2] = [Metric::Ready, Metric::Settled];

/// The two cases to compare. Each case is given as (subject, label, index of the load point).
pub(super) struct Pair<'p, 'a> {
    pub(super) a: (&'p Subject<'a>, &'a str, usize),
    pub(super) b: (&'p Subject<'a>, &'a str, usize),
    pub(super) least_change: f64,
}

impl<'p> Pair<'p, '_> {
    fn case_a(&self) -> Option<&'p Case> {
        let (subject, label, load) = self.a;
        subject.analysis.case(label, load)
    }

    fn case_b(&self) -> Option<&'p Case> {
        let (subject, label, load) = self.b;
        subject.analysis.case(label, load)
    }

    fn is_paired(&self) -> bool {
        self.a.0.is_same_run(self.b.0)
    }
}

pub(super) fn rows(pair: &Pair<'_, '_>) -> Vec<Compared> {
    let (Some(a), Some(b)) = (pair.case_a(), pair.case_b()) else { return Vec::new() };
    let metrics: Vec<Metric> = match [pair.a.1, pair.b.1].contains(&DIRECT) {
        true => of_direct().collect(),
        false => of_gateway().collect(),
    };
    let has_messages = a.messages.is_some() || b.messages.is_some();
    let compared = metrics.into_iter().filter(|metric| has_messages || !is_of_first_byte(*metric));
    compared.filter_map(|metric| row(pair, a, b, metric)).collect()
}

fn row(pair: &Pair<'_, '_>, a: &Case, b: &Case, metric: Metric) -> Option<Compared> {
    let ((one, label_a, _), (two, label_b, _)) = (pair.a, pair.b);
    let contrasts = match pair.is_paired() {
        true => paired_rounds(pair, metric, a, b),
        false => two_runs(pair, metric, a, b),
    }?;
    let is_headline = is_headline(metric, &a.load) && ![label_a, label_b].contains(&DIRECT);
    let figures = (measured(metric, a, one.side), measured(metric, b, two.side));
    Some(pair.row(&a.load, metric, figures, contrasts, is_headline))
}

/// Compares the starts of two gateways. Reloads are not compared.
pub(super) fn rows_of_starts(pair: &Pair<'_, '_>, load: &Load) -> Vec<Compared> {
    let ((one, label_a, _), (two, label_b, _)) = (pair.a, pair.b);
    let both = of_process(&one.analysis.starts, label_a).zip(of_process(&two.analysis.starts, label_b));
    let Some((a, b)) = both else { return Vec::new() };
    let row = |metric: Metric| {
        let (first, second) = medians(a, b, metric)?;
        let floor = pair.least_change * first.estimate.min(second.estimate);
        let contrasts = if pair.is_paired() {
            let change = change_of_figures(&first, &second);
            Contrasts::of_one_run(independent_figures(&first, &second), change, floor)
        } else {
            let share = |label, side: &crate::Side<'_>| side.scatter(label).between_runs(metric);
            let first = RunFigure::new(&first, share(label_a, one.side));
            let second = RunFigure::new(&second, share(label_b, two.side));
            TwoRuns::new(&first, &second, Allowance { factor: 1.0, floor }).into()
        };
        let is_headline = HEADLINES_OF_STARTS.contains(&metric);
        Some(pair.row(load, metric, (a.estimate(metric), b.estimate(metric)), contrasts, is_headline))
    };
    Metric::STARTS.into_iter().filter_map(row).collect()
}

struct Contrasts {
    /// Second figure − first figure.
    difference: Contrast,
    /// Second figure ÷ first figure − 1. Absent if the ratio is undefined.
    change: Option<Contrast>,
    /// A difference up to this size does not count.
    floor: f64,
    /// Absent if there is only one round.
    test: Option<Test>,
}

/// What decides whether a difference counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Test {
    /// p-value of the hypothesis that noise and the machine explain the difference.
    pub(super) p_value: f64,
    /// Standard error of the difference, with its degrees of freedom.
    error: (f64, f64),
    /// What the machine may have added to the difference. It widens the interval on both sides.
    allowance: f64,
}

/// A row that has no verdict yet. Its intervals are those of this row alone.
pub(super) struct Compared {
    pub(super) row: Row,
    pub(super) test: Option<Test>,
}

impl Contrasts {
    fn of_one_run(difference: Contrast, change: Option<Contrast>, floor: f64) -> Self {
        let explained = difference.estimate.abs() <= floor;
        let test = difference.p_value.zip(difference.error());
        let test =
            test.map(|(p, error)| Test { p_value: if explained { 1.0 } else { p }, error, allowance: 0.0 });
        Self { difference, change, floor, test }
    }
}

impl From<TwoRuns> for Contrasts {
    fn from(TwoRuns { difference, change, floor, p_value, error }: TwoRuns) -> Self {
        let test = p_value.zip(error);
        let test = test.map(|(p_value, error)| Test { p_value, error, allowance: floor });
        Self { difference, change, floor, test }
    }
}

impl Pair<'_, '_> {
    fn row(
        &self,
        load: &Load,
        metric: Metric,
        (a, b): (Option<Estimate>, Option<Estimate>),
        contrasts: Contrasts,
        headline: bool,
    ) -> Compared {
        let Contrasts { difference, change, floor, test } = contrasts;
        let row = Row {
            load: load.clone(),
            label_a: self.a.1.to_string(),
            label_b: self.b.1.to_string(),
            metric,
            unit: unit(metric),
            headline,
            a,
            b,
            difference,
            change: change.map(|change| estimate(&change)),
            floor,
            adjusted_p_value: None,
            verdict: Verdict::NotDistinguishable,
        };
        Compared { row, test }
    }

    /// The larger noise floor of both cases.
    fn noise(&self, metric: Metric) -> f64 {
        let of =
            |(subject, label, load): (&Subject<'_>, &str, usize)| subject.side.floor(metric, label, load);
        of(self.a).max(of(self.b))
    }

    /// For two figures of one run, the size up to which a difference does not count, even if rounds show it.
    /// It is the noise floor, or the least change of the smaller figure if that is larger. With the smaller
    /// figure, the result is the same for swapped cases.
    fn floor(&self, metric: Metric, a: f64, b: f64) -> f64 {
        self.noise(metric).max(a.abs().min(b.abs()) * self.least_change)
    }
}

/// Compares two runs, which are independent. A gateway does not affect direct, so a change of direct comes
/// from the machine.
fn two_runs(pair: &Pair<'_, '_>, metric: Metric, a: &Case, b: &Case) -> Option<Contrasts> {
    let ((one, label_a, load_a), (two, label_b, load_b)) = (pair.a, pair.b);
    let (first, second) = (one.side.run_figure(metric, a)?, two.side.run_figure(metric, b)?);
    let of_direct = [label_a, label_b].contains(&DIRECT);
    let factor = machine_factor(metric, (one.side, load_a), (two.side, load_b), of_direct);
    let floor = pair.floor(metric, first.value(), second.value());
    Some(TwoRuns::new(&first, &second, Allowance { factor, floor }).into())
}

/// Compares two contenders of one run, round by round.
fn paired_rounds(pair: &Pair<'_, '_>, metric: Metric, a: &Case, b: &Case) -> Option<Contrasts> {
    let ((one, label_a, load_a), (two, label_b, load_b)) = (pair.a, pair.b);
    if percentile(metric).is_some() {
        let (first, second) = (one.side.trials(label_a, load_a), two.side.trials(label_b, load_b));
        let both = merged::Pair { first, second, direct: one.side.trials(DIRECT, load_a) };
        let value = |case, subject: &Subject<'_>| Some(in_run(metric, case, subject.side)?.estimate);
        let floor = pair.floor(metric, value(a, one)?, value(b, two)?);
        return Some(Contrasts::of_one_run(both.difference(metric)?, both.change(metric), floor));
    }
    let rounds = pairs((one.side, label_a, load_a), (two.side, label_b, load_b), metric);
    let (first, second): (Vec<f64>, Vec<f64>) = rounds.iter().copied().unzip();
    let floor = pair.floor(metric, mean(&first)?, mean(&second)?);
    Some(Contrasts::of_one_run(paired(&rounds)?, change(&first, &second, true), floor))
}

/// Judges a row. Its interval gets the confidence that accounts for all rows, and this interval alone decides
/// the verdict. A change whose interval contradicts the verdict is left out.
pub(super) fn judge(row: &mut Row, test: &Test, adjusted: Adjusted) {
    let alone = row.difference;
    let (error, degrees) = test.error;
    let of_chance = error * student_within(adjusted.confidence, degrees);
    let mut half = test.allowance + of_chance;
    if alone.estimate.abs() <= row.floor {
        half = half.max(row.floor);
    }
    let (low, high) = (Some(alone.estimate - half), Some(alone.estimate + half));
    row.difference = Contrast { low, high, ..alone };
    row.adjusted_p_value = Some(adjusted.p_value);
    row.verdict = match (row.difference.excludes(0.0), (alone.estimate > 0.0) == row.metric.grows_worse()) {
        (false, _) => Verdict::NotDistinguishable,
        (true, true) => Verdict::Worse,
        (true, false) => Verdict::Better,
    };
    let first = row.a.map(|a| a.estimate).filter(|first| *first > 0.0);
    let more = |first: f64| (half - of_chance) / first;
    let change = row.change.zip(first).map(|(one, first)| widened(one, &alone, of_chance, more(first)));
    row.change = change.filter(|change| {
        let is_called = row.difference.excludes(0.0);
        let agrees = change.excludes(0.0) == is_called;
        change.interval().is_none() || (agrees && (!is_called || change.estimate * alone.estimate > 0.0))
    });
}

/// Widens the interval of a change in the same proportion as the interval of the difference. `of_chance` is
/// the part of the new half-width of the difference that chance explains. `more` is the rest, as a share of
/// the first figure.
fn widened(change: Estimate, difference: &Contrast, of_chance: f64, more: f64) -> Estimate {
    let alone = difference.high.map_or(0.0, |high| high - difference.estimate);
    let times = if alone > 0.0 { of_chance / alone } else { 1.0 };
    let wider = |end: f64| change.estimate + (end - change.estimate) * times;
    Estimate {
        low: change.low.map(|low| wider(low) - more),
        high: change.high.map(|high| wider(high) + more),
        ..change
    }
}

/// True for the metrics that decide the overall verdict: CPU per request for all loads, the throughput ratio
/// in closed loops, and added time in open loops. There are only a few such metrics, because the p-values
/// must be adjusted for their number. Added time in a saturated closed loop is not among them, because it
/// only mirrors lost throughput.
fn is_headline(metric: Metric, load: &Load) -> bool {
    match metric {
        Metric::CpuUsPerRequest => true,
        Metric::ThroughputRatio => !load.is_open(),
        Metric::AddedP50 | Metric::AddedP99 => load.is_open(),
        _ => false,
    }
}

fn unit(metric: Metric) -> &'static str {
    match metric.quantity() {
        Quantity::Share => "share",
        Quantity::Ratio | Quantity::PerRequest => "ratio",
        Quantity::Time | Quantity::Rate | Quantity::Bytes => metric.unit(),
    }
}
