//! Decides whether an objective held in a trial. The search and the report use the same rule.

use crate::trials::counts::failures;
use hdrhistogram::Histogram;
use hoptax_format::histogram::{rank, value_at_rank};
use hoptax_format::record::LoadRecord;
use hoptax_plan::{Figure, Objective, Term};
use hoptax_record::TrialRecord;
use hoptax_stats::share;

/// A trial of a search, with the data that is needed to check objectives.
#[derive(Debug)]
pub struct SearchTrial<'a> {
    /// The record that the trial was read from.
    pub record: &'a TrialRecord,
    /// The generator's record.
    pub load: &'a LoadRecord,
    /// Response times (completed − scheduled), ns. If a request timed out, its response time is the time
    /// limit. In a search for a number of connections, these are the response times or ages of messages.
    pub response_time: Histogram<u64>,
    /// Number of these times if nothing was lost.
    due: u64,
    /// Times to the first message, ns, and their number if each stream had one. Absent without streams.
    first_content: Option<(Histogram<u64>, u64)>,
    of_connections: bool,
}

impl<'a> SearchTrial<'a> {
    /// Reads a trial. `None` if the trial shows nothing about the contender's capacity. This is so if the
    /// trial failed before it sent requests, if it was interrupted, or if the contender or the upstream died.
    /// But a trial in which no request was answered shows something: the objective did not hold.
    /// `of_connections` is true in a search for a number of connections with streams.
    pub fn read(record: &'a TrialRecord, of_connections: bool) -> Option<Self> {
        let load = record.load_record.as_ref()?;
        let unanswered = load.counts.completed == 0 && load.counts.scheduled > 0;
        if load.interrupted || load.measured_ns == 0 || (record.failed.is_some() && !unanswered) {
            return None;
        }
        let messages = load.messages.as_ref().filter(|_| of_connections);
        let times = match messages.map(|messages| &messages.histograms) {
            Some(messages) => [&messages.response_time, &messages.age],
            None => [&load.histograms.response_time; 2],
        };
        let [first, second] = times;
        let first = first.decode().ok().filter(|times| !times.is_empty());
        let response_time = first.or_else(|| second.decode().ok())?;
        let recorded = response_time.len();
        let due = match messages {
            Some(messages) => recorded + messages.counts.lost,
            None => load.counts.scheduled.max(recorded),
        };
        let first = load.messages.as_ref().and_then(|all| all.histograms.first_message.decode().ok());
        let expected = load.counts.scheduled.saturating_sub(load.counts.in_flight);
        let first_content = first.map(|times| {
            let due = expected.max(times.len());
            (times, due)
        });
        Some(Self { record, load, response_time, due, first_content, of_connections })
    }

    /// Names of the objective's terms that failed. Empty if the objective held. If the trial did not reach
    /// its rate, the list contains `throughput`, even if the objective has no such term.
    pub fn breaks(&self, objective: &Objective) -> Vec<String> {
        let mut broken: Vec<String> =
            objective.terms.iter().filter(|term| !self.holds(term)).map(Term::name).collect();
        let reached = Term::Throughput { least: objective.reached() };
        if !self.holds(&reached) && !broken.contains(&reached.name()) {
            broken.push(reached.name());
        }
        let connections = &self.load.connections;
        if self.of_connections && connections.established < connections.asked {
            broken.push("connections".to_owned());
        }
        broken
    }

    fn holds(&self, term: &Term) -> bool {
        match term {
            Term::Time { of, below } => self.figure(*of).is_some_and(|time| time < below.as_nanos() as f64),
            Term::FirstContent { of, below } => {
                let time = self.first_content.as_ref().and_then(|(times, due)| of_times(times, *due, *of));
                time.is_some_and(|time| time < below.as_nanos() as f64)
            }
            Term::Errors { below } => self.errors() < *below,
            Term::Throughput { least } => self.answered() >= *least,
            Term::Goodput { least } => self.good().is_some_and(|share| share >= *least),
        }
    }

    /// Share of the due requests that met all limits of `goodput`. Absent without limits.
    fn good(&self) -> Option<f64> {
        let good = self.load.messages.as_ref()?.tokens.as_ref()?.counts.good?;
        let counts = &self.load.counts;
        share(good as f64, counts.scheduled.saturating_sub(counts.in_flight) as f64)
    }

    /// A figure of the response times, ns. Requests without a response time (not sent, connection reset,
    /// invalid answer) count as slower than any limit. If such requests were ignored, a percentile would
    /// describe only the requests that succeeded. Absent if the request that decides the figure has no
    /// response time.
    pub fn figure(&self, of: Figure) -> Option<f64> {
        of_times(&self.response_time, self.due, of)
    }

    /// Share of the due requests that failed or received an unsuccessful answer.
    pub fn errors(&self) -> f64 {
        let counts = &self.load.counts;
        let bad = failures(counts) + counts.completed - counts.ok.min(counts.completed);
        share(bad as f64, counts.scheduled as f64).unwrap_or(0.0)
    }

    /// Share of the due requests that received a successful answer. If connections are searched, streams that
    /// were opened before the measured time are not due in it, so there may be none.
    pub fn answered(&self) -> f64 {
        let answered = share(self.load.counts.ok as f64, self.load.counts.scheduled as f64);
        answered.unwrap_or(if self.of_connections { 1.0 } else { 0.0 })
    }
}

/// A figure of `due` times. Those that are not in the histogram are longer than any limit.
fn of_times(times: &Histogram<u64>, due: u64, of: Figure) -> Option<f64> {
    let recorded = times.len();
    if recorded == 0 {
        return None;
    }
    match of {
        Figure::Mean => Some(times.mean()),
        Figure::Max => (recorded == due).then(|| times.max() as f64),
        Figure::Percentile(percentile) => {
            let rank = rank(percentile, due);
            (rank <= recorded).then(|| value_at_rank(times, rank) as f64)
        }
    }
}

/// Checks for each objective whether it held in the trial. `None` if the trial shows nothing about the
/// capacity. `of_connections` as in [`SearchTrial::read`].
pub fn held(record: &TrialRecord, objectives: &[Objective], of_connections: bool) -> Option<Vec<bool>> {
    let trial = SearchTrial::read(record, of_connections)?;
    Some(objectives.iter().map(|objective| trial.breaks(objective).is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{MadeTrial, via};

    fn broken(trial: MadeTrial, objective: &str) -> Vec<String> {
        let objective = hoptax_plan::objective(objective).expect("an objective");
        SearchTrial::read(&trial.0, false).expect("it says something").breaks(&objective)
    }

    #[test]
    fn a_search_for_connections_judges_messages() {
        let broken = |trial: MadeTrial, objective: &str| {
            let objective = hoptax_plan::objective(objective).expect("an objective");
            SearchTrial::read(&trial.0, true).expect("it says something").breaks(&objective)
        };
        let trial = || via("nginx", 0).all_at_us(900_000).server_stream_us(400, 1000);
        assert!(broken(trial(), "p99 < 1ms and errors < 0.1%").is_empty());
        assert_eq!(broken(trial(), "p99 < 300us"), ["p99"]);
        // 10,000 messages arrived.
        let lossy = trial().message_counts(|counts| counts.lost = 200);
        assert_eq!(broken(lossy, "p99 < 1ms"), ["p99"]);
        let slow = trial().first_message_us(9_000);
        assert_eq!(broken(slow, "p99 < 1ms and first_token_p99 < 5ms"), ["first_content_p99"]);
        assert!(broken(trial().first_message_us(9_000), "first_content_p50 < 10ms").is_empty());
        let answers = via("nginx", 0).both_ways_us(400, 1000);
        assert_eq!(broken(answers.established(1), "p99 < 1ms"), ["connections"]);
    }

    #[test]
    fn requests_within_all_limits_are_counted() {
        let trial = || via("nginx", 0).server_stream_us(400, 1000).tokens_us([100, 100, 1000], 10);
        for (good, expected) in [(Some(990), vec![]), (Some(989), vec!["goodput"]), (None, vec!["goodput"])] {
            let trial = trial().token_counts(|counts| counts.good = good);
            assert_eq!(broken(trial, "goodput >= 99%"), expected, "{good:?}");
        }
    }

    #[test]
    fn each_term_is_checked_and_rejections_are_errors() {
        let trial = || via("nginx", 0).response_times_us((1..=1000).map(|n| n * 10));
        for (objective, expected) in [
            ("p99 < 9.95ms", vec![]),
            ("p99 < 9.8ms", vec!["p99"]),
            ("p50 < 5.1ms and max < 11ms", vec![]),
            ("mean < 5ms and max < 10ms", vec!["mean", "max"]),
            ("errors < 0.1%", vec![]),
        ] {
            assert_eq!(broken(trial(), objective), expected, "{objective}");
        }
        assert_eq!(broken(via("nginx", 0).errors(2), "p50 < 1s and errors < 0.1%"), ["errors"]);
        assert!(broken(via("nginx", 0).errors(2), "p50 < 1s and errors < 1%").is_empty());
        assert_eq!(broken(via("nginx", 0).status(503, 5), "p50 < 1s and errors < 0.1%"), ["errors"]);
        let rejected = broken(via("nginx", 0).status(429, 900), "p99 < 1ms");
        assert_eq!(rejected, ["throughput"], "fast rejections are not capacity");
    }

    #[test]
    fn unsent_requests_are_longer_than_any_bound() {
        // 1,000 requests were answered in 100 µs and 8 were never sent. The request at the p99 was answered.
        // The request at the p99.9 was never sent.
        let trial = || via("nginx", 0).all_at_us(100).scheduled(1008);
        assert!(broken(trial(), "p99 < 1ms").is_empty());
        assert_eq!(broken(trial(), "p99.9 < 1s"), ["p99.9"]);
        assert_eq!(broken(trial(), "max < 1s"), ["max"]);
        assert_eq!(broken(via("nginx", 0).all_at_us(100).scheduled(1020), "p50 < 1ms"), ["throughput"]);
        assert!(broken(via("nginx", 0).scheduled(1020), "throughput >= 98%").is_empty());
    }

    #[test]
    fn failed_and_interrupted_trials_show_nothing() {
        let objectives = [hoptax_plan::objective("p99 < 1ms").expect("an objective")];
        assert_eq!(held(&via("nginx", 0).failed("nginx died").0, &objectives, false), None);
        let mut interrupted = via("nginx", 0).0;
        interrupted.load_record.as_mut().expect("made with one").interrupted = true;
        assert_eq!(held(&interrupted, &objectives, false), None);
        let unanswered = via("nginx", 0).nothing_completed().failed("none of 50 requests was answered").0;
        assert_eq!(held(&unanswered, &objectives, false), Some(vec![false]));
        assert_eq!(held(&via("nginx", 0).all_at_us(100).0, &objectives, false), Some(vec![true]));
    }
}
