//! Budgets, and the measured values that they limit.

use super::super::Metric;
use super::Estimate;
use serde::Serialize;

/// Output of `hoptax gate --format json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gate {
    /// Version of this document.
    pub schema: u32,
    /// The plan's name.
    pub name: String,
    /// Whether every budget was kept.
    pub kept: bool,
    /// Whether the run has a `void` finding.
    pub void: bool,
    /// Every budget, for each case that it limits.
    pub budget: Vec<Budget>,
}

/// Outcome of a budget for one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Within the limit, or not beyond it with confidence.
    Kept,
    /// Beyond the limit: the whole interval if there is one, otherwise the value.
    Breached,
    /// Not measured.
    Unmeasured,
}

/// One budget for one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Budget {
    /// The case.
    pub case: String,
    /// The case's gateway.
    pub gateway: String,
    /// The limited metric, by its name in plans.
    pub metric: Metric,
    /// Upper limit, in the metric's unit; absent if there is none.
    pub max: Option<f64>,
    /// Lower limit, in the metric's unit; absent if there is none.
    pub min: Option<f64>,
    /// The measured figure; absent if it was not measured.
    pub measured: Option<Estimate>,
    /// Limits of a relative change; absent for a budget in the metric's own unit.
    pub change: Option<Change>,
    /// The outcome.
    pub outcome: Outcome,
    /// Why the budget could not be judged; absent if it could.
    pub reason: Option<String>,
}

/// A relative change and its limits. All values are shares of the reference: 0.1 is 10 % more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// What the change is relative to, in words.
    pub against: String,
    /// Upper limit; absent if there is none.
    pub max: Option<f64>,
    /// Lower limit; absent if there is none.
    pub min: Option<f64>,
    /// The measured figure of the reference; absent if it was not measured.
    pub reference: Option<Estimate>,
    /// The measured change; without an interval if the reference's interval includes zero. Absent if it was not
    /// measured.
    pub measured: Option<Estimate>,
    /// How much direct changed from the baseline run to this run, as a share: a change of the machine. The
    /// limits are widened by it. Zero within one run.
    pub drift: f64,
}
