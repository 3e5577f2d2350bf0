//! Shows a run in progress, either on a full screen or as plain lines. Also updates the board that the server
//! reads.

use super::{screen, words};
use crate::cli::side_thread::SideThread;
use hoptax_analysis::Severity;
use hoptax_history::live::{Board, Finding};
use hoptax_plan::{GatewayKind, Plan};
use hoptax_record::profile::PassRecord;
use hoptax_record::start::StartRecord;
use hoptax_record::{Failure, RunRecord, TrialRecord};
use hoptax_report::same_cause;
use hoptax_run::schedule::Slot;
use hoptax_run::watch::{Watcher, figures};
use hoptax_run::{Progress, TrialUpdate};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::time::Duration;

/// The viewers of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Viewers {
    /// True if a full-screen view on the terminal shows the run. If false, lines are printed instead.
    pub(super) screen: bool,
    /// True if the server shows the run. The server reads the board.
    pub(super) served: bool,
}

impl Viewers {
    /// True if a viewer shows each second of a trial. Without such a viewer, only the end of a trial is
    /// shown, as a line.
    pub(super) fn need_seconds(self) -> bool {
        self.screen || self.served
    }
}

/// Reports the progress of a run until [`finish`](Self::finish).
#[derive(Debug)]
pub(super) struct Watch {
    watcher: Watcher,
    viewers: Viewers,
    view: Option<SideThread<()>>,
    /// Failures to print when the screen is closed.
    pending: Vec<String>,
    causes: Causes,
    /// Keys ([`finding_key`]) of the findings that have already been printed.
    printed: BTreeSet<(String, Option<String>)>,
}

impl Watch {
    /// Watches a run of `plan`. `run` is the name of the run directory.
    pub(super) fn new(run: &str, plan: &Plan, viewers: Viewers) -> Self {
        let watcher = Watcher::new(run, plan);
        let (pending, causes, printed) = (Vec::new(), Causes::new(plan), BTreeSet::new());
        Self { watcher, viewers, view: None, pending, causes, printed }
    }

    /// Starts the view if a viewer needs it. The view's thread avoids the CPUs of the generator's `workers`.
    /// Fails if the thread cannot be started.
    pub(super) fn show(&mut self, workers: &[u32]) -> std::io::Result<()> {
        if self.viewers.need_seconds() {
            let (board, clock) = (self.watcher.board(), self.watcher.clock());
            self.view = Some(screen::start(board, clock, self.viewers.screen, workers)?);
        }
        Ok(())
    }

    /// The board with the state of the run. The state is updated until the run ends.
    pub(super) fn board(&self) -> Board {
        self.watcher.board()
    }

    /// Closes the screen and prints the failures.
    pub(super) fn finish(&mut self) {
        self.watcher.ended();
        self.view = None;
        self.pending.drain(..).for_each(|text| print_line(&text));
    }

    fn print_findings(&mut self) {
        for finding in self.watcher.take_new_findings() {
            if !self.viewers.screen && self.printed.insert(finding_key(&finding)) {
                print_line(&words::finding(&finding));
            }
        }
    }
}

/// The failures so far. Variants of a gateway often fail with the same cause, so each cause is printed in
/// full only once.
#[derive(Debug)]
struct Causes {
    /// The pack of each gateway, by label.
    packs: BTreeMap<String, String>,
    /// The first failure with each cause, with the label of its contender.
    known: Vec<(String, Failure)>,
}

impl Causes {
    fn new(plan: &Plan) -> Self {
        let pack = |gateway: &hoptax_plan::Gateway| match &gateway.kind {
            GatewayKind::Pack { pack, .. } => Some((gateway.label.clone(), pack.clone())),
            _ => None,
        };
        Self { packs: plan.gateways.iter().filter_map(pack).collect(), known: Vec::new() }
    }

    /// The failure in words. `None` if the same contender failed with the same cause before.
    fn in_words(&mut self, label: &str, failure: &Failure) -> Option<String> {
        let pack = self.packs.get(label);
        let is_same = |(first, known): &&(String, Failure)| {
            let variants = first == label || (pack.is_some() && self.packs.get(first) == pack);
            same_cause((first, known), (label, failure), variants)
        };
        match self.known.iter().find(is_same) {
            Some((first, _)) if first == label => None,
            Some((first, _)) => Some(format!("{label}: the same failure as {first}")),
            None => {
                self.known.push((label.to_owned(), failure.clone()));
                Some(words::failure(label, failure))
            }
        }
    }
}

/// Prints a line to standard error. A closed pipe does not stop the run, so errors are ignored.
fn print_line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The key that decides whether a finding was already printed. A `void` finding is printed once per case, and
/// any other finding once per run. The report lists all cases.
fn finding_key(finding: &Finding) -> (String, Option<String>) {
    let case = finding.case.clone().filter(|_| finding.severity == Severity::Void);
    (finding.code.clone(), case)
}

impl Progress for Watch {
    fn begun(&mut self, trials: usize, expected: Duration) {
        self.watcher.begun(trials, expected);
    }

    fn extended(&mut self, by: Duration) {
        self.watcher.extended(by);
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
        let Some(text) = self.causes.in_words(label, failure) else { return };
        if self.viewers.screen { self.pending.push(text) } else { print_line(&text) }
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

    fn started(&mut self, start: &StartRecord) {
        self.watcher.started(start);
        if !self.viewers.screen {
            print_line(&words::start_line(&self.board().read(), start));
        }
    }

    fn profiled(&mut self, pass: &PassRecord) {
        if !self.viewers.screen && pass.failed.is_none() {
            print_line(&words::pass_line(pass));
        }
    }

    fn recorded(&mut self, trial: &TrialRecord) {
        self.watcher.recorded(trial);
        if !self.viewers.screen {
            print_line(&words::trial_line(&self.board().read(), trial, figures(trial)));
        }
        self.print_findings();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_record::Stage;

    #[test]
    fn a_cause_is_printed_in_full_only_for_the_first_variant() {
        let failure = |label: &str, code: u32| Failure {
            stage: Stage::Start,
            message: format!("{label} exited with code {code}"),
            detail: format!("logs/{label}/stderr.log:\n  it says why\n"),
        };
        let packs = ["nginx", "nginx.tls"].map(|label| (label.to_owned(), "nginx".to_owned())).into();
        let mut causes = Causes { packs, known: Vec::new() };
        let mut printed = |label: &str, code| causes.in_words(label, &failure(label, code));
        insta::assert_snapshot!(printed("nginx", 1).expect("it is the first"));
        assert_eq!(printed("nginx", 1), None);
        insta::assert_snapshot!(printed("nginx.tls", 1).expect("it is another variant"));
        for (label, code) in [("nginx.tls", 2), ("haproxy", 1)] {
            assert!(printed(label, code).is_some_and(|text| text.contains("it says why")), "{label}");
        }
    }
}
