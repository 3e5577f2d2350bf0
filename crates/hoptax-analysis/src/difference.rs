//! An estimated difference, and whether it is distinguishable from noise.

use hoptax_stats::Estimate;

/// Changes below this share of the first figure are never reported as differences. The memory layout of a process alone
/// can change figures by this much (T. Mytkowicz and others, "Producing wrong data without doing anything obviously
/// wrong!", ASPLOS 2009).
pub const LEAST_CHANGE: f64 = 0.01;

/// If nothing differs, at most this share of the verdicts on a whole family of differences is wrong. This holds only
/// for noise that is visible between the rounds of a run.
pub(super) const ALPHA: f64 = 0.05;

/// An estimated difference, and whether it is distinguishable from noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The value with its interval over rounds.
    pub estimate: Estimate,
    /// True if the interval excludes the value for "no tax" and the estimate exceeds the noise floor.
    pub distinguishable: bool,
}

impl Difference {
    /// The difference is distinguishable if the interval excludes `neutral` and the estimate differs from `neutral` by
    /// more than `floor`.
    pub(super) fn new(estimate: Estimate, neutral: f64, floor: Option<f64>) -> Self {
        let distance = (estimate.estimate - neutral).abs();
        let above_floor = floor.is_some_and(|floor| distance > floor);
        Self { estimate, distinguishable: estimate.excludes(neutral) && above_floor }
    }
}
