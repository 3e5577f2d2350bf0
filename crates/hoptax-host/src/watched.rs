//! Which processes to watch.

/// The processes of a service to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// Root of the process tree.
    pub pid: u32,
    /// Whether the root itself belongs to the service; false if it is the guard.
    pub include_root: bool,
}
