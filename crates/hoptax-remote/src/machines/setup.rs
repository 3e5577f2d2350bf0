//! Input for looking up and creating hosts.

use hoptax_plan::Plan;
use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Input of [`up`](super::up()) and [`down`](super::down()).
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Directory for everything that hoptax keeps for this user: see
    /// [`data_directory`](hoptax_host::programs::data_directory).
    pub home: &'a Path,
    /// Set by a signal. Work in progress then ends early.
    pub interrupted: &'a AtomicBool,
    /// Receives a line for the user about each step, and the lines that `terraform` prints about its own
    /// steps.
    pub progress: &'a dyn Fn(&str),
}

impl fmt::Debug for Setup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("plan", &self.plan.name)
            .field("home", &self.home)
            .finish_non_exhaustive()
    }
}
