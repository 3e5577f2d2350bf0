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
    /// Name of the second run. If two contenders of one run are compared, this is the name of that run.
    pub b: String,
    /// True if two contenders of one run are compared. Their figures are then paired round by round, except
    /// those of starts.
    pub paired: bool,
    /// Overall verdict. It is computed from all headline rows.
    pub verdict: Verdict,
    /// Differences that usually prevent a comparison, but were ignored because the comparison was forced.
    /// Empty if the comparison was not forced.
    pub forced: Vec<Obstacle>,
    /// Other possible reasons for a difference, and weaknesses of the comparison.
    pub warnings: Vec<String>,
    /// Descriptions of the cases that have a `void` finding.
    pub void: Vec<String>,
    /// One row for each case and metric.
    pub rows: Vec<Row>,
    /// Expected number of rows that would differ by chance if intervals and verdicts did not account for the
    /// number of rows. It is 5 % of the rows that have an interval.
    pub expected_by_chance: f64,
}

/// Comparison of one metric of one case.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// The load point, as described in the first run.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub load: Load,
    /// Label of the contender in the first run.
    pub label_a: String,
    /// Label of the contender in the second run.
    pub label_b: String,
    /// The metric.
    pub metric: Metric,
    /// Unit of the metric: `us`, `requests/s`, `bytes`, `ratio`, `share`.
    pub unit: &'static str,
    /// Whether the overall verdict uses this row.
    pub headline: bool,
    /// Figure of the first run, as in the run's report. Absent if the metric was not measured.
    pub a: Option<Estimate>,
    /// Figure of the second run, as in the run's report. Absent if the metric was not measured.
    pub b: Option<Estimate>,
    /// Second figure − first figure. Its interval accounts for the number of rows and for `floor`: it
    /// excludes zero exactly if the row is better or worse.
    pub difference: Contrast,
    /// Relative change: second figure ÷ first figure − 1, with an interval as wide as that of `difference`.
    /// Absent if the first figure is not above zero, or if this interval contradicts the verdict.
    pub change: Option<Estimate>,
    /// Limit for differences, in the metric's unit. A difference up to this limit does not count as better or
    /// worse.
    pub floor: f64,
    /// p-value of the hypothesis that `floor` explains the difference, adjusted for the number of rows
    /// (Holm). Absent if a run has only one round.
    pub adjusted_p_value: Option<f64>,
    /// Verdict of this row: `better` or `worse` if the interval of `difference` excludes zero.
    pub verdict: Verdict,
}

impl Row {
    /// True if this row is a reason for the overall verdict.
    pub fn carries(&self) -> bool {
        self.headline && self.verdict != Verdict::NotDistinguishable
    }
}

/// A difference that makes two runs measure different things.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Obstacle {
    /// What differs.
    pub what: String,
    /// Value in the first run.
    pub a: String,
    /// Value in the second run.
    pub b: String,
    /// What the user can do about the difference.
    pub advice: String,
}

/// Verdict of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Verdict {
    /// The second run, or the second gateway, is better.
    #[serde(rename = "better")]
    Better,
    /// The second run, or the second gateway, is worse.
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
