//! What is being measured, which round, and the time left: one line on a terminal, nothing elsewhere but failures.

use crate::plan::{LoadPoint, Plan, Trials};
use crate::record::{Failure, SearchStep, StepPurpose, TrialRecord};
use crate::run::Progress;
use crate::schedule::Slot;
use hoptax_load::record::Phase;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The line.
pub(super) struct Bar {
    bar: ProgressBar,
    /// Of how many: `/5`, or ` of 5 to 30`.
    rounds: String,
    /// Whether more rounds may come than are planned so far.
    open_ended: bool,
    load: Vec<String>,
    expected: Duration,
    trials: usize,
    begun: Instant,
    number: usize,
    round: u32,
    /// Whether the plan searches for capacities.
    searches: bool,
    /// The step of a search that is under way.
    step: Option<SearchStep>,
    /// Whose trial is under way, and its load.
    what: [String; 2],
    told: BTreeSet<String>,
}

impl Bar {
    pub(super) fn new(plan: &Plan) -> Self {
        let target =
            if super::watched() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{spinner} {wide_msg}").expect("the template is constant");
        bar.set_style(style.tick_chars("·•● "));
        // Once a second: what draws the line shares the machine with what is measured.
        bar.enable_steady_tick(Duration::from_secs(1));
        Self {
            bar,
            rounds: match plan.trials {
                Trials::Fixed(rounds) => format!("/{rounds}"),
                Trials::Auto(auto) => format!(" of {} to {}", auto.least, auto.most),
            },
            open_ended: matches!(plan.trials, Trials::Auto(_)),
            load: plan.load.iter().map(LoadPoint::describe).collect(),
            expected: Duration::ZERO,
            trials: 0,
            begun: Instant::now(),
            number: 0,
            round: 1,
            searches: plan.load.iter().any(|load| load.search.is_some()),
            step: None,
            what: [String::new(), String::new()],
            told: BTreeSet::new(),
        }
    }

    /// Wipes the line.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Shows the line with what the trial under way is doing.
    fn tell(&self, phase: &str) {
        let left = self.left(self.number);
        self.bar.set_message(match self.step {
            Some(step) => step_line(self.number + 1, step, &left, &self.what, phase),
            None => {
                let round = format!("{}{}", self.round, self.rounds);
                line(&self.number(), &round, &left, &self.what, phase)
            }
        });
    }

    /// `12/42`; without the total where rounds or steps of searches may be added to it.
    fn number(&self) -> String {
        match self.open_ended || self.searches {
            true => format!("{}", self.number + 1),
            false => format!("{}/{}", self.number + 1, self.trials),
        }
    }

    fn left(&self, number: usize) -> String {
        // The plan's own arithmetic until half of the run is behind us, then the pace so far.
        let spent = self.begun.elapsed();
        // How many trials a search takes nobody knows: for a run with one, the arithmetic is all there is.
        let left = if number * 2 < self.trials || self.searches {
            self.expected.saturating_sub(spent)
        } else {
            spent * self.trials.saturating_sub(number) as u32 / number.max(1) as u32
        };
        let seconds = left.as_secs();
        let least = if self.open_ended && self.step.is_none() { "at least " } else { "" };
        let told =
            if seconds >= 90 { format!("{} min", (seconds + 30) / 60) } else { format!("{seconds} s") };
        format!("{least}{told} left")
    }
}

impl Progress for Bar {
    fn begun(&mut self, trials: usize, expected: Duration) {
        self.trials = trials;
        self.expected = expected;
        self.begun = Instant::now();
    }

    fn planned(&mut self, trials: usize) {
        self.trials = trials;
    }

    fn preparing(&mut self, what: &str) {
        self.bar.set_message(format!("starting {what}"));
    }

    fn failed(&mut self, label: &str, failure: &Failure) {
        // A gateway that is out fails each of its trials alike: once is enough.
        if !self.told.insert(format!("{label}: {}", failure.message)) {
            return;
        }
        let mut text = format!("{label}: {}", failure.message);
        for line in failure.detail.lines() {
            text.push_str("\n    ");
            text.push_str(line);
        }
        self.bar.suspend(|| eprintln!("{text}"));
    }

    fn trial(&mut self, number: usize, slot: &Slot, label: &str) {
        self.number = number;
        self.round = slot.round + 1;
        self.step = slot.step;
        self.what = [label.to_owned(), self.load[slot.load].clone()];
        self.tell("starting");
    }

    fn phase(&mut self, phase: Phase) {
        self.tell(match phase {
            Phase::Connecting => "connecting",
            Phase::Warmup => "warming up",
            Phase::Measuring => "measuring",
            Phase::Draining => "draining",
        });
    }

    fn pausing(&mut self) {
        self.tell("pause");
    }

    fn recorded(&mut self, _: &TrialRecord) {
        self.bar.tick();
    }
}

/// What matters most stands first: a narrow terminal cuts the end off.
fn line(trial: &str, round: &str, left: &str, what: &[String; 2], phase: &str) -> String {
    let [label, load] = what;
    format!("[{trial}] round {round} · {label} · {phase} · {left} · {load}")
}

/// The same of a step of a search.
fn step_line(number: usize, step: SearchStep, left: &str, what: &[String; 2], phase: &str) -> String {
    let ([label, load], rate) = (what, tidy(step.rate));
    let doing = match step.purpose {
        StepPurpose::Search => "searching",
        StepPurpose::Confirm => "confirming",
    };
    format!("[{number}] {label} · {doing} at {rate} · {phase} · step {} · {left} · {load}", step.number + 1)
}

/// A rate that a search came upon, to what a reader can use: it is seldom a round number.
fn tidy(rate: f64) -> String {
    let digits = if rate >= 100.0 { 0 } else { 2 };
    format!("{rate:.digits$}/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_a_search_shows_its_rate() {
        let what = ["nginx".to_owned(), "search, 100/s to 5000/s, p99 < 10ms".to_owned()];
        let step = SearchStep { number: 6, rate: 3200.0, purpose: StepPurpose::Confirm };
        assert_eq!(
            step_line(12, step, "75 s left", &what, "measuring"),
            "[12] nginx · confirming at 3200/s · measuring · step 7 · 75 s left · search, 100/s to 5000/s, p99 < 10ms"
        );
    }

    #[test]
    fn an_odd_rate_is_told_by_the_second() {
        assert_eq!([728.8, 99.125, 20_000.0].map(tidy), ["729/s", "99.12/s", "20000/s"]);
    }

    #[test]
    fn a_narrow_terminal_still_shows_who_is_measured_and_for_how_long() {
        let what = ["haproxy".to_owned(), "open, 1000/s constant, 16 connections".to_owned()];
        let line = line("12/42", "1/2", "75 s left", &what, "measuring");
        assert_eq!(
            line,
            "[12/42] round 1/2 · haproxy · measuring · 75 s left · open, 1000/s constant, 16 connections"
        );
        let narrow: String = line.chars().take(40).collect();
        assert!(narrow.contains("haproxy · measuring"), "{narrow}");
    }
}
