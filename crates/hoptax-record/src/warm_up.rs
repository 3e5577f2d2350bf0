//! Warm-ups: the traffic between the start of a process and its first trial.

use serde::{Deserialize, Serialize};

/// One warm-up of a process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Position, among all trials of the run, of the first trial after this warm-up.
    pub before_trial: u32,
    /// Which start of the contender this warm-up followed, from 0. 0 in older runs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start: u32,
    /// Load of the bursts.
    pub load: WarmUpLoad,
    /// True if the process had stopped getting faster when the warm-up ended.
    pub settled: bool,
    /// True if the process generates code while it runs, so that it had to be loaded for longer. False in
    /// older runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub generates_code: bool,
    /// By how much the process became faster since the end of its previous warm-up, as a difference of
    /// logarithms. Absent if it did not, and if this is its first warm-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faster_by: Option<f64>,
    /// The bursts, in order.
    pub bursts: Vec<Burst>,
}

pub(crate) fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Load of a warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WarmUpLoad {
    /// A closed loop over the connections of the plan. It sends as many requests as the process can answer.
    #[default]
    Highest,
    /// The heaviest load point of the plan.
    Plan,
}

/// A short time of traffic in a warm-up. Between its bursts, a process has pauses.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    /// Duration, ns.
    pub measured_ns: u64,
    /// Number of answered requests.
    pub requests: u64,
    /// Median response time, ns.
    pub p50_ns: u64,
    /// CPU time of the process per request, ns. For direct, this is the upstream's process. Absent if the CPU
    /// time of the process is not measured.
    pub cpu_ns_per_request: Option<f64>,
    /// The upstream's CPU time per request in a gateway's burst, ns. Absent if it says nothing about the
    /// gateway's machine, and in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_cpu_ns_per_request: Option<f64>,
}

impl WarmUp {
    /// Duration of all bursts, ns.
    pub fn load_ns(&self) -> u64 {
        self.bursts.iter().map(|burst| burst.measured_ns).sum()
    }

    /// Number of requests of all bursts.
    pub fn requests(&self) -> u64 {
        self.bursts.iter().map(|burst| burst.requests).sum()
    }
}
