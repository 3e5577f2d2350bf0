//! Traffic between hosts: the generator's host sends the load and samples the roles that it sees, and the
//! other hosts sample theirs. Every moment that leaves this file is on our own clock.

use super::agent_channel::{AgentChannel, PROMPT};
use super::host::Host;
use super::layout::Layout;
use super::legs::Legs;
use super::sampling::OtherSampling;
use super::vantage::{Vantage, Vantages};
use super::{generators, remote_generator};
use crate::protocol::message::{AskRoute, Request, RouteAnswer};
use hoptax_format::record::{Phase, PhaseLine};
use hoptax_format::spec::LoadSpec;
use hoptax_format::{Address, clock};
use hoptax_host::probe::leg::Messages;
use hoptax_host::profile::Span;
use hoptax_host::{Watched, cpus};
use hoptax_lab::features::Change;
use hoptax_lab::first_requests::FirstRequests;
use hoptax_lab::verify::Requests;
use hoptax_lab::{Profiling, Service};
use hoptax_plan::{Feature, PathSplit};
use hoptax_record::profile::PassKind;
use hoptax_record::{Failure, Leg, Link, Stage, TrialHost, Verified};
use hoptax_run::{
    FirstLoaded, Loaded, LocalTraffic, Look, Recorded, RouteAsker, StackRecording, Traffic, TrialUpdate,
    Used, WatchedRoles, first_loaded,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which to check the other hosts during a load.
const WATCH: Duration = Duration::from_millis(100);

/// Age at which the offsets of clocks are measured again, ns. A clock that nobody corrects may drift by 1 ms
/// in this time.
const OFFSETS_LAST_NS: u64 = 10 * clock::SECOND;

/// Time limit for a recording of stacks to be added up.
const FOLD: Duration = Duration::from_secs(10 * 60);

/// Maximum time to wait for a line in the access log, and the time after which another request is sent: as
/// long as on one host (`hoptax_lab::verify::proofs`).
const LOG_BOUND: Duration = Duration::from_secs(15);
const ASK_AGAIN: Duration = Duration::from_secs(1);
const LOG_POLL: Duration = Duration::from_millis(50);

/// Traffic of a run whose roles are on several hosts.
#[derive(Debug)]
pub struct HostsTraffic {
    pub(super) vantages: Vantages,
    /// Whether all roles are on one machine, wherever a load comes from.
    pub(super) is_one_machine: bool,
    /// The hosts with agents, by name. Our own host is not among them.
    pub(super) hosts: BTreeMap<String, Arc<Host>>,
    pub(super) local: LocalTraffic,
    pub(super) live: bool,
    /// When the offset of each host's clock was measured last.
    pub(super) offsets_ns: BTreeMap<String, u64>,
    pub(super) legs: Legs,
}

impl HostsTraffic {
    /// All roles, with the generators of the role.
    fn layout(&self) -> &Layout {
        &self.vantages.of_role.layout
    }

    /// The host of the role's first generator; `None` if it is our own. It sends all requests that belong to
    /// no load.
    fn generator(&self) -> Option<Arc<Host>> {
        self.vantages.of_role.generator(&self.hosts)
    }

    fn gateway(&self) -> Option<Arc<Host>> {
        self.hosts.get(&self.layout().gateway.host).cloned()
    }

    fn verify_from_generator(
        &mut self,
        requests: &Requests,
        timeout: Duration,
        direct: &[Address],
        gateway: &Address,
        change: &Change,
    ) -> Result<Verified, Failure> {
        match self.generator() {
            Some(host) => remote_generator::verify(&host, requests, timeout, direct, gateway, change),
            None => self.local.verify(requests, timeout, direct, gateway, change),
        }
    }

    /// Size of a file on the gateway's host.
    fn size_at_gateway(&self, path: &Path) -> Result<u64, Failure> {
        match self.gateway() {
            Some(host) => host.link()?.ask(Request::FileSize(path.to_owned()), PROMPT),
            None => Ok(std::fs::metadata(path).map_or(0, |file| file.len())),
        }
    }

    /// Measures the offsets of these hosts' clocks again if they are old.
    fn refresh_offsets(&mut self, vantage: &Vantage) -> Result<(), Failure> {
        for (name, host) in vantage.hosts(&self.hosts) {
            let measured_ns = self.offsets_ns.entry(name.clone()).or_default();
            if clock::now() >= *measured_ns + OFFSETS_LAST_NS {
                host.link()?.measure_clock()?;
                *measured_ns = clock::now();
            }
        }
        Ok(())
    }

    /// Starts sampling on the hosts without a generator. Also returns the links to these hosts.
    fn begin_others(
        &mut self,
        vantage: &Vantage,
        watched: &WatchedRoles,
    ) -> Result<(Vec<OtherSampling>, Vec<Arc<AgentChannel>>), Failure> {
        self.refresh_offsets(vantage)?;
        let links = vantage.services(&self.hosts).map(|host| host.link()).collect::<Result<_, _>>()?;
        let begin = |what: super::layout::Sampling| {
            let host = self.hosts.get(&what.host).map(AsRef::as_ref);
            OtherSampling::begin(what, host, watched, self.live)
        };
        Ok((vantage.layout.others().into_iter().map(begin).collect::<Result<_, _>>()?, links))
    }

    /// Sends a load from this host: see [`Traffic::load`].
    fn try_load(
        &mut self,
        from: Option<&str>,
        spec: &LoadSpec,
        watched: &WatchedRoles,
        interrupted: &AtomicBool,
        report: &mut dyn FnMut(TrialUpdate),
    ) -> Result<Loaded, Failure> {
        let vantage = self.vantages.get(from)?.clone();
        let (others, links) = self.begin_others(&vantage, watched)?;
        let others = Mutex::new(others);
        let stamps = spec.stamps && vantage.path_split == PathSplit::On;
        let mut spec = LoadSpec { stamps, ..spec.clone() };
        for stream in spec.targets.iter_mut().filter_map(|target| target.stream.as_mut()) {
            stream.same_clock &= vantage.shares_clock;
        }
        if from.is_some() {
            spec = vantage.on_own_cpus(&spec);
        }
        let generators = vantage.generators(&self.hosts, &spec, watched)?;
        let near = vantage.near(watched);
        let (host, live) = (vantage.generator(&self.hosts), self.live);
        let mut report = |update| report(with_others(update, &lock(&others)));
        // A load to a host that is lost would only time out, so it is ended early.
        let stop = AtomicBool::new(false);
        let watch = Watch { interrupted, others: &others, links: &links, stop: &stop };
        let mut loaded = watch.during(|| match host {
            _ if !generators.is_empty() => {
                generators::load(generators, &self.local, live, &stop, &mut report)
            }
            Some(host) => remote_generator::load(&host, &spec, near, live, &stop, &mut |_| {}, &mut report)
                .unwrap_or_else(Loaded::from),
            None => self.local.load(None, &spec, &near, &stop, &mut report),
        });
        for other in others.into_inner().unwrap_or_else(PoisonError::into_inner) {
            add(&mut loaded, other);
        }
        // If a host was lost, this is the cause of all other failures.
        loaded.failed = links.iter().find_map(|link| link.lost()).or(loaded.failed);
        Ok(loaded)
    }
}

impl Traffic for HostsTraffic {
    fn verify(
        &mut self,
        requests: &Requests,
        timeout: Duration,
        direct: &[Address],
        gateway: &Address,
        change: &Change,
    ) -> Result<Verified, Failure> {
        let log = change.access_log.clone().filter(|_| !self.layout().gateway_is_near());
        let Some(log) = log else {
            return self.verify_from_generator(requests, timeout, direct, gateway, change);
        };
        // The generator's host does not see the log, so its proof is made here.
        let mut change = Change { access_log: None, ..change.clone() };
        let proves_log = change.features.contains(&Feature::AccessLog);
        change.features.retain(|feature| *feature != Feature::AccessLog);
        let before = self.size_at_gateway(&log)?;
        let verified = self.verify_from_generator(requests, timeout, direct, gateway, &change)?;
        let until = Instant::now() + LOG_BOUND;
        let mut asked = Instant::now();
        while proves_log && self.size_at_gateway(&log)? <= before {
            if Instant::now() > until {
                let message = format!(
                    "feature `{}` is not on: {} did not grow within {} s",
                    Feature::AccessLog,
                    log.display(),
                    LOG_BOUND.as_secs()
                );
                return Err(Failure::new(Stage::Verify, message));
            }
            thread::sleep(LOG_POLL);
            if asked.elapsed() > ASK_AGAIN {
                self.verify_from_generator(requests, timeout, direct, gateway, &change)?;
                asked = Instant::now();
            }
        }
        Ok(verified)
    }

    /// Only within one machine: between machines there is a real network, which this does not measure.
    fn link(&mut self, message_bytes: u64) -> Option<Link> {
        if !self.is_one_machine {
            return None;
        }
        match self.generator() {
            Some(host) => host.link().ok()?.ask(Request::Bandwidth { message_bytes }, PROMPT).ok()?,
            None => self.local.link(message_bytes),
        }
    }

    fn legs(&mut self, messages: Messages) -> Vec<Leg> {
        self.legs.measure(messages)
    }

    /// CPUs of different machines have no common cache line.
    fn cpu_round_trip_ns(&mut self, one: u32, other: u32) -> Option<f64> {
        if !self.is_one_machine {
            return None;
        }
        match self.generator() {
            Some(host) => host.link().ok()?.ask(Request::CpuRoundTrip([one, other]), PROMPT).ok()?,
            None => self.local.cpu_round_trip_ns(one, other),
        }
    }

    fn route_asker(&self, from: Option<&str>) -> Box<dyn RouteAsker> {
        let vantage = self.vantages.get(from).unwrap_or(&self.vantages.of_role);
        match vantage.generator(&self.hosts) {
            Some(host) => Box::new(RemoteAsker { host }),
            None => self.local.route_asker(from),
        }
    }

    fn first_requests(
        &mut self,
        asked: &FirstRequests,
        upstream: Option<Watched>,
        gateway: Option<&mut dyn Service>,
        interrupted: &AtomicBool,
    ) -> FirstLoaded {
        let host = self.generator();
        let send = |has_ended: &mut dyn FnMut() -> bool, ready: &mut dyn FnMut()| match host {
            Some(host) => remote_generator::first_requests(&host, asked, has_ended, ready),
            None => {
                let _pinned = cpus::pin(&asked.cpus);
                asked.send(has_ended, ready)
            }
        };
        let look = &mut |roles: &WatchedRoles| self.look(roles);
        first_loaded(asked.count, upstream, gateway, interrupted, look, send)
    }

    fn look(&mut self, roles: &WatchedRoles) -> Look {
        let near = self.vantages.of_role.near(roles);
        let own = match self.generator() {
            Some(host) => remote_generator::look(&host, near),
            None => self.local.look(&near),
        };
        if self.layout().gateway_is_near() {
            return own;
        }
        let only = WatchedRoles { upstream: None, gateway: roles.gateway };
        let there = match self.gateway() {
            Some(host) => remote_generator::look(&host, only),
            None => self.local.look(&only),
        };
        let tree = there.sample.as_ref().and_then(|sample| sample.trees.get(1).copied());
        Look {
            gateway_elsewhere: tree.filter(|_| roles.gateway.is_some()),
            machine_elsewhere: there.sample.map(|sample| (self.layout().gateway.host.clone(), sample)),
            ..own
        }
    }

    fn record_stacks(
        &mut self,
        gateway: Watched,
        kind: PassKind,
        profiling: &Profiling,
    ) -> Result<Box<dyn StackRecording>, Failure> {
        let Some(host) = self.gateway() else {
            return self.local.record_stacks(gateway, kind, profiling);
        };
        let link = host.link()?;
        let request = Request::RecordStacks { gateway, kind, profiling: profiling.clone() };
        let recording = link.ask(request, FOLD)?;
        Ok(Box::new(RemoteRecording { link, recording }))
    }

    fn load(
        &mut self,
        from: Option<&str>,
        spec: &LoadSpec,
        watched: &WatchedRoles,
        interrupted: &AtomicBool,
        report: &mut dyn FnMut(TrialUpdate),
    ) -> Loaded {
        self.try_load(from, spec, watched, interrupted, report).unwrap_or_else(Loaded::from)
    }
}

/// Checks the other hosts while a load is sent.
struct Watch<'a> {
    interrupted: &'a AtomicBool,
    others: &'a Mutex<Vec<OtherSampling>>,
    links: &'a [Arc<AgentChannel>],
    /// Set to end the load.
    stop: &'a AtomicBool,
}

impl Watch<'_> {
    fn during<T>(&self, load: impl FnOnce() -> T) -> T {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let watching = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let samples =
                        lock(self.others).iter_mut().map(OtherSampling::poll).fold(true, |a, b| a & b);
                    let is_well = samples && self.links.iter().all(|link| link.is_alive());
                    if !is_well || self.interrupted.load(Ordering::Relaxed) {
                        self.stop.store(true, Ordering::Relaxed);
                    }
                    thread::park_timeout(WATCH);
                }
            });
            let result = load();
            is_over.store(true, Ordering::Relaxed);
            watching.thread().unpark();
            result
        })
    }
}

/// Passes phases on to the other hosts. Adds the resources that their roles use to the report of the
/// generator's host.
fn with_others(update: TrialUpdate, others: &[OtherSampling]) -> TrialUpdate {
    match &update {
        TrialUpdate::Phase(PhaseLine { phase: Phase::Measuring, at_ns }) => {
            others.iter().for_each(|other| other.align(*at_ns));
        }
        TrialUpdate::Phase(PhaseLine { phase: Phase::Draining, .. }) => {
            others.iter().for_each(OtherSampling::look);
        }
        _ => {}
    }
    let TrialUpdate::Used(used) = update else { return update };
    TrialUpdate::Used(others.iter().filter_map(|other| other.used.as_ref()).fold(used, |sum, used| Used {
        gateway: sum.gateway.or(used.gateway),
        upstream: sum.upstream.or(used.upstream),
        ..sum
    }))
}

/// Adds the samples of another host to the result of a load.
fn add(loaded: &mut Loaded, other: OtherSampling) {
    let record = loaded.record.as_ref();
    let measured = record.map(|record| (record.started_ns, record.started_ns + record.measured_ns));
    let what = other.what.clone();
    match other.end(measured) {
        Ok(found) if loaded.record.is_some() => {
            let usage = &mut loaded.usage;
            usage.gateway = usage.gateway.take().or(found.gateway);
            usage.upstream = usage.upstream.take().or(found.upstream);
            let host = TrialHost {
                roles: what.roles(),
                network_roles: what.network_roles.clone(),
                usage: (!what.only_network).then_some(found.host),
                network: found.network,
            };
            usage.hosts.insert(what.host, host);
        }
        Ok(_) => {}
        // The load failed because of this host, so its failure is the cause.
        Err(failure) => loaded.failed = Some(failure),
    }
}

/// Sends requests to a route from the generator's host.
struct RemoteAsker {
    host: Arc<Host>,
}

impl RouteAsker for RemoteAsker {
    fn ask(
        &mut self,
        address: SocketAddr,
        requests: &Requests,
        change: &Change,
        timeout: Duration,
    ) -> Result<u16, String> {
        let (requests, change) = (requests.clone(), change.clone());
        let ask = Box::new(AskRoute { address, requests, change, timeout });
        let asked = |link: Arc<AgentChannel>| link.ask(Request::AskRoute(ask), timeout + PROMPT);
        let answer: Result<RouteAnswer, Failure> = self.host.link().and_then(asked);
        answer.unwrap_or_else(|failure| Err(failure.message))
    }
}

/// Stacks that another host records.
struct RemoteRecording {
    link: Arc<AgentChannel>,
    recording: u64,
}

impl StackRecording for RemoteRecording {
    fn finish(self: Box<Self>, spans: &[Span]) -> Result<Recorded, Failure> {
        let offset = self.link.offset();
        let there =
            |span: &Span| Span { from_ns: offset.there(span.from_ns), to_ns: offset.there(span.to_ns) };
        let spans = spans.iter().map(there).collect();
        self.link.ask(Request::FinishStacks { recording: self.recording, spans }, FOLD)
    }
}

fn lock(others: &Mutex<Vec<OtherSampling>>) -> MutexGuard<'_, Vec<OtherSampling>> {
    others.lock().unwrap_or_else(PoisonError::into_inner)
}
