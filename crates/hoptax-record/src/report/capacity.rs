//! Results of capacity searches.

use super::super::{DIRECT, Failure, StepPurpose};
use super::{Estimate, Load};
use serde::Serialize;

/// The highest rate at which a contender meets an objective.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capacity {
    /// The load point of the search.
    pub load: Load,
    /// `direct` or the gateway's label.
    pub gateway: String,
    /// The objective.
    pub slo: String,
    /// The rate at which half of the undisturbed trials meet the objective, requests/s. It has a 95 %
    /// interval and the number of trials. The upper end of the interval is absent if trials at the highest
    /// rate tried met the objective. The rate is absent if nothing was measured, and if trials did not meet
    /// the objective even at the lowest rate.
    pub rate: Option<Estimate>,
    /// The lowest rate tried, requests/s, if trials did not meet the objective even at this rate; absent
    /// otherwise.
    pub below: Option<f64>,
    /// Whether the true capacity may be higher, because something other than the contender was the limit.
    pub at_least: bool,
    /// What limited the rate; absent if nothing was measured.
    pub limited_by: Option<Limit>,
    /// Terms of the objective that fail just above the rate, the most frequent first: `p99`, `errors`,
    /// `throughput`, …
    pub broken: Vec<String>,
    /// The highest rate that longer trials confirmed; absent if they confirmed no rate.
    pub confirmed: Option<Confirmed>,
    /// The contender's rate ÷ the rate of direct. Absent for direct, and if one of the two rates is only a
    /// bound.
    pub of_direct: Option<Estimate>,
    /// Why there is no result, or why the search ended early; absent otherwise.
    pub failed: Option<Failure>,
    /// The trials of the search, in the order in which they were measured.
    pub steps: Vec<Step>,
}

impl Capacity {
    /// True for direct.
    pub fn is_direct(&self) -> bool {
        self.gateway == DIRECT
    }
}

/// What limited the rate of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// The gateway, because direct meets the objective at a higher rate.
    Gateway,
    /// The upstream, or the machine that all roles share, because direct does not meet the objective at a
    /// higher rate either.
    Upstream,
    /// The generator, because it had no CPU time left.
    Generator,
    /// The number of connections. All connections were busy, although responses were as fast as at rates that
    /// met the objective. A connection carries one request at a time, so the rate cannot exceed the number of
    /// connections ÷ the service time (Little's law).
    Connections,
    /// The search range, because trials met the objective even at the highest rate of the range.
    Range,
}

/// Longer trials at one rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Confirmed {
    /// Rate, requests/s.
    pub rate: f64,
    /// Number of trials that met the objective.
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
    /// Whether the trial met the objective; absent if the trial does not allow a decision.
    pub held: Option<bool>,
    /// Terms of the objective that the trial did not meet.
    pub broken: Vec<String>,
    /// The rate achieved, requests/s; absent if not measured.
    pub throughput: Option<f64>,
    /// Median response time of all due requests, µs. Requests without an answer count as slower than any
    /// answer. Absent if the request at the median has no answer.
    pub p50_us: Option<f64>,
    /// 99th percentile of the response time, µs; calculated like `p50_us`.
    pub p99_us: Option<f64>,
    /// Share of the due requests that failed or got an unsuccessful response; absent if not measured.
    pub errors: Option<f64>,
    /// Share of the time for which the generator's busiest worker was on a CPU; absent if not measured.
    pub generator_utilisation: Option<f64>,
}
