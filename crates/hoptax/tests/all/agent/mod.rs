//! Agents: roles of a run on hosts that are reached by a command.

mod faults;
mod gateways;
mod generators;
mod legs;
mod raw;
mod site;
mod vantages;

use crate::world::exe;
use hoptax_format::clock;
use hoptax_format::record::{Phase, PhaseLine};
use hoptax_format::spec::TargetSpec;
use hoptax_format::stamp;
use hoptax_lab::first_requests::FirstRequests;
use hoptax_lab::verify::{self, Requests};
use hoptax_plan::{PathSplit, Plan};
use hoptax_record::dir::RunDir;
use hoptax_record::{Role, Verified};
use hoptax_remote::protocol::RunId;
use hoptax_remote::runner::{Host, HostRef, Hosts};
use hoptax_run::{FirstLoaded, Progress, Traffic as _, TrialUpdate};
use site::{AHEAD_NS, Services, Site, closed, plan, run};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

fn requests(address: &str) -> Requests {
    let headers = vec![("host".to_owned(), address.to_owned())];
    TargetSpec::only("GET", "/", headers, Vec::new()).into()
}

#[test]
fn load_from_one_agent_to_services_of_another_adds_up() {
    let site = Site::new();
    let (client, lab) = (site.near("client"), site.near("lab"));
    let mut load = closed(Duration::from_secs(60));
    load.requests = Some(500);
    let plan = plan(load);
    let mut ready = site.prepare(&plan, HostRef::Remote(client), HostRef::Remote(Arc::clone(&lab)));
    let roles: Vec<_> =
        ready.hosts.iter().map(|(name, host)| (name.as_str(), Role::names(&host.roles, " "))).collect();
    assert_eq!(roles, [("client", "generator".to_owned()), ("lab", "gateway upstream".to_owned())]);

    let services = Services::start(&plan, &mut ready);
    let (direct, via) = (services.upstream.endpoints(), services.hop.endpoints().remove(0));
    let asked = requests(&direct[0].to_string());
    let change = services.hop.facts().change.clone();
    let verified = ready.traffic.verify(&asked, Duration::from_secs(10), &direct, &via, &change);
    assert_eq!(verified, Ok(Verified::default()));

    let ledger = || services.upstream.ledger().expect("it has one").expect("readable");
    let before = ledger();
    let mut phases = Vec::new();
    let loaded = services.load(&plan, &mut ready.traffic, &mut |update| match update {
        TrialUpdate::Phase(PhaseLine { phase, .. }) => phases.push(phase),
        other => panic!("only phases: {other:?}"),
    });
    assert_eq!(loaded.failed, None);
    let record = loaded.record.expect("measured");
    assert_eq!((record.counts.completed, record.counts.ok), (500, 500));
    assert_eq!(ledger().since(&before).requests, 500, "the upstream's own count");
    assert_eq!(phases.first(), Some(&Phase::Connecting));
    assert!(phases.ends_with(&[Phase::Measuring, Phase::Draining]), "{phases:?}");
    // Both agents are on this machine, so the generator's agent samples all roles.
    for (role, usage) in [("gateway", &loaded.usage.gateway), ("upstream", &loaded.usage.upstream)] {
        assert!(
            usage.as_ref().is_some_and(|usage| usage.processes == 1 && usage.cpu_ns > 0),
            "{role}: {usage:?}"
        );
    }
    assert!(loaded.usage.network.is_some() && loaded.usage.hosts.is_empty(), "{:?}", loaded.usage.hosts);
}

#[test]
fn a_host_with_another_clock_samples_its_own_roles() {
    let site = Site::new();
    let Some(lab) = site.elsewhere("lab") else { return };
    let client = site.near("client");
    assert_ne!(lab.welcome().machine, client.welcome().machine);
    let offset = lab.link().expect("connected").offset();
    let error = offset.ns.cast_unsigned().abs_diff(AHEAD_NS);
    assert!(error <= offset.uncertainty_ns && offset.uncertainty_ns < clock::SECOND, "{offset:?}");

    let plan = plan(closed(Duration::from_millis(600)));
    let mut ready = site.prepare(&plan, HostRef::Remote(client), HostRef::Remote(Arc::clone(&lab)));
    let begun = clock::now();
    let mut services = Services::start(&plan, &mut ready);
    let started = services.hop.began_ns().expect("a process of hoptax");
    assert!((begun..clock::now() + offset.uncertainty_ns).contains(&started), "on our clock: {started}");
    let loaded = services.load(&plan, &mut ready.traffic, &mut |_| {});
    assert_eq!(loaded.failed, None);
    let record = loaded.record.expect("measured");
    assert!(record.counts.completed > 0);
    let windows = record.measured_ns.div_ceil(100 * clock::MILLISECOND) as usize;
    for (role, usage) in [("gateway", &loaded.usage.gateway), ("upstream", &loaded.usage.upstream)] {
        let usage = usage.as_ref().unwrap_or_else(|| panic!("{role} was sampled"));
        assert!(
            usage.processes == 1 && usage.cpu_ns > 0 && usage.busy_threads.is_some(),
            "{role}: {usage:?}"
        );
        let loaded = usage.cpu_ns_by_window.iter().filter(|ns| **ns > 0).count();
        assert_eq!(usage.cpu_ns_by_window.len(), windows, "{role}");
        assert!(loaded + 1 >= windows, "{role} worked in nearly every window: {:?}", usage.cpu_ns_by_window);
    }
    let host = &loaded.usage.hosts["lab"];
    assert_eq!(host.roles, [Role::Gateway, Role::Upstream]);
    let usage = host.usage.as_ref().expect("a machine of its own");
    assert!(usage.idle < 1.0 && usage.steal_by_window.len() == windows, "{usage:?}");
    assert!(host.network.as_ref().is_some_and(|network| network.segments_sent > 0), "{host:?}");
    services.hop.stop();
    assert!(services.hop.check().is_err(), "it was stopped");
    assert_eq!(services.upstream.check(), Ok(()));
}

#[test]
fn a_generator_on_a_host_with_another_clock_reports_on_our_clock() {
    let site = Site::new();
    let Some(client) = site.elsewhere("client") else { return };
    let plan = plan(closed(Duration::from_millis(500)));
    let mut ready = site.prepare(&plan, HostRef::Remote(client), site.here());
    let services = Services::start(&plan, &mut ready);
    let (begun, mut measuring) = (clock::now(), None);
    let loaded = services.load(&plan, &mut ready.traffic, &mut |update| {
        if let TrialUpdate::Phase(PhaseLine { phase: Phase::Measuring, at_ns }) = update {
            measuring = Some(at_ns);
        }
    });
    let record = loaded.record.expect("measured");
    let slack = clock::SECOND;
    assert!((begun - slack..clock::now() + slack).contains(&record.started_ns), "{}", record.started_ns);
    assert_eq!(measuring, Some(record.started_ns));
    let gateway = loaded.usage.gateway.expect("our own host was sampled");
    assert!(gateway.cpu_ns > 0 && gateway.cpu_ns < 10 * record.measured_ns, "{gateway:?}");
    assert_eq!(loaded.usage.hosts.keys().collect::<Vec<_>>(), ["here"]);
    assert!(loaded.usage.generator.is_some_and(|generator| generator.cpu_ns > 0));
}

#[test]
fn there_are_no_timestamps_between_different_clocks() {
    let site = Site::new();
    let Some(lab) = site.elsewhere("lab") else { return };
    let near = Site::new();
    let stamped = Plan { path_split: PathSplit::On, ..plan(closed(Duration::from_millis(300))) };
    for (site, services, has_stamps) in
        [(&site, HostRef::Remote(lab), false), (&near, HostRef::Remote(near.near("lab")), true)]
    {
        let mut ready = site.prepare(&stamped, site.here(), services);
        let services = Services::start(&stamped, &mut ready);
        let loaded = services.load(&stamped, &mut ready.traffic, &mut |_| {});
        let record = loaded.record.unwrap_or_else(|| panic!("{:?}", loaded.failed));
        let used = record.stamps.map(|stamps| stamps.used);
        assert_eq!(used.is_some_and(|used| used > 0), has_stamps, "{used:?}");
        assert_eq!(used.is_none(), !has_stamps, "the generator expects none");
        let address = services.upstream.addresses()[0];
        let answer = verify::ask_changed(address, &requests("a"), &services.hop.facts().change, TIMEOUT);
        let headers = answer.expect("it answers").headers;
        assert_eq!(headers.contains_key(stamp::HEADER), has_stamps, "the upstream sends none: {headers:?}");
    }
}

#[test]
fn first_requests_are_timed_between_hosts() {
    let site = Site::new();
    let Some(lab) = site.elsewhere("lab") else { return };
    let client = site.near("client");
    let plan = plan(closed(Duration::from_secs(1)));
    for generator in [HostRef::Remote(client), site.here()] {
        let name = generator.name().to_owned();
        let mut ready = site.prepare(&plan, generator, HostRef::Remote(Arc::clone(&lab)));
        let mut services = Services::start(&plan, &mut ready);
        let address = services.hop.addresses()[0];
        let (timeout, change) = (Duration::from_secs(10), services.hop.facts().change.clone());
        let mut asked =
            FirstRequests::new(address, &requests("a"), &change, timeout, timeout).expect("a request");
        asked.count = 20;
        let begun = clock::now();
        let upstream = services.upstream.process();
        let interrupted = AtomicBool::new(false);
        let FirstLoaded { answers, at_ready, at_end } =
            ready.traffic.first_requests(&asked, upstream, Some(&mut *services.hop), &interrupted);
        assert_eq!((answers.failed, answers.response_times_ns.len()), (None, 20), "{name}");
        let at = answers.ready_ns.expect("it answered");
        assert!((begun..clock::now() + clock::SECOND).contains(&at), "{name}: on our clock: {at}");
        let used = at_ready.used_since(&hoptax_run::Look::default()).expect("the hop has a process");
        let there = at_end.hosts_since(&at_ready);
        let sampled: Vec<&String> = there.keys().collect();
        assert_eq!(sampled, ["lab"], "{name}: only the gateway's machine is another one");
        assert!(used.rss_bytes > 100_000 && used.cpu_ns > 0, "{name}: {used:?}");
        assert!(at_end.used_since(&at_ready).is_some_and(|used| used.rss_bytes > 100_000), "{name}");

        // hoptax does not wait for a gateway that has ended.
        services.hop.stop();
        let ended = ready.traffic.first_requests(&asked, upstream, Some(&mut *services.hop), &interrupted);
        assert_eq!(ended.answers.failed.as_deref(), Some("it was not ready"), "{name}");
    }
}

struct Silent;
impl Progress for Silent {}

#[test]
fn a_run_on_hosts_leaves_what_a_run_on_one_host_leaves() {
    let site = Site::new();
    let (client, lab) = (site.near("client"), site.near("lab"));
    let mut load = closed(Duration::from_secs(60));
    load.requests = Some(500);
    let plan = plan(load);
    let mut ready = site.prepare(&plan, HostRef::Remote(client), HostRef::Remote(Arc::clone(&lab)));
    let interrupted = AtomicBool::new(false);
    let mut run = run(&plan, &interrupted);
    run.hosts = ready.hosts.clone();
    // With one host in its record, the run does not measure the network. Other tests measure it.
    run.hosts.remove("client");
    run.cpus = ready.cpus.clone();
    let mut dir = RunDir::create(&site.scratch.path().join("results"), "hosts").expect("a run directory");
    let outcome = run.run(&mut dir, &mut ready.driver, &mut ready.traffic, &mut Silent).expect("written");
    assert_eq!(outcome.measured, 3, "{:?}", outcome.ended);

    let read = hoptax_record::dir::Run::read(dir.path()).expect("readable");
    assert_eq!(read.record.hosts["lab"].roles, [Role::Gateway, Role::Upstream]);
    for trial in &read.trials {
        assert_eq!(trial.failed, None);
        let completed = trial.load_record.as_ref().expect("measured").lifetime.completed;
        let counted = trial.ledger.as_ref().expect("there is one").requests;
        assert!(counted >= completed && counted <= completed + 4, "{counted} and {completed}");
    }
    let via = read.trials.iter().find(|trial| trial.contender == "hop").expect("measured");
    assert!(via.gateway_log_bytes.is_some());

    assert_eq!(site.directories().len(), 2, "one for each agent");
    let kept = dir.path().join("hosts/lab");
    lab.collect_files(&kept).expect("copied");
    let logs: BTreeSet<_> = std::fs::read_dir(kept.join("logs"))
        .expect("there are logs")
        .flatten()
        .collect::<Vec<_>>()
        .iter()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert!(logs.contains("hop") && logs.contains("upstream"), "{logs:?}");
    drop((ready, lab));
    assert_eq!(site.directories(), Vec::<std::path::PathBuf>::new());
    assert_eq!(site.processes(), []);
}

#[test]
fn text_of_a_login_shell_before_the_greeting_does_no_harm() {
    let site = Site::new();
    let script = format!("echo Welcome to edge; printf 'no end of line: '; exec {} agent", exe().display());
    let mut command = site.command(&["sh", "-c", &script]);
    command.truncate(3);
    command.insert(0, format!("TMPDIR={}", site.scratch.path().display()));
    command.insert(0, "env".into());
    let host =
        Host::connect("edge", &command, None, &RunId::new("shell")).unwrap_or_else(|it| panic!("{it:#?}"));
    assert!(host.welcome().environment.cpus > 0);
    assert_eq!(host.link().expect("connected").offset().uncertainty_ns, 0, "it has our clock");
}

#[test]
fn a_host_that_others_dial_needs_an_address() {
    let site = Site::new();
    let Some(lab) = site.elsewhere("lab") else { return };
    let plan = plan(closed(Duration::from_secs(1)));
    let generator = HostRef::Local { name: "here".into(), address: None };
    let hosts = |gateway: HostRef, upstream| Hosts {
        generator: generator.clone(),
        more_generators: Vec::new(),
        vantages: BTreeMap::new(),
        gateway,
        upstream,
    };
    let error =
        site.try_prepare(&plan, &hosts(HostRef::Remote(lab), generator.clone())).expect_err("no address");
    let error = error.to_string();
    assert!(error.starts_with("host here: ") && error.contains("`address: "), "{error}");
}
