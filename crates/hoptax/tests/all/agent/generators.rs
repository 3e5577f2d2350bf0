//! Several generators: they begin together, their results add up, and if one is lost, only its trial fails.

use super::Silent;
use super::faults::assert_nothing_runs;
use super::gateways::Network;
use super::site::{Services, Site, closed, plan, run, signal};
use hoptax_format::clock;
use hoptax_format::record::{Counts, LoadRecord, Phase, PhaseLine, WINDOW_NS};
use hoptax_format::spec::{Arrivals, Rate, Shape};
use hoptax_plan::{LoadPoint, Plan};
use hoptax_record::dir::RunDir;
use hoptax_record::{GeneratorTrial, NetworkUsage, Role, TrialHost};
use hoptax_remote::protocol::RunId;
use hoptax_remote::runner::{Host, HostRef, Hosts, Ready};
use hoptax_run::{Loaded, Progress, TrialUpdate};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A run with these generators, whose gateway and upstream are on the host `services`.
fn hosts(generators: Vec<HostRef>, services: HostRef) -> Hosts {
    let mut generators = generators.into_iter();
    let generator = generators.next().expect("at least one");
    Hosts {
        generator,
        more_generators: generators.collect(),
        vantages: BTreeMap::new(),
        gateway: services.clone(),
        upstream: services,
    }
}

/// Hosts named `clients-1`, `clients-2` and so on, each with an agent at its own site.
fn clients(sites: &[Site]) -> Vec<HostRef> {
    let client =
        |(index, site): (usize, &Site)| HostRef::Remote(site.near(&format!("clients-{}", index + 1)));
    sites.iter().enumerate().map(client).collect()
}

pub(super) fn open(rate: f64, connections: u32, duration: Duration) -> LoadPoint {
    let shape = Shape::Open { rate: Rate::Fixed(rate), arrivals: Arrivals::Jitter(0.1) };
    LoadPoint { shape, ..LoadPoint::closed(connections, duration) }
}

fn prepare(site: &Site, plan: &Plan, hosts: &Hosts) -> Ready {
    site.try_prepare(plan, hosts).unwrap_or_else(|error| panic!("{error:#}"))
}

/// Fails unless the record is the sum of the generators.
#[track_caller]
fn assert_is_sum(record: &LoadRecord, generators: &[GeneratorTrial]) {
    let sum = |of: fn(&GeneratorTrial) -> u64| generators.iter().map(of).sum::<u64>();
    assert_eq!(record.counts.scheduled, sum(|one| one.counts.scheduled));
    assert_eq!(record.counts.completed, sum(|one| one.counts.completed));
    assert_eq!(record.completed_in_time, sum(|one| one.completed_in_time));
    assert_eq!(record.lifetime.sent, sum(|one| one.lifetime.sent));
    assert_eq!(record.connections.asked, sum(|one| one.connections.asked));
    assert_eq!(record.cpu.used_ns, sum(|one| one.cpu.used_ns));
    let mut times = record.histograms.response_time.decode().expect("readable");
    for one in generators {
        times.subtract(one.response_time.decode().expect("readable")).expect("a part of the sum");
    }
    assert!(times.is_empty(), "{} response times are of nobody", times.len());
    let in_windows: u64 = record.windows.iter().map(|window| window.completed).sum();
    assert_eq!(in_windows, record.completed_in_time);
    assert_eq!(record.windows.len() as u64, record.measured_ns.div_ceil(WINDOW_NS));
}

#[test]
fn two_and_three_generators_send_one_load() {
    for count in [2, 3] {
        let sites: Vec<Site> = (0..=count).map(|_| Site::new()).collect();
        let (lab, clients) = (sites[count].near("lab"), clients(&sites[..count]));
        let duration = Duration::from_millis(500);
        let plan = plan(open(600.0, 10, duration));
        let mut ready = prepare(&sites[0], &plan, &hosts(clients, HostRef::Remote(lab)));
        let roles = |name: &str| Role::names(&ready.hosts[name].roles, " ");
        assert_eq!((roles("clients-1"), roles("clients-2")), ("generator".into(), "generator".into()));
        assert_eq!(roles("lab"), "gateway upstream");

        let services = Services::start(&plan, &mut ready);
        let ledger = || services.upstream.ledger().expect("it has one").expect("readable");
        let before = ledger();
        let (mut phases, begun) = (Vec::new(), clock::now());
        let Loaded { record, usage, generators, failed } =
            services.load(&plan, &mut ready.traffic, &mut |update| match update {
                TrialUpdate::Phase(PhaseLine { phase, .. }) => phases.push(phase),
                other => panic!("only phases: {other:?}"),
            });
        assert_eq!(failed, None);
        let record = record.expect("measured");
        assert_eq!(phases.first(), Some(&Phase::Connecting));
        assert!(phases.ends_with(&[Phase::Measuring, Phase::Draining]) && phases.len() <= 4, "{phases:?}");
        let names: Vec<&str> = generators.iter().map(|one| one.host.as_str()).collect();
        assert_eq!(names, ["clients-1", "clients-2", "clients-3"][..count]);
        assert_is_sum(&record, &generators);
        // 600/s for 0.5 s, for any number of generators.
        assert_eq!(record.measured_ns, duration.as_nanos() as u64);
        assert_all_but_the_last(&record.counts, 300);
        for one in &generators {
            assert_eq!(one.counts.scheduled, 300 / count as u64, "equal shares");
            assert!(one.connections.asked.abs_diff(10 / count as u64) <= 1, "{:?}", one.connections);
            assert!(one.usage.as_ref().is_some_and(|usage| usage.cpu_ns > 0 && usage.processes == 1));
        }
        assert_eq!(ledger().since(&before).requests, record.lifetime.sent, "the upstream's own count");
        assert!((begun..clock::now()).contains(&record.started_ns));
        // All agents are on this machine, so the first generator samples all of them.
        let all = usage.generator.expect("sampled");
        assert_eq!(all.processes, count as u32);
        assert_eq!(
            all.cpu_ns,
            generators.iter().filter_map(|one| Some(one.usage.as_ref()?.cpu_ns)).sum::<u64>()
        );
        assert!(usage.gateway.is_some_and(|usage| usage.processes == 1 && usage.cpu_ns > 0));
        assert!(usage.upstream.is_some() && usage.network.is_some());
        let others: Vec<(&str, bool, bool)> = usage
            .hosts
            .iter()
            .map(|(name, TrialHost { usage, network, .. })| {
                (name.as_str(), usage.is_some(), network.is_some())
            })
            .collect();
        assert_eq!(others, [("clients-2", false, true), ("clients-3", false, true)][..count - 1]);
    }
}

#[test]
fn generators_with_different_clocks_begin_together() {
    let sites = [Site::new(), Site::new()];
    let Some(far) = sites[0].elsewhere("far") else { return };
    let plan = plan(closed(Duration::from_millis(400)));
    let services = sites[1].here();
    let mut ready = prepare(&sites[1], &plan, &hosts(vec![services.clone(), HostRef::Remote(far)], services));
    let services = Services::start(&plan, &mut ready);
    let begun = clock::now();
    let loaded = services.load(&plan, &mut ready.traffic, &mut |_| {});
    assert_eq!(loaded.failed, None);
    let record = loaded.record.expect("measured");
    assert_is_sum(&record, &loaded.generators);
    assert!((begun..clock::now()).contains(&record.started_ns), "on our clock: {}", record.started_ns);
    let late_ns =
        record.measured_ns - loaded.generators.iter().map(|one| one.measured_ns).max().expect("two");
    assert!(late_ns < 20 * clock::MILLISECOND, "the clocks are known to within {late_ns} ns");
    let names: Vec<&str> = loaded.generators.iter().map(|one| one.host.as_str()).collect();
    assert_eq!(names, ["here", "far"]);
    let far = &loaded.usage.hosts["far"];
    assert!(far.usage.as_ref().is_some_and(|usage| usage.idle < 1.0), "a machine of its own: {far:?}");
}

/// Checks that all requests were answered, except the last ones. On a busy machine, the load can end before
/// the last requests are sent or answered.
fn assert_all_but_the_last(counts: &Counts, scheduled: u64) {
    assert_eq!(
        (counts.scheduled, counts.ok + counts.in_flight + counts.unsent),
        (scheduled, scheduled),
        "{counts:?}"
    );
    assert!(counts.ok > scheduled / 2, "{counts:?}");
}

/// Number of connections that three generators open from networks of their own.
const FROM_NETWORKS: u32 = 600;

#[test]
fn generators_in_networks_of_their_own_have_ports_of_their_own() {
    let networks: Vec<Network> = (11..14).map_while(Network::make).collect();
    let [first, _, _] = &networks[..] else { return };
    let sites = [Site::new(), Site::new(), Site::new()];
    let run = RunId::new("networks");
    let client = |(index, (network, site)): (usize, (&Network, &Site))| {
        let command = site.command(&["ip", "netns", "exec", &network.name]);
        let host = Host::connect(&format!("clients-{}", index + 1), &command, Some(network.theirs), &run);
        HostRef::Remote(host.unwrap_or_else(|failure| panic!("{failure:#?}")))
    };
    let clients = networks.iter().zip(&sites).enumerate().map(client).collect();
    let here = HostRef::Local { name: "here".into(), address: Some(first.ours) };
    let plan = plan(open(600.0, FROM_NETWORKS, Duration::from_secs(1)));
    let mut ready = prepare(&sites[0], &plan, &hosts(clients, here));
    let services = Services::start(&plan, &mut ready);
    let loaded = services.load(&plan, &mut ready.traffic, &mut |_| {});
    assert_eq!(loaded.failed, None);
    let record = loaded.record.expect("measured");
    assert_is_sum(&record, &loaded.generators);
    assert_all_but_the_last(&record.counts, 600);
    assert_eq!(record.connections.established, u64::from(FROM_NETWORKS));
    let sent = |network: &Option<NetworkUsage>| network.as_ref().map_or(0, |one| one.segments_sent);
    let first = sent(&loaded.usage.network);
    let others = ["clients-2", "clients-3"].map(|name| sent(&loaded.usage.hosts[name].network));
    // A connection takes two segments or more, and a request at least one.
    for segments in [first, others[0], others[1]] {
        assert!(segments >= 200 * 3, "{first} {others:?}");
        assert!(segments < first + others[0] + others[1], "{first} {others:?}");
    }
}

#[test]
fn seconds_of_a_live_view_are_those_of_all_generators() {
    let sites = [Site::new(), Site::new()];
    let plan = plan(open(400.0, 4, Duration::from_millis(1200)));
    let hosts = hosts(clients(&sites), sites[0].here());
    let mut ready = sites[0].try_prepare_live(&plan, &hosts).unwrap_or_else(|error| panic!("{error:#}"));
    let services = Services::start(&plan, &mut ready);
    let mut lines = Vec::new();
    let loaded = services.load(&plan, &mut ready.traffic, &mut |update| {
        if let TrialUpdate::Second(line) = update {
            lines.push(line);
        }
    });
    let record = loaded.record.unwrap_or_else(|| panic!("{:?}", loaded.failed));
    assert_eq!(lines.iter().map(|line| line.second).collect::<Vec<_>>(), [0, 1], "{lines:?}");
    assert_eq!(lines.iter().map(|line| line.completed).sum::<u64>(), record.completed_in_time);
    assert!(lines.iter().all(|line| line.p50_ns <= line.p99_ns && line.p50_ns.is_some()), "{lines:?}");
}

#[test]
fn a_killed_generator_is_named_and_costs_only_its_trial() {
    let sites = [Site::new(), Site::new(), Site::new()];
    let plan = plan(closed(Duration::from_secs(60)));
    let lab = sites[2].near("lab");
    let hosts = hosts(clients(&sites[..2]), HostRef::Remote(lab));
    let mut ready = prepare(&sites[0], &plan, &hosts);
    let mut services = Services::start(&plan, &mut ready);
    let agent = sites[1].agent();
    let (mut killed, begun) = (None, Instant::now());
    let loaded = services.load(&plan, &mut ready.traffic, &mut |update| {
        if matches!(update, TrialUpdate::Phase(PhaseLine { phase: Phase::Measuring, .. })) {
            signal(agent, Signal::KILL);
            killed = Some(Instant::now());
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(40), "the load ended early");
    assert_nothing_runs(&sites[1], killed.expect("the load began"));
    let failure = loaded.failed.expect("a generator is lost");
    assert!(failure.message.starts_with("host clients-2: `env "), "{failure:?}");
    assert!(failure.message.contains("signal 9"), "{failure:?}");
    let kept = loaded.record.expect("what the other one measured is kept");
    assert!(kept.interrupted && kept.counts.completed > 0);
    assert_eq!(services.hop.check(), Ok(()), "the services work on");

    // The next load finds another agent there.
    let mut short = plan.clone();
    short.load = vec![closed(Duration::from_millis(200))];
    let again = services.load(&short, &mut ready.traffic, &mut |_| {});
    assert_eq!(again.failed, None);
    assert_eq!(again.generators.len(), 2);
    assert_is_sum(&again.record.expect("measured"), &again.generators);
}

#[test]
fn a_generator_that_cannot_connect_stops_the_others() {
    let sites = [Site::new(), Site::new()];
    let plan = plan(closed(Duration::from_secs(60)));
    let mut ready = prepare(&sites[0], &plan, &hosts(clients(&sites), sites[0].here()));
    let mut services = Services::start(&plan, &mut ready);
    services.hop.stop();
    let begun = Instant::now();
    let loaded = services.load(&plan, &mut ready.traffic, &mut |_| {});
    assert!(begun.elapsed() < Duration::from_secs(40), "the load ended early");
    let failure = loaded.failed.expect("nothing listens");
    assert!(failure.message.starts_with("host clients-"), "{failure:?}");
    assert!(failure.detail.contains("any of 2 connections"), "{failure:?}");
}

#[test]
fn a_run_with_several_generators_records_each() {
    let sites = [Site::new(), Site::new()];
    let plan = plan(open(1000.0, 4, Duration::from_millis(200)));
    let mut ready = prepare(&sites[0], &plan, &hosts(clients(&sites), sites[0].here()));
    let interrupted = AtomicBool::new(false);
    let mut run = run(&plan, &interrupted);
    run.cpus = ready.cpus.clone();
    let mut dir = RunDir::create(&sites[0].scratch.path().join("results"), "generators").expect("made");
    let outcome = run.run(&mut dir, &mut ready.driver, &mut ready.traffic, &mut Silent).expect("written");
    assert_eq!(outcome.measured, 3, "{:?}", outcome.ended);
    let mut read = hoptax_record::dir::Run::read(dir.path()).expect("readable");
    // With these hosts in its record, the run would also measure the network between them.
    read.record.hosts = ready.hosts;
    for trial in &read.trials {
        assert_eq!((&trial.failed, trial.generators.len()), (&None, 2));
        assert_is_sum(trial.load_record.as_ref().expect("measured"), &trial.generators);
        assert!(trial.network.is_some() && trial.hosts[&trial.generators[1].host].network.is_some());
    }
    let report = hoptax_report::Model::of(&read);
    let case = report.cases.iter().find(|case| case.gateway == "hop").expect("measured");
    let names: Vec<&str> = case.generators.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["clients-1", "clients-2"]);
    let samples: u64 = case.generators.iter().map(|one| one.response_time.samples).sum();
    assert_eq!(Some(samples), case.response_time.as_ref().map(|times| times.samples));
    assert!(case.generators.iter().all(|one| one.added_p50.is_some()), "{:?}", case.generators);
}

/// Kills an agent when the first trial is measured.
struct Killing {
    agent: Option<u32>,
}

impl Progress for Killing {
    fn update(&mut self, update: &TrialUpdate) {
        if matches!(update, TrialUpdate::Phase(PhaseLine { phase: Phase::Measuring, .. }))
            && let Some(agent) = self.agent.take()
        {
            signal(agent, Signal::KILL);
        }
    }
}

#[test]
fn a_lost_generator_does_not_end_the_run() {
    let sites = [Site::new(), Site::new()];
    let plan = plan(open(400.0, 4, Duration::from_millis(500)));
    let mut ready = prepare(&sites[0], &plan, &hosts(clients(&sites), sites[0].here()));
    let interrupted = AtomicBool::new(false);
    let mut run = run(&plan, &interrupted);
    // Without hosts in its record, the run does not measure the network between them.
    run.cpus = ready.cpus.clone();
    let mut dir = RunDir::create(&sites[0].scratch.path().join("results"), "lost").expect("made");
    let mut killing = Killing { agent: Some(sites[1].agent()) };
    let outcome = run.run(&mut dir, &mut ready.driver, &mut ready.traffic, &mut killing).expect("written");
    assert_eq!((outcome.measured, &outcome.ended.failed), (2, &None));
    let read = hoptax_record::dir::Run::read(dir.path()).expect("readable");
    let lost = read.trials[0].failed.as_ref().expect("a generator was killed");
    assert!(lost.message.starts_with("host clients-2: "), "{lost:?}");
    for trial in &read.trials[1..] {
        assert_eq!((&trial.failed, trial.generators.len()), (&None, 2));
    }
}

#[test]
fn a_load_that_cannot_be_divided_is_refused_before_anything_starts() {
    let sites = [Site::new(), Site::new()];
    let plan = plan(LoadPoint::closed(1, Duration::from_secs(1)));
    let error =
        sites[0].try_prepare(&plan, &hosts(clients(&sites), sites[0].here())).expect_err("1 connection");
    insta::assert_snapshot!(error);
}
