//! Where something that holds at low rates ceases to hold: the threshold of a noisy yes-or-no answer.
//!
//! Bayesian fit of a psychometric function, as psychophysics has it for the same question (Watson and Pelli, "QUEST: a
//! Bayesian adaptive psychometric method", 1983; Kontsevich and Tyler, "Bayesian adaptive estimation of psychometric slope
//! and threshold", 1999). A trial at rate `r` holds with probability
//!
//! ```text
//! luck + (1 − luck − lapse) · logistic((ln capacity − ln r) / spread)
//! ```
//!
//! `spread` is how much what can be held scatters from trial to trial, `lapse` the share of trials that something foreign
//! (a burst of steal, say) spoils at any rate. Both are unknown and summed over, so that one bad step moves the answer
//! little, and a second one at the same rate much.

/// Scatters of what a trial can hold, as parts of the rate, and how likely each is thought before the first trial: on most
/// machines a few per cent; a third more or less is rare.
const SPREADS: [(f64, f64); 7] =
    [(0.005, 1.0), (0.01, 1.0), (0.02, 1.0), (0.04, 1.0), (0.08, 0.8), (0.16, 0.5), (0.32, 0.15)];

/// Shares of spoilt trials, and how likely each is thought: hardly any, one in ten, one in four.
const LAPSES: [(f64, f64); 3] = [(0.01, 0.7), (0.1, 0.22), (0.25, 0.08)];

/// Chance that a trial holds far above what can be held. Not zero, so that no single trial rules anything out.
const LUCK: f64 = 0.01;

/// Cells of the grid in a stretch of rates as wide as the precision asked for: rounding to a cell then is an eighth of it.
const CELLS_PER_PRECISION: f64 = 8.0;

/// Beyond the rates that are tried, as far as this factor: what holds at the highest must be able to lie above it.
const BEYOND: f64 = 2.0;

/// What is known of a threshold after some answers: weights on a grid of rates, for every spread and lapse.
#[derive(Debug, Clone)]
pub struct Threshold {
    /// ln of the rate in the middle of the first cell.
    first: f64,
    /// Width of a cell, in ln of the rate.
    pitch: f64,
    /// By spread, then lapse, then cell.
    weights: Vec<f64>,
    /// By cell; adds up to 1.
    by_cell: Vec<f64>,
    observations: u32,
}

impl Threshold {
    /// Nothing is known yet but that `from` to `to` (rates above zero) is where to look: every part of that stretch, and
    /// of as much again on both sides as doubles the rate, is as likely as any other of the same ratio.
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

    /// A trial at `rate` held, or did not.
    pub fn observe(&mut self, rate: f64, held: bool) {
        let (cells, at) = (self.by_cell.len(), rate.ln());
        let mut logistic = vec![0.0; cells];
        let mut total = 0.0;
        for ((spread, _), block) in SPREADS.iter().zip(self.weights.chunks_mut(cells * LAPSES.len())) {
            for (cell, value) in logistic.iter_mut().enumerate() {
                let distance = self.first + cell as f64 * self.pitch - at;
                *value = 1.0 / (1.0 + (-distance / spread).exp());
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

    /// Trials behind it.
    pub fn observations(&self) -> u32 {
        self.observations
    }

    /// The rate below which the threshold lies with this probability.
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

    /// Probability that the threshold lies above `rate`.
    pub fn above(&self, rate: f64) -> f64 {
        let edge = (rate.ln() - self.first) / self.pitch + 0.5;
        let part = |cell: usize| (cell as f64 + 1.0 - edge).clamp(0.0, 1.0);
        self.by_cell.iter().enumerate().map(|(cell, weight)| weight * part(cell)).sum()
    }

    /// The rate that the threshold is as likely above as below, and the interval that holds it with a probability of
    /// 95 %, as much of the rest on each side.
    pub fn interval(&self) -> (f64, f64, f64) {
        (self.quantile(0.5), self.quantile(0.025), self.quantile(0.975))
    }

    /// Half the width of the interval as a part of the rate: `√(high ÷ low) − 1`.
    pub fn uncertainty(&self) -> f64 {
        (self.quantile(0.975) / self.quantile(0.025)).sqrt() - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_first_answer_everything_is_as_likely() {
        let unknown = Threshold::new(100.0, 10_000.0, 0.05);
        assert!((unknown.quantile(0.5) / 1000.0 - 1.0).abs() < 0.01);
        assert!((unknown.quantile(0.0) / 50.0 - 1.0).abs() < 0.01);
        assert!((unknown.quantile(1.0) / 20_000.0 - 1.0).abs() < 0.01);
        assert!((unknown.above(1000.0) - 0.5).abs() < 0.01);
    }

    #[test]
    fn quantiles_and_probabilities_are_each_others_inverse() {
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

    /// Two answers by hand, on a grid of one's own: the sum over spreads and lapses, cell by cell.
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
    fn one_bad_trial_is_forgiven_and_more_are_not() {
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
