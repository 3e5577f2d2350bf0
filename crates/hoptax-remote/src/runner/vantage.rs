//! Vantage points: the hosts from which a plan sends its loads. Each has generators of its own; all use the
//! same gateways and the same upstream.

use super::generators::Generator;
use super::host::Host;
use super::layout::{Layout, Seat};
use super::split::{self, GeneratorCpus, split};
use hoptax_format::spec::LoadSpec;
use hoptax_plan::PathSplit;
use hoptax_record::{Failure, Stage};
use hoptax_run::WatchedRoles;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A host from which loads are sent.
#[derive(Debug, Clone)]
pub(super) struct Vantage {
    /// Where all roles run during these loads.
    pub(super) layout: Layout,
    /// The CPUs of each generator.
    pub(super) cpus: Vec<GeneratorCpus>,
    /// Whether generator and upstream have the same clock. Otherwise the ages of messages are not recorded.
    pub(super) shares_clock: bool,
    /// Off if generator and upstream have different clocks. Loads then expect no timestamps, even if the plan
    /// asks for them.
    pub(super) path_split: PathSplit,
}

/// All vantage points of a run.
#[derive(Debug)]
pub(super) struct Vantages {
    /// The host of the role `generator`. It also sends all requests that belong to no load.
    pub(super) of_role: Vantage,
    /// The hosts that loads name in `from`, by name.
    pub(super) others: BTreeMap<String, Vantage>,
}

impl Vantages {
    /// The vantage point of loads from this host; `None` for the host of the role `generator`. Fails if no
    /// load of the plan names the host.
    pub(super) fn get(&self, from: Option<&str>) -> Result<&Vantage, Failure> {
        let Some(from) = from else { return Ok(&self.of_role) };
        self.others.get(from).ok_or_else(|| {
            let message = format!("no load of the plan comes from host {from}, which is a bug of hoptax");
            Failure::new(Stage::Trial, message)
        })
    }
}

impl Vantage {
    /// The host of the first generator; `None` if it is our own.
    pub(super) fn generator(&self, hosts: &BTreeMap<String, Arc<Host>>) -> Option<Arc<Host>> {
        hosts.get(&self.layout.generator.host).cloned()
    }

    /// The generators, with their parts of a load. Empty if there is only one. Fails if the load is too small
    /// for them.
    pub(super) fn generators(
        &self,
        hosts: &BTreeMap<String, Arc<Host>>,
        spec: &LoadSpec,
        watched: &WatchedRoles,
    ) -> Result<Vec<Generator>, Failure> {
        let layout = &self.layout;
        if layout.more_generators.is_empty() {
            return Ok(Vec::new());
        }
        let parts = split(spec, &self.cpus).map_err(|message| Failure::new(Stage::Trial, message))?;
        let generator = |(index, (seat, spec)): (usize, (&Seat, LoadSpec))| {
            let samples =
                |role: &Seat| role.machine == seat.machine && layout.is_sampled_by(&seat.machine, index);
            Generator {
                name: seat.host.clone(),
                host: hosts.get(&seat.host).cloned(),
                spec,
                roles: WatchedRoles {
                    upstream: watched.upstream.filter(|_| samples(&layout.upstream)),
                    gateway: watched.gateway.filter(|_| samples(&layout.gateway)),
                },
                is_first_on_machine: layout.is_sampled_by(&seat.machine, index),
            }
        };
        Ok(layout.generators().zip(parts).enumerate().map(generator).collect())
    }

    /// The roles whose processes the first generator's host sees.
    pub(super) fn near(&self, roles: &WatchedRoles) -> WatchedRoles {
        WatchedRoles {
            upstream: roles.upstream.filter(|_| self.layout.upstream_is_near()),
            gateway: roles.gateway.filter(|_| self.layout.gateway_is_near()),
        }
    }

    /// The load with the CPUs of this vantage point's generator, if it has only one. `spec` has the CPUs of
    /// the role's generator.
    pub(super) fn on_own_cpus(&self, spec: &LoadSpec) -> LoadSpec {
        match &self.cpus[..] {
            [own] => split::whole(spec, own),
            // Each of several generators gets its own CPUs with its part.
            _ => spec.clone(),
        }
    }

    /// The hosts without a generator that take part in these loads, by name.
    pub(super) fn services<'h>(
        &self,
        hosts: &'h BTreeMap<String, Arc<Host>>,
    ) -> impl Iterator<Item = &'h Arc<Host>> {
        let has_generator = |name: &str| self.layout.generators().any(|seat| seat.host == name);
        let mut names = vec![&self.layout.gateway.host, &self.layout.upstream.host];
        names.dedup();
        names.retain(|name| !has_generator(name));
        names.into_iter().filter_map(|name| hosts.get(name)).collect::<Vec<_>>().into_iter()
    }

    /// All hosts that take part in these loads, by name.
    pub(super) fn hosts<'h>(
        &self,
        hosts: &'h BTreeMap<String, Arc<Host>>,
    ) -> impl Iterator<Item = (&'h String, &'h Arc<Host>)> {
        let names: Vec<String> = self.layout.hosts().map(str::to_owned).collect();
        hosts.iter().filter(move |(name, _)| names.contains(name))
    }
}
