//! Whether a trial held an objective: one rule for the search while it runs and for the report afterwards.

use crate::counts::failures;
use hdrhistogram::Histogram;
use hoptax_load::record::LoadRecord;
use hoptax_plan::{Figure, Objective, Term};
use hoptax_record::TrialRecord;
use hoptax_stats::share;

/// A trial of a search, as far as objectives look at it.
#[derive(Debug)]
pub struct Look<'a> {
    /// The record it was read from.
    pub record: &'a TrialRecord,
    /// What the generator saw.
    pub load: &'a LoadRecord,
    /// Completed − scheduled, ns; timeouts with the time at which they were given up.
    pub response_time: Histogram<u64>,
}

impl<'a> Look<'a> {
    /// Reads a trial. Absent for one that says nothing of the contender's capacity: it failed before it could send, was
    /// interrupted, or the contender or the upstream died in it. One without a single answer says a lot.
    pub fn read(record: &'a TrialRecord) -> Option<Self> {
        let load = record.load_record.as_ref()?;
        let unanswered = load.counts.completed == 0 && load.counts.scheduled > 0;
        if load.interrupted || load.measured_ns == 0 || (record.failed.is_some() && !unanswered) {
            return None;
        }
        let response_time = load.histograms.response_time.decode().ok()?;
        Some(Self { record, load, response_time })
    }

    /// The names of the terms of an objective that do not hold; `throughput` where the rate was not reached, whether or
    /// not the objective names it. None: the objective held.
    pub fn breaks(&self, objective: &Objective) -> Vec<String> {
        let mut broken: Vec<String> =
            objective.terms.iter().filter(|term| !self.holds(term)).map(Term::name).collect();
        let reached = Term::Throughput { least: objective.reached() };
        if !self.holds(&reached) && !broken.contains(&reached.name()) {
            broken.push(reached.name());
        }
        broken
    }

    fn holds(&self, term: &Term) -> bool {
        match term {
            Term::Time { of, below } => self.figure(*of).is_some_and(|time| time < below.as_nanos() as f64),
            Term::Errors { below } => self.errors() < *below,
            Term::Throughput { least } => self.answered() >= *least,
        }
    }

    /// A figure of the response times, ns. Requests without a response time (never sent, reset, not understood) are later
    /// than any bound: otherwise percentiles would be those of the survivors. Absent where the figure is among them.
    pub fn figure(&self, of: Figure) -> Option<f64> {
        let recorded = self.response_time.len();
        let due = self.load.counts.scheduled.max(recorded);
        if recorded == 0 {
            return None;
        }
        match of {
            Figure::Mean => Some(self.response_time.mean()),
            Figure::Max => (recorded == due).then(|| self.response_time.max() as f64),
            Figure::Percentile(percentile) => {
                let rank = (percentile * due as f64).ceil();
                let of_recorded = rank / recorded as f64;
                (of_recorded <= 1.0).then(|| self.response_time.value_at_quantile(of_recorded) as f64)
            }
        }
    }

    /// Share of the requests due that failed, or whose answer was no success: a rejection is no answer that one may count.
    pub fn errors(&self) -> f64 {
        let counts = &self.load.counts;
        let bad = failures(counts) + counts.completed - counts.ok.min(counts.completed);
        share(bad as f64, counts.scheduled as f64).unwrap_or(0.0)
    }

    /// Share of the requests due that were answered with success.
    pub fn answered(&self) -> f64 {
        share(self.load.counts.ok as f64, self.load.counts.scheduled as f64).unwrap_or(0.0)
    }
}

/// Which of the objectives a trial held; absent for a trial that says nothing.
pub fn held(record: &TrialRecord, objectives: &[Objective]) -> Option<Vec<bool>> {
    let look = Look::read(record)?;
    Some(objectives.iter().map(|objective| look.breaks(objective).is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{MadeTrial, via};

    fn broken(trial: MadeTrial, objective: &str) -> Vec<String> {
        let objective = Objective::parse(objective).expect("an objective");
        Look::read(&trial.0).expect("it says something").breaks(&objective)
    }

    #[test]
    fn each_term_is_held_against_the_trial() {
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
    }

    #[test]
    fn what_never_left_is_later_than_any_bound() {
        // 1,000 answered in 100 µs, 8 never sent: p99 is one of the answered, p99.9 is not.
        let trial = || via("nginx", 0).all_at_us(100).scheduled(1008);
        assert!(broken(trial(), "p99 < 1ms").is_empty());
        assert_eq!(broken(trial(), "p99.9 < 1s"), ["p99.9"]);
        assert_eq!(broken(trial(), "max < 1s"), ["max"]);
        assert_eq!(broken(via("nginx", 0).all_at_us(100).scheduled(1020), "p50 < 1ms"), ["throughput"]);
        assert!(broken(via("nginx", 0).scheduled(1020), "throughput >= 98%").is_empty());
    }

    #[test]
    fn resets_and_rejections_are_errors() {
        assert_eq!(broken(via("nginx", 0).errors(2), "p50 < 1s and errors < 0.1%"), ["errors"]);
        assert!(broken(via("nginx", 0).errors(2), "p50 < 1s and errors < 1%").is_empty());
        assert_eq!(broken(via("nginx", 0).status(503, 5), "p50 < 1s and errors < 0.1%"), ["errors"]);
        let rejected = broken(via("nginx", 0).status(429, 900), "p99 < 1ms");
        assert_eq!(rejected, ["throughput"], "quick rejections are no capacity");
    }

    #[test]
    fn a_trial_that_could_not_be_made_says_nothing() {
        let objectives = [Objective::parse("p99 < 1ms").expect("an objective")];
        assert_eq!(held(&via("nginx", 0).failed("nginx died").0, &objectives), None);
        let mut interrupted = via("nginx", 0).0;
        interrupted.load_record.as_mut().expect("made with one").interrupted = true;
        assert_eq!(held(&interrupted, &objectives), None);
        let unanswered = via("nginx", 0).nothing_completed().failed("none of 50 requests was answered").0;
        assert_eq!(held(&unanswered, &objectives), Some(vec![false]));
        assert_eq!(held(&via("nginx", 0).all_at_us(100).0, &objectives), Some(vec![true]));
    }
}
