//! Searches for a capacity.

use super::super::{Failure, StepPurpose};
use super::{Estimate, Load};
use serde::Serialize;

/// The highest rate that a contender holds under an objective.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capacity {
    /// Load point, as the plan has it.
    pub load: Load,
    /// `direct` or the gateway's label.
    pub gateway: String,
    /// The objective.
    pub slo: String,
    /// Requests/s that half of the undisturbed trials hold, with its 95 % interval and the trials behind it. The upper end is
    /// absent if the highest rate tried was held. Absent if nothing was measured, and if not even the lowest rate tried was
    /// held.
    pub rate: Option<Estimate>,
    /// The lowest rate tried, if it was not held.
    pub below: Option<f64>,
    /// Whether the contender may hold more: something else was the limit.
    pub at_least: bool,
    /// The limit; absent if nothing was measured.
    pub limited_by: Option<Limit>,
    /// Terms of the objective that ceased to hold just above: `p99`, `errors`, `throughput`, …; the most frequent first.
    pub broken: Vec<String>,
    /// The highest rate that longer trials confirmed; absent if none did.
    pub confirmed: Option<Confirmed>,
    /// The rate as a part of direct's; absent for direct, and if either is only bounded.
    pub of_direct: Option<Estimate>,
    /// Why there is nothing, or why the search ended early.
    pub failed: Option<Failure>,
    /// The trials, in the order in which they were made.
    pub steps: Vec<Step>,
}

/// What kept a contender from holding a higher rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// The gateway: direct holds more.
    Gateway,
    /// The upstream, or the machine that all share: direct holds no more.
    Upstream,
    /// The generator had no CPU time left.
    Generator,
    /// Every connection was busy, while answers came no later than at rates that were held: a connection carries one request
    /// at a time, so the rate cannot exceed connections ÷ service time (Little's law).
    Connections,
    /// The highest rate that the search may try was held.
    Range,
}

/// Longer trials at one rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Confirmed {
    /// Requests/s.
    pub rate: f64,
    /// How many of them held.
    pub held: u32,
    /// How many there were.
    pub trials: u32,
}

/// A trial of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Which of this contender's, from 0.
    pub number: u32,
    /// The rate tried, requests/s.
    pub rate: f64,
    /// What it was for.
    pub purpose: StepPurpose,
    /// Whether the objective held; absent for a trial that says nothing.
    pub held: Option<bool>,
    /// Terms of the objective that did not hold.
    pub broken: Vec<String>,
    /// The rate achieved, requests/s.
    pub throughput: Option<f64>,
    /// Response time, µs: of all requests due, of which those without an answer are later than any. Absent if the figure is one
    /// of those.
    pub p50_us: Option<f64>,
    /// As above.
    pub p99_us: Option<f64>,
    /// Share of the requests due that failed or were answered without success.
    pub errors: Option<f64>,
    /// Share of its time for which the generator's busiest worker was on a CPU.
    pub generator_utilisation: Option<f64>,
}
