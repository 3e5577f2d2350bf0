//! What the driver knows of a plan and of this machine.

use crate::cpus;
use crate::entry::Entry;
use crate::features::Credentials;
use crate::packs::PackSet;
use anyhow::Context as _;
use hoptax_host::logs;
use hoptax_host::namespace::{Interception, Namespace};
use hoptax_plan::{
    AccessLog, CpuSets, Event, Feature, Gateway, GatewayKind, PathSplit, Plan, Profile, Upstream,
};
use hoptax_record::{Failure, Stage};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Starts services as processes of this machine.
#[derive(Debug)]
pub struct ProcessDriver {
    /// The `hoptax` binary: guard, upstream and hops.
    pub(super) exe: PathBuf,
    pub(super) packs: PackSet,
    /// The run directory, absolute.
    pub(super) run_directory: PathBuf,
    pub(super) upstream: Upstream,
    /// Asked of what already runs, to see whether it answers.
    pub(super) target_path: String,
    pub(super) profile: Profile,
    pub(super) access_log: AccessLog,
    pub(super) path_split: PathSplit,
    pub(super) cpus: CpuSets,
    /// CPUs that this process may use.
    pub(super) allowed: Vec<u32>,
    /// The largest number of connections that the plan opens.
    pub(super) connections: u32,
    /// What happens while trials are measured.
    pub(super) events: Vec<Event>,
    pub(super) seed: Option<u64>,
    pub(super) interrupted: Arc<AtomicBool>,
    /// The features of all gateways.
    pub(super) features: Vec<Feature>,
    /// Keys, tokens and certificates of this run.
    pub(super) credentials: Credentials,
    /// How one is let in by an upstream that already runs.
    pub(super) entry: Entry,
    /// How one is let in by gateways that already run, by label.
    pub(super) entries: BTreeMap<String, Entry>,
    /// Where gateways that are given any have their directories; gone with the driver.
    pub(super) private_directory: PathBuf,
    /// Where the upstream answers over TLS; as many as it has instances where a gateway wants that, else none.
    pub(super) tls_upstreams: Vec<SocketAddr>,
    /// The plan's sidecars, by label.
    pub(super) interceptions: BTreeMap<String, Interception>,
    /// Where upstream and sidecars stand, or why there is no such place; absent before the upstream is started, and in a plan
    /// without sidecars.
    pub(super) namespace: Option<Result<Namespace, Failure>>,
}

impl ProcessDriver {
    /// A driver for `plan` that keeps rendered files and logs in `run_directory`.
    ///
    /// # Errors
    /// If the kernel does not tell which CPUs may be used, or where this program is.
    pub fn new(plan: &Plan, packs: PackSet, run_directory: &Path) -> anyhow::Result<Self> {
        let all: Vec<Feature> = plan.gateways.iter().flat_map(Gateway::features).copied().collect();
        let allowed = hoptax_host::cpus::allowed().context("reading which CPUs may be used")?;
        let interceptions = interceptions(plan, &packs);
        let entry = match &plan.upstream {
            Upstream::BuiltIn(_) => Entry::default(),
            Upstream::Running(running) => Entry::read(&running.access).context("upstream")?,
        };
        let entries = entries(plan)?;
        let mut credentials = Credentials::make(&all).context("making keys and certificates")?.with(&entry);
        credentials.given.extend(entries.values().flat_map(Entry::secrets).map(str::to_owned));
        Ok(Self {
            exe: std::env::current_exe().context("finding the hoptax binary")?,
            packs,
            run_directory: std::path::absolute(run_directory).context("finding the run directory")?,
            upstream: plan.upstream.clone(),
            target_path: plain_path(plan).to_owned(),
            profile: plan.profile,
            access_log: plan.access_log,
            path_split: plan.path_split,
            cpus: cpus::resolve(&plan.cpus, &allowed),
            allowed,
            connections: plan.load.iter().map(|point| point.connections).max().unwrap_or(1),
            events: plan.events.clone(),
            seed: plan.seed,
            interrupted: Arc::default(),
            credentials,
            entry,
            entries,
            private_directory: private_directory()?,
            features: all,
            tls_upstreams: Vec::new(),
            interceptions,
            namespace: None,
        })
    }

    /// The same driver with another `hoptax` binary than the running one.
    #[must_use]
    pub fn with_exe(mut self, exe: &Path) -> Self {
        exe.clone_into(&mut self.exe);
        self
    }

    /// The same driver, which gives up waiting for a gateway to become ready once `interrupted` is set.
    #[must_use]
    pub fn with_interrupt(mut self, interrupted: Arc<AtomicBool>) -> Self {
        self.interrupted = interrupted;
        self
    }

    /// The same driver, whose gateways with `upstream-tls` are sent to these addresses.
    #[must_use]
    pub fn with_tls_upstreams(mut self, addresses: Vec<SocketAddr>) -> Self {
        self.tls_upstreams = addresses;
        self
    }

    /// Keys, tokens and certificates of this run: an upstream that speaks TLS shows one of them.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// CPUs of each role; the generator's are for whoever starts it.
    pub fn cpus(&self) -> &CpuSets {
        &self.cpus
    }

    /// The namespace that the plan's sidecars need, made when it is first asked for. Without it everything else of the plan can
    /// still be measured, so that a failure is the sidecars' own.
    pub(super) fn make_namespace(&mut self) {
        if self.interceptions.is_empty() || self.namespace.is_some() {
            return;
        }
        let interceptions: Vec<_> = self.interceptions.values().copied().collect();
        self.namespace = Some(Namespace::make(&self.exe, &interceptions, &self.log_directory("namespace")));
    }

    /// The namespace, where there is one.
    pub(super) fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_ref()?.as_ref().ok()
    }

    pub(super) fn log_directory(&self, label: &str) -> PathBuf {
        self.run_directory.join("logs").join(label)
    }
}

impl Drop for ProcessDriver {
    fn drop(&mut self) {
        // Mostly it was never made.
        let _ = std::fs::remove_dir_all(&self.private_directory);
    }
}

/// How one is let in by the plan's gateways that already run, by label.
fn entries(plan: &Plan) -> anyhow::Result<BTreeMap<String, Entry>> {
    let external = plan.gateways.iter().filter_map(|gateway| match &gateway.kind {
        GatewayKind::External { access, .. } => Some((&gateway.label, access)),
        _ => None,
    });
    external
        .map(|(label, access)| {
            let entry = Entry::read(access).with_context(|| format!("gateway {label}"))?;
            Ok((label.clone(), entry))
        })
        .collect()
}

/// What each sidecar of the plan stands between, by its label.
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

/// A name for a directory that only its owner may read; it is made when something is written there.
fn private_directory() -> anyhow::Result<PathBuf> {
    let drawn =
        hoptax_load::random::Random::stream(hoptax_load::clock::unix(), u64::from(std::process::id()))
            .next_u64();
    Ok(std::env::temp_dir().join(format!("hoptax-{drawn:016x}")))
}

/// A path of the plan that can be asked for as it stands. Any answer says that somebody is there, so where all paths are
/// templates the root will do.
fn plain_path(plan: &Plan) -> &str {
    let paths = plan.targets.iter().map(|target| target.path.as_str());
    paths.into_iter().find(|path| !path.contains("{{")).unwrap_or("/")
}

/// A failure to start, with the last log lines of what was started.
pub(super) fn failed_to_start(message: impl Display, log_directory: &Path) -> Failure {
    Failure { stage: Stage::Start, message: message.to_string(), detail: logs::tails(log_directory) }
}
