//! The plan of a run as stored in `run.json`.
//!
//! hoptax-plan reads plans into these types. They also define the file format, and all kept runs depend on
//! it. So a change that an older hoptax would misread requires a new [`super::SCHEMA`], and new members have
//! defaults.

mod budget;
mod created;
mod delay;
mod event;
mod feature;
mod gateway;
mod hop_delay;
mod host;
mod llm;
mod load_point;
mod objective;
mod settings;
mod target;
mod trials;
mod upstream;

pub use budget::{Budget, LoadSelector};
pub use created::{Pull, Terraform, TerraformReach, Toleration, WatchedPods, Workload, WorkloadKind};
pub use delay::Delay;
pub use event::{Action, Event};
pub use feature::{DEFAULT_RATE_LIMIT, Feature, JwtAlgorithm, MOST_CONSUMERS, MOST_ROUTES, RoutePosition};
pub use gateway::{
    Gateway, GatewayKind, GitBuild, HopKind, PackDriver, ProgramSource, ProgramVersion, Prometheus,
};
pub use hop_delay::{
    HopDeadline, HopDeflate, HopDelay, HopDelayHow, HopFaults, HopLlm, HopWarming, HopWarmingFall,
};
pub use host::{Host, HostKind, LOCAL, Pods, Roles};
pub use llm::{LlmFailure, LlmFailureKind, LlmRequest, UpstreamLlm};
pub use load_point::{LoadPoint, Search, connections_in_words};
pub use objective::{Figure, Objective, REACHED, Term};
pub use settings::{
    AccessLog, CpuPlan, CpuProfile, CpuSets, Idle, PathSplit, Profile, Start, TailPasses, UntilSettled,
};
pub use target::{EncodedMessage, Imported, Target, Timeouts, gzip};
pub use trials::{AutoTrials, MOST_ROUNDS, Trials};
pub use upstream::{
    Access, Answer, Body, BodyKind, BuiltInUpstream, CertificateFiles, LedgerSource, Listen, PathStream,
    ProxyForm, Resolve, Running, SelectorKind, TlsAccess, Upstream, UpstreamEvents,
};

use hoptax_format::spec::HttpVersion;
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
    /// Files with secret values of headers, each on one line. They are not recorded.
    #[serde(skip)]
    pub secrets: Vec<PathBuf>,
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
    /// Explains slow requests after the rounds. Absent in plans without it, and in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<TailPasses>,
    /// CPUs of each role.
    pub cpus: CpuPlan,
    /// What idle CPUs do during the run; absent if hoptax decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idle>,
    /// Whether each gateway is restarted before each of its trials.
    pub isolate: bool,
    /// How often gateways are restarted between rounds. Absent if only gateways that generate code are, and
    /// in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<u32>,
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

/// Number of restarts of a gateway that generates code while it runs. Each start compiles something else, so
/// one process says little about the next. Four processes are the fewest from which their scatter is
/// estimated.
const RESTARTS: u32 = 3;

impl Plan {
    /// How often a gateway that hoptax starts is restarted between rounds.
    pub fn restarts_of(&self, generates_code: bool) -> u32 {
        self.restarts.unwrap_or(if generates_code { RESTARTS } else { 0 })
    }

    /// Describes the targets, and the traffic that they represent.
    pub fn describe_targets(&self) -> String {
        let targets = Target::describe_all(&self.targets);
        match &self.imported {
            None => targets,
            Some(Imported { from, requests, represented }) => {
                let share = (represented * 1000.0).floor() / 10.0;
                format!(
                    "traffic of {from}, with targets of their own for {share} % of {requests} requests: \
                    {targets}"
                )
            }
        }
    }

    /// The HTTP versions of the load, without duplicates. A version that every gateway speaks comes first.
    pub fn versions(&self) -> Vec<HttpVersion> {
        let asked = |version: &HttpVersion| self.load.iter().any(|point| point.http == *version);
        [HttpVersion::Http11, HttpVersion::Http10, HttpVersion::Http2].into_iter().filter(asked).collect()
    }

    /// True if the load uses HTTP/2 only. A port may then not accept HTTP/1.
    pub fn is_http2_only(&self) -> bool {
        self.versions() == [HttpVersion::Http2]
    }

    /// The host of this name. `None` if no role is on it, and if all roles are on the machine that runs
    /// hoptax.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name == name)
    }

    /// True if all roles are on the machine that runs hoptax, and all load comes from it.
    pub fn is_local(&self) -> bool {
        self.generators().into_iter().all(|host| host == LOCAL) && self.roles.is_local()
    }

    /// Name of the host that sends this load.
    pub fn generator<'a>(&'a self, point: &'a LoadPoint) -> &'a str {
        point.from.as_deref().unwrap_or(&self.roles.generator)
    }

    /// Names of all hosts that send load: first the host of the role `generator`, then the hosts that loads
    /// name in `from`.
    pub fn generators(&self) -> Vec<&str> {
        let mut names = vec![self.roles.generator.as_str()];
        for name in self.load.iter().filter_map(|point| point.from.as_deref()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The roles, each with its name and the name of its host. `generator` is repeated for each host that
    /// sends load.
    pub fn each_role(&self) -> Vec<(&'static str, &str)> {
        let generators = self.generators().into_iter().map(|host| ("generator", host));
        generators.chain([("gateway", &*self.roles.gateway), ("upstream", &*self.roles.upstream)]).collect()
    }

    /// Names of the machines of this host, as records have them.
    pub fn machines_of(&self, host: &str) -> Vec<String> {
        self.host(host).map_or_else(|| vec![host.to_owned()], Host::machine_names)
    }

    /// Decides for each replacement which of the two gateways is measured, and removes the other one from the
    /// plan. Returns a line for each decision.
    ///
    /// - If the gateway that can be replaced is installed, the replacement is not measured. Budgets that
    ///   refer to the replacement are removed.
    /// - If only the replacement is installed, it is measured. Budgets that refer to the other gateway
    ///   remain, and cannot be kept.
    /// - If neither is installed, both remain in the plan, so that both are reported as missing.
    ///
    /// A replacement for a gateway that the plan no longer has, because of `--only`, is measured like any
    /// other gateway.
    pub fn replace_missing(&mut self, is_missing: impl Fn(&Gateway) -> bool) -> Vec<String> {
        let mut lines = Vec::new();
        for one in std::mem::take(&mut self.replacements) {
            let find = |label: &str| self.gateways.iter().find(|gateway| gateway.label == label);
            let (Some(replaced), Some(own)) = (find(&one.instead_of), find(&one.gateway)) else { continue };
            let is_replaced = is_missing(replaced);
            if is_replaced && is_missing(own) {
                lines.push(format!(
                    "neither {} nor {}, which replaces it, is installed; one of them is enough",
                    one.instead_of, one.gateway
                ));
            } else if is_replaced {
                lines.push(format!("{} is not installed, and {} replaces it", one.instead_of, one.gateway));
                self.gateways.retain(|gateway| gateway.label != one.instead_of);
                self.replacements.push(one);
            } else {
                lines.push(format!("{} is left out, because {} is installed", one.gateway, one.instead_of));
                self.gateways.retain(|gateway| gateway.label != one.gateway);
                let refers = |label: &Option<String>| label.as_ref() == Some(&one.gateway);
                self.budget.retain(|budget| !refers(&budget.gateway) && !refers(&budget.against));
            }
        }
        lines
    }
}

/// A gateway that is measured instead of another gateway, if that other gateway is not installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// Label of the gateway that replaces the other one.
    pub gateway: String,
    /// Label of the gateway that is replaced.
    pub instead_of: String,
    /// What cannot be compared because of the replacement, in the words of the plan.
    pub not_comparable: String,
}
