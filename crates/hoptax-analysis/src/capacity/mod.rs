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
    /// The load point.
    pub load: Load,
    /// [`DIRECT`] or the gateway's label.
    pub gateway: String,
    /// The objective.
    pub slo: String,
    /// The capacity: the rate, requests/s, that half of the undisturbed trials hold, with its 95 % interval. The
    /// interval has no upper end if the highest rate tried was held. Absent if nothing was measured, or not even the
    /// lowest rate was held.
    pub rate: Option<Estimate>,
    /// The lowest rate tried, if it was not held.
    pub below: Option<f64>,
    /// True if the contender may hold more, because something else was the limit.
    pub at_least: bool,
    /// The limit; absent if nothing was measured.
    pub limited_by: Option<Limit>,
    /// Terms of the objective that failed just above the capacity (`p99`, `errors`, `throughput`, …), the most frequent
    /// first.
    pub broken: Vec<String>,
    /// The highest rate that longer trials confirmed, if any.
    pub confirmed: Option<Confirmed>,
    /// The rate ÷ direct's; absent for direct, and if either has no upper end.
    pub of_direct: Option<Estimate>,
    /// Why there is no capacity, or why the search ended early.
    pub failed: Option<Failure>,
    /// The trials, in the order of the run.
    pub steps: Vec<Step>,
}

impl Capacity {
    /// True for direct.
    pub fn is_direct(&self) -> bool {
        self.gateway == DIRECT
    }
}
