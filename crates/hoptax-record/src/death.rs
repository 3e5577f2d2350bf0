//! Deaths of gateways during a run.

use crate::failure::Failure;
use serde::{Deserialize, Serialize};

/// Number of deaths of a gateway in one case after which hoptax leaves out the rest of the case. A single
/// death can have a cause outside of the case.
pub const DEATHS_IN_CASE: usize = 2;

/// One death of a gateway: its process ended, although nobody had stopped it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// What the gateway did when it died.
    pub during: DeathDuring,
    /// Position, among all trials of the run, of the trial in which the gateway died, or of the next trial.
    pub trial: u32,
    /// Index of the load point whose load killed the gateway. Absent if the gateway had no load.
    pub load: Option<u32>,
    /// How the gateway ended, with its last log lines.
    pub failure: Failure,
    /// Position of the first trial after hoptax had started the gateway again. Absent if it was not started
    /// again.
    pub started_again: Option<u32>,
}

/// What a gateway did when it died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeathDuring {
    /// It was measured.
    Trial,
    /// It was warmed up.
    WarmUp,
    /// It had no load, because other contenders were measured.
    Pause,
}
