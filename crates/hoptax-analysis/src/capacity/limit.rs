//! What was the limit: the gateway, or something that direct runs into as well.

use super::Capacity;
use super::judge::Look;
use hoptax_plan::Search;
use hoptax_record::report::Limit;
use hoptax_stats::Estimate;
use std::collections::BTreeMap;

/// As in the finding `generator-saturated`: beyond it a worker cannot send when it should.
const BUSY: f64 = 0.85;

/// Trials just above the capacity that are looked at: an odd number, so that the middle one decides.
const LOOKED_AT: usize = 3;

/// Busy connections over all connections, from which on there was none to be had.
const ALL: f64 = 0.9;

/// Service time over that of trials that held, up to which it is the same: queues make it grow severalfold.
const SAME: f64 = 1.5;

/// What the contender's own trials say: the search's range, the generator, or the connections.
pub(super) fn of_itself(
    capacity: &mut Capacity,
    looks: &[Option<Look<'_>>],
    search: &Search,
    everywhere: bool,
) {
    if capacity.rate.is_none() && capacity.below.is_none() {
        return;
    }
    let edge = capacity.rate.as_ref().and_then(|rate| rate.low).unwrap_or(search.from);
    let judged: Vec<(bool, &Look<'_>)> = capacity
        .steps
        .iter()
        .zip(looks)
        .filter_map(|(step, look)| Some((step.held?, look.as_ref()?)))
        .collect();
    let rate = |look: &Look<'_>| look.record.step.map_or(0.0, |step| step.rate);
    let mut above: Vec<&Look<'_>> =
        judged.iter().filter(|(held, look)| !held && rate(look) >= edge).map(|(_, look)| *look).collect();
    above.sort_by(|one, other| rate(one).total_cmp(&rate(other)));
    above.truncate(LOOKED_AT);
    let held: Vec<&Look<'_>> = judged.iter().filter(|(held, _)| *held).map(|(_, look)| *look).collect();
    capacity.broken = frequent(capacity, above.iter().map(|look| rate(look)).fold(0.0, f64::max), edge);
    capacity.limited_by = if everywhere {
        Some(Limit::Range)
    } else if middle(above.iter().map(|look| utilisation(look))).is_some_and(|busy| busy > BUSY) {
        Some(Limit::Generator)
    } else if all_busy(&above, &held) {
        Some(Limit::Connections)
    } else {
        None
    };
    capacity.at_least = capacity.limited_by.is_some();
}

/// What did not hold between two rates, the most frequent first.
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

fn utilisation(look: &Look<'_>) -> f64 {
    look.load.cpu.busiest_worker_ns as f64 / look.load.measured_ns.max(1) as f64
}

/// Whether, above the capacity, every connection was busy with requests that took no longer than those at rates held.
fn all_busy(above: &[&Look<'_>], held: &[&Look<'_>]) -> bool {
    let service = |look: &Look<'_>| Some(look.load.histograms.service_time.decode().ok()?.mean() / 1e9);
    let usual = middle(held.iter().filter_map(|look| service(look)));
    let outcomes = above.iter().filter_map(|look| {
        let time = service(look)?;
        let throughput = look.load.completed_in_time as f64 / (look.load.measured_ns as f64 / 1e9);
        let connections = look.load.connections.asked as f64;
        Some(throughput * time >= ALL * connections && time <= SAME * usual?)
    });
    let outcomes: Vec<bool> = outcomes.collect();
    let busy = outcomes.iter().filter(|busy| **busy).count();
    !outcomes.is_empty() && 2 * busy > outcomes.len()
}

/// The upper one of the two in the middle, of an even number.
fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Sets each gateway's capacity against direct's under the same objective: where direct's interval does not lie above the
/// gateway's, the gateway was not seen to be the limit.
pub(super) fn against_direct(capacities: &mut [Capacity]) {
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
            // What it ran into is its own: direct ran into it later.
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

/// The ratio of two rates, with the interval that those of both give: Zou and Donner, "Construction of confidence limits
/// about effect measures: a general approach" (2008), on the logarithms. Absent where either has no upper end.
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
