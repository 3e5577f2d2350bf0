//! Settings of a run.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Limits of warming a process up until it has settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UntilSettled {
    /// Maximum time under load.
    pub at_most: Duration,
    /// Whether gateways and upstreams that hoptax did not start may get more load than the plan says.
    #[serde(default)]
    pub overload_external: bool,
}

/// How starts of gateways are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Number of rounds. Each round has every kind of start of every gateway once.
    pub times: u32,
    /// Duration of the load after each start.
    pub duration: Duration,
    /// Whether reloads are measured too, of the gateways that can reload.
    pub reload: bool,
}

/// How stacks of the gateways are recorded after the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuProfile {
    /// Number of rounds of passes. Each round profiles every gateway at every load point once.
    pub passes: u32,
    /// Measured time of a pass.
    pub duration: Duration,
}

impl Default for CpuProfile {
    /// Half a minute for each gateway and load point is enough for intervals of a few per cent of the largest
    /// frames.
    fn default() -> Self {
        Self { passes: 6, duration: Duration::from_secs(2) }
    }
}

/// How slow requests are explained after the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TailPasses {
    /// Number of rounds of passes. Each round has direct and every gateway at every load point once.
    pub passes: u32,
    /// Measured time of a pass.
    pub duration: Duration,
}

impl Default for TailPasses {
    /// At 1,000 requests per second, these are 200 slow requests of each case.
    fn default() -> Self {
        Self { passes: 4, duration: Duration::from_secs(5) }
    }
}

/// Settings that gateways get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The settings that the gateway is shipped with. Only the settings that the route needs are added.
    Stock,
    /// The same settings for all gateways: equal numbers of workers, pooled keep-alive HTTP/1.1 connections
    /// to the upstream, raised limits, and equal logging.
    Equalised,
}

/// Whether gateways write access logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessLog {
    /// Gateways write no access logs.
    Off,
    /// Each gateway writes its access log to a file in the run directory, in its default format.
    File,
}

/// Whether the upstream adds timestamps to its responses. With timestamps, response times can be split into
/// request path and response path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PathSplit {
    /// Responses have no timestamps.
    #[default]
    Off,
    /// The upstream adds timestamps to its responses, and the generator reads the timestamps.
    On,
}

/// What CPUs do while they have nothing to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// They look for work all the time, so a thread starts at once.
    Poll,
    /// They sleep, and waking them takes time.
    Sleep,
}

/// CPUs of each role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuPlan {
    /// hoptax splits the CPUs between the roles if there are enough of them. Otherwise nothing is pinned.
    Auto,
    /// The given CPUs.
    Pinned(CpuSets),
}

/// CPUs of each role. A role with an empty set is not pinned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSets {
    /// CPUs of the generator.
    pub generator: Vec<u32>,
    /// CPUs of the gateways. All gateways share these CPUs, because only one gateway is under load at a time.
    pub gateway: Vec<u32>,
    /// CPUs of the upstream.
    pub upstream: Vec<u32>,
}
