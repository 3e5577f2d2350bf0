//! Measures how often gateways that are alike are called different, and how often a planted difference is
//! found. Every two of three gateways are compared in the same rounds, and p-values are adjusted for the
//! three pairs. docs/concepts/simulations.md states the figures.

use super::super::{Contrast, Drawn, Draws, Statistic, Units, holm};
use super::world::World;
use super::{RUNS, of_median};
use hoptax_format::random::Random;
use std::mem::take;

const ALPHA: f64 = 0.05;

/// The models whose rounds or trials differ, and two whose times are skewed.
const WORLDS: [World; 5] = [World::Skewed, World::Tail, World::Bursts, World::BadRounds, World::Drift];

/// The adjusted p-values of the pairs (first, second), (first, third), (second, third) in one simulated run:
/// once if all gateways are alike, and once if the third adds 10 µs.
fn p_values(world: World, draws: &Draws, random: &mut Random) -> [Vec<f64>; 2] {
    let rounds = draws.units();
    let units = Units::new(0..rounds as u32);
    let mut made: Vec<[Vec<u64>; 4]> = (0..rounds).map(|_| world.gateways(random)).collect();
    let [one, two, three, slow] = [0, 1, 2, 3].map(|gateway: usize| {
        let data = of_median(made.iter_mut().map(|round| take(&mut round[gateway])).collect());
        let reader = data.reader(Statistic::P50).expect("samples");
        Drawn::new(&units, draws, |drawn| reader.of(drawn)).expect("rounds")
    });
    [three, slow].map(|third| {
        let pairs = [two.minus(&one), third.minus(&one), third.minus(&two)];
        let adjusted = holm(&pairs.map(|pair| Contrast::of(&pair).p_value.expect("several rounds")));
        adjusted.iter().map(|one| one.p_value).collect()
    })
}

/// The share of runs that call any two gateways different that are alike, and the share that distinguish the
/// slower gateway from both others.
fn shares(world: World, rounds: usize) -> [f64; 2] {
    let (mut random, draws) = (Random::stream(17, world as u64), Draws::of(rounds));
    let mut called = [0; 2];
    for _ in 0..RUNS {
        let [alike, slower] = p_values(world, draws, &mut random);
        called[0] += u32::from(alike.iter().any(|p| *p < ALPHA));
        called[1] += u32::from(slower[1] < ALPHA && slower[2] < ALPHA);
    }
    called.map(|runs| f64::from(runs) / f64::from(RUNS))
}

#[test]
fn gateways_that_are_alike_are_rarely_called_different() {
    let mut table = String::new();
    let mut all = Vec::new();
    for world in WORLDS {
        let [[few, few_found], [many, many_found]] = [5, 20].map(|rounds| shares(world, rounds));
        all.extend([few, many]);
        let [few, many, few_found, many_found] =
            [few, many, few_found, many_found].map(|share| 100.0 * share);
        table += &format!("| {} | {few:.1} | {many:.1} | {few_found:.0} | {many_found:.0} |\n", world.name());
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
