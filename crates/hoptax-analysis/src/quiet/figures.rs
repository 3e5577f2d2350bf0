//! The figures of quiet windows.

use crate::latency::Latency;
use crate::tax::Tax;
use crate::throughput::Throughput;

/// A case as its quiet windows tell it. The figures are those of all windows where none of the load point was left out, and
/// absent where no trial has enough quiet windows.
#[derive(Debug, Clone, PartialEq)]
pub struct QuietFigures {
    /// Windows of the trials of which it can be told.
    pub windows: u64,
    /// Of these, left out.
    pub left_out: u64,
    /// The share of the two.
    pub share_left_out: f64,
    /// Trials behind the figures: those with enough quiet windows.
    pub trials: u32,
    /// Trials with too few quiet windows, which are in no quiet figure.
    pub trials_left_out: u32,
    /// Mean over trials of completed requests over quiet time.
    pub throughput: Option<Throughput>,
    /// Response times of what completed in quiet windows.
    pub response_time: Option<Latency>,
    /// CPU time of the gateway per request completed, over the quiet windows of all trials, µs.
    pub cpu_us_per_request: Option<f64>,
    /// The tax, against direct's quiet windows; absent for direct. Extra upstream requests are not known by window: they are
    /// those of the whole trials.
    pub tax: Option<Tax>,
}

impl QuietFigures {
    /// Whether some window of the case is left out, so that its figures may differ from those of all windows.
    pub fn leaves_out(&self) -> bool {
        self.left_out > 0
    }
}
