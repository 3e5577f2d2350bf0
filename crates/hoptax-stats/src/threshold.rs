//! Estimates a threshold from noisy yes-or-no answers: the rate above which an objective no longer holds.
//!
//! This is a Bayesian fit of a psychometric function. Psychophysics uses it for the same problem (Watson and
//! Pelli, "QUEST: a Bayesian adaptive psychometric method", 1983; Kontsevich and Tyler, "Bayesian adaptive
//! estimation of psychometric slope and threshold", 1999). At rate `r`, the objective holds in a trial with
//! probability
//!
//! ```text
//! luck + (1 − luck − lapse) · logistic((ln capacity − ln r) / spread)
//! ```
//!
//! `spread` is how much the capacity varies from trial to trial. `lapse` is the share of trials that fail
//! because of an outside disturbance, for example a burst of steal, regardless of the rate. Both are unknown,
//! so the fit sums over all their values. A single failed trial may be bad luck, so it changes the estimate
//! only a little. A second failure at the same rate changes the estimate a lot.

/// Possible spreads of the capacity, relative to the rate, with their prior weights. On most machines the
/// spread is a few per cent. A spread of one third is rare. Each spread is half of the next one.
const SPREADS: [(f64, f64); 7] =
    [(0.005, 1.0), (0.01, 1.0), (0.02, 1.0), (0.04, 1.0), (0.08, 0.8), (0.16, 0.5), (0.32, 0.15)];

/// Possible lapses, with their prior weights. A lapse of 0.1 means that a disturbance makes one trial in ten
/// fail.
const LAPSES: [(f64, f64); 3] = [(0.01, 0.7), (0.1, 0.22), (0.25, 0.08)];

/// Probability that the objective holds in a trial at a rate far above the capacity. If this were zero, a
/// single trial could rule out a rate.
const LUCK: f64 = 0.01;

/// Number of grid cells in an interval as wide as the requested precision. With eight cells, rounding to a
/// cell changes the result by at most an eighth of the precision.
const CELLS_PER_PRECISION: f64 = 8.0;

/// The grid extends beyond the lowest and the highest rate by this factor, because the threshold may lie
/// outside of the rates tried.
const BEYOND: f64 = 2.0;

/// The posterior distribution of a threshold: a weight for each rate on a grid, for each spread and each
/// lapse.
#[derive(Debug, Clone)]
pub struct Threshold {
    /// ln of the rate in the middle of the first cell.
    first: f64,
    /// Width of a cell, in ln of the rate.
    pitch: f64,
    /// Weights by spread, then by lapse, then by cell.
    weights: Vec<f64>,
    /// Weights by cell. They add up to 1.
    by_cell: Vec<f64>,
    observations: u32,
}

impl Threshold {
    /// Starts from the prior: all rates from `from` ÷ 2 to `to` × 2 are equally likely, on a logarithmic
    /// scale. `from` and `to` must be above zero.
    pub fn new(from: f64, to: f64, precision: f64) -> Self {
        let (low, high) = ((from / BEYOND).ln(), (to * BEYOND).ln());
        let cells = ((high - low) / (precision / CELLS_PER_PRECISION)).ceil().max(8.0);
        let pitch = (high - low) / cells;
        let cells = cells as usize;
        Self {
            first: low + pitch / 2.0,
            pitch,
            weights: SPREADS
                .iter()
                .flat_map(|(_, spread)| LAPSES.iter().map(move |(_, lapse)| spread * lapse))
                .flat_map(|weight| std::iter::repeat_n(weight, cells))
                .collect(),
            by_cell: vec![1.0 / cells as f64; cells],
            observations: 0,
        }
    }

    /// Adds a trial at `rate`. `held` is true if the objective held in this trial.
    pub fn observe(&mut self, rate: f64, held: bool) {
        let (cells, at) = (self.by_cell.len(), rate.ln());
        // The odds of each cell with the largest spread. Each spread is half of the next one, so its odds are
        // the squares of the odds of the next one.
        let (largest, _) = SPREADS[SPREADS.len() - 1];
        let distance = |cell: usize| self.first + cell as f64 * self.pitch - at;
        let mut odds: Vec<f64> = (0..cells).map(|cell| (-distance(cell) / largest).exp()).collect();
        let mut logistic = vec![0.0; cells];
        let mut total = 0.0;
        for block in self.weights.chunks_mut(cells * LAPSES.len()).rev() {
            for (value, odds) in logistic.iter_mut().zip(&mut odds) {
                *value = 1.0 / (1.0 + *odds);
                *odds *= *odds;
            }
            for ((lapse, _), weights) in LAPSES.iter().zip(block.chunks_mut(cells)) {
                for (weight, logistic) in weights.iter_mut().zip(&logistic) {
                    let holds = LUCK + (1.0 - LUCK - lapse) * logistic;
                    *weight *= if held { holds } else { 1.0 - holds };
                    total += *weight;
                }
            }
        }
        self.observations += 1;
        self.by_cell.fill(0.0);
        for weights in self.weights.chunks_mut(cells) {
            for (weight, sum) in weights.iter_mut().zip(&mut self.by_cell) {
                *weight /= total;
                *sum += *weight;
            }
        }
    }

    /// Number of trials observed.
    pub fn observations(&self) -> u32 {
        self.observations
    }

    /// The rate that is above the threshold with this probability.
    pub fn quantile(&self, probability: f64) -> f64 {
        let mut below = 0.0;
        for (cell, weight) in self.by_cell.iter().enumerate() {
            if below + weight >= probability && *weight > 0.0 {
                let inside = (probability - below) / weight;
                return (self.first + (cell as f64 - 0.5 + inside) * self.pitch).exp();
            }
            below += weight;
        }
        (self.first + (self.by_cell.len() as f64 - 0.5) * self.pitch).exp()
    }

    /// Probability that the threshold is above `rate`.
    pub fn above(&self, rate: f64) -> f64 {
        let edge = (rate.ln() - self.first) / self.pitch + 0.5;
        let part = |cell: usize| (cell as f64 + 1.0 - edge).clamp(0.0, 1.0);
        self.by_cell.iter().enumerate().map(|(cell, weight)| weight * part(cell)).sum()
    }

    /// The median of the threshold, and its 95 % interval with equal tails.
    pub fn interval(&self) -> (f64, f64, f64) {
        (self.quantile(0.5), self.quantile(0.025), self.quantile(0.975))
    }

    /// Half of the width of the 95 % interval, relative to the rate: `√(high ÷ low) − 1`.
    pub fn uncertainty(&self) -> f64 {
        (self.quantile(0.975) / self.quantile(0.025)).sqrt() - 1.0
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "*r* holds with probability {} + (0.99 − lapse) · logistic" number(LUCK);
    METHODOLOGY "between {} the lowest and" fraction(1.0 / BEYOND);
    METHODOLOGY "the lowest and {} the highest is equally likely" times(BEYOND);
    METHODOLOGY "disturbance ({}, summed over)" percents(LAPSES.map(|(lapse, _)| lapse));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_spread_is_half_of_the_next_one() {
        assert!(SPREADS.windows(2).all(|pair| 2.0 * pair[0].0 == pair[1].0), "`observe` depends on it");
    }

    #[test]
    fn before_the_first_trial_all_rates_are_equally_likely() {
        let unknown = Threshold::new(100.0, 10_000.0, 0.05);
        assert!((unknown.quantile(0.5) / 1000.0 - 1.0).abs() < 0.01);
        assert!((unknown.quantile(0.0) / 50.0 - 1.0).abs() < 0.01);
        assert!((unknown.quantile(1.0) / 20_000.0 - 1.0).abs() < 0.01);
        assert!((unknown.above(1000.0) - 0.5).abs() < 0.01);
    }

    #[test]
    fn quantiles_are_the_inverse_of_probabilities() {
        let mut threshold = Threshold::new(100.0, 10_000.0, 0.05);
        for (rate, held) in [(1000.0, true), (4000.0, false), (2000.0, true), (3000.0, false)] {
            threshold.observe(rate, held);
        }
        for probability in [0.01, 0.025, 0.3, 0.5, 0.9, 0.975] {
            let rate = threshold.quantile(probability);
            assert!((1.0 - threshold.above(rate) - probability).abs() < 1e-9, "{probability}");
        }
        assert_eq!(threshold.observations(), 4);
    }

    /// Observes two trials and computes the result by hand, on a grid that the test defines. For each cell,
    /// the test sums over spreads and lapses.
    #[test]
    fn weights_agree_with_the_formula() {
        let mut threshold = Threshold::new(1000.0, 2000.0, 0.4);
        threshold.observe(1200.0, true);
        threshold.observe(1600.0, false);
        let cells = threshold.by_cell.len();
        let likelihood = |cell: usize| -> f64 {
            let capacity = threshold.first + cell as f64 * threshold.pitch;
            let holds = |rate: f64, spread: f64, lapse: f64| {
                0.01 + (0.99 - lapse) / (1.0 + ((rate.ln() - capacity) / spread).exp())
            };
            SPREADS
                .iter()
                .flat_map(|spread| LAPSES.iter().map(move |lapse| (spread, lapse)))
                .map(|((spread, one), (lapse, other))| {
                    let both = holds(1200.0, *spread, *lapse) * (1.0 - holds(1600.0, *spread, *lapse));
                    one * other * both
                })
                .sum()
        };
        let total: f64 = (0..cells).map(likelihood).sum();
        for cell in 0..cells {
            assert!((threshold.by_cell[cell] - likelihood(cell) / total).abs() < 1e-12, "{cell}");
        }
    }

    #[test]
    fn one_bad_trial_moves_the_estimate_little_and_six_move_it_much() {
        let after = |bad: u32| {
            let mut threshold = Threshold::new(100.0, 10_000.0, 0.05);
            for rate in [100.0, 400.0, 1600.0, 2000.0, 2200.0] {
                threshold.observe(rate, true);
            }
            for rate in [6400.0, 3000.0, 2500.0] {
                threshold.observe(rate, false);
            }
            for _ in 0..bad {
                threshold.observe(1600.0, false);
            }
            threshold.quantile(0.5)
        };
        assert!((after(1) / after(0) - 1.0).abs() < 0.1, "{} against {}", after(1), after(0));
        assert!(after(6) < 1700.0, "{}", after(6));
    }
}
