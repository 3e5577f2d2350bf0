//! The figures of quiet windows.

use crate::latency::Latency;
use crate::tax::Tax;
use crate::throughput::Throughput;

/// The figures of a case from quiet windows only. If no window of the load point was left out, these figures
/// equal the figures of all windows. If no trial has enough quiet windows, the figures are absent.
#[derive(Debug, Clone, PartialEq)]
pub struct QuietFigures {
    /// Number of windows in trials that recorded steal.
    pub windows: u64,
    /// Number of windows that were left out.
    pub left_out: u64,
    /// `left_out` ÷ `windows`.
    pub share_left_out: f64,
    /// Number of trials with enough quiet windows. The figures are computed from these trials.
    pub trials: u32,
    /// Number of trials with too few quiet windows. The figures do not use them.
    pub trials_left_out: u32,
    /// Completed requests ÷ quiet time.
    pub throughput: Option<Throughput>,
    /// Response times of requests completed in quiet windows.
    pub response_time: Option<Latency>,
    /// CPU time of the gateway per request completed in quiet windows, µs.
    pub cpu_us_per_request: Option<f64>,
    /// The tax relative to direct's quiet windows. Absent for direct. Extra upstream requests are not
    /// recorded by window, so this figure is from whole trials.
    pub tax: Option<Tax>,
}

impl QuietFigures {
    /// True if at least one window of the case is left out. Otherwise the quiet figures of the case cover all
    /// its windows.
    pub fn leaves_out(&self) -> bool {
        self.left_out > 0
    }
}
