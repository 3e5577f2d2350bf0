//! How a verb ends: the exit codes, and the error that is the user's.

use hoptax_plan::{LoadError, PlanErrors};
use hoptax_report::Verdict;
use std::process::ExitCode;

/// How a verb ended; the exit codes are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done, or measured.
    Success,
    /// 1: could not run.
    Failed,
    /// 2: the plan or the command line is wrong.
    BadInput,
    /// 3: a budget was breached, a comparison came out worse where that was asked about, or a pack is not equalised.
    OverBudget,
    /// 4: measured, but a `void` finding says not to believe it.
    Void,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Success => 0,
            Exit::Failed => 1,
            Exit::BadInput => 2,
            Exit::OverBudget => 3,
            Exit::Void => 4,
        })
    }
}

impl From<Verdict> for Exit {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Nothing => Self::Failed,
            Verdict::Void => Self::Void,
            Verdict::OverBudget => Self::OverBudget,
            Verdict::Good => Self::Success,
        }
    }
}

/// An error of the person who typed, told without `error:` trimmings of ours: ends with [`Exit::BadInput`].
///
/// The text says where, what, and how to mend it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(pub String);

impl From<LoadError> for BadInput {
    fn from(error: LoadError) -> Self {
        Self(error.to_string())
    }
}

impl From<PlanErrors> for BadInput {
    fn from(errors: PlanErrors) -> Self {
        Self(errors.to_string())
    }
}
