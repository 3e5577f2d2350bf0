//! What only a network of one's own can show: ports that run out, and addresses that lead nowhere. Each test makes a network
//! namespace for its threads, which takes root; where that cannot be had, it says so and is left out.

use super::connections::{asks_to_close, head};
use super::*;
use nix::sched::{CloneFlags, unshare};
use std::process::Command;
use std::time::Instant;

/// Ports to connect from that each address has, once [`narrow`] has been called.
const PORTS: u32 = 100;

/// Leaves [`PORTS`] ports, none of which a server has that was given one before.
fn narrow() {
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", format!("20000 {}", 20_000 + PORTS - 1))
        .expect("the namespace is ours");
}

/// Runs `body` in a network namespace of its own, with a loopback device.
fn in_a_namespace(body: impl FnOnce() + Send + 'static) {
    let prepare = || -> Result<(), String> {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("a network namespace: {error}"))?;
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
        match up.is_ok_and(|status| status.success()) {
            true => Ok(()),
            false => Err("`ip link set lo up`".into()),
        }
    };
    // A thread of its own: what it unshares stays unshared.
    let outcome = thread::spawn(move || prepare().map(|()| body())).join();
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(missing)) => eprintln!("left out, as this cannot be had here: {missing}"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Answers every request, and closes when asked to.
fn obedient(mut connection: TcpStream, requests: &AtomicU64) {
    while let Some(head) = head(&mut connection) {
        requests.fetch_add(1, Ordering::Relaxed);
        if connection.write_all(OK).is_err() || asks_to_close(&head) {
            return;
        }
    }
}

fn sources(last: &[u8]) -> Vec<IpAddr> {
    last.iter().map(|last| IpAddr::from([127, 0, 0, *last])).collect()
}

#[test]
fn two_sources_carry_more_connections_than_one_has_ports() {
    in_a_namespace(|| {
        let (server, other) = (Server::new(obedient), Server::new(obedient));
        narrow();
        let many = |addresses: &[SocketAddr], sources| {
            let spec = LoadSpec { sources, connections: PORTS * 3 / 2, ..spec(addresses) };
            load(&spec)
        };
        for (addresses, sources) in [
            (&[server.address][..], sources(&[2, 3])),
            // A port can be used again towards another address. (Those of the first two are in TIME_WAIT still.)
            (&[server.address, other.address], sources(&[4])),
        ] {
            let record = many(addresses, sources);
            assert_eq!(record.connections.established, u64::from(PORTS * 3 / 2));
            assert_eq!(record.counts.completed, record.counts.scheduled, "{:?}", record.counts);
        }
    });
}

#[test]
fn ports_that_run_out_are_named_soon_and_without_a_storm() {
    in_a_namespace(|| {
        let server = Server::new(obedient);
        narrow();
        for (sources, shape) in [
            (sources(&[2]), Shape::Closed),
            (Vec::new(), Shape::Closed),
            (sources(&[3]), open(3000.0, Arrivals::Constant)),
        ] {
            let started = Instant::now();
            let spec = LoadSpec { sources, shape, connections: PORTS * 10, ..spec(&[server.address]) };
            let record = load(&spec);
            assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
            let (counts, connections) = (&record.counts, &record.connections);
            // Nine tenths of the slots find none, and the other tenth goes on.
            assert_eq!(connections.established, u64::from(PORTS), "{connections:?}");
            assert!(counts.completed >= u64::from(PORTS), "{counts:?}");
            assert_eq!(counts.causes, [(Cause::PortsExhausted, counts.connect_errors)].into(), "{counts:?}");
            // One attempt per millisecond, however many responses come in meanwhile.
            let elapsed = started.elapsed().as_millis() as u64;
            assert!((5..=elapsed).contains(&counts.connect_errors), "{elapsed} ms: {counts:?}");
        }
    });
}

#[test]
fn a_connection_per_request_needs_no_more_ports_than_connections() {
    in_a_namespace(|| {
        let server = Server::new(obedient);
        narrow();
        for limit in [1, 2] {
            let spec = LoadSpec { requests_per_connection: Some(limit), ..spec(&[server.address]) };
            let requests = u64::from(PORTS * 20);
            let record =
                load(&LoadSpec { requests: Some(requests), duration_ns: 60_000 * MILLISECOND, ..spec });
            assert!(record.lifetime.opened >= u64::from(PORTS) * 10);
            assert_eq!(record.counts.completed, requests, "{:?}", record.counts);
        }
    });
}

#[test]
fn an_address_that_leads_nowhere_is_unreachable() {
    in_a_namespace(|| {
        let server = Server::new(obedient);
        // TEST-NET-3 (RFC 5737); there is no route but loopback's.
        let nowhere = SocketAddr::from(([203, 0, 113, 1], 80));
        let record = load(&spec(&[server.address, nowhere]));
        let counts = &record.counts;
        assert_eq!(counts.causes, [(Cause::Unreachable, counts.connect_errors)].into(), "{counts:?}");
        assert!(counts.completed > 10 && counts.connect_errors > 0);
    });
}
