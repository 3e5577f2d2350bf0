//! An estimate of a difference, and whether it stands out of the noise.

use hoptax_stats::Estimate;

/// A change below this share of the first's figure is too small to call, whatever its interval: where a process happens
/// to lie in memory moves it as much (T. Mytkowicz and others, "Producing wrong data without doing anything obviously
/// wrong!", ASPLOS 2009).
pub const LEAST_CHANGE: f64 = 0.01;

/// A tax, and whether it stands out of the noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The value with its interval over rounds.
    pub estimate: Estimate,
    /// Whether the interval leaves out "no tax" and the estimate is larger than the noise floor.
    pub distinguishable: bool,
}

impl Difference {
    /// Says whether an estimate stands out: its interval leaves out `neutral`, and it lies farther from it than the floor.
    pub(super) fn new(estimate: Estimate, neutral: f64, floor: Option<f64>) -> Self {
        let distance = (estimate.estimate - neutral).abs();
        let above_floor = floor.is_some_and(|floor| distance > floor);
        Self { estimate, distinguishable: estimate.excludes(neutral) && above_floor }
    }
}
