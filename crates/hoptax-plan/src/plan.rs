//! The checked plan.

use crate::{
    AccessLog, AutoTrials, Budget, CpuPlan, CpuProfile, Event, Gateway, Host, Idle, Imported, LOCAL,
    LoadPoint, PathSplit, Profile, Replacement, Roles, Start, Target, Timeouts, UntilSettled, Upstream,
    units,
};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A checked plan, with all defaults filled in and all sweeps expanded.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Name of the plan. It is also used in the name of the run directory.
    pub name: String,
    /// The service behind the gateways.
    pub upstream: Upstream,
    /// The gateways, with unique labels. The list does not contain direct, which is always measured.
    pub gateways: Vec<Gateway>,
    /// Gateways that are measured only if another one is not installed. After [`Plan::replace_missing`], and
    /// in the plan of a run, the list has only the replacements that are measured, and `gateways` lacks the
    /// gateways that they replace.
    pub replacements: Vec<Replacement>,
    /// The targets, with unique names. There is at least one target.
    pub targets: Vec<Target>,
    /// The traffic that the targets stand for, if `hoptax import` wrote the plan.
    pub imported: Option<Imported>,
    /// For each file name in `{{line FILE}}`, the path of the file.
    pub files: BTreeMap<String, PathBuf>,
    /// Files with secret values of headers, each on one line. Empty in a plan that was read from a run's
    /// record.
    pub secrets: Vec<PathBuf>,
    /// The load points in the order of the plan. Sweeps are expanded.
    pub load: Vec<LoadPoint>,
    /// Number of rounds. Each round measures every case once.
    pub trials: Trials,
    /// Measures starts of gateways instead of trials. The plan then has one load point, which lasts as long
    /// as the load after each start. `trials` has no meaning.
    pub start: Option<Start>,
    /// Time of unmeasured traffic before each trial.
    pub warmup: Duration,
    /// Warms each process up after its start, until it has settled. `None` with a fixed warm-up.
    pub until_settled: Option<UntilSettled>,
    /// Time without traffic between trials.
    pub pause: Duration,
    /// Timeouts of connects and requests.
    pub timeout: Timeouts,
    /// Local addresses that the generator connects from, in turn. If the list is empty, the kernel chooses
    /// the address.
    pub sources: Vec<IpAddr>,
    /// Settings of gateways: equalised or stock.
    pub profile: Profile,
    /// Whether gateways write access logs.
    pub access_log: AccessLog,
    /// Whether the upstream stamps responses.
    pub path_split: PathSplit,
    /// Records stacks of the gateways after the rounds. `None` to record none.
    pub cpu_profile: Option<CpuProfile>,
    /// CPUs of each role.
    pub cpus: CpuPlan,
    /// What idle CPUs do during the run. `None` to let them poll if this user may request it.
    pub idle: Option<Idle>,
    /// Whether to restart each gateway for each of its trials, instead of starting it once per run.
    pub isolate: bool,
    /// Seed for the order of trials and for arrivals. If absent, the run chooses a random seed and records
    /// it.
    pub seed: Option<u64>,
    /// Events during trials, sorted by time.
    pub events: Vec<Event>,
    /// The budgets. If a budget is exceeded, `hoptax run` exits with 3.
    pub budget: Vec<Budget>,
    /// The hosts that have a role, with unique names. Empty if all roles are on the machine that runs hoptax.
    pub hosts: Vec<Host>,
    /// The name of each role's host.
    pub roles: Roles,
}

impl Plan {
    /// Describes the targets, and the traffic that they stand for.
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

    /// Names of all hosts that send load: first that of the role `generator`, then those that loads name in
    /// `from`.
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

/// Maximum number of rounds. In a plan without other limits, rounds continue until the time is over.
pub(crate) const MOST_ROUNDS: u32 = 10_000;

/// Number of rounds of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Trials {
    /// A fixed number of rounds.
    Fixed(u32),
    /// Further rounds are measured until the taxes are precise enough.
    Auto(AutoTrials),
}

impl Trials {
    /// Minimum number of rounds that a run can have.
    pub fn at_least(&self) -> u32 {
        match self {
            Self::Fixed(rounds) => *rounds,
            Self::Auto(auto) => auto.least,
        }
    }

    /// Maximum number of rounds that a run can have.
    pub fn at_most(&self) -> u32 {
        match self {
            Self::Fixed(rounds) => *rounds,
            Self::Auto(auto) => auto.most,
        }
    }

    /// The time limit, if only time limits the number of rounds. This is the case in plans without `trials`.
    pub fn time_only(&self) -> Option<Duration> {
        match self {
            Self::Auto(auto) if auto.most == MOST_ROUNDS => Some(auto.at_most),
            _ => None,
        }
    }

    /// Describes the number of rounds: `5 rounds`, `5 to 30 rounds, at most 10m`, or `as many rounds as fit
    /// into 3m`.
    pub fn describe(&self) -> String {
        match self {
            Self::Fixed(1) => "1 round".to_owned(),
            Self::Fixed(rounds) => format!("{rounds} rounds"),
            Self::Auto(AutoTrials { least, most, at_most, .. }) => {
                let at_most = units::show_duration(*at_most);
                match least == most {
                    _ if self.time_only().is_some() => format!("as many rounds as fit into {at_most}"),
                    true => format!("{least} rounds, at most {at_most}"),
                    false => format!("{least} to {most} rounds, at most {at_most}"),
                }
            }
        }
    }
}
