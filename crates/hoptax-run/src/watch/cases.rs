//! Medians of the trials so far, for each case of the live view. Reports do not use these medians.

use hoptax_analysis::{Trial, headline};
use hoptax_format::clock::SECOND;
use hoptax_format::record::LoadRecord;
use hoptax_history::live::{LiveCase, Round, Second};
use hoptax_record::{DIRECT, TrialRecord};
use hoptax_stats::median;

/// Figures of the good trials of a run.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The label of each load point. The flag is true if the run searches for capacities at this load point.
    loads: Vec<(String, bool)>,
    /// Labels of the contenders, direct first.
    labels: Vec<String>,
    seen: Vec<Seen>,
    /// Result of the last analysis.
    half_widths: Vec<HalfWidth>,
}

/// Half of the width of the interval of a gateway's added median.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HalfWidth {
    /// Index of the load point.
    pub(super) load: usize,
    /// The gateway's label.
    pub(super) gateway: String,
    /// The half-width, µs.
    pub(super) us: f64,
}

/// Figures of one trial.
#[derive(Debug, Clone, Copy)]
struct Seen {
    load: usize,
    /// Index of the contender in `labels`.
    who: usize,
    round: u32,
    rate: f64,
    /// Failures per second.
    failed: f64,
    /// p50 and p99 of the times that [`figures`] returns, µs.
    times: Option<[f64; 2]>,
}

/// Responses per second of a trial. If there were responses, also returns p50 and p99 in µs of the times that
/// the report's answer is about. Returns `None` if the trial failed or measured nothing.
pub fn figures(trial: &TrialRecord) -> Option<(f64, Option<[f64; 2]>)> {
    let trial = Trial::read(trial).ok()?;
    let metric = headline::metric_of_trials(std::slice::from_ref(&trial));
    let times = trial.times(metric.times()?).filter(|times| !times.is_empty());
    let times = times.map(|times| [0.5, 0.99].map(|at| times.value_at_quantile(at) as f64 / 1e3));
    Some((trial.throughput(), times))
}

/// At most this many trials of a load point are shown one by one.
const MOST_ROUNDS: usize = 400;

/// Requests without a successful answer, per second of the measured time.
fn failed_per_second(record: &LoadRecord) -> f64 {
    let counts = &record.counts;
    let failed = counts.timeouts + counts.connect_errors + counts.resets + counts.bad_responses;
    let bad = failed + counts.completed.saturating_sub(counts.ok);
    bad as f64 * SECOND as f64 / record.measured_ns.max(1) as f64
}

impl Tally {
    /// An empty tally. `loads` contains the label of each load point, and whether the run searches at this
    /// load point. `gateways` contains the labels of the gateways in the plan's order.
    pub(super) fn new<'a>(loads: Vec<(String, bool)>, gateways: impl Iterator<Item = &'a str>) -> Self {
        let labels = std::iter::once(DIRECT).chain(gateways).map(str::to_owned).collect();
        Self { loads, labels, seen: Vec::new(), half_widths: Vec::new() }
    }

    /// Adds a trial, unless it failed or measured nothing.
    pub(super) fn add(&mut self, trial: &TrialRecord) {
        let load = trial.load as usize;
        let who = self.labels.iter().position(|label| *label == trial.contender);
        let (Some((rate, times)), Some(who)) = (figures(trial), who) else { return };
        let Some((_, is_searched)) = self.loads.get(load) else { return };
        if *is_searched {
            // Keep only the latest step of a search. Each step has its own rate, so a median over several
            // steps would mean nothing.
            self.seen.retain(|seen| (seen.load, seen.who) != (load, who));
        }
        let failed = trial.load_record.as_ref().map_or(0.0, failed_per_second);
        self.seen.push(Seen { load, who, round: trial.round, rate, failed, times });
    }

    /// The latest trials at a load point, in the order of the run.
    pub(super) fn rounds(&self, load: usize) -> Vec<Round> {
        let here: Vec<&Seen> = self.seen.iter().filter(|seen| seen.load == load).collect();
        let first = here.len().saturating_sub(MOST_ROUNDS);
        let of = |seen: &&Seen| Round {
            gateway: self.labels[seen.who].clone(),
            round: seen.round + 1,
            figures: Second {
                rate: seen.rate,
                failed: seen.failed,
                p50_us: seen.times.map(|times| times[0]),
                p99_us: seen.times.map(|times| times[1]),
            },
        };
        here[first..].iter().map(of).collect()
    }

    /// Replaces the half-widths.
    pub(super) fn set_half_widths(&mut self, half_widths: Vec<HalfWidth>) {
        self.half_widths = half_widths;
    }

    fn half_width(&self, load: usize, who: usize) -> Option<f64> {
        let is_of = |one: &&HalfWidth| one.load == load && one.gateway == self.labels[who];
        self.half_widths.iter().find(is_of).map(|one| one.us)
    }

    /// The cases that have at least one trial. They are sorted by load point, and direct is first at each
    /// load point.
    pub(super) fn cases(&self) -> Vec<LiveCase> {
        let loads = 0..self.loads.len();
        let all = loads.flat_map(|load| (0..self.labels.len()).map(move |who| (load, who)));
        all.filter_map(|(load, who)| self.case(load, who)).collect()
    }

    fn case(&self, load: usize, who: usize) -> Option<LiveCase> {
        let of = |who: usize| self.seen.iter().filter(move |seen| (seen.load, seen.who) == (load, who));
        let time = |who: usize, index: usize, rounds: &[u32]| {
            let trials = of(who).filter(|seen| rounds.contains(&seen.round));
            median(&trials.filter_map(|seen| Some(seen.times?[index])).collect::<Vec<_>>())
        };
        let rounds: Vec<u32> = of(who).map(|seen| seen.round).collect();
        let (label, is_searched) = &self.loads[load];
        let p50 = time(who, 0, &rounds);
        let direct = time(0, 0, &rounds).filter(|_| who > 0 && !is_searched);
        (!rounds.is_empty()).then(|| LiveCase {
            gateway: self.labels[who].clone(),
            load: label.clone(),
            trials: rounds.len() as u32,
            rate: median(&of(who).map(|seen| seen.rate).collect::<Vec<_>>()),
            p50_us: p50,
            p99_us: time(who, 1, &rounds),
            added_p50_us: p50.zip(direct).map(|(via, direct)| via - direct),
            added_p50_half_width_us: self.half_width(load, who),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_analysis::fixture::{Run, via};

    fn tally(run: &Run, is_searched: bool) -> Vec<LiveCase> {
        let loads = vec![("closed loop".to_owned(), is_searched)];
        let mut tally = Tally::new(loads, ["nginx", "envoy"].into_iter());
        run.trials.iter().for_each(|trial| tally.add(trial));
        tally.cases()
    }

    #[test]
    fn shows_medians_and_the_difference_to_direct_in_the_same_rounds() {
        let mut run = Run::steady(3, 100, &[("nginx", 150), ("envoy", 130)]);
        // In round 3, nginx has no good trial, and direct is slower than in other rounds. Therefore round 3
        // must not change the figure of nginx.
        run.push(via(DIRECT, 3).first().all_at_us(9_000));
        run.push(via("nginx", 3).all_at_us(9_000).failed("it died"));
        let cases = tally(&run, false);
        let of: Vec<_> = cases.iter().map(|case| (case.gateway.as_str(), case.trials)).collect();
        assert_eq!(of, [("direct", 7), ("nginx", 3), ("envoy", 3)]);
        let near =
            |value: Option<f64>, expected: f64| value.is_some_and(|value| (value - expected).abs() < 1.0);
        assert!(near(cases[1].p50_us, 150.0) && near(cases[1].added_p50_us, 50.0), "{cases:?}");
        assert!(near(cases[2].p99_us, 130.0) && near(cases[0].p50_us, 100.0), "{cases:?}");
        assert_eq!(cases[0].added_p50_us, None);
        assert!(cases.iter().all(|case| case.rate.is_some_and(|rate| rate > 0.0)), "{cases:?}");
    }

    #[test]
    fn of_streams_of_tokens_the_times_to_the_first_content_are_shown() {
        let trial = via("nginx", 0).all_at_us(900).server_stream_us(100, 1000).first_message_us(300);
        let mut run = Run::closed(4);
        run.push(trial.tokens_us([200, 100, 1000], 10));
        let cases = tally(&run, false);
        assert!(cases[0].p50_us.is_some_and(|p50| (p50 - 300.0).abs() < 2.0), "{cases:?}");
    }

    #[test]
    fn a_search_shows_its_latest_step() {
        let mut run = Run::closed(4);
        run.push(via("nginx", 0).all_at_us(100));
        run.push(via("nginx", 0).all_at_us(700));
        let cases = tally(&run, true);
        assert_eq!((cases.len(), cases[0].trials, cases[0].added_p50_us), (1, 1, None));
        assert!(cases[0].p50_us.is_some_and(|p50| (p50 - 700.0).abs() < 5.0), "{cases:?}");
    }
}
