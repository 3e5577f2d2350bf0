//! Capacity: the highest rate at which an objective holds for a contender, computed from the trials of a
//! search.

pub mod judge;
mod limit;
mod search;

pub use search::capacities;

use super::load::Load;
use hoptax_record::report::{Confirmed, Limit, Step};
use hoptax_record::{DIRECT, Failure};
use hoptax_stats::Estimate;

/// The highest rate at which an objective holds for a contender.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity {
    /// The load point.
    pub load: Load,
    /// [`DIRECT`], or the gateway's label.
    pub gateway: String,
    /// The objective.
    pub slo: String,
    /// The capacity, requests/s, with its 95 % interval. At this rate, the objective holds in half of the
    /// undisturbed trials. The interval has no upper end if the objective held at the highest rate tried.
    /// Absent if nothing was measured, or if the objective did not hold even at the lowest rate.
    pub rate: Option<Estimate>,
    /// The lowest rate tried. Present only if the objective did not hold even at this rate.
    pub below: Option<f64>,
    /// True if the real capacity may be higher, because something other than the contender was the limit.
    pub at_least: bool,
    /// What limited the capacity. Absent if nothing was measured.
    pub limited_by: Option<Limit>,
    /// Terms of the objective that failed just above the capacity (`p99`, `errors`, `throughput`, …), most
    /// frequent first.
    pub broken: Vec<String>,
    /// The highest rate that longer trials confirmed, if any.
    pub confirmed: Option<Confirmed>,
    /// The capacity ÷ direct's capacity. Absent for direct, and if the interval of one of the two capacities
    /// has no upper end.
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
