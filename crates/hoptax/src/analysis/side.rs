//! A run as one side of a comparison: the value that each metric has in each round.

use super::case::failures;
use super::load::Load;
use super::merged;
use super::noise::NoiseFloor;
use super::stats::{Statistic, mean, share};
use super::tax::TaxMetric;
use super::trial::Trial;
use super::{Case, good_trials, stats};
use crate::analysis::stats::Estimate;
use crate::plan::{LoadPoint, Metric};
use crate::record::{DIRECT, RunRecord, TrialRecord};
use std::collections::BTreeMap;

/// The good trials of a run by contender and load point.
#[derive(Debug)]
pub struct Side<'a> {
    /// The run.
    pub run: &'a RunRecord,
    /// By load point, then by contender as the run lists them.
    trials: Vec<Vec<Vec<Trial<'a>>>>,
    floors: Vec<NoiseFloor>,
}

impl<'a> Side<'a> {
    /// Reads the records of a run.
    pub fn read(run: &'a RunRecord, records: &'a [TrialRecord]) -> Self {
        let loads = Load::all(&run.load);
        let of_load = |load: &Load| -> Vec<Vec<Trial<'a>>> {
            run.contenders.iter().map(|one| good_trials(records, &one.label, load.index)).collect()
        };
        let trials: Vec<_> = loads.iter().map(of_load).collect();
        let mut side = Self { run, trials, floors: Vec::new() };
        side.floors = loads
            .into_iter()
            .map(|load| {
                let index = load.index;
                NoiseFloor::new(load, side.trials(DIRECT, index))
            })
            .collect();
        side
    }

    /// The good trials of a case; empty where there is none.
    pub fn trials(&self, label: &str, load: usize) -> &[Trial<'a>] {
        let contender = self.run.contenders.iter().position(|one| one.label == label);
        contender.and_then(|at| Some(self.trials.get(load)?.get(at)?.as_slice())).unwrap_or_default()
    }

    /// The value of a metric in each round of a case that tells it. Direct's two trials of a round count as one, their
    /// mean; a tax is taken against them.
    pub fn by_round(&self, metric: Metric, label: &str, load: usize) -> BTreeMap<u32, f64> {
        if label == DIRECT && TaxMetric::limited_by(metric).is_some() {
            return BTreeMap::new();
        }
        match against_direct(metric) {
            None => self.means(metric, label, load),
            Some((plain, set_against)) => {
                let direct = self.means(plain, DIRECT, load);
                let via = self.means(plain, label, load).into_iter();
                via.filter_map(|(round, via)| Some((round, set_against(via, *direct.get(&round)?)?)))
                    .collect()
            }
        }
    }

    /// The mean over each round's trials of a figure that a trial tells by itself.
    fn means(&self, metric: Metric, label: &str, load: usize) -> BTreeMap<u32, f64> {
        let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for trial in self.trials(label, load) {
            rounds.entry(trial.round()).or_default().extend(own(metric, trial));
        }
        rounds.into_iter().filter_map(|(round, values)| Some((round, mean(&values)?))).collect()
    }

    /// As [`Self::by_round`], without the rounds.
    pub fn values(&self, metric: Metric, label: &str, load: usize) -> Vec<f64> {
        self.by_round(metric, label, load).into_values().collect()
    }

    /// What direct shows as a difference from itself within a round, in the metric's own unit. Zero where direct cannot
    /// show it.
    pub fn floor(&self, metric: Metric, label: &str, load: usize) -> f64 {
        let Some(floors) = self.floors.get(load) else { return 0.0 };
        let of = |tax: TaxMetric| floors.get(tax).unwrap_or(0.0);
        match metric {
            Metric::P50 => of(TaxMetric::AddedP50),
            Metric::P90 => of(TaxMetric::AddedP90),
            Metric::P95 => of(TaxMetric::AddedP95),
            Metric::P99 => of(TaxMetric::AddedP99),
            Metric::Throughput => {
                of(TaxMetric::ThroughputRatio) * mean(&self.values(metric, label, load)).unwrap_or(0.0)
            }
            _ => TaxMetric::limited_by(metric).map_or(0.0, of),
        }
    }

    /// CPU time of generator and upstream per completed request of direct, µs, by round: what the same work costs on
    /// this machine at that time. Empty where the upstream was not watched.
    fn yardstick(&self, load: usize) -> Vec<f64> {
        let used = |trial: &Trial<'_>| {
            let upstream = trial.record.upstream.as_ref()?.cpu_ns;
            share((trial.load.cpu.used_ns + upstream) as f64 / 1e3, trial.load.completed_in_time as f64)
        };
        self.trials(DIRECT, load).iter().filter_map(used).collect()
    }
}

/// How a figure is set against direct's of the same round; absent where there is nothing to set it against.
type SetAgainst = fn(f64, f64) -> Option<f64>;

/// What a metric that is relative to direct is made from, and how.
fn against_direct(metric: Metric) -> Option<(Metric, SetAgainst)> {
    let difference: SetAgainst = |via, direct| Some(via - direct);
    match metric {
        Metric::AddedP50 => Some((Metric::P50, difference)),
        Metric::AddedP90 => Some((Metric::P90, difference)),
        Metric::AddedP95 => Some((Metric::P95, difference)),
        Metric::AddedP99 => Some((Metric::P99, difference)),
        Metric::ThroughputRatio => Some((Metric::Throughput, share)),
        _ => None,
    }
}

/// What a trial says by itself of a metric that is not relative to direct.
fn own(metric: Metric, trial: &Trial<'_>) -> Option<f64> {
    match metric {
        Metric::P50 => trial.response_time_us(Statistic::P50),
        Metric::P90 => trial.response_time_us(Statistic::P90),
        Metric::P95 => trial.response_time_us(Statistic::P95),
        Metric::P99 => trial.response_time_us(Statistic::P99),
        Metric::P999 => trial.response_time_us(Statistic::P999),
        Metric::Throughput => Some(trial.throughput()),
        Metric::CpuUsPerRequest => trial.gateway_us_per_request(),
        Metric::ExtraUpstreamRequests => trial.extra_upstream_requests(),
        Metric::ErrorShare => share(failures(&trial.load.counts) as f64, trial.load.counts.scheduled as f64),
        Metric::MemoryRssBytes => Some(trial.record.gateway.as_ref()?.rss_bytes_max as f64),
        Metric::MemoryPssBytes => Some(trial.record.gateway.as_ref()?.pss_bytes_max? as f64),
        _ => None,
    }
}

/// What a report tells of a metric of a case, with its interval.
pub fn measured(metric: Metric, case: &Case, side: &Side<'_>) -> Option<Estimate> {
    if let Some(tax) = TaxMetric::limited_by(metric) {
        return Some(case.tax.as_ref()?.get(tax)?.estimate);
    }
    let times = || case.response_time.as_ref();
    match metric {
        Metric::P50 => times()?.p50,
        Metric::P90 => times()?.p90,
        Metric::P95 => times()?.p95,
        Metric::P99 => times()?.p99,
        Metric::P999 => times()?.p999,
        Metric::Throughput => Some(case.throughput.as_ref()?.estimate),
        Metric::ErrorShare => {
            let count = |trial: &Trial<'_>| (failures(&trial.load.counts), trial.load.counts.scheduled);
            let trials = side.trials(&case.gateway, case.load.index);
            stats::of_share(&trials.iter().map(count).collect::<Vec<_>>())
        }
        _ => stats::of_mean(&side.values(metric, &case.gateway, case.load.index))
            .map(|estimate| estimate.at_least(0.0)),
    }
}

/// The load point of `of` that sends the same traffic as `point`, whatever its place in the list.
pub(super) fn counterpart(point: &LoadPoint, of: &RunRecord) -> Option<usize> {
    let same = |other: &LoadPoint| {
        LoadPoint { duration: point.duration, ..other.clone() } == *point
            && other.search.is_none()
            && point.search.is_none()
    };
    let exact = of.load.iter().position(|other| other == point && other.search.is_none());
    exact.or_else(|| of.load.iter().position(same))
}

/// How much direct changed from one run to another in the figure that `metric` is made from, as a share: what the
/// machine changed by, not the gateway. Zero for what does not hang on the machine's speed, and where it cannot be told.
pub(super) fn drift(metric: Metric, first: (&Side<'_>, usize), second: (&Side<'_>, usize)) -> f64 {
    let plain = match metric {
        Metric::AddedP50 | Metric::P50 => Some(Metric::P50),
        Metric::AddedP90 | Metric::P90 => Some(Metric::P90),
        Metric::AddedP95 | Metric::P95 => Some(Metric::P95),
        Metric::AddedP99 | Metric::P99 => Some(Metric::P99),
        Metric::P999 | Metric::Throughput => Some(metric),
        _ => None,
    };
    let of = |(side, load): (&Side<'_>, usize)| match (plain, metric) {
        (Some(plain), _) => match merged::percentile(plain) {
            Some(statistic) => merged::of_all(side.trials(DIRECT, load), statistic),
            None => mean(&side.values(plain, DIRECT, load)),
        },
        (None, Metric::CpuUsPerRequest) => mean(&side.yardstick(load)),
        _ => None,
    };
    match (of(first), of(second)) {
        (Some(first), Some(second)) if first > 0.0 => (second / first - 1.0).abs(),
        _ => 0.0,
    }
}
