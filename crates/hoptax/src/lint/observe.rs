//! One observation: start the gateway, send it a load, stop it, and collect what happened.

use super::open::{self, Writing};
use hoptax_format::Address;
use hoptax_format::llm::Api;
use hoptax_format::spec::{HttpVersion, LoadSpec, Timeouts};
use hoptax_host::{listeners, tree};
use hoptax_lab::features::SERVER_NAME;
use hoptax_lab::legs::Legs;
use hoptax_lab::packs::PackSet;
use hoptax_lab::process::ProcessDriver;
use hoptax_lab::{Driver as _, Facts, Service};
use hoptax_plan::{Context, Plan, parse};
use hoptax_record::{Failure, LedgerDelta, Stage};
use hoptax_run::{Contents, Loaded, LocalTraffic, Traffic as _, WatchedRoles};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Number of connections. The number is large enough that each of several workers gets some connections. It
/// is small enough that each connection carries many requests.
const CONNECTIONS: u32 = 32;

/// Longest duration of the load. A connection pool fills in a small part of this time.
const DURATION_NS: u64 = 1_000_000_000;

/// Number of requests of an observation. Two per cent of them, the smallest share that a rule looks for, are
/// more than one request per connection.
const REQUESTS: u64 = 5_000;

/// Timeout of each response.
const PATIENCE_NS: u64 = 10_000_000_000;

/// Options that a gateway is started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// Number of workers requested.
    pub workers: u32,
    /// True if an access log is requested.
    pub access_log: bool,
}

/// What was observed while a gateway ran.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The options that the gateway was started with.
    pub setup: Setup,
    /// The version of HTTP that the gateway must speak to the upstream.
    pub upstream_http: HttpVersion,
    /// How the gateway's answers differ from the answers of direct. Absent if the answers are equal.
    pub differs: Option<Failure>,
    /// Number of client connections that the load uses.
    pub connections: u64,
    /// Number of client connections that were opened.
    pub opened: u64,
    /// Number of requests sent to the gateway.
    pub sent: u64,
    /// Number of requests that the gateway answered.
    pub completed: u64,
    /// The upstream's counts during the load.
    pub ledger: LedgerDelta,
    /// Growth in bytes of all files that the gateway writes to, from before the load until the gateway
    /// stopped.
    pub log_bytes: u64,
    /// The files that grew.
    pub grown: Vec<String>,
    /// Addresses that the gateway listened on.
    pub listening: BTreeSet<SocketAddr>,
    /// Time from the stop signal until the gateway's last process had exited.
    pub stopped_in: Duration,
    /// Number of processes that were still alive after the gateway was stopped.
    pub left: u32,
}

/// Starts the pack `name` with these options and observes it. Also returns the version that the gateway
/// reported.
pub(super) fn observe(
    name: &str,
    setup: &Setup,
    legs: Legs,
    packs: &PackSet,
    exe: &Path,
    directory: &Path,
) -> Result<(Observation, Option<String>), Failure> {
    let log = if setup.access_log { "-logged" } else { "" };
    let below = directory.join(format!("{name}-{}{log}", setup.workers));
    let log = if setup.access_log { "file" } else { "off" };
    let gateway = format!("name: \"{name}\", workers: {}", setup.workers);
    let plan = plan(&gateway, &format!("access_log: {log}\n"), legs, packs)?;
    let running = RunningGateway::start(&plan, packs, exe, &below)?;
    let version = running.gateway.0.facts().version.clone();
    running.observe(*setup).map(|observation| (observation, version))
}

/// A plan for one gateway, with these versions of HTTP. `gateway` contains the keys of the gateway. `more` is
/// appended to the plan as further lines.
pub(super) fn plan(gateway: &str, more: &str, legs: Legs, packs: &PackSet) -> Result<Plan, Failure> {
    let version = if legs.clients == HttpVersion::Http2 { "2" } else { "1.1" };
    let upstream = if legs.upstream == HttpVersion::Http2 { ", upstream_http: 2" } else { "" };
    let text = format!(
        "name: lint\ngateways: [{{ {gateway}{upstream} }}]\n\
         target: {{ headers: {{ host: {SERVER_NAME} }} }}\n\
         load: [{{ loop: closed, connections: {CONNECTIONS}, duration: 1s, http: {version} }}]\n{more}"
    );
    parsed(&text, packs)
}

/// A plan for one gateway that passes gRPC calls. `gateway` contains the keys of the gateway.
pub(super) fn plan_of_calls(gateway: &str, packs: &PackSet) -> Result<Plan, Failure> {
    let text = format!(
        "name: lint\ngateways: [{{ {gateway} }}]\n\
         target: {{ grpc: {{ service: hoptax.Conformance, method: Echo }}, \
         headers: {{ host: {SERVER_NAME} }} }}\n\
         load: [{{ loop: closed, connections: 1, duration: 1s, http: 2 }}]\n"
    );
    parsed(&text, packs)
}

/// A plan for one gateway that gets requests to a language model. `gateway` contains the keys of the gateway.
pub(super) fn plan_of_llm(gateway: &str, api: Api, model: &str, packs: &PackSet) -> Result<Plan, Failure> {
    let text = format!(
        "name: lint\ngateways: [{{ {gateway} }}]\nupstream: {{ llm: {{}} }}\n\
         target: {{ llm: {{ api: {}, model: {model:?} }}, headers: {{ host: {SERVER_NAME} }} }}\n\
         load: [{{ loop: closed, connections: 1, duration: 1s }}]\n",
        api.name()
    );
    parsed(&text, packs)
}

fn parsed(text: &str, packs: &PackSet) -> Result<Plan, Failure> {
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let context = Context { cpus, known: packs.infos(), directory: ".".into() };
    parse("lint", text, &[], &context).map_err(|errors| Failure {
        stage: Stage::Trial,
        message: errors.to_string(),
        detail: String::new(),
    })
}

/// Stops the service when dropped.
struct StopOnDrop(Box<dyn Service>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A running gateway with its upstream. Rust drops the fields in order, so the gateway stops before the
/// upstream. The driver comes last, because it removes the files of a gateway with credentials.
pub(super) struct RunningGateway<'a> {
    plan: &'a Plan,
    exe: &'a Path,
    logs: PathBuf,
    gateway: StopOnDrop,
    upstream: StopOnDrop,
    _driver: ProcessDriver,
}

impl<'a> RunningGateway<'a> {
    /// Starts the upstream and the only gateway of `plan`. Their files are written below `directory`.
    pub(super) fn start(
        plan: &'a Plan,
        packs: &PackSet,
        exe: &'a Path,
        directory: &Path,
    ) -> Result<Self, Failure> {
        Self::start_before(None, plan, packs, exe, directory)
    }

    /// Like [`Self::start`]. The gateway forwards to `other_upstream` if there is one.
    pub(super) fn start_before(
        other_upstream: Option<SocketAddr>,
        plan: &'a Plan,
        packs: &PackSet,
        exe: &'a Path,
        directory: &Path,
    ) -> Result<Self, Failure> {
        let other = |message: String| Failure { stage: Stage::Trial, message, detail: String::new() };
        let driver = ProcessDriver::new(plan, packs.clone(), directory)
            .map_err(|error| other(format!("{error:#}")))?;
        let mut driver = driver.with_exe(exe);
        let upstream = StopOnDrop(
            driver.start_upstream().map_err(|failure| Failure { stage: Stage::Trial, ..failure })?,
        );
        let gateway = &plan.gateways[0];
        let label = &gateway.label;
        let upstreams =
            other_upstream.map_or_else(|| upstream.0.endpoints(), |other| vec![Address::from(other)]);
        let gateway = StopOnDrop(driver.start_gateway(gateway, &upstreams)?);
        let logs = logs_of(directory, label);
        Ok(Self { plan, exe, logs, gateway, upstream, _driver: driver })
    }

    fn observe(mut self, setup: Setup) -> Result<Observation, Failure> {
        let differs = self.verify().err();
        let processes = self.processes();
        let before = self.files(&processes);
        let ledger = self.ledger()?;
        let loaded = self.load(None);
        // Report the guard's failure first. A gateway that moved itself to the background may have seemed
        // ready before its guard noticed the move.
        self.gateway.0.check().map_err(|failure| Failure { stage: Stage::Start, ..failure })?;
        let loaded = loaded?;
        let record = loaded.record.as_ref().expect("a load that did not fail has one");
        let counted = self.ledger()?.since(&ledger);
        let (sent, completed) = (record.lifetime.sent, record.lifetime.completed);
        let (opened, connections) = (record.lifetime.opened, record.connections.asked);
        let all_processes: BTreeSet<u32> = processes.union(&self.processes()).copied().collect();
        let listening = listeners::addresses(&all_processes);
        let held = self.files(&all_processes);
        let begun = Instant::now();
        self.gateway.0.stop();
        let stopped_in = begun.elapsed();
        let after = held.into_keys().chain(before.keys().cloned()).chain(self.in_logs().into_keys());
        let after: BTreeSet<_> = after.collect();
        let grown: Vec<(String, u64)> = after
            .into_iter()
            .filter_map(|path| {
                let grown =
                    path.metadata().ok()?.len().saturating_sub(before.get(&path).copied().unwrap_or(0));
                (grown > 0).then(|| (path.display().to_string(), grown))
            })
            .collect();
        let left = all_processes.iter().filter(|pid| tree::is_alive(**pid)).count() as u32;
        Ok(Observation {
            setup,
            upstream_http: match self.plan.gateways[0].has_http2_upstream() {
                true => HttpVersion::Http2,
                false => HttpVersion::Http11,
            },
            differs,
            connections,
            opened,
            sent,
            completed,
            ledger: counted,
            log_bytes: grown.iter().map(|(_, bytes)| bytes).sum(),
            grown: grown.into_iter().map(|(path, _)| path).collect(),
            listening,
            stopped_in,
            left,
        })
    }

    fn processes(&self) -> BTreeSet<u32> {
        self.gateway.0.process().map(|watched| tree::descendants(watched.pid)).unwrap_or_default()
    }

    fn files(&self, processes: &BTreeSet<u32>) -> Writing {
        let mut files = open::writing(processes);
        files.extend(self.in_logs());
        files
    }

    fn in_logs(&self) -> Writing {
        files_in(&self.logs)
    }

    fn verify(&self) -> Result<(), Failure> {
        let direct = self.upstream.0.addresses();
        let contents = Contents::of(&self.plan.targets, &self.plan.files).map_err(|error| Failure {
            stage: Stage::Verify,
            message: format!("{error:#}"),
            detail: String::new(),
        })?;
        let requests = hoptax_lab::verify::Requests {
            targets: contents.targets(&self.plan.targets, &direct[0].to_string()),
            files: contents.files,
            versions: vec![self.http()],
            ..Default::default()
        };
        let patience = Duration::from_nanos(PATIENCE_NS);
        let change = &self.gateway.0.facts().change;
        hoptax_lab::verify::verify(direct[0], self.address(), &requests, change, patience)
    }

    /// What the driver knows about the gateway.
    pub(super) fn facts(&self) -> &Facts {
        self.gateway.0.facts()
    }

    /// The version of HTTP of the plan's only load.
    fn http(&self) -> HttpVersion {
        self.plan.load[0].http
    }

    /// Address of the upstream.
    pub(super) fn direct(&self) -> SocketAddr {
        self.upstream.0.addresses()[0]
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.gateway.0.addresses()[0]
    }

    fn ledger(&self) -> Result<hoptax_servers::ledger::Ledger, Failure> {
        let ledger = self.upstream.0.ledger().expect("the built-in upstream keeps one");
        ledger.map_err(|error| Failure {
            stage: Stage::Trial,
            message: format!("{error:#}"),
            detail: String::new(),
        })
    }

    /// Sends the gateway a load that is adapted to its features. If `requests_per_connection` is set, the
    /// load has its whole duration, and the generator closes each connection after this number of requests.
    /// Otherwise the generator keeps its connections, and the load ends after [`REQUESTS`].
    pub(super) fn load(&self, requests_per_connection: Option<u32>) -> Result<Loaded, Failure> {
        let contents = Contents::of(&self.plan.targets, &self.plan.files).map_err(|error| Failure {
            stage: Stage::Trial,
            message: format!("{error:#}"),
            detail: String::new(),
        })?;
        let address = self.address();
        let targets = contents.targets(&self.plan.targets, &address.to_string());
        let mut spec = LoadSpec {
            files: contents.files,
            http: self.http(),
            requests_per_connection,
            connections: CONNECTIONS,
            duration_ns: DURATION_NS,
            requests: requests_per_connection.is_none().then_some(REQUESTS),
            timeouts: Timeouts::all(PATIENCE_NS),
            ..LoadSpec::closed(vec![Address::from(address)], targets)
        };
        self.gateway.0.facts().change.apply(&mut spec);
        let watched = WatchedRoles { upstream: self.upstream.0.process(), gateway: self.gateway.0.process() };
        let mut traffic = LocalTraffic::of(self.exe);
        let loaded = traffic.load(None, &spec, &watched, &AtomicBool::new(false), &mut |_| {});
        if let Some(failure) = loaded.failed {
            return Err(failure);
        }
        Ok(loaded)
    }
}

/// Directory of a gateway's logs: absolute and without links, as the kernel shows the files that the gateway
/// has open. Otherwise one file would have two paths, and its bytes would count twice.
fn logs_of(directory: &Path, label: &str) -> PathBuf {
    let logs = directory.join("logs").join(label);
    logs.canonicalize().unwrap_or(logs)
}

/// The files directly in `directory`, with their sizes in bytes.
fn files_in(directory: &Path) -> Writing {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let file = |entry: std::fs::DirEntry| {
        let length = entry.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
        Some((entry.path(), length))
    };
    entries.filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_open_in_a_linked_directory_counts_once() {
        let scratch = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(scratch.path().join("kept/logs/mine")).expect("made");
        let linked = scratch.path().join("linked");
        std::os::unix::fs::symlink("kept", &linked).expect("linked");
        let log = linked.join("logs/mine/access.log");
        let _open = std::fs::File::create(&log).expect("created");
        let is_log = |path: &PathBuf| path.ends_with("logs/mine/access.log");
        let mut files = open::writing(&BTreeSet::from([std::process::id()]));
        files.retain(|path, _| is_log(path));
        files.extend(files_in(&logs_of(&linked, "mine")));
        assert_eq!(files.len(), 1, "{files:?}");
    }
}
