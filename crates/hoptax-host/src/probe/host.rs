//! The CPU time of the host, by kind, from `/proc/stat`.

use procfs::{CpuTime, CurrentSI, KernelStats};
use serde::{Deserialize, Serialize};

/// CPU time of all CPUs since boot, nanoseconds; the kernel counts it in ticks of 10 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTimes {
    /// Time in which the CPUs were busy. It includes interrupts, but not steal.
    pub busy: u64,
    /// Time spent idle or waiting for disks.
    pub idle: u64,
    /// Time that the hypervisor took.
    pub steal: u64,
}

impl HostTimes {
    /// Reads the times now; all are zero if `/proc/stat` cannot be read.
    pub fn now() -> Self {
        Self::now_with_steal().0
    }

    /// Reads the times now. Also returns the time that the hypervisor took from each CPU since boot, in
    /// nanoseconds, from the same reading. This list is empty if `/proc/stat` cannot be read.
    pub fn now_with_steal() -> (Self, Vec<u64>) {
        let Ok(stats) = KernelStats::current() else { return Default::default() };
        let steal = stats.cpu_time.iter().map(|cpu| nanoseconds(cpu.steal.unwrap_or(0))).collect();
        (Self::of(&stats.total), steal)
    }

    fn of(total: &CpuTime) -> Self {
        // Guest time is not added, because user time already includes it (proc_stat(5)).
        let interrupts = total.irq.unwrap_or(0) + total.softirq.unwrap_or(0);
        Self {
            busy: nanoseconds(total.user + total.nice + total.system + interrupts),
            idle: nanoseconds(total.idle + total.iowait.unwrap_or(0)),
            steal: nanoseconds(total.steal.unwrap_or(0)),
        }
    }

    /// Sum of all kinds of time.
    pub fn total(self) -> u64 {
        self.busy + self.idle + self.steal
    }
}

fn nanoseconds(ticks: u64) -> u64 {
    ticks * (1_000_000_000 / procfs::ticks_per_second())
}
