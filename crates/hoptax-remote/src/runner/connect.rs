//! Connects to the hosts of a plan.

use super::host::Host;
use super::host_ref::HostRef;
use super::hosts::{Hosts, own_packs};
use super::reach;
use crate::protocol::inspection::Inspection;
use crate::protocol::message::{Inspect, Request, RunId};
use anyhow::anyhow;
use hoptax_lab::descriptors::Descriptors;
use hoptax_lab::limits::{Limits, LoadLimits, RoleLimits};
use hoptax_lab::packs::PackSet;
use hoptax_plan::{LOCAL, Plan};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Time limit for looking at a host's gateways. Some version commands start a virtual machine first.
const INSPECT: Duration = Duration::from_secs(5 * 60);

impl Hosts {
    /// Connects to the hosts of a plan at the same time, and copies hoptax to those that need it. `exe` is
    /// the running program. `report` receives a message about each step that takes time.
    ///
    /// # Errors
    /// If a host cannot be reached, has another version of hoptax, or is used by another run.
    pub fn connect(
        plan: &Plan,
        exe: &Path,
        run: &RunId,
        report: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        let connected = connect_all(plan, exe, run, report)?;
        // Only a host with generators can be several machines.
        let of = |name: &String| connected[name.as_str()][0].clone();
        let roles = &plan.roles;
        let others = plan.generators().into_iter().skip(1);
        Ok(Self {
            vantages: others.map(|name| (name.to_owned(), connected[name].clone())).collect(),
            generator: of(&roles.generator),
            more_generators: connected[roles.generator.as_str()][1..].to_vec(),
            gateway: of(&roles.gateway),
            upstream: of(&roles.upstream),
        })
    }

    /// What each host has for a plan, by the host's name.
    ///
    /// # Errors
    /// If a host is lost.
    pub fn inspect(
        &self,
        plan: &Plan,
        packs: &PackSet,
        versions: bool,
    ) -> anyhow::Result<BTreeMap<String, Inspection>> {
        let mut found = BTreeMap::new();
        for one in self.all() {
            if found.contains_key(one.name()) {
                continue;
            }
            let inspection = match one.remote() {
                None => Inspection::here(plan, packs, versions),
                Some(host) => {
                    let packs = own_packs(plan, packs)?;
                    let inspect = Inspect { plan: plan.clone(), packs, versions };
                    let asked =
                        host.link().and_then(|link| link.ask(Request::Inspect(Box::new(inspect)), INSPECT));
                    asked.map_err(|failure| anyhow!(failure.message))?
                }
            };
            found.insert(one.name().to_owned(), inspection);
        }
        Ok(found)
    }

    /// The limits on the number of connections, from the results of [`Self::inspect`].
    pub fn limits(&self, found: &BTreeMap<String, Inspection>) -> LoadLimits {
        let of = |from| self.limits_of(found, from);
        let from = self.vantages.keys().map(|name| (name.clone(), of(Some(name)))).collect();
        LoadLimits { of_role: of(None), from }
    }

    /// The limits for loads from the host `from`, or from the host of the role `generator` if `from` is
    /// absent.
    fn limits_of(&self, found: &BTreeMap<String, Inspection>, from: Option<&str>) -> RoleLimits {
        let of = |host: &HostRef| found[host.name()].limits;
        let generators: Vec<Limits> = self.generators_of(from).into_iter().map(of).collect();
        let descriptors = Descriptors {
            generator: generators.iter().map(|one| one.descriptors).min().unwrap_or(0),
            generators: generators.len() as u64,
            gateway: of(&self.gateway).descriptors,
            upstream: of(&self.upstream).descriptors,
        };
        RoleLimits { descriptors, ports: generators.iter().filter_map(|one| one.ports).min() }
    }
}

/// Connects to every host of a plan at the same time, because a login to a distant host takes seconds.
/// Returns the machines of each host, by the host's name.
fn connect_all<'p>(
    plan: &'p Plan,
    exe: &Path,
    run: &RunId,
    report: &mut dyn FnMut(&str),
) -> anyhow::Result<BTreeMap<&'p str, Vec<HostRef>>> {
    let names: BTreeSet<&str> = plan.each_role().into_iter().map(|(_, name)| name).collect();
    let (sender, messages) = mpsc::channel::<String>();
    thread::scope(|scope| {
        let start = |name: &'p str| {
            let sender = sender.clone();
            let thread = scope.spawn(move || {
                connect(plan, name, exe, run, &mut |text| {
                    let _ = sender.send(text.to_owned());
                })
            });
            (name, thread)
        };
        let connecting: Vec<_> = names.into_iter().map(start).collect();
        // The messages end when the last thread has dropped its sender.
        drop(sender);
        messages.iter().for_each(|text| report(&text));
        let connected = connecting.into_iter().map(|(name, thread)| (name, thread.join()));
        connected.map(|(name, machines)| Ok((name, machines.expect("connecting does not panic")?))).collect()
    })
}

/// Connects to every machine of a host.
fn connect(
    plan: &Plan,
    name: &str,
    exe: &Path,
    run: &RunId,
    report: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<HostRef>> {
    let declared = plan.host(name);
    let Some(host) = declared.filter(|host| host.name != LOCAL) else {
        let address = declared.and_then(|host| host.address);
        return Ok(vec![HostRef::Local { name: name.to_owned(), address }]);
    };
    let mut machines = Vec::new();
    for (command, name) in reach::agents(host, exe, report)?.iter().zip(host.machine_names()) {
        let connected = Host::connect(&name, command, host.address, run);
        machines.push(HostRef::Remote(connected.map_err(|failure| anyhow!(failure.message))?));
    }
    Ok(machines)
}
