//! Number of rounds.

use crate::units;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Maximum number of rounds of any plan. In a plan without other limits, rounds continue until the time is
/// over.
pub const MOST_ROUNDS: u32 = 10_000;

/// Number of rounds: fixed, or decided during the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Trials {
    /// A fixed number of rounds.
    Fixed(u32),
    /// As many rounds as needed.
    Auto(AutoTrials),
}

impl Trials {
    /// Minimum number of rounds that a run can have.
    pub fn at_least(&self) -> u32 {
        match self {
            Self::Fixed(rounds) => *rounds,
            Self::Auto(auto) => auto.least,
        }
    }

    /// Maximum number of rounds that a run can have.
    pub fn at_most(&self) -> u32 {
        match self {
            Self::Fixed(rounds) => *rounds,
            Self::Auto(auto) => auto.most,
        }
    }

    /// The time limit, if only time limits the number of rounds. This is the case in plans without `trials`.
    pub fn time_only(&self) -> Option<Duration> {
        match self {
            Self::Auto(auto) if auto.most == MOST_ROUNDS => Some(auto.at_most),
            _ => None,
        }
    }

    /// Describes the number of rounds: `5 rounds`, `5 to 30 rounds, at most 10m`, or `as many rounds as fit
    /// into 3m`.
    pub fn describe(&self) -> String {
        match self {
            Self::Fixed(1) => "1 round".to_owned(),
            Self::Fixed(rounds) => format!("{rounds} rounds"),
            Self::Auto(AutoTrials { least, most, at_most, .. }) => {
                let at_most = units::show_duration(*at_most);
                match least == most {
                    _ if self.time_only().is_some() => format!("as many rounds as fit into {at_most}"),
                    true => format!("{least} rounds, at most {at_most}"),
                    false => format!("{least} to {most} rounds, at most {at_most}"),
                }
            }
        }
    }
}

/// Settings of `trials: auto`. Rounds continue until the interval of every headline tax is narrow enough, or
/// until the time limit or the maximum number of rounds is reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AutoTrials {
    /// Required precision: half-width of the interval ÷ estimate.
    pub within: f64,
    /// Required precision of added latency, as half-width of the interval in µs; absent if `within` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_us: Option<f64>,
    /// Time limit for all rounds together.
    pub at_most: Duration,
    /// Minimum number of rounds.
    pub least: u32,
    /// Maximum number of rounds.
    pub most: u32,
}
