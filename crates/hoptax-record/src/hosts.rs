//! Hosts of a run whose roles are not all on one host.

use crate::{Environment, HostUsage, NetworkUsage};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A host of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunHost {
    /// The roles of this host: `generator`, `gateway`, `upstream`.
    pub roles: Vec<String>,
    /// Address at which the other hosts reach it; absent if the plan gives none.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// The machine.
    pub environment: Environment,
    /// How exactly hoptax knew the difference between this host's clock and its own at the start of the run, ns: half of the
    /// shortest round trip. 0 if both have the same clock.
    pub clock_uncertainty_ns: u64,
}

/// A host other than the generator's, in one trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialHost {
    /// How its CPUs were used during the measured time. Absent if it is the generator's machine under another name: then
    /// [`TrialRecord::host`](crate::TrialRecord::host) says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<HostUsage>,
    /// The counters of its kernel for its network, for the time between the start and the end of the generator. Absent if they
    /// cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkUsage>,
}
