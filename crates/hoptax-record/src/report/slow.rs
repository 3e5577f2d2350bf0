//! Where slow requests spent their time.

use super::super::Role;
use super::super::tail::{SlowRequest, TailCause, TailKind};
use super::{Estimate, Load};
use serde::Serialize;

/// Why the requests beyond p99 of a contender took longer than those at the median.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlowFigures {
    /// The contender's label.
    pub contender: String,
    /// The load point.
    pub load: Load,
    /// Number of passes that succeeded.
    pub passes: u32,
    /// Number of passes that failed.
    pub failed: u32,
    /// Why the last of them failed; absent if none failed.
    pub failure: Option<String>,
    /// Name and version of the recorder; empty if it never ran.
    pub recorder: String,
    /// Number of requests in all passes.
    pub requests: u64,
    /// Number of answered requests that came after the first of a pass that were kept. They are in no figure.
    pub left_out: u64,
    /// Mean of the passes' p50 while switches were recorded, µs; absent if no pass succeeded. What recording
    /// costs is the difference to the case's `response_time`.
    pub p50_us: Option<Estimate>,
    /// Number of slow requests that were explained.
    pub slow_requests: u64,
    /// Number of events of the scheduler that were lost.
    pub lost: u64,
    /// Share of the slices of time in which the hypervisor took CPU time. These slices are left out, unless
    /// they are more than half of all.
    pub disturbed: f64,
    /// Mean response time of the slow requests, µs; absent without slow requests.
    pub slow_us: Option<Estimate>,
    /// Mean response time of the requests near the median, µs; absent without slow requests.
    pub usual_us: Option<f64>,
    /// The extra time of the slow requests by cause, the largest first. The shares add up to 1.
    pub causes: Vec<SlowCause>,
    /// The answer in a sentence.
    pub sentence: String,
    /// The slowest requests, the slowest first. `trace-*.json` in the run directory has them.
    #[serde(skip)]
    pub slowest: Vec<(SlowRequest, Vec<TailCause>)>,
}

/// A cause of the extra time of slow requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlowCause {
    /// `running`, `neighbour` (another request of the same thread), `waiting` (for a CPU), `asleep`,
    /// `connection` (none was free), `nobody` (no thread had the CPU) or `unknown`.
    pub kind: TailKind,
    /// The role that ran, slept or served another request; absent for other causes.
    pub role: Option<Role>,
    /// For `waiting`, who had the CPU: a role, or the name of a program or of a thread of the kernel.
    pub holder: Option<String>,
    /// Share of the extra time of slow requests, 0 to 1. Below 0 if they spent less time on this cause.
    pub share: Estimate,
    /// Time that a slow request spent on it, mean, µs.
    pub slow_us: f64,
    /// Time that a request near the median spent on it, mean, µs.
    pub usual_us: f64,
}
