//! The hosts of a run, and the network between them.

use super::super::{Environment, HostLook, Role};
use super::{Difference, Estimate};
use serde::Serialize;
use std::net::IpAddr;

/// The hosts of a run, and how much of each tax the network between them is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hosts {
    /// The hosts, by name.
    pub hosts: Vec<HostFigures>,
    /// The network from one host to another.
    pub legs: Vec<LegFigures>,
    /// Whether requests via gateways pass the network between the same hosts as direct requests. If so, a tax
    /// contains no time of the network, and there are no splits.
    pub same_way: bool,
    /// Where the added response time at the median comes from, for each gateway and load point. Empty if a
    /// leg was not measured.
    pub splits: Vec<Split>,
    /// What gateways add to the same load from several hosts; absent if each load comes from one host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub same_loads: Vec<SameLoad>,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostFigures {
    /// Its name in the plan.
    pub name: String,
    /// Its roles.
    pub roles: Vec<Role>,
    /// Address at which the other hosts reach this host; absent if the plan gives no address.
    pub address: Option<IpAddr>,
    /// The machine.
    pub environment: Environment,
    /// How exactly hoptax knew the difference between this host's clock and its own, µs; 0 if both have the
    /// same clock.
    pub clock_uncertainty_us: f64,
    /// Checks of the host before the first trial; absent if it was lost.
    pub at_start: Option<HostLook>,
    /// Checks of the host after the last trial.
    pub at_end: Option<HostLook>,
}

/// The network from one host to another, or within one host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LegFigures {
    /// Name of the host that connects.
    pub from: String,
    /// Name of the host that answers. If it is the same host, the leg is the way through its own network
    /// stack.
    pub to: String,
    /// Address at which `from` reaches `to`.
    pub address: Option<IpAddr>,
    /// Median round-trip time, µs. The message is as long as a request, and the answer as long as a response,
    /// but each at most one packet. Absent if it was not measured.
    pub round_trip_us: Option<Estimate>,
    /// The shortest round trip, µs.
    pub least_us: Option<f64>,
    /// Bytes per second of one connection in the direction of requests.
    pub bytes_per_second: Option<f64>,
    /// Bytes per second of one connection in the direction of responses.
    pub bytes_per_second_back: Option<f64>,
    /// Why something was not measured; absent if everything was measured.
    pub failed: Option<String>,
}

/// Where the added response time at the median comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Split {
    /// Name of the case.
    pub case: String,
    /// The gateway's label.
    pub gateway: String,
    /// Index of the load point.
    pub load: usize,
    /// Added response time at the median, µs, as in the tax.
    pub added_p50_us: Estimate,
    /// What the extra way over the network costs, µs.
    pub wire_us: Estimate,
    /// What the gateway adds, µs.
    pub gateway_us: Estimate,
}

/// The same load from several hosts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SameLoad {
    /// The load in words, without its host.
    pub label: String,
    /// What each gateway adds from each host, by gateway.
    pub views: Vec<View>,
}

/// A gateway as one host sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct View {
    /// Name of the case.
    pub case: String,
    /// The gateway's label.
    pub gateway: String,
    /// Index of the load point.
    pub load: usize,
    /// Name of the host in the plan.
    pub from: String,
    /// Median response time of direct from this host, µs.
    pub direct_p50_us: Option<Estimate>,
    /// Added response time at the median from this host, µs, as in the tax.
    pub added_p50_us: Difference,
    /// What the gateway adds from this host − what it adds from the first host, µs, over the rounds that both
    /// hosts have. Null for the first host, and if the hosts have no round in common.
    pub more_us: Option<Estimate>,
}
