//! How much figures scatter from run to run, beyond what the rounds of each run show.

use crate::moments::mean;
use crate::student::two_sided_95;

/// Weight of the share that is known beforehand, in degrees of freedom of the runs. In the simulation below,
/// a larger weight makes intervals too narrow on machines that scatter three times as much, and too wide on
/// machines that do not scatter.
const PRIOR_WEIGHT: f64 = 0.35;

/// Minimum number of runs from which a share is learned. The quantile of Student's t is 3.2 for four runs.
pub const LEAST_RUNS: usize = 4;

/// Share of intervals that must hold the truth.
const LEVEL: f64 = 0.95;

/// Half of a 95 % interval ÷ standard deviation, for a share that is known and not estimated.
const NORMAL: f64 = 1.96;

/// The share of scatter from run to run, as half of a 95 % interval. `figures` has the figures of each
/// gateway in separate runs, as a share of their mean, each with the variance that its rounds show. `prior`
/// is the share known beforehand. `None` if no figure has [`LEAST_RUNS`] runs.
///
/// The variance between runs is the variance of a gateway's figures minus the mean variance that their rounds
/// show (method of moments, as in R. DerSimonian and N. Laird, 1986), pooled over gateways. If chance makes
/// it negative, it still counts against `prior`: counted as 0, it would make intervals too wide. Gateways
/// with wide intervals of their own count less. All gateways together weigh as much as one, because the clock
/// of a machine changes all of them alike.
pub fn share_of_runs(figures: &[Vec<(f64, f64)>], prior: f64) -> Option<f64> {
    let known = (prior / NORMAL).powi(2);
    let found: Vec<Found> = figures.iter().filter_map(|runs| Found::new(runs, known)).collect();
    let weights: f64 = found.iter().map(|one| one.weight).sum();
    let count = found.len() as f64;
    let degrees = found.iter().map(|one| one.degrees).sum::<f64>() / count;
    let quantile = two_sided_95(degrees.round() as u32).filter(|_| weights > 0.0)?;
    let variance = found.iter().map(|one| one.weight * one.beyond_rounds).sum::<f64>() / weights;
    let weight = weights / count * known * known;
    // The quantile makes up for the error of an estimated standard deviation, which is never negative.
    let quantile = if variance > 0.0 { quantile } else { NORMAL };
    let learned = quantile * quantile * variance;
    let shrunk = (PRIOR_WEIGHT * prior * prior + weight * learned) / (PRIOR_WEIGHT + weight);
    Some(shrunk.max(0.0).sqrt())
}

/// The smallest share that makes 95 % of the intervals of these runs hold the mean of the runs. Half of such
/// an interval is √(half² + (share × value)²). `figures` is as for [`share_of_runs`], but each figure comes
/// with half of the 95 % interval that its rounds give. `None` if no figure has [`LEAST_RUNS`] runs.
///
/// No shape of the scatter is assumed, so it also holds on a machine that changes between two speeds, where
/// the standard deviation says too little: conformal prediction (V. Vovk, A. Gammerman, G. Shafer,
/// "Algorithmic learning in a random world", 2005).
pub fn share_that_holds(figures: &[Vec<(f64, f64)>]) -> Option<f64> {
    let mut needed = Vec::new();
    for runs in figures.iter().filter(|runs| runs.len() >= LEAST_RUNS) {
        let middle = mean(&runs.iter().map(|(value, _)| *value).collect::<Vec<_>>())?;
        let of_run = |(value, half): &(f64, f64)| {
            ((value - middle).powi(2) - half * half).max(0.0).sqrt() / value.abs().max(f64::MIN_POSITIVE)
        };
        needed.extend(runs.iter().map(of_run));
    }
    needed.sort_by(f64::total_cmp);
    // The run to come is one more, hence + 1.
    let rank = (LEVEL * (needed.len() + 1) as f64).ceil() as usize;
    needed.get(rank.min(needed.len()).checked_sub(1)?).copied()
}

/// The scatter of one gateway's figure.
struct Found {
    degrees: f64,
    /// Variance between runs, without that of the rounds. Can be negative by chance.
    beyond_rounds: f64,
    /// Proportional to 1 ÷ the variance of `beyond_rounds`.
    weight: f64,
}

impl Found {
    fn new(runs: &[(f64, f64)], known: f64) -> Option<Self> {
        let degrees = runs.len().checked_sub(1).filter(|_| runs.len() >= LEAST_RUNS)? as f64;
        let middle = mean(&runs.iter().map(|(value, _)| *value).collect::<Vec<_>>())?;
        let of_runs = runs.iter().map(|(value, _)| (value - middle).powi(2)).sum::<f64>() / degrees;
        let of_rounds = runs.iter().map(|(_, variance)| variance).sum::<f64>() / runs.len() as f64;
        let weight = degrees / (known + of_rounds).powi(2);
        Some(Self { degrees, beyond_rounds: of_runs - of_rounds, weight })
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "like {} more runs" number(PRIOR_WEIGHT);
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::random::Random;

    const PRIOR: f64 = 0.06;
    const GATEWAYS: usize = 4;
    const ROUNDS: usize = 20;
    /// Standard error that the rounds of a run show.
    const OF_ROUNDS: f64 = 0.03;

    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
    }

    /// How runs scatter: normally, or between two speeds, the faster one in a quarter of the runs.
    #[derive(Debug, Clone, Copy)]
    enum Scatter {
        Normal(f64),
        TwoSpeeds(f64),
    }

    impl Scatter {
        fn draw(self, random: &mut Random) -> f64 {
            match self {
                // Half of the variance is the same for all gateways, so there are two draws.
                Self::Normal(share) => share / NORMAL / 2.0_f64.sqrt() * normal(random),
                Self::TwoSpeeds(share) => share * if random.unit() < 0.25 { -0.75 } else { 0.25 },
            }
        }
    }

    /// The figures of a run whose true mean is 1, each with the variance that its rounds show. A part of the
    /// scatter between runs is the same for all gateways.
    fn run(random: &mut Random, scatter: Scatter) -> Vec<(f64, f64)> {
        let of_all = scatter.draw(random);
        let of_one = |_| {
            let own = if let Scatter::Normal(_) = scatter { scatter.draw(random) } else { 0.0 };
            let level = 1.0 + of_all + own;
            let of_round = OF_ROUNDS * (ROUNDS as f64).sqrt();
            let rounds: Vec<f64> = (0..ROUNDS).map(|_| level + of_round * normal(random)).collect();
            let middle = mean(&rounds).expect("rounds");
            let squares: f64 = rounds.iter().map(|one| (one - middle).powi(2)).sum();
            (middle, squares / ((ROUNDS - 1) * ROUNDS) as f64)
        };
        (0..GATEWAYS).map(of_one).collect()
    }

    /// Share of intervals of further runs that contain the truth, with shares from `count` other runs.
    fn covered(scatter: Scatter, count: usize) -> f64 {
        let random = &mut Random::new(7 + count as u64);
        let quantile = two_sided_95(ROUNDS as u32 - 1).expect("rounds");
        let (mut held, mut all) = (0, 0);
        for _ in 0..12_000 / (count + 4) {
            let runs: Vec<_> = (0..count).map(|_| run(random, scatter)).collect();
            let of = |gateway: usize| runs.iter().map(move |run| run[gateway]);
            let half = |variance: f64| quantile * variance.sqrt();
            let figures: Vec<Vec<_>> = (0..GATEWAYS).map(|gateway| of(gateway).collect()).collect();
            let halves: Vec<Vec<_>> = (0..GATEWAYS)
                .map(|gateway| of(gateway).map(|(value, variance)| (value, half(variance))).collect())
                .collect();
            let learned = share_of_runs(&figures, PRIOR).expect("enough runs");
            let learned = learned.max(share_that_holds(&halves).expect("enough runs"));
            for (figure, variance) in (0..4).flat_map(|_| run(random, scatter)) {
                let half = half(variance).hypot(learned * figure);
                held += usize::from((figure - 1.0).abs() <= half);
                all += 1;
            }
        }
        held as f64 / all as f64
    }

    #[test]
    fn intervals_with_shares_of_other_runs_hold_the_truth() {
        for share in [0.0, 0.03, 0.06, 0.12, 0.18] {
            for count in [8, 12, 40] {
                let covered = covered(Scatter::Normal(share), count);
                assert!((0.93..=0.98).contains(&covered), "{share} from {count} runs: {covered}");
            }
        }
        for apart in [0.1, 0.3] {
            for count in [8, 12, 40] {
                let covered = covered(Scatter::TwoSpeeds(apart), count);
                assert!((0.91..=0.98).contains(&covered), "two speeds, {apart}, {count} runs: {covered}");
            }
        }
    }

    #[test]
    fn few_runs_and_runs_with_wide_intervals_change_little() {
        let runs = |count: usize, error: f64| {
            let value = |at: usize| (1.0 + if at.is_multiple_of(2) { error } else { -error }, error * error);
            share_of_runs(&[(0..count).map(value).collect()], PRIOR)
        };
        assert_eq!(runs(LEAST_RUNS - 1, 0.01), None);
        let [few, many, wide] =
            [runs(4, 0.001), runs(40, 0.001), runs(40, 0.3)].map(|one| one.expect("runs"));
        assert!(many < 0.01 && many < few && few < PRIOR, "{many} {few}");
        assert!((0.055..0.065).contains(&wide), "{wide}");
        assert_eq!(share_of_runs(&[], PRIOR), None);
    }
}
