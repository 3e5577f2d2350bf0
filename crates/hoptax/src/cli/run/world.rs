//! Where a run takes place: on this machine, or on the hosts of the plan.

use anyhow::Context as _;
use hoptax_history::learned_shares;
use hoptax_host::idle::Polling;
use hoptax_host::probe::fitness::{self, Moment};
use hoptax_host::{kept_shares, probe};
use hoptax_lab::Driver;
use hoptax_lab::process::ProcessDriver;
use hoptax_plan::{CpuSets, Idle, Plan};
use hoptax_record::{Environment, HostLook, RunHost, Shares};
use hoptax_remote::runner::{Hosts, Setup};
use hoptax_run::{LocalTraffic, Traffic};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The driver, the traffic and the machines of a run. Dropping this value lets idle CPUs sleep again.
pub(super) struct World {
    pub(super) driver: Box<dyn Driver>,
    pub(super) traffic: Box<dyn Traffic>,
    /// CPUs of the roles on the generator's machine.
    pub(super) cpus: CpuSets,
    /// The generator's machine.
    pub(super) environment: Environment,
    /// The hosts, by name. Empty if all roles are on this machine.
    pub(super) hosts: BTreeMap<String, RunHost>,
    /// CPUs of a generator on this machine, which this program's own threads avoid.
    pub(super) busy: Vec<u32>,
    _polling: Option<Polling>,
}

impl World {
    /// The world of a plan. Without hosts, all roles are on this machine.
    pub(super) fn new(hosts: Option<&Hosts>, setup: Setup<'_>) -> anyhow::Result<Self> {
        let Some(hosts) = hosts else { return Self::here(&setup) };
        let ready = hosts.prepare(setup)?;
        Ok(Self {
            driver: Box::new(ready.driver),
            traffic: Box::new(ready.traffic),
            busy: ready.busy,
            cpus: ready.cpus,
            environment: ready.environment,
            hosts: ready.hosts,
            _polling: ready.polling,
        })
    }

    /// How much separate runs of the plan scatter here. Earlier runs in the directory `results` show it.
    /// Shares of one machine do not apply to several hosts.
    pub(super) fn shares(&self, plan: &Plan, results: &Path) -> Shares {
        if !self.hosts.is_empty() {
            return Shares::BUILT_IN;
        }
        match learned_shares(results, plan, &self.environment) {
            Ok(Some((learned, runs))) => keep(&self.environment, learned, runs),
            Ok(None) => shares_of(&self.environment),
            Err(error) => {
                eprintln!("warning: cannot learn from earlier runs how much runs scatter: {error}");
                shares_of(&self.environment)
            }
        }
    }

    /// All roles are on this machine.
    fn here(setup: &Setup<'_>) -> anyhow::Result<Self> {
        let polling = polling(setup.plan)?;
        let idle = if polling.is_some() { Idle::Poll } else { Idle::Sleep };
        let driver = ProcessDriver::new(setup.plan, setup.packs.clone(), setup.run_directory)?
            .with_interrupt(Arc::clone(&setup.interrupted))
            .with_idle(setup.plan, idle);
        let traffic = LocalTraffic::new()
            .context("cannot find the running hoptax program; was its file moved or removed?")?;
        let cpus = driver.cpus().clone();
        // If the generator and the upstream share CPUs, the other CPUs may all belong to the gateway. Then
        // this program's threads may use all CPUs.
        let busy = if cpus.generator == cpus.upstream { Vec::new() } else { cpus.generator.clone() };
        Ok(Self {
            driver: Box::new(driver),
            traffic: Box::new(traffic.watched(setup.live)),
            cpus,
            environment: probe::environment(idle),
            hosts: BTreeMap::new(),
            busy,
            _polling: polling,
        })
    }
}

/// The shares of scatter that are kept for this machine. If they cannot be read, prints a warning and returns
/// those of hoptax.
pub(in crate::cli) fn shares_of(environment: &Environment) -> Shares {
    let Some(file) = kept_shares::file() else { return Shares::BUILT_IN };
    kept_shares::read(&file, environment).unwrap_or_else(|error| {
        eprintln!("warning: {error:#}; intervals use the built-in shares of scatter");
        Shares::BUILT_IN
    })
}

/// Keeps shares that `runs` earlier runs show, and returns the shares that hold now. If they cannot be kept,
/// prints a warning.
fn keep(environment: &Environment, learned: Shares, runs: u32) -> Shares {
    let Some(file) = kept_shares::file() else { return learned };
    kept_shares::learn(&file, environment, learned.clone(), runs).unwrap_or_else(|error| {
        eprintln!("warning: {error:#}; only this run uses the scatter of earlier runs");
        learned
    })
}

/// Makes idle CPUs poll until the returned value is dropped, unless the plan has `idle: sleep`. If the plan
/// says nothing about idle CPUs, a failure is not an error. The run then measures with CPUs that sleep, and
/// its record says so.
pub(in crate::cli) fn polling(plan: &Plan) -> anyhow::Result<Option<Polling>> {
    match plan.idle {
        Some(Idle::Sleep) => Ok(None),
        None => Ok(Polling::begin().ok()),
        Some(Idle::Poll) => Polling::begin()
            .map(Some)
            .context("cannot make idle CPUs poll (`idle: poll`); run as root, or write `idle: auto`"),
    }
}

/// Path of the running program.
pub(in crate::cli) fn this_program() -> anyhow::Result<std::path::PathBuf> {
    std::env::current_exe().context("cannot find the running hoptax program; was its file moved or removed?")
}

/// Checks whether the generator's machine is fit for measurements.
pub(super) fn look(hosts: Option<&Hosts>, moment: Moment, results: &Path) -> Option<HostLook> {
    match hosts {
        None => Some(fitness::at(moment, results)),
        Some(hosts) => hosts.look(moment, results),
    }
}

/// Checks the other machines.
pub(super) fn look_at_others(
    hosts: Option<&Hosts>,
    moment: Moment,
    results: &Path,
) -> BTreeMap<String, HostLook> {
    hosts.map(|hosts| hosts.look_at_others(moment, results)).unwrap_or_default()
}
