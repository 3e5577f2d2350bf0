//! Sets trials aside that do not show what a gateway costs: trials that the hypervisor disturbed, trials for
//! which it had moved a CPU, and trials in which a process was still warming up.
//!
//! A run with a time limit has many short trials, so it can do without some of them. On a rented machine, the
//! response times of disturbed trials are often several times as long as those of the other trials, and a few
//! of them make every interval wide.
//!
//! The rules are fixed in advance, are the same for direct and for gateways, and never look at response times
//! or at a tax. A rule that looked at them would choose its own result. Trials that are set aside stay in the
//! record.

use crate::plan::Plan;
use crate::{Aside, CpuRoundTrip, DIRECT, HostUsage, Role, RunRecord, TrialRecord, WarmUp};
use hoptax_format::record::LoadRecord;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Which trials of a run are set aside.
#[derive(Debug, Clone, PartialEq)]
pub struct AsideRules {
    /// True for a plan with a time limit and short trials. Disturbed and moved trials are set aside.
    pub is_timed: bool,
    /// True if processes were warmed up until they had settled. With a fixed warm-up, every trial after it
    /// counts, however slow the process still is.
    pub until_settled: bool,
    /// Processes that became faster after their warm-up.
    pub late_steps: Vec<LateStep>,
}

/// A process that became faster after its warm-up had ended, as a second look showed.
#[derive(Debug, Clone, PartialEq)]
pub struct LateStep {
    /// Label of its contender.
    pub contender: String,
    /// Which start of the contender began the process, from 0.
    pub start: u32,
    /// Position of the first trial after the second look.
    pub before_trial: u32,
    /// By how much it became faster, as a difference of logarithms.
    pub faster_by: f64,
}

impl AsideRules {
    /// The rules for a run of this plan, before its first trial.
    pub fn of_plan(plan: &Plan) -> Self {
        Self {
            is_timed: plan.trials.time_only().is_some(),
            until_settled: plan.until_settled.is_some(),
            late_steps: Vec::new(),
        }
    }

    /// The rules for this run.
    pub fn of(run: &RunRecord) -> Self {
        let steps = run
            .contenders
            .iter()
            .flat_map(|one| one.warm_ups.iter().filter_map(|warm_up| LateStep::of(&one.label, warm_up)));
        Self { late_steps: steps.collect(), ..Self::of_plan(&run.plan) }
    }
}

impl LateStep {
    /// The step that this warm-up of a contender found.
    pub fn of(contender: &str, warm_up: &WarmUp) -> Option<Self> {
        let WarmUp { before_trial, start, faster_by, .. } = *warm_up;
        Some(Self { contender: contender.to_owned(), start, before_trial, faster_by: faster_by? })
    }
}

/// Marks the trials of a run that are set aside.
pub fn mark_aside(trials: &mut [TrialRecord], rules: &AsideRules) {
    if rules.is_timed {
        mark_disturbed(trials);
        mark_moved(trials);
        if rules.until_settled {
            mark_warming(trials);
        }
    }
    rules.late_steps.iter().for_each(|step| mark_cold(trials, step));
}

/// Limit for the CPU time that the hypervisor takes during a trial, as a share of the time of all CPUs. The
/// finding `host-noisy` has the same limit. The kernel counts steal in ticks of 10 ms. In a trial of 300 ms
/// on two CPUs, three ticks are not more than the limit.
const STEAL: f64 = 0.05;

/// Sets aside a trial if any machine on the path of its requests had too much steal: more than [`STEAL`], and
/// more than that machine's median over the trials of the load point. A machine that is always disturbed
/// therefore sets aside at most half of its trials. For a gateway's machine, only trials via gateways count
/// for the median. Failed trials, trials of searches and trials in which any request failed always count:
/// errors must not disappear from a report.
fn mark_disturbed(trials: &mut [TrialRecord]) {
    let mut by_machine: BTreeMap<(u32, Option<String>), Vec<f64>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| is_eligible(trial)) {
        for (machine, usage) in trial.machines() {
            by_machine.entry((trial.load, machine.map(str::to_owned))).or_default().push(usage.steal);
        }
    }
    let limits: BTreeMap<_, f64> =
        by_machine.into_iter().map(|(key, steal)| (key, median(steal).max(STEAL))).collect();
    for trial in trials {
        let is_disturbed = |(machine, usage): (Option<&str>, &HostUsage)| {
            let limit = limits.get(&(trial.load, machine.map(str::to_owned)));
            limit.is_some_and(|limit| usage.steal > *limit)
        };
        let is_aside = is_eligible(trial) && trial.machines().any(is_disturbed);
        trial.set_aside = is_aside.then_some(Aside::Disturbed);
    }
}

/// Minimum number of trials in which the distance of two CPUs was measured. With fewer trials, hoptax
/// computes no usual distance.
const LEAST_DISTANCES: usize = 8;
/// Two distances that differ by at least this factor belong to different placements. Repeated measurements of
/// one placement differ by up to 50 %.
const APART: f64 = 2.0;

/// How two CPUs were placed during a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// The two CPUs, the lower number first.
    pub cpus: [u32; 2],
    /// Median time that a cache line takes from one CPU to the other and back, ns.
    pub usual_ns: f64,
    /// Median time in the trials with another placement, ns. Absent if there were no such trials.
    pub other_ns: Option<f64>,
    /// Number of trials with another placement at their start or at their end.
    pub moved: u32,
    /// Number of trials in which the distance was measured.
    pub trials: u32,
}

/// True if two distances belong to different placements of CPUs.
pub fn are_apart(one_ns: f64, other_ns: f64) -> bool {
    one_ns > APART * other_ns || other_ns > APART * one_ns
}

/// How the CPUs of the roles were placed. Empty if fewer than eight trials measured the distances of CPUs.
pub fn placements(trials: &[TrialRecord]) -> Vec<Placement> {
    let mut distances: BTreeMap<[u32; 2], Vec<&CpuRoundTrip>> = BTreeMap::new();
    for one in trials.iter().filter(|trial| is_eligible(trial)).flat_map(|trial| &trial.cpu_round_trips) {
        distances.entry(one.cpus).or_default().push(one);
    }
    distances.retain(|_, of_pair| of_pair.len() >= LEAST_DISTANCES);
    let placement = |(cpus, of_pair): (_, Vec<&CpuRoundTrip>)| {
        let both = |one: &CpuRoundTrip| [one.before_ns, one.after_ns];
        let usual_ns = median(of_pair.iter().copied().flat_map(both).collect());
        let is_other = |ns: &f64| are_apart(*ns, usual_ns);
        let others: Vec<f64> = of_pair.iter().copied().flat_map(both).filter(is_other).collect();
        Placement {
            cpus,
            usual_ns,
            other_ns: (!others.is_empty()).then(|| median(others)),
            moved: of_pair.iter().filter(|one| both(one).iter().any(is_other)).count() as u32,
            trials: of_pair.len() as u32,
        }
    };
    distances.into_iter().map(placement).collect()
}

/// Sets aside the trials before or after which two CPUs were closer together or farther apart than usual in
/// this run. Where the hypervisor places the CPUs decides what each message between generator, gateway and
/// upstream costs.
fn mark_moved(trials: &mut [TrialRecord]) {
    let usual: BTreeMap<[u32; 2], f64> =
        placements(trials).into_iter().map(|one| (one.cpus, one.usual_ns)).collect();
    let is_other = |one: &CpuRoundTrip| {
        let differs = |usual: &f64| are_apart(one.before_ns, *usual) || are_apart(one.after_ns, *usual);
        usual.get(&one.cpus).is_some_and(differs)
    };
    for trial in trials.iter_mut().filter(|trial| is_eligible(trial)) {
        if trial.cpu_round_trips.iter().any(is_other) {
            trial.set_aside.get_or_insert(Aside::Moved);
        }
    }
}

/// Minimum number of trials of a process. With fewer trials, hoptax looks for no warm-up.
const LEAST_TRIALS: usize = 8;
/// Smallest fall of the CPU time per request that counts as the end of a warm-up, as a difference of
/// logarithms: 5 %.
const FALL: f64 = 0.05;
/// Smallest fall that counts, in standard errors. Chance does not explain a fall of more than 5 standard
/// errors, even though `cold_count` picks the best of all splits.
const FALL_IN_ERRORS: f64 = 5.0;

/// Sets aside the first trials of each process of a gateway if its CPU time per request fell after them, for
/// example because it compiled code. At most half of a process's trials are set aside.
///
/// A neighbor of a virtual machine can make everything slower for some seconds. Each CPU time is therefore
/// divided by how slow its round was: the upstream's CPU time per request in the round's direct trials,
/// relative to its median. If the upstream is on another machine, the CPU time is used as it is.
fn mark_warming(trials: &mut [TrialRecord]) {
    let gateways = trials.iter().filter(|trial| trial.contender != DIRECT);
    let processes: BTreeSet<(String, u32)> =
        gateways.map(|trial| (trial.contender.clone(), trial.start)).collect();
    for (contender, start) in processes {
        let series = relative_to_machine(trials, (&contender, start), u32::MAX);
        let values = relative(&series);
        let cold = cold_count(&values, values.len() / 2, FALL);
        for (at, ..) in &series[..cold] {
            trials[*at].set_aside.get_or_insert(Aside::Warming);
        }
    }
}

/// Sets aside the trials that a process made before it had warmed up. Load after its trials (`step`) has
/// shown that it was not warm. If the trials show when it became faster, only earlier trials are set aside,
/// otherwise all trials before that load. If no trial of the gateway would remain at a load point, all trials
/// there count, and the finding `still-warming` reports it.
fn mark_cold(trials: &mut [TrialRecord], step: &LateStep) {
    let series = relative_to_machine(trials, (&step.contender, step.start), step.before_trial);
    // Each load point has a level of its own. The step is therefore searched in the trials of one load point,
    // the one with the most trials.
    let count = |load: u32| series.iter().filter(|(_, of, _)| *of == load).count();
    let most = series.iter().map(|(_, load, _)| *load).max_by_key(|load| (count(*load), u32::MAX - load));
    let series: Vec<_> = series.iter().filter(|(_, load, _)| Some(*load) == most).collect();
    let values: Vec<f64> = series.iter().map(|(.., value)| *value).collect();
    let least = FALL.max(step.faster_by / 2.0);
    let warm_from = match cold_count(&values, values.len().saturating_sub(2), least) {
        0 => step.before_trial,
        cold => trials[series[cold].0].sequence,
    };
    let of = |trial: &TrialRecord| trial.contender == step.contender && is_eligible(trial);
    let is_cold = |trial: &TrialRecord| trial.start == step.start && trial.sequence < warm_from;
    let is_warm = |trial: &TrialRecord| match trial.start == step.start {
        true => trial.sequence >= warm_from,
        false => trial.set_aside != Some(Aside::Warming),
    };
    let measured: Vec<u32> =
        trials.iter().filter(|trial| of(trial) && is_warm(trial)).map(|trial| trial.load).collect();
    for trial in trials.iter_mut().filter(|trial| of(trial)) {
        if !measured.contains(&trial.load) {
            trial.set_aside = trial.set_aside.filter(|why| *why != Aside::Warming);
        } else if is_cold(trial) {
            trial.set_aside.get_or_insert(Aside::Warming);
        }
    }
}

/// The CPU time per request of the counted trials of a process before the trial `end`, as logarithms in
/// relation to the machine: index, load point and value. The process is a contender and one of its starts.
fn relative_to_machine(trials: &[TrialRecord], process: (&str, u32), end: u32) -> Vec<(usize, u32, f64)> {
    let machine = machine_by_round(trials);
    let is_of = |trial: &TrialRecord| (trial.contender.as_str(), trial.start) == process;
    let of = trials.iter().enumerate().filter(|(_, trial)| is_of(trial) && trial.sequence < end);
    let value = |trial: &TrialRecord| {
        let machine = machine.get(&(trial.load, trial.round)).copied().unwrap_or(0.0);
        let is_shared = trial.machine_of(Role::Gateway) == trial.machine_of(Role::Upstream);
        Some(cpu_per_request(trial)?.ln() - if is_shared { machine } else { 0.0 })
    };
    of.filter_map(|(at, trial)| Some((at, trial.load, value(trial)?))).collect()
}

/// How slow the machine was in each round of each load point: the logarithm of the upstream's CPU time per
/// request in the round's direct trials, less its median at this load point.
fn machine_by_round(trials: &[TrialRecord]) -> BTreeMap<(u32, u32), f64> {
    let direct = trials.iter().filter(|trial| trial.contender == DIRECT);
    let mut rounds: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
    for (trial, cpu) in direct.filter_map(|trial| Some((trial, cpu_per_request(trial)?))) {
        rounds.entry((trial.load, trial.round)).or_default().push(cpu.ln());
    }
    let of_load = |load: u32| -> Vec<f64> {
        rounds.iter().filter(|((of, _), _)| *of == load).flat_map(|(_, values)| values.clone()).collect()
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    rounds.iter().map(|(&key, values)| (key, mean(values) - median(of_load(key.0)))).collect()
}

/// CPU time per request of a counted trial: the gateway's, or the upstream's if the trial is direct.
fn cpu_per_request(trial: &TrialRecord) -> Option<f64> {
    if !is_eligible(trial) || trial.set_aside.is_some() {
        return None;
    }
    let role = if trial.contender == DIRECT { &trial.upstream } else { &trial.gateway };
    let (used, completed) = (role.as_ref()?.cpu_ns, trial.load_record.as_ref()?.completed_in_time);
    (used > 0 && completed > 0).then(|| used as f64 / completed as f64)
}

/// The values of all load points as one series, in order of time. Load points have different levels, so the
/// median of the later half of each load point is subtracted from its values.
fn relative(series: &[(usize, u32, f64)]) -> Vec<f64> {
    let mut by_load: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (_, load, value) in series {
        by_load.entry(*load).or_default().push(*value);
    }
    let levels: BTreeMap<u32, f64> = by_load
        .into_iter()
        .map(|(load, values)| (load, median(values[values.len() / 2..].to_vec())))
        .collect();
    series.iter().map(|(_, load, value)| value - levels[load]).collect()
}

/// Number of values before the last large fall of the series, at most `most`, or 0 if the fall is not larger
/// than `least`. The series is split where the squared deviations from the means of both parts are smallest.
fn cold_count(values: &[f64], most: usize, least: f64) -> usize {
    if values.len() < LEAST_TRIALS {
        return 0;
    }
    let part = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>())
    };
    let splits = (2..=most).map(|at| {
        let ((before, squares), (after, later)) = (part(&values[..at]), part(&values[at..]));
        (at, before - after, squares + later)
    });
    let Some((at, fall, squares)) = splits.min_by(|a, b| a.2.total_cmp(&b.2)) else { return 0 };
    let variance = squares / (values.len() - 2) as f64;
    let error = (variance * (1.0 / at as f64 + 1.0 / (values.len() - at) as f64)).sqrt();
    if fall > least && fall > FALL_IN_ERRORS * error { at } else { 0 }
}

fn is_eligible(trial: &TrialRecord) -> bool {
    trial.failed.is_none() && trial.step.is_none() && !trial.load_record.as_ref().is_some_and(has_failures)
}

/// True if any request of the trial failed.
pub fn has_failures(load: &LoadRecord) -> bool {
    let counts = &load.counts;
    counts.ok < counts.completed
        || counts.timeouts + counts.connect_errors + counts.resets + counts.bad_responses > 0
}

/// The upper median. The list is not empty.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "the hypervisor took more than {} of the CPU time is set aside" percent(STEAL);
    METHODOLOGY "From {} trials on, a plan with `time` sets trials aside" word(LEAST_DISTANCES);
    METHODOLOGY "less than {}, the median of the run" fraction(1.0 / APART);
    METHODOLOGY "by more than {} and five standard errors" percent(FALL);
    METHODOLOGY "by more than 5 % and {} standard errors" word(FALL_IN_ERRORS);
}

#[cfg(test)]
mod tests;
