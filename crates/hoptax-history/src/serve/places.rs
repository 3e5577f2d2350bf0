//! Limits the number of processes that draw at the same time.

use std::path::{Path, PathBuf};
use tokio::sync::Semaphore;

/// Maximum number of processes that draw at the same time. Further requests wait.
pub(super) const DRAWING: usize = 4;

/// Starts the processes.
#[derive(Debug)]
pub(super) struct Drawing {
    pub(super) exe: PathBuf,
    pub(super) places: Semaphore,
}

impl Drawing {
    pub(super) fn new(exe: &Path) -> Self {
        Self { exe: exe.to_owned(), places: Semaphore::new(DRAWING) }
    }
}
