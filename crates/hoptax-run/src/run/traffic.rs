//! The trait [`Traffic`], which sends a trial's load and samples the use of resources. This module also
//! contains the types of its results. The types can be sent to another host that has the same version of
//! hoptax. They are not a format for files.

use hoptax_format::Address;
use hoptax_format::record::{LoadRecord, PhaseLine, SecondLine};
use hoptax_format::spec::LoadSpec;
use hoptax_host::Watched;
use hoptax_host::probe::leg::Messages;
use hoptax_host::probe::{RecentTree, Sample, Timeline, TreeSample};
use hoptax_host::profile::{Folded, Span};
use hoptax_lab::features::Change;
use hoptax_lab::first_requests::{FirstAnswers, FirstRequests};
use hoptax_lab::verify::{self, Requests};
use hoptax_lab::{Profiling, Service};
use hoptax_record::profile::PassKind;
use hoptax_record::start::UsedAtReady;
use hoptax_record::tail::SwitchTrace;
use hoptax_record::{
    Failure, GeneratorTrial, HostUsage, Leg, Link, NetworkUsage, RoleUsage, Stage, TrialHost, Verified,
};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Sends traffic and samples resource use.
pub trait Traffic {
    /// Verifies a gateway before anything is measured. For each target, sends one request to direct. Then
    /// sends the same request, with `change` applied, through the gateway. At the end, sends the requests
    /// that prove each feature. Returns the headers that differed and were left out of the comparison.
    ///
    /// # Errors
    /// If the gateway's answers differ from the answers of direct, if an answer is not what the target
    /// expects, or if a feature is off.
    fn verify(
        &mut self,
        requests: &Requests,
        timeout: Duration,
        direct: &[Address],
        gateway: &Address,
        change: &Change,
    ) -> Result<Verified, Failure>;

    /// Returns an object that sends requests to routes of a gateway while a load is sent. `from` is the host
    /// that sends the load, as in [`Self::load`].
    fn route_asker(&self, from: Option<&str>) -> Box<dyn RouteAsker> {
        let _ = from;
        Box::new(LocalAsker)
    }

    /// Measures the bandwidth of the loopback with messages of this size. `None` if the bandwidth is not
    /// measured.
    fn link(&mut self, message_bytes: u64) -> Option<Link> {
        let _ = message_bytes;
        None
    }

    /// Measures the network between the hosts of the run. The result is in `at_start` of each leg. Empty if
    /// there is only one host.
    fn legs(&mut self, messages: Messages) -> Vec<Leg> {
        let _ = messages;
        Vec::new()
    }

    /// Measures the time that a cache line takes from one CPU to another and back, ns. `None` if it is not
    /// measured.
    fn cpu_round_trip_ns(&mut self, one: u32, other: u32) -> Option<f64> {
        let _ = (one, other);
        None
    }

    /// Sends the first requests after a start, until they are answered, the gateway has ended, or a signal
    /// arrives. `gateway` is absent for direct.
    fn first_requests(
        &mut self,
        asked: &FirstRequests,
        upstream: Option<Watched>,
        gateway: Option<&mut dyn Service>,
        interrupted: &AtomicBool,
    ) -> FirstLoaded;

    /// Resources that the roles and the host have used so far.
    fn look(&mut self, roles: &WatchedRoles) -> Look {
        let _ = roles;
        Look::default()
    }

    /// Starts recording the stacks of the gateway's processes.
    ///
    /// # Errors
    /// If stacks cannot be recorded on this machine.
    fn record_stacks(
        &mut self,
        gateway: Watched,
        kind: PassKind,
        profiling: &Profiling,
    ) -> Result<Box<dyn StackRecording>, Failure> {
        let _ = (gateway, kind, profiling);
        Err(Failure::new(Stage::Trial, "stacks cannot be recorded here"))
    }

    /// Starts recording which thread has which CPU, on all CPUs of this machine.
    ///
    /// # Errors
    /// If that cannot be recorded here.
    fn record_switches(&mut self, roles: &WatchedRoles) -> Result<Box<dyn SwitchTracing>, Failure> {
        let _ = roles;
        let message = "switches of threads can be recorded only if all roles are on this machine";
        Err(Failure::new(Stage::Trial, message))
    }

    /// Sends the load of one trial, and samples the processes in `watched` at the same time. `from` is the
    /// host of the plan that sends it: see [`hoptax_plan::LoadPoint::from`]. Must report the beginning of
    /// each phase. Other updates are optional.
    fn load(
        &mut self,
        from: Option<&str>,
        spec: &LoadSpec,
        watched: &WatchedRoles,
        interrupted: &AtomicBool,
        report: &mut dyn FnMut(TrialUpdate),
    ) -> Loaded;
}

/// Sends requests to a route of a gateway. It works on a thread of its own during a trial.
pub trait RouteAsker: Send {
    /// Sends one request for the first target, with `change` applied. Returns the status of the answer.
    ///
    /// # Errors
    /// If there is no complete answer within `timeout`. The error is the reason as text.
    fn ask(
        &mut self,
        address: SocketAddr,
        requests: &Requests,
        change: &Change,
        timeout: Duration,
    ) -> Result<u16, String>;
}

/// Sends the requests from this host.
struct LocalAsker;

impl RouteAsker for LocalAsker {
    fn ask(
        &mut self,
        address: SocketAddr,
        requests: &Requests,
        change: &Change,
        timeout: Duration,
    ) -> Result<u16, String> {
        let answer = verify::ask_changed(address, requests, change, timeout);
        answer.map(|answer| answer.status).map_err(|error| format!("{error:#}"))
    }
}

/// Stacks that are being recorded.
pub trait StackRecording {
    /// Stops recording, and adds up the stacks in these slices of time. The gateway must still run.
    ///
    /// # Errors
    /// If the profiler has ended early, or its data cannot be read.
    fn finish(self: Box<Self>, spans: &[Span]) -> Result<Recorded, Failure>;
}

/// Switches that are being recorded.
pub trait SwitchTracing {
    /// Stops recording, and returns all switches. The roles must still run.
    ///
    /// # Errors
    /// If the recorder has ended early, or its data cannot be read.
    fn finish(self: Box<Self>) -> Result<SwitchTrace, Failure>;
}

/// Recorded stacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// The stacks of each slice.
    pub stacks: Folded,
    /// Name and version of the profiler.
    pub profiler: String,
    /// Whether the stacks contain the kernel's part.
    pub sees_kernel: bool,
}

/// A report from a trial in progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TrialUpdate {
    /// The generator entered a phase.
    Phase(PhaseLine),
    /// The figures of one second of the measured time.
    Second(SecondLine),
    /// Resources used over the last second.
    Used(Used),
}

/// Resources used over the last second, by role.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// The generator.
    pub generator: Option<RecentTree>,
    /// The gateway. Absent for direct, and for an external gateway without a PID.
    pub gateway: Option<RecentTree>,
    /// The upstream. Absent if hoptax did not start it.
    pub upstream: Option<RecentTree>,
    /// Share of the host's CPU time that the hypervisor took, 0 to 1.
    pub steal: f64,
}

/// Result of the first requests after a start.
#[derive(Debug, Default)]
pub struct FirstLoaded {
    /// The answers.
    pub answers: FirstAnswers,
    /// Resources used until the first right answer had arrived.
    pub at_ready: Look,
    /// Resources used until the last answer had arrived.
    pub at_end: Look,
}

/// Sends the first requests to a gateway, which may still be starting. Reads the use of resources when the
/// gateway is ready and when all requests are answered. `send` must send the requests. It has two arguments:
/// a function to call repeatedly, which returns true if the gateway has ended, and a function to call right
/// after the first right answer.
pub fn first_loaded(
    count: usize,
    upstream: Option<Watched>,
    gateway: Option<&mut dyn Service>,
    interrupted: &AtomicBool,
    look: &mut dyn FnMut(&WatchedRoles) -> Look,
    send: impl FnOnce(&mut dyn FnMut() -> bool, &mut dyn FnMut()) -> FirstAnswers,
) -> FirstLoaded {
    let gateway = RefCell::new(gateway);
    let roles = || WatchedRoles {
        upstream,
        gateway: gateway.borrow().as_ref().and_then(|service| service.process()),
    };
    let mut has_ended = || {
        interrupted.load(Ordering::Relaxed)
            || gateway.borrow_mut().as_mut().is_some_and(|service| service.check().is_err())
    };
    let mut at_ready = Look::default();
    let answers = send(&mut has_ended, &mut || at_ready = look(&roles()));
    // After a single request, a load may follow. It must not wait for another reading.
    let at_end = if count == 1 { at_ready.clone() } else { look(&roles()) };
    FirstLoaded { answers, at_ready, at_end }
}

/// Resources that the roles and the host had used up to one moment. Empty if nothing was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// The generator's machine, with two trees: the upstream, and the gateway. A role without a process on
    /// this machine has used nothing.
    pub sample: Option<Sample>,
    /// The gateway's tree, if it is on another machine.
    pub gateway_elsewhere: Option<TreeSample>,
    /// Name and sample of the gateway's machine, if this is not the generator's machine.
    pub machine_elsewhere: Option<(String, Sample)>,
}

impl Look {
    /// CPU time that the gateway has used since `before`, and its memory now. `None` if nothing was read, or
    /// the gateway has no process.
    pub fn used_since(&self, before: &Self) -> Option<UsedAtReady> {
        let here = |look: &Self| look.sample.as_ref()?.trees.get(1).copied();
        let tree = |look: &Self| look.gateway_elsewhere.or_else(|| here(look));
        let now = tree(self).filter(|tree| tree.processes > 0)?;
        let earlier = tree(before).map_or(0, |tree| tree.cpu_ns);
        Some(UsedAtReady { cpu_ns: now.cpu_ns.saturating_sub(earlier), rss_bytes: now.rss_bytes })
    }

    /// CPU use of the generator's host since `before`.
    pub fn host_since(&self, before: &Self) -> HostUsage {
        let (Some(first), Some(last)) = (&before.sample, &self.sample) else { return HostUsage::default() };
        usage_between(first, last)
    }

    /// CPU use of the gateway's machine since `before`, by name. Empty if it is the generator's machine.
    pub fn hosts_since(&self, before: &Self) -> BTreeMap<String, HostUsage> {
        let both = before.machine_elsewhere.as_ref().zip(self.machine_elsewhere.as_ref());
        both.map(|((_, first), (name, last))| (name.clone(), usage_between(first, last)))
            .into_iter()
            .collect()
    }
}

fn usage_between(first: &Sample, last: &Sample) -> HostUsage {
    let timeline = Timeline { samples: vec![first.clone(), last.clone()] };
    timeline.host(first.at_ns, last.at_ns, None)
}

/// Result of one trial's load. If the trial failed, this contains the measurements up to the failure.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Loaded {
    /// The generator's record.
    pub record: Option<LoadRecord>,
    /// Resource use that the probes sampled.
    pub usage: Usage,
    /// Each generator, if there are several. `record` is their sum.
    pub generators: Vec<GeneratorTrial>,
    /// Why the trial failed. Absent if the trial succeeded.
    pub failed: Option<Failure>,
}

impl From<Failure> for Loaded {
    fn from(failure: Failure) -> Self {
        Self { failed: Some(failure), ..Self::default() }
    }
}

/// Processes that are sampled during a trial, in addition to the generator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedRoles {
    /// The upstream. Absent if hoptax did not start it.
    pub upstream: Option<Watched>,
    /// The gateway. Absent for direct, and for an external gateway without a PID.
    pub gateway: Option<Watched>,
}

/// Resource use over the measured time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The gateway's processes.
    pub gateway: Option<RoleUsage>,
    /// The upstream's processes.
    pub upstream: Option<RoleUsage>,
    /// The generator.
    pub generator: Option<RoleUsage>,
    /// The generator's host.
    pub host: HostUsage,
    /// Growth of the network counters of the generator's kernel from the start to the end of the generator
    /// process.
    pub network: Option<NetworkUsage>,
    /// The other hosts of the run, by name.
    pub hosts: BTreeMap<String, TrialHost>,
}
