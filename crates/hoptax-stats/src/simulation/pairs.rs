//! Measures how often gateways that are alike are called different, and how often a planted difference is
//! found. Every two of three gateways are compared in the same rounds, and p-values are adjusted for the
//! three pairs. docs/concepts/simulations.md states the figures.

use super::super::{Contrast, Drawn, Draws, Rounds, Statistic, Units, holm};
use super::RUNS;
use super::world::World;
use hoptax_format::random::Random;

const ALPHA: f64 = 0.05;

/// The models whose rounds or trials differ, and two whose times are skewed.
const WORLDS: [World; 5] = [World::Skewed, World::Tail, World::Bursts, World::BadRounds, World::Drift];

/// The adjusted p-values of the pairs (first, second), (first, third), (second, third) in one simulated run.
fn p_values(world: World, rounds: usize, added_us: [f64; 3], random: &mut Random) -> Vec<f64> {
    let made: Vec<[Vec<u64>; 3]> = (0..rounds).map(|_| world.gateways(random, added_us)).collect();
    let units = Units::new(0..rounds as u32);
    let draws = Draws::of(units.count());
    let data = [0, 1, 2].map(|gateway| {
        let times = |round: usize| made[round][gateway].iter().map(move |time| (*time, round, 1));
        Rounds::of_samples(vec![0.0; rounds], (0..rounds).flat_map(times).collect())
    });
    let [one, two, three] = data.each_ref().map(|data| {
        let reader = data.reader(Statistic::P50).expect("samples");
        Drawn::new(&units, &draws, |drawn| reader.of(drawn)).expect("rounds")
    });
    let pairs = [two.minus(&one), three.minus(&one), three.minus(&two)];
    holm(&pairs.map(|pair| Contrast::of(&pair).p_value.expect("several rounds")))
}

/// The share of runs for which `called` returns true.
fn share(world: World, rounds: usize, added_us: [f64; 3], called: impl Fn(&[f64]) -> bool) -> f64 {
    let mut random = Random::stream(17, world as u64);
    let runs = (0..RUNS).filter(|_| called(&p_values(world, rounds, added_us, &mut random))).count();
    runs as f64 / f64::from(RUNS)
}

#[test]
fn gateways_that_are_alike_are_rarely_called_different() {
    let mut table = String::new();
    let mut all = Vec::new();
    for world in WORLDS {
        let alarms = [5, 20].map(|rounds| share(world, rounds, [20.0; 3], |p| p.iter().any(|p| *p < ALPHA)));
        let found =
            [5, 20].map(|rounds| share(world, rounds, [20.0, 20.0, 30.0], |p| p[1] < ALPHA && p[2] < ALPHA));
        let [few, many, few_found, many_found] =
            [alarms[0], alarms[1], found[0], found[1]].map(|share| 100.0 * share);
        table += &format!("| {} | {few:.1} | {many:.1} | {few_found:.0} | {many_found:.0} |\n", world.name());
        all.extend(alarms);
    }
    println!("{table}");
    // The test allows four standard errors, so that none of ten shares fails by chance.
    let error = (ALPHA * (1.0 - ALPHA) / f64::from(RUNS)).sqrt();
    assert!(all.iter().all(|share| *share <= ALPHA + 4.0 * error), "{table}");
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    assert!(mean <= ALPHA, "{mean}\n{table}");
    let page = include_str!("../../../../docs/concepts/simulations.md");
    assert!(page.contains(&table), "docs/concepts/simulations.md should have this table:\n{table}");
}
