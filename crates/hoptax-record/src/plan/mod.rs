//! The plan of a run as `run.json` holds it.
//!
//! These types are the format: every kept run depends on their shape, and only [`super::SCHEMA`] changes it. What a plan means has types
//! of its own, which are free to change; they are converted both ways where they are defined.

mod gateway;
mod load;
mod target;
mod upstream;

pub use gateway::{Feature, Gateway, GatewayKind, HopDelay, HopDelayHow, HopKind, PackDriver};
pub use load::{Action, Budget, Event, Figure, LoadPoint, LoadSelector, Objective, Route, Search, Term};
pub use target::{Target, Timeouts};
pub use upstream::{
    Access, Body, BuiltInUpstream, CertificateFiles, Delay, Running, SelectorKind, TlsAccess, ToldLedger,
    Upstream,
};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A whole plan, with every default filled in and every sweep expanded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Names the run directory.
    pub name: String,
    /// The service behind the gateways.
    pub upstream: Upstream,
    /// The systems under test; direct is not among them.
    pub gateways: Vec<Gateway>,
    /// What is requested; a single target in runs of version 1.
    #[serde(alias = "target", deserialize_with = "target::one_or_more")]
    pub targets: Vec<Target>,
    /// Files that templates take lines from, by the name that templates use.
    #[serde(default)]
    pub files: BTreeMap<String, PathBuf>,
    /// Every load point.
    pub load: Vec<LoadPoint>,
    /// Rounds.
    pub trials: Trials,
    /// Traffic before the measured time of each trial.
    pub warmup: Duration,
    /// Quiet between trials.
    pub pause: Duration,
    /// When to give up.
    pub timeout: Timeouts,
    /// Local addresses that the generator connects from; empty: the kernel chooses.
    #[serde(default)]
    pub sources: Vec<IpAddr>,
    /// Which settings gateways get.
    pub profile: Profile,
    /// Whether gateways write access logs.
    pub access_log: AccessLog,
    /// Whether the upstream stamps its answers.
    #[serde(default)]
    pub path_split: PathSplit,
    /// Which CPUs each role gets.
    pub cpus: CpuPlan,
    /// Whether each gateway is restarted for each of its trials.
    pub isolate: bool,
    /// Seed of the order and the arrivals, where the plan gives one.
    pub seed: Option<u64>,
    /// What happens while trials are measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Limits.
    pub budget: Vec<Budget>,
}

/// How many rounds a run has: a number, or when to stop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Trials {
    /// This many.
    Fixed(u32),
    /// As many as it takes.
    Auto(AutoTrials),
}

/// Rounds go on until the interval of every headline tax is narrow enough, or time or number run out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AutoTrials {
    /// Narrow enough: the half-width of the interval over the estimate.
    pub within: f64,
    /// Longest time for all rounds.
    pub at_most: Duration,
    /// Fewest rounds.
    pub least: u32,
    /// Most rounds.
    pub most: u32,
}

/// Which settings gateways get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// What the gateway ships, plus only what the route needs.
    Stock,
    /// The same worker count, pooled keep-alive HTTP/1.1 to the upstream, limits out of the way, logs alike.
    Equalised,
}

/// Whether gateways write access logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessLog {
    /// None.
    Off,
    /// To a file in the run directory, in the gateway's stock format.
    File,
}

/// Whether the upstream stamps its answers, so that response times can be split into the way there and the way back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PathSplit {
    /// It does not.
    #[default]
    Off,
    /// It does, and the generator reads the stamps.
    On,
}

/// Which CPUs each role gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuPlan {
    /// Split the CPUs between the roles where there are at least four; pin nothing otherwise.
    Auto,
    /// As said.
    Pinned(CpuSets),
}

/// CPUs by role; an empty set is not pinned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSets {
    /// The generator's.
    pub generator: Vec<u32>,
    /// The gateways'; all share one set, as only one is under load at a time.
    pub gateway: Vec<u32>,
    /// The upstream's.
    pub upstream: Vec<u32>,
}
