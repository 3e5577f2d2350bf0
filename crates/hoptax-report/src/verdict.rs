//! The verdict on a run, which decides the exit code.

use super::model::Model;

/// The verdict on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing was measured.
    Nothing,
    /// The run has a `void` finding.
    Void,
    /// A budget was exceeded or not measured.
    OverBudget,
    /// No budget was exceeded, but one is inconclusive.
    Inconclusive,
    /// Everything was measured, and every budget was kept.
    Good,
}

impl Verdict {
    /// The verdict on a report. If `accept_void` is true, `void` findings are ignored.
    pub fn of(model: &Model, accept_void: bool) -> Self {
        if !model.measured_anything() {
            Self::Nothing
        } else if model.has_void_verdict() && !accept_void {
            Self::Void
        } else if model.over_budget() {
            Self::OverBudget
        } else if model.is_inconclusive() {
            Self::Inconclusive
        } else {
            Self::Good
        }
    }
}
