//! How long processes took until they were warm.

use serde::Serialize;

/// How long a contender's process took to warm up after its first start.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WarmUpFigures {
    /// `direct`, which means the upstream, or a gateway's label.
    pub contender: String,
    /// Time under load before its first trial, s.
    pub load_s: f64,
    /// Number of requests before its first trial.
    pub requests: u64,
    /// Time under load until the process had reached its final speed, s. 0 if it had it from the start.
    pub slow_s: f64,
    /// Number of requests until the process had reached its final speed.
    pub slow_requests: u64,
    /// CPU time per request at the beginning and at the end, µs. Absent if the process was not watched.
    pub cpu_us_per_request: Option<Fall>,
    /// Median response time under the load of the warm-up at the beginning and at the end, µs.
    pub p50_us: Fall,
    /// False if the process was still getting faster when the time for warming up was over. Reports then
    /// claim nothing from its figures.
    pub settled: bool,
}

/// A figure at the beginning of a warm-up and at its end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fall {
    /// In the first burst of load.
    pub first: f64,
    /// At the end.
    pub settled: f64,
}
