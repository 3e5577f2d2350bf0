//! How the interval of each gateway's added median shrank during the run. Only the interval that the rounds
//! give is shown. The median is that of the latency headline.
//!
//! The analysis is repeated on growing prefixes of the run: on its first 5 rounds, its first 10 rounds, and
//! so on. The last prefix is the whole run, so it has the precision that the report states. The prefixes show
//! whether more time still helps. If rounds are independent, four times the time halves an interval.

use crate::trials::latency_metric::metric_of_trials;
use crate::trials::measuring_time;
use crate::trials::pairs::{Added, Pairs};
use crate::trials::trial::{Trial, good_trials};
use hoptax_record::report::Load;
use hoptax_record::{DIRECT, RunRecord, Times, TrialRecord};
use hoptax_stats::Statistic;

/// Fewest rounds of a run whose precision is shown over time. With fewer rounds there are no two prefixes to
/// compare.
const FEWEST_ROUNDS: u32 = 10;

/// Maximum number of prefixes. Each costs about as much as a percentile of the report.
const MOST_POINTS: usize = 20;

/// The precision of one gateway's added median at one load point, after growing numbers of rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct PrecisionOverTime {
    /// The gateway's label.
    pub gateway: String,
    /// Index of the load point.
    pub load: usize,
    /// What the median is taken from: response times of requests or, with streams, times of messages.
    pub times: Times,
    /// The precision after each prefix of the run, shortest prefix first. The last point is of the whole run.
    /// Never empty.
    pub points: Vec<PrecisionPoint>,
}

/// The precision after some rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrecisionPoint {
    /// Number of rounds of the run.
    pub rounds: u32,
    /// Time from the start of the first trial to the end of the last trial of these rounds, s.
    pub seconds: f64,
    /// Half of the width of the 95 % interval that these rounds give for the added time at the median, µs.
    pub half_width_us: f64,
}

/// The precision of every gateway over time, sorted by load point, then in the plan's order. Empty if the run
/// has fewer than 10 rounds. Searches have no rounds, so they are left out.
pub fn precision_over_time(run: &RunRecord, records: &[TrialRecord]) -> Vec<PrecisionOverTime> {
    let in_rounds = || records.iter().filter(|record| record.step.is_none());
    let rounds = in_rounds().map(|record| record.round + 1).max().unwrap_or(0);
    if rounds < FEWEST_ROUNDS {
        return Vec::new();
    }
    let until = |rounds: u32| {
        let seconds = measuring_time::seconds(in_rounds().filter(|record| record.round < rounds))?;
        Some((rounds, seconds))
    };
    let prefixes: Vec<(u32, f64)> = prefixes(rounds).into_iter().filter_map(until).collect();
    let loads =
        Load::all(&run.load).into_iter().filter(|load| load.search.is_none() && load.left_out.is_none());
    let mut curves = Vec::new();
    for load in loads {
        let by_round = |label: &str| {
            let mut trials = good_trials(records, label, load.index);
            trials.sort_by_key(Trial::round);
            trials
        };
        let direct = by_round(DIRECT);
        let times = metric_of_trials(&direct).times().unwrap_or(Times::Response);
        for gateway in run.contenders.iter().filter(|one| one.label != DIRECT) {
            let points = points(times, &by_round(&gateway.label), &direct, &prefixes);
            // A gateway without an interval from the whole run is left out, because its curve would end
            // before the run does.
            if points.last().is_some_and(|point| point.rounds == rounds) {
                let gateway = gateway.label.clone();
                curves.push(PrecisionOverTime { gateway, load: load.index, times, points });
            }
        }
    }
    curves
}

/// The lengths of the prefixes for a run with this number of rounds: 5, 10, 15, 20, 30, 40, 60, 80, 120 and
/// so on, and at the end all rounds. From 20 rounds on, each length is a half or a third larger than the one
/// before. Smaller steps would change the half-width little, because it shrinks with the square root of the
/// number of rounds.
fn prefixes(rounds: u32) -> Vec<u32> {
    let doubled = std::iter::successors(Some(10_u32), |ten| ten.checked_mul(2));
    let larger = doubled.flat_map(|ten| [2, 3].map(|times| ten.saturating_mul(times)));
    let mut prefixes: Vec<u32> = [5, 10, 15].into_iter().chain(larger).filter(|one| *one < rounds).collect();
    prefixes.push(rounds);
    prefixes.split_off(prefixes.len().saturating_sub(MOST_POINTS))
}

/// The precision after each prefix that has an interval. The trials must be sorted by round.
fn points(
    times: Times,
    via: &[Trial<'_>],
    direct: &[Trial<'_>],
    prefixes: &[(u32, f64)],
) -> Vec<PrecisionPoint> {
    let of = |&(rounds, seconds): &(u32, f64)| {
        let [via, direct] =
            [via, direct].map(|trials| &trials[..trials.partition_point(|trial| trial.round() < rounds)]);
        let added = Added::new(&Pairs::new(via, direct), |trial| trial.times(times));
        let half_width_us = added.at(Statistic::P50)?.half_width()?;
        Some(PrecisionPoint { rounds, seconds, half_width_us })
    };
    prefixes.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Run, searched_point, via};
    use hoptax_format::random::Random;
    use hoptax_record::Metric;

    /// A run in which response times spread over 200 µs within a trial, and the median of each trial scatters
    /// by 40 µs. Trials are independent. A round takes 3 s.
    fn run(rounds: u32) -> Run {
        let mut run = Run::closed(1);
        let mut random = Random::new(11);
        for round in 0..rounds {
            let start = f64::from(3 * round);
            let mut trial = |who: &str, least: u64, after: f64| {
                let least = least + random.below(41);
                let times = (0..1000).map(move |index| least + index / 5);
                via(who, round).response_times_us(times).at_s(start + after)
            };
            let (first, nginx, last) =
                (trial("direct", 100, 0.0), trial("nginx", 180, 1.0), trial("direct", 100, 2.0));
            run.push(first.first()).push(nginx).push(last.last());
        }
        run
    }

    fn curve(run: &Run) -> PrecisionOverTime {
        precision_over_time(&run.record, &run.trials).into_iter().next().expect("a gateway")
    }

    #[test]
    fn the_last_prefix_has_the_precision_of_the_report() {
        for rounds in [10, 29, 64] {
            let run = run(rounds);
            let last = *curve(&run).points.last().expect("points");
            let analysis = run.analyse();
            let tax = analysis.case("nginx", 0).expect("measured").tax.as_ref().expect("a tax");
            let own = tax.added_p50.expect("measured").in_run.half_width().expect("an interval");
            assert_eq!((last.rounds, last.seconds), (rounds, f64::from(3 * rounds)));
            assert!((last.half_width_us - own).abs() < 1e-9, "{last:?}, {own}");
        }
    }

    #[test]
    fn precision_is_that_of_messages_if_calls_have_streams() {
        let mut run = Run::closed(1);
        for round in 0..12 {
            let start = f64::from(2 * round);
            run.push(via("direct", round).first().all_at_us(900).server_stream_us(100, 1000).at_s(start));
            let (calls_us, age_us) = (1400 + 90 * u64::from(round % 4), 150 + 9 * u64::from(round % 4));
            let trial = via("nginx", round).all_at_us(calls_us).server_stream_us(age_us, 1000);
            run.push(trial.at_s(start + 1.0));
        }
        let curve = curve(&run);
        let analysis = run.analyse();
        let tax = analysis.case("nginx", 0).expect("measured").tax.as_ref().expect("a tax");
        let added = tax.get(Metric::AddedAgeP50).expect("streams of the server");
        let own = added.in_run.half_width().expect("an interval");
        let last = curve.points.last().expect("points").half_width_us;
        assert_eq!(curve.times, Times::Age);
        assert!(own > 1.0 && (last - own).abs() < 1e-9, "{last}, {own}");
    }

    #[test]
    fn half_widths_fall_about_with_the_square_root() {
        let curve = curve(&run(160));
        let half = |rounds: u32| {
            curve.points.iter().find(|point| point.rounds == rounds).expect("a prefix").half_width_us
        };
        // Sixteen times the rounds make an interval a quarter as wide. Student's t adds 14 % to ten rounds,
        // and the width of ten rounds itself scatters by a quarter.
        let ratio = half(10) / half(160);
        assert!((2.5..8.0).contains(&ratio), "{ratio}: {curve:?}");
        assert!(half(40) / half(160) > 1.4, "{curve:?}");
    }

    #[test]
    fn prefixes_grow_and_end_with_the_run() {
        assert_eq!(prefixes(10), [5, 10]);
        assert_eq!(prefixes(60), [5, 10, 15, 20, 30, 40, 60]);
        assert_eq!(prefixes(61), [5, 10, 15, 20, 30, 40, 60, 61]);
        assert_eq!(prefixes(100), [5, 10, 15, 20, 30, 40, 60, 80, 100]);
        for rounds in [11, 1000, 100_000, u32::MAX] {
            let prefixes = prefixes(rounds);
            assert!(prefixes.len() <= MOST_POINTS && prefixes.last() == Some(&rounds), "{prefixes:?}");
            assert!(prefixes.windows(2).all(|pair| pair[0] < pair[1]), "{prefixes:?}");
        }
    }

    #[test]
    fn short_runs_searches_and_gateways_without_trials_have_no_line() {
        let short = run(9);
        assert_eq!(precision_over_time(&short.record, &short.trials), []);
        let mut searched = Run::with_load(vec![searched_point()]);
        for round in 0..20 {
            searched.push(via("nginx", round).all_at_us(150).step(500.0));
        }
        assert_eq!(precision_over_time(&searched.record, &searched.trials), []);
        let mut run = run(12);
        run.contender("late", None);
        run.push(via("dead", 3).failed("it died"));
        let curves = precision_over_time(&run.record, &run.trials);
        assert_eq!(curves.iter().map(|one| one.gateway.as_str()).collect::<Vec<_>>(), ["nginx"]);
    }
}
