//! Searches for a capacity.

use super::super::{Failure, StepPurpose};
use super::{Estimate, Load};
use serde::Serialize;

/// The highest rate that a contender holds under an objective.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capacity {
    /// The load point of the search.
    pub load: Load,
    /// `direct` or the gateway's label.
    pub gateway: String,
    /// The objective.
    pub slo: String,
    /// The rate that half of the undisturbed trials hold, requests/s, with its 95 % interval and the number of
    /// trials. The upper end is absent if the highest rate tried was held. Absent if nothing was measured, and
    /// if not even the lowest rate tried was held.
    pub rate: Option<Estimate>,
    /// The lowest rate tried, requests/s, if it was not held; absent otherwise.
    pub below: Option<f64>,
    /// Whether the contender may hold more, because something else was the limit.
    pub at_least: bool,
    /// The limit; absent if nothing was measured.
    pub limited_by: Option<Limit>,
    /// Terms of the objective that fail just above the rate, most frequent first: `p99`, `errors`,
    /// `throughput`, …
    pub broken: Vec<String>,
    /// The highest rate that longer trials confirmed; absent if none did.
    pub confirmed: Option<Confirmed>,
    /// The rate ÷ direct's rate; absent for direct, and if either rate is only a bound.
    pub of_direct: Option<Estimate>,
    /// Why there is no result, or why the search ended early; absent otherwise.
    pub failed: Option<Failure>,
    /// The trials, in the order of measuring.
    pub steps: Vec<Step>,
}

/// What kept a contender from a higher rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// The gateway: direct holds more.
    Gateway,
    /// The upstream, or the machine that all roles share: direct holds no more.
    Upstream,
    /// The generator had no CPU time left.
    Generator,
    /// Every connection was busy, although answers were as fast as at rates that were held. A connection
    /// carries one request at a time, so the rate cannot exceed connections ÷ service time (Little's law).
    Connections,
    /// The highest rate of the search's range was held.
    Range,
}

/// Longer trials at one rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Confirmed {
    /// Rate, requests/s.
    pub rate: f64,
    /// Number of trials that held the objective.
    pub held: u32,
    /// Number of trials.
    pub trials: u32,
}

/// A trial of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Number of the step in this contender's search, from 0.
    pub number: u32,
    /// The rate tried, requests/s.
    pub rate: f64,
    /// Purpose of the trial.
    pub purpose: StepPurpose,
    /// Whether the objective held; absent if the trial does not show it.
    pub held: Option<bool>,
    /// Terms of the objective that did not hold.
    pub broken: Vec<String>,
    /// The rate achieved, requests/s; absent if not measured.
    pub throughput: Option<f64>,
    /// Median response time of all requests due, µs. Requests without an answer count as slower than any
    /// answer. Absent if the median is such a request.
    pub p50_us: Option<f64>,
    /// 99th percentile, µs; computed like `p50_us`.
    pub p99_us: Option<f64>,
    /// Share of the requests due that failed or got an unsuccessful response; absent if not measured.
    pub errors: Option<f64>,
    /// Share of the time that the generator's busiest worker was on a CPU; absent if not measured.
    pub generator_utilisation: Option<f64>,
}
