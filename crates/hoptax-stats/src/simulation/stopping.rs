//! Measures how much coverage intervals lose because `trials: auto` stops when they are narrow. A run stops earlier if
//! its scatter happens to be small, and its interval is then too narrow. docs/concepts/simulations.md states the
//! figures.

use super::super::{Precision, of_mean};
use super::world::normal;
use hoptax_load::random::Random;

/// The true tax, and direct's figure, µs. A run stops when the half-width is at most 5 % of direct's figure.
const TAX_US: f64 = 20.0;
const DIRECT_US: f64 = 100.0;
const LEAST: usize = 5;
const MOST: usize = 30;
const RUNS: u32 = 4000;

/// The share of runs whose last interval contains the true value, and the mean number of rounds. `sigma` is the scatter
/// of the rounds, µs.
fn covered(sigma: f64, noise: fn(&mut Random) -> f64) -> (f64, f64) {
    let mut random = Random::new(21);
    let (mut covered, mut rounds) = (0.0, 0.0);
    for _ in 0..RUNS {
        let mut values: Vec<f64> = Vec::new();
        let estimate = loop {
            values.push(TAX_US + sigma * noise(&mut random));
            let estimate = of_mean(&values).expect("a round");
            let known = Precision { estimate, neutral: 0.0, direct: DIRECT_US };
            if values.len() >= MOST || (values.len() >= LEAST && known.is_within(0.05)) {
                break estimate;
            }
        };
        covered += f64::from(u8::from(!estimate.excludes(TAX_US))) / f64::from(RUNS);
        rounds += values.len() as f64 / f64::from(RUNS);
    }
    (covered, rounds)
}

#[test]
fn stopping_when_narrow_costs_a_few_per_cent_of_coverage() {
    let skewed = |random: &mut Random| random.exponential() - 1.0;
    let (mut least, mut least_skewed, mut table) = (1.0_f64, 1.0_f64, String::new());
    for sigma in [1.0, 4.0, 6.0, 8.0, 12.0, 20.0] {
        let ((even, rounds), (odd, _)) = (covered(sigma, normal), covered(sigma, skewed));
        least = least.min(even);
        least_skewed = least_skewed.min(odd);
        table += &format!("| {sigma} | {rounds:.1} | {:.1} | {:.1} |\n", 100.0 * even, 100.0 * odd);
        // Even without early stopping, the coverage of such skewed rounds is only 88 %.
        assert!(odd > 0.80, "{table}");
    }
    println!("{table}");
    // Without early stopping, the coverage is 95 %. The test allows four standard errors of a share of 4,000 runs.
    let error = (0.95 * 0.05 / f64::from(RUNS)).sqrt();
    assert!(least > 0.90 - 4.0 * error, "{table}");
    let text = include_str!("../../../../docs/concepts/simulations.md").replace('\n', " ");
    for (worst, words) in [(least, " at worst"), (least_skewed, "")] {
        let stated = format!("become {:.1} %{words}", 100.0 * worst);
        assert!(text.contains(&stated), "docs/concepts/simulations.md should say: {stated}\n{table}");
    }
}
