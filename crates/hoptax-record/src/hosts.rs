//! The hosts of a run: what they are, and how they were used during a trial.

use crate::plan::Idle;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A role of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sends requests.
    Generator,
    /// Forwards them.
    Gateway,
    /// Answers them.
    Upstream,
}

impl Role {
    /// The name in plans and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Generator => "generator",
            Self::Gateway => "gateway",
            Self::Upstream => "upstream",
        }
    }

    /// The names of several roles, with this text between them.
    pub fn names(roles: &[Self], between: &str) -> String {
        roles.iter().map(|role| role.name()).collect::<Vec<_>>().join(between)
    }
}

/// A host of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunHost {
    /// The roles of this host.
    pub roles: Vec<Role>,
    /// Address at which the other hosts reach this host; absent if the plan gives no address.
    pub address: Option<IpAddr>,
    /// The machine.
    pub environment: Environment,
    /// How exactly hoptax knew the difference between this host's clock and its own at the start of the run,
    /// ns: half of the shortest round trip. 0 if both have the same clock.
    pub clock_uncertainty_ns: u64,
    /// Checks of the host before the first trial. Absent for the generator's host, because the run itself has
    /// its checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_start: Option<HostLook>,
    /// Checks of the host after the last trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_end: Option<HostLook>,
}

impl RunHost {
    /// Whether the host has a role.
    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}

/// The network from one host of a run to another: the leg of a request that one host sends and the other
/// answers. It is measured with messages of hoptax alone, before the first trial and after the last one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Leg {
    /// Name of the host that connects.
    pub from: String,
    /// Name of the host that answers. If both hosts are the same, the leg is the way through the host's own
    /// network stack. Its round trips show how much time the network stack needs without a network.
    pub to: String,
    /// Address at which `from` reaches `to`; absent if `to` has none.
    pub address: Option<IpAddr>,
    /// Measured before the first trial; absent if a signal ended the run earlier.
    pub at_start: Option<LegLook>,
    /// After the last trial.
    pub at_end: Option<LegLook>,
}

/// What was measured on a leg at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LegLook {
    /// Round trips of one message that waits for its answer, on one connection. Empty if the leg failed.
    pub round_trips: RoundTrips,
    /// Bandwidth in the direction of requests. Absent if it was not measured.
    pub there: Option<Link>,
    /// Bandwidth in the direction of responses.
    pub back: Option<Link>,
    /// Why something was not measured, and what to try. Absent if everything was measured.
    pub failed: Option<String>,
}

/// Round trips on a leg.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundTrips {
    /// Length of the message, bytes.
    pub sent_bytes: u64,
    /// Length of its answer, bytes.
    pub answered_bytes: u64,
    /// Number of round trips.
    pub count: u64,
    /// The shortest round trip, ns.
    pub least_ns: u64,
    /// Median of each batch of consecutive round trips, ns.
    pub p50_ns_by_batch: Vec<u64>,
}

/// Throughput of one connection between two processes: of one machine over its loopback device, or of two
/// hosts over the network.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Length of a message, bytes.
    pub message_bytes: u64,
    /// Bytes per second in one direction of one connection.
    pub bytes_per_second: f64,
}

/// A host other than the generator's, in one trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialHost {
    /// The roles on its machine: `gateway`, `upstream`, and `generator` if it is not the first one. `usage`
    /// is that of this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
    /// The roles in its network. `network` has the counters of this network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network_roles: Vec<Role>,
    /// How its CPUs were used during the measured time. Absent if this host is the generator's machine under
    /// another name: the usage is then in the trial's `host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<HostUsage>,
    /// The counters of its kernel for its network, for the time between the start and the end of the
    /// generator. Absent if they cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkUsage>,
}

/// The machine of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Host name.
    pub host: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Model name of the processor.
    pub cpu: String,
    /// Number of CPUs that hoptax may use.
    pub cpus: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Maximum number of file descriptors that a process can open.
    pub descriptors: u64,
    /// Clock source of the kernel; absent if unknown.
    pub clock_source: Option<String>,
    /// CPU frequency governor; absent if there is none.
    pub governor: Option<String>,
    /// Kind of virtualisation; absent if none was detected.
    pub hypervisor: Option<String>,
    /// What idle CPUs did during the run; absent in runs of versions that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idle>,
}

/// How the CPUs of the host were used during the measured time. A share of 1 is the time of all CPUs
/// together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostUsage {
    /// Share of the CPU time that the hypervisor took.
    pub steal: f64,
    /// Share of the CPU time that processes outside of the run used.
    pub foreign: f64,
    /// Share of the CPU time in which the CPUs were idle.
    pub idle: f64,
    /// Share of the CPU time that the hypervisor took, for each window.
    pub steal_by_window: Vec<f64>,
    /// Share of the CPU time that processes outside of the run used, for each window.
    pub foreign_by_window: Vec<f64>,
    /// Time that the hypervisor took from each CPU in each window; absent in older runs.
    pub stolen: Option<Stolen>,
    /// Stalls of the CPUs; absent if they were not measured, and in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled: Option<Stalled>,
    /// One-minute load average at the end of the measured time; absent in older runs.
    pub load_average: Option<f64>,
    /// The process outside of the run that used the most CPU time. Absent if no such process used 10 ms, and
    /// in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest_foreign: Option<ForeignProcess>,
}

/// A process outside of the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignProcess {
    /// Name of the command, at most 15 bytes.
    pub name: String,
    /// CPU time in the measured time, ns, in steps of 10 ms.
    pub cpu_ns: u64,
}

/// Time that the hypervisor took from each CPU in each window.
///
/// The kernel counts this time in ticks of 10 ms, and notices it only when the CPU runs again. So the time
/// can appear in a later window. The lists therefore begin before the measured time and end after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stolen {
    /// Number of windows at the start of each list that lie before the measured time.
    pub before: u32,
    /// Number of windows at the end of each list that lie after the measured time.
    pub after: u32,
    /// Time that the hypervisor took in each window, ns. The key is the position of the CPU in the list of
    /// online CPUs in `/proc/stat`, from 0. If the hypervisor took no time from a CPU, this CPU is left out.
    pub ns_by_cpu: BTreeMap<u32, Vec<u64>>,
}

/// Stalls: times in which a CPU ran not even a thread of real-time priority.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalled {
    /// Number of stalls on all CPUs in the measured time.
    pub count: u32,
    /// The longest one, ns.
    pub longest_ns: u64,
    /// Time of stalls in each window, ns, by number of the CPU. A CPU without a stall is left out.
    pub ns_by_cpu: BTreeMap<u32, Vec<u64>>,
}

/// The kernel's counters for the network namespace that carries the traffic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkUsage {
    /// Number of connections dropped because a listen queue was full (`ListenOverflows`).
    pub listen_overflows: u64,
    /// Number of connections that listeners dropped for any reason (`ListenDrops`).
    pub listen_drops: u64,
    /// Number of SYNs and SYN-ACKs that were retransmitted (`TCPSynRetrans`).
    pub syn_retransmits: u64,
    /// Number of segments that were retransmitted (`RetransSegs`).
    pub retransmits: u64,
    /// Number of segments sent (`OutSegs`).
    pub segments_sent: u64,
    /// Maximum number of sockets that were in TIME_WAIT at the same time.
    pub time_wait_max: u64,
    /// Number of local ports that the kernel may choose from (`ip_local_port_range`).
    pub local_ports: u64,
}

/// Results of the checks of a host at one moment, as `hoptax doctor` displays them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostLook {
    /// Time of the checks, in nanoseconds since the Unix epoch.
    pub at_unix_ns: u64,
    /// The results, in the order in which they are displayed.
    pub items: Vec<Fitness>,
}

/// Result of one check of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fitness {
    /// Name of the check: `cpus`, `governor`, `steal`, …
    pub name: String,
    /// Result of the check.
    pub status: FitnessStatus,
    /// What was found, in a few words: `2`, `performance`, `3.1 %`.
    pub seen: String,
    /// Why the result matters; empty if the result is good.
    pub message: String,
    /// What the user can do; absent if there is nothing to do.
    pub advice: Option<String>,
}

/// Result of a check, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FitnessStatus {
    /// Figures from this host will be wrong, or a run will fail.
    Bad,
    /// Figures will be noisier than necessary, or a limit is near.
    Warning,
    /// Cannot be checked on this host.
    Unknown,
    /// Good.
    Good,
}
