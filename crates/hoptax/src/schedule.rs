//! The order in which cases are measured: pure, and decided by a recorded seed alone.
//!
//! Machines drift: they warm up, neighbours come and go, caches fill. Whatever is measured in a fixed order inherits
//! that drift as if it were a property of what came late. So in each round the load points come in an order shuffled
//! anew, and for each load point the gateways do too. Direct is measured right before and right after the gateways of
//! each load point: every comparison is then made within minutes of its baseline, the two direct trials say how much
//! the machine itself moved in between (the noise floor), and direct stands at the start and the end of each round.

mod auto;
mod estimate;
pub mod hunt;
mod rounds;
pub mod search;
mod slot;

pub use estimate::{estimate, estimate_at_most};
pub use rounds::schedule;
pub use slot::{Contender, Director, Slot};

use hoptax_plan::{Plan, Trials};
use hoptax_record::{Stopped, TrialRecord};
use rounds::Rounds;
use std::time::Duration;

/// The director that a plan asks for.
pub fn director(plan: &Plan, seed: u64) -> Box<dyn Director> {
    // Rounds are of the load points that are not searched.
    let in_rounds: Vec<usize> =
        (0..plan.load.len()).filter(|load| plan.load[*load].search.is_none()).collect();
    let rounds: Box<dyn Director> = match plan.trials {
        Trials::Auto(auto) if !in_rounds.is_empty() => {
            Box::new(auto::Auto::new(plan, auto, &in_rounds, seed))
        }
        _ => {
            let mut slots = schedule(plan.gateways.len(), in_rounds.len(), plan.trials.at_least(), seed);
            for slot in &mut slots {
                slot.load = in_rounds[slot.load];
            }
            Box::new(Rounds { planned: slots.len(), slots: slots.into_iter() })
        }
    };
    if in_rounds.len() == plan.load.len() {
        return rounds;
    }
    Box::new(Then { first: rounds, then: search::Searches::new(plan, seed), began: false })
}

/// One director's trials, and then the searches'.
struct Then {
    first: Box<dyn Director>,
    then: search::Searches,
    /// Whether the first one is over.
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

    fn tell_time(&mut self, elapsed: Duration) {
        self.first.tell_time(elapsed);
    }

    fn stopped(&self) -> Option<Stopped> {
        self.first.stopped()
    }
}
