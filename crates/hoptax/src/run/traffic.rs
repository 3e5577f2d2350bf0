//! The trait [`Traffic`], which sends a trial's load and samples the use of resources. This module also contains the
//! types of its results.

use hoptax_host::Watched;
use hoptax_host::probe::RecentTree;
use hoptax_lab::features::Change;
use hoptax_lab::verify::Requests;
use hoptax_load::record::{LoadRecord, Phase, SecondLine};
use hoptax_load::spec::LoadSpec;
use hoptax_record::{Failure, HostUsage, Link, NetworkUsage, RoleUsage};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Sends traffic and samples resource use.
pub trait Traffic {
    /// Verifies a gateway before anything is measured. For each target, sends one request to direct. Then sends the
    /// same request, with `change` applied, through the gateway. At the end, sends the requests that prove each
    /// feature.
    ///
    /// # Errors
    /// If the gateway's answers differ from the answers of direct, if an answer is not what the target expects, or if a
    /// feature is off.
    fn verify(
        &mut self,
        requests: &Requests,
        timeout: Duration,
        direct: &[SocketAddr],
        gateway: SocketAddr,
        change: &Change,
    ) -> Result<(), Failure>;

    /// Measures the bandwidth of the loopback with messages of this size. `None` if the bandwidth is not measured.
    fn link(&mut self, message_bytes: u64) -> Option<Link> {
        let _ = message_bytes;
        None
    }

    /// Sends the load of one trial, and samples the processes in `watched` at the same time. Must report the beginning
    /// of each phase. Other updates are optional.
    fn load(
        &mut self,
        spec: &LoadSpec,
        watched: &WatchedRoles,
        interrupted: &AtomicBool,
        report: &mut dyn FnMut(TrialUpdate),
    ) -> Loaded;
}

/// A report from a trial in progress.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialUpdate {
    /// The generator entered a phase.
    Phase(Phase),
    /// The figures of one second of the measured time.
    Second(SecondLine),
    /// Resources used over the last second.
    Used(Used),
}

/// Resources used over the last second, by role.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Used {
    /// The generator.
    pub generator: Option<RecentTree>,
    /// The gateway. Absent for direct, and for an external gateway without a PID.
    pub gateway: Option<RecentTree>,
    /// The upstream. Absent if hoptax did not start it.
    pub upstream: Option<RecentTree>,
    /// Share of the host's CPU time that the hypervisor took, 0 to 1.
    pub steal: f64,
}

/// Result of one trial's load. If the trial failed, this contains the measurements up to the failure.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The generator's record.
    pub record: Option<LoadRecord>,
    /// Resource use that the probes sampled.
    pub usage: Usage,
    /// Why the trial failed. Absent if the trial succeeded.
    pub failed: Option<Failure>,
}

/// Processes that are sampled during a trial, in addition to the generator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WatchedRoles {
    /// The upstream. Absent if hoptax did not start it.
    pub upstream: Option<Watched>,
    /// The gateway. Absent for direct, and for an external gateway without a PID.
    pub gateway: Option<Watched>,
}

/// Resource use over the measured time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// The gateway's processes.
    pub gateway: Option<RoleUsage>,
    /// The upstream's processes.
    pub upstream: Option<RoleUsage>,
    /// The generator.
    pub generator: Option<RoleUsage>,
    /// The host.
    pub host: HostUsage,
    /// Growth of the kernel's network counters from the start to the end of the generator process.
    pub network: Option<NetworkUsage>,
}
