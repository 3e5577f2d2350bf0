//! Compares two cases, metric by metric.

use super::{Row, Subject, Verdict};
use crate::budget::{estimate, pairs};
use crate::merged;
use crate::metric::percentile;
use crate::side::{drift, measured, percentile_in_run};
use crate::starts::{Contrasted, of_process};
use crate::{Case, Load};
use hoptax_plan::{Metric, Quantity};
use hoptax_record::DIRECT;
use hoptax_stats::{Contrast, change, change_of_figures, independent, independent_figures, mean, paired};

/// The metrics that are compared for gateways. Taxes come first, because they remain comparable even if the machine
/// changed.
const OF_GATEWAY: [Metric; 13] = [
    Metric::AddedP50,
    Metric::AddedP90,
    Metric::AddedP99,
    Metric::ThroughputRatio,
    Metric::CpuUsPerRequest,
    Metric::ExtraUpstreamRequests,
    Metric::P50,
    Metric::P99,
    Metric::P999,
    Metric::Throughput,
    Metric::MemoryRssBytes,
    Metric::MemoryPssBytes,
    Metric::ErrorShare,
];

const OF_DIRECT: [Metric; 5] =
    [Metric::P50, Metric::P99, Metric::P999, Metric::Throughput, Metric::ErrorShare];

/// The metrics of starts that decide the overall verdict. The others are part of them.
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

pub(super) fn rows(pair: &Pair<'_, '_>) -> Vec<Row> {
    let (Some(a), Some(b)) = (pair.case_a(), pair.case_b()) else { return Vec::new() };
    let metrics: &[Metric] = if [pair.a.1, pair.b.1].contains(&DIRECT) { &OF_DIRECT } else { &OF_GATEWAY };
    metrics.iter().filter_map(|metric| row(pair, a, b, *metric)).collect()
}

fn row(pair: &Pair<'_, '_>, a: &Case, b: &Case, metric: Metric) -> Option<Row> {
    let ((one, label_a, _), (two, label_b, _)) = (pair.a, pair.b);
    let (figure_a, figure_b) = (measured(metric, a, one.side), measured(metric, b, two.side));
    let Contrasts { size, difference, change } = match percentile(metric) {
        Some(_) => of_percentile(pair, metric, a, b),
        None => of_rounds(pair, metric),
    }?;
    let floor = floor(pair, metric, size);
    Some(Row {
        load: a.load.clone(),
        label_a: label_a.to_string(),
        label_b: label_b.to_string(),
        metric,
        unit: unit(metric),
        headline: is_headline(metric, &a.load) && ![label_a, label_b].contains(&DIRECT),
        a: figure_a,
        b: figure_b,
        difference,
        change: change.map(|change| estimate(&change)),
        floor,
        adjusted_p_value: None,
        verdict: verdict(metric, &difference, floor),
    })
}

/// Compares the starts of two gateways. Reloads are not compared.
pub(super) fn rows_of_starts(pair: &Pair<'_, '_>, load: &Load) -> Vec<Row> {
    let ((one, label_a, _), (two, label_b, _)) = (pair.a, pair.b);
    let both = of_process(&one.analysis.starts, label_a).zip(of_process(&two.analysis.starts, label_b));
    let Some((a, b)) = both else { return Vec::new() };
    let row = |metric: Metric| {
        let Contrasted { size, difference, change } = Contrasted::new(a, b, metric)?;
        let floor = size * pair.least_change;
        Some(Row {
            load: load.clone(),
            label_a: label_a.to_string(),
            label_b: label_b.to_string(),
            metric,
            unit: unit(metric),
            headline: HEADLINES_OF_STARTS.contains(&metric),
            a: a.estimate(metric),
            b: b.estimate(metric),
            difference,
            change: change.map(|change| estimate(&change)),
            floor,
            adjusted_p_value: None,
            verdict: verdict(metric, &difference, floor),
        })
    };
    Metric::STARTS.into_iter().filter_map(row).collect()
}

struct Contrasts {
    /// Absolute value of the first case's figure.
    size: f64,
    /// Second figure − first figure.
    difference: Contrast,
    /// Second figure ÷ first figure − 1. Absent if the ratio is undefined.
    change: Option<Contrast>,
}

/// Compares a percentile, which comes from merged histograms.
fn of_percentile(pair: &Pair<'_, '_>, metric: Metric, a: &Case, b: &Case) -> Option<Contrasts> {
    let ((one, label_a, load_a), (two, label_b, load_b)) = (pair.a, pair.b);
    let a = percentile_in_run(metric, a, one.side)?;
    let (difference, change) = match pair.is_paired() {
        true => {
            let (first, second) = (one.side.trials(label_a, load_a), two.side.trials(label_b, load_b));
            let both = merged::Pair { first, second, direct: one.side.trials(DIRECT, load_a) };
            (both.difference(metric)?, both.change(metric))
        }
        false => {
            let b = percentile_in_run(metric, b, two.side)?;
            (independent_figures(&a, &b), change_of_figures(&a, &b))
        }
    };
    Some(Contrasts { size: a.estimate.abs(), difference, change })
}

/// Compares a metric that has one value per round.
fn of_rounds(pair: &Pair<'_, '_>, metric: Metric) -> Option<Contrasts> {
    let ((one, label_a, load_a), (two, label_b, load_b)) = (pair.a, pair.b);
    let (first, second): (Vec<f64>, Vec<f64>) = match pair.is_paired() {
        true => pairs((one.side, label_a, load_a), (two.side, label_b, load_b), metric).into_iter().unzip(),
        false => (one.side.values(metric, label_a, load_a), two.side.values(metric, label_b, load_b)),
    };
    let difference = match pair.is_paired() {
        true => paired(&first.iter().copied().zip(second.iter().copied()).collect::<Vec<_>>()),
        false => independent(&first, &second),
    }?;
    let change = change(&first, &second, pair.is_paired());
    Some(Contrasts { size: mean(&first).unwrap_or(0.0).abs(), difference, change })
}

/// The smallest difference to report. It is the largest of three values: the noise floor of the first case, the noise
/// floor of the second case, and the least change. For two runs, direct's relative change × the first figure is added
/// to this value, and what another placement of the CPUs can do. A gateway does not affect direct, so direct's change comes
/// from the machine.
fn floor(pair: &Pair<'_, '_>, metric: Metric, size: f64) -> f64 {
    let ((one, label_a, load_a), (two, label_b, load_b)) = (pair.a, pair.b);
    let noise = one.side.floor(metric, label_a, load_a).max(two.side.floor(metric, label_b, load_b));
    let of_direct = [label_a, label_b].contains(&DIRECT);
    let machine = match pair.is_paired() || of_direct {
        true => 0.0,
        false => drift(metric, (one.side, load_a), (two.side, load_b)),
    };
    size * machine + noise.max(size * pair.least_change)
}

fn verdict(metric: Metric, difference: &Contrast, floor: f64) -> Verdict {
    let surely_not_zero = difference.interval().is_some_and(|(low, high)| low > 0.0 || high < 0.0);
    if !surely_not_zero || difference.estimate.abs() <= floor {
        Verdict::NotDistinguishable
    } else if (difference.estimate > 0.0) == metric.grows_worse() {
        Verdict::Worse
    } else {
        Verdict::Better
    }
}

/// True for the metrics that decide the overall verdict: CPU per request for all loads, the throughput ratio in closed
/// loops, and added time in open loops. There are only a few such metrics, because the p-values must be adjusted for
/// their number. Added time in a saturated closed loop is not among them, because it only mirrors lost throughput.
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
