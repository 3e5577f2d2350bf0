//! The hosts of a run, and what the run needs of them: a driver and traffic.

use super::driver::HostsDriver;
use super::host::Host;
use super::host_ref::{HostRef, Known};
use super::layout::{Layout, Seat, Starts};
use super::legs::{End, Legs};
use super::split::{self, GeneratorCpus};
use super::traffic::HostsTraffic;
use super::vantage::{Vantage, Vantages};
use crate::protocol::message::{Bytes, Prepare, Services};
use anyhow::{Context as _, anyhow, bail, ensure};
use hoptax_format::clock;
use hoptax_host::idle::Polling;
use hoptax_host::probe::fitness::{self, CPUS, Moment};
use hoptax_host::probe::leg::Messages;
use hoptax_lab::cpus::resolve_for;
use hoptax_lab::packs::{Pack, PackSet};
use hoptax_lab::process::{ProcessDriver, Secrets};
use hoptax_plan::{Body, BuiltInUpstream, CpuSets, GatewayKind, Idle, PathSplit, Plan, Upstream};
use hoptax_record::{Environment, Failure, HostLook, Leg, RunHost, bounded};
use hoptax_run::LocalTraffic;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

/// The host of each role.
#[derive(Debug, Clone)]
pub struct Hosts {
    /// Sends the load. With several generators, this is the first one. It also sends all requests that belong
    /// to no load, and the record of the run describes its machine.
    pub generator: HostRef,
    /// The other generators, if there are several.
    pub more_generators: Vec<HostRef>,
    /// The generators of loads that come from other hosts, by the name of the host in the plan. For the loads
    /// of a host, its first generator does what `generator` does otherwise.
    pub vantages: BTreeMap<String, Vec<HostRef>>,
    /// Runs the gateways.
    pub gateway: HostRef,
    /// Runs the upstream.
    pub upstream: HostRef,
}

/// What a run needs from its hosts.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The packs of the plan.
    pub packs: &'a PackSet,
    /// The `hoptax` binary of our own host, which acts as guard, upstream, hop and generator.
    pub exe: &'a Path,
    /// Directory of the run, on the runner's host.
    pub run_directory: &'a Path,
    /// Set by a signal.
    pub interrupted: Arc<AtomicBool>,
    /// Whether to report each second, for the live view.
    pub live: bool,
}

/// Hosts that are ready for a run.
#[derive(Debug)]
pub struct Ready {
    /// Starts services.
    pub driver: HostsDriver,
    /// Sends load.
    pub traffic: HostsTraffic,
    /// CPUs of the roles on the generator's machine. Roles on other machines have empty sets.
    pub cpus: CpuSets,
    /// CPUs of generators on our own host.
    pub busy: Vec<u32>,
    /// Description of the generator's machine.
    pub environment: Environment,
    /// The hosts, by name, for the record of the run.
    pub hosts: BTreeMap<String, RunHost>,
    /// Keeps idle CPUs of our own host polling.
    pub polling: Option<Polling>,
}

impl Hosts {
    /// The hosts of the generators that send loads from this host, the first one first. `None` for the role
    /// `generator`.
    pub(super) fn generators_of(&self, from: Option<&str>) -> Vec<&HostRef> {
        match from.and_then(|name| self.vantages.get(name)) {
            Some(generators) => generators.iter().collect(),
            None => std::iter::once(&self.generator).chain(&self.more_generators).collect(),
        }
    }

    /// The hosts of all generators, each once. Those of the role come first.
    pub(super) fn all_generators(&self) -> Vec<&HostRef> {
        let mut generators = self.generators_of(None);
        for host in self.vantages.values().flatten() {
            if generators.iter().all(|other| other.name() != host.name()) {
                generators.push(host);
            }
        }
        generators
    }

    /// The host of every role. A host with several roles is repeated.
    pub(super) fn all(&self) -> impl Iterator<Item = &HostRef> {
        self.all_generators().into_iter().chain([&self.gateway, &self.upstream])
    }

    /// Makes all hosts ready for a run.
    ///
    /// # Errors
    /// If a host cannot do what the plan needs, has no address although others must reach it, or is lost.
    pub fn prepare(&self, setup: Setup<'_>) -> anyhow::Result<Ready> {
        self.check(setup.plan, setup.packs)?;
        let known = self.known()?;
        let plan = self.with_possible_stamps(setup.plan, &known);
        let setup = Setup { plan: &plan, ..setup };
        let layout = self.layout(self.all_generators(), &known);
        all_addresses(&layout, &plan, &known)?;
        let secrets = Secrets::read(&plan)?;
        let needs = Needs { setup: &setup, layout: &layout, secrets: &secrets };
        let cpus = needs.cpus(&known[self.generator.name()])?;
        let vantages = self.vantages(&needs, &known)?;
        let own = self.all_generators().into_iter().find(|one| one.remote().is_none());
        let busy = own.map(|one| needs.cpus(&known[one.name()])).transpose()?.unwrap_or_default().generator;
        let Prepared { local, polling, hosts } = needs.prepare_all(&known)?;
        let remote: BTreeMap<_, _> =
            known.into_iter().filter_map(|(name, one)| Some((name, one.host?))).collect();
        Ok(Ready {
            driver: HostsDriver {
                gateway: self.gateway.remote().cloned(),
                upstream: self.upstream.remote().cloned(),
                local,
                interrupted: Arc::clone(&setup.interrupted),
                credentials: Arc::new(secrets.credentials.clone()),
                tls_upstreams: Vec::new(),
            },
            traffic: HostsTraffic {
                vantages,
                is_one_machine: layout.is_one_machine(),
                offsets_ns: remote.keys().map(|name| (name.clone(), clock::now())).collect(),
                hosts: remote,
                local: LocalTraffic::of(setup.exe).watched(setup.live),
                live: setup.live,
                legs: self.network(&plan),
            },
            cpus,
            busy,
            environment: hosts[self.generator.name()].environment.clone(),
            hosts,
            polling,
        })
    }

    /// The place of each role, if these generators send the load.
    fn layout(&self, generators: Vec<&HostRef>, known: &BTreeMap<String, Known>) -> Layout {
        let seat = |one: &HostRef| known[one.name()].seat.clone();
        Layout {
            generator: seat(generators[0]),
            more_generators: generators[1..].iter().map(|one| seat(one)).collect(),
            gateway: seat(&self.gateway),
            upstream: seat(&self.upstream),
        }
    }

    /// The plan, without the path split if no generator can use the upstream's stamps.
    fn with_possible_stamps(&self, plan: &Plan, known: &BTreeMap<String, Known>) -> Plan {
        let mut vantages = std::iter::once(None).chain(self.vantages.keys().map(|name| Some(name.as_str())));
        let is_split = vantages.any(|from| self.path_split(plan, known, from) == PathSplit::On);
        Plan { path_split: if is_split { PathSplit::On } else { PathSplit::Off }, ..plan.clone() }
    }

    /// Whether loads from this host split their path.
    fn path_split(&self, plan: &Plan, known: &BTreeMap<String, Known>, from: Option<&str>) -> PathSplit {
        if self.shares_clock(known, from) { plan.path_split } else { PathSplit::Off }
    }

    /// Where loads come from.
    fn vantages(&self, needs: &Needs<'_>, known: &BTreeMap<String, Known>) -> anyhow::Result<Vantages> {
        let vantage = |from: Option<&str>| -> anyhow::Result<Vantage> {
            let layout = self.layout(self.generators_of(from), known);
            let path_split = self.path_split(needs.setup.plan, known, from);
            let shares_clock = self.shares_clock(known, from);
            Ok(Vantage { cpus: needs.cpus_of_generators(&layout, known)?, layout, shares_clock, path_split })
        };
        let others = self.vantages.keys().map(|name| Ok((name.clone(), vantage(Some(name))?)));
        Ok(Vantages { of_role: vantage(None)?, others: others.collect::<anyhow::Result<_>>()? })
    }

    /// Whether the generators that send loads from this host have the same clock as the upstream. The path
    /// split and the ages of messages compare times of both clocks.
    fn shares_clock(&self, known: &BTreeMap<String, Known>, from: Option<&str>) -> bool {
        let clock = |one: &HostRef| known[one.name()].clock.as_ref();
        self.generators_of(from).into_iter().all(|one| {
            one.name() == self.upstream.name() || clock(one).is_some() && clock(one) == clock(&self.upstream)
        })
    }

    /// Refuses what works only on one host.
    fn check(&self, plan: &Plan, packs: &PackSet) -> anyhow::Result<()> {
        let is_one = self.all().all(|host| host.name() == self.generator.name());
        split::check_plan(plan, &|from| self.generators_of(from).len()).map_err(|text| anyhow!(text))?;
        let generators: Vec<&str> = self.generators_of(None).into_iter().map(HostRef::name).collect();
        let names: BTreeSet<&str> = generators.iter().copied().collect();
        ensure!(
            names.len() == generators.len(),
            "two generators have the same name: {}",
            generators.join(", ")
        );
        for gateway in &plan.gateways {
            let GatewayKind::Pack { pack, driver, .. } = &gateway.kind else { continue };
            let intercepts = packs.get(pack).is_some_and(|pack| pack.manifest().intercept.is_some());
            ensure!(
                is_one || !intercepts,
                "gateway {}: a sidecar intercepts the traffic of one host, so all roles must be on the same \
                host",
                gateway.label
            );
            ensure!(
                self.gateway.remote().is_none() || driver.git().is_none(),
                "gateway {}: hoptax builds commits only on its own host, and host {} is another one. Copy \
                 the program there, and name it with `binary`",
                gateway.label,
                self.gateway.name()
            );
        }
        Ok(())
    }

    /// The hosts, by name.
    fn known(&self) -> anyhow::Result<BTreeMap<String, Known>> {
        let mut known = BTreeMap::new();
        for one in self.all() {
            if !known.contains_key(one.name()) {
                known.insert(one.name().to_owned(), one.known()?);
            }
        }
        Ok(known)
    }

    /// Checks whether the host of the first generator is fit for measurements. `results` is the directory for
    /// results on our own host.
    pub fn look(&self, moment: Moment, results: &Path) -> Option<HostLook> {
        self.look_at(&self.generator, moment, results)
    }

    /// Checks at the same time whether the other hosts are fit for measurements. Hosts that are lost are
    /// missing.
    pub fn look_at_others(&self, moment: Moment, results: &Path) -> BTreeMap<String, HostLook> {
        let others = self.all().filter(|host| host.name() != self.generator.name());
        let named: BTreeMap<&str, &HostRef> = others.map(|host| (host.name(), host)).collect();
        thread::scope(|scope| {
            let start = |(name, host)| (name, scope.spawn(move || self.look_at(host, moment, results)));
            let looks: Vec<_> = named.into_iter().map(start).collect();
            let ended = looks.into_iter().map(|(name, look)| (name, look.join().expect("no look panics")));
            ended.filter_map(|(name, look)| Some((name.to_owned(), look?))).collect()
        })
    }

    /// Checks a host.
    pub(super) fn look_at(&self, host: &HostRef, moment: Moment, results: &Path) -> Option<HostLook> {
        let mut look = match host.remote() {
            Some(remote) => remote.fitness(moment),
            None => Some(fitness::at(moment, results)),
        }?;
        let machine = host.machine();
        if self.all().any(|other| other.machine() != machine) {
            // This check assumes that all roles are on one machine.
            look.items.retain(|item| item.name != CPUS);
        }
        Some(look)
    }

    /// The legs that the requests of this plan pass.
    fn network(&self, plan: &Plan) -> Legs {
        let end = |host: &HostRef| {
            let address = match host {
                HostRef::Local { address, .. } => *address,
                HostRef::Remote(remote) => remote.address(),
            };
            (host.name().to_owned(), End { address, host: host.remote().cloned() })
        };
        let starts = Starts::of(plan);
        let gateway = starts.gateway.then(|| self.gateway.name());
        let upstream = starts.upstream.then(|| self.upstream.name());
        let generators: Vec<&str> = self.all_generators().into_iter().map(HostRef::name).collect();
        Legs::new(self.all().map(end).collect(), &generators, gateway, upstream)
    }

    /// Measures the network between the hosts, in about two seconds for each leg. The hosts need not be ready
    /// for a run. The result is in `at_start` of each leg. `messages` has the lengths of the plan's requests
    /// and responses.
    pub fn legs(&self, plan: &Plan, messages: Messages) -> Vec<Leg> {
        self.network(plan).measure(messages)
    }

    /// Copies logs and rendered configurations of the other hosts to `hosts/<name>` below this directory.
    /// Must be called after all services have been stopped. Returns why files are missing.
    pub fn collect_files(&self, run_directory: &Path) -> Vec<Failure> {
        let hosts: BTreeMap<&str, &Arc<Host>> =
            self.all().filter_map(|one| Some((one.name(), one.remote()?))).collect();
        let collect = |(name, host): (&str, &Arc<Host>)| {
            host.collect_files(&run_directory.join("hosts").join(name)).err()
        };
        hosts.into_iter().filter_map(collect).collect()
    }
}

/// Refuses a plan if a host that others must reach has no address.
fn all_addresses(layout: &Layout, plan: &Plan, known: &BTreeMap<String, Known>) -> anyhow::Result<()> {
    for name in layout.dialled(Starts::of(plan)) {
        ensure!(
            known[name].address.is_some(),
            "host {name}: other hosts must reach it, so the plan must give its address: `address: 10.0.0.2`"
        );
    }
    Ok(())
}

/// Hosts that are ready to start services.
struct Prepared {
    /// The driver of our own host, if it has a role with services.
    local: Option<ProcessDriver>,
    polling: Option<Polling>,
    hosts: BTreeMap<String, RunHost>,
}

/// What the hosts of a run need.
struct Needs<'a> {
    setup: &'a Setup<'a>,
    /// All roles, with the generators of all vantage points.
    layout: &'a Layout,
    secrets: &'a Secrets,
}

impl Needs<'_> {
    /// Makes all hosts ready.
    fn prepare_all(&self, known: &BTreeMap<String, Known>) -> anyhow::Result<Prepared> {
        let (mut local, mut polling, mut hosts) = (None, None, BTreeMap::new());
        for (name, one) in known {
            match &one.host {
                Some(host) => self.prepare(one, host)?,
                None => (local, polling) = self.prepare_here(one)?,
            }
            let environment = Environment { idle: Some(self.idle(one)?), ..one.environment.clone() };
            let run_host = RunHost {
                roles: self.layout.roles_of(name),
                address: one.address,
                environment,
                clock_uncertainty_ns: one.clock_uncertainty_ns,
                ..RunHost::default()
            };
            hosts.insert(name.clone(), run_host);
        }
        Ok(Prepared { local, polling, hosts })
    }

    /// Makes a host with an agent ready.
    fn prepare(&self, one: &Known, host: &Host) -> anyhow::Result<()> {
        let services = if self.has_services(one) { Some(self.services(one)?) } else { None };
        let prepared = host.prepare(Prepare { idle: self.idle(one)?, services }, &self.setup.interrupted);
        prepared.map_err(|failure| anyhow!(failure.message))
    }

    /// Makes our own host ready.
    fn prepare_here(&self, one: &Known) -> anyhow::Result<(Option<ProcessDriver>, Option<Polling>)> {
        let polling = match self.idle(one)? {
            Idle::Poll => Some(Polling::begin().context("cannot make idle CPUs poll")?),
            Idle::Sleep => None,
        };
        if !self.has_services(one) {
            return Ok((None, polling));
        }
        let Setup { plan, packs, exe, run_directory, interrupted, .. } = self.setup;
        let secrets = self.secrets.clone();
        let driver = ProcessDriver::with_secrets(plan, (*packs).clone(), run_directory, secrets)?
            .with_exe(exe)
            .with_interrupt(Arc::clone(interrupted))
            .with_cpus(self.cpus(one)?)
            .with_address(one.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        driver.check_address().map_err(|failure| anyhow!("host {}: {}", one.seat.host, failure.message))?;
        Ok((Some(driver), polling))
    }

    fn is_gateway(&self, one: &Known) -> bool {
        self.layout.gateway.host == one.seat.host
    }

    fn is_upstream(&self, one: &Known) -> bool {
        self.layout.upstream.host == one.seat.host
    }

    fn has_services(&self, one: &Known) -> bool {
        self.is_gateway(one) || self.is_upstream(one)
    }

    /// What another host needs to start its services.
    fn services(&self, one: &Known) -> anyhow::Result<Services> {
        let (plan, secrets) = (self.setup.plan, self.secrets);
        let needs_secrets = self.is_gateway(one) && secrets.are_for_gateways(plan)
            || self.is_upstream(one) && secrets.are_for_upstream(plan);
        let upstream_body = match &plan.upstream {
            Upstream::BuiltIn(BuiltInUpstream { body: Body::File(path), .. }) if self.is_upstream(one) => {
                let body = bounded::read(path, bounded::BODY);
                Some(Bytes(body.with_context(|| format!("cannot read {}", path.display()))?))
            }
            _ => None,
        };
        Ok(Services {
            plan: plan.clone(),
            upstream_body,
            packs: if self.is_gateway(one) { own_packs(plan, self.setup.packs)? } else { BTreeMap::new() },
            cpus: self.cpus(one)?,
            address: one.address,
            secrets: needs_secrets.then(|| secrets.clone()),
        })
    }

    /// CPUs of the roles that this machine has in any load.
    fn cpus(&self, one: &Known) -> anyhow::Result<CpuSets> {
        let roles = self.layout.roles_on(&one.seat.machine);
        Ok(resolve_for(self.setup.plan, &one.allowed, self.idle(one)?, roles))
    }

    /// The CPUs of each generator of a vantage point. Generators on one machine divide the machine's CPUs for
    /// the role `generator`. These depend on the roles that the machine has in any load, so that a gateway
    /// has the same CPUs in all loads.
    fn cpus_of_generators(
        &self,
        vantage: &Layout,
        known: &BTreeMap<String, Known>,
    ) -> anyhow::Result<Vec<GeneratorCpus>> {
        let seats: Vec<&Seat> = vantage.generators().collect();
        let of = |index: usize| {
            let own = seats[index];
            let on_machine =
                |seats: &[&Seat]| seats.iter().filter(|seat| seat.machine == own.machine).count();
            let sets = self.cpus(&known[&own.host])?;
            let (before, all) = (on_machine(&seats[..index]), on_machine(&seats));
            Ok(split::on_one_machine(&sets, all).swap_remove(before))
        };
        (0..seats.len()).map(of).collect()
    }

    /// What idle CPUs of this host do during the run.
    fn idle(&self, one: &Known) -> anyhow::Result<Idle> {
        match self.setup.plan.idle {
            Some(Idle::Sleep) => Ok(Idle::Sleep),
            None if !one.can_poll => Ok(Idle::Sleep),
            Some(Idle::Poll) if !one.can_poll => bail!(
                "host {}: cannot make idle CPUs poll (`idle: poll`); log in as root, or write `idle: \
                auto`",
                one.seat.host
            ),
            _ => Ok(Idle::Poll),
        }
    }
}

/// Texts of the plan's packs that are not built in, or that differ from the built-in packs.
pub(super) fn own_packs(
    plan: &Plan,
    packs: &PackSet,
) -> anyhow::Result<BTreeMap<String, BTreeMap<String, String>>> {
    let built_in = PackSet::load(None)?;
    let names = plan.gateways.iter().filter_map(|gateway| match &gateway.kind {
        GatewayKind::Pack { pack, .. } => packs.get(pack),
        _ => None,
    });
    let own = names.filter(|pack| built_in.get(pack.name()).map(Pack::texts) != Some(pack.texts()));
    Ok(own.map(|pack| (pack.name().to_owned(), pack.texts())).collect())
}
