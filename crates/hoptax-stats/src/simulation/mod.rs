//! Simulates how often an interval contains the true value.
//!
//! The tests check what docs/concepts/simulations.md says about the method in use. An ignored test prints the
//! tables of that page: `cargo test --release -p hoptax-stats --lib coverage_tables -- --ignored
//! --nocapture`.

mod bisect;
mod disturbed;
mod messages;
mod methods;
mod pairs;
mod processes;
mod published;
mod series;
mod stopping;
mod world;

use super::rounds::{Rounds, Sums, Units};
use super::{Draws, Statistic, resampled, share};
use hoptax_format::random::Random;
use methods::{Figure, Method};
use world::{Round, World};

#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    Added(Statistic),
    Ratio,
}

/// The rounds of one simulated run, with the same trials per round as a real run.
struct Run {
    units: Units,
    via: Rounds,
    direct: Rounds,
    completed: [Sums; 2],
}

impl Run {
    fn new(rounds: &[Round]) -> Self {
        let units = Units::new(0..rounds.len() as u32);
        let laid = |times: fn(&Round) -> &[u64]| {
            let each = || rounds.iter().enumerate();
            let samples =
                each().flat_map(|(index, round)| times(round).iter().map(move |time| (*time, index, 1)));
            let sums = each().map(|(_, round)| times(round).iter().sum::<u64>() as f64).collect();
            Rounds::of_samples(sums, samples.collect())
        };
        let sums = |of: fn(&Round) -> f64| {
            Sums::new(&units, rounds.iter().zip(0..).map(|(round, index)| (index, of(round), 1.0)))
        };
        Self {
            via: laid(|round| &round.via),
            direct: laid(|round| &round.direct),
            completed: [sums(|round| round.throughput[0]), sums(|round| round.throughput[1])],
            units,
        }
    }

    fn figure(&self, what: What) -> impl Fn(&[u64]) -> Option<f64> {
        let readers = match what {
            What::Added(statistic) => self.via.reader(statistic).zip(self.direct.reader(statistic)),
            What::Ratio => None,
        };
        move |drawn| match readers {
            Some((via, direct)) => Some(via.of(drawn)? - direct.of(drawn)?),
            None => share(self.completed[0].share(drawn)?, self.completed[1].share(drawn)?),
        }
    }
}

/// For each figure and each method, the share of runs whose interval contains the true value. The figures are
/// of the same runs: either all are added times, or there is only the ratio.
fn coverage(
    world: World,
    figures: &[What],
    rounds: usize,
    runs: u32,
    seed: u64,
    methods: &[Method],
) -> Vec<Vec<f64>> {
    let mut random = Random::stream(seed, world as u64);
    let mut seen = vec![vec![0.0; methods.len()]; figures.len()];
    for _ in 0..runs {
        let run = Run::new(&(0..rounds).map(|_| world.round(&mut random, figures[0])).collect::<Vec<_>>());
        for (what, of_figure) in figures.iter().zip(&mut seen) {
            let (truth, figure) = (world.truth(*what), run.figure(*what));
            let figure = Figure::new(rounds, &figure);
            for (method, covered) in methods.iter().zip(of_figure) {
                let (low, high) = method.interval(&figure);
                *covered += f64::from(u8::from(low <= truth && truth <= high)) / f64::from(runs);
            }
        }
    }
    seen
}

/// Collects the times of each round, for reading medians only. The median of any draw lies between the lowest
/// and the highest median of a round. So times beyond them can be counted at the ends of this range, which
/// changes no median and takes a fraction of the time.
fn of_median(mut rounds: Vec<Vec<u64>>) -> Rounds {
    let median = |times: &mut Vec<u64>| {
        let middle = (times.len() - 1) / 2;
        *times.select_nth_unstable(middle).1
    };
    let medians: Vec<u64> = rounds.iter_mut().map(median).collect();
    let (low, high) = (*medians.iter().min().expect("rounds"), *medians.iter().max().expect("rounds"));
    let mut samples = Vec::new();
    for (round, times) in rounds.iter().enumerate() {
        let below = times.iter().filter(|time| **time <= low).count() as u64;
        let above = times.iter().filter(|time| **time >= high).count() as u64;
        let between = times.iter().filter(|time| low < **time && **time < high);
        samples.extend([(low, round, below), (high, round, above)]);
        samples.extend(between.map(|time| (*time, round, 1)));
    }
    Rounds::of_samples(vec![0.0; rounds.len()], samples)
}

#[test]
fn medians_of_draws_need_no_times_beyond_those_of_rounds() {
    let mut random = Random::new(8);
    let rounds: Vec<Vec<u64>> = (0..9).map(|_| World::Drift.round(&mut random, ADDED[0]).via).collect();
    let times =
        |(round, times): (usize, &Vec<u64>)| times.iter().map(|time| (*time, round, 1)).collect::<Vec<_>>();
    let all = Rounds::of_samples(vec![0.0; 9], rounds.iter().enumerate().flat_map(times).collect());
    let few = of_median(rounds);
    let median = |of: &Rounds, drawn: &[u64]| of.reader(Statistic::P50).expect("times").of(drawn);
    assert!(Draws::of(9).iter().all(|(drawn, _)| median(&all, drawn) == median(&few, drawn)));
}

/// The figures estimated in each model.
const ADDED: [What; 2] = [What::Added(Statistic::P50), What::Added(Statistic::P99)];
const RATIO: [What; 1] = [What::Ratio];

/// Number of runs per test. With this number, a share near 95 % has a standard error of 1.1 %.
const RUNS: u32 = 400;

/// Checks the coverage of every figure in a model. The test allows a difference of four standard errors, so
/// that none of about sixty shares fails by chance.
fn check_coverage(world: World, rounds: usize) {
    let error = (0.95 * 0.05 / f64::from(RUNS)).sqrt();
    for figures in [&ADDED[..], &RATIO[..]] {
        let shares = coverage(world, figures, rounds, RUNS, 11, &[Method::InUse]);
        for (what, share) in figures.iter().zip(shares.concat()) {
            assert!(share >= 0.93 - 4.0 * error, "{world:?} {what:?}, {rounds} rounds: {share}");
        }
    }
}

macro_rules! covers {
    ($($name:ident: $world:ident)*) => {$(
        #[test]
        fn $name() {
            for rounds in [3, 5] {
                check_coverage(World::$world, rounds);
            }
        }
    )*};
}

covers! {
    covers_the_truth_with_skewed_times: Skewed
    covers_the_truth_with_an_exponential_tail: Tail
    covers_the_truth_with_correlated_times: Correlated
    covers_the_truth_with_bad_windows: Bursts
    covers_the_truth_with_bimodal_times: Bimodal
    covers_the_truth_with_the_percentile_between_two_modes: Edge
    covers_the_truth_with_good_and_bad_rounds: BadRounds
    covers_the_truth_with_an_effect_of_rounds: Drift
    covers_the_truth_with_a_gateway_noisier_than_direct: Unequal
}

/// Shows that the test can fail: it rejects two methods that docs/concepts/simulations.md calls too narrow.
#[test]
fn the_percentile_bootstrap_and_averages_of_percentiles_do_not_cover() {
    let five = coverage(World::Skewed, &ADDED[..1], 5, RUNS, 11, &[Method::Percentile])[0][0];
    assert!((0.75..0.90).contains(&five), "{five}");
    let many = coverage(World::Bursts, &ADDED[1..], 20, 100, 11, &[Method::MeanOfRounds, Method::InUse]);
    assert!(many[0][0] < 0.87 && many[0][1] > 0.9, "an average of p99 is not a p99 of anything: {many:?}");
}

#[test]
fn the_method_in_use_is_the_one_tested() {
    let mut random = Random::new(3);
    for rounds in [2, 5, 9] {
        let what = What::Added(Statistic::P99);
        let made: Vec<Round> = (0..rounds).map(|_| World::Skewed.round(&mut random, what)).collect();
        let run = Run::new(&made);
        let figure = run.figure(what);
        let used = resampled(&run.units, &figure).expect("rounds").interval().expect("rounds");
        let tested = Method::InUse.interval(&Figure::new(rounds, &figure));
        assert!((used.0 - tested.0).abs() < 1e-6 && (used.1 - tested.1).abs() < 1e-6, "{used:?} {tested:?}");
    }
}

/// Prints the tables of docs/concepts/simulations.md. This takes minutes.
#[test]
#[ignore = "prints the tables of docs/concepts/simulations.md, in minutes"]
fn coverage_tables() {
    let runs = 1000;
    let cells =
        |shares: Vec<f64>| shares.iter().map(|share| format!(" {:.1} |", 100.0 * share)).collect::<String>();
    for what in [&ADDED[..1], &ADDED[1..], &RATIO[..]] {
        println!("\n| {what:?}, rounds | 3 | 5 | 10 | 20 |\n| --- | ---: | ---: | ---: | ---: |");
        for world in World::ALL {
            let share = |rounds| coverage(world, what, rounds, runs, 1, &[Method::InUse])[0][0];
            println!("| {} |{}", world.name(), cells([3, 5, 10, 20].map(share).into()));
        }
    }
    for rounds in [3, 5, 7] {
        println!(
            "\n| {rounds} rounds, p99 |{}",
            Method::ALL.map(|one| format!(" {} |", one.name())).concat()
        );
        println!("| --- |{}", " ---: |".repeat(Method::ALL.len()));
        for world in World::ALL {
            let shares = coverage(world, &ADDED[1..], rounds, runs, 1, &Method::ALL);
            println!("| {} |{}", world.name(), cells(shares.concat()));
        }
    }
}
