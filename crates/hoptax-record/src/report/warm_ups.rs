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
    /// Time under load until the process had become as fast as it stayed afterwards, s. 0 if it was as fast
    /// from the start.
    pub slow_s: f64,
    /// Number of requests until the process had become as fast as it stayed afterwards.
    pub slow_requests: u64,
    /// CPU time per request at first and when it had settled, µs; absent if the process was not watched.
    pub cpu_us_per_request: Option<Fall>,
    /// Median response time at first and when it had settled, µs, under the load of the warm-up.
    pub p50_us: Fall,
    /// False if it was still getting faster when the time for warming up was over. A report then claims
    /// nothing from its figures.
    pub settled: bool,
}

/// A figure at the beginning of a warm-up and at its end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fall {
    /// In the first tenth of a second or so.
    pub first: f64,
    /// At the end.
    pub settled: f64,
}
