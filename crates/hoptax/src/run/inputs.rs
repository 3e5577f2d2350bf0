//! What a run needs before it can begin.

use super::contents::Contents;
use hoptax_host::probe::fitness::Moment;
use hoptax_plan::Plan;
use hoptax_record::{Environment, HostLook};
use std::sync::atomic::AtomicBool;

/// What a run is made of.
pub struct Run<'a> {
    /// What to measure.
    pub plan: &'a Plan,
    /// The plan as typed.
    pub plan_text: String,
    /// The command line.
    pub command: Vec<String>,
    /// What the plan's files hold.
    pub contents: Contents,
    /// Order and arrivals.
    pub seed: u64,
    /// CPUs for the generator's workers; empty: one worker, not pinned.
    pub generator_cpus: Vec<u32>,
    /// The machine.
    pub environment: Environment,
    /// How fit it is at that moment.
    pub look: &'a dyn Fn(Moment) -> Option<HostLook>,
    /// Set by a signal: the trial under way is cut short, and nothing further begins.
    pub interrupted: &'a AtomicBool,
}
