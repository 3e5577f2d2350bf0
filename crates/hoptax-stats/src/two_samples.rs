//! Compares two groups of rounds. The rounds of one run are compared in pairs. The rounds of two runs are
//! independent samples.

use super::beta::{student_beyond, student_within};
use super::rounds::MOST_UNITS;
use super::{Estimate, mean, standard_deviation};
use schemars::JsonSchema;
use serde::Serialize;

const CONFIDENCE: f64 = 0.95;

/// Difference of two means (second − first), with its 95 % interval and its p-value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Contrast {
    /// Mean of the second group − mean of the first group.
    pub estimate: f64,
    /// Lower end of the interval. Absent if a group has only one round.
    pub low: Option<f64>,
    /// Upper end of the interval. Absent if a group has only one round.
    pub high: Option<f64>,
    /// Two-sided p-value of the hypothesis "no difference". Absent if a group has only one round.
    pub p_value: Option<f64>,
    /// Number of pairs, if the values are paired by round. Otherwise the number of rounds in the smaller
    /// group.
    pub rounds: u32,
    /// Degrees of freedom of the interval. Absent if there is no interval, and for a ratio of means.
    #[serde(skip)]
    pub degrees: Option<f64>,
}

impl Contrast {
    /// The interval, if there is one.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// True if there is an interval and `value` is outside it.
    pub fn excludes(&self, value: f64) -> bool {
        self.interval().is_some_and(|(low, high)| value < low || high < value)
    }

    /// The standard error and its degrees of freedom, from the 95 % interval.
    pub fn error(&self) -> Option<(f64, f64)> {
        let (half, degrees) = (self.high? - self.estimate, self.degrees?);
        Some((half / student_within(CONFIDENCE, degrees), degrees))
    }

    /// Converts a figure with a Student's t interval to a contrast. The number of degrees of freedom is one
    /// less than the number of rounds.
    pub fn of(figure: &Estimate) -> Self {
        let error = variance_of(figure).map(|(variance, count)| (variance.sqrt(), count as f64 - 1.0));
        Self::new(figure.estimate, error, figure.trials as usize)
    }

    /// Converts a contrast of logarithms to a relative change, which is the ratio − 1.
    #[must_use]
    pub fn as_change(self) -> Self {
        Self {
            estimate: self.estimate.exp_m1(),
            low: self.low.map(f64::exp_m1),
            high: self.high.map(f64::exp_m1),
            ..self
        }
    }

    pub(super) fn new(estimate: f64, error: Option<(f64, f64)>, rounds: usize) -> Self {
        // `error` is (standard error, degrees of freedom).
        let half = error.map(|(error, degrees)| error * student_within(CONFIDENCE, degrees));
        let p_value = error.map(|(error, degrees)| match (estimate == 0.0, error == 0.0) {
            (true, _) => 1.0,
            (false, true) => 0.0,
            (false, false) => student_beyond(estimate / error, degrees),
        });
        Self {
            estimate,
            low: half.map(|half| estimate - half),
            high: half.map(|half| estimate + half),
            p_value,
            rounds: rounds as u32,
            degrees: error.map(|(_, degrees)| degrees),
        }
    }
}

/// Contrast of pairs (first, second). The values of a pair are from the same round. Uses Student's t of the
/// differences. Absent if there are no pairs.
pub fn paired(pairs: &[(f64, f64)]) -> Option<Contrast> {
    let differences: Vec<f64> = pairs.iter().map(|(first, second)| second - first).collect();
    let error = standard_deviation(&differences)
        .map(|deviation| (deviation / (pairs.len() as f64).sqrt(), pairs.len() as f64 - 1.0));
    Some(Contrast::new(mean(&differences)?, error, pairs.len()))
}

/// Contrast of two independent samples. The scatter of the two samples may differ. Uses Welch's t with
/// Satterthwaite's degrees of freedom (B. L. Welch, "The generalization of 'Student's' problem when several
/// different population variances are involved", Biometrika 34, 1947). Absent if a sample is empty.
pub fn independent(first: &[f64], second: &[f64]) -> Option<Contrast> {
    let estimate = mean(second)? - mean(first)?;
    let error = variance_of_mean(first).zip(variance_of_mean(second)).map(|(a, b)| {
        let degrees = welch_degrees(&[(a, first.len()), (b, second.len())]);
        ((a + b).sqrt(), degrees)
    });
    Some(Contrast::new(estimate, error, first.len().min(second.len())))
}

/// Like [`independent`], for two figures that already have intervals, such as percentiles of merged
/// histograms.
pub fn independent_figures(first: &Estimate, second: &Estimate) -> Contrast {
    let error = variance_of(first).zip(variance_of(second)).map(|(a, b)| {
        let degrees = welch_degrees(&[a, b]);
        ((a.0 + b.0).sqrt(), degrees)
    });
    Contrast::new(second.estimate - first.estimate, error, first.trials.min(second.trials) as usize)
}

/// Like [`change`], for two independent figures that already have intervals.
pub fn change_of_figures(first: &Estimate, second: &Estimate) -> Option<Contrast> {
    let (a, b) = (first.estimate, second.estimate);
    let rounds = first.trials.min(second.trials) as usize;
    let scatter = variance_of(first).zip(variance_of(second)).map(|((aa, n), (bb, m))| Scatter {
        aa,
        bb,
        ab: 0.0,
        degrees: welch_degrees(&[((b / a).powi(2) * aa, n), (bb, m)]),
    });
    (a > 0.0).then(|| fieller(a, b, scatter, rounds))
}

/// The relative change: second ÷ first − 1. Absent if there are no values, or if the mean of `first` is not
/// above zero.
///
/// For pairs whose values are all above zero, this is the geometric mean of each round's ratio, with
/// Student's t of the logarithms. With logarithms, a round in which the machine is slow has the same weight
/// as the other rounds (P. J. Fleming and J. J. Wallace, "How not to lie with statistics: the correct way to
/// summarize benchmark results", Communications of the ACM 29, 1986).
///
/// For all other values, this is the ratio of the means with Fieller's interval: all ratios ρ for which
/// `second − ρ · first` is not distinguishable from zero (E. C. Fieller, "Some problems in interval
/// estimation", Journal of the Royal Statistical Society B 16, 1954). The interval is absent if the interval
/// of `first` contains zero, because the ratio is then unbounded.
pub fn change(first: &[f64], second: &[f64], by_pairs: bool) -> Option<Contrast> {
    let (a, b) = (mean(first)?, mean(second)?);
    if a <= 0.0 {
        return None;
    }
    if by_pairs && first.iter().chain(second).all(|value| *value > 0.0) {
        return paired_ratios(first, second);
    }
    let ratio = b / a;
    let rounds = first.len().min(second.len());
    let scatter = variance_of_mean(first).zip(variance_of_mean(second)).map(|(aa, bb)| {
        let (ab, degrees) = match by_pairs {
            true => (covariance_of_means(first, second), rounds as f64 - 1.0),
            false => (0.0, welch_degrees(&[(ratio * ratio * aa, first.len()), (bb, second.len())])),
        };
        Scatter { aa, bb, ab, degrees }
    });
    Some(fieller(a, b, scatter, rounds))
}

/// Variances and covariance of two figures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scatter {
    pub(super) aa: f64,
    pub(super) bb: f64,
    pub(super) ab: f64,
    pub(super) degrees: f64,
}

/// Computes `b / a − 1` with Fieller's interval. `a` must be above zero.
pub(super) fn fieller(a: f64, b: f64, scatter: Option<Scatter>, rounds: usize) -> Contrast {
    let ratio = b / a;
    let plain = Contrast::new(ratio - 1.0, None, rounds);
    let Some(Scatter { aa, bb, ab, degrees }) = scatter else { return plain };
    let variance = (bb - 2.0 * ratio * ab + ratio * ratio * aa).max(0.0);
    let t = student_within(CONFIDENCE, degrees);
    // Solves (a² − t²·aa)·ρ² − 2·(ab̄ − t²·ab)·ρ + (b² − t²·bb) ≤ 0.
    let square = a * a - t * t * aa;
    let linear = a * b - t * t * ab;
    let constant = b * b - t * t * bb;
    if square <= 0.0 {
        return plain;
    }
    let root = (linear * linear - square * constant).max(0.0).sqrt();
    let contrast = Contrast::new(b - a, Some(((bb - 2.0 * ab + aa).max(0.0).sqrt(), degrees)), rounds);
    let (low, high) = match variance > 0.0 {
        true => ((linear - root) / square, (linear + root) / square),
        false => (ratio, ratio),
    };
    Contrast { low: Some(low - 1.0), high: Some(high - 1.0), p_value: contrast.p_value, ..plain }
}

fn paired_ratios(first: &[f64], second: &[f64]) -> Option<Contrast> {
    let pairs: Vec<(f64, f64)> = first.iter().zip(second).map(|(a, b)| (a.ln(), b.ln())).collect();
    Some(paired(&pairs)?.as_change())
}

/// A hypothesis of [`holm`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adjusted {
    /// The p-value, adjusted for the number of hypotheses.
    pub p_value: f64,
    /// Confidence of the interval that agrees with the adjusted p-value: it excludes the hypothesis exactly
    /// if that p-value is below 0.05.
    pub confidence: f64,
}

/// Adjusts p-values for multiple comparisons. If the caller rejects every hypothesis whose adjusted p-value
/// is at most α, then the probability of at least one false rejection is at most α, even if the tests depend
/// on each other. Results are in the order of the input (S. Holm, "A simple sequentially rejective multiple
/// test procedure", Scandinavian Journal of Statistics 6, 1979).
pub fn holm(p_values: &[f64]) -> Vec<Adjusted> {
    weighted_holm(&p_values.iter().map(|p| (*p, 1.0)).collect::<Vec<_>>())
}

/// [`holm`] with weights, which must be above zero: a hypothesis with twice the weight may have a p-value
/// twice as large. Holm's article has weights too.
pub fn weighted_holm(tests: &[(f64, f64)]) -> Vec<Adjusted> {
    let mut order: Vec<usize> = (0..tests.len()).collect();
    let by_weight = |at: &usize| tests[*at].0 / tests[*at].1;
    order.sort_by(|a, b| by_weight(a).total_cmp(&by_weight(b)));
    let mut adjusted = vec![Adjusted { p_value: 1.0, confidence: CONFIDENCE }; tests.len()];
    let mut least = 0.0_f64;
    for (rank, index) in order.iter().enumerate() {
        let (p_value, weight) = tests[*index];
        let remaining: f64 = order[rank..].iter().map(|at| tests[*at].1).sum();
        let own = by_weight(index) * remaining;
        // An adjusted p-value is never below that of an earlier hypothesis.
        let times = if least > own { least / p_value } else { remaining / weight };
        least = least.max(own);
        adjusted[*index] = Adjusted { p_value: least.min(1.0), confidence: 1.0 - (1.0 - CONFIDENCE) / times };
    }
    adjusted
}

/// The figure with an interval of another confidence. `figure` must have a 95 % interval of Student's t.
/// Without an interval, it remains unchanged.
pub fn with_confidence(figure: &Estimate, confidence: f64) -> Estimate {
    let Some((variance, count)) = variance_of(figure) else { return *figure };
    let half = variance.sqrt() * student_within(confidence, count as f64 - 1.0);
    Estimate { low: Some(figure.estimate - half), high: Some(figure.estimate + half), ..*figure }
}

/// The variance of a figure, computed from the interval of the figure, and the number of rounds (or batches)
/// from which the figure is computed. `None` if the figure has no interval.
pub fn variance_of(figure: &Estimate) -> Option<(f64, usize)> {
    let count = (figure.trials as usize).min(MOST_UNITS);
    let degrees = count.checked_sub(1).filter(|degrees| *degrees > 0)? as f64;
    // Uses the upper end of the interval, because the lower end may have been raised to zero.
    let half = figure.high? - figure.estimate;
    Some(((half / student_within(CONFIDENCE, degrees)).powi(2), count))
}

fn variance_of_mean(values: &[f64]) -> Option<f64> {
    Some(standard_deviation(values)?.powi(2) / values.len() as f64)
}

fn covariance_of_means(first: &[f64], second: &[f64]) -> f64 {
    let (Some(a), Some(b)) = (mean(first), mean(second)) else { return 0.0 };
    let count = first.len() as f64;
    first.iter().zip(second).map(|(x, y)| (x - a) * (y - b)).sum::<f64>() / (count - 1.0) / count
}

/// Degrees of freedom of a sum of variances of means. Each variance is given as (variance, sample size).
pub(super) fn welch_degrees(parts: &[(f64, usize)]) -> f64 {
    let sum: f64 = parts.iter().map(|(variance, _)| variance).sum();
    let below: f64 = parts.iter().map(|(variance, size)| variance * variance / (*size as f64 - 1.0)).sum();
    let least = parts.iter().map(|(_, size)| *size as f64 - 1.0).fold(f64::INFINITY, f64::min);
    if below > 0.0 { sum * sum / below } else { least }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::random::Random;

    #[test]
    fn welch_by_hand() {
        // The means are 2 and 6. The variances s² are 1 for three values and 16/3 for four.
        let contrast = independent(&[1.0, 2.0, 3.0], &[4.0, 4.0, 8.0, 8.0]).expect("values");
        let (a, b) = (1.0 / 3.0, 4.0 / 3.0);
        let degrees = (a + b) * (a + b) / (a * a / 2.0 + b * b / 3.0);
        let half = student_within(0.95, degrees) * (5.0_f64 / 3.0).sqrt();
        assert_eq!((contrast.estimate, contrast.rounds), (4.0, 3));
        assert!((contrast.high.expect("rounds") - 4.0 - half).abs() < 1e-9);
        // The p-value must agree with the interval.
        assert_eq!(contrast.p_value.expect("rounds") < 0.05, contrast.low.expect("rounds") > 0.0);
    }

    #[test]
    fn pairs_show_differences_that_rounds_hide() {
        let pairs = [(10.0, 11.0), (50.0, 51.2), (90.0, 90.9)];
        let (first, second): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        assert!(paired(&pairs).expect("pairs").low.expect("three") > 0.0);
        assert!(independent(&first, &second).expect("values").low.expect("three") < 0.0);
    }

    #[test]
    fn one_round_has_neither_interval_nor_p_value() {
        for contrast in [paired(&[(1.0, 3.0)]), independent(&[1.0], &[3.0, 3.5, 2.5])] {
            let contrast = contrast.expect("values");
            assert_eq!((contrast.estimate, contrast.interval(), contrast.p_value), (2.0, None, None));
        }
        assert_eq!(paired(&[]), None);
        assert_eq!(independent(&[], &[1.0]), None);
    }

    #[test]
    fn a_ratio_is_bounded_only_if_its_divisor_is_not_zero() {
        let sure = change(&[100.0, 101.0, 99.0], &[110.0, 112.0, 108.0], false).expect("values");
        assert!((sure.estimate - 0.1).abs() < 1e-12 && sure.low.expect("bounded") > 0.05);
        let unsure = change(&[-50.0, 1.0, 60.0], &[110.0, 112.0, 108.0], false).expect("values");
        assert_eq!(unsure.interval(), None);
        assert_eq!(change(&[0.0, 0.0], &[1.0, 1.0], false), None);
        // In each pair, the second value is 1.1 times the first value.
        let exact = change(&[10.0, 50.0, 90.0], &[11.0, 55.0, 99.0], true).expect("values");
        assert!((exact.low.expect("bounded") - 0.1).abs() < 1e-6, "{exact:?}");
        let with_a_negative = change(&[-1.0, 100.0, 103.0, 98.0], &[1.0, 120.0, 118.0, 121.0], true);
        assert!(with_a_negative.expect("values").estimate > 0.0, "the ratio of the means");
        assert!(
            change(&[10.0, 50.0, 90.0], &[11.0, 55.0, 99.0], false).expect("values").interval().is_none()
        );
    }

    #[test]
    fn holm_by_hand() {
        let adjusted = holm(&[0.04, 0.01, 0.03]);
        // Three hypotheses remain, then two. The last p-value alone would become 0.04.
        let expected = [(0.06, 1.5), (0.03, 3.0), (0.06, 2.0)];
        for (got, (p_value, times)) in adjusted.iter().zip(expected) {
            assert!((got.p_value - p_value).abs() < 1e-12, "{adjusted:?}");
            assert!((got.confidence - (1.0 - 0.05 / times)).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[]), []);
        // The first hypothesis has three quarters of the weight: 0.03 ÷ 0.75. The second one then has the
        // whole weight, so its p-value does not change.
        let adjusted = weighted_holm(&[(0.03, 3.0), (0.2, 1.0)]);
        let p_values = [adjusted[0].p_value, adjusted[1].p_value];
        assert!((p_values[0] - 0.04).abs() < 1e-12 && (p_values[1] - 0.2).abs() < 1e-12, "{adjusted:?}");
    }

    #[test]
    fn intervals_with_adjusted_confidence_agree_with_adjusted_p_values() {
        let mut random = Random::new(11);
        let mut called = 0;
        for _ in 0..300 {
            let mut figure = || {
                let (estimate, half) = (6.0 * (random.unit() - 0.5), random.unit());
                let (low, high) = (Some(estimate - half), Some(estimate + half));
                Estimate { estimate, low, high, trials: 3 + (40.0 * random.unit()) as u32 }
            };
            let figures: Vec<Estimate> = (0..8).map(|_| figure()).collect();
            let test = |(index, one): (usize, &Estimate)| {
                (Contrast::of(one).p_value.expect("rounds"), if index < 2 { 4.0 } else { 1.0 })
            };
            let tests: Vec<(f64, f64)> = figures.iter().enumerate().map(test).collect();
            for (figure, adjusted) in figures.iter().zip(weighted_holm(&tests)) {
                let shown = with_confidence(figure, adjusted.confidence);
                assert_eq!(shown.excludes(0.0), adjusted.p_value < 0.05, "{figure:?} {adjusted:?}");
                called += usize::from(shown.excludes(0.0));
            }
        }
        assert!((240..2160).contains(&called), "{called} of 2400");
    }

    /// The share of simulated runs whose interval contains the truth.
    fn covered(of: impl Fn(&mut Random) -> Option<(Contrast, f64)>) -> f64 {
        const RUNS: u32 = 1500;
        let mut random = Random::new(41);
        let held = (0..RUNS)
            .filter(|_| {
                let (contrast, truth) = of(&mut random).expect("values");
                contrast.interval().is_none_or(|(low, high)| low <= truth && truth <= high)
            })
            .count();
        held as f64 / f64::from(RUNS)
    }

    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn intervals_of_two_runs_cover_the_truth() {
        // The groups have five and eight rounds. The second group scatters three times as much as the first.
        let share = covered(|random| {
            let first: Vec<f64> = (0..5).map(|_| 100.0 + normal(random)).collect();
            let second: Vec<f64> = (0..8).map(|_| 107.0 + 3.0 * normal(random)).collect();
            Some((independent(&first, &second)?, 7.0))
        });
        assert!((0.93..=0.97).contains(&share), "{share}");
        // If both groups are equally skewed, the skew cancels in the difference.
        let skewed = covered(|random| {
            let mut one = |base: f64| (0..6).map(|_| base + random.exponential()).collect::<Vec<f64>>();
            let (first, second) = (one(10.0), one(12.0));
            Some((independent(&first, &second)?, 2.0))
        });
        assert!((0.93..=0.985).contains(&skewed), "{skewed}");
    }

    #[test]
    fn intervals_of_pairs_and_ratios_cover_the_truth() {
        let rounds = |random: &mut Random| -> Vec<(f64, f64)> {
            (0..5)
                .map(|_| {
                    let machine = 100.0 * (1.0 + 0.3 * random.unit());
                    (machine * (1.0 + 0.01 * normal(random)), machine * (1.1 + 0.01 * normal(random)))
                })
                .collect()
        };
        let ratio = covered(|random| {
            let (first, second): (Vec<f64>, Vec<f64>) = rounds(random).into_iter().unzip();
            Some((change(&first, &second, true)?, 0.1))
        });
        assert!((0.93..=0.97).contains(&ratio), "{ratio}");
        let difference = covered(|random| Some((paired(&rounds(random))?, 11.5)));
        assert!((0.93..=0.97).contains(&difference), "{difference}");
        let of_runs = covered(|random| {
            let first: Vec<f64> = (0..5).map(|_| 100.0 + 5.0 * normal(random)).collect();
            let second: Vec<f64> = (0..5).map(|_| 120.0 + 5.0 * normal(random)).collect();
            Some((change(&first, &second, false)?, 0.2))
        });
        assert!((0.93..=0.97).contains(&of_runs), "{of_runs}");
    }
}
