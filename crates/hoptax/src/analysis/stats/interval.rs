//! The one place that decides what the interval of a figure is.
//!
//! Student's t over rounds is used, because a run has few rounds. A percentile bootstrap cannot do better there: from
//! `n` rounds, its widest interval is the range of the rounds, which covers the median with probability
//! `1 − 2·2⁻ⁿ`, that is 93.75 % for five. METHODOLOGY.md says more.

use super::{mean, standard_deviation, two_sided_95};
use serde::Serialize;

/// A value with its 95 % interval and the number of trials behind it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The value.
    pub estimate: f64,
    /// Lower end; absent with one trial.
    pub low: Option<f64>,
    /// Upper end; absent with one trial.
    pub high: Option<f64>,
    /// Trials (for a tax: rounds) behind it.
    pub trials: u32,
}

impl Estimate {
    /// The interval, where there is one.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// Whether there is an interval and `value` lies outside of it.
    pub fn excludes(&self, value: f64) -> bool {
        self.interval().is_some_and(|(low, high)| value < low || high < value)
    }

    /// The same with the lower end no lower than `least`: a time cannot be negative.
    #[must_use]
    pub fn at_least(self, least: f64) -> Self {
        Self { low: self.low.map(|low| low.max(least)), ..self }
    }
}

/// The mean of one value per trial, with the t interval of that mean; absent for no values.
pub fn of_mean(values: &[f64]) -> Option<Estimate> {
    around(mean(values)?, values)
}

/// `estimate`, computed otherwise than as a mean (from merged histograms, say), with the half-width that the mean of
/// one value per trial has; absent for no values.
pub fn around(estimate: f64, values: &[f64]) -> Option<Estimate> {
    let trials = u32::try_from(values.len()).ok().filter(|trials| *trials > 0)?;
    let half = half_width(values);
    Some(Estimate {
        estimate,
        low: half.map(|half| estimate - half),
        high: half.map(|half| estimate + half),
        trials,
    })
}

/// `t · s / √n`; absent below two values.
fn half_width(values: &[f64]) -> Option<f64> {
    let deviation = standard_deviation(values)?;
    let t = two_sided_95(values.len() as u32 - 1)?;
    Some(t * deviation / (values.len() as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_trial_has_no_interval() {
        let one = of_mean(&[41.0]).expect("one value");
        assert_eq!(one, Estimate { estimate: 41.0, low: None, high: None, trials: 1 });
        assert!(!one.excludes(0.0));
        assert_eq!(of_mean(&[]), None);
    }

    #[test]
    fn t_interval_by_hand() {
        // n = 4, mean 10, s² = (4+1+1+4)/3, t(3) = 3.1824463.
        let four = of_mean(&[8.0, 9.0, 11.0, 12.0]).expect("four values");
        let half = 3.182_446_3 * (10.0_f64 / 3.0).sqrt() / 2.0;
        let (low, high) = four.interval().expect("four trials");
        assert!((low - (10.0 - half)).abs() < 1e-6 && (high - (10.0 + half)).abs() < 1e-6);
        assert!(four.excludes(0.0) && !four.excludes(10.5));
    }

    #[test]
    fn a_time_is_never_negative() {
        let wide = of_mean(&[1.0, 100.0]).expect("two values").at_least(0.0);
        assert_eq!(wide.low, Some(0.0));
        assert!(wide.high.expect("two trials") > 100.0);
    }

    #[test]
    fn covers_the_true_mean_as_often_as_it_says() {
        // 2,000 runs of five rounds of normal noise (sum of twelve uniforms): the share of intervals that hold the
        // true mean must be 95 % within four standard errors of that share.
        let mut random = hoptax_load::random::Random::new(20);
        let runs = 2000;
        let held = (0..runs)
            .filter(|_| {
                let rounds: Vec<f64> =
                    (0..5).map(|_| (0..12).map(|_| random.unit()).sum::<f64>() - 6.0).collect();
                !of_mean(&rounds).expect("five values").excludes(0.0)
            })
            .count();
        let share = held as f64 / f64::from(runs);
        let error = (0.95 * 0.05 / f64::from(runs)).sqrt();
        assert!((share - 0.95).abs() < 4.0 * error, "held {share}");
    }
}
