//! Comparisons of two runs, or of two contenders of one run.

use super::super::Metric;
use super::{Contrast, Estimate, Load};
use schemars::JsonSchema;
use serde::Serialize;

/// A comparison: the output of `hoptax compare --format json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// Version of this document.
    pub schema: u32,
    /// Name of the first run.
    pub a: String,
    /// Name of the second run; the first run's name if two contenders of one run are compared.
    pub b: String,
    /// Whether figures were paired round by round, as within one run.
    pub paired: bool,
    /// Overall verdict of all headline rows.
    pub verdict: Verdict,
    /// Differences that would have prevented the comparison; empty unless it was forced.
    pub forced: Vec<Obstacle>,
    /// Possible reasons for a difference, and doubts about the comparison.
    pub warnings: Vec<String>,
    /// Cases with a `void` finding, in words.
    pub void: Vec<String>,
    /// Every case and metric.
    pub rows: Vec<Row>,
    /// Number of rows that would show a difference by chance if nothing differed: 5 % of the rows with an
    /// interval.
    pub expected_by_chance: f64,
}

/// One metric of one case, compared.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// The load point, as in the first run.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub load: Load,
    /// Label in the first run.
    pub label_a: String,
    /// Label in the second run.
    pub label_b: String,
    /// The metric.
    pub metric: Metric,
    /// Unit of the metric: `us`, `requests/s`, `bytes`, `ratio`, `share`.
    pub unit: &'static str,
    /// Whether the overall verdict uses this row.
    pub headline: bool,
    /// Figure of the first run, as in its report; absent if not measured.
    pub a: Option<Estimate>,
    /// Figure of the second run, as in its report; absent if not measured.
    pub b: Option<Estimate>,
    /// Second − first.
    pub difference: Contrast,
    /// Second ÷ first − 1; absent if the first is not above zero.
    pub change: Option<Estimate>,
    /// Differences up to this size count as no difference, in the metric's unit.
    pub floor: f64,
    /// p-value adjusted for all headline rows (Holm); absent for other rows, and with a single round.
    pub adjusted_p_value: Option<f64>,
    /// Verdict of this row, from its own interval and floor.
    pub verdict: Verdict,
}

/// A difference that makes two runs measure different things.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Obstacle {
    /// What differs.
    pub what: String,
    /// Its value in the first run.
    pub a: String,
    /// Its value in the second run.
    pub b: String,
    /// What to do about it.
    pub advice: String,
}

/// Verdict of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Verdict {
    /// The second is better.
    #[serde(rename = "better")]
    Better,
    /// The second is worse.
    #[serde(rename = "worse")]
    Worse,
    /// Some figures are better and others are worse.
    #[serde(rename = "mixed")]
    Mixed,
    /// No difference is distinguishable from noise.
    #[serde(rename = "not distinguishable")]
    NotDistinguishable,
}

impl Verdict {
    /// The verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Mixed => "mixed",
            Self::NotDistinguishable => "not distinguishable",
        }
    }
}
