//! Decides what a search does next. Pure: the same measurements always lead to the same step.

use hoptax_stats::{Measured, Suspects, median};
use std::collections::BTreeSet;
use std::ops::Range;

/// Probability at which a search ends.
pub(super) const SURE: f64 = 0.95;

/// Maximum number of measurements of the bad commit before the search begins, in one invocation. If the
/// change is still not clear then, the other commits would not show it either.
const MOST_OF_BAD: usize = 6;

/// Maximum number of measurements of one invocation. A search of 1,000 commits needs about 20 if their noise
/// is a quarter of the change.
const MOST: usize = 100;

/// The next step of a search.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Measure this commit.
    Measure(usize),
    /// One of these commits made the change. There are several only if some of them cannot be measured.
    Found {
        /// The commits. The last one can be measured.
        commits: Range<usize>,
        /// Probability that one of `commits` made the change.
        probability: f64,
    },
    /// The figures of the bad commit and of the good commit differ by less than the smallest change to look
    /// for.
    Unchanged,
    /// There are too many measurements in this invocation, and no answer yet. Another invocation continues.
    Unclear,
}

/// Everything that a step depends on.
#[derive(Debug, Clone)]
pub(super) struct Situation {
    /// Number of commits after the good one.
    pub(super) commits: usize,
    pub(super) measured: Vec<Measured>,
    /// Number of these measurements that earlier invocations made.
    pub(super) earlier: usize,
    /// Commits that cannot be measured.
    pub(super) skipped: BTreeSet<usize>,
    /// Smallest change to look for, in the metric's unit.
    pub(super) least: f64,
}

impl Situation {
    /// How likely each commit is, with the change in the machine's last state.
    pub(super) fn suspects(&self) -> Suspects {
        Suspects::new(self.commits, &self.measured, self.state())
    }

    /// The state of the machine in the last measurement.
    fn state(&self) -> usize {
        self.measured.last().map_or(0, |one| one.state)
    }

    /// The next step.
    pub(super) fn next(&self) -> Step {
        let last = self.commits - 1;
        if let Some(step) = self.before_search(last) {
            return step;
        }
        let suspects = self.suspects();
        let likely = self.groups().into_iter().map(|commits| {
            let probability: f64 = suspects.probabilities()[commits.clone()].iter().sum();
            (commits, probability)
        });
        if let Some((commits, probability)) = likely.max_by(|one, other| one.1.total_cmp(&other.1))
            && probability >= SURE
        {
            return Step::Found { commits, probability };
        }
        let errors: Vec<f64> = self.measured.iter().map(|one| one.error).collect();
        let candidates = (0..=last).filter(|commit| !self.skipped.contains(commit));
        match suspects.next(candidates, median(&errors).unwrap_or(0.0)) {
            Some(commit) if self.own().len() < MOST => Step::Measure(commit),
            _ => Step::Unclear,
        }
    }

    /// Measures the bad commit until the change is clear, and once in each new state of the machine. Returns
    /// `None` if the change is clear, so that the search can begin.
    fn before_search(&self, last: usize) -> Option<Step> {
        let of_bad = self.measured.iter().filter(|one| one.commit == last);
        let of_bad: Vec<Measured> = of_bad.map(|one| Measured { commit: 0, ..*one }).collect();
        let change = |state: usize| Suspects::new(1, &of_bad, state).change();
        let Some((_, low, high)) = change(self.state()) else {
            return Some(Step::Measure(last));
        };
        let states: BTreeSet<usize> = of_bad.iter().map(|one| one.state).collect();
        let is_clear = |(_, low, high): (f64, f64, f64)| {
            let is_larger = low > self.least || high < -self.least;
            // A change of exactly `least` would never count as larger. So after many measurements, a change
            // that is not zero is enough.
            let is_close = of_bad.len() >= MOST_OF_BAD && (low > 0.0 || high < 0.0);
            is_larger || is_close
        };
        if states.into_iter().filter_map(change).any(is_clear) {
            return None;
        }
        if -self.least <= low && high <= self.least {
            return Some(Step::Unchanged);
        }
        let own = self.own().iter().filter(|one| one.commit == last).count();
        Some(if own < MOST_OF_BAD { Step::Measure(last) } else { Step::Unclear })
    }

    /// The measurements of this invocation.
    fn own(&self) -> &[Measured] {
        self.measured.get(self.earlier..).unwrap_or_default()
    }

    /// Groups of commits that no measurement can distinguish. Each group has a commit that can be measured,
    /// and the commits directly before it that cannot.
    pub(super) fn groups(&self) -> Vec<Range<usize>> {
        let mut first = 0;
        let mut groups = Vec::new();
        for commit in (0..self.commits).filter(|commit| !self.skipped.contains(commit)) {
            groups.push(first..commit + 1);
            first = commit + 1;
        }
        groups
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "The search stops at {}. Runs" percent(SURE);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn situation(commits: usize, measured: &[(usize, f64)], skipped: &[usize]) -> Situation {
        let measured = measured.iter().map(|(commit, difference)| Measured {
            commit: *commit,
            difference: *difference,
            error: 2.0,
            state: 0,
        });
        Situation {
            commits,
            measured: measured.collect(),
            earlier: 0,
            skipped: skipped.iter().copied().collect(),
            least: 5.0,
        }
    }

    /// Searches without noise. Returns the steps' commits, and the last step.
    fn search(commits: usize, culprit: usize, skipped: &[usize]) -> (Vec<usize>, Step) {
        let mut measured = Vec::new();
        loop {
            match situation(commits, &measured, skipped).next() {
                Step::Measure(commit) => {
                    measured.push((commit, if commit >= culprit { 40.0 } else { 0.0 }));
                }
                end => return (measured.into_iter().map(|(commit, _)| commit).collect(), end),
            }
        }
    }

    #[test]
    fn the_bad_commit_is_measured_first_and_then_halves() {
        for culprit in 0..40 {
            let (steps, end) = search(40, culprit, &[]);
            let Step::Found { commits, probability } = end else { panic!("{culprit}: {end:?}") };
            assert_eq!((commits, steps[0]), (culprit..culprit + 1, 39));
            assert!(probability >= SURE && steps.len() <= 9, "{culprit}: {steps:?}");
        }
    }

    #[test]
    fn commits_that_cannot_be_measured_are_named_together() {
        let (steps, end) = search(8, 5, &[3, 4]);
        assert!(!steps.contains(&3) && !steps.contains(&4), "{steps:?}");
        let Step::Found { commits, .. } = end else { panic!("{end:?}") };
        assert_eq!(commits, 3..6, "the change is in 3, 4 or 5");
        assert_eq!(search(1, 0, &[]).0, [0], "a single commit");
    }

    #[test]
    fn without_a_change_there_is_no_search() {
        assert_eq!(situation(8, &[], &[]).next(), Step::Measure(7));
        assert_eq!(situation(8, &[(7, 0.5)], &[]).next(), Step::Unchanged);
        assert_eq!(situation(8, &[(7, 4.0)], &[]).next(), Step::Measure(7), "maybe a change");
        let doubtful = [(7, 4.9), (7, -4.9), (7, 4.9), (7, -4.9), (7, 4.9), (7, -4.9)];
        assert_eq!(situation(8, &doubtful, &[]).next(), Step::Unchanged, "the mean is zero");
        let mut unclear = situation(8, &doubtful, &[]);
        unclear.measured.iter_mut().for_each(|one| one.error = 20.0);
        assert_eq!(unclear.next(), Step::Unclear);
        unclear.earlier = 6;
        assert_eq!(unclear.next(), Step::Measure(7), "another invocation measures more");
        unclear.measured.extend(unclear.measured.clone());
        assert_eq!(unclear.next(), Step::Unclear, "and has the same limit");
    }

    #[test]
    fn the_bad_commit_is_measured_once_more_after_the_machine_has_changed() {
        let mut moved = situation(8, &[(7, 40.0), (3, 0.0)], &[]);
        moved.measured[1].state = 1;
        assert_eq!(moved.next(), Step::Measure(7), "the change in state 1 is unknown");
        moved.measured.push(Measured { difference: 0.5, state: 1, ..moved.measured[0] });
        let Step::Measure(next) = moved.next() else { panic!("{:?}", moved.next()) };
        assert!(next < 7, "it is invisible there, but not nothing: state 0 has shown it");
        let mut never = situation(8, &[(7, 0.5), (7, 0.5)], &[]);
        never.measured[1].state = 1;
        assert_eq!(never.next(), Step::Unchanged);
    }

    #[test]
    fn an_invocation_has_a_limit_and_the_next_one_continues() {
        let mut measured = vec![(7, 40.0); 6];
        measured.extend([(3, 0.0), (3, 40.0)].repeat(60));
        let mut unclear = situation(8, &measured, &[]);
        unclear.measured.iter_mut().for_each(|one| one.error = 30.0);
        assert_eq!(unclear.next(), Step::Unclear);
        unclear.earlier = unclear.measured.len() - 99;
        assert!(matches!(unclear.next(), Step::Measure(_)));
    }
}
