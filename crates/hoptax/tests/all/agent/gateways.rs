//! Real gateways on other hosts: features with secrets, events, packs of the user, profiles, and addresses.

use super::generators::open;
use super::site::{Services, Site, closed, hosts_of, plan, run, spec};
use super::{Silent, requests};
use crate::support::skip;
use crate::world::{pack_gateway, packs};
use hoptax_format::clock;
use hoptax_format::record::{Phase, PhaseLine};
use hoptax_host::profile::{Profiler, Span};
use hoptax_lab::Driver as _;
use hoptax_lab::packs::PackSet;
use hoptax_plan::{Action, Event, Feature, Gateway, Idle, Plan, RoutePosition};
use hoptax_record::Verified;
use hoptax_record::dir::RunDir;
use hoptax_record::profile::PassKind;
use hoptax_remote::protocol::RunId;
use hoptax_remote::runner::{Host, HostRef};
use hoptax_run::{Traffic as _, TrialUpdate, WatchedRoles};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn nginx(pack: &str, features: &[Feature]) -> Gateway {
    pack_gateway("gateway", pack, 1, features)
}

fn plan_of(gateway: Gateway, duration: Duration) -> Plan {
    Plan { gateways: vec![gateway], ..plan(closed(duration)) }
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut folders = vec![directory.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() { folders.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found
}

#[test]
fn features_are_proved_between_hosts_and_no_secret_is_kept() {
    let site = Site::new();
    needs!("nginx");
    let Some(lab) = site.elsewhere("lab") else { return };
    let client = site.near("client");
    let features = [Feature::KeyAuth, Feature::UpstreamTls, Feature::AccessLog];
    let plan = plan_of(nginx("nginx", &features), Duration::from_millis(300));
    let mut ready = site.prepare(&plan, HostRef::Remote(client), HostRef::Remote(Arc::clone(&lab)));
    let mut services = Services::start(&plan, &mut ready);
    let facts = services.hop.facts().clone();
    assert!(facts.version.is_some() && facts.rendered.contains_key("nginx.conf"), "{facts:?}");
    let (direct, via) = (services.upstream.endpoints(), services.hop.endpoints().remove(0));
    let asked = requests(&direct[0].to_string());
    let timeout = Duration::from_secs(10);
    let mut verify = |change| ready.traffic.verify(&asked, timeout, &direct, &via, change);
    assert_eq!(verify(&facts.change), Ok(Verified::default()));
    // A proof that cannot succeed: this gateway has no rate limit.
    let mut change = facts.change.clone();
    change.features.push(Feature::RateLimit { per_second: 5 });
    let failure = verify(&change).expect_err("nginx has no limit");
    assert!(failure.message.starts_with("host client: feature `rate-limit=5/s` "), "{failure:?}");

    let loaded = ready.traffic.load(
        None,
        &{
            let mut spec = spec(&plan, &*services.hop);
            facts.change.apply(&mut spec);
            spec
        },
        &services.watched(),
        &AtomicBool::new(false),
        &mut |_| {},
    );
    let record = loaded.record.unwrap_or_else(|| panic!("{:?}", loaded.failed));
    assert!(record.counts.ok > 0 && record.counts.ok == record.counts.completed, "{:?}", record.counts);

    let secrets = facts.change.credentials.as_ref().expect("it has keys").secrets();
    assert!(secrets.len() > 3);
    services.hop.stop();
    services.upstream.stop();
    let kept = site.scratch.path().join("kept");
    lab.collect_files(&kept).expect("copied");
    let names = files(&kept);
    let ends = |end: &str| names.iter().any(|path| path.ends_with(end));
    assert!(ends("rendered/gateway/nginx.conf") && ends("logs/gateway/access.log"), "{names:?}");
    let everything = files(site.scratch.path()).into_iter();
    for path in everything {
        let text = String::from_utf8_lossy(&std::fs::read(&path).expect("readable")).into_owned();
        assert!(!secrets.iter().any(|secret| text.contains(secret.as_str())), "{}", path.display());
    }
}

#[test]
fn events_reach_a_gateway_on_another_host() {
    let site = Site::new();
    needs!("nginx");
    let Some(lab) = site.elsewhere("lab") else { return };
    let client = site.near("client");
    let routes = Feature::Routes { count: 3, ask: RoutePosition::Last };
    let event = |at_ms, action| Event { at: Duration::from_millis(at_ms), action, gateway: None };
    let duration = Duration::from_millis(1500);
    let mut plan = plan_of(nginx("nginx", &[routes]), duration);
    plan.load = vec![open(400.0, 4, duration)];
    plan.events = vec![
        event(100, Action::Reload),
        event(300, Action::ChangeRoute { route: RoutePosition::Last }),
        event(600, Action::RestartUpstream { instance: 0, down: Duration::from_millis(50) }),
        event(900, Action::RestartGateway),
    ];
    let mut ready = site.prepare(&plan, HostRef::Remote(client), HostRef::Remote(lab));
    let interrupted = AtomicBool::new(false);
    let run = run(&plan, &interrupted);
    let mut dir = RunDir::create(&site.scratch.path().join("results"), "events").expect("a run directory");
    run.run(&mut dir, &mut ready.driver, &mut ready.traffic, &mut Silent).expect("written");
    let read = hoptax_record::dir::Run::read(dir.path()).expect("readable");
    let via = read.trials.iter().find(|trial| trial.contender == "gateway").expect("measured");
    assert_eq!(via.events.len(), 4, "{:?}", via.failed);
    for (event, planned) in via.events.iter().zip(&plan.events) {
        assert_eq!(event.failed, None, "{event:?}");
        let (at, done) = (event.at_ns.expect("it began"), event.done_ns.expect("it ended"));
        assert!(at >= planned.at.as_nanos() as u64 && done >= at && done < 60 * clock::SECOND, "{event:?}");
    }
    assert!(via.events[1].new_route.is_some(), "the client's host saw the new route: {:?}", via.events[1]);
}

#[test]
fn packs_of_the_user_travel_to_the_gateways_host() {
    let site = Site::new();
    needs!("nginx");
    let lab = site.near("lab");
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/feature-packs");
    let own = PackSet::load(Some(&directory)).expect("right");
    let plan = plan_of(nginx("nginx-full", &[]), Duration::from_secs(1));
    let (services, generator) = (HostRef::Remote(lab), site.here());
    let hosts = hosts_of(generator, services.clone(), services);
    let mut ready = site.try_prepare_with(&plan, &hosts, &own).expect("prepared");
    let services = Services::start(&plan, &mut ready);
    assert!(services.hop.facts().rendered.contains_key("nginx.conf"));

    // A gateway that cannot start: the error names the file where it will be after the run.
    let broken = site.scratch.path().join("packs");
    let text = std::fs::read_to_string(directory.join("nginx-full/gateway.yaml")).expect("readable");
    std::fs::create_dir_all(broken.join("broken")).expect("made");
    std::fs::write(broken.join("broken/gateway.yaml"), text.replace("name: nginx-full", "name: broken"))
        .expect("written");
    for entry in std::fs::read_dir(directory.join("nginx-full")).expect("readable").flatten() {
        if entry.file_name() != "gateway.yaml" {
            let text = std::fs::read_to_string(entry.path()).expect("readable");
            let text = text.replace("events {", "no_such_directive on;\nevents {");
            std::fs::write(broken.join("broken").join(entry.file_name()), text).expect("written");
        }
    }
    let own = PackSet::load(Some(&broken)).expect("right");
    let plan = plan_of(nginx("broken", &[]), Duration::from_secs(1));
    let third = Site::new();
    let lab = HostRef::Remote(third.near("lab"));
    let hosts = hosts_of(lab.clone(), lab.clone(), lab);
    let mut ready = third.try_prepare_with(&plan, &hosts, &own).expect("prepared");
    let upstream = ready.driver.start_upstream().expect("starts");
    let failure = ready.driver.start_gateway(&plan.gateways[0], &upstream.endpoints()).err();
    let failure = failure.expect("the directive is unknown");
    let named = "hosts/lab/rendered/gateway";
    assert!(failure.message.starts_with("host lab: "), "{failure:?}");
    assert!(failure.message.contains(named) && failure.detail.contains("no_such_directive"), "{failure:?}");

    let unknown = plan_of(nginx("nginx-full", &[]), Duration::from_secs(1));
    let other = Site::new();
    let lab = HostRef::Remote(other.near("lab"));
    let hosts = hosts_of(lab.clone(), lab.clone(), lab);
    let mut ready = other.try_prepare_with(&unknown, &hosts, &packs()).expect("prepared");
    let upstream = ready.driver.start_upstream().expect("starts");
    let failure = ready.driver.start_gateway(&unknown.gateways[0], &upstream.endpoints()).err();
    let failure = failure.expect("the pack was not sent");
    assert!(
        failure.message.starts_with("host lab: ") && failure.message.contains("`nginx-full`"),
        "{failure:?}"
    );
}

#[test]
fn stacks_are_recorded_on_the_gateways_host() {
    if let Err(error) = Profiler::find() {
        skip(format!("no profile: {error}"));
        return;
    }
    let site = Site::new();
    let lab = site.near("lab");
    let plan = plan(closed(Duration::from_millis(500)));
    let mut ready = site.prepare(&plan, site.here(), HostRef::Remote(lab));
    ready.driver.prepare_profiles();
    let services = Services::start(&plan, &mut ready);
    let gateway = services.hop.process().expect("watched");
    let profiling = services.hop.facts().profiling.clone();
    let recording = ready.traffic.record_stacks(gateway, PassKind::Cpu, &profiling);
    let recording = recording.unwrap_or_else(|failure| panic!("{failure:#?}"));
    let loaded = services.load(&plan, &mut ready.traffic, &mut |_| {});
    let record = loaded.record.expect("measured");
    let span = Span { from_ns: record.started_ns, to_ns: record.started_ns + record.measured_ns };
    let recorded = recording.finish(&[span]).unwrap_or_else(|failure| panic!("{failure:#?}"));
    assert!(recorded.stacks.samples > 0 && recorded.profiler.starts_with("perf version"), "{recorded:?}");
    assert!(!recorded.stacks.slices[0].is_empty(), "on the right clock");
}

/// A network namespace with its own address, connected to the test's namespace. It is removed when it is
/// dropped.
pub(super) struct Network {
    pub(super) name: String,
    pub(super) ours: IpAddr,
    pub(super) theirs: IpAddr,
}

impl Network {
    /// `None` if this user cannot create a network namespace. `number` must differ from the numbers in tests
    /// that run at the same time.
    #[track_caller]
    pub(super) fn make(number: u8) -> Option<Self> {
        let name = format!("hoptax-{}-{number}", std::process::id());
        let address = |last: u8| IpAddr::from([10, 213, number, last]);
        let (ours, theirs) = (address(1), address(2));
        let (near, far) = (format!("hx{number}n{}", std::process::id() % 10_000), format!("hx{number}f"));
        let made = ip(&format!("netns add {name}"))
            && ip(&format!("link add {near} type veth peer name {far} netns {name}"))
            && ip(&format!("addr add {ours}/24 dev {near}"))
            && ip(&format!("link set {near} up"))
            && ip(&format!("-n {name} addr add {theirs}/24 dev {far}"))
            && ip(&format!("-n {name} link set {far} up"))
            && ip(&format!("-n {name} link set lo up"))
            && ip(&format!("-n {name} route add default via {ours}"));
        let network = Self { name, ours, theirs };
        if !made {
            skip("network namespaces need root");
            return None;
        }
        Some(network)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.name));
    }
}

pub(super) fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn hosts_in_network_namespaces_have_addresses_and_counters_of_their_own() {
    let Some(network) = Network::make(1) else { return };
    let site = Site::new();
    let command = site.command(&["ip", "netns", "exec", &network.name]);
    let lab = Host::connect("lab", &command, Some(network.theirs), &RunId::new("networks"));
    let lab = lab.unwrap_or_else(|failure| panic!("{failure:#?}"));
    let here = HostRef::Local { name: "here".into(), address: Some(network.ours) };
    let plan = Plan { idle: Some(Idle::Sleep), ..plan(closed(Duration::from_millis(500))) };
    let mut ready = site.prepare(&plan, here, HostRef::Remote(lab));
    let services = Services::start(&plan, &mut ready);
    for service in [&services.upstream, &services.hop] {
        assert_eq!(service.addresses()[0].ip(), network.theirs);
    }
    let (direct, via) = (services.upstream.endpoints(), services.hop.endpoints().remove(0));
    let change = services.hop.facts().change.clone();
    let asked = requests("a");
    let verified = ready.traffic.verify(&asked, Duration::from_secs(10), &direct, &via, &change);
    assert_eq!(verified, Ok(Verified::default()));
    let loaded = services.load(&plan, &mut ready.traffic, &mut |_| {});
    assert_eq!(loaded.failed, None);
    let record = loaded.record.expect("measured");
    assert!(record.counts.ok > 0 && record.counts.ok == record.counts.completed, "{:?}", record.counts);
    // Both hosts are the same machine, so our sampler sees all processes. But each host has its own network
    // counters.
    assert!(loaded.usage.gateway.is_some_and(|gateway| gateway.cpu_ns > 0));
    let other = &loaded.usage.hosts["lab"];
    assert_eq!(other.usage, None);
    let sent =
        |usage: &Option<hoptax_record::NetworkUsage>| usage.as_ref().map_or(0, |one| one.segments_sent);
    // In this network, each answer of the hop takes a segment, and so does each request to its upstream.
    assert!(sent(&other.network) > record.counts.ok, "{other:?}");
    assert!(sent(&loaded.usage.network) > 0);
    let none = ready.traffic.look(&WatchedRoles::default());
    assert!(none.sample.is_some() && none.gateway_elsewhere.is_none());
}

/// CPU time of a process so far, in ticks of 10 ms.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
    fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime")
}

#[test]
fn an_agent_uses_hardly_any_cpu_while_its_services_are_loaded() {
    let (site, other) = (Site::new(), Site::new());
    let (lab, client) = (site.near("lab"), other.near("client"));
    let plan = plan(closed(Duration::from_secs(2)));
    let mut ready = other.prepare(&plan, HostRef::Remote(client), HostRef::Remote(lab));
    let services = Services::start(&plan, &mut ready);
    let agent = site.agent();
    let (mut begun, mut ended) = (None, None);
    services.load(&plan, &mut ready.traffic, &mut |update| match update {
        TrialUpdate::Phase(PhaseLine { phase: Phase::Measuring, .. }) => begun = Some(ticks(agent)),
        TrialUpdate::Phase(PhaseLine { phase: Phase::Draining, .. }) => ended = Some(ticks(agent)),
        _ => {}
    });
    let used = ended.expect("it ended") - begun.expect("it began");
    assert!(used <= 2, "{used} ticks of 10 ms in 2 s");
}
