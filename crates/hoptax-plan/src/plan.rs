//! A whole plan.

use crate::{
    AccessLog, AutoTrials, Budget, CpuPlan, Event, Gateway, LoadPoint, PathSplit, Profile, Target, Timeouts,
    Upstream, units,
};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

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
