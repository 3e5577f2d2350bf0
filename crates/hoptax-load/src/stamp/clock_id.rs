//! Which clock a process's CLOCK_MONOTONIC is: two processes' moments can be set against each other only where it is the same.

use serde::{Deserialize, Serialize};
use std::fs;

/// Names a CLOCK_MONOTONIC: it counts from the boot of one kernel, and a time namespace moves it (time_namespaces(7)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockId {
    /// The kernel's random name for its present boot (`/proc/sys/kernel/random/boot_id`): the same in all of its containers,
    /// another on every other host and in every virtual machine.
    pub boot_id: String,
    /// How far the time namespace moves the clock, nanoseconds; 0 where there is none.
    pub offset_ns: i64,
}

impl ClockId {
    /// This process's; `None` where the kernel does not tell.
    pub fn here() -> Option<Self> {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        // Kernels without time namespaces have no such file.
        let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        Self::read(&boot_id, &offsets)
    }

    /// From the two files' texts. Lines of the second are the clock's name (in older kernels its number, 1), seconds and
    /// nanoseconds.
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
        assert_eq!(id("monotonic soon 3\n"), None, "what cannot be read is not taken for no offset");
        assert_eq!(ClockId::read("\n", ""), None);
    }

    #[test]
    fn this_host_tells_the_same_twice() {
        let here = ClockId::here().expect("Linux tells");
        assert_eq!(ClockId::here(), Some(here));
    }
}
