//! Services that listen on another address than 127.0.0.1, for clients on other hosts.

use super::request;
use crate::support::{PATIENCE, planted_pack, skip, wait_until};
use crate::world::{Running, driver_for, exe, get, is_missing, pack_gateway, running_plan};
use hoptax_host::ports::{LOOPBACK, local};
use hoptax_lab::packs::PackSet;
use hoptax_lab::process::ProcessDriver;
use hoptax_lab::{Driver as _, Service, verify};
use hoptax_plan::{Feature, Gateway, GatewayKind, HopKind, Plan};
use hoptax_record::{Failure, Stage};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

/// Every address in 127.0.0.0/8 belongs to this machine, but a listener on one does not get connections to
/// another.
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

const IPV6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// Packs whose gateways are installed on most machines with the project's tools.
const PACKS: [&str; 3] = ["nginx", "haproxy", "envoy"];

/// Packs whose gateways are tried only if they are installed.
const MORE_PACKS: [&str; 5] = ["apache", "caddy", "trafficserver", "nghttpx", "varnish"];

fn pack(pack: &str, features: &[Feature]) -> Gateway {
    pack_gateway(pack, pack, 1, features)
}

fn hop(label: &str, kind: HopKind) -> Gateway {
    Gateway { label: label.into(), kind: GatewayKind::Hop(kind) }
}

fn running(started: Result<Box<dyn Service>, Failure>, what: &str) -> Running {
    Running(started.unwrap_or_else(|failure| panic!("{what}: {failure:#?}")))
}

/// The only address of the service. Nothing else listens on its port at 127.0.0.1.
fn only_address(service: &Running, expected: IpAddr, what: &str) -> SocketAddr {
    let [address] = service.0.addresses() else { panic!("{what}: {:?}", service.0.addresses()) };
    assert_eq!(address.ip(), expected, "{what}");
    assert!(TcpStream::connect(local(address.port())).is_err(), "{what} also listens on 127.0.0.1");
    *address
}

/// Starts the upstream and each gateway, and compares the gateway's answers with the upstream's.
fn all_answer_at(address: IpAddr, gateways: Vec<Gateway>) {
    let plan = running_plan(gateways);
    let run = tempfile::tempdir().expect("a directory");
    let mut driver = driver_for(&plan, run.path()).with_address(address);
    let upstream = running(driver.start_upstream(), "upstream");
    let direct = only_address(&upstream, address, "upstream");
    assert!(upstream.0.ledger().expect("it has one").is_ok());
    for gateway in &plan.gateways {
        let what = format!("{} at {address}", gateway.label);
        let mut service = running(driver.start_gateway(gateway, &upstream.0.endpoints()), &what);
        let via = only_address(&service, address, &what);
        let change = service.0.facts().change.clone();
        assert_eq!(verify::verify(direct, via, &request().into(), &change, PATIENCE), Ok(()), "{what}");
        // Counters are read from the admin port. Caddy's counter appears with its first error.
        let counters = service.0.facts().counters.len();
        let expected = if gateway.label == "caddy" { 0 } else { counters };
        assert_eq!(service.0.observe().counters.len(), expected, "{what}");
    }
}

fn installed(packs: &[&str], features: &[Feature]) -> Vec<Gateway> {
    packs.iter().filter(|name| !is_missing(name)).map(|name| pack(name, features)).collect()
}

#[test]
fn services_answer_at_their_address_only() {
    let mut gateways = vec![hop("hop-l4", HopKind::L4), hop("hop-l7", HopKind::L7)];
    gateways.extend(installed(&PACKS, &[]));
    all_answer_at(SECOND, gateways);
}

#[test]
fn more_gateways_answer_at_their_address_only() {
    all_answer_at(SECOND, installed(&MORE_PACKS, &[]));
    // The C library finds ::1 for h2o only on machines that have another IPv6 address.
    all_answer_at(SECOND, installed(&["h2o"], &[Feature::Tls]));
}

#[test]
fn gateways_with_tls_answer_at_their_address_only() {
    all_answer_at(SECOND, installed(&PACKS, &[Feature::Tls, Feature::UpstreamTls]));
    all_answer_at(SECOND, installed(&MORE_PACKS[..4], &[Feature::Tls, Feature::UpstreamTls]));
}

#[test]
fn services_answer_at_an_ipv6_address() {
    if TcpListener::bind((IPV6, 0)).is_err() {
        skip("this machine has no IPv6");
        return;
    }
    let mut gateways = vec![hop("hop-l4", HopKind::L4), hop("hop-l7", HopKind::L7)];
    gateways.extend(installed(&PACKS, &[]));
    gateways.extend(installed(&MORE_PACKS, &[]));
    all_answer_at(IPV6, gateways);
}

/// hoptax does not wait until launched services are ready. So the caller must know in advance where they will
/// listen.
#[test]
fn launched_services_answer_at_their_address() {
    let mut gateways = vec![hop("hop-l7", HopKind::L7)];
    gateways.extend(installed(&PACKS[..1], &[]));
    let plan = running_plan(gateways);
    let run = tempfile::tempdir().expect("a directory");
    let mut driver = driver_for(&plan, run.path()).with_address(SECOND);
    let upstream = running(driver.start_upstream(), "upstream");
    for gateway in &plan.gateways {
        let launched = running(driver.launch_gateway(gateway, &upstream.0.endpoints()), &gateway.label);
        let address = launched.0.addresses()[0];
        assert_eq!(address.ip(), SECOND);
        wait_until(&gateway.label, PATIENCE, || TcpStream::connect(address).is_ok());
    }
}

/// Starts nginx from a pack whose template has 127.0.0.1 in its listeners, and returns its address once it
/// answered.
fn start_literal(address: Option<IpAddr>) -> Result<SocketAddr, Failure> {
    let folder = planted_pack::packs(&[]);
    planted_pack::change(&folder, "gateway.yaml", "port: admin }", "port: admin, timeout: 2s }");
    let plan: Plan = running_plan(vec![pack("planted", &[])]);
    let run = tempfile::tempdir().expect("a directory");
    let packs = PackSet::load(Some(folder.path())).expect("nothing wrong");
    let mut driver = ProcessDriver::new(&plan, packs, run.path()).expect("a driver").with_exe(exe());
    if let Some(address) = address {
        driver = driver.with_address(address);
    }
    let upstream = running(driver.start_upstream(), "upstream");
    let service = Running(driver.start_gateway(&plan.gateways[0], &upstream.0.endpoints())?);
    let address = service.0.addresses()[0];
    assert_eq!(get(address, "/").status, 200);
    Ok(address)
}

#[test]
fn a_pack_with_a_fixed_address_works_on_this_machine_only() {
    needs!("nginx");
    let address = start_literal(None).unwrap_or_else(|failure| panic!("{failure:#?}"));
    assert_eq!(address.ip(), LOOPBACK);
    let failure = start_literal(Some(SECOND)).expect_err("it listens elsewhere");
    assert_eq!(failure.stage, Stage::Start);
    for words in [
        "planted was not ready within 2s: ",
        "it listens on 127.0.0.1:",
        " instead of 127.0.0.2:",
        "Write `{{ listen }}` or `{{ address }}`",
    ] {
        assert!(failure.message.contains(words), "`{words}` in {failure:#?}");
    }
}

#[test]
fn an_address_of_another_machine_is_refused_for_every_service() {
    // RFC 5737 reserves this address for documentation.
    let elsewhere = "192.0.2.1".parse().expect("an address");
    let mut plan = running_plan(vec![hop("hop-l4", HopKind::L4)]);
    plan.gateways.extend(installed(&PACKS[..1], &[]));
    let run = tempfile::tempdir().expect("a directory");
    let mut driver = driver_for(&plan, run.path()).with_address(elsewhere);
    let mut failures = vec![driver.start_upstream().err()];
    for gateway in &plan.gateways {
        failures.push(driver.start_gateway(gateway, &[local(1).into()]).err());
    }
    for failure in failures {
        let failure = failure.expect("refused");
        assert_eq!(failure.stage, Stage::Start);
        assert!(failure.message.starts_with("192.0.2.1 "), "{failure:#?}");
    }
}
