//! Constructors of the results of checks.

use hoptax_record::{Fitness, FitnessStatus};

pub(super) fn good(name: &str, seen: impl Into<String>) -> Fitness {
    let (name, seen) = (name.to_owned(), seen.into());
    Fitness { name, status: FitnessStatus::Good, seen, message: String::new(), advice: None }
}

pub(super) fn unknown(name: &str, why: impl Into<String>) -> Fitness {
    let (name, message) = (name.to_owned(), why.into());
    Fitness { name, status: FitnessStatus::Unknown, seen: "unknown".into(), message, advice: None }
}

pub(super) fn doubt(
    name: &str,
    status: FitnessStatus,
    seen: impl Into<String>,
    message: impl Into<String>,
    advice: impl Into<String>,
) -> Fitness {
    let (name, seen, message) = (name.to_owned(), seen.into(), message.into());
    Fitness { name, status, seen, message, advice: Some(advice.into()) }
}

/// Returns the status `Bad` if the value exceeds the bound `bad`. Otherwise returns `Warning` if it exceeds the bound
/// `warning`, and `None` if it exceeds neither.
pub(super) fn graded(value: f64, warning: f64, bad: f64) -> Option<FitnessStatus> {
    if value > bad { Some(FitnessStatus::Bad) } else { (value > warning).then_some(FitnessStatus::Warning) }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
