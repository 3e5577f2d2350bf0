//! Delays that are drawn for each response.

use crate::units::{show_duration, show_share};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Delay of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delay {
    /// Always the same.
    Fixed(Duration),
    /// Uniform between two bounds.
    Uniform {
        /// Smallest delay.
        from: Duration,
        /// Largest delay.
        to: Duration,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: Duration,
    },
    /// One of several delays, chosen at random. Each delay has a share of the responses. The shares add up to
    /// 1.
    Choice(Vec<(f64, Duration)>),
}

impl Delay {
    /// The mean delay.
    pub fn mean(&self) -> Duration {
        match self {
            Self::Fixed(delay) => *delay,
            Self::Uniform { from, to } => (*from + *to) / 2,
            Self::Exponential { mean } => *mean,
            Self::Choice(choices) => choices.iter().map(|(share, delay)| delay.mul_f64(*share)).sum(),
        }
    }

    /// The shortest possible delay.
    pub fn least(&self) -> Duration {
        match self {
            Self::Fixed(delay) => *delay,
            Self::Uniform { from, .. } => *from,
            Self::Exponential { .. } => Duration::ZERO,
            Self::Choice(choices) => choices
                .iter()
                .filter(|(share, _)| *share > 0.0)
                .map(|(_, delay)| *delay)
                .min()
                .unwrap_or_default(),
        }
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(delay) => f.write_str(&show_duration(*delay)),
            Self::Uniform { from, to } => {
                write!(f, "uniform({}, {})", show_duration(*from), show_duration(*to))
            }
            Self::Exponential { mean } => write!(f, "exponential({})", show_duration(*mean)),
            Self::Choice(choices) => {
                let parts: Vec<_> = choices
                    .iter()
                    .map(|(share, delay)| format!("{} {}", show_share(*share), show_duration(*delay)))
                    .collect();
                write!(f, "choice({})", parts.join(", "))
            }
        }
    }
}
