//! Sets trials aside that the hypervisor disturbed.
//!
//! In a plan with `time`, trials are short, and there are many. So a run can do without the disturbed ones: on a rented
//! machine, their response times are often several times as long as those of the other trials, and a few of them make
//! every interval wide.
//!
//! The rule is fixed in advance, is the same for direct and for gateways, and looks at steal only. A rule that looked at
//! response times would choose its own result. Trials that are set aside stay in the record.

use hoptax_record::{SetAside, TrialRecord};
use std::collections::BTreeMap;

/// Limit for the CPU time that the hypervisor takes during a trial, as a share of the time of all CPUs. The finding
/// `host-noisy` has the same limit. In a trial of 300 ms on two CPUs, it is passed by two ticks of 10 ms.
const STEAL: f64 = 0.02;

/// Counts the trials of each case.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// For each contender and load point: the number of trials, and how many of them were set aside.
    counts: BTreeMap<(String, u32), (u32, u32)>,
}

impl Aside {
    /// Decides whether the trial is set aside. At most half of a case's trials are, so that a run on a machine that is
    /// always disturbed still has figures.
    pub(super) fn judge(&mut self, trial: &TrialRecord) -> Option<SetAside> {
        if trial.failed.is_some() || trial.step.is_some() {
            return None;
        }
        let (trials, aside) = self.counts.entry((trial.contender.clone(), trial.load)).or_default();
        *trials += 1;
        let is_disturbed = trial.host.steal > STEAL && (*aside + 1) * 2 <= *trials;
        *aside += u32::from(is_disturbed);
        is_disturbed.then_some(SetAside::Steal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_analysis::fixture::via;

    /// Marks each trial: `x` if it is set aside, `.` if not.
    fn judged(steal: &[f64]) -> String {
        let mut aside = Aside::default();
        let trials = (0..).zip(steal).map(|(round, steal)| via("nginx", round).host(*steal, 0.9).0);
        trials.map(|trial| if aside.judge(&trial).is_some() { 'x' } else { '.' }).collect()
    }

    #[test]
    fn disturbed_trials_are_set_aside() {
        assert_eq!(judged(&[0.0, 0.02, 0.03, 0.0, 0.5, 0.01]), "..x.x.");
    }

    #[test]
    fn at_most_half_of_a_case_is_set_aside() {
        assert_eq!(judged(&[0.3; 7]), ".x.x.x.");
    }

    #[test]
    fn cases_are_counted_apart_and_failed_trials_do_not_count() {
        let mut aside = Aside::default();
        let disturbed = |label: &str, load| via(label, 0).at_load(load).host(0.3, 0.0);
        for trial in [disturbed("nginx", 0), disturbed("envoy", 0), disturbed("nginx", 1)] {
            assert_eq!(aside.judge(&trial.0), None, "the first of its case");
        }
        assert_eq!(aside.judge(&disturbed("nginx", 0).failed("died").0), None);
        assert_eq!(aside.judge(&disturbed("nginx", 0).0), Some(SetAside::Steal));
    }
}
