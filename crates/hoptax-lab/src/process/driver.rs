//! State of the driver `process`: the plan's settings, and the resources of this machine.

use super::probe::Probe;
use super::secrets::Secrets;
use crate::cpus;
use crate::features::{Credentials, JsonCalls};
use crate::login::Login;
use crate::packs::PackSet;
use crate::render::GrpcVariables;
use anyhow::Context as _;
use hoptax_format::Address;
use hoptax_format::messages::Carrier;
use hoptax_format::spec::HttpVersion;
use hoptax_host::logs;
use hoptax_host::namespace::{Interception, Namespace};
use hoptax_host::ports::LOOPBACK;
use hoptax_plan::{
    AccessLog, CpuSets, Event, Feature, Gateway, GatewayKind, Idle, PathSplit, Plan, Profile, Upstream,
};
use hoptax_record::{Failure, Stage};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::ErrorKind;
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Who waits until a gateway is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// The driver, with the gateway's own readiness check.
    UntilReady,
    /// The caller.
    Caller,
}

/// Starts services as processes of this machine.
#[derive(Debug)]
pub struct ProcessDriver {
    /// Path of the `hoptax` binary, which is also run as guard, upstream and hop.
    pub(super) exe: PathBuf,
    pub(super) packs: PackSet,
    pub(super) run_directory: PathBuf,
    pub(super) upstream: Upstream,
    /// Whether gateways that already run limit rates.
    pub(super) limits_rate: bool,
    /// Process of an upstream that already runs, if it is known.
    pub(super) upstream_process: Option<u32>,
    /// The request that shows that a service which already runs responds.
    pub(super) probe: Probe,
    pub(super) profile: Profile,
    pub(super) access_log: AccessLog,
    pub(super) path_split: PathSplit,
    pub(super) cpus: CpuSets,
    pub(super) allowed: Vec<u32>,
    pub(super) connections: u32,
    pub(super) streams: u32,
    pub(super) http2: bool,
    pub(super) grpc: Option<GrpcVariables>,
    /// What carries the messages of the plan's targets with streams.
    pub(super) carriers: Vec<Carrier>,
    /// The calls that clients can send as JSON.
    pub(super) json_calls: JsonCalls,
    pub(super) events: Vec<Event>,
    /// Whether the run measures reloads of all gateways that can reload.
    pub(super) measures_reloads: bool,
    /// Measured time of the plan's shortest trial.
    pub(super) shortest_trial: Duration,
    /// Whether gateways are started for profilers.
    pub(super) profiles: bool,
    pub(super) seed: Option<u64>,
    /// Address of this machine at which its services listen.
    pub(super) address: IpAddr,
    pub(super) interrupted: Arc<AtomicBool>,
    pub(super) features: Vec<Feature>,
    pub(super) credentials: Credentials,
    pub(super) upstream_login: Login,
    pub(super) gateway_logins: BTreeMap<String, Login>,
    /// Parent of the private directories of gateways that receive credentials. Removed when the driver is
    /// dropped.
    pub(super) private_directory: PathBuf,
    /// Directory with a short path for the gateways' sockets. It is created when the first gateway needs it.
    pub(super) socket_directory: PathBuf,
    /// Directory for the upstream's sockets, if hoptax chooses their paths. Every user may enter it. The
    /// upstream's guard removes it and its parent.
    pub(super) upstream_directory: PathBuf,
    /// Addresses of the upstream's instances that use TLS; empty if no gateway needs them.
    pub(super) tls_upstreams: Vec<Address>,
    /// The ports of the plan's sidecars, by label.
    pub(super) interceptions: BTreeMap<String, Interception>,
    /// Namespace of the upstream and the sidecars, or the reason why it cannot be created. Absent before the
    /// upstream starts, and in a plan without sidecars.
    pub(super) namespace: Option<Result<Namespace, Failure>>,
}

impl ProcessDriver {
    /// Creates a driver for `plan`, which writes rendered files and logs to `run_directory`.
    ///
    /// # Errors
    /// If the kernel does not report the usable CPUs, the path of this program is unknown, or credentials
    /// cannot be created or read.
    pub fn new(plan: &Plan, packs: PackSet, run_directory: &Path) -> anyhow::Result<Self> {
        Self::with_secrets(plan, packs, run_directory, Secrets::read(plan)?)
    }

    /// Like [`Self::new`], with secrets that were made before, perhaps on another host.
    ///
    /// # Errors
    /// If the kernel does not report the usable CPUs, or the path of this program is unknown.
    pub fn with_secrets(
        plan: &Plan,
        packs: PackSet,
        run_directory: &Path,
        secrets: Secrets,
    ) -> anyhow::Result<Self> {
        let all: Vec<Feature> = plan.gateways.iter().flat_map(Gateway::features).copied().collect();
        let allowed = hoptax_host::cpus::allowed().context("finding out which CPUs may be used")?;
        let interceptions = interceptions(plan, &packs);
        let measured = || plan.load.iter().filter(|point| point.left_out.is_none());
        let [private_directory, socket_directory, upstream_directory] = temporary_directories();
        Ok(Self {
            exe: std::env::current_exe().context("finding the hoptax binary")?,
            packs,
            run_directory: std::path::absolute(run_directory).context("finding the run directory")?,
            upstream: plan.upstream.clone(),
            limits_rate: plan.targets.iter().any(|target| target.rate_limit.is_some()),
            upstream_process: None,
            probe: Probe::new(plan),
            profile: plan.profile,
            access_log: plan.access_log,
            path_split: plan.path_split,
            cpus: cpus::resolve(plan, &allowed, Idle::Sleep),
            allowed,
            connections: measured().map(|point| point.connections).max().unwrap_or(1),
            streams: measured().map(|point| point.streams).max().unwrap_or(1),
            http2: measured().any(|point| point.http == HttpVersion::Http2),
            grpc: GrpcVariables::of(&plan.targets),
            carriers: plan.targets.iter().filter_map(|target| Some(target.stream?.carrier)).collect(),
            json_calls: JsonCalls::of(&plan.targets),
            events: plan.events.clone(),
            shortest_trial: plan.load.iter().map(|point| point.duration).min().unwrap_or_default(),
            measures_reloads: plan.start.is_some_and(|start| start.reload),
            profiles: false,
            seed: plan.seed,
            address: LOOPBACK,
            interrupted: Arc::default(),
            credentials: secrets.credentials,
            upstream_login: secrets.upstream_login,
            gateway_logins: secrets.gateway_logins,
            private_directory,
            socket_directory,
            upstream_directory,
            features: all,
            tls_upstreams: Vec::new(),
            interceptions,
            namespace: None,
        })
    }

    /// The same driver with another `hoptax` binary.
    #[must_use]
    pub fn with_exe(mut self, exe: &Path) -> Self {
        exe.clone_into(&mut self.exe);
        self
    }

    /// Sets the CPUs of the roles for a run in which idle CPUs do `idle`.
    #[must_use]
    pub fn with_idle(mut self, plan: &Plan, idle: Idle) -> Self {
        self.cpus = cpus::resolve(plan, &self.allowed, idle);
        self
    }

    /// Sets the CPUs of the roles.
    #[must_use]
    pub fn with_cpus(mut self, cpus: CpuSets) -> Self {
        self.cpus = cpus;
        self
    }

    /// Makes services listen at `address`, where other hosts reach this machine. The default is 127.0.0.1.
    /// Ports for readiness and statistics stay at 127.0.0.1, because only this machine uses them.
    #[must_use]
    pub fn with_address(mut self, address: IpAddr) -> Self {
        self.address = address;
        self
    }

    /// Makes the driver stop waiting for a gateway once `interrupted` is set.
    #[must_use]
    pub fn with_interrupt(mut self, interrupted: Arc<AtomicBool>) -> Self {
        self.interrupted = interrupted;
        self
    }

    /// Sets the upstream's addresses for gateways with the feature `upstream-tls`.
    #[must_use]
    pub fn with_tls_upstreams(mut self, addresses: Vec<impl Into<Address>>) -> Self {
        self.set_tls_upstreams(addresses.into_iter().map(Into::into).collect());
        self
    }

    /// Like [`Self::with_tls_upstreams`], for an upstream that another driver started.
    pub fn set_tls_upstreams(&mut self, addresses: Vec<Address>) {
        self.tls_upstreams = addresses;
    }

    /// The addresses of the upstream's instances that use TLS. Empty before the upstream has started, and if
    /// no gateway needs them.
    pub fn tls_upstreams(&self) -> &[Address] {
        &self.tls_upstreams
    }

    /// Keys, tokens and certificates of this run. If the upstream uses TLS, it uses one of these
    /// certificates.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// The CPUs of each role. The driver itself does not use the generator's CPUs. The code that starts the
    /// generator uses them.
    pub fn cpus(&self) -> &CpuSets {
        &self.cpus
    }

    /// Creates the namespace for the plan's sidecars, unless it already exists. If this fails, only the
    /// sidecars fail; all other gateways can still be measured.
    pub(super) fn make_namespace(&mut self) {
        if self.interceptions.is_empty() || self.namespace.is_some() {
            return;
        }
        let interceptions: Vec<_> = self.interceptions.values().copied().collect();
        self.namespace = Some(Namespace::make(&self.exe, &interceptions, &self.log_directory("namespace")));
    }

    /// Checks that this machine has the address of its services. Each start of a service checks this too.
    ///
    /// # Errors
    /// If the machine does not have the address.
    pub fn check_address(&self) -> Result<(), Failure> {
        let address = self.address;
        let met = match TcpListener::bind((address, 0)) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
                format!("{address} is not an address of this host")
            }
            Err(error) => format!("services cannot listen on {address}: {error}"),
        };
        let message = format!(
            "{met}. `ip addr` on the host lists its addresses; write one as its `address` in the plan"
        );
        Err(Failure::new(Stage::Start, message))
    }

    pub(super) fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_ref()?.as_ref().ok()
    }

    /// File to which the guard of the service with this label writes when it starts the service. It is not in
    /// the log directory, because all files there count as logs.
    pub(super) fn started_file(&self, label: &str) -> PathBuf {
        self.run_directory.join("logs").join(format!("{label}.started"))
    }

    pub(super) fn log_directory(&self, label: &str) -> PathBuf {
        self.run_directory.join("logs").join(label)
    }
}

impl Drop for ProcessDriver {
    fn drop(&mut self) {
        // In most runs these directories do not exist, so errors are ignored.
        let of_upstream = self.upstream_directory.parent().unwrap_or(&self.upstream_directory);
        for directory in [&*self.private_directory, &*self.socket_directory, of_upstream] {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// The ports of each sidecar of the plan, by its label.
fn interceptions(plan: &Plan, packs: &PackSet) -> BTreeMap<String, Interception> {
    let sidecars = plan.gateways.iter().filter_map(|gateway| match &gateway.kind {
        GatewayKind::Pack { pack, .. } => Some((&gateway.label, packs.get(pack)?.manifest().intercept?)),
        _ => None,
    });
    let numbered = sidecars.enumerate();
    numbered
        .map(|(index, (label, ports))| {
            (label.clone(), Interception::new(index, ports.inbound_port, ports.admin_port))
        })
        .collect()
}

/// Maximum length of the path of the directory for temporary files. With a longer path, the paths of sockets
/// would be too long. A socket's path has at most 107 bytes (unix(7)), and hoptax's own directories take 43
/// of them.
const LONGEST_TEMPORARY: usize = 24;

/// Paths for three directories: for private files, for sockets, and for the upstream's sockets. Only their
/// owner may read the first two. Every user may enter the third. Each directory is created when the first
/// file is written to it.
fn temporary_directories() -> [PathBuf; 3] {
    let drawn = hoptax_format::random::from_system();
    let temporary = std::env::temp_dir();
    let short = if temporary.as_os_str().len() > LONGEST_TEMPORARY { Path::new("/tmp") } else { &temporary };
    let named = |end: &str| format!("hoptax-{drawn:016x}{end}");
    [temporary.join(named("")), short.join(named("-s")), short.join(named("-u")).join("u")]
}

/// A failure to start a service, with the last lines of its logs.
pub(super) fn failed_to_start(message: impl Display, log_directory: &Path) -> Failure {
    Failure { stage: Stage::Start, message: message.to_string(), detail: logs::tails(log_directory) }
}
