//! What a plan means, once everything that was typed has been understood.
//!
//! `raw` holds what was typed; parsing turns it into the types below or refuses it with a line, a column and the fix.
//! Nothing after this module knows YAML, units or defaults.
#![forbid(unsafe_code)]

mod budget;
mod de;
mod error;
mod event;
mod feature;
mod hop_delay;
mod image;
mod load_point;
mod meaning;
mod node;
mod objective;
mod parse;
mod raw;
pub mod recorded;
pub mod selector;
pub mod stages;
mod target;
pub mod units;

pub use budget::{Budget, LoadSelector};
pub use error::{PlanError, PlanErrors};
pub use event::{Action, Event};
pub use feature::{Ask, Feature, JwtAlgorithm, LIMIT_THAT_NEVER_BITES, MOST_CONSUMERS, MOST_ROUTES};
pub use hop_delay::{HopDelay, HopDelayHow, LONGEST_HOP_DELAY};
pub use hoptax_record::{Metric, Quantity};
pub use image::check_image;
pub use load_point::{LoadPoint, Search};
pub use objective::{Figure, Objective, REACHED, Term};
pub use parse::{
    BudgetContext, Context, LoadError, TEMPLATE, load, load_budget, load_targets, parse, parse_budget,
    parse_targets, read_as,
};
pub use raw::schema;
pub use target::{Target, Targets};

// What has no meaning beyond its form on disk has no second type here.
pub use hoptax_record::plan::{
    Access, AccessLog, AutoTrials, Body, CertificateFiles, CpuPlan, CpuSets, HopKind, PackDriver, PathSplit,
    Profile, Running, Timeouts, TlsAccess, ToldLedger,
};

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What a plan may say of one gateway pack; the lab knows the packs, the plan only checks against this.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackInfo {
    /// The pack's name.
    pub name: String,
    /// Features it can switch on.
    pub features: Vec<String>,
    /// Features that it lacks and says why.
    pub unsupported: BTreeMap<String, String>,
    /// Ways in which it can be configured; empty: one.
    pub variants: Vec<String>,
    /// Whether it says how it is started in a container.
    pub docker: bool,
    /// Whether it says how its gateway reads its configuration again.
    pub reloads: bool,
    /// Whether it intercepts what comes for the application, in a network namespace.
    pub intercepts: bool,
}

/// How a pack is called in one of its variants, in plans that were understood and in records: `istio-sidecar@tuned`. No pack's own
/// name holds the sign between the two.
pub fn variant_name(pack: &str, variant: &str) -> String {
    format!("{pack}@{variant}")
}

/// A whole plan, with every default filled in and every sweep expanded.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Names the run directory.
    pub name: String,
    /// The service behind the gateways.
    pub upstream: Upstream,
    /// The systems under test, with distinct labels. Direct is not among them: it is always measured.
    pub gateways: Vec<Gateway>,
    /// What is requested: at least one target, with distinct names.
    pub targets: Vec<Target>,
    /// Where the files lie that templates take lines from, by the name that templates give them.
    pub files: BTreeMap<String, PathBuf>,
    /// How it is requested: every load point, sweeps expanded, in the order typed.
    pub load: Vec<LoadPoint>,
    /// Rounds; every case is measured once in each.
    pub trials: Trials,
    /// Traffic before the measured time of each trial, thrown away.
    pub warmup: Duration,
    /// Quiet between trials.
    pub pause: Duration,
    /// Given to each connect and each request.
    pub timeout: Timeouts,
    /// Local addresses that the generator connects from, in turn; empty: the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// Which settings gateways get.
    pub profile: Profile,
    /// Whether gateways write access logs.
    pub access_log: AccessLog,
    /// Whether the upstream stamps its answers.
    pub path_split: PathSplit,
    /// Which CPUs each role gets.
    pub cpus: CpuPlan,
    /// Start each gateway afresh for each of its trials, instead of once for the run.
    pub isolate: bool,
    /// Seed of the order and the arrivals; drawn and recorded when absent.
    pub seed: Option<u64>,
    /// What happens while trials are measured, in the order of their times.
    pub events: Vec<Event>,
    /// Limits whose breach makes `hoptax run` exit 3.
    pub budget: Vec<Budget>,
}

/// How many rounds a run has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Trials {
    /// This many.
    Fixed(u32),
    /// As many as it takes.
    Auto(AutoTrials),
}

impl Trials {
    /// Rounds that there will be in any case.
    pub fn at_least(&self) -> u32 {
        match self {
            Self::Fixed(rounds) => *rounds,
            Self::Auto(auto) => auto.least,
        }
    }

    /// Rounds in words: `5 rounds`, or `5 to 30 rounds, at most 10m`.
    pub fn describe(&self) -> String {
        match self {
            Self::Fixed(1) => "1 round".to_owned(),
            Self::Fixed(rounds) => format!("{rounds} rounds"),
            Self::Auto(AutoTrials { least, most, at_most, .. }) => {
                let at_most = units::show_duration(*at_most);
                match least == most {
                    true => format!("{least} rounds, at most {at_most}"),
                    false => format!("{least} to {most} rounds, at most {at_most}"),
                }
            }
        }
    }
}

/// The service behind the gateways.
#[derive(Debug, Clone, PartialEq)]
pub enum Upstream {
    /// `hoptax upstream`, started and stopped by the run.
    BuiltIn(BuiltInUpstream),
    /// One that already runs.
    Running(Running),
}

/// Settings of the built-in upstream.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltInUpstream {
    /// Listeners, each with its own port and thread.
    pub instances: u32,
    /// Status answered.
    pub status: u16,
    /// Headers added to every answer.
    pub headers: Vec<(String, String)>,
    /// Body answered.
    pub body: Body,
    /// How long each answer is held back.
    pub delay: Delay,
    /// Share of requests, 0 to 1, answered with 500 instead.
    pub failures: f64,
    /// First instance's port, the others' follow; asked of the kernel when absent.
    pub port: Option<u16>,
}

/// How long an answer is held back.
#[derive(Debug, Clone, PartialEq)]
pub enum Delay {
    /// Always the same; zero answers at once.
    Fixed(Duration),
    /// Uniform between two bounds.
    Uniform {
        /// Least.
        from: Duration,
        /// Most.
        to: Duration,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: Duration,
    },
    /// One of several, each with its share; shares add up to 1.
    Choice(Vec<(f64, Duration)>),
}

impl Delay {
    /// The mean delay.
    pub fn mean(&self) -> Duration {
        match self {
            Self::Fixed(delay) => *delay,
            Self::Uniform { from, to } => (*from + *to) / 2,
            Self::Exponential { mean } => *mean,
            Self::Choice(choices) => choices.iter().map(|(share, delay)| delay.mul_f64(*share)).sum(),
        }
    }

    /// The least delay that occurs.
    pub fn least(&self) -> Duration {
        match self {
            Self::Fixed(delay) => *delay,
            Self::Uniform { from, .. } => *from,
            Self::Exponential { .. } => Duration::ZERO,
            Self::Choice(choices) => choices
                .iter()
                .filter(|(share, _)| *share > 0.0)
                .map(|(_, delay)| *delay)
                .min()
                .unwrap_or_default(),
        }
    }
}

/// One system under test.
#[derive(Debug, Clone, PartialEq)]
pub struct Gateway {
    /// Distinct name in this plan: the pack's name unless given.
    pub label: String,
    /// How it comes to run.
    pub kind: GatewayKind,
}

impl Gateway {
    /// Features switched on.
    pub fn features(&self) -> &[Feature] {
        match &self.kind {
            GatewayKind::Pack { features, .. } => features,
            _ => &[],
        }
    }
}

/// How a gateway comes to run.
#[derive(Debug, Clone, PartialEq)]
pub enum GatewayKind {
    /// Started from a pack.
    Pack {
        /// The pack's name.
        pack: String,
        /// Worker threads or processes.
        workers: u32,
        /// Features switched on, each once.
        features: Vec<Feature>,
        /// Instances of the upstream that it passes requests on to; all when absent.
        instances: Option<u32>,
        /// What it runs in.
        driver: PackDriver,
    },
    /// A built-in reference proxy.
    Hop(HopKind),
    /// `hop-l7` with delays that are known.
    DelayingHop(HopDelay),
    /// Something that already runs.
    External {
        /// `http://host:port` or `https://host:port`, without a path.
        url: String,
        /// A process whose CPU and memory (with its descendants') are watched.
        pid: Option<u32>,
        /// How one is let in.
        access: Access,
    },
}

#[cfg(test)]
mod tests;
