//! Exit codes, and the error for input that the user must correct.

use hoptax_lab::packs::PackError;
use hoptax_plan::{LoadError, PlanErrors};
use hoptax_report::Verdict;
use std::process::ExitCode;

/// Result of a verb. The exit codes are part of the stable interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Success = 0,
    /// The command could not run.
    Failed = 1,
    /// The plan or the command line is wrong.
    BadInput = 2,
    /// A budget or a limit of a load is exceeded, a comparison or a change of the history is worse (with
    /// `--fail-on worse`), or a pack is not equalised.
    OverBudget = 3,
    /// Measured, but a `void` finding says that the result cannot be trusted.
    Void = 4,
    /// Measured, but the run cannot decide a budget.
    Inconclusive = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        (exit as u8).into()
    }
}

/// What an inconclusive budget counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum OnInconclusive {
    /// exit 5
    Fail,
    /// exit 0
    Pass,
}

impl Exit {
    pub(super) fn of(verdict: Verdict, inconclusive: OnInconclusive) -> Self {
        match (verdict, inconclusive) {
            (Verdict::Nothing, _) => Self::Failed,
            (Verdict::Void, _) => Self::Void,
            (Verdict::OverBudget, _) => Self::OverBudget,
            (Verdict::Inconclusive, OnInconclusive::Fail) => Self::Inconclusive,
            (Verdict::Inconclusive, OnInconclusive::Pass) | (Verdict::Good, _) => Self::Success,
        }
    }
}

/// An error in the user's input. hoptax exits with [`Exit::BadInput`]. The text says where the mistake is,
/// what is wrong, and how to fix it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(pub String);

impl From<LoadError> for BadInput {
    fn from(error: LoadError) -> Self {
        Self(error.to_string())
    }
}

impl From<PackError> for BadInput {
    fn from(error: PackError) -> Self {
        Self(error.to_string())
    }
}

impl From<PlanErrors> for BadInput {
    fn from(errors: PlanErrors) -> Self {
        Self(errors.to_string())
    }
}
