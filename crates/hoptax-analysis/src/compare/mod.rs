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

pub use crate::taxes::difference::LEAST_CHANGE;
pub use obstacles::obstacles;
pub use verdict::compare;

use super::{Analysis, Side};
use crate::taxes::difference::ALPHA;
pub use hoptax_record::report::{Comparison, Obstacle, Row, Verdict};

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

/// Why nothing was compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The runs measured different things.
    Obstacles(Vec<Obstacle>),
    /// No case was measured in both runs.
    NothingInCommon(String),
}
