//! One look: a gateway is started, sent a load, and stopped.

use super::open::{self, Listening, Writing};
use crate::lab::features::Change;
use crate::lab::packs::PackSet;
use crate::lab::process::ProcessDriver;
use crate::lab::{Driver as _, Service, tree};
use crate::plan::{Context, Plan, parse};
use crate::record::{Failure, LedgerDelta, Stage};
use crate::run::{Contents, Loaded, LocalTraffic, Traffic as _, WatchedRoles};
use hoptax_load::Address;
use hoptax_load::event_loop::Choice;
use hoptax_load::spec::{HttpVersion, LoadSpec, SPEC_SCHEMA, Shape, Timeouts};
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

/// How often a load is repeated where the number of threads that worked is not the one asked for: connections spread by
/// chance, and a gateway that ignores what it is asked does so every time.
const ATTEMPTS: u32 = 4;

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
    /// Its processes, once it was ready.
    pub processes: u32,
    /// Their threads.
    pub threads: u32,
    /// Threads that worked; of several loads the number that is nearest to the workers asked for.
    pub busy_threads: Option<u32>,
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
    /// Requests of all loads, repeated ones included.
    pub sent_in_all: u64,
    /// Bytes by which the files grew that it writes to, from before the first load until it had ended.
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
    let plan = plan(name, setup, packs)?;
    let other = |message: String| Failure { stage: Stage::Trial, message, detail: String::new() };
    let driver =
        ProcessDriver::new(&plan, packs.clone(), &below).map_err(|error| other(format!("{error:#}")))?;
    let mut driver = driver.with_exe(exe);
    let upstream =
        Stopping(driver.start_upstream().map_err(|failure| Failure { stage: Stage::Trial, ..failure })?);
    let gateway = Stopping(driver.start_gateway(&plan.gateways[0], upstream.0.addresses())?);
    let version = gateway.0.facts().version.clone();
    let asked = Asked { plan: &plan, exe, logs: below.join("logs").join(name), upstream, gateway, sent: 0 };
    asked.look(*setup).map(|look| (look, version))
}

/// The plan that a pack is looked at with.
fn plan(name: &str, setup: &Setup, packs: &PackSet) -> Result<Plan, Failure> {
    let log = if setup.access_log { "file" } else { "off" };
    let text = format!(
        "name: lint\ngateways: [{{ name: \"{name}\", workers: {} }}]\ntarget: {{ headers: {{ host: lint.example }} }}\n\
         load: [{{ loop: closed, connections: {CONNECTIONS}, duration: 1s }}]\naccess_log: {log}\n",
        setup.workers
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
struct Asked<'a> {
    plan: &'a Plan,
    exe: &'a Path,
    logs: std::path::PathBuf,
    gateway: Stopping,
    upstream: Stopping,
    /// Requests sent so far.
    sent: u64,
}

impl Asked<'_> {
    fn look(mut self, setup: Setup) -> Result<Look, Failure> {
        let otherwise = self.verify().err();
        let processes = self.processes();
        let before = self.files(&processes);
        let ledger = self.ledger()?;
        let loaded = self.load();
        // One that left the foreground may have been ready before it was buried: that is what is wrong then.
        self.gateway.0.check().map_err(|failure| Failure { stage: Stage::Start, ..failure })?;
        let first = loaded?;
        let record = first.record.as_ref().expect("a load that did not fail has one");
        let counted = self.ledger()?.since(&ledger);
        let (sent, completed) = (record.lifetime.sent, record.lifetime.completed);
        let (opened, asked) = (record.lifetime.opened, record.connections.asked);
        let busy = self.busy(setup.workers, &first)?;
        let usage = first.usage.gateway.unwrap_or_default();
        // Of all loads together, as the logs were written by all.
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
            processes: usage.processes,
            threads: usage.threads,
            busy_threads: busy,
            connections: asked,
            opened,
            sent,
            completed,
            ledger: counted,
            sent_in_all: self.sent,
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
        let requests = crate::lab::verify::Requests {
            targets: contents.targets(&self.plan.targets, &direct[0].to_string()),
            files: contents.files,
            versions: vec![HttpVersion::Http11],
        };
        let patience = Duration::from_nanos(PATIENCE_NS);
        crate::lab::verify::verify(direct[0], self.address(), &requests, &Change::default(), patience)
    }

    fn address(&self) -> SocketAddr {
        self.gateway.0.addresses()[0]
    }

    fn ledger(&self) -> Result<crate::lab::ledger::Ledger, Failure> {
        let told = self.upstream.0.ledger().expect("the built-in upstream keeps one");
        told.map_err(|error| Failure {
            stage: Stage::Trial,
            message: format!("{error:#}"),
            detail: String::new(),
        })
    }

    /// Threads that worked. Repeats the load where it is not as many as were asked for.
    fn busy(&mut self, workers: u32, first: &Loaded) -> Result<Option<u32>, Failure> {
        let of = |loaded: &Loaded| loaded.usage.gateway.as_ref().and_then(|usage| usage.busy_threads);
        let Some(mut nearest) = of(first) else { return Ok(None) };
        for _ in 1..ATTEMPTS {
            if nearest == workers {
                break;
            }
            if let Some(again) = of(&self.load()?)
                && again.abs_diff(workers) < nearest.abs_diff(workers)
            {
                nearest = again;
            }
        }
        Ok(Some(nearest))
    }

    fn load(&mut self) -> Result<Loaded, Failure> {
        let contents = Contents::of(&self.plan.targets, &self.plan.files).map_err(|error| Failure {
            stage: Stage::Trial,
            message: format!("{error:#}"),
            detail: String::new(),
        })?;
        let address = self.address();
        let spec = LoadSpec {
            schema: SPEC_SCHEMA,
            targets: contents.targets(&self.plan.targets, &address.to_string()),
            files: contents.files,
            addresses: vec![Address::from(address)],
            sources: Vec::new(),
            tls: None,
            http: HttpVersion::Http11,
            requests_per_connection: None,
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
            event_loop: Choice::Auto,
        };
        let watched = WatchedRoles { upstream: self.upstream.0.process(), gateway: self.gateway.0.process() };
        let mut traffic = LocalTraffic::of(self.exe);
        let loaded = traffic.load(&spec, &watched, &AtomicBool::new(false), &mut |_| {});
        if let Some(failure) = loaded.failed {
            return Err(failure);
        }
        self.sent += loaded.record.as_ref().map_or(0, |record| record.lifetime.sent);
        Ok(loaded)
    }
}
