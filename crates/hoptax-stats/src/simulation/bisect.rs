//! Bisects of made-up histories, measured with noise: one of 40 commits adds 40 µs. Beside them, a yes-or-no bisect of the
//! same histories, which measures each commit once and never again.
//!
//! `cargo test -p hoptax-stats --lib bisect -- --nocapture` prints how many bisects named the commit.

use super::world::normal;
use crate::bisect::{Measured, Suspects};
use hoptax_load::random::Random;

const COMMITS: usize = 40;
/// The change, µs.
const CHANGE: f64 = 40.0;
/// Probability at which a bisect stops.
const SURE: f64 = 0.95;
/// A bisect that needs more measurements than this has failed.
const MOST: usize = 200;

/// A history whose commits are measured with this standard error, µs.
struct History {
    culprit: usize,
    error: f64,
    random: Random,
}

impl History {
    fn new(seed: u64, error: f64) -> Self {
        let mut random = Random::new(seed);
        let culprit = random.below(COMMITS as u64) as usize;
        Self { culprit, error, random }
    }

    fn measure(&mut self, commit: usize) -> Measured {
        let change = if commit >= self.culprit { CHANGE } else { 0.0 };
        let difference = change + self.error * normal(&mut self.random);
        Measured { commit, difference, error: self.error }
    }

    /// The commit that the Bayesian bisect names, and the number of measurements.
    fn bayesian(&mut self) -> (Option<usize>, usize) {
        let mut measured = vec![self.measure(COMMITS - 1)];
        while measured.len() < MOST {
            let suspects = Suspects::new(COMMITS, &measured);
            if let Some(found) = suspects.probabilities().iter().position(|one| *one >= SURE) {
                return (Some(found), measured.len());
            }
            let Some(next) = suspects.next(0..COMMITS, self.error) else { break };
            measured.push(self.measure(next));
        }
        (None, measured.len())
    }

    /// The commit that a yes-or-no bisect names: a commit is bad if it shows more than half of the change.
    fn yes_or_no(&mut self) -> usize {
        let threshold = self.measure(COMMITS - 1).difference / 2.0;
        let (mut low, mut high) = (0, COMMITS - 1);
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.measure(middle).difference > threshold { high = middle } else { low = middle + 1 }
        }
        low
    }
}

/// How many bisects of each kind named the commit, and the mean number of measurements of the Bayesian ones.
fn bisects(runs: u64, error: f64) -> (usize, usize, f64) {
    let (mut right, mut plain, mut measurements) = (0, 0, 0);
    for seed in 0..runs {
        let mut history = History::new(seed, error);
        let (found, needed) = history.bayesian();
        right += usize::from(found == Some(history.culprit));
        measurements += needed;
        plain += usize::from(history.yes_or_no() == history.culprit);
    }
    let mean = measurements as f64 / runs as f64;
    println!(
        "±{error} µs: {right} of {runs} right after {mean:.1} measurements; yes or no: {plain} of {runs}"
    );
    (right, plain, mean)
}

/// A standard error of 8 µs is that of a run of about ten seconds on two shared CPUs.
#[test]
fn names_the_commit_in_nearly_all_runs() {
    let (right, _, measurements) = bisects(20, 8.0);
    assert!(right >= 19, "{right} of 20");
    assert!(measurements < 14.0, "{measurements}");
}

/// With noise of half the change, each answer of a yes-or-no bisect is wrong with a probability of 16 %. The Bayesian bisect
/// measures more often instead, and is as sure as it says.
#[test]
fn noise_costs_measurements_and_not_the_answer() {
    let (right, plain, _) = bisects(200, 20.0);
    assert!(right >= 180, "{right} of 200");
    assert!(plain < 140, "{plain} of 200");
}
