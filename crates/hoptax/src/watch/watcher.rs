//! Who watches a run: writes what its flow tells onto the board.

use super::course::Course;
use super::doubts::Doubts;
use crate::run::{News, Progress};
use crate::schedule::Slot;
use hoptax_history::live::{Board, Finding};
use hoptax_load::clock;
use hoptax_plan::Plan;
use hoptax_plan::recorded::RunRecord;
use hoptax_record::{Failure, TrialRecord};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Writes what a run's flow tells onto a board.
#[derive(Debug)]
pub struct Watcher {
    clock: Clock,
    doubts: Doubts,
    /// Raised, and not taken by anybody yet.
    found: Vec<Finding>,
}

/// Brings the times on a board up to date, from any thread.
#[derive(Debug, Clone)]
pub struct Clock {
    course: Arc<Mutex<Course>>,
    board: Board,
}

impl Watcher {
    /// Watches a run of `plan` whose directory has this name.
    pub fn new(run: &str, plan: &Plan) -> Self {
        let course = Course::new(run, plan);
        let board = Board::new(course.state().clone());
        let clock = Clock { course: Arc::new(Mutex::new(course)), board };
        Self { clock, doubts: Doubts::default(), found: Vec::new() }
    }

    /// Where it writes.
    pub fn board(&self) -> Board {
        self.clock.board.clone()
    }

    /// What keeps the times there up to date.
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Services are down.
    pub fn ended(&self) {
        self.write(Course::ended);
    }

    /// Findings that have been raised since this was last asked.
    pub fn take_found(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.found)
    }

    /// As [`Progress::failed`]; tells whether that is new.
    pub fn has_failed(&self, label: &str, failure: &Failure) -> bool {
        self.write(|course, _| course.failed(label, failure))
    }

    fn write<T>(&self, change: impl FnOnce(&mut Course, u64) -> T) -> T {
        self.clock.write(change)
    }
}

impl Clock {
    /// Time has passed.
    pub fn tick(&self) {
        self.write(Course::tick);
    }

    fn write<T>(&self, change: impl FnOnce(&mut Course, u64) -> T) -> T {
        let mut course = lock(&self.course);
        let told = change(&mut course, clock::now());
        let state = course.state().clone();
        self.board.change(|shown| *shown = state);
        told
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Who panicked while it was held left what can still be shown.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Progress for Watcher {
    fn begun(&mut self, trials: usize, expected: Duration) {
        self.write(|course, now| course.begun(trials, expected, now));
    }

    fn planned(&mut self, trials: usize) {
        self.write(|course, _| course.planned(trials));
    }

    fn prepared(&mut self, run: &RunRecord) {
        self.doubts.prepared(run);
    }

    fn preparing(&mut self, what: &str) {
        self.write(|course, _| course.preparing(what));
    }

    fn failed(&mut self, label: &str, failure: &Failure) {
        self.has_failed(label, failure);
    }

    fn trial(&mut self, number: usize, slot: &Slot, label: &str) {
        self.write(|course, now| course.trial(number, slot, label, now));
    }

    fn news(&mut self, news: &News) {
        self.write(|course, now| course.news(news, now));
    }

    fn pausing(&mut self) {
        self.write(|course, _| course.pausing());
    }

    fn recorded(&mut self, trial: &TrialRecord) {
        self.write(|course, now| course.recorded(trial, now));
        self.doubts.recorded(trial);
        if let Some(findings) = self.doubts.look(clock::now) {
            let new = self.write(|course, _| course.found(&findings));
            self.found.extend(new);
        }
    }
}
