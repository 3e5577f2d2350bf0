//! Connects to the hosts of a plan.

use super::host::Host;
use super::hosts::{HostRef, Hosts, own_packs};
use super::inspection::Inspection;
use super::message::{Inspect, Request, RunId};
use super::reach;
use anyhow::{anyhow, ensure};
use hoptax_lab::limits::Limits;
use hoptax_lab::packs::PackSet;
use hoptax_plan::{LOCAL, Plan};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Time limit for looking at a host's gateways. Some version commands start a virtual machine first.
const INSPECT: Duration = Duration::from_secs(5 * 60);

impl Hosts {
    /// Connects to the hosts of a plan, and copies hoptax to those that need it. `exe` is the running program. `report` receives
    /// what takes time.
    ///
    /// # Errors
    /// If a host cannot be reached, has another version of hoptax, or is used by another run.
    pub fn connect(
        plan: &Plan,
        exe: &Path,
        run: &RunId,
        report: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        let mut connected = BTreeMap::new();
        for (_, name) in plan.roles.each() {
            if !connected.contains_key(name) {
                connected.insert(name, connect(plan, name, exe, run, report)?);
            }
        }
        let of = |name: &String| connected[name.as_str()].clone();
        let roles = &plan.roles;
        Ok(Self {
            generator: of(&roles.generator),
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
        for one in [&self.generator, &self.gateway, &self.upstream] {
            if found.contains_key(one.name()) {
                continue;
            }
            let inspection = match one.remote() {
                None => Inspection::here(plan, packs, versions),
                Some(host) => {
                    let packs = own_packs(plan, packs)?;
                    let inspect = Inspect { plan: plan.into(), packs, versions };
                    let asked =
                        host.link().and_then(|link| link.ask(Request::Inspect(Box::new(inspect)), INSPECT));
                    asked.map_err(|failure| anyhow!(failure.message))?
                }
            };
            found.insert(one.name().to_owned(), inspection);
        }
        Ok(found)
    }

    /// The limits on connections, from what [`Self::inspect`] has found: the ports of the generator's host, and the
    /// descriptors of the host that has the fewest.
    pub fn limits(&self, found: &BTreeMap<String, Inspection>) -> Limits {
        let descriptors = found.values().map(|one| one.limits.descriptors).min().unwrap_or(0);
        Limits { descriptors, ports: found[self.generator.name()].limits.ports }
    }
}

fn connect(
    plan: &Plan,
    name: &str,
    exe: &Path,
    run: &RunId,
    report: &mut dyn FnMut(&str),
) -> anyhow::Result<HostRef> {
    let declared = plan.host(name);
    let Some(host) = declared.filter(|host| host.name != LOCAL) else {
        let address = declared.and_then(|host| host.address);
        return Ok(HostRef::Local { name: name.to_owned(), address });
    };
    let commands = reach::agents(host, exe, report)?;
    ensure!(commands.len() == 1, "host {name}: several generators are not supported yet");
    let connected = Host::connect(&reach::name_of(host, 0), &commands[0], host.address, run);
    Ok(HostRef::Remote(connected.map_err(|failure| anyhow!(failure.message))?))
}
