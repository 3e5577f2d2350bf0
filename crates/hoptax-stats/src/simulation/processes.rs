//! Intervals of a gateway whose rounds are spread over several processes, each with a level of its own.

use super::super::rounds::Units;
use super::super::{mean, of_mean, share_of_runs, variance_of};
use super::world::normal;
use hoptax_format::random::Random;

/// The share of scatter from process to process that is known beforehand.
const KNOWN: f64 = 0.1;

/// A simulated run.
#[derive(Debug, Clone, Copy)]
struct Model {
    processes: usize,
    /// Rounds of each process.
    rounds: usize,
    /// Standard deviation of the levels of processes. The mean is 1.
    of_processes: f64,
    /// Standard deviation of the rounds of a process.
    of_rounds: f64,
}

/// Shares of runs whose interval contains the truth: with the scatter of processes as the run shows it, as in
/// reports, with the known share alone, and from rounds alone.
fn coverage(model: Model, runs: u32) -> [f64; 3] {
    let random = &mut Random::new(29);
    let mut held = [0; 3];
    for _ in 0..runs {
        let levels = (0..model.processes).map(|_| 1.0 + model.of_processes * normal(random));
        let levels: Vec<f64> = levels.collect();
        let of_process =
            |level: &f64| (0..model.rounds).map(|_| level + model.of_rounds * normal(random)).collect();
        let by_process: Vec<Vec<f64>> = levels.iter().map(of_process).collect();
        let all = by_process.concat();
        let figure = mean(&all).expect("rounds");
        // Many rounds are drawn in batches.
        let units = Units::new(0..all.len() as u32);
        let mut batches = vec![Vec::new(); units.count()];
        for (value, round) in all.iter().zip(0..) {
            batches[units.of(round).expect("a round")].push(*value);
        }
        let batches: Vec<f64> = batches.iter().filter_map(|batch| mean(batch)).collect();
        let half = of_mean(&batches).and_then(|one| one.half_width()).expect("rounds");
        let relative = |rounds: &Vec<f64>| {
            let one = of_mean(rounds)?;
            Some((one.estimate / figure, variance_of(&one)?.0 / figure / figure))
        };
        let seen = share_of_runs(&[by_process.iter().filter_map(relative).collect()], KNOWN);
        let over = |share: f64| half.hypot(share * figure / (model.processes as f64).sqrt());
        for (held, half) in held.iter_mut().zip([over(seen.unwrap_or(KNOWN)), over(KNOWN), half]) {
            *held += u32::from((figure - 1.0).abs() <= half);
        }
    }
    held.map(|held| f64::from(held) / f64::from(runs))
}

const SCATTERS: [f64; 4] = [0.0, 0.02, 0.05, 0.1];
const DESIGNS: [(usize, usize); 4] = [(4, 2), (4, 5), (4, 25), (8, 5)];

fn model(of_processes: f64, (processes, rounds): (usize, usize)) -> Model {
    Model { processes, rounds, of_processes, of_rounds: 0.03 }
}

/// Shows too that it can fail: the known share alone does not cover a larger scatter, and rounds alone do not
/// cover any.
#[test]
fn intervals_over_processes_cover_however_much_processes_scatter() {
    const RUNS: u32 = 400;
    // Four standard errors of a share of 95 %.
    let error = 4.0 * (0.95 * 0.05 / f64::from(RUNS)).sqrt();
    for of_processes in SCATTERS {
        for design in DESIGNS {
            let [covered, known, rounds] = coverage(model(of_processes, design), RUNS);
            // If processes are alike, the known share still counts a little.
            let most = if of_processes < 0.05 { 1.0 } else { 0.95 + error };
            assert!((0.95 - error..=most).contains(&covered), "{of_processes}, {design:?}: {covered}");
            if of_processes >= 0.05 && design == (4, 25) {
                assert!(rounds < 0.7, "{of_processes}: {rounds}");
                assert_eq!(known > 0.95 - error, of_processes == 0.05, "{of_processes}: {known}");
            }
        }
    }
}

#[test]
#[ignore = "prints what docs/concepts/simulations.md says of processes, in minutes"]
fn processes_table() {
    for of_processes in SCATTERS {
        let cells = DESIGNS.map(|design| {
            let [seen, ..] = coverage(model(of_processes, design), 20_000);
            format!(" {:.1} |", 100.0 * seen)
        });
        println!("| {} % |{}", 100.0 * of_processes, cells.concat());
    }
}
