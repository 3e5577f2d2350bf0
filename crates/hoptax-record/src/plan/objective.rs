//! Objectives: limits that a contender must meet under load, such as `p99 < 10ms and errors < 0.1%`.

use crate::units::{show_duration, show_share};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A rate counts as reached if at least this share of the due requests succeeds. An objective can set another
/// share. The finding `rate-missed` also uses this share.
pub const REACHED: f64 = 0.99;

/// Share of errors that a frontier's objectives allow. The finding `errors` uses the same limit.
const FRONTIER_ERRORS: f64 = 0.001;

/// An objective. A trial must meet all of its conditions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// The text that is displayed.
    pub text: String,
    /// The conditions; at least one.
    pub terms: Vec<Term>,
}

/// One condition.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Term {
    /// A figure of the response times must be below a bound.
    Time {
        /// The figure.
        of: Figure,
        /// The bound.
        below: Duration,
    },
    /// A figure of the times to the first content of streams of tokens must be below a bound.
    FirstContent {
        /// The figure.
        of: Figure,
        /// The bound.
        below: Duration,
    },
    /// The share of requests without a successful response must be below a bound.
    Errors {
        /// The bound, 0 to 1.
        below: f64,
    },
    /// At least this share of the due requests must get a successful response.
    Throughput {
        /// The share, 0 to 1.
        least: f64,
    },
    /// At least this share of the due requests must meet all limits of the plan's `goodput`.
    Goodput {
        /// The share, 0 to 1.
        least: f64,
    },
}

/// A figure of times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// A percentile of the times of all due requests, 0 to 1.
    Percentile(f64),
    /// The mean.
    Mean,
    /// The maximum.
    Max,
}

impl Objective {
    /// Creates an objective from these limits.
    pub fn new(terms: Vec<Term>) -> Self {
        let text = terms.iter().map(Term::show).collect::<Vec<_>>().join(" and ");
        Self { text, terms }
    }

    /// The objective that a frontier uses for this bound: `p99 < 10ms and errors < 0.1%`.
    pub fn at_bound(bound: Duration) -> Self {
        let time = Term::Time { of: Figure::Percentile(0.99), below: bound };
        Self::new(vec![time, Term::Errors { below: FRONTIER_ERRORS }])
    }

    /// Share of the due requests that must succeed.
    pub fn reached(&self) -> f64 {
        let asked = self.terms.iter().find_map(|term| match term {
            Term::Throughput { least } => Some(*least),
            _ => None,
        });
        asked.unwrap_or(REACHED)
    }

    /// The highest percentile that has a limit. `None` if no percentile has a limit.
    pub fn highest_percentile(&self) -> Option<f64> {
        let percentiles = self.terms.iter().filter_map(|term| match term {
            Term::Time { of: Figure::Percentile(share), .. }
            | Term::FirstContent { of: Figure::Percentile(share), .. } => Some(*share),
            _ => None,
        });
        percentiles.reduce(f64::max)
    }
}

impl Term {
    /// The limit in plan syntax.
    pub fn show(&self) -> String {
        match self {
            Self::Time { below, .. } | Self::FirstContent { below, .. } => {
                format!("{} < {}", self.name(), show_duration(*below))
            }
            Self::Errors { below } => format!("errors < {}", show_share(*below)),
            Self::Throughput { least } | Self::Goodput { least } => {
                format!("{} >= {}", self.name(), show_share(*least))
            }
        }
    }

    /// Name of the limited statistic: `p99`, `mean`, `first_content_p99`, `errors`, `throughput`.
    pub fn name(&self) -> String {
        kind(self)
    }
}

impl Figure {
    fn show(self) -> String {
        match self {
            Self::Percentile(share) => format!("p{}", (share * 1e8).round() / 1e6),
            Self::Mean => "mean".to_owned(),
            Self::Max => "max".to_owned(),
        }
    }
}

fn kind(term: &Term) -> String {
    match term {
        Term::Time { of, .. } => of.show(),
        Term::FirstContent { of, .. } => format!("first_content_{}", of.show()),
        Term::Errors { .. } => "errors".to_owned(),
        Term::Throughput { .. } => "throughput".to_owned(),
        Term::Goodput { .. } => "goodput".to_owned(),
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "limits are kept and {} of the requests due were answered successfully" percent(REACHED);
    BIAS "trials hold**, with {} of the requests answered" percent(REACHED);
}
