//! Compares a figure of one run with the same figure of another run.
//!
//! Rounds show how a figure scatters within its run. From run to run it scatters more, by a share of the
//! figure that only repeated runs show. Both parts are in the interval of a [`RunFigure`]. The machine may
//! also have changed from one run to the other, by a factor. The caller passes a bound of this factor.
//!
//! Every rule is symmetric: if the runs are swapped, the verdict is mirrored.

use super::Estimate;
use super::beta::student_beyond;
use super::two_samples::{Contrast, Scatter, fieller, variance_of, welch_degrees};

/// Number of runs from which the scatter of runs was measured. It determines the degrees of freedom.
const KNOWN_RUNS: usize = 40;
/// Half of a 95 % interval of the scatter of runs ÷ its standard deviation. This is the quantile of the
/// normal distribution, because the half-width is a constant and not an estimate.
const NORMAL: f64 = 1.96;

/// A figure of one run, and its variance in other runs of the same plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunFigure {
    value: f64,
    /// Variance that the rounds show, and the number of rounds. Absent if there is only one round.
    of_rounds: Option<(f64, usize)>,
    /// Variance from run to run.
    of_runs: f64,
}

/// What may have changed a figure between two runs besides the gateway.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Allowance {
    /// The machine may have made a figure this many times as large, or as small. At least 1.
    pub factor: f64,
    /// A difference up to this size does not count, in the figure's unit.
    pub floor: f64,
}

/// The comparison of two runs in one figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoRuns {
    /// Second figure − first figure. The interval contains the scatter of runs, but not the allowance.
    pub difference: Contrast,
    /// Second ÷ first − 1, with the same interval. Absent if the first figure is not above zero.
    pub change: Option<Contrast>,
    /// The difference that must be exceeded: the allowance, in the figure's unit.
    pub floor: f64,
    /// p-value of the hypothesis that the allowance explains the difference. Absent if a run has only one
    /// round.
    pub p_value: Option<f64>,
    /// Standard error that `p_value` is computed from, with its degrees of freedom. Absent with `p_value`.
    pub error: Option<(f64, f64)>,
}

impl RunFigure {
    /// `in_run` is the figure with the interval from its rounds. Separate runs of the same plan scatter by
    /// ±`share` of the figure (95 % interval).
    pub fn new(in_run: &Estimate, share: f64) -> Self {
        let of_runs = (share * in_run.estimate / NORMAL).powi(2);
        Self { value: in_run.estimate, of_rounds: variance_of(in_run), of_runs }
    }

    /// The figure.
    pub fn value(&self) -> f64 {
        self.value
    }

    fn parts(&self) -> Option<[(f64, usize); 2]> {
        Some([self.of_rounds?, (self.of_runs, KNOWN_RUNS)])
    }

    /// Variance, with both parts.
    fn variance(&self) -> Option<f64> {
        Some(self.of_rounds?.0 + self.of_runs)
    }

    fn rounds(&self) -> usize {
        self.of_rounds.map_or(1, |(_, count)| count)
    }
}

impl TwoRuns {
    /// Compares `second` with `first`.
    pub fn new(first: &RunFigure, second: &RunFigure, allowance: Allowance) -> Self {
        let (a, b) = (first.value, second.value);
        let rounds = first.rounds().min(second.rounds());
        // (standard error, degrees of freedom) of the difference between the two figures, each multiplied by
        // its weight.
        let error = |of_first: f64, of_second: f64| {
            let weighted = |figure: &RunFigure, weight: f64| {
                figure.parts().map(|parts| parts.map(|(variance, count)| (variance * weight * weight, count)))
            };
            let (one, two) = weighted(first, of_first).zip(weighted(second, of_second))?;
            let parts: Vec<(f64, usize)> = one.into_iter().chain(two).collect();
            let variance: f64 = parts.iter().map(|(variance, _)| variance).sum();
            Some((variance.sqrt(), welch_degrees(&parts)))
        };
        let smaller = a.min(b).max(0.0);
        let floor = (allowance.factor - 1.0) * smaller + allowance.floor;
        let beyond = (b - a).abs() - floor;
        let grown =
            |is_smaller: bool, value: f64| if is_smaller && value > 0.0 { allowance.factor } else { 1.0 };
        let of_test = error(grown(a <= b, a), grown(b < a, b));
        let p_value = of_test.map(|(error, degrees)| match error {
            _ if beyond <= 0.0 => 1.0,
            0.0 => 0.0,
            error => student_beyond(beyond / error, degrees),
        });
        let change = (a > 0.0).then(|| {
            let degrees = error(b / a, 1.0).map(|(_, degrees)| degrees);
            let scatter = first.variance().zip(second.variance()).zip(degrees);
            let scatter = scatter.map(|((aa, bb), degrees)| Scatter { aa, bb, ab: 0.0, degrees });
            fieller(a, b, scatter, rounds)
        });
        let difference = Contrast::new(b - a, error(1.0, 1.0), rounds);
        Self { difference, change, floor, p_value, error: of_test }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::random::Random;

    const NOTHING: Allowance = Allowance { factor: 1.0, floor: 0.0 };

    fn around(estimate: f64, half: f64, trials: u32) -> Estimate {
        Estimate {
            low: Some(estimate - half),
            high: Some(estimate + half),
            ..Estimate::bare(estimate, trials)
        }
    }

    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
    }

    /// The figure of a run of 20 rounds whose true mean is `mean`, if runs scatter by `of_runs` and rounds by
    /// `of_rounds` (standard deviations, the first as a share).
    fn run(random: &mut Random, mean: f64, of_runs: f64, of_rounds: f64, share: f64) -> RunFigure {
        let level = mean * (1.0 + of_runs * normal(random));
        let rounds: Vec<f64> = (0..20).map(|_| level + of_rounds * normal(random)).collect();
        RunFigure::new(&crate::of_mean(&rounds).expect("rounds"), share)
    }

    fn called(
        random: &mut Random,
        allowance: Allowance,
        means: (f64, f64),
        of_runs: f64,
        share: f64,
    ) -> usize {
        let pair = |random: &mut Random| {
            let first = run(random, means.0, of_runs, 3.0, share);
            TwoRuns::new(&first, &run(random, means.1, of_runs, 3.0, share), allowance)
        };
        (0..2000).filter(|_| pair(random).p_value.is_some_and(|p| p <= 0.05)).count()
    }

    #[test]
    fn equal_runs_differ_in_one_of_twenty_comparisons() {
        let mut random = Random::new(7);
        // A share of 8 % is 1.96 standard deviations of 4.1 %.
        let wrong = called(&mut random, NOTHING, (50.0, 50.0), 0.08 / 1.96, 0.08);
        assert!((60..=140).contains(&wrong), "{wrong} of 2000");
        // Without the scatter of runs in the interval, most pairs of equal runs would differ.
        assert!(called(&mut random, NOTHING, (50.0, 50.0), 0.08 / 1.96, 0.0) > 800);
    }

    #[test]
    fn a_factor_allows_the_same_in_both_directions() {
        let mut random = Random::new(8);
        let placement = Allowance { factor: 3.0, floor: 0.0 };
        for means in [(22.0, 48.0), (48.0, 22.0)] {
            assert_eq!(called(&mut random, placement, means, 0.04, 0.08), 0, "{means:?}");
        }
        for means in [(22.0, 150.0), (150.0, 22.0)] {
            assert!(called(&mut random, placement, means, 0.04, 0.08) > 1980, "{means:?}");
        }
    }

    /// Figures below zero, near zero and far above it.
    #[test]
    fn swapped_runs_have_mirrored_differences_and_the_same_p_value() {
        let mut random = Random::new(9);
        for _ in 0..2000 {
            let mut one = || {
                let (value, half) = (40.0 * random.unit() * random.unit() - 4.0, 4.0 * random.unit());
                RunFigure::new(&around(value, half, 2 + (30.0 * random.unit()) as u32), 0.15 * random.unit())
            };
            let (a, b) = (one(), one());
            let allowance = Allowance { factor: 1.0 + 2.0 * random.unit(), floor: random.unit() };
            let (there, back) = (TwoRuns::new(&a, &b, allowance), TwoRuns::new(&b, &a, allowance));
            assert!((there.difference.estimate + back.difference.estimate).abs() < 1e-9);
            assert!((there.floor - back.floor).abs() < 1e-9);
            let (p, q) = (there.p_value.expect("rounds"), back.p_value.expect("rounds"));
            assert!((p - q).abs() < 1e-9, "{a:?} {b:?} {allowance:?}: {p} and {q}");
        }
    }

    #[test]
    fn one_round_shows_nothing() {
        let one = RunFigure::new(&Estimate::bare(5.0, 1), 0.1);
        let many = RunFigure::new(&around(9.0, 0.1, 20), 0.1);
        let compared = TwoRuns::new(&one, &many, NOTHING);
        assert_eq!((compared.p_value, compared.difference.interval()), (None, None));
    }
}
