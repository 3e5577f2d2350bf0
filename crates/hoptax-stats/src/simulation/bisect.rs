//! Bisects made-up histories, measured with noise: one of 40 commits adds 40 µs. For comparison, a yes-or-no
//! bisect of the same histories measures each commit at most once.
//!
//! `cargo test -p hoptax-stats --lib bisect -- --nocapture` prints how many bisects named the commit.

use super::world::normal;
use crate::bisect::{Measured, Suspects};
use hoptax_format::random::Random;

const COMMITS: usize = 40;
/// The change, µs.
const CHANGE: f64 = 40.0;
/// Probability at which a bisect stops.
const SURE: f64 = 0.95;
/// A bisect that needs more measurements than this has failed.
const MOST: usize = 200;

/// How measurements scatter.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Noise {
    /// Normally distributed, with the standard error that the measurement reports.
    Gaussian,
    /// Student's t with 4 degrees of freedom, scaled to the standard error that the measurement reports. On
    /// each side, one measurement in 40 is off by more than 1.96 standard errors, as with a normal
    /// distribution. But one in 200 is off by more than 3.3.
    Heavy,
}

/// A change, and how it is measured.
#[derive(Debug, Clone, Copy)]
struct Case {
    change: f64,
    /// Standard error of a measurement, in the unit of the change.
    error: f64,
    noise: Noise,
    /// The change in the machine's second state, as a share of the change in the first one. The state changes
    /// at random between measurements, with the probability [`MOVES`]. Absent if there is only one state.
    elsewhere: Option<f64>,
}

const ADDED: Case = Case { change: CHANGE, error: 8.0, noise: Noise::Gaussian, elsewhere: None };

/// A change of the CPU time per request by 3 %, in per cent. Each measurement starts two processes, and each
/// start shifts the figure by about 1 %. The remaining error is 0.5 %, so the whole error is 1.5 %.
const CPU: Case = Case { change: 3.0, error: 1.5, noise: Noise::Gaussian, elsewhere: None };

/// Probability that the machine changes its state between two measurements.
const MOVES: f64 = 0.2;

/// A history of commits.
struct History {
    culprit: usize,
    case: Case,
    random: Random,
    /// The machine's state.
    state: usize,
}

impl History {
    fn new(seed: u64, case: Case) -> Self {
        let mut random = Random::new(seed);
        let culprit = random.below(COMMITS as u64) as usize;
        Self { culprit, case, random, state: 0 }
    }

    fn measure(&mut self, commit: usize) -> Measured {
        let Case { change, error, noise, elsewhere } = self.case;
        if elsewhere.is_some() && self.random.unit() < MOVES {
            self.state = 1 - self.state;
        }
        let here = if self.state == 0 { 1.0 } else { elsewhere.unwrap_or(1.0) };
        let change = if commit >= self.culprit { here * change } else { 0.0 };
        let mut draw = || normal(&mut self.random);
        let deviation = match noise {
            Noise::Gaussian => draw(),
            // The variance of t with 4 degrees is 2.
            Noise::Heavy => {
                let squares: f64 = (0..4).map(|_| draw().powi(2)).sum();
                draw() / (squares / 4.0).sqrt() / 2.0_f64.sqrt()
            }
        };
        Measured { commit, difference: change + error * deviation, error, state: self.state }
    }

    /// The commit that the Bayesian bisect names, and the number of measurements.
    fn bayesian(&mut self) -> (Option<usize>, usize) {
        let mut measured = vec![self.measure(COMMITS - 1)];
        while measured.len() < MOST {
            let suspects = Suspects::new(COMMITS, &measured, self.state);
            if let Some(found) = suspects.probabilities().iter().position(|one| *one >= SURE) {
                return (Some(found), measured.len());
            }
            let next = match suspects.change() {
                Some(_) => suspects.next(0..COMMITS, self.case.error),
                None => Some(COMMITS - 1),
            };
            let Some(next) = next else { break };
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

/// Seeds of the histories. The model's constants were chosen on the histories with seeds 0 to 199, so the
/// tests use others.
const FIRST_SEED: u64 = 10_000;

/// How many bisects of each kind named the commit, and the mean number of measurements of the Bayesian ones.
fn bisects(runs: u64, case: Case) -> (usize, usize, f64) {
    let (mut right, mut plain, mut measurements) = (0, 0, 0);
    for seed in FIRST_SEED..FIRST_SEED + runs {
        let mut history = History::new(seed, case);
        let (found, needed) = history.bayesian();
        right += usize::from(found == Some(history.culprit));
        measurements += needed;
        plain += usize::from(history.yes_or_no() == history.culprit);
    }
    let mean = measurements as f64 / runs as f64;
    println!("{case:?}: {right} of {runs} right after {mean:.1} measurements; yes or no: {plain} of {runs}");
    (right, plain, mean)
}

/// A run of about ten seconds on two shared CPUs has a standard error of 8 µs.
#[test]
fn names_the_commit_in_nearly_all_runs() {
    let (right, _, measurements) = bisects(20, ADDED);
    assert!(right >= 19, "{right} of 20");
    assert!(measurements < 14.0, "{measurements}");
}

/// With noise of half the change, each answer of a yes-or-no bisect is wrong with a probability of 16 %. The
/// Bayesian bisect measures more often instead, and is as sure as it says.
#[test]
fn noise_costs_measurements_and_not_the_answer() {
    let (right, plain, _) = bisects(100, Case { error: 20.0, ..ADDED });
    assert!(right >= 80, "{right} of 100");
    assert!(plain < 70, "{plain} of 100");
}

/// At least 19 of 20 bisects are right. The limits are two standard errors of 100 runs below that.
#[test]
fn heavy_tails_and_changes_of_cpu_time_do_not_mislead() {
    let heavy = Case { noise: Noise::Heavy, ..ADDED };
    for case in [heavy, CPU, Case { noise: Noise::Heavy, ..CPU }] {
        let (right, _, measurements) = bisects(100, case);
        assert!(right >= 90, "{case:?}: {right} of 100");
        assert!(measurements < 40.0, "{case:?}: {measurements}");
    }
}

/// Before one measurement in five, the hypervisor moves CPUs. In the second state, the change is invisible,
/// smaller, or has the opposite sign.
#[test]
fn a_machine_that_moves_its_cpus_does_not_mislead() {
    for elsewhere in [0.0, 0.25, -0.5] {
        let case = Case { elsewhere: Some(elsewhere), ..ADDED };
        let (right, _, measurements) = bisects(100, case);
        assert!(right >= 85, "{case:?}: {right} of 100");
        assert!(measurements < 40.0, "{case:?}: {measurements}");
    }
}
