//! One trial to come, and who decides which comes next.

use hoptax_record::{DirectTrial, SearchStep, Stopped, TrialRecord};
use std::time::Duration;

/// One trial to come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slot {
    /// Round, from 0.
    pub round: u32,
    /// Index of the load point in the plan.
    pub load: usize,
    /// Who is measured.
    pub contender: Contender,
    /// The step of a search that this is; absent in rounds.
    pub step: Option<SearchStep>,
}

/// Says what is measured next, from what was measured so far.
pub trait Director {
    /// Trials known so far to come over the whole run: of a fixed schedule all of them from the start, of one that adapts
    /// those that are certain.
    fn planned(&self) -> usize;

    /// The next trial, told what the one before it led to; none when the run is over.
    fn next(&mut self, last: Option<&TrialRecord>) -> Option<Slot>;

    /// Told before each [`Director::next`] how long ago the first trial began.
    fn tell_time(&mut self, elapsed: Duration) {
        let _ = elapsed;
    }

    /// Why there is no further round; absent for a number of rounds that was fixed, and while rounds go on.
    fn stopped(&self) -> Option<Stopped> {
        None
    }
}

/// Who is measured in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contender {
    /// The baseline, before or after the gateways of its load point.
    Direct(DirectTrial),
    /// The gateway of this index in the plan.
    Gateway(usize),
}
