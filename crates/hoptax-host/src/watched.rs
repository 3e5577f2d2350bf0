//! Which processes to watch.

use serde::{Deserialize, Serialize};

/// The process tree of a service, to be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// Root of the process tree.
    pub pid: u32,
    /// Whether the root itself belongs to the service. False if the root is the guard.
    pub include_root: bool,
}
