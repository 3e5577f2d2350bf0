//! The order in which cases are measured. All random choices depend only on a recorded seed.
//!
//! Machines drift. They warm up, other load comes and goes, and caches fill. With a fixed order, this drift
//! would look like a property of the cases that are measured late. Therefore each round shuffles its load
//! points, and the gateways of each load point. Direct is measured right before and right after the gateways
//! of each load point, so that each gateway is measured within minutes of its baseline. The difference
//! between the two direct trials shows how much the machine itself changed (the noise floor).

mod auto;
pub mod capacity_search;
mod estimate;
mod rounds;
pub mod search;
mod slot;
mod spread;

pub use estimate::{
    estimate, estimate_at_most, estimate_of_rounds, longer_by, longer_with_generated_code, planned_starts,
    rounds as expected_rounds,
};
pub use rounds::schedule;
pub use slot::{Contender, Director, Slot};

use hoptax_plan::{Plan, Trials};
use hoptax_record::{LateStep, Stopped, TrialRecord};
use rounds::{RoundMaker, Rounds};
use std::time::Duration;

/// The director that schedules the trials of a plan.
pub fn director(plan: &Plan, seed: u64) -> Box<dyn Director> {
    let in_rounds: Vec<usize> = (0..plan.load.len()).filter(|load| plan.load[*load].is_in_rounds()).collect();
    let rounds: Box<dyn Director> = match plan.trials {
        Trials::Auto(auto) if !in_rounds.is_empty() => {
            Box::new(auto::Auto::new(plan, auto, &in_rounds, seed))
        }
        _ => {
            let mut rounds = RoundMaker::new(plan.gateways.len(), &in_rounds, seed);
            let slots: Vec<Slot> = (0..plan.trials.at_least()).flat_map(|_| rounds.next_round()).collect();
            Box::new(Rounds::new(slots, plan.trials.at_least()))
        }
    };
    if plan.load.iter().all(|load| load.searched().is_none()) {
        return rounds;
    }
    Box::new(Then { first: rounds, then: search::Searches::new(plan, seed), began: false })
}

/// Runs one director to its end, and then the director of the searches.
struct Then {
    first: Box<dyn Director>,
    then: search::Searches,
    /// True once the first director is done.
    began: bool,
}

impl Director for Then {
    fn planned(&self) -> usize {
        self.first.planned() + self.then.planned()
    }

    fn next(&mut self, last: Option<&TrialRecord>) -> Option<Slot> {
        if !self.began {
            let slot = self.first.next(last);
            if slot.is_some() {
                return slot;
            }
            self.began = true;
            return self.then.next(None);
        }
        self.then.next(last)
    }

    fn set_elapsed(&mut self, elapsed: Duration) {
        self.first.set_elapsed(elapsed);
    }

    fn spread_over(&mut self, processes: u32) {
        self.first.spread_over(processes);
    }

    fn restarts(&self) -> u32 {
        self.first.restarts()
    }

    fn note_steps(&mut self, steps: Vec<LateStep>) {
        self.first.note_steps(steps);
    }

    fn stopped(&self) -> Option<Stopped> {
        self.first.stopped()
    }
}
