//! The parts of a run's analysis that the index stores: the verdict, the answer, and the figures for trends.

use super::Bound;
use hoptax_analysis::{Capacity, Side, Starts, analyse, measured};
use hoptax_plan::Metric;
use hoptax_record::dir::{DirError, Run};
use hoptax_report::{Belief, Model};
use hoptax_stats::Estimate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The parts of an analysis that the index stores.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Analysed {
    /// `believable`, `warnings` or `void`; absent if nothing was measured.
    pub(super) verdict: Option<&'static str>,
    /// True if a budget was breached or could not be judged.
    pub(super) over_budget: bool,
    /// The answer of the report. If the report has no answer and the run has only one gateway, this is the
    /// summary of that gateway.
    pub(super) answer: Option<String>,
    /// Figures of each case that was measured.
    pub(super) cases: Vec<CaseFigures>,
    /// Descriptions of lines in the run's records that cannot be read.
    pub(super) unreadable: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct CaseFigures {
    /// `direct` or the gateway's label.
    pub(super) gateway: String,
    /// The load point in words.
    pub(super) load: String,
    /// Figures, by the name of the metric.
    pub(super) figures: BTreeMap<String, Figure>,
}

/// A value and its interval, as stored in the index.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Figure {
    #[serde(rename = "e")]
    pub(super) estimate: f64,
    /// The 95 % interval.
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub(super) interval: Option<(f64, f64)>,
    /// Present if `estimate` is only a bound.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub(super) bound: Option<Bound>,
}

impl Analysed {
    /// Reads and analyses a run directory. Fails if the directory cannot be read.
    pub(super) fn read(path: &Path) -> Result<Self, DirError> {
        Ok(Self::of(&Run::read(path)?))
    }

    fn of(run: &Run) -> Self {
        let analysis = analyse(&run.record, &run.trials, &run.starts, &run.tails);
        let side = Side::read(&run.record, &run.trials);
        let of_case = |case: &hoptax_analysis::Case| {
            let figures = Metric::ALL.into_iter().filter_map(|metric| {
                Some((metric.name().to_owned(), Figure::of(&measured(metric, case, &side)?)?))
            });
            CaseFigures {
                gateway: case.gateway.clone(),
                load: case.load.label.clone(),
                figures: figures.collect(),
            }
        };
        let measured_cases = analysis.cases.iter().filter(|case| case.trials > 0);
        let load = analysis.noise_floor.first().map_or("", |floor| &*floor.load.label);
        let of_starts = |starts: &Starts| CaseFigures {
            gateway: starts.figures.contender.clone(),
            load: load.to_owned(),
            figures: Metric::STARTS.into_iter().filter_map(|metric| of_start(starts, metric)).collect(),
        };
        let starts = analysis.starts.iter().filter(|one| one.is_of_process()).map(of_starts);
        // Numbers of connections have no trend, because no metric has their unit.
        let of_rates = analysis.capacity.iter().filter(|one| one.load.is_open());
        let searches = of_rates.map(of_capacity);
        let cases = measured_cases.map(of_case).chain(starts).chain(searches);
        let cases = cases.filter(|case| !case.figures.is_empty()).collect();
        let model = Model::new(&run.record, run.trials.len(), analysis, &run.unreadable);
        Self {
            verdict: model.measured_anything().then(|| verdict(model.belief())),
            over_budget: model.over_budget(),
            answer: answer(&model),
            cases,
            unreadable: run.unreadable.clone(),
        }
    }
}

/// The name of a metric of starts, and its figure. `None` if the metric was not measured. If a gateway had
/// not settled in most starts, only a bound is known.
fn of_start(starts: &Starts, metric: Metric) -> Option<(String, Figure)> {
    let is_bound = starts.measured(metric)?.estimate.is_none();
    let figure = Figure::of(&starts.estimate(metric)?)?;
    Some((metric.name().to_owned(), Figure { bound: is_bound.then_some(Bound::AtLeast), ..figure }))
}

/// The figures of a search. The capacity is a throughput, and its ratio to direct's capacity is a throughput
/// ratio. Each objective has figures of its own, so the load point also names the objective.
fn of_capacity(one: &Capacity) -> CaseFigures {
    let rate = match (&one.rate, one.below) {
        (Some(rate), _) => {
            Figure::of(rate).map(|figure| Figure { bound: one.at_least.then_some(Bound::AtLeast), ..figure })
        }
        (None, Some(below)) => Some(Figure { estimate: below, interval: None, bound: Some(Bound::AtMost) }),
        (None, None) => None,
    };
    let ratio = one.of_direct.as_ref().filter(|_| !one.at_least).and_then(Figure::of);
    let figures = [(Metric::Throughput, rate), (Metric::ThroughputRatio, ratio)];
    CaseFigures {
        gateway: one.gateway.clone(),
        load: format!("{}, capacity at {}", one.load.label, one.slo),
        figures: figures
            .into_iter()
            .filter_map(|(metric, figure)| Some((metric.name().to_owned(), figure?)))
            .collect(),
    }
}

impl Figure {
    fn of(estimate: &Estimate) -> Option<Self> {
        let is_finite = |(low, high): &(f64, f64)| low.is_finite() && high.is_finite();
        let interval = estimate.interval().filter(is_finite);
        let figure = Self { estimate: estimate.estimate, interval, bound: None };
        estimate.estimate.is_finite().then_some(figure)
    }
}

fn answer(model: &Model) -> Option<String> {
    match (&model.answer, model.summary.as_slice()) {
        (Some(answer), _) => Some(answer.clone()),
        (None, [only]) => Some(only.sentence.clone()),
        (None, _) => None,
    }
}

fn verdict(belief: Belief) -> &'static str {
    match belief {
        Belief::Believable => "believable",
        Belief::Warnings => "warnings",
        Belief::Void => "void",
    }
}
