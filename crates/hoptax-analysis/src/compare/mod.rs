//! Two runs, or two contenders of one run, set against each other case by case.
//!
//! Contenders of one run are paired round by round. Two runs are independent samples, between which the machine may have
//! changed: there the tax is the better figure, and a difference must also exceed what direct changed by.

mod alike;
mod judge;
#[cfg(test)]
mod tests;
mod verdict;

pub use super::difference::LEAST_CHANGE;
pub use alike::obstacles;
pub use verdict::compare;

use super::{Analysis, Load, Side};
use hoptax_plan::Metric;
pub use hoptax_record::report::{Obstacle, Verdict};
use hoptax_stats::{Contrast, Estimate};

/// The overall verdict is wrong in at most this share of comparisons of the same with the same, as far as rounds of a
/// run can tell.
const ALPHA: f64 = 0.05;

/// A run that is compared, and which of its contenders.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Names it in words: its directory.
    pub name: &'a str,
    /// Its trials.
    pub side: &'a Side<'a>,
    /// What was computed of it.
    pub analysis: &'a Analysis,
    /// The one contender to compare; all that both have when absent.
    pub label: Option<&'a str>,
}

impl Subject<'_> {
    fn is_same_run(&self, other: &Self) -> bool {
        std::ptr::eq(self.side, other.side)
    }

    fn has(&self, label: &str) -> bool {
        self.side.run.contenders.iter().any(|one| one.label == label)
    }

    /// The contenders that are set against each other: the two named, or all that both have.
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
    /// The load point, as the first run has it.
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

impl Row {
    /// Whether it stands even when it is looked at together with all other headline rows.
    pub fn stands(&self) -> bool {
        self.verdict != Verdict::NotDistinguishable && self.adjusted_p_value.is_some_and(|p| p <= ALPHA)
    }
}

/// Everything that a comparison says.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
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

/// Why nothing was compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Figures of different questions.
    Obstacles(Vec<Obstacle>),
    /// No case is in both, or none of them was measured.
    NothingInCommon(String),
}
