//! Histograms of rounds. They are prepared so that percentiles of any combination of rounds can be read
//! without merging histograms.

use super::{Statistic, share};
use hdrhistogram::Histogram;
use hoptax_format::histogram::LOWEST;

/// Maximum number of units. A draw consists of units. A unit is one round, or a batch of neighbouring rounds
/// if a run has more rounds than this. Batches limit the work, and preserve the correlation between
/// consecutive rounds. More than 30 batches bring little benefit: B. W. Schmeiser, "Batch Size Effects in the
/// Analysis of Simulation Output", Operations Research 30 (1982).
pub const MOST_UNITS: usize = 30;

/// The distributions of times of several rounds. A round can have several histograms: direct has two trials
/// in each round.
#[derive(Debug, Clone, PartialEq)]
pub struct Rounds {
    /// Every value that occurs in any round, ns, in ascending order.
    values: Vec<u64>,
    /// For each value and each round, the number of samples up to and including that value.
    cumulative: Vec<u64>,
    /// For each round, the sum of its samples, ns.
    sums: Vec<f64>,
    samples: Vec<u64>,
}

impl Rounds {
    /// Collects histograms by round. Each histogram is given with the index of its round.
    ///
    /// # Panics
    /// If an index is `rounds` or more.
    pub fn new<'a>(rounds: usize, histograms: impl IntoIterator<Item = (usize, &'a Histogram<u64>)>) -> Self {
        Self::of_histograms(rounds, &histograms.into_iter().collect::<Vec<_>>())
    }

    /// Like [`Self::new`]. It is not generic, so that it is compiled with this crate, which release builds
    /// optimise.
    fn of_histograms(rounds: usize, histograms: &[(usize, &Histogram<u64>)]) -> Self {
        let mut samples = Vec::new();
        let mut sums = vec![0.0; rounds];
        for &(round, histogram) in histograms {
            sums[round] += histogram.mean() * histogram.len() as f64;
            let recorded = histogram.iter_recorded();
            samples.extend(recorded.map(|step| (step.value_iterated_to(), round, step.count_at_value())));
        }
        Self::of_samples(sums, samples)
    }

    /// Like [`Self::new`], but with other arguments: the sum of each round's samples (ns), and a list of
    /// (value in ns, round, count) in any order.
    pub(super) fn of_samples(sums: Vec<f64>, mut samples: Vec<(u64, usize, u64)>) -> Self {
        // The samples of each histogram are already in order, and a stable sort merges them.
        samples.sort_by_key(|(value, _, _)| *value);
        let (mut values, mut cumulative) = (Vec::new(), Vec::<u64>::new());
        let mut so_far = vec![0; sums.len()];
        for same in samples.chunk_by(|one, other| one.0 == other.0) {
            for &(_, round, count) in same {
                so_far[round] += count;
            }
            values.push(same[0].0);
            cumulative.extend_from_slice(&so_far);
        }
        Self { values, cumulative, sums, samples: so_far }
    }

    /// Number of rounds, including empty ones.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// True if no round has samples.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// True if the round has samples.
    pub fn has(&self, round: usize) -> bool {
        self.samples[round] > 0
    }

    /// A reader of one statistic for any draw of the rounds. The maximum has no reader: a draw only repeats
    /// recorded values, so it cannot show how large the next maximum may be (Efron and Tibshirani, chapter
    /// 7.4).
    pub fn reader(&self, statistic: Statistic) -> Option<Reader<'_>> {
        let what = match (statistic.quantile(), statistic) {
            (Some(share), _) => What::Quantile { share, between: self.between(share)? },
            (None, Statistic::Mean) => What::Mean,
            (None, _) => return None,
        };
        (!self.is_empty()).then_some(Reader { rounds: self, what })
    }

    /// Computes this percentile for each round. Returns two indices in `values`: the index of the smallest of
    /// these percentiles, and the index of the largest. If rounds are merged, the percentile of the merged
    /// rounds lies between these two values.
    fn between(&self, share: f64) -> Option<(usize, usize)> {
        let of = |round: usize| {
            let rank = rank(share, self.samples[round]);
            self.first(
                |value| self.cumulative[value * self.len() + round] >= rank,
                (0, self.values.len() - 1),
            )
        };
        let held = || (0..self.len()).filter(|round| self.has(*round)).map(of);
        Some((held().min()?, held().max()?))
    }

    /// The first index from `low` to `high` for which `holds` returns true. Returns `high` if there is no
    /// such index.
    fn first(&self, holds: impl Fn(usize) -> bool, (mut low, mut high): (usize, usize)) -> usize {
        while low < high {
            let middle = usize::midpoint(low, high);
            if holds(middle) { high = middle } else { low = middle + 1 }
        }
        low
    }
}

/// The rank of the sample at this percentile. Ranks are counted from 1, as in HdrHistogram.
fn rank(share: f64, samples: u64) -> u64 {
    ((share * samples as f64).ceil() as u64).max(1)
}

/// Reads one statistic from draws of rounds.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rounds: &'a Rounds,
    what: What,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Quantile { share: f64, between: (usize, usize) },
    Mean,
}

impl Reader<'_> {
    /// The statistic of the merged rounds, µs. Each round counts as often as it was drawn. Absent if there
    /// are no samples.
    pub fn of(&self, drawn: &[u64]) -> Option<f64> {
        let Rounds { values, cumulative, sums, samples } = self.rounds;
        let times =
            |counts: &[u64]| drawn.iter().zip(counts).map(|(times, count)| times * count).sum::<u64>();
        let all = times(samples);
        if all == 0 {
            return None;
        }
        let nanoseconds = match self.what {
            What::Quantile { share, between } => {
                let rank = rank(share, all);
                let row = |value: usize| &cumulative[value * samples.len()..][..samples.len()];
                values[self.rounds.first(|value| times(row(value)) >= rank, between)] as f64
            }
            What::Mean => weighted(drawn, sums) / all as f64,
        };
        // A histogram cannot distinguish values below its lowest value from zero.
        Some(if nanoseconds < LOWEST as f64 { 0.0 } else { nanoseconds / 1e3 })
    }
}

/// Two sums over rounds, for example the completed requests and the time that they took. The ratio of the two
/// sums is a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Sums {
    parts: Vec<f64>,
    wholes: Vec<f64>,
}

impl Sums {
    /// Adds up (round, part, whole) for each unit. Rounds that belong to no unit are ignored.
    pub fn new(units: &Units, values: impl IntoIterator<Item = (u32, f64, f64)>) -> Self {
        let mut sums = Self { parts: vec![0.0; units.count()], wholes: vec![0.0; units.count()] };
        for (round, part, whole) in values {
            let Some(unit) = units.of(round) else { continue };
            sums.parts[unit] += part;
            sums.wholes[unit] += whole;
        }
        sums
    }

    /// Sum of the parts ÷ sum of the wholes. Each round counts as often as it was drawn. Absent if the
    /// divisor is zero.
    pub fn share(&self, drawn: &[u64]) -> Option<f64> {
        share(weighted(drawn, &self.parts), weighted(drawn, &self.wholes))
    }
}

fn weighted(drawn: &[u64], values: &[f64]) -> f64 {
    drawn.iter().zip(values).map(|(times, value)| *times as f64 * value).sum()
}

/// The units to draw. A unit is one round, or a batch of neighbouring rounds if there are more than
/// [`MOST_UNITS`]. Units are numbered from 0, in ascending order of `rounds`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Units {
    rounds: Vec<u32>,
}

impl Units {
    /// Forms the units of these rounds.
    pub fn new(rounds: impl IntoIterator<Item = u32>) -> Self {
        let mut rounds: Vec<u32> = rounds.into_iter().collect();
        rounds.sort_unstable();
        rounds.dedup();
        Self { rounds }
    }

    /// Number of units.
    pub fn count(&self) -> usize {
        self.rounds.len().min(MOST_UNITS)
    }

    /// Number of distinct rounds.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// The unit of a round. `None` for an unknown round.
    pub fn of(&self, round: u32) -> Option<usize> {
        let index = self.rounds.binary_search(&round).ok()?;
        Some(index * self.count() / self.rounds.len())
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "More than {} rounds are drawn" number(MOST_UNITS);
    METHODOLOGY "rounds are drawn in {} batches" number(MOST_UNITS);
    PLAN "of all passes are the batches, at most {}. From" number(MOST_UNITS);
}

#[cfg(test)]
mod tests {
    use super::super::merge;
    use super::*;
    use hoptax_format::histogram::{TRIAL_DIGITS, empty};
    use hoptax_format::random::Random;

    fn histogram(random: &mut Random, samples: usize, mean_us: f64) -> Histogram<u64> {
        let mut histogram = empty(TRIAL_DIGITS);
        for _ in 0..samples {
            histogram.record((1000.0 * mean_us * random.exponential()) as u64).expect("in range");
        }
        histogram
    }

    #[test]
    fn agrees_with_merging() {
        let mut random = Random::new(5);
        let histograms: Vec<Histogram<u64>> = [(300, 80.0), (1000, 100.0), (7, 900.0), (500, 90.0)]
            .map(|(samples, mean)| histogram(&mut random, samples, mean))
            .into();
        let rounds = Rounds::new(4, histograms.iter().enumerate());
        for drawn in [[1, 1, 1, 1], [0, 0, 4, 0], [2, 0, 1, 1], [0, 4, 0, 0], [1, 3, 0, 0]] {
            let repeated = histograms
                .iter()
                .zip(drawn)
                .flat_map(|(histogram, times)| std::iter::repeat_n(histogram, times as usize));
            let merged = merge(repeated);
            for statistic in [Statistic::P50, Statistic::P90, Statistic::P95, Statistic::P99, Statistic::P999]
            {
                let read = rounds.reader(statistic).expect("there are samples").of(&drawn);
                assert_eq!(read, statistic.of(&merged), "{} of {drawn:?}", statistic.name());
            }
            let mean =
                rounds.reader(Statistic::Mean).expect("there are samples").of(&drawn).expect("samples");
            let merged = Statistic::Mean.of(&merged).expect("samples");
            assert!((mean - merged).abs() <= 1e-9 * merged, "{mean} {merged}");
        }
        assert!(rounds.reader(Statistic::Max).is_none(), "draws say nothing about a maximum");
    }

    #[test]
    fn several_histograms_of_one_round_count_together() {
        let mut random = Random::new(6);
        let (one, other) = (histogram(&mut random, 100, 50.0), histogram(&mut random, 300, 150.0));
        let rounds = Rounds::new(1, [(0, &one), (0, &other)]);
        let read = rounds.reader(Statistic::P90).expect("samples").of(&[1]);
        assert_eq!(read, Statistic::P90.of(&merge([&one, &other])));
    }

    #[test]
    fn without_samples_there_is_no_figure() {
        let (none, mut one) = (empty(TRIAL_DIGITS), empty(TRIAL_DIGITS));
        assert!(Rounds::new(1, [(0, &none)]).reader(Statistic::P50).is_none());
        one.record(5000).expect("in range");
        let rounds = Rounds::new(2, [(0, &none), (1, &one)]);
        let reader = rounds.reader(Statistic::P50).expect("one sample");
        assert_eq!((reader.of(&[2, 0]), reader.of(&[1, 1]).map(f64::round)), (None, Some(5.0)));
        assert_eq!((rounds.len(), rounds.has(0), rounds.has(1)), (2, false, true));
    }

    #[test]
    fn shares_are_ratios_of_sums() {
        let units = Units::new([0, 1]);
        let sums = Sums::new(&units, [(0, 1.0, 10.0), (1, 30.0, 20.0), (1, 3.0, 2.0), (7, 100.0, 1.0)]);
        assert_eq!(sums.share(&[1, 1]), Some(34.0 / 32.0));
        assert_eq!(sums.share(&[2, 0]), Some(0.1));
        assert_eq!(sums.share(&[0, 0]), None);
    }

    #[test]
    fn many_rounds_are_drawn_in_batches_of_neighbours() {
        let few = Units::new([3, 1, 3, 9]);
        assert_eq!(
            (few.count(), few.rounds(), few.of(1), few.of(3), few.of(9), few.of(2)),
            (3, 3, Some(0), Some(1), Some(2), None)
        );
        let many = Units::new(0..100);
        let units: Vec<usize> = (0..100).filter_map(|round| many.of(round)).collect();
        assert!(units.is_sorted() && units.len() == 100);
        for unit in 0..MOST_UNITS {
            let size = units.iter().filter(|other| **other == unit).count();
            assert!((3..=4).contains(&size), "unit {unit} holds {size} rounds");
        }
    }
}
