//! A run as one side of a comparison: the value of each metric in each round.

use crate::figures::latency::of_histograms;
use crate::figures::throughput::throughput;
use crate::taxes::another_run::{Scatter, Scatters};
use crate::taxes::noise::noise_floor;
use crate::taxes::per_stream;
use crate::taxes::processes::{Processes, processes};
use crate::trials::counts::failures;
use crate::trials::metric::{OF_CPU, is_time, of_trial, percentile};
use crate::trials::trial::{Trial, good_trials};
use crate::trials::{measuring_time, merged, warm_ups};
use hoptax_plan::{LoadPoint, Metric};
use hoptax_record::report::{Case, Load, NoiseFloor, WarmUpFigures};
use hoptax_record::{DIRECT, Placement, RunRecord, TrialRecord, are_apart, placements};
use hoptax_stats::{Estimate, RunFigure, mean, of_mean, of_share, share};
use std::collections::BTreeMap;

/// The valid trials of a run, by contender and load point.
#[derive(Debug)]
pub struct Side<'a> {
    /// The run.
    pub run: &'a RunRecord,
    /// Trials by load point, then by contender in the run's order.
    trials: Vec<Vec<Vec<Trial<'a>>>>,
    floors: Vec<NoiseFloor>,
    /// How the CPUs of the roles were placed.
    pub(super) placements: Vec<Placement>,
    /// From the start of the first trial to the end of the last, s. Absent if nothing was measured.
    pub(super) measured_s: Option<f64>,
    warm_ups: Vec<WarmUpFigures>,
    processes: BTreeMap<String, Processes>,
}

impl<'a> Side<'a> {
    /// Reads the records of a run.
    pub fn read(run: &'a RunRecord, records: &'a [TrialRecord]) -> Self {
        let loads = Load::all(&run.load);
        let of_load = |load: &Load| -> Vec<Vec<Trial<'a>>> {
            run.contenders.iter().map(|one| good_trials(records, &one.label, load.index)).collect()
        };
        let trials: Vec<_> = loads.iter().map(of_load).collect();
        let mut side = Self {
            run,
            trials,
            floors: Vec::new(),
            placements: placements(records),
            measured_s: measuring_time::seconds(records),
            warm_ups: warm_ups::figures(run, records),
            processes: BTreeMap::new(),
        };
        side.processes = processes(run, |label, load| side.trials(label, load));
        side.floors = loads
            .into_iter()
            .map(|load| {
                let index = load.index;
                noise_floor(load, side.trials(DIRECT, index))
            })
            .collect();
        side
    }

    /// The valid trials of a case.
    pub fn trials(&self, label: &str, load: usize) -> &[Trial<'a>] {
        let contender = self.run.contenders.iter().position(|one| one.label == label);
        contender.and_then(|at| Some(self.trials.get(load)?.get(at)?.as_slice())).unwrap_or_default()
    }

    /// How the figures of the contenders scatter from run to run.
    pub(super) fn scatters(&self) -> Scatters<'_> {
        Scatters::new(self.run, &self.warm_ups, &self.processes)
    }

    /// How the figures of a contender scatter from run to run.
    pub(super) fn scatter(&self, label: &str) -> Scatter {
        self.scatters().of(label)
    }

    /// The figure of a case for a comparison with another run.
    pub(super) fn run_figure(&self, metric: Metric, case: &Case) -> Option<RunFigure> {
        let share = match metric {
            // In an open loop, the plan decides the throughput.
            Metric::Throughput | Metric::ThroughputRatio if case.load.is_open() => 0.0,
            _ => self.scatter(&case.gateway).between_runs(metric),
        };
        Some(RunFigure::new(&in_run(metric, case, self)?, share))
    }

    /// The value of a metric in each round that has a value. For direct, the value of a round is the mean of
    /// both direct trials. Taxes are relative to this mean.
    pub fn by_round(&self, metric: Metric, label: &str, load: usize) -> BTreeMap<u32, f64> {
        if label == DIRECT && metric.is_tax() {
            return BTreeMap::new();
        }
        if metric == Metric::BytesPerStream {
            return per_stream::by_round(&self.run.load, load, |load| self.trials(label, load));
        }
        let own = self.means(metric, label, load);
        if metric.plain().is_none() && metric != Metric::ExtraTokensPerStream {
            return own;
        }
        let direct = self.means(metric, DIRECT, load);
        let against_direct = |via: f64, direct: f64| match metric {
            Metric::ThroughputRatio => share(via, direct),
            _ => Some(via - direct),
        };
        own.into_iter()
            .filter_map(|(round, via)| Some((round, against_direct(via, *direct.get(&round)?)?)))
            .collect()
    }

    /// For each round, the mean of the metric over the trials of the round.
    fn means(&self, metric: Metric, label: &str, load: usize) -> BTreeMap<u32, f64> {
        let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for trial in self.trials(label, load) {
            rounds.entry(trial.round()).or_default().extend(of_trial(metric, trial));
        }
        rounds.into_iter().filter_map(|(round, values)| Some((round, mean(&values)?))).collect()
    }

    /// Like [`Self::by_round`], but returns only the values.
    pub fn values(&self, metric: Metric, label: &str, load: usize) -> Vec<f64> {
        self.by_round(metric, label, load).into_values().collect()
    }

    /// The noise floor of a metric, in the metric's own unit. Zero if the noise floor was not measured, for
    /// example because direct does not have this metric.
    pub fn floor(&self, metric: Metric, label: &str, load: usize) -> f64 {
        let Some(floors) = self.floors.get(load) else { return 0.0 };
        let of = |tax| floors.get(tax).unwrap_or(0.0);
        let mut taxes = Metric::TAXES.into_iter().chain(Metric::further());
        match taxes.find(|tax| tax.plain() == Some(metric)) {
            Some(Metric::ThroughputRatio) => {
                of(Metric::ThroughputRatio) * mean(&self.values(metric, label, load)).unwrap_or(0.0)
            }
            Some(tax) => of(tax),
            None => of(metric),
        }
    }

    /// For each round, the CPU time of generator and upstream per completed request of direct, µs. It shows
    /// how much CPU time the same work needs on this machine at that time. Empty if the upstream's CPU time
    /// was not recorded.
    fn yardstick(&self, load: usize) -> Vec<f64> {
        let used = |trial: &Trial<'_>| {
            let upstream = trial.record.upstream.as_ref()?.cpu_ns;
            share((trial.load.cpu.used_ns + upstream) as f64 / 1e3, trial.load.completed_in_time as f64)
        };
        self.trials(DIRECT, load).iter().filter_map(used).collect()
    }
}

/// The figure of `metric` for `case` with the interval that the rounds of its run give, without the scatter
/// of separate runs.
pub(super) fn in_run(metric: Metric, case: &Case, side: &Side<'_>) -> Option<Estimate> {
    let trials = side.trials(&case.gateway, case.load.index);
    if metric.is_tax() {
        Some(case.tax.as_ref()?.get(metric)?.in_run)
    } else if let Some((times, statistic)) = metric.times().zip(percentile(metric)) {
        let held = trials.iter().filter_map(|trial| Some((trial.round(), trial.times(times)?)));
        of_histograms(&held.collect::<Vec<_>>()).get(statistic).copied()
    } else if metric == Metric::Throughput {
        throughput(trials).map(|throughput| throughput.estimate)
    } else {
        measured(metric, case, side)
    }
}

/// The figure of `metric` for `case`, with its interval, as in the report.
pub fn measured(metric: Metric, case: &Case, side: &Side<'_>) -> Option<Estimate> {
    if metric.is_tax() {
        return Some(case.tax.as_ref()?.get(metric)?.estimate);
    }
    if let Some((times, statistic)) = metric.times().zip(percentile(metric)) {
        return case.times(times)?.get(statistic).copied();
    }
    match metric {
        Metric::Throughput => Some(case.throughput.as_ref()?.estimate),
        Metric::GoodRate => Some(case.messages.as_ref()?.tokens.as_ref()?.good_per_second.as_ref()?.estimate),
        Metric::ErrorShare | Metric::GoodputShare => {
            let count = |trial: &Trial<'_>| match metric {
                Metric::GoodputShare => trial.good(),
                _ => Some((failures(&trial.load.counts), trial.load.counts.scheduled)),
            };
            let trials = side.trials(&case.gateway, case.load.index);
            of_share(&trials.iter().filter_map(count).collect::<Vec<_>>())
        }
        _ => of_mean(&side.values(metric, &case.gateway, case.load.index))
            .map(|estimate| estimate.at_least(0.0)),
    }
}

/// The index of the load point in `of` that sends the same traffic as `point`. The two load points may differ
/// in position and duration.
pub(super) fn counterpart(point: &LoadPoint, of: &RunRecord) -> Option<usize> {
    let same = |other: &LoadPoint| {
        LoadPoint { duration: point.duration, left_out: point.left_out.clone(), ..other.clone() } == *point
            && other.search.is_none()
            && point.search.is_none()
    };
    let exact = of.load.iter().position(|other| other == point && other.search.is_none());
    exact.or_else(|| of.load.iter().position(same))
}

/// Added times of two runs can differ by up to this factor because CPUs were placed differently. On one
/// rented machine, nginx added 1.4 times as much to the median with CPUs 390 ns apart as with CPUs 110 ns
/// apart (`records/2026-11-26-vm-placement`). On another machine, it added 2.0 to 2.2 times as much at 315 ns
/// as at 123 ns. Response times, CPU time and throughput change less, because messages between CPUs are only
/// a part of them.
const OF_PLACEMENT_ADDED: f64 = 3.0;
/// Like [`OF_PLACEMENT_ADDED`], for all other figures.
const OF_PLACEMENT: f64 = 2.0;

/// The first pair of CPUs that were placed differently in two runs, with its placement in each run.
pub(super) fn placed_differently(first: &Side<'_>, second: &Side<'_>) -> Option<(Placement, Placement)> {
    both_placements(first, second).find(|(one, other)| are_apart(one.usual_ns, other.usual_ns))
}

/// The pairs of CPUs whose distance both runs recorded, with the placement in each run.
fn both_placements<'s>(
    first: &'s Side<'_>,
    second: &'s Side<'_>,
) -> impl Iterator<Item = (Placement, Placement)> + 's {
    first.placements.iter().filter_map(|one| {
        let other = second.placements.iter().find(|other| other.cpus == one.cpus)?;
        Some((*one, *other))
    })
}

/// True for metrics that depend on the speed of the machine.
pub(super) fn is_of_speed(metric: Metric) -> bool {
    is_time(metric) || [Metric::Throughput, Metric::ThroughputRatio].contains(&metric)
}

/// What the machine may have changed in a figure between two runs, as a factor. The factor is at least 1, and
/// the same if the runs are swapped. It is direct's own change × the possible effect of the distance between
/// CPUs. For a figure of direct, only the distance counts. If the placement is the same, the distance changes
/// with the clock rate of the cores, and all figures change with it.
pub(super) fn machine_factor(
    metric: Metric,
    first: (&Side<'_>, usize),
    second: (&Side<'_>, usize),
    of_direct: bool,
) -> f64 {
    if !is_of_speed(metric) {
        return 1.0;
    }
    let is_added = metric.is_tax() && percentile(metric).is_some();
    let of_distance = |(one, other): (Placement, Placement)| match are_apart(one.usual_ns, other.usual_ns) {
        true if is_added => OF_PLACEMENT_ADDED,
        true => OF_PLACEMENT,
        false => upward(other.usual_ns / one.usual_ns),
    };
    let of_distances = both_placements(first.0, second.0).map(of_distance).fold(1.0, f64::max);
    let of_direct = if of_direct { 1.0 } else { change_of_direct(metric, first, second) };
    of_direct * of_distances
}

/// The larger value ÷ the smaller value, given their ratio in either order.
fn upward(ratio: f64) -> f64 {
    ratio.max(1.0 / ratio)
}

/// The change of direct between two runs, as a factor of at least 1. For response times and taxes, the same
/// percentile of direct is compared. For the throughput, the throughput of direct is compared. For the CPU
/// time per request, the CPU time of generator and upstream per request of direct is compared. A gateway does
/// not affect direct, so the change comes from the machine. 1 if the change is unknown.
fn change_of_direct(metric: Metric, first: (&Side<'_>, usize), second: (&Side<'_>, usize)) -> f64 {
    let merged = metric.times().zip(percentile(metric));
    let of = |(side, load): (&Side<'_>, usize)| match (merged, metric) {
        (Some((times, statistic)), _) => merged::of_all(side.trials(DIRECT, load), times, statistic),
        (None, Metric::Throughput) => mean(&side.values(metric, DIRECT, load)),
        (None, _) if OF_CPU.contains(&metric) => mean(&side.yardstick(load)),
        _ => None,
    };
    match (of(first), of(second)) {
        (Some(first), Some(second)) if first > 0.0 && second > 0.0 => upward(second / first),
        _ => 1.0,
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "placed differently, it is {} instead" number(OF_PLACEMENT);
    METHODOLOGY "and {} for added times" number(OF_PLACEMENT_ADDED);
}
