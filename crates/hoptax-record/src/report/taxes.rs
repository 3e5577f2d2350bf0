//! The tax of a hop, and the noise floor below which it cannot be distinguished.

use super::{Difference, Load};
use serde::Serialize;

/// The tax of one gateway at one load point. Members are absent if they were not measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tax {
    /// Added response time at the median, µs.
    pub added_p50: Option<Difference>,
    /// Added response time at the 90th percentile, µs.
    pub added_p90: Option<Difference>,
    /// Added response time at the 95th percentile, µs.
    pub added_p95: Option<Difference>,
    /// Added response time at the 99th percentile, µs.
    pub added_p99: Option<Difference>,
    /// Throughput via the gateway over direct throughput.
    pub throughput_ratio: Option<Difference>,
    /// CPU time of the gateway per completed request, µs.
    pub cpu_us_per_request: Option<Difference>,
    /// Upstream requests per client request, less 1.
    pub extra_upstream_requests: Option<Difference>,
}

/// The noise floor of each load point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NoiseFloors {
    /// How it is computed.
    pub definition: &'static str,
    /// One per load point.
    pub by_load: Vec<NoiseFloor>,
}

/// The noise floor of one load point, for each metric of the tax. Absent if no round has both direct trials.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NoiseFloor {
    /// The load point.
    pub load: Load,
    /// Rounds with both direct trials.
    pub rounds: u32,
    /// µs.
    pub added_p50: Option<f64>,
    /// µs.
    pub added_p90: Option<f64>,
    /// µs.
    pub added_p95: Option<f64>,
    /// µs.
    pub added_p99: Option<f64>,
    /// Distance from 1.
    pub throughput_ratio: Option<f64>,
    /// µs; zero, as direct has no gateway.
    pub cpu_us_per_request: f64,
    /// Requests per request.
    pub extra_upstream_requests: Option<f64>,
}
