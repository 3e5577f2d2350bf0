//! Learns from separate runs of a plan how much figures scatter on the machine ([`Shares`]).

use crate::side::{Side, in_run};
use crate::{Analysis, Figures, Severity, analyse};
use hoptax_plan::Metric;
use hoptax_record::report::Case;
use hoptax_record::{Placement, RunRecord, Shares, TrialRecord, are_apart};
use hoptax_stats::{Estimate, LEAST_RUNS, mean, share_of_runs, share_that_holds, variance_of};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kinds of figures, each with a share of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Kind {
    /// Added median and CPU time per request.
    Time,
    Throughput,
    /// Logarithm of the ratio of two gateways' CPU times.
    Cpu,
}

/// The figures of one run that show how runs scatter.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RunFigures {
    /// The figures by kind and name.
    figures: BTreeMap<Kind, BTreeMap<String, Figure>>,
    /// Gateways that compile while they run, each with the number of its processes.
    compiling: BTreeMap<String, f64>,
    placements: Vec<Placement>,
}

/// A figure of one run.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Figure {
    value: f64,
    /// Variance that the rounds show.
    variance: f64,
    /// Half of the 95 % interval that the rounds give.
    half: f64,
}

impl Figure {
    fn new(figure: &Estimate) -> Option<Self> {
        let (value, variance) = (figure.estimate, variance_of(figure)?.0);
        Some(Self { value, variance, half: figure.high? - value })
    }

    fn over(&self, unit: f64) -> Self {
        Self { value: self.value / unit, variance: self.variance / unit / unit, half: self.half / unit }
    }
}

/// What separate runs show.
#[derive(Debug, Clone, PartialEq)]
pub struct Learned {
    /// The shares, with the built-in origin.
    pub shares: Shares,
    /// Indices of the runs that count. Runs without figures, and runs whose CPUs were at another distance, do
    /// not count.
    pub counted: Vec<usize>,
}

impl RunFigures {
    /// The figures of a run. Cases with a `void` finding are left out.
    pub fn new(run: &RunRecord, records: &[TrialRecord]) -> Self {
        let (analysis, side) = (analyse(run, records, &[], &[]), Side::read(run, records));
        let scatters = side.scatters();
        let labels = run.contenders.iter().map(|one| &one.label);
        let compiling = labels.filter(|label| !run.plan.isolate && scatters.compiles(label));
        let compiling = compiling.map(|label| (label.clone(), scatters.processes(label).effective)).collect();
        let mut found = Self { compiling, placements: analysis.placements.clone(), ..Self::default() };
        let cases: Vec<&Case> = analysis
            .cases
            .iter()
            .filter(|case| !case.is_direct() && case.failed.is_none() && !is_void(&analysis, case))
            .collect();
        for case in &cases {
            let mut add = |kind, metric: Metric| {
                if let Some(figure) = in_run(metric, case, &side).as_ref().and_then(Figure::new) {
                    let name = format!("{}\n{}\n{}", case.gateway, case.load.index, metric.name());
                    found.figures.entry(kind).or_default().insert(name, figure);
                }
            };
            add(Kind::Time, Metric::AddedP50);
            add(Kind::Time, Metric::CpuUsPerRequest);
            if !case.load.is_open() {
                add(Kind::Throughput, Metric::Throughput);
                add(Kind::Throughput, Metric::ThroughputRatio);
            }
        }
        // If gateways are restarted, rounds already show how processes differ.
        if !run.plan.isolate && run.plan.restarts.is_none_or(|restarts| restarts == 0) {
            found.add_ratios(&cases, &side);
        }
        found
    }

    /// True if the run says nothing about how runs scatter.
    pub fn is_empty(&self) -> bool {
        self.figures.is_empty()
    }

    /// Every figure, with its kind and name.
    fn all(&self) -> impl Iterator<Item = (Kind, &String, &Figure)> {
        self.figures.iter().flat_map(|(kind, figures)| figures.iter().map(|(name, one)| (*kind, name, one)))
    }

    /// Adds the ratios of CPU times of gateways that do not compile, at the same load point.
    fn add_ratios(&mut self, cases: &[&Case], side: &Side<'_>) {
        let native: Vec<&&Case> =
            cases.iter().filter(|case| !self.compiling.contains_key(&case.gateway)).collect();
        for (at, one) in native.iter().enumerate() {
            for other in native[..at].iter().filter(|other| other.load.index == one.load.index) {
                let load = one.load.index;
                let of = |case: &Case| side.by_round(Metric::CpuUsPerRequest, &case.gateway, load);
                let (first, second) = (of(one), of(other));
                // The difference of two processes has twice the variance of one.
                let ratio = |(round, cpu): (&u32, &f64)| {
                    let ratio = (cpu / second.get(round)?).ln() / 2.0_f64.sqrt();
                    ratio.is_finite().then_some(ratio)
                };
                let rounds: Vec<f64> = first.iter().filter_map(ratio).collect();
                if let Some(figure) = hoptax_stats::of_mean(&rounds).as_ref().and_then(Figure::new) {
                    let name = format!("{}\n{}", one.case, other.case);
                    self.figures.entry(Kind::Cpu).or_default().insert(name, figure);
                }
            }
        }
    }

    /// True if CPUs were at another distance in the other run.
    fn is_apart(&self, other: &Self) -> bool {
        self.placements.iter().any(|one| {
            let mut same = other.placements.iter().filter(|two| two.cpus == one.cpus);
            same.any(|two| are_apart(one.usual_ns, two.usual_ns))
        })
    }

    /// Number of processes of the gateway with this figure. `None` if the gateway does not compile.
    fn processes(&self, name: &str) -> Option<f64> {
        self.compiling.get(name.split('\n').next()?).copied()
    }
}

fn is_void(analysis: &Analysis, case: &Case) -> bool {
    analysis.findings.iter().any(|finding| {
        finding.severity == Severity::Void
            && matches!(finding.concerns.figures, Figures::All | Figures::Machine)
            && finding.case.as_ref().is_none_or(|name| *name == case.case)
    })
}

/// The shares that separate runs of a plan show. `None` if fewer than [`LEAST_RUNS`] runs count. Where the
/// runs show no share, the built-in one is used.
pub fn learn(runs: &[RunFigures]) -> Option<Learned> {
    let counted = alike(runs);
    let shares = shares(&all_of(runs, &counted))?;
    Some(Learned { shares, counted })
}

/// Number of intervals of these runs that contain the mean of all runs, and number of all intervals. The
/// shares for each run come from the other runs. `None` if there are too few.
pub fn leave_one_out(runs: &[RunFigures]) -> Option<(usize, usize)> {
    let runs = all_of(runs, &alike(runs));
    let (mut held, mut all) = (0, 0);
    for (at, run) in runs.iter().enumerate() {
        let others: Vec<&RunFigures> =
            runs.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, run)| *run).collect();
        let shares = shares(&others)?;
        for (kind, name, figure) in run.all() {
            let share = match kind {
                Kind::Time => match run.processes(name) {
                    Some(processes) => shares.times.hypot(shares.times_jit / processes.sqrt()),
                    None => shares.times,
                },
                Kind::Throughput => shares.throughput,
                // The report has no interval of a ratio.
                Kind::Cpu => continue,
            };
            let values = runs.iter().filter_map(|run| run.figures.get(&kind)?.get(name));
            let Some(truth) = mean(&values.map(|one| one.value).collect::<Vec<_>>()) else { continue };
            all += 1;
            held += usize::from((figure.value - truth).abs() <= figure.half.hypot(share * figure.value));
        }
    }
    Some((held, all)).filter(|(_, all)| *all > 0)
}

/// Indices of the runs that count: those with the most common distance of CPUs. At another distance, figures
/// differ by a factor.
fn alike(runs: &[RunFigures]) -> Vec<usize> {
    let alike = |run: &RunFigures| -> Vec<usize> {
        (0..runs.len()).filter(|other| !runs[*other].is_empty() && !run.is_apart(&runs[*other])).collect()
    };
    runs.iter().map(alike).max_by_key(Vec::len).unwrap_or_default()
}

fn all_of<'a>(runs: &'a [RunFigures], indices: &[usize]) -> Vec<&'a RunFigures> {
    indices.iter().map(|index| &runs[*index]).collect()
}

fn shares(runs: &[&RunFigures]) -> Option<Shares> {
    if runs.len() < LEAST_RUNS {
        return None;
    }
    let built_in = Shares::BUILT_IN;
    let (native, compiling) = relative(runs, Kind::Time);
    let throughputs = relative(runs, Kind::Throughput);
    let throughputs = [throughputs.0, throughputs.1].concat();
    let cpu: Vec<Vec<Figure>> = by_name(runs, Kind::Cpu).into_values().collect();
    let times = share(&native, built_in.times).unwrap_or(built_in.times);
    // A run with n processes has 1/n of the variance of a run with one process.
    let parts: Vec<f64> =
        runs.iter().flat_map(|run| run.compiling.values()).map(|processes| 1.0 / processes).collect();
    let part = mean(&parts).unwrap_or(1.0);
    let both = share(&compiling, built_in.times.hypot(built_in.times_jit * part.sqrt()));
    let times_jit =
        both.map_or(built_in.times_jit, |both| ((both * both - times * times).max(0.0) / part).sqrt());
    let throughput = share(&throughputs, built_in.throughput).unwrap_or(built_in.throughput);
    let cpu = share_of_runs(&pairs(&cpu, |one| one.variance), built_in.cpu).unwrap_or(built_in.cpu);
    Some(Shares { times, times_jit, throughput, cpu, ..built_in })
}

/// The share that figures relative to their mean show. Where it is too small for the scatter's shape, such as
/// on a machine with two speeds, it is larger: 95 % of the intervals of these runs then hold their mean.
fn share(figures: &[Vec<Figure>], prior: f64) -> Option<f64> {
    let of_variance = share_of_runs(&pairs(figures, |one| one.variance), prior)?;
    Some(
        share_that_holds(&pairs(figures, |one| one.half)).map_or(of_variance, |holds| holds.max(of_variance)),
    )
}

fn pairs(figures: &[Vec<Figure>], second: impl Fn(&Figure) -> f64) -> Vec<Vec<(f64, f64)>> {
    figures.iter().map(|runs| runs.iter().map(|one| (one.value, second(one))).collect()).collect()
}

/// The figures of a kind in each run that has them.
fn by_name(runs: &[&RunFigures], kind: Kind) -> BTreeMap<String, Vec<Figure>> {
    let mut found: BTreeMap<String, Vec<Figure>> = BTreeMap::new();
    for (name, figure) in runs.iter().filter_map(|run| run.figures.get(&kind)).flatten() {
        found.entry(name.clone()).or_default().push(*figure);
    }
    found
}

/// Returns two lists: the figures of gateways that do not compile, and the figures of gateways that compile
/// in most runs. Each figure is divided by its mean over the runs.
fn relative(runs: &[&RunFigures], kind: Kind) -> (Vec<Vec<Figure>>, Vec<Vec<Figure>>) {
    let (mut native, mut compiling) = (Vec::new(), Vec::new());
    for (name, figures) in by_name(runs, kind) {
        let values: Vec<f64> = figures.iter().map(|one| one.value).collect();
        let Some(middle) = mean(&values).filter(|middle| *middle > 0.0) else { continue };
        let figures = figures.iter().map(|one| one.over(middle)).collect();
        let compiles = 2 * runs.iter().filter(|run| run.processes(&name).is_some()).count() > runs.len();
        if compiles { compiling.push(figures) } else { native.push(figures) }
    }
    (native, compiling)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Run, via};
    use hoptax_format::random::Random;

    /// A run in a closed loop whose times are `scale` times as long, and whose nginx takes `place` times as
    /// much CPU time.
    fn run(random: &mut Random, scale: f64, place: f64) -> RunFigures {
        let mut run = Run::closed(32);
        for round in 0..10 {
            let mut us = |of: f64| (of * (1.0 + 0.01 * (random.unit() - 0.5))).round() as u64;
            run.direct(round, us(5_000.0), us(5_000.0));
            for (label, added, place) in [("nginx", 5_000.0, place), ("haproxy", 10_000.0, 1.0)] {
                let trial = via(label, round).all_at_us(us(5_000.0 + added * scale));
                run.push(trial.gateway_cpu_us(us(20_000.0 * scale * place)));
            }
        }
        let found = RunFigures::new(&run.record, &run.trials);
        assert!(!found.figures.is_empty(), "{:#?}", run.analyse().findings);
        found
    }

    fn scattered(count: usize, times: f64, cpu: f64) -> Learned {
        let random = &mut Random::new(11);
        let mut normal = {
            let random = &mut Random::new(5);
            let drawn: Vec<f64> =
                (0..2 * count).map(|_| (0..12).map(|_| random.unit()).sum::<f64>() - 6.0).collect();
            drawn.into_iter()
        };
        let mut next = |share: f64| 1.0 + share / 1.96 * normal.next().unwrap_or_default();
        let factors: Vec<(f64, f64)> = (0..count).map(|_| (next(times), next(cpu))).collect();
        let runs: Vec<RunFigures> = factors.iter().map(|(times, cpu)| run(random, *times, *cpu)).collect();
        learn(&runs).expect("enough runs")
    }

    #[test]
    fn shares_follow_the_scatter_of_the_runs() {
        let near = |found: f64, planted: f64| (0.65..=1.6).contains(&(found / planted));
        let quiet = scattered(12, 0.0, 0.0);
        assert!(quiet.shares.times < 0.02, "{quiet:?}");
        assert_eq!(
            (quiet.counted.len(), quiet.shares.times_jit),
            (12, Shares::BUILT_IN.times_jit),
            "none compiles"
        );
        let noisy = scattered(24, 0.12, 0.0);
        assert!(near(noisy.shares.times, 0.12) && noisy.shares.cpu < 0.01, "{noisy:?}");
        let places = scattered(24, 0.0, 0.08);
        // Only one of the two processes scatters, so each has half of the variance.
        assert!(near(places.shares.cpu, 0.08 / 2.0_f64.sqrt()), "{places:?}");
    }

    #[test]
    fn runs_whose_cpus_were_at_another_distance_do_not_count() {
        let random = &mut Random::new(3);
        let mut runs: Vec<RunFigures> = (0..12).map(|_| run(random, 1.0, 1.0)).collect();
        let at = |usual_ns| vec![Placement { cpus: [0, 1], usual_ns, other_ns: None, moved: 0, trials: 9 }];
        for (number, one) in runs.iter_mut().enumerate() {
            one.placements = at(if number < 5 { 100.0 } else { 400.0 });
        }
        assert_eq!(learn(&runs).expect("seven alike").counted, [5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(learn(&runs[4..8]), None, "three alike are too few");
    }

    #[test]
    fn shares_of_other_runs_make_intervals_hold_the_mean_of_all() {
        let random = &mut Random::new(3);
        let scattered = |at: usize| 1.0 + if at.is_multiple_of(2) { 0.06 } else { -0.06 };
        let runs: Vec<RunFigures> = (0..12).map(|at| run(random, scattered(at), 1.0)).collect();
        let (held, all) = leave_one_out(&runs).expect("enough runs");
        // Added p50 and CPU time of two gateways, and the throughput and its ratio to direct's.
        assert_eq!(all, 12 * 8);
        let alone = runs.iter().flat_map(|run| run.figures[&Kind::Time].values());
        let narrow = alone.filter(|figure| figure.half < 0.05 * figure.value).count();
        assert!(narrow > 12, "rounds alone do not hold the mean: {narrow}");
        assert!(held as f64 >= 0.93 * all as f64, "{held} of {all}");
        assert_eq!(leave_one_out(&runs[..4]), None, "three others are too few");
    }
}
