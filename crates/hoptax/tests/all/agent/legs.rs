//! The network between hosts: hoptax measures its legs, and the report says which part of a tax the network
//! causes.

use super::Silent;
use super::gateways::ip;
use super::site::{Site, hosts_of, plan, run};
use crate::support::skip;
use hoptax_analysis::{LegFigures, analyse};
use hoptax_format::clock;
use hoptax_host::probe::leg::Messages;
use hoptax_plan::LoadPoint;
use hoptax_record::dir::RunDir;
use hoptax_remote::protocol::RunId;
use hoptax_remote::runner::{Host, HostRef};
use std::io::{BufRead as _, BufReader};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Time that a packet takes in each direction.
const DELAY_MS: u64 = 2;

/// A network namespace to which each packet takes [`DELAY_MS`]. It is removed when it is dropped.
struct Wire {
    name: String,
    ours: IpAddr,
    theirs: IpAddr,
    carrier: Option<Child>,
}

impl Wire {
    /// `None` if this user cannot create a network namespace. `number` must differ from the numbers in tests
    /// that run at the same time.
    #[track_caller]
    fn make(number: u8) -> Option<Self> {
        let name = format!("hoptax-{}-{number}", std::process::id());
        let (near, far) = (format!("hx{number}n{}", std::process::id() % 10_000), format!("hx{number}f"));
        let address = |last: u8| IpAddr::from([10, 214, number, last]);
        let mut wire = Self { name, ours: address(1), theirs: address(2), carrier: None };
        if !(ip(&format!("netns add {}", wire.name)) && wire.carry(&near, &far)) {
            skip("network namespaces and TUN devices need root and python3");
            return None;
        }
        let Self { name, ours, theirs, .. } = &wire;
        let are_up = ip(&format!("addr add {ours}/24 dev {near}"))
            && ip(&format!("link set {near} up"))
            && ip(&format!("-n {name} addr add {theirs}/24 dev {far}"))
            && ip(&format!("-n {name} link set {far} up"))
            && ip(&format!("-n {name} link set lo up"));
        assert!(are_up, "the addresses cannot be set");
        Some(wire)
    }

    fn carry(&mut self, near: &str, far: &str) -> bool {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/agent/wire.py");
        let mut command = Command::new("python3");
        command.args([script, &self.name, near, far, &DELAY_MS.to_string()]);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut child) = started else { return false };
        let mut line = String::new();
        let _ = BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line);
        self.carrier = Some(child);
        line == "ready\n"
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let Some(mut carrier) = self.carrier.take() {
            drop(carrier.stdin.take());
            let _ = carrier.wait();
        }
        ip(&format!("netns del {}", self.name));
    }
}

/// Asserts that a leg takes [`DELAY_MS`] in both directions, and little more.
fn assert_delayed(leg: &LegFigures) {
    let us = leg.round_trip_us.unwrap_or_else(|| panic!("{leg:?}")).estimate;
    let delays = (2 * DELAY_MS * 1000) as f64;
    assert!(us >= delays && us < 1.5 * delays, "{us} µs: {leg:?}");
    assert!(leg.least_us.is_some_and(|least| least >= delays && least <= us), "{leg:?}");
    assert!(leg.there.is_some() && leg.back.is_some() && leg.failed().is_none(), "{leg:?}");
}

#[test]
fn a_slow_network_is_a_part_of_the_tax_and_not_of_the_gateway() {
    let Some(wire) = Wire::make(3) else { return };
    let site = Site::new();
    let command = site.command(&["ip", "netns", "exec", &wire.name]);
    let edge = Host::connect("edge", &command, Some(wire.theirs), &RunId::new("legs"));
    let edge = edge.unwrap_or_else(|failure| panic!("{failure:#?}"));
    let here = HostRef::Local { name: "here".into(), address: Some(wire.ours) };
    let plan = plan(LoadPoint::closed(1, Duration::from_millis(200)));
    let plan = hoptax_plan::Plan { trials: hoptax_plan::Trials::Fixed(3), ..plan };
    let hosts = hosts_of(here.clone(), HostRef::Remote(edge), here);
    let mut ready = site.try_prepare(&plan, &hosts).unwrap_or_else(|error| panic!("{error:#}"));
    let interrupted = AtomicBool::new(false);
    let mut run = run(&plan, &interrupted);
    run.hosts = ready.hosts.clone();
    let mut dir = RunDir::create(&site.scratch.path().join("results"), "legs").expect("a run directory");
    run.run(&mut dir, &mut ready.driver, &mut ready.traffic, &mut Silent).expect("written");

    let read = hoptax_record::dir::Run::read(dir.path()).expect("readable");
    let network = analyse(&read.record, &read.trials, &[], &[]).network;
    let named: Vec<_> = network.legs.iter().map(|one| format!("{}-{}", one.leg.from, one.leg.to)).collect();
    assert_eq!(named, ["here-edge", "edge-here", "edge-edge", "here-here"]);
    network.legs[..2].iter().for_each(assert_delayed);
    for one in &network.legs[2..] {
        assert!(one.round_trip_us.is_some_and(|us| us.estimate < 1000.0), "within a host: {one:?}");
    }
    assert!(network.legs.iter().all(|one| one.leg.at_start.is_some() && one.leg.at_end.is_some()));
    let [split] = &network.splits[..] else { panic!("{network:?}") };
    // A request passes the delay four times, and the hop works for some hundred microseconds.
    let (added, wire_us, gateway) =
        (split.added_p50_us.estimate, split.wire_us.estimate, split.gateway_us.estimate);
    let delays = (4 * DELAY_MS * 1000) as f64;
    assert!(added >= delays && wire_us > 0.9 * delays && wire_us < 1.5 * delays, "{split:?}");
    assert!(gateway.abs() < 0.25 * delays, "the network's time is not the hop's: {split:?}");
}

#[test]
fn legs_are_measured_without_a_run_and_failures_say_what_to_try() {
    let site = Site::new();
    let near = site.near("near");
    // An address that no host has.
    let lost = Host::connect("lost", &site.command(&[]), Some(IpAddr::from([192, 0, 2, 7])), site.run());
    let lost = lost.unwrap_or_else(|failure| panic!("{failure:#?}"));
    let plan = plan(LoadPoint::closed(1, Duration::from_secs(1)));
    let hosts = hosts_of(site.here(), HostRef::Remote(near), HostRef::Remote(lost));
    let begun = clock::now();
    let legs = hosts.legs(&plan, Messages { request_bytes: 90, response_bytes: 1124 });
    assert!(clock::now() < begun + 30 * clock::SECOND, "about two seconds for each of two");
    let named: Vec<_> = legs.iter().map(|leg| format!("{}-{}", leg.from, leg.to)).collect();
    assert_eq!(named, ["here-lost", "here-near", "near-lost", "near-near"]);
    for leg in &legs {
        let look = leg.at_start.as_ref().expect("tried");
        match &look.failed {
            None => {
                assert_eq!((look.round_trips.sent_bytes, look.round_trips.answered_bytes), (90, 1124));
                assert_eq!(leg.to, "near");
                let has_bandwidth = leg.from != leg.to;
                assert!(
                    look.there.is_some() == has_bandwidth && look.back.is_some() == has_bandwidth,
                    "{leg:?}"
                );
            }
            Some(why) => {
                assert!(leg.to == "lost" && why.starts_with("host lost: "), "{why}");
                assert!(why.contains(" 192.0.2.7") && why.contains("`address`"), "{why}");
            }
        }
    }
}
