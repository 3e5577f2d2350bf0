//! `hoptax check`.

use super::exit::Exit;
use super::help;
use super::plan_source::{Only, PlanSource, doubts, fits, names_of_several, replace_missing};
use hoptax_format::spec::{HttpVersion, Rate, Retry, Shape};
#[cfg(target_os = "linux")]
use hoptax_lab::packs::binary;
use hoptax_lab::packs::{Pack, PackSet};
use hoptax_plan::units::show_pace;
use hoptax_plan::{
    Gateway, GatewayKind, HostKind, LOCAL, Listen, LoadPoint, PackDriver, Plan, ProxyForm, Search, Target,
    Trials, Upstream, units,
};
use hoptax_record::DIRECT;
use hoptax_record::start::FIRST_REQUESTS;
use hoptax_run::schedule::{
    estimate, estimate_at_most, expected_rounds, longer_with_generated_code, planned_starts, search,
};
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

/// Check a plan, and show what it would run and for how long
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    source: PlanSource,

    #[command(flatten)]
    only: Only,

    #[arg(long, help = help::JSON)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let (mut plan, _) = self.source.load()?;
        self.only.apply(&mut plan)?;
        let packs = self.source.packs()?;
        let replaced = replace_missing(&mut plan, &packs);
        let mut notes = fits(&mut plan, &packs)?;
        notes.extend(doubts(&plan));
        notes.extend(names_of_several(&plan));
        if !plan.is_local() {
            notes.push(
                "the hosts' gateways and limits were not checked; `hoptax hosts PLAN` checks them".to_owned(),
            );
        }
        let mut preview = Preview { replaced, notes, ..Preview::of(&plan, not_installed(&plan, &packs)) };
        preview.lengthen(longer_with_generated_code(&plan, generating_code(&plan, &packs)));
        if self.json {
            writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&preview)?)?;
        } else {
            write!(io::stdout(), "{preview}")?;
        }
        Ok(Exit::Success)
    }
}

/// What a run of the plan would measure.
#[derive(Debug, Serialize)]
struct Preview {
    name: String,
    upstream: String,
    /// The host of each role. Empty if all roles are on this machine.
    roles: Vec<RolePreview>,
    contenders: Vec<ContenderPreview>,
    targets: Vec<TargetPreview>,
    /// The targets as text, for output on the terminal.
    #[serde(skip)]
    requested: String,
    load: Vec<LoadPreview>,
    /// Number of cases: contenders × load points without a search.
    cases: usize,
    /// How starts are measured. Absent if the plan measures trials.
    start: Option<StartPreview>,
    /// Number of load points that rounds measure.
    #[serde(skip)]
    in_rounds: usize,
    /// Number of rounds. With `trials: auto`, this is the minimum.
    rounds: u32,
    /// Maximum number of rounds with `trials: auto`; absent if the number is fixed.
    most_rounds: Option<u32>,
    /// The number of rounds as text, for output on the terminal.
    #[serde(skip)]
    rounds_text: String,
    /// True if only a time limit ends the rounds.
    #[serde(skip)]
    is_timed: bool,
    /// What happens before the rounds, in words.
    #[serde(skip)]
    warm_up: String,
    /// Number of trials in all rounds. With `trials: auto`, this is the minimum. Direct has two trials per
    /// load point and round.
    trials: u64,
    /// Load points at which the run searches for a capacity. These load points have no cases.
    searches: Vec<SearchPreview>,
    /// Seed of the plan. Absent if the plan has no seed, because the run then draws a seed.
    seed: Option<u64>,
    expected_s: f64,
    /// Maximum duration of the run with `trials: auto`. Absent if the number of rounds is fixed.
    at_most_s: Option<f64>,
    not_installed: Vec<NotInstalled>,
    /// Which gateways replace others that are not installed here, and which are left out. `hoptax run` prints
    /// the same lines.
    replaced: Vec<String>,
    /// The load points that a run leaves out, because the machine has too few descriptors or ports for them,
    /// and a gateway that cannot know the upstream's port. `hoptax run` prints the same lines.
    notes: Vec<String>,
}

/// Where a role is.
#[derive(Debug, Serialize)]
struct RolePreview {
    role: &'static str,
    /// Name of the host in the plan.
    host: String,
    /// How hoptax reaches it, in words.
    how: String,
}

impl RolePreview {
    fn of(plan: &Plan) -> Vec<Self> {
        if plan.is_local() {
            return Vec::new();
        }
        let one = |(role, host): (&'static str, &str)| {
            let declared = plan.host(host);
            let how = match declared.map(|host| &host.kind) {
                None | Some(HostKind::Local) => "this machine".to_owned(),
                Some(HostKind::Ssh(machines)) => format!("ssh {}", machines.join(", ")),
                Some(HostKind::Command(words)) => format!("`{}`", words.join(" ")),
                Some(HostKind::Commands(all)) => {
                    let all: Vec<String> = all.iter().map(|words| format!("`{}`", words.join(" "))).collect();
                    all.join(", ")
                }
                Some(HostKind::Docker(container)) => format!("docker container {container}"),
                Some(HostKind::Kubernetes(pods)) => format!("Kubernetes pod {}", pods.pods.join(", ")),
                Some(HostKind::Workload(workload)) => {
                    let what = match declared.map_or(1, |host| host.kind.machines()) {
                        1 => "a Kubernetes pod".to_owned(),
                        pods => format!("{pods} Kubernetes pods"),
                    };
                    format!("{what} of {} that hoptax creates", workload.image)
                }
                Some(HostKind::Terraform(terraform)) => format!("Terraform in {}", terraform.dir.display()),
            };
            let address = declared.and_then(|host| host.address);
            let address = address.map_or_else(String::new, |address| format!(", address {address}"));
            Self { role, host: host.to_owned(), how: how + &address }
        };
        plan.each_role().into_iter().map(one).collect()
    }
}

/// How starts are measured.
#[derive(Debug, Serialize)]
struct StartPreview {
    /// Number of rounds.
    times: u32,
    /// Duration of the load after each start, seconds.
    for_s: f64,
    reload: bool,
    /// Number of starts and reloads, with the same traffic to direct, if all packs can reload.
    at_most: usize,
    #[serde(skip)]
    words: String,
}

impl StartPreview {
    fn of(plan: &Plan) -> Option<Self> {
        let start = plan.start?;
        let load = units::show_duration(start.duration);
        let mut words = format!(
            "{}, each starts every gateway twice: for {FIRST_REQUESTS} requests one after the other, and \
             for {load} of load",
            plan.trials.describe()
        );
        if start.reload {
            words += "; gateways that can reload also reload, with the same traffic";
        }
        Some(Self {
            times: start.times,
            for_s: start.duration.as_secs_f64(),
            reload: start.reload,
            at_most: planned_starts(plan).unwrap_or(0),
            words,
        })
    }
}

/// A gateway of the plan that is not installed on this machine.
#[derive(Debug, Serialize)]
struct NotInstalled {
    pack: String,
    /// One line per way to install it.
    how_to_install: Vec<String>,
}

/// Looks for the program of each gateway of the plan.
#[cfg(target_os = "linux")]
fn not_installed(plan: &Plan, packs: &PackSet) -> Vec<NotInstalled> {
    let mut missing: Vec<NotInstalled> = Vec::new();
    if plan.roles.gateway != LOCAL {
        return missing;
    }
    for gateway in &plan.gateways {
        let GatewayKind::Pack { pack, driver, .. } = &gateway.kind else { continue };
        let Some(found) = packs.get(pack) else { continue };
        let how_to_install = binary::missing(found, driver);
        let one = NotInstalled { pack: binary::name_of(found, driver), how_to_install };
        if !one.how_to_install.is_empty() && missing.iter().all(|other| other.pack != one.pack) {
            missing.push(one);
        }
    }
    missing
}

/// Number of gateways whose packs show that they generate code.
fn generating_code(plan: &Plan, packs: &PackSet) -> u32 {
    let generates = |gateway: &&Gateway| match &gateway.kind {
        GatewayKind::Pack { pack, .. } => packs.get(pack).is_some_and(Pack::names_generated_code),
        _ => false,
    };
    plan.gateways.iter().filter(generates).count() as u32
}

/// Nothing to check: only Linux can run the plan.
#[cfg(not(target_os = "linux"))]
fn not_installed(_plan: &Plan, _packs: &PackSet) -> Vec<NotInstalled> {
    Vec::new()
}

#[derive(Debug, Serialize)]
struct ContenderPreview {
    label: String,
    what: String,
}

#[derive(Debug, Serialize)]
struct TargetPreview {
    name: String,
    method: String,
    path: String,
    /// Share of the requests, 0 to 1.
    share: f64,
}

#[derive(Debug, Serialize)]
struct LoadPreview {
    #[serde(rename = "loop")]
    loops: &'static str,
    connections: u32,
    /// Maximum number of requests in flight on a connection. Absent if it is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    streams: Option<u32>,
    /// Requests per second. If the rate has stages, this is the mean.
    rate: Option<f64>,
    /// The stages of the rate, as the user wrote them. Absent for a constant rate.
    stages: Option<String>,
    arrivals: Option<String>,
    duration_s: f64,
    requests: Option<u64>,
    /// Absent if a connection can carry any number of requests.
    requests_per_connection: Option<u32>,
    retry: Retry,
    http: HttpVersion,
    #[serde(skip)]
    words: String,
}

#[derive(Debug, Serialize)]
struct SearchPreview {
    objectives: Vec<String>,
    from: f64,
    to: f64,
    /// Minimum number of trials for each contender.
    fewest_trials: u32,
    most_trials: u32,
}

impl SearchPreview {
    fn of(search: &Search) -> Self {
        let (fewest_trials, most_trials) = search::bounds(search);
        Self {
            objectives: search.objectives.iter().map(|objective| objective.text.clone()).collect(),
            from: search.from,
            to: search.to,
            fewest_trials,
            most_trials,
        }
    }
}

impl Preview {
    /// The run takes this much longer.
    fn lengthen(&mut self, longer: Duration) {
        self.expected_s += longer.as_secs_f64();
        self.at_most_s = self.at_most_s.map(|longest| longest + longer.as_secs_f64());
    }

    fn of(plan: &Plan, not_installed: Vec<NotInstalled>) -> Self {
        let direct =
            ContenderPreview { label: DIRECT.to_owned(), what: "no gateway: the baseline".to_owned() };
        let gateways = plan.gateways.iter().map(ContenderPreview::of);
        let contenders: Vec<_> = std::iter::once(direct).chain(gateways).collect();
        // The load of a plan with `start` has no trials.
        let in_rounds = if plan.start.is_some() {
            0
        } else {
            plan.load.iter().filter(|load| load.is_in_rounds()).count()
        };
        Self {
            name: plan.name.clone(),
            upstream: describe_upstream(&plan.upstream),
            roles: RolePreview::of(plan),
            cases: contenders.len() * in_rounds,
            start: StartPreview::of(plan),
            in_rounds,
            trials: u64::from(expected_rounds(plan)) * in_rounds as u64 * (plan.gateways.len() as u64 + 2),
            searches: plan.load.iter().filter_map(|load| load.searched()).map(SearchPreview::of).collect(),
            contenders,
            targets: plan.targets.iter().map(|target| TargetPreview::of(target, &plan.targets)).collect(),
            requested: plan.describe_targets(),
            load: plan.load.iter().map(LoadPreview::of).collect(),
            rounds: expected_rounds(plan),
            most_rounds: match plan.trials {
                Trials::Auto(auto) if in_rounds > 0 => Some(auto.most),
                _ => None,
            },
            rounds_text: plan.trials.describe(),
            is_timed: plan.trials.time_only().is_some(),
            warm_up: match plan.until_settled {
                Some(limits) if plan.start.is_some() => format!(
                    "only the upstream, until it gets no faster, at most {} of load",
                    units::show_duration(limits.at_most)
                ),
                None if plan.start.is_some() => "none".to_owned(),
                Some(limits) => format!(
                    "each process until it gets no faster, at most {} of load",
                    units::show_duration(limits.at_most)
                ),
                None => format!("{} before each trial", units::show_duration(plan.warmup)),
            },
            seed: plan.seed,
            expected_s: estimate(plan).as_secs_f64(),
            at_most_s: estimate_at_most(plan).map(|longest| longest.as_secs_f64()),
            not_installed,
            replaced: Vec::new(),
            notes: Vec::new(),
        }
    }
}

impl ContenderPreview {
    fn of(gateway: &Gateway) -> Self {
        let what = match &gateway.kind {
            GatewayKind::Pack { pack, workers, features, driver, upstream_http2, .. } => {
                let workers =
                    if *workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") };
                let with: String = features.iter().map(|feature| format!(", {feature}")).collect();
                let within = match driver {
                    PackDriver::Process => String::new(),
                    PackDriver::Docker { image: None } => ", in a container".to_owned(),
                    PackDriver::Docker { image: Some(image) } => format!(", in a container of {image}"),
                    PackDriver::Version(version) => format!(", {version}"),
                };
                let http2 = if *upstream_http2 { ", HTTP/2 to upstreams" } else { "" };
                format!("pack {pack}, {workers}{with}{http2}{within}")
            }
            GatewayKind::DelayingHop(delay)
            | GatewayKind::ForwardingHop { delay: Some(delay), .. }
            | GatewayKind::Http2Hop { delay: Some(delay), .. } => {
                format!("built-in hop with a delay: {delay}")
            }
            GatewayKind::Hop(_) | GatewayKind::ForwardingHop { .. } | GatewayKind::Http2Hop { .. } => {
                "built-in hop".to_owned()
            }
            GatewayKind::External { url, prometheus: Some(from), .. } => {
                format!("already running at {url}, CPU and memory from Prometheus at {}", from.url)
            }
            GatewayKind::External { url, pods: Some(pods), .. } => {
                format!("already running at {url}, CPU and memory from the pods with {}", pods.selector)
            }
            GatewayKind::External { url, pid: None, .. } => {
                format!(
                    "already running at {url}, CPU of the process that listens there, if this machine shows \
                    it"
                )
            }
            GatewayKind::External { url, pid: Some(pid), .. } => {
                format!("already running at {url}, pid {pid}")
            }
        };
        let proxy = match &gateway.kind {
            GatewayKind::External { access, .. } => access.proxy,
            GatewayKind::ForwardingHop { proxy, .. } => Some(*proxy),
            _ => None,
        };
        let what = match proxy {
            None => what,
            Some(ProxyForm::Forward) => what + ", a forward proxy (requests with the whole URL)",
            Some(ProxyForm::Connect) => what + ", a forward proxy (CONNECT tunnels)",
        };
        Self { label: gateway.label.clone(), what }
    }
}

impl TargetPreview {
    fn of(target: &Target, all: &[Target]) -> Self {
        Self {
            name: target.name.clone(),
            method: target.method.clone(),
            path: target.path.clone(),
            share: target.share_of(all),
        }
    }
}

impl LoadPreview {
    fn of(load: &LoadPoint) -> Self {
        let (loops, rate, arrivals) = match &load.shape {
            Shape::Closed => ("closed", None, None),
            Shape::Open { rate, arrivals } => ("open", Some(rate), Some(units::show_arrivals(*arrivals))),
        };
        let stages = rate.filter(|rate| matches!(rate, Rate::Stages(_))).map(show_pace);
        let mut words = format!("{}, {}", load.describe(), units::show_duration(load.duration));
        if let Some(requests) = load.requests {
            words += &format!(" or {requests} requests");
        }
        Self {
            loops,
            connections: load.connections,
            streams: (load.streams > 1).then_some(load.streams),
            rate: rate.map(Rate::mean),
            stages,
            arrivals,
            duration_s: load.duration.as_secs_f64(),
            requests: load.requests,
            requests_per_connection: load.requests_per_connection,
            retry: load.retry,
            http: load.http,
            words,
        }
    }
}

fn describe_upstream(upstream: &Upstream) -> String {
    match upstream {
        Upstream::Running(running) => match &running.ledger {
            None => format!("already running at {}, without a ledger", running.url),
            Some(ledger) => {
                let place = ledger.url.as_deref().unwrap_or(&running.url);
                format!("already running at {}, ledger at {place}{}", running.url, ledger.path)
            }
        },
        Upstream::BuiltIn(built_in) => {
            let instances = plural(u64::from(built_in.instances), "instance");
            let place = match &built_in.listen {
                Listen::Ports => String::new(),
                Listen::Unix(None) => " on a Unix socket".to_owned(),
                Listen::Unix(Some(path)) => format!(" at unix:{}", path.display()),
            };
            format!("built in, {instances}{place}, status {}, delay {}", built_in.status, built_in.delay)
        }
    }
}

impl Preview {
    /// The lines of the output, each with its head. Lines that follow each other can share a head.
    fn lines(&self) -> Vec<(&'static str, String)> {
        let contenders = plural(self.contenders.len() as u64, "contender");
        let load_points = plural(self.in_rounds as u64, "load point");
        let mut lines = vec![("upstream", self.upstream.clone())];
        let place = |one: &RolePreview| ("hosts", format!("{} on {}: {}", one.role, one.host, one.how));
        lines.extend(self.roles.iter().map(place));
        let width = self.contenders.iter().map(|contender| contender.label.len()).max().unwrap_or(0);
        let what = |one: &ContenderPreview| ("contenders", format!("{:<width$}  {}", one.label, one.what));
        lines.extend(self.contenders.iter().map(what));
        lines.push(("target", self.requested.clone()));
        lines.extend(self.load.iter().map(|load| ("load", load.words.clone())));
        if self.cases > 0 {
            lines.push(("cases", format!("{contenders} × {load_points} = {}", self.cases)));
            let of_round = format!("{load_points} × {} (direct twice)", self.contenders.len() + 1);
            let (rounds, trials) = (&self.rounds_text, self.trials);
            if self.most_rounds.is_none() {
                lines.push(("trials", format!("{rounds} × {of_round} = {trials}")));
            } else {
                let about = if self.is_timed { format!(" (about {})", self.rounds) } else { String::new() };
                lines.push(("rounds", format!("{rounds}{about}, until the taxes are precise enough")));
                let each = trials / u64::from(self.rounds.max(1));
                lines.push(("trials", format!("{of_round} = {each} in each round")));
            }
        }
        lines.extend(self.start.iter().map(|start| ("starts", start.words.clone())));
        for search in &self.searches {
            lines.push(("search", format!("{contenders}: {}", search.objectives.join("; "))));
            let (fewest, most) = (search.fewest_trials, search.most_trials);
            lines.push(("", format!("{fewest} to {most} trials for each contender, after the rounds")));
        }
        let random = "with a random seed, which is recorded".to_owned();
        let seed = self.seed.map_or(random, |seed| format!("with seed {seed}"));
        let direct = match self.start {
            Some(_) => "direct gets the same traffic",
            None => "direct before and after the gateways",
        };
        lines.push(("order", format!("shuffled in each round {seed}; {direct}")));
        lines.push(("warm-up", self.warm_up.clone()));
        let takes = match self.at_most_s.filter(|longest| *longest > self.expected_s) {
            None => show_minutes(self.at_most_s.unwrap_or(self.expected_s)),
            Some(longest) => format!("{} to {}", show_minutes(self.expected_s), show_minutes(longest)),
        };
        lines.push(("takes about", takes));
        lines
    }
}

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan {}\n", self.name)?;
        let mut before = "";
        for (head, text) in self.lines() {
            writeln!(f, "{:<13}{text}", if head == before { "" } else { head })?;
            before = head;
        }
        for note in &self.replaced {
            writeln!(f, "\nnote: {note}")?;
        }
        for NotInstalled { pack, how_to_install } in &self.not_installed {
            writeln!(
                f,
                "\n{pack} is not installed. `hoptax run --skip-missing` leaves it out. To install it:"
            )?;
            for how in how_to_install {
                writeln!(f, "  {how}")?;
            }
        }
        for note in &self.notes {
            writeln!(f, "\nwarning: {note}")?;
        }
        Ok(())
    }
}

fn plural(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Rounds up to whole seconds, because the estimate is not more precise.
fn show_minutes(seconds: f64) -> String {
    humantime::format_duration(Duration::from_secs(seconds.ceil() as u64)).to_string()
}
