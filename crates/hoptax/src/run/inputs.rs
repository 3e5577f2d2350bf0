//! The inputs of a run.

use super::contents::Contents;
use hoptax_host::probe::fitness::Moment;
use hoptax_plan::Plan;
use hoptax_record::{Environment, HostLook};
use std::sync::atomic::AtomicBool;

/// A run that can be started: its plan and everything that it depends on.
pub struct Run<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The plan as typed.
    pub plan_text: String,
    /// The command line.
    pub command: Vec<String>,
    /// Contents of the files that the plan names.
    pub contents: Contents,
    /// Seed of the order of trials and of the arrivals.
    pub seed: u64,
    /// CPUs for the generator's workers, one each; if empty, one worker that is not pinned.
    pub generator_cpus: Vec<u32>,
    /// Description of the machine.
    pub environment: Environment,
    /// Checks how fit the machine is for measuring, at the start and at the end.
    pub look: &'a dyn Fn(Moment) -> Option<HostLook>,
    /// Set by a signal: ends the current trial early, and no further trial begins.
    pub interrupted: &'a AtomicBool,
}
