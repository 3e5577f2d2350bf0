//! One look: a gateway is started, sent a load, and stopped.

use super::open::{self, Listening, Writing};
use crate::run::{Contents, Loaded, LocalTraffic, Traffic as _, WatchedRoles};
use hoptax_host::tree;
use hoptax_lab::features::Change;
use hoptax_lab::packs::PackSet;
use hoptax_lab::process::ProcessDriver;
use hoptax_lab::{Driver as _, Service};
use hoptax_load::Address;
use hoptax_load::spec::{EventLoopName, HttpVersion, LoadSpec, SPEC_SCHEMA, Shape, Timeouts};
use hoptax_plan::{Context, Plan, parse};
use hoptax_record::{Failure, LedgerDelta, Stage};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Enough that several workers get some, few enough that each carries many requests.
const CONNECTIONS: u32 = 32;

/// Long beside the time in which a pool fills, short for whoever waits.
const DURATION_NS: u64 = 1_000_000_000;

/// Given to each answer.
const PATIENCE_NS: u64 = 10_000_000_000;

/// How a gateway is started to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// Workers asked for.
    pub workers: u32,
    /// Whether an access log is asked for.
    pub access_log: bool,
}

/// What was seen of a gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// As it was started.
    pub setup: Setup,
    /// Why it does not answer as direct does.
    pub otherwise: Option<Failure>,
    /// Client connections asked for.
    pub connections: u64,
    /// Client connections opened.
    pub opened: u64,
    /// Requests sent to it.
    pub sent: u64,
    /// Requests that it answered.
    pub completed: u64,
    /// What the upstream counted meanwhile.
    pub ledger: LedgerDelta,
    /// Bytes by which the files grew that it writes to, from before the load until it had ended.
    pub log_bytes: u64,
    /// The files that grew.
    pub grown: Vec<String>,
    /// Where it listened.
    pub listening: Listening,
    /// From the word to stop until nothing of it was left.
    pub stopped_in: Duration,
    /// Processes of it that were still there then.
    pub left: u32,
}

/// Starts the pack `name` as `setup` says and looks. Also gives the version that the gateway told.
pub(super) fn look(
    name: &str,
    setup: &Setup,
    packs: &PackSet,
    exe: &Path,
    directory: &Path,
) -> Result<(Look, Option<String>), Failure> {
    let log = if setup.access_log { "-logged" } else { "" };
    let below = directory.join(format!("{name}-{}{log}", setup.workers));
    let log = if setup.access_log { "file" } else { "off" };
    let gateway = format!("name: \"{name}\", workers: {}", setup.workers);
    let plan = plan(&gateway, &format!("access_log: {log}\n"), packs)?;
    let asked = Asked::start(&plan, packs, exe, &below)?;
    let version = asked.gateway.0.facts().version.clone();
    asked.look(*setup).map(|look| (look, version))
}

/// The plan that a pack is looked at with: the keys of its gateway, and `more` lines at its end.
pub(super) fn plan(gateway: &str, more: &str, packs: &PackSet) -> Result<Plan, Failure> {
    let text = format!(
        "name: lint\ngateways: [{{ {gateway} }}]\ntarget: {{ headers: {{ host: lint.example }} }}\n\
         load: [{{ loop: closed, connections: {CONNECTIONS}, duration: 1s }}]\n{more}"
    );
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let context = Context { cpus, known: packs.infos(), directory: ".".into() };
    parse("lint", &text, &[], &context).map_err(|errors| Failure {
        stage: Stage::Trial,
        message: errors.to_string(),
        detail: String::new(),
    })
}

/// A service that is gone when it is not needed any more, whatever happened.
struct Stopping(Box<dyn Service>);

impl Drop for Stopping {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A gateway that stands, in front of its upstream. Fields end in their order: the gateway first.
pub(super) struct Asked<'a> {
    plan: &'a Plan,
    exe: &'a Path,
    logs: std::path::PathBuf,
    gateway: Stopping,
    upstream: Stopping,
}

impl<'a> Asked<'a> {
    /// Starts the upstream and the only gateway of `plan`, whose files stay below `directory`.
    pub(super) fn start(
        plan: &'a Plan,
        packs: &PackSet,
        exe: &'a Path,
        directory: &Path,
    ) -> Result<Self, Failure> {
        let other = |message: String| Failure { stage: Stage::Trial, message, detail: String::new() };
        let driver = ProcessDriver::new(plan, packs.clone(), directory)
            .map_err(|error| other(format!("{error:#}")))?;
        let mut driver = driver.with_exe(exe);
        let upstream =
            Stopping(driver.start_upstream().map_err(|failure| Failure { stage: Stage::Trial, ..failure })?);
        let gateway = &plan.gateways[0];
        let logs = directory.join("logs").join(&gateway.label);
        let gateway = Stopping(driver.start_gateway(gateway, upstream.0.addresses())?);
        Ok(Self { plan, exe, logs, gateway, upstream })
    }

    fn look(mut self, setup: Setup) -> Result<Look, Failure> {
        let otherwise = self.verify().err();
        let processes = self.processes();
        let before = self.files(&processes);
        let ledger = self.ledger()?;
        let loaded = self.load(None);
        // One that left the foreground may have been ready before it was buried: that is what is wrong then.
        self.gateway.0.check().map_err(|failure| Failure { stage: Stage::Start, ..failure })?;
        let loaded = loaded?;
        let record = loaded.record.as_ref().expect("a load that did not fail has one");
        let counted = self.ledger()?.since(&ledger);
        let (sent, completed) = (record.lifetime.sent, record.lifetime.completed);
        let (opened, asked) = (record.lifetime.opened, record.connections.asked);
        let all_processes: BTreeSet<u32> = processes.union(&self.processes()).copied().collect();
        let listening = open::listening(&all_processes);
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
        Ok(Look {
            setup,
            otherwise,
            connections: asked,
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

    /// Everything that it may write to.
    fn files(&self, processes: &BTreeSet<u32>) -> Writing {
        let mut files = open::writing(processes);
        files.extend(self.in_logs());
        files
    }

    fn in_logs(&self) -> Writing {
        let entries = std::fs::read_dir(&self.logs).into_iter().flatten().flatten();
        let file = |entry: std::fs::DirEntry| {
            let length = entry.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
            Some((entry.path(), length))
        };
        entries.filter_map(file).collect()
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
            versions: vec![HttpVersion::Http11],
            varies: Vec::new(),
            direct: Change::default(),
        };
        let patience = Duration::from_nanos(PATIENCE_NS);
        hoptax_lab::verify::verify(direct[0], self.address(), &requests, &Change::default(), patience)
    }

    fn address(&self) -> SocketAddr {
        self.gateway.0.addresses()[0]
    }

    fn ledger(&self) -> Result<hoptax_servers::ledger::Ledger, Failure> {
        let told = self.upstream.0.ledger().expect("the built-in upstream keeps one");
        told.map_err(|error| Failure {
            stage: Stage::Trial,
            message: format!("{error:#}"),
            detail: String::new(),
        })
    }

    /// Sends it a load, changed as its features ask. Connections carry so many requests, or all.
    pub(super) fn load(&self, requests_per_connection: Option<u32>) -> Result<Loaded, Failure> {
        let contents = Contents::of(&self.plan.targets, &self.plan.files).map_err(|error| Failure {
            stage: Stage::Trial,
            message: format!("{error:#}"),
            detail: String::new(),
        })?;
        let address = self.address();
        let mut spec = LoadSpec {
            schema: SPEC_SCHEMA,
            targets: contents.targets(&self.plan.targets, &address.to_string()),
            files: contents.files,
            addresses: vec![Address::from(address)],
            sources: Vec::new(),
            tls: None,
            http: HttpVersion::Http11,
            requests_per_connection,
            shape: Shape::Closed,
            connections: CONNECTIONS,
            warmup_ns: 0,
            duration_ns: DURATION_NS,
            requests: None,
            timeouts: Timeouts { connect_ns: PATIENCE_NS, first_byte_ns: PATIENCE_NS, total_ns: PATIENCE_NS },
            workers: 1,
            cpus: Vec::new(),
            seed: 1,
            windows: true,
            stamps: false,
            event_loop: EventLoopName::Epoll,
        };
        self.gateway.0.facts().change.apply(&mut spec);
        let watched = WatchedRoles { upstream: self.upstream.0.process(), gateway: self.gateway.0.process() };
        let mut traffic = LocalTraffic::of(self.exe);
        let loaded = traffic.load(&spec, &watched, &AtomicBool::new(false), &mut |_| {});
        if let Some(failure) = loaded.failed {
            return Err(failure);
        }
        Ok(loaded)
    }
}
