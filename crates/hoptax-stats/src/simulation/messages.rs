//! Intervals of percentiles of messages. The messages of a stream resemble each other, and the streams of a
//! trial share its state, so messages carry less information than the same number of independent times.
//! docs/concepts/simulations.md states the figures.

use super::super::{Statistic, resampled};
use super::world::{Round, normal};
use super::{RUNS, Run, What};
use hoptax_format::random::Random;

/// Streams of a trial, and messages of a stream.
const STREAMS: usize = 20;
const MESSAGES: usize = 25;
/// Time that the gateway adds to each message, µs.
const ADDED_US: f64 = 20.0;
/// Median of direct's times, µs.
const MIDDLE_US: f64 = 100.0;
/// Time between the moments when two messages of a stream are due, µs.
const EVERY_US: f64 = 1_000.0;
/// Standard deviation of the logarithm of a trial's level, which all its streams share.
const SHARED: f64 = 0.1;
/// Standard deviation of the logarithm of a stream's level, and of a message around this level.
const SCATTER: f64 = 0.3;
/// Correlation of the logarithms of neighbouring messages around their stream's level.
const PHI: f64 = 0.8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Ages,
    Gaps,
}

impl Of {
    /// What a gateway adds to each percentile, µs. The same time added to all messages leaves their gaps
    /// unchanged.
    fn added_us(self) -> f64 {
        if self == Self::Ages { ADDED_US } else { 0.0 }
    }
}

/// Generates the times of a trial's messages, ns. Within a stream, ages are an autoregressive process.
fn trial(random: &mut Random, of: Of, added_us: f64) -> Vec<u64> {
    let in_ns = |time_us: f64| (time_us.max(0.0) * 10.0).round() as u64 * 100;
    let mut times = Vec::with_capacity(STREAMS * MESSAGES);
    let shared = SHARED * normal(random);
    for _ in 0..STREAMS {
        let level = shared + SCATTER * normal(random);
        let mut state = normal(random);
        let mut before = None;
        for _ in 0..MESSAGES {
            state = PHI * state + (1.0 - PHI * PHI).sqrt() * normal(random);
            let age = MIDDLE_US * (level + SCATTER * state).exp() + added_us;
            match (of, before.replace(age)) {
                (Of::Ages, _) => times.push(in_ns(age)),
                (Of::Gaps, Some(before)) => times.push(in_ns(EVERY_US + age - before)),
                (Of::Gaps, None) => {}
            }
        }
    }
    times
}

fn round(random: &mut Random, of: Of) -> Round {
    let mut direct = trial(random, of, 0.0);
    let via = trial(random, of, ADDED_US);
    direct.extend(trial(random, of, 0.0));
    Round { direct, via, throughput: [1.0, 1.0] }
}

/// Half-width of an interval that takes all messages of a run for independent, µs. On each side, it is half
/// the distance between the times at the ranks n · p ± 1.96 · √(n · p · (1 − p)).
fn of_messages(rounds: &[Round], statistic: Statistic) -> f64 {
    let share = statistic.quantile().expect("a percentile");
    let half = |of: fn(&Round) -> &[u64]| {
        let mut times: Vec<u64> = rounds.iter().flat_map(|round| of(round).iter().copied()).collect();
        times.sort_unstable();
        let count = times.len() as f64;
        let (rank, error) = (count * share, 1.96 * (count * share * (1.0 - share)).sqrt());
        let at = |rank: f64| times[rank.clamp(0.0, count - 1.0) as usize] as f64 / 1e3;
        (at(rank + error) - at(rank - error)) / 2.0
    };
    half(|round| &round.via).hypot(half(|round| &round.direct))
}

const PERCENTILES: [Statistic; 2] = [Statistic::P50, Statistic::P99];

/// For each percentile, the shares of runs whose interval contains the truth: with intervals from rounds, as
/// in reports, and with intervals from messages.
fn coverage(rounds: usize, of: Of) -> [[f64; 2]; 2] {
    let random = &mut Random::new(11);
    let mut held = [[0; 2]; 2];
    for _ in 0..RUNS {
        let made: Vec<Round> = (0..rounds).map(|_| round(random, of)).collect();
        let run = Run::new(&made);
        for (held, statistic) in held.iter_mut().zip(PERCENTILES) {
            let added = resampled(&run.units, run.figure(What::Added(statistic))).expect("rounds");
            let of_rounds = added.half_width().expect("several rounds");
            for (held, half) in held.iter_mut().zip([of_rounds, of_messages(&made, statistic)]) {
                *held += u32::from((added.estimate - of.added_us()).abs() <= half);
            }
        }
    }
    held.map(|held| held.map(|held| f64::from(held) / f64::from(RUNS)))
}

/// Checks the intervals of both percentiles in short runs.
fn check(of: Of) {
    let error = (0.95 * 0.05 / f64::from(RUNS)).sqrt();
    for rounds in [3, 5] {
        for (statistic, [of_rounds, of_messages]) in PERCENTILES.into_iter().zip(coverage(rounds, of)) {
            println!(
                "{of:?}, {statistic:?}, {rounds} rounds: {of_rounds:.3}, from messages {of_messages:.3}"
            );
            assert!(of_rounds >= 0.93 - 4.0 * error, "{of:?}, {statistic:?}: {of_rounds}");
            // Neighbouring gaps balance each other: a late message makes one longer and the next shorter.
            assert!(of == Of::Gaps || of_messages < 0.7, "{of:?}, {statistic:?}: {of_messages}");
        }
    }
}

#[test]
fn intervals_of_ages_from_rounds_cover_and_intervals_from_messages_do_not() {
    check(Of::Ages);
}

#[test]
fn intervals_of_gaps_from_rounds_cover() {
    check(Of::Gaps);
}
