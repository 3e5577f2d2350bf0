//! Loads from several agents, with the same gateway and upstream.

use super::TIMEOUT;
use super::site::{Services, Site, closed, plan, spec};
use hoptax_format::record::LoadRecord;
use hoptax_plan::{LoadPoint, PathSplit, Plan};
use hoptax_record::Role;
use hoptax_remote::runner::{HostRef, Hosts};
use hoptax_run::{Loaded, Traffic};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A plan whose second load comes from the host `far`.
fn two_loads() -> Plan {
    let plan = plan(closed(Duration::from_millis(300)));
    let far = LoadPoint { from: Some("far".into()), ..plan.load[0].clone() };
    Plan { load: vec![plan.load[0].clone(), far], path_split: PathSplit::On, ..plan }
}

/// Generator, gateway and upstream are on this host, and `far` sends loads too.
fn hosts(here: HostRef, far: HostRef) -> Hosts {
    Hosts {
        generator: here.clone(),
        more_generators: Vec::new(),
        vantages: BTreeMap::from([("far".to_owned(), vec![far])]),
        gateway: here.clone(),
        upstream: here,
    }
}

fn load(plan: &Plan, services: &Services, traffic: &mut dyn Traffic, from: Option<&str>) -> Loaded {
    let (spec, interrupted) = (spec(plan, &*services.hop), AtomicBool::new(false));
    traffic.load(from, &spec, &services.watched(), &interrupted, &mut |_| {})
}

fn measured(loaded: &Loaded) -> &LoadRecord {
    loaded.record.as_ref().unwrap_or_else(|| panic!("{:?}", loaded.failed))
}

#[test]
fn each_host_that_sends_load_has_its_own_clock_and_samples() {
    let (site, other) = (Site::new(), Site::new());
    // The clock of `far` is ahead of ours.
    let Some(far) = other.elsewhere("far") else { return };
    let plan = two_loads();
    let hosts = hosts(site.here(), HostRef::Remote(far));
    let mut ready = site.try_prepare(&plan, &hosts).unwrap_or_else(|error| panic!("{error:#}"));
    let roles: Vec<_> = ready.hosts.iter().map(|(name, host)| (name.as_str(), host.roles.clone())).collect();
    let all = vec![Role::Generator, Role::Gateway, Role::Upstream];
    assert_eq!(roles, [("far", vec![Role::Generator]), ("here", all)]);
    let services = Services::start(&plan, &mut ready);

    let here = load(&plan, &services, &mut ready.traffic, None);
    assert!(measured(&here).stamps.as_ref().is_some_and(|stamps| stamps.used > 0), "one clock");
    assert!(here.usage.hosts.is_empty() && here.usage.gateway.is_some(), "{:?}", here.usage.hosts);
    let there = load(&plan, &services, &mut ready.traffic, Some("far"));
    assert_eq!(measured(&there).stamps, None, "two clocks");
    assert!(there.usage.gateway.is_some(), "another host samples it");
    let roles: Vec<_> =
        there.usage.hosts.iter().map(|(name, host)| (name.as_str(), host.roles.clone())).collect();
    assert_eq!(roles, [("here", vec![Role::Gateway, Role::Upstream])]);
    let unknown = load(&plan, &services, &mut ready.traffic, Some("nowhere"));
    assert!(unknown.failed.is_some_and(|failure| failure.message.contains("host nowhere")));
}

/// If a host is lost, only the loads that it sends fail, and only until it can be reached again.
#[test]
fn a_lost_host_does_not_touch_the_loads_of_others() {
    let (site, other) = (Site::new(), Site::new());
    let plan = two_loads();
    let hosts = hosts(site.here(), HostRef::Remote(other.near("far")));
    let mut ready = site.try_prepare(&plan, &hosts).unwrap_or_else(|error| panic!("{error:#}"));
    let services = Services::start(&plan, &mut ready);
    assert_eq!(load(&plan, &services, &mut ready.traffic, Some("far")).failed, None);
    for (pid, _) in other.processes() {
        let _ = kill_process(Pid::from_raw(pid.cast_signed()).expect("above zero"), Signal::KILL);
    }
    let begun = Instant::now();
    let here = load(&plan, &services, &mut ready.traffic, None);
    assert_eq!(here.failed, None);
    assert!(measured(&here).counts.ok > 0 && begun.elapsed() < TIMEOUT, "{:?}", begun.elapsed());
    // The next load from `far` connects again.
    let there = load(&plan, &services, &mut ready.traffic, Some("far"));
    assert!(measured(&there).counts.ok > 0, "{:?}", there.failed);
}
