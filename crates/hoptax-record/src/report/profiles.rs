//! Profiles of gateways, and their differences.

use super::super::profile::{Callers, FrameKind, PassKind};
use super::{Contrast, Estimate, Load};
use serde::Serialize;

/// The profile of a gateway at a load point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// The gateway's label.
    pub gateway: String,
    /// The load point.
    pub load: Load,
    /// `cpu`, or `waiting` for the time in which threads wait.
    pub kind: PassKind,
    /// Number of passes that succeeded.
    pub passes: u32,
    /// Number of passes that failed.
    pub failed: u32,
    /// Why the last of them failed; absent if none failed.
    pub failure: Option<String>,
    /// Name and version of the profiler; empty if it never ran.
    pub profiler: String,
    /// How it found the callers of a function: `dwarf` (unwind tables) or `frame-pointers`.
    pub callers: Callers,
    /// Whether it saw what the kernel does for the gateway.
    pub sees_kernel: bool,
    /// Number of samples.
    pub samples: u64,
    /// Number of samples that were lost.
    pub lost: u64,
    /// Time of all frames, µs per request; absent if no pass succeeded. Waiting is summed over all threads.
    pub us_per_request: Option<Estimate>,
    /// Own time of the functions of each module, the largest first.
    pub modules: Vec<ModuleFigures>,
    /// The frames with the largest own times, the largest first.
    pub frames: Vec<FrameFigures>,
    /// Modules whose frames have no names, and what is missing.
    pub missing: Vec<MissingSymbols>,
}

/// Own time of the functions of a module.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModuleFigures {
    /// File name of a program or library, `kernel`, or `generated code`.
    pub module: String,
    /// µs per request.
    pub own_us: Estimate,
}

/// Times of a frame, wherever it is called.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrameFigures {
    /// Name of the function. Without a symbol, the name of its module in brackets.
    pub frame: String,
    /// Module of the function.
    pub module: String,
    /// `kernel`, `native` or `generated`.
    pub kind: FrameKind,
    /// Time of the function itself, µs per request.
    pub own_us: Estimate,
    /// Time of the function and all that it calls, µs per request.
    pub total_us: Estimate,
}

/// A module whose frames have no names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MissingSymbols {
    /// The module.
    pub module: String,
    /// Own time of its frames without a name, µs per request.
    pub own_us: f64,
    /// What is missing, and how to get it.
    pub advice: String,
}

/// Two profiles of CPU time, compared: second − first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProfileDifference {
    /// The first profile.
    pub first: ProfiledCase,
    /// The second profile.
    pub second: ProfiledCase,
    /// Change of the CPU time of all frames, µs per request.
    pub us_per_request: Contrast,
    /// Changes of the own times of modules, the largest first.
    pub modules: Vec<ModuleChange>,
    /// The frames with the largest changes of their own times, the largest first.
    pub frames: Vec<FrameChange>,
}

/// A gateway at a load point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProfiledCase {
    /// The gateway's label.
    pub gateway: String,
    /// The load point.
    pub load: Load,
}

/// Change of a module's own time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModuleChange {
    /// The module.
    pub module: String,
    /// µs per request.
    pub own_us: Contrast,
    /// Whether the interval does not contain zero.
    pub distinguishable: bool,
}

/// Change of a frame's times.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrameChange {
    /// Name of the function. Without a symbol, the name of its module in brackets.
    pub frame: String,
    /// Module of the function.
    pub module: String,
    /// Change of the time of the function itself, µs per request.
    pub own_us: Contrast,
    /// Change of the time of the function and all that it calls, µs per request.
    pub total_us: Contrast,
    /// Whether one of the two intervals does not contain zero.
    pub distinguishable: bool,
}
