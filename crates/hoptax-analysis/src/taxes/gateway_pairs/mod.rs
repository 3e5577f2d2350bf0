//! Compares every two gateways of a load point with each other. Gateways with different features are compared
//! only if both compete for the answer. The price list compares a gateway with its own variants.
//!
//! The intervals of two taxes say little about the difference of the taxes: both contain the scatter of
//! direct, and both contain what disturbed a whole round. Here each draw takes whole rounds with the trials
//! of both gateways, so direct's scatter and such disturbances cancel. Direct's percentile cancels in a
//! difference of added times, so only a throughput ratio needs rounds with trials of direct.
//!
//! Of many pairs, some differ by chance. The p-values are therefore adjusted with Holm's method. The family
//! of an adjustment is all pairs of one metric at one load point. Gateways that compete for the answer are a
//! family of their own, so that the built-in hops and the variants with features do not make the answer less
//! certain. The interval of a pair has the confidence that Holm's method requires for this pair, and the
//! interval alone decides the verdict. So the two never contradict each other.

use crate::taxes::another_run::{Scatter, Scatters, widen_between};
use crate::taxes::difference::LEAST_CHANGE;
use crate::trials::latency_metric::metric_of_trials;
use crate::trials::source::Source;
use crate::trials::trial::Trial;
use hoptax_plan::{Feature, Gateway as Planned, Metric};
use hoptax_record::report::{Case, GatewayPair, Load, Price};
use hoptax_record::{DIRECT, RunRecord};
use hoptax_stats::{Adjusted, Contrast, Drawn, Draws, Estimate, Units, holm, share, with_confidence};
use std::collections::{BTreeMap, BTreeSet};

/// The metrics in which gateways are compared.
const METRICS: [Metric; 6] = [
    Metric::AddedP50,
    Metric::AddedP90,
    Metric::AddedP95,
    Metric::AddedP99,
    Metric::ThroughputRatio,
    Metric::CpuUsPerRequest,
];

/// The metrics in which gateways are compared if a load point has more than [`MOST_IN_FULL`] gateways.
const METRICS_OF_MANY: [Metric; 2] = [Metric::AddedP50, Metric::CpuUsPerRequest];

/// If a load point has more gateways than this, only those that compete for the answer are compared, and only
/// in two metrics. 30 gateways have 435 pairs, which nobody reads in six metrics.
const MOST_IN_FULL: usize = 30;

/// Labels of the gateways that compete for the answer, in the plan's order. Built-in hops are references. If
/// the plan contains a gateway both with and without features, only the gateway without features competes;
/// the price list shows the difference.
pub fn competitors<'r>(run: &'r RunRecord, prices: &[Price]) -> Vec<&'r str> {
    let is_priced = |label: &str| prices.iter().any(|price| price.gateway == label);
    let labels = run.contenders.iter().filter(|one| !one.kind.starts_with("hop-")).map(|one| &*one.label);
    labels.filter(|label| *label != DIRECT && !is_priced(label)).collect()
}

/// All pairs of gateways, sorted by load point, then in the plan's order of the gateways, then by metric.
/// `cases` must be sorted by load point.
pub(crate) fn pairs(
    run: &RunRecord,
    prices: &[Price],
    scatters: &Scatters<'_>,
    cases: &[(Case, Vec<Trial<'_>>)],
) -> Vec<GatewayPair> {
    let competitors = competitors(run, prices);
    let loads = cases.chunk_by(|one, other| one.0.load.index == other.0.load.index);
    loads.flat_map(|cases| at_load(run, &competitors, scatters, cases)).collect()
}

fn at_load(
    run: &RunRecord,
    competitors: &[&str],
    scatters: &Scatters<'_>,
    cases: &[(Case, Vec<Trial<'_>>)],
) -> Vec<GatewayPair> {
    let Some(((case, _), direct)) = cases.first().zip(cases.iter().find(|(case, _)| case.is_direct())) else {
        return Vec::new();
    };
    let measured = cases.iter().filter(|(case, trials)| !case.is_direct() && !trials.is_empty());
    let features = |label: &str| {
        let planned = run.plan.gateways.iter().find(|gateway| gateway.label == label);
        planned.map_or(&[][..], Planned::features)
    };
    let mut gateways: Vec<Gateway<'_, '_>> = measured
        .map(|(case, trials)| Gateway {
            label: &case.gateway,
            competes: competitors.contains(&case.gateway.as_str()),
            features: features(&case.gateway),
            scatter: scatters.of(&case.gateway),
            trials,
        })
        .collect();
    let mut metrics = &METRICS[..];
    if gateways.len() > MOST_IN_FULL {
        gateways.retain(|gateway| gateway.competes);
        metrics = &METRICS_OF_MANY;
    }
    let wanted = |first: usize, second: usize| gateways[first].is_compared_with(&gateways[second]);
    let compared = compare_all(&gateways, &wanted, &direct.1, metrics);
    judge(&case.load, &gateways, compared)
}

/// Compares each of these gateways with the one before it, at the load point of `cases`. Gateways that were
/// not measured are left out. The family of an adjustment is all these pairs in one metric.
pub(crate) fn successive(
    labels: &[&str],
    scatters: &Scatters<'_>,
    cases: &[(Case, Vec<Trial<'_>>)],
) -> Vec<GatewayPair> {
    let Some(((case, _), direct)) = cases.first().zip(cases.iter().find(|(case, _)| case.is_direct())) else {
        return Vec::new();
    };
    let gateway = |label: &&str| {
        let (case, trials) =
            cases.iter().find(|(case, trials)| case.gateway == *label && !trials.is_empty())?;
        let scatter = scatters.of(&case.gateway);
        Some(Gateway { label: &case.gateway, competes: true, features: &[], scatter, trials })
    };
    let gateways: Vec<Gateway<'_, '_>> = labels.iter().filter_map(gateway).collect();
    let compared = compare_all(&gateways, &|first, second| first + 1 == second, &direct.1, &METRICS);
    judge(&case.load, &gateways, compared)
}

/// Compares the wanted pairs in these metrics, in those of messages, and in the metric of the answer.
/// `wanted` receives the indices of two gateways.
fn compare_all(
    gateways: &[Gateway<'_, '_>],
    wanted: &dyn Fn(usize, usize) -> bool,
    direct: &[Trial<'_>],
    metrics: &[Metric],
) -> Vec<Compared> {
    let mut metrics = [metrics, &Metric::HEADLINES_OF_MESSAGES].concat();
    let answered = metric_of_trials(direct);
    if !metrics.contains(&answered) {
        metrics.push(answered);
    }
    // Percentiles of the same times are neighbours in the list of metrics. They are read from the same data.
    let same_data = metrics.chunk_by(|one, other| one.times().is_some() && one.times() == other.times());
    let mut compared: Vec<Compared> =
        same_data.flat_map(|metrics| compare(gateways, wanted, direct, metrics)).collect();
    compared.sort_by_key(|one| (one.pair, one.metric));
    compared
}

/// A gateway at a load point.
struct Gateway<'t, 'a> {
    label: &'t str,
    competes: bool,
    features: &'t [Feature],
    scatter: Scatter,
    trials: &'t [Trial<'a>],
}

impl Gateway<'_, '_> {
    fn is_compared_with(&self, other: &Self) -> bool {
        (self.competes && other.competes) || self.features == other.features
    }

    /// The rounds in which the gateway has data for the metric.
    fn rounds(&self, metric: Metric, direct: &[Trial<'_>]) -> BTreeSet<u32> {
        let has = |trial: &&Trial<'_>| match metric {
            Metric::ThroughputRatio => direct.iter().any(|one| one.round() == trial.round()),
            Metric::CpuUsPerRequest => trial.gateway_cpu_ns.is_some(),
            _ => metric.times().and_then(|times| trial.times(times)).is_some_and(|times| !times.is_empty()),
        };
        self.trials.iter().filter(has).map(Trial::round).collect()
    }
}

/// The difference of two gateways, before it is judged.
struct Compared {
    /// Indices of the two gateways.
    pair: [usize; 2],
    metric: Metric,
    /// The interval is that of this pair alone.
    difference: Estimate,
    /// Differences up to this size count as no difference.
    least: f64,
}

impl Compared {
    /// The difference with the interval that decides the verdict.
    fn judged(&self, confidence: f64) -> Estimate {
        let judged = with_confidence(&self.difference, confidence);
        if judged.estimate.abs() <= self.least { judged.at_least_half(self.least) } else { judged }
    }
}

/// Compares the wanted pairs in metrics that are computed from the same data.
fn compare(
    gateways: &[Gateway<'_, '_>],
    wanted: &dyn Fn(usize, usize) -> bool,
    direct: &[Trial<'_>],
    metrics: &[Metric],
) -> Vec<Compared> {
    let rounds: Vec<BTreeSet<u32>> =
        gateways.iter().map(|gateway| gateway.rounds(metrics[0], direct)).collect();
    let mut by_rounds: BTreeMap<Vec<u32>, Vec<[usize; 2]>> = BTreeMap::new();
    for second in 0..gateways.len() {
        for first in (0..second).filter(|first| wanted(*first, second)) {
            let both = rounds[first].intersection(&rounds[second]).copied().collect();
            by_rounds.entry(both).or_default().push([first, second]);
        }
    }
    by_rounds.remove(&Vec::new());
    let of = |(rounds, pairs): (Vec<u32>, Vec<[usize; 2]>)| {
        in_rounds(Units::new(rounds), &pairs, gateways, direct, metrics)
    };
    by_rounds.into_iter().flat_map(of).collect()
}

/// Compares these pairs in the same rounds. Each gateway's figures are computed once for all its pairs,
/// because most pairs of a run have the same rounds.
fn in_rounds(
    units: Units,
    pairs: &[[usize; 2]],
    gateways: &[Gateway<'_, '_>],
    direct: &[Trial<'_>],
    metrics: &[Metric],
) -> Vec<Compared> {
    let draws = Draws::of(units.count());
    let indices: BTreeSet<usize> = pairs.iter().flatten().copied().collect();
    let source = |index: usize| (index, Source::new(metrics[0], &units, gateways[index].trials));
    let sources: Vec<(usize, Source)> = indices.into_iter().map(source).collect();
    let of_direct = Source::new(metrics[0], &units, direct);
    let mut compared = Vec::new();
    for &metric in metrics {
        let of_direct = of_direct.reader(metric);
        let drawn = |source: &Source| {
            let reader = source.reader(metric)?;
            Drawn::new(&units, draws, |drawn| match metric {
                Metric::ThroughputRatio => share(reader.of(drawn)?, of_direct.as_ref()?.of(drawn)?),
                _ => reader.of(drawn),
            })
        };
        let figures: BTreeMap<usize, Drawn<'_>> =
            sources.iter().filter_map(|(index, source)| Some((*index, drawn(source)?))).collect();
        compared.extend(pairs.iter().filter_map(|pair| {
            let (first, second) = (figures.get(&pair[0])?, figures.get(&pair[1])?);
            let least = LEAST_CHANGE * first.whole().min(second.whole());
            let processes =
                [(first.whole(), gateways[pair[0]].scatter), (second.whole(), gateways[pair[1]].scatter)];
            let difference = widen_between(metric, second.minus(first), &processes);
            Some(Compared { pair: *pair, metric, difference, least })
        }));
    }
    compared
}

/// Decides which differences are distinguishable.
fn judge(load: &Load, gateways: &[Gateway<'_, '_>], compared: Vec<Compared>) -> Vec<GatewayPair> {
    let adjusted = adjusted(gateways, &compared);
    let pair = |(one, adjusted): (Compared, Option<Adjusted>)| {
        let [first, second] = one.pair.map(|index| &gateways[index]);
        let difference = adjusted.map_or(one.difference, |adjusted| one.judged(adjusted.confidence));
        GatewayPair {
            load: load.clone(),
            first: first.label.to_owned(),
            second: second.label.to_owned(),
            metric: one.metric,
            difference,
            alone: one.difference,
            p_value: adjusted.map(|adjusted| adjusted.p_value),
            rounds: difference.trials,
            distinguishable: difference.excludes(0.0),
            competes: first.competes && second.competes,
        }
    };
    compared.into_iter().zip(adjusted).map(pair).collect()
}

/// The adjustment of each pair within its family. `None` with one round. Each metric has two families: the
/// pairs in which both gateways compete for the answer, and all other pairs.
fn adjusted(gateways: &[Gateway<'_, '_>], compared: &[Compared]) -> Vec<Option<Adjusted>> {
    let mut families: BTreeMap<(Metric, bool), Vec<(usize, f64)>> = BTreeMap::new();
    for (index, one) in compared.iter().enumerate() {
        let competes = one.pair.iter().all(|gateway| gateways[*gateway].competes);
        let p_value = Contrast::of(&one.difference).p_value;
        families.entry((one.metric, competes)).or_default().extend(p_value.map(|p_value| (index, p_value)));
    }
    let mut adjusted = vec![None; compared.len()];
    for family in families.into_values() {
        let (indices, p_values): (Vec<usize>, Vec<f64>) = family.into_iter().unzip();
        for (index, one) in indices.into_iter().zip(holm(&p_values)) {
            adjusted[index] = Some(one);
        }
    }
    adjusted
}

#[cfg(test)]
mod tests;

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "With more than {} gateways only those that compete" number(MOST_IN_FULL);
}
