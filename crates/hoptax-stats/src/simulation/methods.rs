//! Methods for computing intervals that hoptax does not use. The simulation compares them with the method
//! that hoptax uses.

use super::super::{Draws, two_sided_95};

pub(super) struct Figure<'a> {
    rounds: usize,
    of: &'a dyn Fn(&[u64]) -> Option<f64>,
    draws: &'static Draws,
    estimate: f64,
    /// The figures of all draws in ascending order, each with its probability.
    drawn: Vec<(f64, f64)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Method {
    /// Student's t interval with the bootstrap's standard error.
    InUse,
    /// Student's t interval with the jackknife's standard error.
    Jackknife,
    /// Student's t interval over one difference per round.
    MeanOfRounds,
    /// Percentiles of the figures of the draws.
    Percentile,
    /// Percentiles of the figures of the draws, widened to match Student's t (Hesterberg 2015).
    Expanded,
    /// The bias-corrected and accelerated bootstrap (Efron 1987).
    Bca,
    /// The bootstrap-t interval, with the jackknife's standard error.
    BootstrapT,
}

impl Method {
    pub(super) const ALL: [Self; 7] = [
        Self::InUse,
        Self::Jackknife,
        Self::MeanOfRounds,
        Self::Percentile,
        Self::Expanded,
        Self::Bca,
        Self::BootstrapT,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::InUse => "t, bootstrap",
            Self::Jackknife => "t, jackknife",
            Self::MeanOfRounds => "t, mean of rounds",
            Self::Percentile => "percentile",
            Self::Expanded => "expanded",
            Self::Bca => "BCa",
            Self::BootstrapT => "bootstrap-t",
        }
    }

    pub(super) fn interval(self, figure: &Figure<'_>) -> (f64, f64) {
        let n = figure.rounds as f64;
        let t = two_sided_95(figure.rounds as u32 - 1).expect("at least two rounds");
        let around = |centre: f64, half: f64| (centre - half, centre + half);
        match self {
            Self::InUse => around(figure.estimate, t * (figure.variance() * n / (n - 1.0)).sqrt()),
            Self::Jackknife => around(figure.estimate, t * figure.jackknife(&figure.once()).0),
            Self::MeanOfRounds => {
                let each: Vec<f64> = (0..figure.rounds).map(|round| figure.alone(round)).collect();
                let estimate = super::super::of_mean(&each).expect("rounds");
                around(estimate.estimate, estimate.half_width().expect("at least two rounds"))
            }
            Self::Percentile => figure.between(0.025, 0.975),
            Self::Expanded => {
                let tail = cumulative(-t * (n / (n - 1.0)).sqrt());
                figure.between(tail, 1.0 - tail)
            }
            Self::Bca => bca(figure),
            Self::BootstrapT => bootstrap_t(figure),
        }
    }
}

impl<'a> Figure<'a> {
    pub(super) fn new(rounds: usize, of: &'a dyn Fn(&[u64]) -> Option<f64>) -> Self {
        let draws = Draws::of(rounds);
        let mut drawn: Vec<(f64, f64)> = draws
            .iter()
            .map(|(drawn, likely)| (of(drawn).expect("every round has samples"), likely))
            .collect();
        let estimate = of(&vec![1; rounds]).expect("every round has samples");
        drawn.sort_by(|one, other| one.0.total_cmp(&other.0));
        Self { rounds, of, draws, estimate, drawn }
    }

    fn once(&self) -> Vec<u64> {
        vec![1; self.rounds]
    }

    fn at(&self, drawn: &[u64]) -> f64 {
        (self.of)(drawn).expect("every round has samples")
    }

    fn alone(&self, round: usize) -> f64 {
        let mut drawn = vec![0; self.rounds];
        drawn[round] = 1;
        self.at(&drawn)
    }

    fn variance(&self) -> f64 {
        let mean: f64 = self.drawn.iter().map(|(figure, likely)| figure * likely).sum();
        self.drawn.iter().map(|(figure, likely)| (figure - mean).powi(2) * likely).sum()
    }

    /// The jackknife's standard error of a draw, and the figures from which it is computed. Each figure
    /// leaves out one round.
    fn jackknife(&self, drawn: &[u64]) -> (f64, Vec<f64>) {
        let n = self.rounds as f64;
        let without = |round: usize| {
            let mut left = drawn.to_vec();
            left[round] -= 1;
            self.at(&left)
        };
        let each: Vec<f64> = (0..self.rounds)
            .filter(|round| drawn[*round] > 0)
            .flat_map(|round| std::iter::repeat_n(without(round), drawn[round] as usize))
            .collect();
        let mean = each.iter().sum::<f64>() / n;
        let squares: f64 = each.iter().map(|figure| (figure - mean).powi(2)).sum();
        ((squares * (n - 1.0) / n).sqrt(), each)
    }

    fn between(&self, low: f64, high: f64) -> (f64, f64) {
        (quantile(&self.drawn, low), quantile(&self.drawn, high))
    }
}

/// Source: B. Efron, "Better Bootstrap Confidence Intervals", 1987.
fn bca(figure: &Figure<'_>) -> (f64, f64) {
    let below: f64 = figure
        .drawn
        .iter()
        .map(|(drawn, likely)| match drawn.total_cmp(&figure.estimate) {
            std::cmp::Ordering::Less => *likely,
            std::cmp::Ordering::Equal => likely / 2.0,
            std::cmp::Ordering::Greater => 0.0,
        })
        .sum();
    let bias = normal_quantile(below.clamp(1e-6, 1.0 - 1e-6));
    let each = figure.jackknife(&figure.once()).1;
    let mean = each.iter().sum::<f64>() / each.len() as f64;
    let power = |k: i32| each.iter().map(|one| (mean - one).powi(k)).sum::<f64>();
    let acceleration = if power(2) > 0.0 { power(3) / (6.0 * power(2).powf(1.5)) } else { 0.0 };
    let at = |z: f64| cumulative(bias + (bias + z) / (1.0 - acceleration * (bias + z)));
    figure.between(at(-1.96), at(1.96))
}

/// Source: B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap", chapter 12.5. A draw without
/// scatter has no t. Such a draw counts as more extreme than all other draws.
fn bootstrap_t(figure: &Figure<'_>) -> (f64, f64) {
    let mut ts: Vec<(f64, f64)> = figure
        .draws
        .iter()
        .map(|(drawn, likely)| {
            let distance = figure.at(drawn) - figure.estimate;
            let error = figure.jackknife(drawn).0;
            let t = if error > 0.0 { distance / error } else { distance.signum() * 1e9 };
            (if distance == 0.0 { 0.0 } else { t }, likely)
        })
        .collect();
    ts.sort_by(|one, other| one.0.total_cmp(&other.0));
    let error = figure.jackknife(&figure.once()).0;
    (figure.estimate - quantile(&ts, 0.975) * error, figure.estimate - quantile(&ts, 0.025) * error)
}

/// The quantile of values that are sorted in ascending order. Each value is given with its probability.
fn quantile(values: &[(f64, f64)], share: f64) -> f64 {
    let mut sum = 0.0;
    let reached = values.iter().find(|(_, likely)| {
        sum += likely;
        sum >= share - 1e-12
    });
    reached.or(values.last()).expect("there are draws").0
}

/// The distribution function of the normal distribution, computed by Simpson's rule from the density. For the
/// arguments used here, the error is below 1e-9.
fn cumulative(z: f64) -> f64 {
    const STEPS: u32 = 400;
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let end = z.abs().min(9.0);
    let step = end / f64::from(STEPS);
    let inner: f64 =
        (1..STEPS).map(|i| (if i % 2 == 1 { 4.0 } else { 2.0 }) * density(f64::from(i) * step)).sum();
    let half = step / 3.0 * (density(0.0) + inner + density(end));
    if z < 0.0 { 0.5 - half } else { 0.5 + half }
}

fn normal_quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-9.0, 9.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if cumulative(middle) < share { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}
