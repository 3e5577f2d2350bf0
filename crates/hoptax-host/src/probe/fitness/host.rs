//! The observations that the checks of this host use.

use std::fs;
use std::path::PathBuf;

/// A host: the root of its files, and the results of measurements on this host.
#[derive(Debug, Clone)]
pub struct Host {
    /// Directory that contains the host's `proc` and `sys`.
    pub root: PathBuf,
    /// CPUs that this process may use.
    pub allowed: Vec<u32>,
    /// Whether threads can be pinned.
    pub can_pin: bool,
    /// Whether idle CPUs can be made to poll, or the reason why not.
    pub can_poll: Result<(), String>,
    /// Limits on the number of open descriptors of this process. The first is the current limit, and the
    /// second is the limit to which the process can raise it.
    pub descriptors: (u64, u64),
    /// Release of the kernel, such as `6.8.0-45-generic`.
    pub release: String,
    /// Whether this user is root.
    pub is_root: bool,
    /// Free bytes in the directory for results.
    pub disk_free: Option<u64>,
    /// Lateness of each short sleep, nanoseconds; not sorted.
    pub late_ns: Vec<u64>,
    /// Cost of one clock read, nanoseconds.
    pub clock_ns: u64,
}

impl Host {
    /// Number of local ports that the kernel may use for connections to one address.
    pub fn local_ports(&self) -> Option<u64> {
        self.port_range().map(|(first, last)| (last + 1).saturating_sub(first))
    }

    /// The first and the last local port that the kernel may use for connections.
    pub(super) fn port_range(&self) -> Option<(u64, u64)> {
        let text = self.text("proc/sys/net/ipv4/ip_local_port_range")?;
        let mut ends = text.split_whitespace().map(|end| end.parse::<u64>().ok());
        Some((ends.next()??, ends.next()??))
    }

    /// The trimmed content of a file below the root; `None` if the file is empty or cannot be read.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }
}
