//! Comparisons of two runs, or of two contenders of one.

use super::super::Metric;
use super::{Contrast, Estimate, Load};
use schemars::JsonSchema;
use serde::Serialize;

/// Everything that a comparison says; serialised, the JSON of `hoptax compare`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// Version of this document.
    pub schema: u32,
    /// The first run.
    pub a: String,
    /// The second run; the same for two contenders of one run.
    pub b: String,
    /// Whether figures were paired round by round, as within one run.
    pub paired: bool,
    /// Of all headline rows together.
    pub verdict: Verdict,
    /// What would have forbidden the comparison; empty unless it was forced.
    pub forced: Vec<Obstacle>,
    /// What may be the reason for a difference, or weakens the comparison.
    pub warnings: Vec<String>,
    /// Cases that a `void` finding says not to believe.
    pub void: Vec<String>,
    /// Every case and metric.
    pub rows: Vec<Row>,
    /// Rows that would be called by chance alone if nothing differed: one in twenty of those with an interval.
    pub expected_by_chance: f64,
}

/// One metric of one case, compared.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// The load point, as the first run has it.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub load: Load,
    /// The first's label.
    pub label_a: String,
    /// The second's label.
    pub label_b: String,
    /// What is compared.
    pub metric: Metric,
    /// Its unit: `us`, `requests/s`, `bytes`, `ratio`, `share`.
    pub unit: &'static str,
    /// Whether it counts into the overall verdict.
    pub headline: bool,
    /// The first's figure, as its report tells it.
    pub a: Option<Estimate>,
    /// The second's.
    pub b: Option<Estimate>,
    /// Second less first.
    pub difference: Contrast,
    /// Second over first less 1; absent where the first is not above zero.
    pub change: Option<Estimate>,
    /// A difference up to this is too small to call.
    pub floor: f64,
    /// p-value adjusted for all headline rows (Holm); absent for other rows, and with a single round.
    pub adjusted_p_value: Option<f64>,
    /// What became of it, by its own interval and floor.
    pub verdict: Verdict,
}

/// A difference that makes figures answers to two different questions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Obstacle {
    /// What differs.
    pub what: String,
    /// How it is in the first.
    pub a: String,
    /// How it is in the second.
    pub b: String,
    /// What to do about it.
    pub advice: String,
}

/// What became of a figure from the first to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Verdict {
    /// The second is better.
    #[serde(rename = "better")]
    Better,
    /// The second is worse.
    #[serde(rename = "worse")]
    Worse,
    /// Of several figures, some are better and others worse.
    #[serde(rename = "mixed")]
    Mixed,
    /// It cannot be told from these rounds.
    #[serde(rename = "not distinguishable")]
    NotDistinguishable,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Mixed => "mixed",
            Self::NotDistinguishable => "not distinguishable",
        }
    }
}
