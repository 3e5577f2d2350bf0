//! Processes of a gateway that was restarted during its run, and how much their figures scatter.
//!
//! Each process draws its own place in memory, and a runtime that compiles while it runs draws its own code.
//! The figure of n processes with equal numbers of trials has the n-th part of the variance of one process.

use crate::trials::metric::of_trial;
use crate::trials::trial::Trial;
use hoptax_plan::Metric;
use hoptax_record::{DIRECT, RunRecord};
use hoptax_stats::{mean, of_mean, share_of_runs, variance_of};
use std::collections::{BTreeMap, BTreeSet};

/// The processes of a gateway.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Processes {
    /// Number of processes with equal numbers of trials whose mean scatters as much as that of these
    /// processes: (Σ n)² ÷ Σ n² for numbers n of trials (L. Kish, "Survey Sampling", 1965).
    pub(crate) effective: f64,
    /// Scatter of times from process to process as this run shows it, together with the known share: half of
    /// a 95 % interval, as a share of the figure. Absent if there are too few processes.
    pub(crate) share: Option<f64>,
}

impl Processes {
    /// All trials have the same process.
    pub(crate) const ONE: Self = Self { effective: 1.0, share: None };
}

/// Number of processes of these trials.
pub(crate) fn count(trials: &[Trial<'_>]) -> u32 {
    trials.iter().map(|trial| trial.record.start).collect::<BTreeSet<u32>>().len() as u32
}

/// The processes of each gateway that had several. `trials` returns the valid trials of a contender at a load
/// point.
pub(crate) fn processes<'t, 'a: 't>(
    run: &RunRecord,
    trials: impl Fn(&str, usize) -> &'t [Trial<'a>],
) -> BTreeMap<String, Processes> {
    let gateways = run.contenders.iter().map(|one| one.label.as_str()).filter(|label| *label != DIRECT);
    let of = |label: &str| {
        let of_loads: Vec<_> =
            (0..run.load.len()).map(|load| (trials(label, load), trials(DIRECT, load))).collect();
        let mut sizes: BTreeMap<u32, f64> = BTreeMap::new();
        for trial in of_loads.iter().flat_map(|(via, _)| *via) {
            *sizes.entry(trial.record.start).or_default() += 1.0;
        }
        if sizes.len() < 2 {
            return None;
        }
        let squares: f64 = sizes.values().map(|size| size * size).sum();
        let effective = sizes.values().sum::<f64>().powi(2) / squares;
        let figures: Vec<_> = of_loads.iter().flat_map(|(via, direct)| by_process(via, direct)).collect();
        Some(Processes { effective, share: share_of_runs(&figures, run.shares.times_jit) })
    };
    gateways.filter_map(|label| Some((label.to_owned(), of(label)?))).collect()
}

/// The added median and the CPU time per request of each process with several rounds, as shares of their mean
/// over the processes, with the variance that their rounds show.
fn by_process(via: &[Trial<'_>], direct: &[Trial<'_>]) -> Vec<Vec<(f64, f64)>> {
    let mut of_direct: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for trial in direct {
        of_direct.entry(trial.round()).or_default().extend(of_trial(Metric::P50, trial));
    }
    let added = |trial: &Trial<'_>| {
        let direct = mean(of_direct.get(&trial.round())?)?;
        Some(of_trial(Metric::P50, trial)? - direct)
    };
    let cpu = |trial: &Trial<'_>| of_trial(Metric::CpuUsPerRequest, trial);
    [relative(via, added), relative(via, cpu)].into_iter().flatten().collect()
}

fn relative(via: &[Trial<'_>], figure: impl Fn(&Trial<'_>) -> Option<f64>) -> Option<Vec<(f64, f64)>> {
    let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for trial in via {
        rounds.entry(trial.record.start).or_default().extend(figure(trial));
    }
    let of_process = |rounds: &Vec<f64>| {
        let estimate = of_mean(rounds)?;
        Some((estimate.estimate, variance_of(&estimate)?.0))
    };
    let processes: Vec<(f64, f64)> = rounds.values().filter_map(of_process).collect();
    let middle = mean(&processes.iter().map(|(value, _)| *value).collect::<Vec<_>>())?;
    let relative = processes.iter().map(|(value, variance)| (value / middle, variance / middle / middle));
    (middle > 0.0).then(|| relative.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Side;
    use crate::fixture::{Run, via};

    /// Processes with these numbers of rounds, which take this much CPU time per request.
    fn found(processes: &[(u32, u64)]) -> Option<Processes> {
        let mut run = Run::closed(1);
        let mut round = 0;
        for (start, (rounds, cpu_us)) in (0..).zip(processes) {
            for _ in 0..*rounds {
                run.direct(round, 100, 100);
                let mut trial = via("jvm", round)
                    .all_at_us(100 + cpu_us)
                    .gateway_cpu_us(1000 * cpu_us + u64::from(round % 2));
                trial.0.start = start;
                run.push(trial);
                round += 1;
            }
        }
        let side = Side::read(&run.record, &run.trials);
        processes_of(&run, &side)
    }

    fn processes_of(run: &Run, side: &Side<'_>) -> Option<Processes> {
        processes(&run.record, |label, load| side.trials(label, load)).get("jvm").copied()
    }

    #[test]
    fn processes_count_by_their_trials() {
        let effective = |sizes: &[u32]| {
            let processes: Vec<_> = sizes.iter().map(|size| (*size, 50)).collect();
            found(&processes).map_or(1.0, |one| one.effective)
        };
        assert_eq!(effective(&[9]), 1.0);
        assert_eq!((effective(&[4, 4]), effective(&[3, 3, 3, 3])), (2.0, 4.0));
        let unequal = effective(&[2, 18]);
        assert!((unequal - 400.0 / 328.0).abs() < 1e-9, "{unequal}");
    }

    #[test]
    fn processes_that_differ_have_a_larger_share() {
        let share = |cpu: [u64; 4]| found(&cpu.map(|us| (5, us))).expect("four processes").share;
        let (alike, apart) = (share([50; 4]).expect("four"), share([40, 60, 45, 55]).expect("four"));
        assert!(alike < 0.05 && apart > 0.3, "{alike} {apart}");
        let three = found(&[(5, 40), (5, 50), (5, 60)]).expect("three processes");
        assert_eq!((three.effective, three.share), (3.0, None), "the known share counts");
        assert_eq!(found(&[(1, 40), (1, 50), (1, 60), (1, 50)]).expect("four").share, None, "one round each");
    }
}
