//! When a run under way is examined for findings, by the same analysis that the report makes.
//!
//! Only between two trials, never while one is measured: an analysis keeps a CPU busy. It puts off the next trial by as long as
//! it takes, so it is made when at least [`APART`] times as long as the last one took has passed since: watching a run
//! then prolongs it by at most a fiftieth, however many trials it has, and in a run of usual length findings are
//! up to date after each trial.

use hoptax_analysis::{Finding, analyse};
use hoptax_plan::recorded::RunRecord;
use hoptax_record::TrialRecord;

/// Findings that there is too little of something yet: while a run goes on, more is to come.
const TOO_FEW: [&str; 2] = ["few-samples", "not-distinguishable"];
/// Times as long as an analysis takes before the next one is made.
const APART: u64 = 50;

/// What a run has recorded, for whoever examines it.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    run: Option<RunRecord>,
    trials: Vec<TrialRecord>,
    last: Option<Looked>,
}

/// An analysis that was made, nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Looked {
    ended: u64,
    took: u64,
}

impl Doubts {
    /// What is being measured.
    pub(super) fn prepared(&mut self, run: &RunRecord) {
        self.run = Some(run.clone());
    }

    /// One more trial.
    pub(super) fn recorded(&mut self, trial: &TrialRecord) {
        self.trials.push(trial.clone());
    }

    /// Examines what there is, if it is time for that.
    pub(super) fn look(&mut self, clock: impl Fn() -> u64) -> Option<Vec<Finding>> {
        let began = clock();
        let run = self.run.as_ref().filter(|_| self.is_due(began))?;
        let mut findings = analyse(run, &self.trials).findings;
        findings.retain(|finding| !TOO_FEW.contains(&finding.code));
        let ended = clock();
        self.last = Some(Looked { ended, took: ended.saturating_sub(began) });
        Some(findings)
    }

    fn is_due(&self, now: u64) -> bool {
        self.last.is_none_or(|last| now.saturating_sub(last.ended) >= APART.saturating_mul(last.took))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_analysis::fixture::{Run, via};
    use hoptax_load::clock::MILLISECOND as MS;
    use std::cell::Cell;

    #[test]
    fn looking_takes_a_fiftieth_of_the_time_at_most() {
        let run = Run::steady(1, 100, &[("nginx", 150)]);
        let mut doubts = Doubts::default();
        let time = Cell::new(0);
        // Each analysis takes 100 ms: the first reading is its beginning, the second its end.
        let clock = || {
            let now = time.get();
            time.set(now + 100 * MS);
            now
        };
        assert_eq!(doubts.look(clock), None, "nothing was started yet");
        doubts.prepared(&run.record);
        run.trials.iter().for_each(|trial| doubts.recorded(trial));
        time.set(0);
        assert!(doubts.look(clock).is_some());
        for (at, is_looked_at) in
            [(200, false), (5_099, false), (5_100, true), (10_000, false), (10_200, true)]
        {
            time.set(at * MS);
            assert_eq!(doubts.look(clock).is_some(), is_looked_at, "{at} ms");
        }
    }

    #[test]
    fn findings_are_those_of_the_report_on_the_trials_so_far() {
        let mut run = Run::closed(4);
        run.contender("nginx", None);
        run.push(via("direct", 0).first().all_at_us(100)).push(via("nginx", 0).all_at_us(150).errors(40));
        let mut doubts = Doubts::default();
        doubts.prepared(&run.record);
        run.trials.iter().for_each(|trial| doubts.recorded(trial));
        let found = doubts.look(|| 0).expect("nothing was looked at before");
        let mut wanted = run.analyse().findings;
        assert!(wanted.iter().any(|finding| TOO_FEW.contains(&finding.code)), "{wanted:?}");
        wanted.retain(|finding| !TOO_FEW.contains(&finding.code));
        assert!(found.iter().any(|finding| finding.case.is_some()), "{found:?}");
        assert_eq!(found, wanted);
    }
}
