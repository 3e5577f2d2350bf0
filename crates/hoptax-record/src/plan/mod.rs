//! The plan of a run as stored in `run.json`.
//!
//! These types define the file format. All kept runs depend on the format, so a change of these types
//! requires a new [`super::SCHEMA`]. The crate hoptax-plan has its own types for plans, which can change at
//! any time. It converts its types to these types and back.

mod created;
mod gateway;
mod host;
mod load;
mod target;
mod upstream;

pub use created::{Pull, Terraform, TerraformReach, Toleration, WatchedPods, Workload, WorkloadKind};
pub use gateway::{
    Feature, Gateway, GatewayKind, GitBuild, HopDelay, HopDelayHow, HopKind, HopWarming, HopWarmingFall,
    PackDriver, ProgramSource, ProgramVersion, Prometheus,
};
pub use host::{Host, HostKind, LOCAL, Pods, Roles};
pub use load::{Action, Budget, Event, Figure, LoadPoint, LoadSelector, Objective, Route, Search, Term};
pub use target::{Imported, Target, Timeouts};
pub use upstream::{
    Access, Answer, Body, BuiltInUpstream, CertificateFiles, Delay, LedgerSource, Listen, ProxyForm, Resolve,
    Running, SelectorKind, TlsAccess, Upstream,
};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A plan, with every default filled in and every sweep expanded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the plan. It is also part of the name of the run directory.
    pub name: String,
    /// The service behind the gateways.
    pub upstream: Upstream,
    /// The gateways, without direct.
    pub gateways: Vec<Gateway>,
    /// Gateways of this run that replace others, which were not installed. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replacements: Vec<Replacement>,
    /// The targets. A run of version 1 has a single target.
    #[serde(alias = "target", deserialize_with = "target::one_or_more")]
    pub targets: Vec<Target>,
    /// Files from which templates take lines. The key is the name that templates use for the file.
    #[serde(default)]
    pub files: BTreeMap<String, PathBuf>,
    /// Where the targets come from. Absent unless `hoptax import` wrote the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// Every load point.
    pub load: Vec<LoadPoint>,
    /// Number of rounds.
    pub trials: Trials,
    /// Measures starts of gateways instead of trials. Absent in plans with trials, and in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// Time of unmeasured traffic before each trial.
    pub warmup: Duration,
    /// How long each process is warmed up after its start. Absent with a fixed warm-up, and in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_settled: Option<UntilSettled>,
    /// Pause between trials.
    pub pause: Duration,
    /// Timeouts.
    pub timeout: Timeouts,
    /// Local addresses from which the generator connects. If the list is empty, the kernel chooses the
    /// address.
    #[serde(default)]
    pub sources: Vec<IpAddr>,
    /// Settings that gateways get.
    pub profile: Profile,
    /// Whether gateways write access logs.
    pub access_log: AccessLog,
    /// Whether the upstream stamps its responses.
    #[serde(default)]
    pub path_split: PathSplit,
    /// Records stacks of the gateways after the rounds. Absent in plans without profiles, and in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_profile: Option<CpuProfile>,
    /// CPUs of each role.
    pub cpus: CpuPlan,
    /// What idle CPUs do during the run; absent if hoptax decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idle>,
    /// Whether each gateway is restarted before each of its trials.
    pub isolate: bool,
    /// Seed for the random order of the trials and for the random arrival times of requests; absent if the
    /// plan contains no seed.
    pub seed: Option<u64>,
    /// Events during trials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Limits on metrics.
    pub budget: Vec<Budget>,
    /// The hosts that have a role. Absent if all roles are on the machine that runs hoptax, and in older
    /// runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Host>,
    /// The name of each role's host. Absent if all roles are on the machine that runs hoptax, and in older
    /// runs.
    #[serde(default, skip_serializing_if = "Roles::is_local")]
    pub roles: Roles,
}

/// A gateway that is measured instead of another one, if that one is not installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// Label of the gateway that replaces the other one.
    pub gateway: String,
    /// Label of the gateway that is replaced.
    pub instead_of: String,
    /// What cannot be compared because of it, in the words of the plan.
    pub not_comparable: String,
}

/// Number of rounds: fixed, or decided during the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Trials {
    /// A fixed number of rounds.
    Fixed(u32),
    /// As many rounds as needed.
    Auto(AutoTrials),
}

/// Settings of `trials: auto`. Rounds continue until the interval of every headline tax is narrow enough, or
/// until the time limit or the maximum number of rounds is reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AutoTrials {
    /// Required precision: half-width of the interval ÷ estimate.
    pub within: f64,
    /// Required precision of added latency, as half-width of the interval in µs; absent if `within` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_us: Option<f64>,
    /// Time limit for all rounds together.
    pub at_most: Duration,
    /// Minimum number of rounds.
    pub least: u32,
    /// Maximum number of rounds.
    pub most: u32,
}

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
