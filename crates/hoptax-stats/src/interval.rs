//! Defines how the interval of every figure is computed.
//!
//! A figure is computed from all rounds together, for example a percentile of merged histograms or a ratio of sums. Its
//! standard error comes from the bootstrap over rounds. Its interval is Student's t interval around the figure:
//!
//! `figure ± t(n − 1) · √(n ÷ (n − 1)) · s*`, where `s*` is the standard deviation of the figure over draws of `n` rounds.
//!
//! Without the factor `√(n ÷ (n − 1))`, draws would scatter too little. With it, the interval of a mean is exactly
//! Student's interval. Sources: B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap" (1993), chapters 6
//! and 12; T. C. Hesterberg, "What Teachers Should Know About the Bootstrap" (The American Statistician 69, 2015), for
//! t intervals with a bootstrap standard error and for the factor. METHODOLOGY.md gives the reasons for this choice.

use super::draws::Draws;
use super::rounds::{Reader, Units};
use super::{mean, standard_deviation, two_sided_95};

/// A value, its 95 % interval, and the number of trials that the value is computed from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The value.
    pub estimate: f64,
    /// Lower end of the interval. Absent if there is only one round, and for a maximum.
    pub low: Option<f64>,
    /// Upper end of the interval. Absent if there is only one round, and for a maximum.
    pub high: Option<f64>,
    /// Number of trials. For a tax, the number of rounds.
    pub trials: u32,
}

impl Estimate {
    /// A figure without an interval.
    pub fn bare(estimate: f64, trials: u32) -> Self {
        Self { estimate, low: None, high: None, trials }
    }

    /// The interval, if there is one.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// Half of the interval's width, if there is an interval.
    pub fn half_width(&self) -> Option<f64> {
        self.interval().map(|(low, high)| (high - low) / 2.0)
    }

    /// True if there is an interval and `value` is outside it.
    pub fn excludes(&self, value: f64) -> bool {
        self.interval().is_some_and(|(low, high)| value < low || high < value)
    }

    /// Raises the lower end of the interval to `least` if it is below `least`. For example, the interval of a time must
    /// not go below zero.
    #[must_use]
    pub fn at_least(self, least: f64) -> Self {
        Self { low: self.low.map(|low| low.max(least)), ..self }
    }
}

/// If the half-width is below this share of the figure, it is only a rounding error.
const ROUNDING: f64 = 1e-12;

/// The figure of all rounds in `units`, with its interval. `figure` receives the number of times that each unit was
/// drawn, and returns the figure of that draw. The result is absent if there are no rounds. Only the interval is absent
/// if there are fewer than two units, or if `figure` returns `None` for any draw.
pub fn resampled(units: &Units, figure: impl Fn(&[u64]) -> Option<f64>) -> Option<Estimate> {
    let (count, rounds) = (units.count(), units.rounds() as u32);
    let estimate = figure(&vec![1; count])?;
    let half = half_width_of_draws(count, figure).unwrap_or(f64::NAN);
    let half = if half <= estimate.abs() * ROUNDING { 0.0 } else { half };
    let bare = Estimate::bare(estimate, rounds);
    Some(match half.is_finite() {
        true => Estimate { low: Some(estimate - half), high: Some(estimate + half), ..bare },
        false => bare,
    })
}

/// A statistic of merged histograms, with its interval over units.
pub fn of_merged(units: &Units, reader: Option<Reader<'_>>) -> Option<Estimate> {
    let reader = reader?;
    resampled(units, |drawn| reader.of(drawn))
}

/// Computes `t(n − 1) · √(n ÷ (n − 1)) · s*`. Returns `None` for fewer than two units, or if a draw has no figure.
fn half_width_of_draws(count: usize, figure: impl Fn(&[u64]) -> Option<f64>) -> Option<f64> {
    let degrees = count.checked_sub(1).filter(|degrees| *degrees > 0)?;
    let draws = Draws::of(count);
    let figures: Vec<(f64, f64)> =
        draws.iter().map(|(drawn, likely)| Some((figure(drawn)?, likely))).collect::<Option<_>>()?;
    let mean: f64 = figures.iter().map(|(figure, likely)| figure * likely).sum();
    let variance: f64 = figures.iter().map(|(figure, likely)| (figure - mean).powi(2) * likely).sum();
    let t = two_sided_95(degrees as u32)?;
    Some(t * (variance * count as f64 / degrees as f64).sqrt())
}

/// The mean of one value per round, with its interval. Absent if there are no values. The result is the same as that of
/// [`resampled`], but computed by a formula: over all draws, the standard deviation of the mean is
/// `s · √((n − 1) ÷ n) ÷ √n`.
pub fn of_mean(values: &[f64]) -> Option<Estimate> {
    let estimate = mean(values)?;
    let trials = u32::try_from(values.len()).ok()?;
    let half = half_width(values);
    Some(Estimate {
        estimate,
        low: half.map(|half| estimate - half),
        high: half.map(|half| estimate + half),
        trials,
    })
}

/// Computes `t · s / √n`. Returns `None` for fewer than two values.
fn half_width(values: &[f64]) -> Option<f64> {
    let deviation = standard_deviation(values)?;
    let t = two_sided_95(values.len() as u32 - 1)?;
    Some(t * deviation / (values.len() as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(count: u32) -> Units {
        Units::new(0..count)
    }

    /// Returns a function that computes the mean of a draw from the number of times each value was drawn.
    fn mean_of(values: &[f64]) -> impl Fn(&[u64]) -> Option<f64> {
        let sum = move |drawn: &[u64]| -> f64 {
            drawn.iter().zip(values).map(|(n, value)| *n as f64 * value).sum()
        };
        move |drawn| Some(sum(drawn) / drawn.iter().sum::<u64>() as f64)
    }

    #[test]
    fn one_round_has_no_interval() {
        let one = of_mean(&[41.0]).expect("one value");
        assert_eq!(one, Estimate { estimate: 41.0, low: None, high: None, trials: 1 });
        assert!(!one.excludes(0.0));
        assert_eq!(of_mean(&[]), None);
        assert_eq!(resampled(&units(1), mean_of(&[41.0])), Some(one));
        assert_eq!(resampled(&units(0), |_| None), None);
    }

    #[test]
    fn the_interval_of_a_mean_by_hand_and_by_draws() {
        // n = 4, mean 10, s² = (4+1+1+4)/3, t(3) = 3.1824463.
        let values = [8.0, 9.0, 11.0, 12.0];
        let four = of_mean(&values).expect("four values");
        let half = 3.182_446_3 * (10.0_f64 / 3.0).sqrt() / 2.0;
        let (low, high) = four.interval().expect("four rounds");
        assert!((low - (10.0 - half)).abs() < 1e-6 && (high - (10.0 + half)).abs() < 1e-6);
        assert!(four.excludes(0.0) && !four.excludes(10.5));
        let drawn = resampled(&units(4), mean_of(&values)).expect("four values").interval().expect("four");
        assert!((drawn.0 - low).abs() < 1e-9 && (drawn.1 - high).abs() < 1e-9, "{drawn:?}");
    }

    #[test]
    fn the_interval_of_a_maximum_by_hand() {
        // The figure is the larger value of two rounds, which have the values 1 and 3. The figure is 1 in a quarter of
        // the draws, and 3 in the others. So s*² = 4 · 1/4 · 3/4, and the half-width is t(1) · √2 · √0.75.
        let larger = |drawn: &[u64]| Some(if drawn[1] > 0 { 3.0 } else { 1.0 });
        let estimate = resampled(&units(2), larger).expect("two rounds");
        assert_eq!((estimate.estimate, estimate.trials), (3.0, 2));
        let half = estimate.half_width().expect("two rounds");
        assert!((half - 12.706 * 1.5_f64.sqrt()).abs() < 1e-2, "{half}");
    }

    #[test]
    fn random_draws_are_nearly_exact() {
        let mut random = hoptax_load::random::Random::new(4);
        for count in [8, 12, 30] {
            let values: Vec<f64> = (0..count).map(|_| random.exponential()).collect();
            let exact = of_mean(&values).and_then(|one| one.half_width()).expect("rounds");
            let drawn = resampled(&units(count), mean_of(&values)).and_then(|one| one.half_width());
            // With 2,000 draws the standard error is off by 1.6 %. The test allows four times as much.
            assert!((drawn.expect("rounds") / exact - 1.0).abs() < 0.064, "{count}");
        }
    }

    #[test]
    fn without_a_figure_for_every_draw_there_is_no_interval() {
        let ratio = |drawn: &[u64]| (drawn[0] > 0).then(|| drawn[1] as f64 / drawn[0] as f64);
        assert_eq!(resampled(&units(2), ratio), Some(Estimate::bare(1.0, 2)));
    }

    #[test]
    fn a_time_is_never_negative() {
        let wide = of_mean(&[1.0, 100.0]).expect("two values").at_least(0.0);
        assert_eq!(wide.low, Some(0.0));
        assert!(wide.high.expect("two rounds") > 100.0);
    }
}
