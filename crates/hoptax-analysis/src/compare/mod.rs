//! Comparison of two runs, or of two contenders of one run, case by case.
//!
//! Contenders of one run are paired by round. Two runs are independent samples, and the machine may have changed
//! between them. Their taxes are therefore the better figures, and a difference must also exceed the change of direct.

mod judge;
mod obstacles;
#[cfg(test)]
mod tests;
mod verdict;

pub use super::difference::LEAST_CHANGE;
pub use obstacles::obstacles;
pub use verdict::compare;

use super::{Analysis, Load, Side};
use hoptax_plan::Metric;
pub use hoptax_record::report::{Obstacle, Verdict};
use hoptax_stats::{Contrast, Estimate};

/// Largest share of comparisons of equal things with a wrong overall verdict, as far as rounds within a run can show.
const ALPHA: f64 = 0.05;

/// A run to compare, and which of its contenders.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Its name in messages: the directory.
    pub name: &'a str,
    /// Its trials.
    pub side: &'a Side<'a>,
    /// Its analysis.
    pub analysis: &'a Analysis,
    /// The contender to compare; if absent, all that both runs have.
    pub label: Option<&'a str>,
}

impl Subject<'_> {
    fn is_same_run(&self, other: &Self) -> bool {
        std::ptr::eq(self.side, other.side)
    }

    fn has(&self, label: &str) -> bool {
        self.side.run.contenders.iter().any(|one| one.label == label)
    }

    /// The pairs of contenders to compare: the two named ones, or all that both runs have.
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

/// One metric of one case, compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The load point of the first run.
    pub load: Load,
    /// Label in the first run.
    pub label_a: String,
    /// Label in the second run.
    pub label_b: String,
    /// The metric.
    pub metric: Metric,
    /// Its unit: `us`, `requests/s`, `bytes`, `ratio`, `share`.
    pub unit: &'static str,
    /// True if the overall verdict may rest on this row.
    pub headline: bool,
    /// Figure of the first, as in its report.
    pub a: Option<Estimate>,
    /// Figure of the second.
    pub b: Option<Estimate>,
    /// Second − first.
    pub difference: Contrast,
    /// Second ÷ first − 1; absent unless the first is above zero.
    pub change: Option<Estimate>,
    /// Differences up to this are not distinguishable.
    pub floor: f64,
    /// p-value adjusted for the number of headline rows (Holm); absent for other rows, and with a single round.
    pub adjusted_p_value: Option<f64>,
    /// The row's verdict, from its own interval and floor.
    pub verdict: Verdict,
}

impl Row {
    /// True if the verdict holds even after adjusting for all headline rows.
    pub fn is_significant(&self) -> bool {
        self.verdict != Verdict::NotDistinguishable && self.adjusted_p_value.is_some_and(|p| p <= ALPHA)
    }
}

/// A complete comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The first run.
    pub a: String,
    /// The second run; the same for two contenders of one run.
    pub b: String,
    /// True if figures were paired by round, as within one run.
    pub paired: bool,
    /// The overall verdict, from all headline rows.
    pub verdict: Verdict,
    /// Obstacles that were overridden; empty unless the comparison was forced.
    pub forced: Vec<Obstacle>,
    /// Possible reasons for a difference, and weaknesses of the comparison.
    pub warnings: Vec<String>,
    /// Cases with a `void` finding.
    pub void: Vec<String>,
    /// Every case and metric.
    pub rows: Vec<Row>,
    /// Rows expected to show a difference by chance if nothing differed: one in twenty of those with an interval.
    pub expected_by_chance: f64,
}

/// Why nothing was compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The runs measured different things.
    Obstacles(Vec<Obstacle>),
    /// No case was measured in both.
    NothingInCommon(String),
}
