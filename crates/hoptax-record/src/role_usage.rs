//! CPU time and memory of a role.

use serde::{Deserialize, Serialize};

/// CPU time and memory of a role: of its process and all descendants, during the measured time only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleUsage {
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// Number of processes at the end of the measured time.
    pub processes: u32,
    /// Number of threads at the end of the measured time.
    pub threads: u32,
    /// Largest sum of the resident sets (RSS) of all processes, bytes. A page that several processes share is
    /// counted for each of them.
    pub rss_bytes_max: u64,
    /// Largest sum of the proportional sets (PSS) of all processes, bytes. The size of a shared page is
    /// divided between the processes that share it. Absent if the kernel does not report the PSS.
    pub pss_bytes_max: Option<u64>,
    /// CPU time in each window, ns; one entry per window of the generator.
    pub cpu_ns_by_window: Vec<u64>,
    /// Sum of the resident sets of all processes at the end of each window, bytes; empty in older runs.
    #[serde(default)]
    pub rss_bytes_by_window: Vec<u64>,
    /// Sum of the resident sets of all processes before the load's first request, bytes. Absent if unknown,
    /// and in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_bytes_before: Option<u64>,
    /// Time for which the CPU limit of the cgroup throttled the role, ns. Absent if there is no limit, and if
    /// the time is unknown.
    pub throttled_ns: Option<u64>,
    /// CPUs on which the role's threads are allowed to run. Threads that hardly run are ignored. Empty if
    /// unknown.
    #[serde(default)]
    pub cpus_allowed: Vec<u32>,
    /// Number of busy threads in all processes. A thread is busy if it was on a CPU for at least 2 % of the
    /// time, and for at least a quarter as long as the busiest thread. Absent if unknown, and in older runs.
    pub busy_threads: Option<u32>,
    /// Time for which threads were ready to run but had to wait for a CPU, ns, summed over all threads.
    /// Absent if unknown, and in older runs.
    pub waiting_ns: Option<u64>,
    /// True if a process had executable memory that belongs to no file, which is typical of runtimes that
    /// compile while they run. False if unknown, and in older runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub generates_code: bool,
}
