//! Driver `process`: everything runs on this machine, each service under a guard of its own.

use super::packs::PackSet;
use super::{Driver, Service, cpus, logs};
use crate::plan::{AccessLog, CpuSets, Gateway, GatewayKind, HopKind, PathSplit, Plan, Profile, Upstream};
use crate::record::{Failure, Stage};
use anyhow::Context as _;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod built_in;
mod external;
mod gateway;
mod service;

/// Starts services as processes of this machine.
#[derive(Debug)]
pub struct ProcessDriver {
    /// The `hoptax` binary: guard, upstream and hops.
    exe: PathBuf,
    packs: PackSet,
    /// The run directory, absolute.
    run_directory: PathBuf,
    upstream: Upstream,
    /// Asked of what already runs, to see whether it answers.
    target_path: String,
    profile: Profile,
    access_log: AccessLog,
    path_split: PathSplit,
    cpus: CpuSets,
    /// The largest number of connections that the plan opens.
    connections: u32,
    seed: Option<u64>,
    interrupted: Arc<AtomicBool>,
}

impl ProcessDriver {
    /// A driver for `plan` that keeps rendered files and logs in `run_directory`.
    ///
    /// # Errors
    /// If the kernel does not tell which CPUs may be used, or where this program is.
    pub fn new(plan: &Plan, packs: PackSet, run_directory: &Path) -> anyhow::Result<Self> {
        let allowed = cpus::allowed().context("reading which CPUs may be used")?;
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
            connections: plan.load.iter().map(|point| point.connections).max().unwrap_or(1),
            seed: plan.seed,
            interrupted: Arc::default(),
        })
    }

    /// The same driver with another `hoptax` binary than the running one.
    #[must_use]
    pub fn with_exe(self, exe: &Path) -> Self {
        Self { exe: exe.to_owned(), ..self }
    }

    /// The same driver, which gives up waiting for a gateway to become ready once `interrupted` is set.
    #[must_use]
    pub fn with_interrupt(self, interrupted: Arc<AtomicBool>) -> Self {
        Self { interrupted, ..self }
    }

    /// CPUs of each role; the generator's are for whoever starts it.
    pub fn cpus(&self) -> &CpuSets {
        &self.cpus
    }

    fn log_directory(&self, label: &str) -> PathBuf {
        self.run_directory.join("logs").join(label)
    }
}

impl Driver for ProcessDriver {
    fn start_upstream(&mut self) -> Result<Box<dyn Service>, Failure> {
        match &self.upstream {
            Upstream::BuiltIn(upstream) => self.start_built_in(upstream),
            Upstream::Running { url } => external::attach(url, None, &self.target_path),
        }
    }

    fn start_gateway(
        &mut self,
        gateway: &Gateway,
        upstreams: &[SocketAddr],
    ) -> Result<Box<dyn Service>, Failure> {
        match &gateway.kind {
            GatewayKind::Pack { pack, workers, features } => {
                self.start_pack(&gateway.label, pack, *workers, features, upstreams)
            }
            GatewayKind::Hop(kind) => self.start_hop(&gateway.label, *kind, None, upstreams),
            GatewayKind::DelayingHop(delay) => {
                self.start_hop(&gateway.label, HopKind::L7, Some(delay), upstreams)
            }
            GatewayKind::External { url, pid } => external::attach(url, *pid, &self.target_path),
        }
    }
}

/// A path of the plan that can be asked for as it stands. Any answer says that somebody is there, so where all paths are
/// templates the root will do.
fn plain_path(plan: &Plan) -> &str {
    let paths = plan.targets.iter().map(|target| target.path.as_str());
    paths.into_iter().find(|path| !path.contains("{{")).unwrap_or("/")
}

/// A failure to start, with the last log lines of what was started.
fn failed_to_start(message: impl Display, log_directory: &Path) -> Failure {
    Failure { stage: Stage::Start, message: message.to_string(), detail: logs::tails(log_directory) }
}
