//! Change points of made-up series with known steps, compared with a plain threshold.
//!
//! `cargo test -p hoptax-stats --lib series -- --nocapture` prints a table; docs/concepts/simulations.md
//! states precision and recall.

use super::world::normal;
use crate::{Reading, change_points};
use hoptax_format::random::Random;

/// Runs per series.
const RUNS: usize = 40;
/// Number of series of each kind. Every second series has one step more than the others.
const SERIES: u64 = 10;
const SEED: u64 = 1;
/// Level of the first run, µs.
const BASE: f64 = 100.0;
/// A change counts as found if it is reported at most this many runs away from the step.
const NEAR: usize = 2;
/// The plain threshold: a change between two neighboring runs, relative to the first.
const THRESHOLD: f64 = 0.1;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Steps,
    Spikes,
    Drift,
    Noise,
    Widths,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Steps, Self::Spikes, Self::Drift, Self::Noise, Self::Widths];

    fn name(self) -> &'static str {
        match self {
            Self::Steps => "steps of 8 to 30 %",
            Self::Spikes => "three spikes of 30 to 100 %",
            Self::Drift => "drift of 20 to 40 %",
            Self::Noise => "each run's level ±5 %",
            Self::Widths => "every fourth interval 5 times as wide",
        }
    }
}

/// A series of runs, with the index of the first run after each step.
struct Series {
    readings: Vec<Reading>,
    steps: Vec<usize>,
}

impl Series {
    fn new(kind: Kind, number: u64) -> Self {
        let mut random = Random::stream(SEED, kind as u64 * 100 + number);
        let mut levels = vec![BASE; RUNS];
        let mut steps = Vec::new();
        let mut add = |levels: &mut [f64], at: u64, share: f64| {
            levels[at as usize..].iter_mut().for_each(|level| *level += share * BASE);
            steps.push(at as usize);
        };
        let up_or_down = |random: &mut Random| if random.unit() < 0.6 { 1.0 } else { -1.0 };
        let between = |random: &mut Random, least: f64, most: f64| least + (most - least) * random.unit();
        if kind == Kind::Drift {
            let drift = BASE * between(&mut random, 0.2, 0.4) * up_or_down(&mut random);
            for (run, level) in levels.iter_mut().enumerate() {
                *level += drift * run as f64 / (RUNS - 1) as f64;
            }
        }
        let (first, least) = match kind {
            Kind::Steps => (6 + random.below(12), 0.08),
            Kind::Drift => (8, 0.15),
            Kind::Spikes | Kind::Noise | Kind::Widths => (8, 0.12),
        };
        if kind == Kind::Steps {
            let share = up_or_down(&mut random) * between(&mut random, least, 0.3);
            add(&mut levels, first, share);
        }
        if number.is_multiple_of(2) {
            let at = if kind == Kind::Steps { 22 + random.below(12) } else { first + random.below(24) };
            let share = up_or_down(&mut random) * between(&mut random, least, 0.3);
            add(&mut levels, at, share);
        }
        let scatter = BASE * if kind == Kind::Noise { 0.05 } else { 0.01 };
        let reading = |level: f64| {
            let mut error = BASE * between(&mut random, 0.015, 0.03);
            if kind == Kind::Widths && random.unit() < 0.25 {
                error *= 5.0;
            }
            let value = level + error * normal(&mut random) + scatter * normal(&mut random);
            Reading { value, half_width: Some(1.96 * error), bound: None }
        };
        let mut readings: Vec<Reading> = levels.into_iter().map(reading).collect();
        if kind == Kind::Spikes {
            for _ in 0..3 {
                let at = random.below(RUNS as u64) as usize;
                readings[at].value *= between(&mut random, 1.3, 2.0);
            }
        }
        Self { readings, steps }
    }

    /// Indices of the first run after each change that the method in use finds.
    fn changes(&self) -> Vec<usize> {
        change_points(&self.readings).iter().map(|one| one.after).collect()
    }

    /// Like [`Self::changes`], for the changes that the plain threshold finds.
    fn beyond_threshold(&self) -> Vec<usize> {
        let is_beyond = |pair: &[Reading]| {
            let (before, after) = (pair[0].value, pair[1].value);
            (after - before).abs() > THRESHOLD * before.abs()
        };
        let pairs = self.readings.windows(2).zip(1..);
        pairs.filter(|(pair, _)| is_beyond(pair)).map(|(_, after)| after).collect()
    }
}

/// How well a method finds the steps of several series.
#[derive(Debug, Clone, Copy, Default)]
struct Score {
    /// Reported changes that are steps.
    right: usize,
    reported: usize,
    steps: usize,
}

impl Score {
    fn add(&mut self, steps: &[usize], reported: &[usize]) {
        let mut left = steps.to_vec();
        for at in reported {
            let nearest = (0..left.len()).min_by_key(|index| left[*index].abs_diff(*at));
            if let Some(index) = nearest.filter(|index| left[*index].abs_diff(*at) <= NEAR) {
                left.remove(index);
                self.right += 1;
            }
        }
        self.reported += reported.len();
        self.steps += steps.len();
    }

    fn precision(&self) -> f64 {
        self.right as f64 / self.reported as f64
    }

    fn recall(&self) -> f64 {
        self.right as f64 / self.steps as f64
    }
}

#[test]
fn steps_of_made_up_series_are_found() {
    let (mut ours, mut threshold) = (Score::default(), Score::default());
    println!("| series | steps | found | false | found by the threshold | false |");
    for kind in Kind::ALL {
        let (mut of_kind, mut beyond) = (Score::default(), Score::default());
        for number in 0..SERIES {
            let series = Series::new(kind, number);
            for (of_method, reported) in
                [(&mut of_kind, series.changes()), (&mut beyond, series.beyond_threshold())]
            {
                of_method.add(&series.steps, &reported);
            }
        }
        let (name, steps) = (kind.name(), of_kind.steps);
        let counts = [of_kind, beyond].map(|one| format!("{} | {}", one.right, one.reported - one.right));
        println!("| {name} | {steps} | {} |", counts.join(" | "));
        for (all, of_method) in [(&mut ours, of_kind), (&mut threshold, beyond)] {
            all.right += of_method.right;
            all.reported += of_method.reported;
            all.steps += of_method.steps;
        }
    }
    for (name, score) in [("change points", ours), ("threshold", threshold)] {
        println!("{name}: precision {:.2}, recall {:.2}", score.precision(), score.recall());
    }
    let page = include_str!("../../../../docs/concepts/simulations.md").replace('\n', " ");
    for (what, one, other) in [
        ("Precision is", ours.precision(), threshold.precision()),
        ("recall", ours.recall(), threshold.recall()),
    ] {
        let (begin, end) = (format!("{what} {one:.2} against"), format!("{other:.2}"));
        let stated = page.split_once(&begin).is_some_and(|(_, rest)| rest.trim_start().starts_with(&end));
        assert!(stated, "docs/concepts/simulations.md should say: {begin} {end}");
    }
    assert!(ours.precision() >= 0.9 && ours.recall() >= 0.9, "{ours:?}");
    assert!(threshold.precision() < ours.precision() / 2.0, "{threshold:?}");
}

#[cfg(test)]
hoptax_pages::stated! {
    SIMULATIONS "made-up series of {} runs" number(RUNS);
    SIMULATIONS "a threshold of {} between neighboring runs" percent(THRESHOLD);
}
