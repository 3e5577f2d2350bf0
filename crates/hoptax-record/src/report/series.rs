//! Trials over time. Only charts use them, and the JSON report does not have them.

use super::super::DirectTrial;

/// A trial over time, with a point every `step_s`. The first point begins at the start of the measured time.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Round, from 0.
    pub round: u32,
    /// Whether this is the first or the last direct trial of the round. Absent for gateways.
    pub direct: Option<DirectTrial>,
    /// Time between two points, s.
    pub step_s: f64,
    /// Throughput at each point, requests/s.
    pub throughput: Vec<f64>,
    /// Median response time of the requests that completed or timed out during each point, µs. A value is
    /// absent if there were no such requests.
    pub p50_us: Vec<Option<f64>>,
    /// 99th percentile of the same response times, µs.
    pub p99_us: Vec<Option<f64>>,
}
