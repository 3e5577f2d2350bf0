//! The host's CPU time by kind, from `/proc/stat`.

use procfs::{CpuTime, CurrentSI, KernelStats};

/// CPU time of all CPUs since boot, nanoseconds; the kernel counts it in ticks of 10 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostTimes {
    /// Spent on anything but idling, interrupts included, steal left out.
    pub busy: u64,
    /// Spent idle or waiting for disks.
    pub idle: u64,
    /// Taken by the hypervisor.
    pub steal: u64,
}

impl HostTimes {
    /// The times now; all zero where `/proc/stat` cannot be read.
    pub fn now() -> Self {
        Self::now_with_steal().0
    }

    /// The times now, and of each CPU what the hypervisor took from it since boot, nanoseconds; all from one reading. The
    /// list is empty where `/proc/stat` cannot be read.
    pub fn now_with_steal() -> (Self, Vec<u64>) {
        let Ok(stats) = KernelStats::current() else { return Default::default() };
        let steal = stats.cpu_time.iter().map(|cpu| nanoseconds(cpu.steal.unwrap_or(0))).collect();
        (Self::of(&stats.total), steal)
    }

    fn of(total: &CpuTime) -> Self {
        // Guest time is part of user time already (proc_stat(5)).
        let interrupts = total.irq.unwrap_or(0) + total.softirq.unwrap_or(0);
        Self {
            busy: nanoseconds(total.user + total.nice + total.system + interrupts),
            idle: nanoseconds(total.idle + total.iowait.unwrap_or(0)),
            steal: nanoseconds(total.steal.unwrap_or(0)),
        }
    }

    /// All kinds together.
    pub fn total(self) -> u64 {
        self.busy + self.idle + self.steal
    }
}

fn nanoseconds(ticks: u64) -> u64 {
    ticks * (1_000_000_000 / procfs::ticks_per_second())
}
