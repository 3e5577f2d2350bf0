//! The tail of a tax. On a noisy machine, the added p99 is often too uncertain to be stated.

use super::super::Metric;
use serde::Serialize;

/// Whether a run resolves the added p99 of one gateway at one load point. A tax is resolved if it is
/// distinguishable from noise and the half-width of its interval is at most 20 % of the tax.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tail {
    /// The metric: `added_p99`.
    pub metric: Metric,
    /// Whether the metric is resolved.
    pub resolved: bool,
    /// The highest of `added_p99`, `added_p95` and `added_p90` that is resolved; absent if none is resolved.
    pub highest_resolved: Option<Metric>,
    /// Measuring time after which the metric would be resolved, seconds, extrapolated from this run. Absent
    /// if the metric is resolved, and if it is not distinguishable from noise.
    pub time_for_20_percent_s: Option<f64>,
}
