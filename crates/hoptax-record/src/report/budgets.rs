//! Budgets set against what was measured.

use super::super::Metric;
use super::Estimate;
use serde::Serialize;

/// What `hoptax gate --format json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gate {
    /// Version of this document.
    pub schema: u32,
    /// The plan's name.
    pub name: String,
    /// Whether every budget was kept.
    pub kept: bool,
    /// Whether a `void` finding says not to believe the run.
    pub void: bool,
    /// Every budget against every case that it limits.
    pub budget: Vec<Budget>,
}

/// How a budget fared at one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Inside the limit, or not beyond it with confidence.
    Kept,
    /// Beyond the limit: the whole interval if there is one, the value if there is none.
    Breached,
    /// There was nothing to set against the limit.
    Unmeasured,
}

/// One budget against one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Budget {
    /// The case.
    pub case: String,
    /// Its gateway.
    pub gateway: String,
    /// The metric that is limited, as plans name it.
    pub metric: Metric,
    /// A breach is above this.
    pub max: Option<f64>,
    /// A breach is below this.
    pub min: Option<f64>,
    /// What was measured.
    pub measured: Option<Estimate>,
    /// Limits of a change, and what they are relative to; absent for a budget in the metric's own unit.
    pub change: Option<Change>,
    /// How it fared.
    pub outcome: Outcome,
    /// Why there was nothing to set against the limit; absent if there was.
    pub reason: Option<String>,
}

/// A change set against its limits. All are shares of the reference: 0.1 is a tenth more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// What it is relative to, in words.
    pub against: String,
    /// A breach is above this.
    pub max: Option<f64>,
    /// A breach is below this.
    pub min: Option<f64>,
    /// What the reference was measured at.
    pub reference: Option<Estimate>,
    /// The change; without an interval if the reference's own holds zero.
    pub measured: Option<Estimate>,
    /// How much direct changed from the baseline run to this one, by which the limits are widened: the machine's change,
    /// not the gateway's. Zero within one run.
    pub drift: f64,
}
