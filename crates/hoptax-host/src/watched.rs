//! Which processes are watched.

/// What is watched of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// Root of the process tree.
    pub pid: u32,
    /// Whether the root itself belongs to the service (it does not where it is our guard).
    pub include_root: bool,
}
