//! What is being measured, which round, and the time left: one line on a terminal, nothing elsewhere but failures.

use crate::plan::{LoadPoint, Plan, units};
use crate::record::{Failure, TrialRecord};
use crate::run::Progress;
use crate::schedule::Slot;
use hoptax_load::record::Phase;
use hoptax_load::spec::Shape;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The line.
pub(super) struct Bar {
    bar: ProgressBar,
    rounds: u32,
    load: Vec<String>,
    expected: Duration,
    trials: usize,
    begun: Instant,
    what: String,
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
            rounds: plan.trials,
            load: plan.load.iter().map(describe).collect(),
            expected: Duration::ZERO,
            trials: 0,
            begun: Instant::now(),
            what: String::new(),
            told: BTreeSet::new(),
        }
    }

    /// Wipes the line.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn left(&self, number: usize) -> String {
        // The plan's own arithmetic until half of the run is behind us, then the pace so far.
        let spent = self.begun.elapsed();
        let left = if number * 2 < self.trials {
            self.expected.saturating_sub(spent)
        } else {
            spent * (self.trials - number) as u32 / number.max(1) as u32
        };
        let seconds = left.as_secs();
        if seconds >= 90 { format!("{} min left", (seconds + 30) / 60) } else { format!("{seconds} s left") }
    }
}

impl Progress for Bar {
    fn begun(&mut self, trials: usize, expected: Duration) {
        self.trials = trials;
        self.expected = expected;
        self.begun = Instant::now();
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
        self.what = format!(
            "[{}/{}] round {} of {}, {} left · {label} · {}",
            number + 1,
            self.trials,
            slot.round + 1,
            self.rounds,
            self.left(number).trim_end_matches(" left"),
            self.load[slot.load],
        );
        self.bar.set_message(self.what.clone());
    }

    fn phase(&mut self, phase: Phase) {
        let phase = match phase {
            Phase::Connecting => "connecting",
            Phase::Warmup => "warming up",
            Phase::Measuring => "measuring",
            Phase::Draining => "draining",
        };
        self.bar.set_message(format!("{} · {phase}", self.what));
    }

    fn recorded(&mut self, _: &TrialRecord) {
        self.bar.tick();
    }
}

fn describe(load: &LoadPoint) -> String {
    let connections = match load.connections {
        1 => "1 connection".to_owned(),
        count => format!("{count} connections"),
    };
    match load.shape {
        Shape::Closed => format!("closed loop, {connections}"),
        Shape::Open { rate, .. } => format!("open loop, {}, {connections}", units::show_rate(rate)),
    }
}
