//! A process that keeps one CPU busy, to simulate other load on the machine.

use crate::load::KilledOnDrop;
use std::process::{Command, Stdio};

/// Limit of the process's CPU time in seconds. The kernel enforces this limit, so the process ends even if
/// its test was killed.
const LIMIT_S: u32 = 120;

/// Keeps one CPU busy until it is dropped.
pub(crate) struct Hog {
    _process: KilledOnDrop,
}

impl Hog {
    /// Starts the process. It may run on any CPU.
    pub(crate) fn start() -> Self {
        let script = format!("ulimit -t {LIMIT_S}; while :; do :; done");
        let child = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).spawn();
        Self { _process: KilledOnDrop(child.expect("a shell")) }
    }
}
