//! The host's CPU time by kind, from `/proc/stat`.

use procfs::{CpuTime, CurrentSI, KernelStats};

/// CPU time of all CPUs since boot, nanoseconds; the kernel counts it in ticks of 10 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostTimes {
    /// Time spent on anything but idling, interrupts included, steal excluded.
    pub busy: u64,
    /// Time idle or waiting for disks.
    pub idle: u64,
    /// Time taken by the hypervisor.
    pub steal: u64,
}

impl HostTimes {
    /// The times now; all zero if `/proc/stat` cannot be read.
    pub fn now() -> Self {
        Self::now_with_steal().0
    }

    /// The times now, and what the hypervisor took from each CPU since boot, nanoseconds; from one reading. The list
    /// is empty if `/proc/stat` cannot be read.
    pub fn now_with_steal() -> (Self, Vec<u64>) {
        let Ok(stats) = KernelStats::current() else { return Default::default() };
        let steal = stats.cpu_time.iter().map(|cpu| nanoseconds(cpu.steal.unwrap_or(0))).collect();
        (Self::of(&stats.total), steal)
    }

    fn of(total: &CpuTime) -> Self {
        // User time already includes guest time (proc_stat(5)).
        let interrupts = total.irq.unwrap_or(0) + total.softirq.unwrap_or(0);
        Self {
            busy: nanoseconds(total.user + total.nice + total.system + interrupts),
            idle: nanoseconds(total.idle + total.iowait.unwrap_or(0)),
            steal: nanoseconds(total.steal.unwrap_or(0)),
        }
    }

    /// Sum of all kinds.
    pub fn total(self) -> u64 {
        self.busy + self.idle + self.steal
    }
}

fn nanoseconds(ticks: u64) -> u64 {
    ticks * (1_000_000_000 / procfs::ticks_per_second())
}
