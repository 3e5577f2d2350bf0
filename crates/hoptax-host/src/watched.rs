//! Which processes to watch.

/// The process tree of a service, to be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// Root of the process tree.
    pub pid: u32,
    /// Whether the root itself belongs to the service. False if the root is the guard.
    pub include_root: bool,
}
