//! Defines how the interval of every figure is computed.
//!
//! A figure is computed from all rounds together, for example a percentile of merged histograms or a ratio of
//! sums. Its standard error comes from the bootstrap over rounds. Its interval is Student's t interval around
//! the figure:
//!
//! `figure ± t(n − 1) · √(n ÷ (n − 1)) · s*`, where `s*` is the standard deviation of the figure over draws
//! of `n` rounds.
//!
//! Without the factor `√(n ÷ (n − 1))`, draws would scatter too little. With it, the interval of a mean is
//! exactly Student's interval. Sources: B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap"
//! (1993), chapters 6 and 12; T. C. Hesterberg, "What Teachers Should Know About the Bootstrap" (The American
//! Statistician 69, 2015), for t intervals with a bootstrap standard error and for the factor. METHODOLOGY.md
//! gives the reasons for this choice.

use super::draws::Draws;
use super::rounds::{Reader, Units};
use super::{mean, standard_deviation, two_sided_95};
use schemars::JsonSchema;
use serde::Serialize;

/// A value, its 95 % interval, and the number of trials from which it is calculated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// The value.
    pub estimate: f64,
    /// Lower end of the interval. Absent if there is only one round, and for a maximum.
    pub low: Option<f64>,
    /// Upper end of the interval. Absent if there is only one round, and for a maximum.
    pub high: Option<f64>,
    /// Number of trials from which the value is calculated. For a tax, the number of rounds.
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

    /// Widens the interval to at least `estimate ± half`, if there is an interval.
    #[must_use]
    pub fn at_least_half(self, half: f64) -> Self {
        let (low, high) = (self.estimate - half, self.estimate + half);
        Self { low: self.low.map(|one| one.min(low)), high: self.high.map(|one| one.max(high)), ..self }
    }

    /// Raises the lower end of the interval to `least` if it is below `least`. For example, the interval of a
    /// time must not go below zero.
    #[must_use]
    pub fn at_least(self, least: f64) -> Self {
        Self { low: self.low.map(|low| low.max(least)), ..self }
    }
}

/// If the half-width is below this share of the figure, it is only a rounding error.
const ROUNDING: f64 = 1e-12;

/// The figure of all rounds in `units`, with its interval. `figure` receives the number of times that each
/// unit was drawn, and returns the figure of that draw. The result is absent if there are no rounds. Only the
/// interval is absent if there are fewer than two units, or if `figure` returns `None` for any draw.
pub fn resampled(units: &Units, figure: impl Fn(&[u64]) -> Option<f64>) -> Option<Estimate> {
    Some(Drawn::new(units, Draws::of(units.count()), figure)?.estimate())
}

/// A figure of all rounds, and the same figure of each draw. Two figures of the same draws can be subtracted
/// draw by draw, so that what affects both in a round cancels. Each figure is computed once, however many
/// differences it is part of.
#[derive(Debug, Clone)]
pub struct Drawn<'d> {
    draws: &'d Draws,
    rounds: u32,
    whole: f64,
    /// The figure of each draw. Absent if there are fewer than two units, or if the figure of any draw is
    /// `None`.
    each: Option<Vec<f64>>,
}

impl<'d> Drawn<'d> {
    /// Computes `figure` once for all rounds together, and once for each draw. `draws` must be the draws for
    /// `units.count()` units. The result is `None` if `figure` returns `None` for all rounds together.
    pub fn new(units: &Units, draws: &'d Draws, figure: impl Fn(&[u64]) -> Option<f64>) -> Option<Self> {
        let (count, rounds) = (units.count(), units.rounds() as u32);
        let whole = figure(&vec![1; count])?;
        let each = (count > 1).then(|| draws.iter().map(|(drawn, _)| figure(drawn)).collect()).flatten();
        Some(Self { draws, rounds, whole, each })
    }

    /// The figure of all rounds.
    pub fn whole(&self) -> f64 {
        self.whole
    }

    /// The figure with its interval.
    pub fn estimate(&self) -> Estimate {
        let bare = Estimate::bare(self.whole, self.rounds);
        let half =
            self.each.as_ref().and_then(|each| half_width_of_draws(self.draws, each)).unwrap_or(f64::NAN);
        let half = if half <= self.whole.abs() * ROUNDING { 0.0 } else { half };
        match half.is_finite() {
            true => Estimate { low: Some(self.whole - half), high: Some(self.whole + half), ..bare },
            false => bare,
        }
    }

    /// This figure − `other`, with its interval. Both figures must be of the same rounds and draws.
    pub fn minus(&self, other: &Self) -> Estimate {
        let each = self.each.as_ref().zip(other.each.as_ref());
        let each = each.map(|(one, other)| one.iter().zip(other).map(|(one, other)| one - other).collect());
        Self { whole: self.whole - other.whole, each, ..*self }.estimate()
    }
}

/// A statistic of merged histograms, with its interval over units.
pub fn of_merged(units: &Units, reader: Option<Reader<'_>>) -> Option<Estimate> {
    let reader = reader?;
    resampled(units, |drawn| reader.of(drawn))
}

/// Computes `t(n − 1) · √(n ÷ (n − 1)) · s*` from the figure of each draw. Returns `None` for fewer than two
/// units.
fn half_width_of_draws(draws: &Draws, figures: &[f64]) -> Option<f64> {
    let count = draws.units();
    let degrees = count.checked_sub(1).filter(|degrees| *degrees > 0)?;
    let figures = || figures.iter().zip(draws.iter().map(|(_, likely)| likely));
    let mean: f64 = figures().map(|(figure, likely)| figure * likely).sum();
    let variance: f64 = figures().map(|(figure, likely)| (figure - mean).powi(2) * likely).sum();
    let t = two_sided_95(degrees as u32)?;
    Some(t * (variance * count as f64 / degrees as f64).sqrt())
}

/// The mean of one value per round, with its interval. Absent if there are no values. The result is the same
/// as that of [`resampled`], but computed by a formula: over all draws, the standard deviation of the mean is
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
        // The figure is the larger value of two rounds, which have the values 1 and 3. The figure is 1 in a
        // quarter of the draws, and 3 in the others. So s*² = 4 · 1/4 · 3/4, and the half-width is t(1) · √2
        // · √0.75.
        let larger = |drawn: &[u64]| Some(if drawn[1] > 0 { 3.0 } else { 1.0 });
        let estimate = resampled(&units(2), larger).expect("two rounds");
        assert_eq!((estimate.estimate, estimate.trials), (3.0, 2));
        let half = estimate.half_width().expect("two rounds");
        assert!((half - 12.706 * 1.5_f64.sqrt()).abs() < 1e-2, "{half}");
    }

    #[test]
    fn random_draws_are_nearly_exact() {
        let mut random = hoptax_format::random::Random::new(4);
        for count in [8, 12, 30] {
            let values: Vec<f64> = (0..count).map(|_| random.exponential()).collect();
            let exact = of_mean(&values).and_then(|one| one.half_width()).expect("rounds");
            let drawn = resampled(&units(count), mean_of(&values)).and_then(|one| one.half_width());
            // With 2,000 draws the standard error is off by 1.6 %. The test allows four times as much.
            assert!((drawn.expect("rounds") / exact - 1.0).abs() < 0.064, "{count}");
        }
    }

    #[test]
    fn a_difference_of_drawn_figures_is_paired() {
        // The second gateway is 5 slower in each round, while rounds differ by up to 50.
        let first = [100.0, 150.0, 120.0, 108.0, 131.0, 143.0, 119.0, 127.0, 150.0, 104.0];
        let second: Vec<f64> = first.iter().map(|value| value + 5.0).collect();
        let (units, draws) = (units(10), Draws::of(10));
        let of = |values| Drawn::new(&units, draws, mean_of(values)).expect("ten rounds");
        let (first, second) = (of(&first), of(&second));
        let (low, high) = second.minus(&first).interval().expect("ten rounds");
        assert!((low - 5.0).abs() < 1e-9 && (high - 5.0).abs() < 1e-9, "{low} {high}");
        assert!(first.estimate().high > second.estimate().low, "the intervals of the two overlap");
        assert_eq!(first.minus(&first).interval(), Some((0.0, 0.0)));
        let one = Drawn::new(&Units::new([4]), draws, |_| Some(3.0)).expect("one round");
        assert_eq!(one.minus(&one), Estimate::bare(0.0, 1));
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
