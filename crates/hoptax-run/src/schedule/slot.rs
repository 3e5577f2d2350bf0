//! A slot for one trial, and the trait [`Director`], which decides which slot comes next.

use hoptax_record::{DirectTrial, LateStep, SearchStep, Stopped, TrialRecord};
use std::time::Duration;

/// The place of one trial in the schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slot {
    /// Round, from 0.
    pub round: u32,
    /// Index of the load point in the plan.
    pub load: usize,
    /// The contender.
    pub contender: Contender,
    /// The step of a search; absent in rounds.
    pub step: Option<SearchStep>,
}

/// Decides which trial comes next. The decision can depend on the trials so far.
pub trait Director {
    /// Number of trials of the whole run, as far as it is known. A fixed schedule counts all its trials, and
    /// an adaptive schedule counts only the trials that are certain.
    fn planned(&self) -> usize;

    /// The next trial. `None` if the run is over. `last` is the record of the previous trial.
    fn next(&mut self, last: Option<&TrialRecord>) -> Option<Slot>;

    /// Sets the time since the first trial began. Called before each call of [`Director::next`].
    fn set_elapsed(&mut self, elapsed: Duration) {
        let _ = elapsed;
    }

    /// Spreads the rounds over this many processes of the gateways that are restarted. Called before the
    /// first slot. Without it, there is one process.
    fn spread_over(&mut self, processes: u32) {
        let _ = processes;
    }

    /// How often these gateways must have been restarted before the slot that [`Director::next`] returned
    /// last.
    fn restarts(&self) -> u32 {
        0
    }

    /// Notes that these processes became faster after their warm-up, as a look before their restart showed.
    fn note_steps(&mut self, steps: Vec<LateStep>) {
        let _ = steps;
    }

    /// Why an adaptive schedule ended its rounds. Absent while rounds continue, and always absent for a fixed
    /// schedule.
    fn stopped(&self) -> Option<Stopped> {
        None
    }

    /// True if the rounds ended early, and could continue if a process became faster after its warm-up.
    fn can_measure_again(&self) -> bool {
        false
    }

    /// Adds rounds, because these processes became faster after their warm-up. Called after the last slot, if
    /// [`Director::can_measure_again`].
    fn measure_again(&mut self, steps: Vec<LateStep>) {
        let _ = steps;
    }
}

/// The contender that is measured in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contender {
    /// Direct, which is the baseline. It is measured before or after the gateways of its load point.
    Direct(DirectTrial),
    /// The gateway with this index in the plan.
    Gateway(usize),
}
