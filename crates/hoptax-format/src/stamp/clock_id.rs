//! Identifies the CLOCK_MONOTONIC of a process. Timestamps of two processes can be compared only if both
//! processes have the same clock.

use serde::{Deserialize, Serialize};
use std::fs;

/// Identity of a CLOCK_MONOTONIC. This clock counts from the boot of a kernel, and a time namespace shifts it
/// by an offset (time_namespaces(7)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockId {
    /// The kernel's random id of its current boot (`/proc/sys/kernel/random/boot_id`). All containers of a
    /// host have the same id. Every other host and every virtual machine has a different id.
    pub boot_id: String,
    /// Offset that the time namespace adds to the clock, nanoseconds. 0 without a time namespace.
    pub offset_ns: i64,
}

impl ClockId {
    /// Returns the clock of this process, or `None` if the kernel does not report it.
    pub fn here() -> Option<Self> {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        // Kernels without time namespaces do not have this file.
        let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        Self::read(&boot_id, &offsets)
    }

    /// Parses the contents of the two files. A line of `offsets` has the name of a clock (in older kernels
    /// its number, 1), seconds and nanoseconds.
    fn read(boot_id: &str, offsets: &str) -> Option<Self> {
        let boot_id = boot_id.trim();
        let mut offset_ns = 0;
        for line in offsets.lines() {
            let mut words = line.split_whitespace();
            if let Some("monotonic" | "1") = words.next() {
                let (seconds, rest): (i64, i64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                offset_ns = seconds.checked_mul(crate::clock::SECOND as i64)?.checked_add(rest)?;
            }
        }
        (!boot_id.is_empty()).then(|| Self { boot_id: boot_id.to_owned(), offset_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_boot_and_offset() {
        let id = |offsets| ClockId::read("1f3b\n", offsets).map(|id| (id.boot_id, id.offset_ns));
        assert_eq!(id(""), Some(("1f3b".to_owned(), 0)));
        assert_eq!(
            id("monotonic           0         0\nboottime            5         7\n"),
            Some(("1f3b".to_owned(), 0))
        );
        assert_eq!(
            id("monotonic -86400 250\nboottime 0 0\n"),
            Some(("1f3b".to_owned(), -86_399_999_999_750))
        );
        assert_eq!(id("1 2 3\n7 0 0\n"), Some(("1f3b".to_owned(), 2_000_000_003)));
        assert_eq!(id("monotonic soon 3\n"), None, "an unreadable offset does not count as zero");
        assert_eq!(ClockId::read("\n", ""), None);
    }

    /// A time namespace has a separate offset for CLOCK_BOOTTIME, so only the line of CLOCK_MONOTONIC may be
    /// used.
    #[test]
    fn the_clock_of_this_host_has_the_boot_and_the_offset_that_the_kernel_reports() {
        let here = ClockId::here().expect("Linux reports it");
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux reports it");
        assert_eq!(here.boot_id, boot.trim());
        let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        let shift = offsets.lines().find_map(|line| line.strip_prefix("monotonic")).unwrap_or("0 0");
        let parts: Vec<i64> = shift.split_whitespace().map(|part| part.parse().expect("a number")).collect();
        assert_eq!(here.offset_ns, parts[0] * 1_000_000_000 + parts[1]);
    }
}
