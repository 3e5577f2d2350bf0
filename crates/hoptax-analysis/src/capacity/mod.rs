//! Capacity: the highest rate that each contender holds under an objective, from the trials of its search.

pub mod judge;
mod limit;
mod search;

pub use search::capacities;

use super::load::Load;
use hoptax_record::report::{Confirmed, Limit, Step};
use hoptax_record::{DIRECT, Failure};
use hoptax_stats::Estimate;

/// The highest rate that a contender holds under an objective.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity {
    /// Load point, as the plan has it.
    pub load: Load,
    /// [`DIRECT`] or the gateway's label.
    pub gateway: String,
    /// The objective.
    pub slo: String,
    /// Requests/s that half of the undisturbed trials hold, with its 95 % interval and the trials behind it. The upper end is
    /// absent where the highest rate tried was held. Absent where nothing was measured, and where not even the lowest
    /// rate tried was held.
    pub rate: Option<Estimate>,
    /// The lowest rate tried, where it was not held.
    pub below: Option<f64>,
    /// Whether the contender may hold more: something else was the limit.
    pub at_least: bool,
    /// What was the limit; absent where nothing was measured.
    pub limited_by: Option<Limit>,
    /// What of the objective ceased to hold just above: `p99`, `errors`, `throughput`, …; the most frequent first.
    pub broken: Vec<String>,
    /// The highest rate that longer trials confirmed; absent where none did.
    pub confirmed: Option<Confirmed>,
    /// The rate as a part of direct's; absent for direct, and where either is only bounded.
    pub of_direct: Option<Estimate>,
    /// Why there is nothing, or why the search ended early.
    pub failed: Option<Failure>,
    /// The trials, in the order in which they were made.
    pub steps: Vec<Step>,
}

impl Capacity {
    /// Whether this is the baseline's.
    pub fn is_direct(&self) -> bool {
        self.gateway == DIRECT
    }
}
