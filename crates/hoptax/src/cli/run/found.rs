//! Inspects the machines of a run before the run starts: installed gateways, limits, and the profiler.

use super::world::this_program;
use anyhow::Context as _;
use hoptax_host::profile::Profiler;
use hoptax_host::programs;
use hoptax_lab::limits::{LoadLimits, RoleLimits};
use hoptax_lab::packs::PackSet;
use hoptax_plan::Plan;
use hoptax_remote::machines::{self, Setup, Up};
use hoptax_remote::protocol::{Inspection, RunId};
use hoptax_remote::runner::Hosts;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// The hosts of a plan. Dropping it ends the agents, and removes the machines and pods that were created.
pub(in crate::cli) struct Connected {
    // Fields are dropped in this order: the agents end before their machines are gone.
    /// `None` if everything is on this machine.
    pub(in crate::cli) hosts: Option<Hosts>,
    up: Up,
}

/// Connects to the hosts of a plan. Creates those that do not exist yet. `interrupted` is set by a signal.
/// Fails if a host cannot be found, created or reached, or a signal arrives.
pub(in crate::cli) fn connect(plan: &Plan, interrupted: &AtomicBool) -> anyhow::Result<Connected> {
    if plan.is_local() {
        return Ok(Connected { hosts: None, up: Up::default() });
    }
    let mut report = |what: &str| eprintln!("{what}");
    let up =
        machines::up(&Setup { plan, home: &home()?, interrupted, progress: &|line| eprintln!("{line}") })?;
    anyhow::ensure!(!interrupted.load(Ordering::Relaxed), "interrupted; nothing was measured");
    let hosts = Hosts::connect(&up.located(plan), &this_program()?, &RunId::new(&plan.name), &mut report)?;
    Ok(Connected { hosts: Some(hosts), up })
}

/// Directory for hoptax's data about the hosts that it creates.
pub(in crate::cli) fn home() -> anyhow::Result<PathBuf> {
    programs::data_directory().context("no directory for hoptax's data: set HOME or HOPTAX_HOME")
}

impl Connected {
    /// The plan with the hosts that were found. If all roles are on this machine, this is the plan itself.
    pub(in crate::cli) fn located(&self, plan: &Plan) -> Plan {
        if self.hosts.is_some() { self.up.located(plan) } else { plan.clone() }
    }

    /// Ends the agents, and removes what was created. Fails if something cannot be removed. The error says
    /// what remains, and how to remove it.
    pub(in crate::cli) fn end(mut self) -> anyhow::Result<()> {
        self.hosts = None;
        self.up.end(&|line| eprintln!("{line}"))
    }
}

/// Result of the inspection.
pub(super) struct Found {
    /// Result for the machine of the gateways.
    pub(super) gateways: Inspection,
    /// The limits of all machines on the number of connections.
    pub(super) limits: LoadLimits,
    /// Where the gateways run, for messages: ` on host edge`. Empty for this machine.
    place: String,
}

impl Found {
    pub(super) fn look(hosts: Option<&Hosts>, plan: &Plan, packs: &PackSet) -> anyhow::Result<Self> {
        let Some(hosts) = hosts else {
            let gateways = Inspection::here(plan, packs, false);
            let limits = RoleLimits::on_one_machine(gateways.limits).into();
            return Ok(Self { limits, gateways, place: String::new() });
        };
        let mut found = hosts.inspect(plan, packs, false)?;
        let limits = hosts.limits(&found);
        let gateways = found.remove(hosts.gateway.name()).expect("every host is inspected");
        let place = match hosts.gateway.remote() {
            Some(host) => format!(" on host {}", host.name()),
            None => String::new(),
        };
        Ok(Self { gateways, limits, place })
    }

    /// Fails if a gateway of the plan is not installed.
    pub(super) fn all_installed(&self, plan: &Plan) -> anyhow::Result<()> {
        let one = |(name, ways): (&str, &[String])| format!("  {name}\n    {}", ways.join("\n    "));
        let missing: Vec<String> = self.gateways.missing(plan).into_iter().map(one).collect();
        anyhow::ensure!(
            missing.is_empty(),
            "these gateways are not installed{}:\n{}\nhelp: install them, or leave them out with \
             --skip-missing. If one is installed in another place, add its directory to PATH. If one runs \
             already, name it as `external`",
            self.place,
            missing.join("\n")
        );
        Ok(())
    }

    /// Checks before the run that stacks and switches can be recorded after it, if the plan needs them. Fails
    /// if they cannot be recorded.
    pub(super) fn can_profile(&self, plan: &Plan) -> anyhow::Result<()> {
        if plan.tail.is_some() {
            let profiler = Profiler::find().and_then(|profiler| profiler.can_record_switches());
            profiler.context("cannot explain slow requests")?;
        }
        match &self.gateways.profiler {
            Some(Err(error)) => anyhow::bail!("cannot record stacks{}: {error}", self.place),
            Some(Ok(false)) => eprintln!(
                "note: profiles will lack the kernel's functions and the reasons for waiting, because \
                 kernel.perf_event_paranoid is above 1{}; run as root to see them",
                self.place
            ),
            Some(Ok(true)) | None => {}
        }
        Ok(())
    }
}
