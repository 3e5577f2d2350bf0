//! Events that a run reports to its observer.

use super::traffic::TrialUpdate;
use crate::schedule::Slot;
use hoptax_record::profile::PassRecord;
use hoptax_record::start::StartRecord;
use hoptax_record::{Failure, RunRecord, TrialRecord};
use std::time::Duration;

/// Observer of a run. All methods do nothing by default.
pub trait Progress {
    /// The run begins.
    fn begun(&mut self, trials: usize, expected: Duration) {
        let _ = (trials, expected);
    }
    /// The run takes this much longer than [`Progress::begun`] said, because gateways are restarted that
    /// need a long warm-up.
    fn extended(&mut self, by: Duration) {
        let _ = by;
    }
    /// The number of trials or starts of the whole run, as far as it is known. This method is called again
    /// before each trial.
    fn planned(&mut self, trials: usize) {
        let _ = trials;
    }
    /// All services that could be started are up. The record lists the contenders.
    fn prepared(&mut self, run: &RunRecord) {
        let _ = run;
    }
    /// A service is being started or verified. `what` is the text to show: `starting nginx`.
    fn preparing(&mut self, what: &str) {
        let _ = what;
    }
    /// A contender cannot be measured, or a trial failed.
    fn failed(&mut self, label: &str, failure: &Failure) {
        let _ = (label, failure);
    }
    /// Trial `number` (from 0) begins.
    fn trial(&mut self, number: usize, slot: &Slot, label: &str) {
        let _ = (number, slot, label);
    }
    /// The current trial reports a phase, the figures of a second, or resource use.
    fn update(&mut self, update: &TrialUpdate) {
        let _ = update;
    }
    /// The pause before the next trial begins.
    fn pausing(&mut self) {}
    /// The start is on disk.
    fn started(&mut self, start: &StartRecord) {
        let _ = start;
    }
    /// The profiling pass is on disk.
    fn profiled(&mut self, pass: &PassRecord) {
        let _ = pass;
    }
    /// The trial is on disk.
    fn recorded(&mut self, trial: &TrialRecord) {
        let _ = trial;
    }
}
