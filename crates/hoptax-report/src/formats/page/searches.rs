//! Capacity searches: all trials with their rates, and the results.

use crate::model::Model;
use hoptax_analysis::Capacity;
use hoptax_record::report::Estimate;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct Search<'m> {
    /// Index of the load point.
    load: usize,
    /// Label of the load point.
    label: &'m str,
    /// Objectives of the search, in the plan's order.
    objectives: Vec<&'m str>,
    /// The result of each contender under each objective.
    found: Vec<Found>,
    trials: Vec<Trials>,
}

#[derive(Debug, Serialize)]
struct Found {
    gateway: usize,
    objective: usize,
    rate: Option<Estimate>,
    at_least: bool,
}

#[derive(Debug, Serialize)]
struct Trials {
    gateway: usize,
    /// Rate, p50 (µs) and p99 (µs) of each trial, sorted by rate. A percentile is absent if so many requests
    /// had no response that it has no value: it exceeds any limit.
    points: Vec<(f64, Option<f64>, Option<f64>)>,
}

/// All searches, in the plan's order. `place` returns the index of a contender in the document.
pub(super) fn searches(model: &Model, place: impl Fn(&str) -> Option<usize>) -> Vec<Search<'_>> {
    let mut searches: Vec<Search<'_>> = Vec::new();
    for one in &model.capacity {
        let Some(gateway) = place(&one.gateway) else { continue };
        if searches.last().is_none_or(|search| search.load != one.load.index) {
            let (load, label) = (one.load.index, &*one.load.label);
            searches.push(Search {
                load,
                label,
                objectives: Vec::new(),
                found: Vec::new(),
                trials: Vec::new(),
            });
        }
        if let Some(search) = searches.last_mut() {
            search.add(gateway, one);
        }
    }
    searches
}

impl<'m> Search<'m> {
    /// Adds the result under one objective. The trials of a contender are the same for all objectives, so
    /// they are added only once.
    fn add(&mut self, gateway: usize, one: &'m Capacity) {
        let known = self.objectives.iter().position(|slo| *slo == one.slo);
        let objective = known.unwrap_or_else(|| {
            self.objectives.push(&one.slo);
            self.objectives.len() - 1
        });
        self.found.push(Found { gateway, objective, rate: one.rate, at_least: one.at_least });
        if self.trials.iter().all(|trials| trials.gateway != gateway) {
            self.trials.push(Trials { gateway, points: points(one) });
        }
    }
}

fn points(one: &Capacity) -> Vec<(f64, Option<f64>, Option<f64>)> {
    let of = |step: &hoptax_analysis::Step| (step.rate, step.p50_us, step.p99_us);
    let mut points: Vec<_> = one.steps.iter().filter(|step| step.held.is_some()).map(of).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}
