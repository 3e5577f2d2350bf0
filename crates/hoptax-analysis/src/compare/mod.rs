//! Comparison of two runs, or of two contenders of one run, case by case.
//!
//! Contenders of the same run are paired by round. Two runs are independent samples, and the machine may have
//! changed between them. For two runs, taxes are therefore more comparable than other figures. A difference
//! between two runs must also exceed the change of direct.

mod judge;
mod obstacles;
#[cfg(test)]
mod tests;
mod verdict;

pub use super::difference::LEAST_CHANGE;
pub use obstacles::obstacles;
pub use verdict::compare;

use super::difference::ALPHA;
use super::{Analysis, Load, Side};
use hoptax_plan::Metric;
pub use hoptax_record::report::{Obstacle, Verdict};
use hoptax_stats::{Contrast, Estimate};

/// A run to compare, optionally restricted to one of its contenders.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The directory of the run. Messages use it as the run's name.
    pub name: &'a str,
    /// The run's trials.
    pub side: &'a Side<'a>,
    /// The run's analysis.
    pub analysis: &'a Analysis,
    /// Label of the contender to compare. If absent, all contenders that both runs have are compared.
    pub label: Option<&'a str>,
}

impl Subject<'_> {
    fn is_same_run(&self, other: &Self) -> bool {
        std::ptr::eq(self.side, other.side)
    }

    /// True if the run measured starts of gateways instead of trials.
    fn measured_starts(&self) -> bool {
        !self.analysis.starts.is_empty()
    }

    fn has(&self, label: &str) -> bool {
        self.side.run.contenders.iter().any(|one| one.label == label)
    }

    /// The pairs of contenders to compare: the two with the given labels, or all contenders that both runs
    /// have.
    fn pairs_of_labels<'s>(&'s self, second: &'s Self) -> Vec<(&'s str, &'s str)> {
        match (self.label, second.label) {
            (Some(one), Some(other)) => vec![(one, other)],
            (one, other) => {
                let all = self.side.run.contenders.iter().map(|contender| contender.label.as_str());
                let wanted = one.or(other);
                all.filter(|label| second.has(label) && wanted.is_none_or(|wanted| wanted == *label))
                    .map(|label| (label, label))
                    .collect()
            }
        }
    }
}

/// The comparison of one metric of one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The load point of the first run.
    pub load: Load,
    /// The contender's label in the first run.
    pub label_a: String,
    /// The contender's label in the second run.
    pub label_b: String,
    /// The metric.
    pub metric: Metric,
    /// The metric's unit: `us`, `requests/s`, `bytes`, `ratio`, `share`.
    pub unit: &'static str,
    /// True if the overall verdict may depend on this row.
    pub headline: bool,
    /// Figure of the first subject, as in its report.
    pub a: Option<Estimate>,
    /// Figure of the second subject, as in its report.
    pub b: Option<Estimate>,
    /// Second figure − first figure.
    pub difference: Contrast,
    /// Second figure ÷ first figure − 1. Absent if the first figure is not above zero.
    pub change: Option<Estimate>,
    /// A difference up to this size is not distinguishable from noise.
    pub floor: f64,
    /// p-value of the hypothesis that noise and the machine explain the difference. Absent if there is only
    /// one round.
    pub p_value: Option<f64>,
    /// The p-value, adjusted for the number of rows (Holm). Absent if there is only one round.
    pub adjusted_p_value: Option<f64>,
    /// The verdict of this row, from the adjusted p-value.
    pub verdict: Verdict,
}

impl Row {
    /// True if the overall verdict rests on this row.
    pub fn carries(&self) -> bool {
        self.headline && self.verdict != Verdict::NotDistinguishable
    }
}

/// A complete comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Name of the first run.
    pub a: String,
    /// Name of the second run. For two contenders of one run, both names are the same.
    pub b: String,
    /// True for two contenders of one run. Their figures were then paired by round, except those of starts.
    pub paired: bool,
    /// The overall verdict. It is computed from all headline rows.
    pub verdict: Verdict,
    /// Obstacles that the user chose to ignore. Empty if the comparison was not forced.
    pub forced: Vec<Obstacle>,
    /// Other possible reasons for a difference, and weaknesses of the comparison.
    pub warnings: Vec<String>,
    /// Names of the cases with a `void` finding.
    pub void: Vec<String>,
    /// The comparison of every case and metric.
    pub rows: Vec<Row>,
    /// Number of rows that are expected to show a difference by chance alone: one in twenty of the rows with
    /// an interval.
    pub expected_by_chance: f64,
}

/// Why nothing was compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The runs measured different things.
    Obstacles(Vec<Obstacle>),
    /// No case was measured in both runs.
    NothingInCommon(String),
}
