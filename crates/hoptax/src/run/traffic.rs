//! Sends a trial's load and watches what it costs: the trait, and what it reports.

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

/// Sends traffic and watches what it costs.
pub trait Traffic {
    /// One request of each target to direct and one, changed as `change` says, through the gateway, before anything is
    /// timed; then whatever proves that the gateway's features are on.
    ///
    /// # Errors
    /// If the gateway answers otherwise than direct does, either not as a target expects, or a feature is not on.
    fn verify(
        &mut self,
        requests: &Requests,
        timeout: Duration,
        direct: &[SocketAddr],
        gateway: SocketAddr,
        change: &Change,
    ) -> Result<(), Failure>;

    /// What the loopback carries in messages of this size; `None` where it is not measured.
    fn link(&mut self, message_bytes: u64) -> Option<Link> {
        let _ = message_bytes;
        None
    }

    /// One trial's load, while `watched` (the upstream, then the gateway, as far as they are there) is sampled. Tells each
    /// phase as it begins; whether it tells more is its own affair.
    fn load(
        &mut self,
        spec: &LoadSpec,
        watched: &WatchedRoles,
        interrupted: &AtomicBool,
        tell: &mut dyn FnMut(News),
    ) -> Loaded;
}

/// What is told of a trial while it is loaded.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// The generator entered a phase.
    Phase(Phase),
    /// A second of the measured time has passed.
    Second(SecondLine),
    /// What was used over the last second.
    Used(Used),
}

/// What roles used over the last second, and the hypervisor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Used {
    /// The generator.
    pub generator: Option<RecentTree>,
    /// The gateway; absent for direct, and for an external one without a pid.
    pub gateway: Option<RecentTree>,
    /// The upstream, where it is ours.
    pub upstream: Option<RecentTree>,
    /// Share of the host's CPU time that the hypervisor took, 0 to 1.
    pub steal: f64,
}

/// What came of one trial's load. Where it failed, what was measured until then is kept.
#[derive(Debug, Default)]
pub struct Loaded {
    /// What the generator saw.
    pub record: Option<LoadRecord>,
    /// What the probes saw.
    pub usage: Usage,
    /// Why there is no record.
    pub failed: Option<Failure>,
}

/// Whose processes are watched during a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WatchedRoles {
    /// The upstream, where it is ours.
    pub upstream: Option<Watched>,
    /// The gateway; absent for direct, and for an external one without a pid.
    pub gateway: Option<Watched>,
}

/// What the probes saw over the measured time.
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
    /// The kernel's network counters over the generator's whole life.
    pub network: Option<NetworkUsage>,
}
