//! Who is told of a run under way: a full screen on a terminal, plain lines elsewhere, and whoever reads the board.

use super::screen::View;
use super::words;
use crate::run::{Progress, TrialUpdate};
use crate::schedule::Slot;
use crate::watch::{Watcher, figures};
use hoptax_analysis::Severity;
use hoptax_history::live::{Board, Finding};
use hoptax_plan::Plan;
use hoptax_plan::recorded::RunRecord;
use hoptax_record::{Failure, TrialRecord};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::time::Duration;

/// How a run is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ways {
    /// On a screen; elsewhere lines are written.
    pub(super) screen: bool,
    /// By somebody who reads the board.
    pub(super) served: bool,
}

impl Ways {
    /// Whether anybody sees more of a trial than its end.
    pub(super) fn sees_seconds(self) -> bool {
        self.screen || self.served
    }
}

/// Tells of a run until it is [finished](Self::finish).
#[derive(Debug)]
pub(super) struct Watch {
    watcher: Watcher,
    ways: Ways,
    view: Option<View>,
    /// Told when the screen is gone: failures, whole.
    afterwards: Vec<String>,
    /// Findings that have had a line: void ones by case, others once.
    told: BTreeSet<(String, Option<String>)>,
}

impl Watch {
    /// Tells of a run of `plan` whose directory has this name.
    pub(super) fn new(run: &str, plan: &Plan, ways: Ways) -> Self {
        let watcher = Watcher::new(run, plan);
        Self { watcher, ways, view: None, afterwards: Vec::new(), told: BTreeSet::new() }
    }

    /// Begins to show it to those who see seconds. What draws stays off the CPUs of `workers`.
    ///
    /// # Errors
    /// If there can be no thread for it.
    pub(super) fn show(&mut self, workers: &[u32]) -> std::io::Result<()> {
        if self.ways.sees_seconds() {
            let (board, clock) = (self.watcher.board(), self.watcher.clock());
            self.view = Some(View::start(board, clock, self.ways.screen, workers)?);
        }
        Ok(())
    }

    /// Where the run can be read.
    pub(super) fn board(&self) -> Board {
        self.watcher.board()
    }

    /// Gives the terminal back, and tells there what failed.
    pub(super) fn finish(&mut self) {
        self.watcher.ended();
        self.view = None;
        self.afterwards.drain(..).for_each(|text| say(&text));
    }

    fn tell_findings(&mut self) {
        for finding in self.watcher.take_new_findings() {
            if !self.ways.screen && self.told.insert(once(&finding)) {
                say(&words::finding(&finding));
            }
        }
    }
}

/// Writes a line. Who does not read it any more is no reason to stop measuring.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// What a finding is told once for: where nothing is to be believed, it matters which case that is; of other doubts the first
/// case will do until the report names all.
fn once(finding: &Finding) -> (String, Option<String>) {
    let case = finding.case.clone().filter(|_| finding.severity == Severity::Void);
    (finding.code.clone(), case)
}

impl Progress for Watch {
    fn begun(&mut self, trials: usize, expected: Duration) {
        self.watcher.begun(trials, expected);
    }

    fn planned(&mut self, trials: usize) {
        self.watcher.planned(trials);
    }

    fn prepared(&mut self, run: &RunRecord) {
        self.watcher.prepared(run);
    }

    fn preparing(&mut self, what: &str) {
        self.watcher.preparing(what);
    }

    fn failed(&mut self, label: &str, failure: &Failure) {
        if !self.watcher.is_new_failure(label, failure) {
            return;
        }
        let text = words::failure(label, failure);
        if self.ways.screen { self.afterwards.push(text) } else { say(&text) }
    }

    fn trial(&mut self, number: usize, slot: &Slot, label: &str) {
        self.watcher.trial(number, slot, label);
    }

    fn update(&mut self, update: &TrialUpdate) {
        self.watcher.update(update);
    }

    fn pausing(&mut self) {
        self.watcher.pausing();
    }

    fn recorded(&mut self, trial: &TrialRecord) {
        self.watcher.recorded(trial);
        if !self.ways.screen {
            say(&words::trial_line(&self.board().read(), trial, figures(trial)));
        }
        self.tell_findings();
    }
}
