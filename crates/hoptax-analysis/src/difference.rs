//! An estimated difference, and whether it is distinguishable from noise.

use hoptax_stats::Estimate;

/// Changes below this share of the first figure are never reported as differences. The memory layout of a
/// process alone can change figures by this much (T. Mytkowicz and others, "Producing wrong data without
/// doing anything obviously wrong!", ASPLOS 2009).
pub const LEAST_CHANGE: f64 = 0.01;

/// If nothing differs, at most this share of the verdicts on a whole family of differences is wrong. This
/// holds only for noise that is visible between the rounds of a run.
pub(super) const ALPHA: f64 = 0.05;

/// An estimated difference, and whether it is distinguishable from noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The value. Its interval holds for another run of the same plan.
    pub estimate: Estimate,
    /// The value. Its interval comes from the rounds of this run alone.
    pub in_run: Estimate,
    /// True if the interval excludes the value for "no tax" and the estimate exceeds the noise floor.
    pub distinguishable: bool,
}

impl Difference {
    /// A difference whose interval comes from the rounds of a run. It is distinguishable if the interval
    /// excludes `neutral` and the estimate differs from `neutral` by more than `floor`.
    pub(super) fn new(in_run: Estimate, neutral: f64, floor: Option<f64>) -> Self {
        let distance = (in_run.estimate - neutral).abs();
        let above_floor = floor.is_some_and(|floor| distance > floor);
        Self { estimate: in_run, in_run, distinguishable: in_run.excludes(neutral) && above_floor }
    }

    /// The same difference with another interval, which may contain `neutral`.
    pub(super) fn with_interval(self, estimate: Estimate, neutral: f64) -> Self {
        Self { estimate, distinguishable: self.distinguishable && estimate.excludes(neutral), ..self }
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "exceeds the noise floor and {} of the bare gateway's own figure" percent(LEAST_CHANGE);
    METHODOLOGY "by more than `max(f, {})`, beyond chance" percent(LEAST_CHANGE);
    BIAS "**Comparisons overlook {} of change**" percent(LEAST_CHANGE);
    METHODOLOGY "in at most {} of comparisons is *any* row called wrongly" percent(ALPHA);
    METHODOLOGY "Student's t gives p < {} after Holm's correction" number(ALPHA);
    METHODOLOGY "exceeds {} of the smaller of the two gateways' figures" percent(LEAST_CHANGE);
}
