//! Finds the commit that changed a figure, from measurements with noise.
//!
//! Commits are numbered from 0, oldest first. The good commit before them has no number. Exactly one of the
//! commits changed the figure, by an unknown amount. A measurement of a commit is its figure − the good
//! commit's figure, measured in the same rounds. For commits before the change, its mean is zero. From the
//! change on, its mean is the amount. Its noise follows Student's t, with the standard error that the
//! measurement reports.
//!
//! The amount depends on the state of the machine: a proxy with 1 µs more work per request needed 5 µs more
//! CPU time with both CPUs on one core, and 1 µs less on two cores (`records/2026-11-27-vm-bisect-cpu`). So
//! each state has an amount of its own.
//!
//! Each commit is a hypothesis. The prior is uniform. The likelihood of a hypothesis is the integral over all
//! amounts, each equally likely, approximated at the best amount. Under a hypothesis, measurements of earlier
//! commits scatter around zero. In each state, measurements of the commit and of later commits scatter around
//! a common mean. So a measurement that is nearly right counts nearly in full, and the others outvote a
//! single wrong measurement. A yes-or-no bisect never recovers from a wrong answer.
//!
//! The next commit to measure is the one whose measurement separates the hypotheses best: the mutual
//! information of its outcome and of the place of the change (D. J. C. MacKay, "Information-Based Objective
//! Functions for Active Data Selection", 1992; for noisy bisection M. Horstein, "Sequential Transmission
//! Using Noiseless Feedback", 1963).

use super::Estimate;
use std::collections::BTreeMap;

/// Scatter of figures in addition to the measured noise, as a share of the whole change. Other commits have
/// small effects of their own. Without this, precise measurements of small effects would count as proof.
const SCATTER: f64 = 0.1;

/// Degrees of freedom of the noise, which follows Student's t. Real noise has heavier tails than a Gaussian;
/// a Gaussian would let one outlier outvote several good measurements.
const DEGREES: f64 = 8.0;

/// Exponent of the likelihood, because the standard error of a few rounds is itself an estimate. At 1, a
/// search that stops at 95 % is right in 93 to 95 % of simulations. The idea is that of safe Bayes (P.
/// Grünwald, 2012).
const WEIGHT: f64 = 0.7;

/// Number of iterations that find the amount under Student's t.
const STEPS: usize = 6;

/// Half-width of a 95 % interval, in standard errors.
const HALF_WIDTH: f64 = 1.96;

/// Smallest variance, so that measurements without any noise can be weighed too.
const LEAST_VARIANCE: f64 = 1e-12;

/// Number of points, and reach in standard errors, of the sums that compute the information of a measurement.
/// With these values, the result is exact to three digits.
const POINTS: usize = 128;
const REACH: f64 = 6.0;

/// A measurement of a commit against the good commit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Number of the commit.
    pub commit: usize,
    /// Figure of the commit − figure of the good commit.
    pub difference: f64,
    /// Standard error of the difference.
    pub error: f64,
    /// Number of the machine's state.
    pub state: usize,
}

impl Measured {
    /// The measurement of a commit from a difference with its interval: the Gaussian with the same interval.
    /// `None` for a difference without an interval.
    pub fn new(commit: usize, difference: &Estimate, state: usize) -> Option<Self> {
        let error = difference.half_width()? / HALF_WIDTH;
        Some(Self { commit, difference: difference.estimate, error, state })
    }
}

/// How likely it is for each commit that it changed the figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspects {
    /// The probability of each commit. They add up to 1.
    probabilities: Vec<f64>,
    /// For each commit, mean and variance of the amount in one state if this commit changed the figure.
    changes: Vec<(f64, f64)>,
    /// Standard deviation of the [scatter](SCATTER) in that state.
    scatter: f64,
}

impl Suspects {
    /// Computes the probabilities from the measurements. If the last commit has not been measured in a state,
    /// measurements in that state do not count, because the amount there is unknown. If no measurement
    /// counts, all commits are equally likely. The methods [`Self::change`] and [`Self::information`] are
    /// about `state`.
    pub fn new(commits: usize, measured: &[Measured], state: usize) -> Self {
        let mut states: BTreeMap<usize, Vec<Measured>> = BTreeMap::new();
        for one in measured {
            states.entry(one.state).or_default().push(*one);
        }
        let mut weights = vec![0.0; commits];
        let (mut changes, mut scatter) = (vec![(0.0, f64::INFINITY); commits], 0.0);
        for (number, of_state) in states {
            let whole = common_mean(of_state.iter().filter(|one| one.commit + 1 == commits), 0.0);
            let Some((amount, _)) = whole else { continue };
            let scatter_here = SCATTER * amount.abs();
            let (likelihoods, changes_here): (Vec<f64>, Vec<(f64, f64)>) =
                (0..commits).map(|commit| hypothesis(commit, &of_state, scatter_here)).unzip();
            weights.iter_mut().zip(likelihoods).for_each(|(sum, likelihood)| *sum += likelihood);
            if number == state {
                (changes, scatter) = (changes_here, scatter_here);
            }
        }
        let most = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut probabilities: Vec<f64> = weights.iter().map(|weight| (weight - most).exp()).collect();
        let sum: f64 = probabilities.iter().sum();
        probabilities.iter_mut().for_each(|one| *one /= sum);
        Self { probabilities, changes, scatter }
    }

    /// The probability of each commit.
    pub fn probabilities(&self) -> &[f64] {
        &self.probabilities
    }

    /// The amount of the change with its 95 % interval, over all commits. `None` until the last commit has
    /// been measured in this state.
    pub fn change(&self) -> Option<(f64, f64, f64)> {
        let (mean, variance) = self.mixture(0..self.probabilities.len())?;
        let half = HALF_WIDTH * variance.sqrt();
        variance.is_finite().then_some((mean, mean - half, mean + half))
    }

    /// Expected information of measuring this commit with this standard error, in bits: 0 if the outcome is
    /// certain, 1 if it would halve the suspects without any doubt.
    ///
    /// The last commit always has the change, so measuring it again does not directly show which commit made
    /// the change. But it shows how large the change is. This decides the search if the last commit was
    /// measured once, wrongly, and no other commit shows a change.
    pub fn information(&self, commit: usize, error: f64) -> f64 {
        let variance = (error.powi(2) + self.scatter.powi(2)).max(LEAST_VARIANCE);
        if commit + 1 == self.probabilities.len() {
            return self.information_of_amount(variance);
        }
        let after: f64 = self.probabilities[..=commit].iter().sum();
        // If the amount is unknown, the commit that halves the suspects is best.
        let amount = self.mixture(0..commit + 1).filter(|(_, variance)| variance.is_finite());
        let Some((mean, of_amount)) = amount else { return entropy(after) };
        mutual_information([(1.0 - after, 0.0, variance), (after, mean, variance + of_amount)])
    }

    /// Information of another measurement of the last commit. It contains the change, no matter which suspect
    /// made it. It can only separate suspects with a large change from suspects with a small one.
    fn information_of_amount(&self, variance: f64) -> f64 {
        let all = 0..self.probabilities.len();
        let Some((mean, _)) = self.mixture(all.clone()).filter(|(_, variance)| variance.is_finite()) else {
            return 0.0;
        };
        let is_large = |commit: &usize| self.changes[*commit].0.abs() >= mean.abs();
        let of = |group: Vec<usize>| {
            let share: f64 = group.iter().map(|commit| self.probabilities[*commit]).sum();
            let (mean, of_amount) = self.mixture(group).unwrap_or((0.0, 0.0));
            (share, mean, variance + of_amount)
        };
        let (large, small) = all.partition(is_large);
        mutual_information([of(large), of(small)])
    }

    /// The commit that is worth most to measure, of these candidates. `None` if no measurement has any
    /// information.
    pub fn next(&self, candidates: impl IntoIterator<Item = usize>, error: f64) -> Option<usize> {
        let informed = candidates.into_iter().map(|commit| (commit, self.information(commit, error)));
        let best = informed.max_by(|one, other| one.1.total_cmp(&other.1).then(other.0.cmp(&one.0)));
        best.filter(|(_, information)| *information > 0.0).map(|(commit, _)| commit)
    }

    /// Mean and variance of the amount if one of these commits changed the figure. `None` if that is
    /// impossible.
    fn mixture(&self, commits: impl IntoIterator<Item = usize> + Clone) -> Option<(f64, f64)> {
        let share: f64 = commits.clone().into_iter().map(|commit| self.probabilities[commit]).sum();
        if share <= 0.0 {
            return None;
        }
        let weighted = |value: &dyn Fn((f64, f64)) -> f64| {
            let each = commits.clone().into_iter().filter(|commit| self.probabilities[*commit] > 0.0);
            each.map(|commit| self.probabilities[commit] * value(self.changes[commit])).sum::<f64>() / share
        };
        let mean = weighted(&|(mean, _)| mean);
        Some((mean, weighted(&|(of_one, variance)| variance + (of_one - mean).powi(2))))
    }
}

/// The logarithm of the likelihood that `commit` changed the figure, up to a constant, and the amount with
/// its variance. Both are from the measurements in one state.
fn hypothesis(commit: usize, measured: &[Measured], scatter: f64) -> (f64, (f64, f64)) {
    let (after, before): (Vec<&Measured>, Vec<&Measured>) =
        measured.iter().partition(|one| one.commit >= commit);
    // The last commit has been measured in this state, so `after` is never empty.
    let (mean, of_mean) = common_mean(after.iter().copied(), scatter).unwrap_or((0.0, 1.0));
    let amount = robust_mean(&after, mean, scatter);
    let likelihood =
        log_likelihood(&before, 0.0, scatter) + log_likelihood(&after, amount, scatter) + 0.5 * of_mean.ln();
    (likelihood, (mean, of_mean))
}

/// The logarithm of the likelihood of measurements with this mean, up to a constant.
fn log_likelihood(group: &[&Measured], mean: f64, scatter: f64) -> f64 {
    let of_one = |one: &&Measured| (1.0 + squares(one, mean, scatter) / (DEGREES - 2.0)).ln();
    -0.5 * WEIGHT * (DEGREES + 1.0) * group.iter().map(of_one).sum::<f64>()
}

/// The mean under Student's t, by reweighting from a first guess: a measurement far from the others counts
/// little.
fn robust_mean(group: &[&Measured], guess: f64, scatter: f64) -> f64 {
    (0..STEPS).fold(guess, |mean, _| {
        let weight =
            |one: &Measured| 1.0 / (variance(one, scatter) * (DEGREES - 2.0 + squares(one, mean, scatter)));
        let sum: f64 = group.iter().map(|one| weight(one) * one.difference).sum();
        sum / group.iter().map(|one| weight(one)).sum::<f64>()
    })
}

/// The squared deviation in standard deviations.
fn squares(one: &Measured, mean: f64, scatter: f64) -> f64 {
    (one.difference - mean).powi(2) / variance(one, scatter)
}

/// Mean of the measurements, weighted by their precision, and its variance. `None` without measurements.
fn common_mean<'m>(measured: impl Iterator<Item = &'m Measured>, scatter: f64) -> Option<(f64, f64)> {
    let (mut precision, mut sum) = (0.0, 0.0);
    for one in measured {
        let weight = 1.0 / variance(one, scatter);
        precision += weight;
        sum += weight * one.difference;
    }
    (precision > 0.0).then(|| (sum / precision, 1.0 / precision))
}

fn variance(one: &Measured, scatter: f64) -> f64 {
    (one.error.powi(2) + scatter.powi(2)).max(LEAST_VARIANCE)
}

/// Information of a measurement about which of two groups is right, bits. Each group has its probability, and
/// the mean and the variance of the outcome.
fn mutual_information(outcomes: [(f64, f64, f64); 2]) -> f64 {
    if outcomes.iter().any(|(share, ..)| *share <= 0.0) {
        return 0.0;
    }
    let of_one = |&(share, mean, variance): &(f64, f64, f64)| {
        // One density can be much narrower than the other one, so each gets points of its own.
        let reach = REACH * variance.sqrt();
        let step = 2.0 * reach / POINTS as f64;
        let at = |point: usize| {
            let value = mean - reach + (point as f64 + 0.5) * step;
            let here = density(value, mean, variance);
            let each =
                outcomes.iter().map(|(share, mean, variance)| share * density(value, *mean, *variance));
            let all: f64 = each.sum();
            if here > 0.0 && all > 0.0 { step * here * (here / all).log2() } else { 0.0 }
        };
        share * (0..POINTS).map(at).sum::<f64>()
    };
    outcomes.iter().map(of_one).sum::<f64>().clamp(0.0, 1.0)
}

fn density(value: f64, mean: f64, variance: f64) -> f64 {
    (-0.5 * (value - mean).powi(2) / variance).exp() / (std::f64::consts::TAU * variance).sqrt()
}

/// Information of a yes-or-no answer without noise, bits.
fn entropy(share: f64) -> f64 {
    let part = |share: f64| if share > 0.0 { -share * share.log2() } else { 0.0 };
    part(share) + part(1.0 - share)
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "raised to the power {}, because" number(WEIGHT);
    METHODOLOGY "Noise follows Student's t with {} degrees" number(DEGREES);
    METHODOLOGY "scatter by a further {} of the change" percent(SCATTER);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(commit: usize, difference: f64, error: f64) -> Measured {
        Measured { commit, difference, error, state: 0 }
    }

    #[test]
    fn before_the_last_commit_is_measured_all_are_equally_likely() {
        for measurements in [&[][..], &[measured(1, 40.0, 1.0)]] {
            let suspects = Suspects::new(4, measurements, 0);
            assert_eq!(suspects.probabilities(), [0.25; 4]);
            assert_eq!(suspects.change(), None);
        }
        let suspects = Suspects::new(8, &[], 0);
        assert_eq!(suspects.next(0..8, 5.0), Some(3), "half of the commits are up to 3");
        assert!((suspects.information(3, 5.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_clear_measurement_halves_the_suspects() {
        let whole = measured(7, 40.0, 1.0);
        let suspects = Suspects::new(8, &[whole, measured(3, 40.5, 1.0)], 0);
        assert!(suspects.probabilities()[..4].iter().all(|one| (one - 0.25).abs() < 0.01), "{suspects:?}");
        let suspects = Suspects::new(8, &[whole, measured(3, -0.5, 1.0)], 0);
        assert!(suspects.probabilities()[4..].iter().all(|one| (one - 0.25).abs() < 0.01), "{suspects:?}");
        assert_eq!(suspects.next(0..8, 1.0), Some(5));
        let both = [whole, measured(4, 0.0, 1.0), measured(5, 40.0, 1.0)];
        let suspects = Suspects::new(8, &both, 0);
        assert!(suspects.probabilities()[5] > 0.99, "{suspects:?}");
        let (change, low, high) = suspects.change().expect("the last commit is measured");
        // Two measurements, each with a standard error of 1 and a scatter of 4.
        let half = 1.96 * (17.0_f64 / 2.0).sqrt();
        assert!(
            (change - 40.0).abs() < 0.05 && (high - low - 2.0 * half).abs() < 0.2,
            "{change} {low} {high}"
        );
    }

    /// Two commits, one measurement of each, both with variance 17. If commit 0 changed the figure, both
    /// measurements scatter around their mean, 30, whose variance is 17 / 2. The density of t with 8 degrees
    /// is ∝ (1 + z² / 6)^-4.5. If commit 1 changed it, the measurement of commit 0 scatters around zero, and
    /// the variance of the amount is 17.
    #[test]
    fn by_hand() {
        let suspects = Suspects::new(2, &[measured(1, 40.0, 1.0), measured(0, 20.0, 1.0)], 0);
        let of_first = (1.0 + 100.0 / 102.0_f64).powf(-9.0 * WEIGHT) * (17.0_f64 / 2.0).sqrt();
        let of_second = (1.0 + 400.0 / 102.0_f64).powf(-4.5 * WEIGHT) * 17.0_f64.sqrt();
        let expected = of_first / (of_first + of_second);
        assert!((suspects.probabilities()[0] - expected).abs() < 1e-9, "{suspects:?} {expected}");
    }

    #[test]
    fn a_wrong_measurement_is_outvoted() {
        let wrong = [measured(9, 40.0, 8.0), measured(4, 40.0, 8.0)];
        assert!(Suspects::new(10, &wrong, 0).probabilities()[5..].iter().sum::<f64>() < 0.05);
        // The change was later: two more measurements of the same commit say so.
        let again =
            [&wrong[..], &[measured(4, 0.0, 4.0), measured(4, 2.0, 4.0), measured(4, 1.0, 4.0)]].concat();
        assert!(Suspects::new(10, &again, 0).probabilities()[5..].iter().sum::<f64>() > 0.95);
    }

    #[test]
    fn information_grows_with_precision_and_vanishes_at_the_ends() {
        let suspects = Suspects::new(16, &[measured(15, 40.0, 2.0)], 0);
        let information: Vec<f64> = [1.0, 5.0, 20.0, 80.0].map(|error| suspects.information(7, error)).into();
        assert!(information.is_sorted_by(|one, other| one > other), "{information:?}");
        assert!(information[0] > 0.99 && information[3] < 0.2, "{information:?}");
        assert!(suspects.information(15, 1.0) < 1e-9, "the last commit always shows the change");
        assert!(suspects.information(0, 1.0) < suspects.information(7, 1.0));
        assert_eq!(suspects.next([2, 3], 1.0), Some(3), "only candidates are measured");
    }

    /// If only the first measurement of the last commit shows a change, this measurement can be an outlier.
    /// More measurements of the other commits cannot decide that.
    #[test]
    fn the_last_commit_is_measured_again_if_no_other_one_shows_its_change() {
        let mut measurements = vec![measured(39, 40.0, 8.0)];
        measurements.extend((20..39).map(|commit| measured(commit, 0.0, 8.0)));
        let suspects = Suspects::new(40, &measurements, 0);
        assert!(suspects.probabilities()[39] < 0.95, "{suspects:?}");
        assert_eq!(suspects.next(0..40, 8.0), Some(39));
        measurements.push(measured(39, 40.0, 8.0));
        assert!(Suspects::new(40, &measurements, 0).probabilities()[39] > 0.95);
    }

    /// In state 1, the change is nearly invisible: a commit with the change measures about the same as a
    /// commit without it.
    #[test]
    fn each_state_has_an_amount_of_its_own() {
        let elsewhere = |commit, difference| Measured { state: 1, ..measured(commit, difference, 1.0) };
        let halved = [measured(9, 40.0, 1.0), measured(4, 40.5, 1.0)];
        let mixed = [&halved[..], &[elsewhere(3, 1.0)]].concat();
        let before = Suspects::new(10, &halved, 0);
        assert_eq!(Suspects::new(10, &mixed, 0), before, "the amount in state 1 is unknown");
        assert_eq!(Suspects::new(10, &mixed, 1).change(), None);
        let known = [&mixed[..], &[elsewhere(9, 0.5)]].concat();
        let suspects = Suspects::new(10, &known, 1);
        let change = suspects.change().expect("the last commit is measured there");
        assert!(change.0 < 1.0 && change.2 < 3.0, "{change:?}");
        let first: f64 = suspects.probabilities()[..4].iter().sum();
        assert!((0.3..0.9).contains(&first), "a measurement without information decides nothing: {first}");
        assert!(suspects.information(2, 1.0) < 0.1, "and another one would not help");
        assert!(Suspects::new(10, &known, 0).information(2, 1.0) > 0.8);
    }

    #[test]
    fn measurements_without_noise_are_weighed() {
        let exact = [measured(3, 5.0, 0.0), measured(1, 0.0, 0.0), measured(2, 5.0, 0.0)];
        let suspects = Suspects::new(4, &exact, 0);
        assert!(suspects.probabilities()[2] > 0.99, "{suspects:?}");
        let none = Suspects::new(3, &[measured(2, 0.0, 0.0)], 0);
        assert!(none.probabilities().iter().all(|one| one.is_finite()), "{none:?}");
    }

    #[test]
    fn a_measurement_has_the_interval_of_its_difference() {
        let difference = Estimate { estimate: 40.0, low: Some(20.4), high: Some(59.6), trials: 10 };
        let one = Measured::new(3, &difference, 0).expect("an interval");
        assert!((one.error - 10.0).abs() < 1e-9 && one.commit == 3);
        assert_eq!(Measured::new(3, &Estimate::bare(40.0, 1), 0), None);
    }
}
