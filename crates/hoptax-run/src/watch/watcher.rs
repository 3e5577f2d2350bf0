//! Observes a run and publishes its live state on the board that screens and the server read.

use super::live_findings::LiveFindings;
use super::live_state::LiveState;
use crate::run::{Progress, TrialUpdate};
use crate::schedule::Slot;
use hoptax_format::clock;
use hoptax_history::live::{Board, Finding};
use hoptax_plan::Plan;
use hoptax_record::start::StartRecord;
use hoptax_record::{Failure, RunRecord, TrialRecord};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Publishes the live state of a run on a board.
#[derive(Debug)]
pub struct Watcher {
    clock: Clock,
    findings: LiveFindings,
    /// New findings that [`Watcher::take_new_findings`] has not returned yet.
    new_findings: Vec<Finding>,
}

/// Updates the times on a board, from any thread.
#[derive(Debug, Clone)]
pub struct Clock {
    state: Arc<Mutex<LiveState>>,
    board: Board,
}

impl Watcher {
    /// A watcher of a run of `plan`. `run` is the name of the run directory.
    pub fn new(run: &str, plan: &Plan) -> Self {
        let state = LiveState::new(run, plan);
        let board = Board::new(state.state().clone());
        let clock = Clock { state: Arc::new(Mutex::new(state)), board };
        Self { clock, findings: LiveFindings::default(), new_findings: Vec::new() }
    }

    /// The board that the watcher publishes on.
    pub fn board(&self) -> Board {
        self.clock.board.clone()
    }

    /// A clock that updates the times on the board.
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// All services are stopped.
    pub fn ended(&self) {
        self.write(LiveState::ended);
    }

    /// Findings raised since the last call.
    pub fn take_new_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.new_findings)
    }

    /// Records a failure, like [`Progress::failed`]. Returns true if the failure is new.
    pub fn is_new_failure(&self, label: &str, failure: &Failure) -> bool {
        self.write(|state, _| state.failed(label, failure))
    }

    fn write<T>(&self, change: impl FnOnce(&mut LiveState, u64) -> T) -> T {
        self.clock.write(change)
    }
}

impl Clock {
    /// Updates the elapsed and the remaining time.
    pub fn tick(&self) {
        self.write(LiveState::tick);
    }

    fn write<T>(&self, change: impl FnOnce(&mut LiveState, u64) -> T) -> T {
        let mut live = lock(&self.state);
        let result = change(&mut live, clock::now());
        let state = live.state().clone();
        self.board.change(|shown| *shown = state);
        result
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // If another thread panicked while it held the lock, the state is still good enough to show.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Progress for Watcher {
    fn begun(&mut self, trials: usize, expected: Duration) {
        self.write(|state, now| state.begun(trials, expected, now));
    }

    fn extended(&mut self, by: Duration) {
        self.write(|state, now| state.extended(by, now));
    }

    fn planned(&mut self, trials: usize) {
        self.write(|state, _| state.planned(trials));
    }

    fn prepared(&mut self, run: &RunRecord) {
        self.findings.prepared(run);
    }

    fn preparing(&mut self, what: &str) {
        self.write(|state, _| state.preparing(what));
    }

    fn failed(&mut self, label: &str, failure: &Failure) {
        self.is_new_failure(label, failure);
    }

    fn trial(&mut self, number: usize, slot: &Slot, label: &str) {
        self.write(|state, now| state.trial(number, slot, label, now));
    }

    fn update(&mut self, update: &TrialUpdate) {
        self.write(|state, now| state.update(update, now));
    }

    fn pausing(&mut self) {
        self.write(|state, _| state.pausing());
    }

    fn started(&mut self, _: &StartRecord) {
        self.write(LiveState::started);
    }

    fn recorded(&mut self, trial: &TrialRecord) {
        self.write(|state, now| state.recorded(trial, now));
        self.findings.recorded(trial);
        if let Some(found) = self.findings.analyse_if_due(clock::now) {
            let new = self.write(|state, _| {
                state.known_within(found.half_widths);
                state.found(&found.findings)
            });
            self.new_findings.extend(new);
        }
    }
}
