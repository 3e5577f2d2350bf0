//! Finds out what limited a capacity: the gateway itself, or something that also limits direct.

use super::judge::SearchTrial;
use crate::thresholds::BUSY;
use hoptax_plan::Search;
use hoptax_record::report::{Capacity, Limit};
use hoptax_stats::Estimate;
use std::collections::BTreeMap;

/// Number of trials to examine just above the capacity. It is odd, so that the median is a single trial.
const EXAMINED: usize = 3;

/// Limit for busy connections ÷ all connections. From this share on, all connections count as busy.
const ALL: f64 = 0.9;

/// Limit for the ratio of two service times. The service time in trials above the capacity is divided by the
/// service time in trials in which the objective held. Up to this ratio, the service time counts as
/// unchanged. If requests wait in a queue, the service time becomes several times longer.
const SAME: f64 = 1.5;

/// Uses only the contender's own trials. Checks whether the limit was the range of the search, the generator,
/// or the number of connections.
pub(super) fn from_own_trials(
    capacity: &mut Capacity,
    trials: &[Option<SearchTrial<'_>>],
    search: &Search,
    everywhere: bool,
) {
    if capacity.rate.is_none() && capacity.below.is_none() {
        return;
    }
    let edge = capacity.rate.as_ref().and_then(|rate| rate.low).unwrap_or(search.from);
    let judged: Vec<(bool, &SearchTrial<'_>)> = capacity
        .steps
        .iter()
        .zip(trials)
        .filter_map(|(step, trial)| Some((step.held?, trial.as_ref()?)))
        .collect();
    let rate = |trial: &SearchTrial<'_>| trial.record.step.map_or(0.0, |step| step.rate);
    let mut above: Vec<&SearchTrial<'_>> =
        judged.iter().filter(|(held, trial)| !held && rate(trial) >= edge).map(|(_, trial)| *trial).collect();
    above.sort_by(|one, other| rate(one).total_cmp(&rate(other)));
    above.truncate(EXAMINED);
    let held: Vec<&SearchTrial<'_>> =
        judged.iter().filter(|(held, _)| *held).map(|(_, trial)| *trial).collect();
    capacity.broken = frequent(capacity, above.iter().map(|trial| rate(trial)).fold(0.0, f64::max), edge);
    capacity.limited_by = if everywhere {
        Some(Limit::Range)
    } else if middle(above.iter().map(|trial| utilisation(trial))).is_some_and(|busy| busy > BUSY) {
        Some(Limit::Generator)
    } else if capacity.load.is_open() && all_busy(&above, &held, capacity.load.streams) {
        Some(Limit::Connections)
    } else {
        None
    };
    capacity.at_least = capacity.limited_by.is_some();
}

/// The terms that failed at rates from `edge` to `highest`, most frequent first.
fn frequent(capacity: &Capacity, highest: f64, edge: f64) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for step in capacity.steps.iter().filter(|step| step.rate >= edge && step.rate <= highest) {
        for term in &step.broken {
            *counts.entry(term).or_default() += 1;
        }
    }
    let mut terms: Vec<(&str, usize)> = counts.into_iter().collect();
    terms.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    terms.into_iter().map(|(term, _)| term.to_owned()).collect()
}

fn utilisation(trial: &SearchTrial<'_>) -> f64 {
    trial.load.cpu.busiest_worker_ns as f64 / trial.load.measured_ns.max(1) as f64
}

/// True if all `streams` of all connections were busy in most of the trials above the capacity, although the
/// service time was about the same as in trials in which the objective held.
fn all_busy(above: &[&SearchTrial<'_>], held: &[&SearchTrial<'_>], streams: u32) -> bool {
    let service =
        |trial: &SearchTrial<'_>| Some(trial.load.histograms.service_time.decode().ok()?.mean() / 1e9);
    let usual = middle(held.iter().filter_map(|trial| service(trial)));
    let outcomes = above.iter().filter_map(|trial| {
        let time = service(trial)?;
        let throughput = trial.load.completed_in_time as f64 / (trial.load.measured_ns as f64 / 1e9);
        // The server may allow fewer streams.
        let allowed = trial.load.http2.and_then(|http2| http2.stream_limit).unwrap_or(u32::MAX);
        let concurrency = trial.load.connections.asked as f64 * f64::from(streams.min(allowed).max(1));
        Some(throughput * time >= ALL * concurrency && time <= SAME * usual?)
    });
    let outcomes: Vec<bool> = outcomes.collect();
    let busy = outcomes.iter().filter(|busy| **busy).count();
    !outcomes.is_empty() && 2 * busy > outcomes.len()
}

/// The median. For an even number of values, the larger of the two middle values.
fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Compares each gateway's capacity with direct's capacity for the same objective. The gateway was the limit
/// only if direct's whole interval is above the gateway's interval.
pub(super) fn compare_with_direct(capacities: &mut [Capacity]) {
    for direct in capacities.iter_mut().filter(|one| one.is_direct()) {
        if direct.limited_by.is_none() && (direct.rate.is_some() || direct.below.is_some()) {
            direct.limited_by = Some(Limit::Upstream);
        }
    }
    let directs: Vec<Capacity> = capacities.iter().filter(|one| one.is_direct()).cloned().collect();
    for one in capacities.iter_mut().filter(|one| !one.is_direct()) {
        let Some(direct) = directs.iter().find(|direct| direct.slo == one.slo) else { continue };
        if one.rate.is_none() && one.below.is_none() {
            continue;
        }
        one.of_direct = ratio(one.rate.as_ref(), direct.rate.as_ref());
        let below_direct = match (one.rate.as_ref(), direct.rate.as_ref().and_then(|rate| rate.low)) {
            (Some(rate), Some(low)) => rate.high.is_some_and(|high| high < low),
            (None, Some(low)) => one.below.is_some_and(|below| below < low),
            (_, None) => false,
        };
        match (one.limited_by, below_direct) {
            (Some(_), false) => {}
            // Keeps the limit that the gateway's own trials showed, because direct reached this limit only at
            // a higher rate.
            (Some(Limit::Generator | Limit::Connections), true) => {}
            (_, true) => {
                one.limited_by = Some(Limit::Gateway);
                one.at_least = false;
            }
            (None, false) => {
                one.limited_by = direct.limited_by.or(Some(Limit::Upstream));
                one.at_least = true;
            }
        }
    }
}

/// The ratio of two rates with its interval. Uses the method of Zou and Donner, "Construction of confidence
/// limits about effect measures: a general approach" (2008), on logarithms. Absent if the interval of a rate
/// has no upper end.
fn ratio(rate: Option<&Estimate>, direct: Option<&Estimate>) -> Option<Estimate> {
    let (rate, direct) = (rate?, direct?);
    let (low, high) = rate.interval()?;
    let (direct_low, direct_high) = direct.interval()?;
    let ratio = rate.estimate / direct.estimate;
    let apart = |one: f64, other: f64| (one / other).ln().powi(2);
    let down = (apart(rate.estimate, low) + apart(direct_high, direct.estimate)).sqrt();
    let up = (apart(high, rate.estimate) + apart(direct.estimate, direct_low)).sqrt();
    Some(Estimate {
        estimate: ratio,
        low: Some(ratio * (-down).exp()),
        high: Some(ratio * up.exp()),
        trials: rate.trials.min(direct.trials),
    })
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "the middle one of the {} failed trials" word(EXAMINED);
    METHODOLOGY "stayed within {} times the usual" number(SAME);
}
