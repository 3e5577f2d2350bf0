//! A process that burns one CPU, as a neighbour would.

use std::process::{Child, Command, Stdio};

/// CPU seconds after which the kernel ends it, should its test be killed before it could.
const BOUND_S: u32 = 120;

/// Burns one CPU until it is dropped.
pub(crate) struct Hog(Child);

impl Hog {
    /// Burns whichever CPU the kernel gives it.
    pub(crate) fn start() -> Self {
        let script = format!("ulimit -t {BOUND_S}; while :; do :; done");
        let child = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).spawn();
        Self(child.expect("a shell"))
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
