//! Sets trials aside that the hypervisor disturbed.
//!
//! A run with a time limit has many short trials, so it can do without the disturbed ones. On a rented machine, their
//! response times are often several times as long as those of the other trials, and a few of them make every interval
//! wide.
//!
//! The rule is fixed in advance, is the same for direct and for gateways, and never looks at response times. A rule that
//! looked at them would choose its own result. Trials that are set aside stay in the record.

use crate::TrialRecord;
use hoptax_load::record::LoadRecord;
use std::collections::BTreeMap;

/// Limit for the CPU time that the hypervisor takes during a trial, as a share of the time of all CPUs. The finding
/// `host-noisy` has the same limit. The kernel counts steal in ticks of 10 ms. In a
/// trial of 300 ms on two CPUs, three ticks are not more than the limit.
const STEAL: f64 = 0.05;

/// Sets aside the trials of each load point with more steal than [`STEAL`] and than the median trial of the load point.
/// So at most half of a load point's trials are set aside, also on a machine that is always disturbed. Failed trials,
/// trials of searches and trials in which any request failed always count: errors must not disappear from a report.
pub fn mark_disturbed(trials: &mut [TrialRecord]) {
    let mut by_load: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| is_eligible(trial)) {
        by_load.entry(trial.load).or_default().push(trial.host.steal);
    }
    let limits: BTreeMap<u32, f64> =
        by_load.into_iter().map(|(load, steal)| (load, median(steal).max(STEAL))).collect();
    for trial in trials {
        let is_disturbed = |limit: &f64| trial.host.steal > *limit;
        trial.set_aside = is_eligible(trial) && limits.get(&trial.load).is_some_and(is_disturbed);
    }
}

fn is_eligible(trial: &TrialRecord) -> bool {
    trial.failed.is_none() && trial.step.is_none() && !trial.load_record.as_ref().is_some_and(has_failures)
}

fn has_failures(load: &LoadRecord) -> bool {
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
mod tests {
    use super::*;
    use crate::dir::tests::trial;
    use crate::{Failure, Stage};
    use std::path::Path;

    /// Marks each trial: `x` if it is set aside, `.` if not. Each trial is given as its load point and its steal.
    fn marked(trials: &[(u32, f64)]) -> String {
        let made = |&(load, steal): &(u32, f64)| {
            let mut trial = trial(0);
            (trial.load, trial.host.steal) = (load, steal);
            trial
        };
        let mut trials: Vec<TrialRecord> = trials.iter().map(made).collect();
        mark_disturbed(&mut trials);
        trials.iter().map(|trial| if trial.set_aside { 'x' } else { '.' }).collect()
    }

    fn at_one_load(steal: &[f64]) -> String {
        marked(&steal.iter().map(|steal| (0, *steal)).collect::<Vec<_>>())
    }

    #[test]
    fn disturbed_trials_are_set_aside() {
        assert_eq!(at_one_load(&[0.0, 0.05, 0.06, 0.0, 0.5, 0.01]), "..x.x.");
        assert_eq!(at_one_load(&[0.0; 3]), "...");
    }

    #[test]
    fn at_most_half_is_set_aside_and_those_are_the_most_disturbed() {
        assert_eq!(at_one_load(&[0.1, 0.3, 0.2, 0.1, 0.4, 0.1]), ".x..x.");
        assert_eq!(at_one_load(&[0.3; 5]), ".....");
        assert_eq!(at_one_load(&[0.5]), ".");
    }

    #[test]
    fn load_points_have_limits_of_their_own() {
        assert_eq!(marked(&[(0, 0.1), (1, 0.0), (0, 0.1), (1, 0.1), (0, 0.1), (1, 0.0)]), "...x..");
    }

    #[test]
    fn trials_with_errors_count() {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../records/runs/delays");
        let run = crate::dir::Run::read(&kept).expect("kept");
        let mut trials: Vec<TrialRecord> =
            run.trials.into_iter().filter(|trial| trial.load == 0 && trial.step.is_none()).take(3).collect();
        trials.iter_mut().for_each(|trial| trial.host.steal = 0.0);
        trials[0].host.steal = 0.5;
        mark_disturbed(&mut trials);
        assert!(trials[0].set_aside, "without errors");
        trials[0].load_record.as_mut().expect("measured").counts.timeouts = 1;
        mark_disturbed(&mut trials);
        assert!(!trials[0].set_aside, "with an error");
    }

    #[test]
    fn failed_trials_are_not_set_aside_and_old_marks_are_removed() {
        let mut trials = vec![trial(0), trial(1), trial(2), trial(3)];
        for trial in &mut trials[2..] {
            trial.host.steal = 0.5;
        }
        trials[3].failed =
            Some(Failure { stage: Stage::Trial, message: "died".into(), detail: String::new() });
        trials[0].set_aside = true;
        mark_disturbed(&mut trials);
        assert_eq!(
            trials.iter().map(|trial| trial.set_aside).collect::<Vec<_>>(),
            [false, false, true, false]
        );
    }
}
