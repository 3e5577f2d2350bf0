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
    /// Whether all budgets were kept.
    pub kept: bool,
    /// The outcome of all budgets together: `exceeded` before `unmeasured`, `inconclusive` and `kept`.
    pub outcome: Outcome,
    /// Whether the run has a `void` finding.
    pub void: bool,
    /// Every budget, once for each case that it limits.
    pub budget: Vec<BudgetResult>,
    /// Says which budgets were not checked at load points that the run left out. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Outcome of a budget for one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The whole interval is within the limit. With only one trial, the value is within the limit.
    Kept,
    /// The whole interval is beyond the limit. With only one trial, the value is beyond the limit.
    Exceeded,
    /// The interval contains the limit, or the machine of the baseline was not comparable.
    Inconclusive,
    /// Not measured.
    Unmeasured,
}

impl Outcome {
    /// The outcome in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Exceeded => "exceeded",
            Self::Inconclusive => "inconclusive",
            Self::Unmeasured => "not measured",
        }
    }
}

/// How long a run has to measure until an inconclusive budget is decided.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WouldDecide {
    /// Total number of rounds, or of starts. This is an estimate, for the case that the figure does not
    /// change.
    pub rounds: u32,
    /// The time that this many rounds take, s; absent for starts.
    pub seconds: Option<f64>,
}

/// One budget for one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BudgetResult {
    /// The case.
    pub case: String,
    /// The case's gateway.
    pub gateway: String,
    /// The metric that the budget limits. In JSON, this is the metric's name in plans.
    pub metric: Metric,
    /// Upper limit, in the metric's unit; absent if there is none.
    pub max: Option<f64>,
    /// Lower limit, in the metric's unit; absent if there is none.
    pub min: Option<f64>,
    /// The measured figure; absent if it was not measured.
    pub measured: Option<Estimate>,
    /// A bound, if hoptax only knows that the figure, or the upper end of its interval, exceeds this bound.
    /// This happens if a gateway had not settled after some starts. If the figure itself exceeds the bound,
    /// `measured.estimate` is the bound. Absent otherwise.
    pub more_than: Option<f64>,
    /// The relative change and its limits; absent if the budget limits the metric in its own unit.
    pub change: Option<ChangeResult>,
    /// The outcome.
    pub outcome: Outcome,
    /// Why the budget is inconclusive or was not measured; absent otherwise.
    pub reason: Option<String>,
    /// Number of rounds that would decide an inconclusive budget. Absent if no number of rounds would decide
    /// it, and for other outcomes.
    pub would_decide: Option<WouldDecide>,
}

/// A relative change and its limits. All values are shares of the reference: 0.1 is 10 % more.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ChangeResult {
    /// A description of the reference, to which the change is relative.
    pub against: String,
    /// Upper limit; absent if there is none.
    pub max: Option<f64>,
    /// Lower limit; absent if there is none.
    pub min: Option<f64>,
    /// The measured figure of the reference; absent if it was not measured.
    pub reference: Option<Estimate>,
    /// The measured change; absent if it was not measured. It has no interval if the interval of the
    /// reference includes zero. Against a baseline run, the interval contains the scatter of separate runs.
    pub measured: Option<Estimate>,
    /// How much the machine may have changed the figure since the baseline run, as a share: the change of
    /// direct and of the distance of CPUs. The interval of `measured` includes this drift. Zero if the
    /// reference is in the same run.
    pub drift: f64,
    /// True if the reference is in another run.
    #[serde(skip)]
    pub between_runs: bool,
    /// Half-width that the rounds of this run alone would give, as a share. Absent if the whole interval
    /// comes from these rounds.
    #[serde(skip)]
    pub of_rounds: Option<f64>,
    /// Why the figure cannot be compared with the baseline, because its CPUs were placed differently. Absent
    /// if it can be compared.
    #[serde(skip)]
    pub incomparable: Option<String>,
}
