//! A host to look at: where its files lie, and what it answered when it was asked.

use std::fs;
use std::path::PathBuf;

/// A host: where its files lie, and what it answered when it was asked.
#[derive(Debug, Clone)]
pub struct Host {
    /// Below it lie `proc` and `sys`.
    pub root: PathBuf,
    /// CPUs that this process may use.
    pub allowed: Vec<u32>,
    /// Whether a thread could be given CPUs of its own.
    pub can_pin: bool,
    /// Descriptors that a process may hold: as it starts, and after it has raised that itself.
    pub descriptors: (u64, u64),
    /// Release of the kernel, as in `6.8.0-45-generic`.
    pub release: String,
    /// Whether this user may do everything.
    pub is_root: bool,
    /// Bytes free where results are written.
    pub disk_free: Option<u64>,
    /// How late short sleeps came, nanoseconds, in any order.
    pub late_ns: Vec<u64>,
    /// What one look at the clock costs, nanoseconds.
    pub clock_ns: u64,
}

impl Host {
    /// Ports that the kernel may choose from towards one address.
    pub fn local_ports(&self) -> Option<u64> {
        self.port_range().map(|(first, last)| (last + 1).saturating_sub(first))
    }

    /// The first and the last of them.
    pub(super) fn port_range(&self) -> Option<(u64, u64)> {
        let text = self.text("proc/sys/net/ipv4/ip_local_port_range")?;
        let mut ends = text.split_whitespace().map(|end| end.parse::<u64>().ok());
        Some((ends.next()??, ends.next()??))
    }

    /// The trimmed content of a file below the root, if there is one with something in it.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }
}
