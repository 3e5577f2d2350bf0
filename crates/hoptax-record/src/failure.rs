//! Failures: why something could not be measured.

use crate::printable;
use serde::{Deserialize, Serialize};

/// Why something could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The step that failed.
    pub stage: Stage,
    /// What happened and what to do, in one or a few sentences.
    pub message: String,
    /// The last lines of the log. After a failed verification: the answers of direct and of the gateway. May
    /// be empty.
    pub detail: String,
}

impl Failure {
    /// A failure without detail.
    pub fn new(stage: Stage, message: impl Into<String>) -> Self {
        Self { stage, message: message.into(), detail: String::new() }
    }

    /// The failure with its texts made [`printable()`], because they may quote an answer.
    #[must_use]
    pub fn printable(self) -> Self {
        Self { message: printable(&self.message), detail: printable(&self.detail), ..self }
    }
}

/// Steps at which a contender or a trial can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Not installed.
    Missing,
    /// Did not start, or never became ready.
    Start,
    /// The gateway's answer differs from the answer of direct.
    Verify,
    /// The contender ended or became unreachable during a trial.
    Trial,
    /// The machine has too few descriptors or ports for the load point, so that nothing was measured there.
    /// Only in reports: [`LoadPoint::left_out`](crate::plan::LoadPoint::left_out).
    #[serde(rename = "left-out")]
    LeftOut,
}
