//! What a run reports while it goes on.

use super::traffic::News;
use crate::schedule::Slot;
use hoptax_plan::recorded::RunRecord;
use hoptax_record::{Failure, TrialRecord};
use std::time::Duration;

/// Told what happens while it happens. Every method does nothing unless implemented.
pub trait Progress {
    /// The run begins.
    fn begun(&mut self, trials: usize, expected: Duration) {
        let _ = (trials, expected);
    }
    /// So many trials are known to come over the whole run; told again before each of them.
    fn planned(&mut self, trials: usize) {
        let _ = trials;
    }
    /// Services are up, as far as they came up: what will be measured.
    fn prepared(&mut self, run: &RunRecord) {
        let _ = run;
    }
    /// A service is being started or verified.
    fn preparing(&mut self, what: &str) {
        let _ = what;
    }
    /// A contender takes no part, or a trial failed.
    fn failed(&mut self, label: &str, failure: &Failure) {
        let _ = (label, failure);
    }
    /// Trial `number` (from 0) begins.
    fn trial(&mut self, number: usize, slot: &Slot, label: &str) {
        let _ = (number, slot, label);
    }
    /// Something is told of the trial under way.
    fn news(&mut self, news: &News) {
        let _ = news;
    }
    /// Quiet until the next trial.
    fn pausing(&mut self) {}
    /// The trial is on disk.
    fn recorded(&mut self, trial: &TrialRecord) {
        let _ = trial;
    }
}
