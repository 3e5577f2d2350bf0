//! Tests that need a network of their own, for exhausted ports and unreachable addresses. Each test creates a
//! network namespace for its threads, which requires root. Without root, the test prints a note and is
//! skipped.

use super::connections::{asks_to_close, head};
use super::*;
use nix::sched::{CloneFlags, unshare};
use std::process::Command;
use std::time::Instant;

/// Number of ports per source address after a call of [`narrow`].
const PORTS: u32 = 100;

/// Restricts the range of local ports to [`PORTS`] ports that no server uses.
fn narrow() {
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", format!("20000 {}", 20_000 + PORTS - 1))
        .expect("the namespace is ours");
}

/// Runs `body` in a new network namespace that has a loopback device.
fn in_a_namespace(body: impl FnOnce() + Send + 'static) {
    let prepare = || -> Result<(), String> {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("a network namespace: {error}"))?;
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
        match up.is_ok_and(|status| status.success()) {
            true => Ok(()),
            false => Err("`ip link set lo up`".into()),
        }
    };
    // Use a new thread, because a thread cannot return to the old namespace after it has entered a new one.
    let outcome = thread::spawn(move || prepare().map(|()| body())).join();
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(missing)) => eprintln!("skipped, because this is not available here: {missing}"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Closes a connection if its client asks for that.
fn obedient(delay: Duration) -> impl Fn(TcpStream, &AtomicU64) + Clone + Send + 'static {
    move |mut connection, requests| {
        while let Some(head) = head(&mut connection) {
            requests.fetch_add(1, Ordering::Relaxed);
            thread::sleep(delay);
            if connection.write_all(OK).is_err() || asks_to_close(&head) {
                return;
            }
        }
    }
}

fn sources(last: &[u8]) -> Vec<IpAddr> {
    last.iter().map(|last| IpAddr::from([127, 0, 0, *last])).collect()
}

#[test]
fn two_sources_allow_more_connections_than_one_source_has_ports() {
    in_a_namespace(|| {
        let [server, other] = [(); 2].map(|()| Server::new(obedient(MODEST * 10)));
        narrow();
        let many = |addresses: &[SocketAddr], sources| {
            let spec = LoadSpec { sources, connections: PORTS * 3 / 2, ..spec(addresses) };
            load(&spec)
        };
        for (addresses, sources) in [
            (&[server.address][..], sources(&[2, 3])),
            // A local port can be used for several destinations at the same time. (The ports of the first two
            // loads are still in TIME_WAIT.)
            (&[server.address, other.address], sources(&[4])),
        ] {
            let record = many(addresses, sources);
            assert_eq!(record.connections.established, u64::from(PORTS * 3 / 2));
            assert_eq!(record.counts.completed, record.counts.scheduled, "{:?}", record.counts);
        }
    });
}

#[test]
fn exhausted_ports_are_reported_soon_and_without_a_flood_of_connects() {
    in_a_namespace(|| {
        let server = Server::new(obedient(MODEST * 10));
        narrow();
        for (sources, shape) in [
            (sources(&[2]), Shape::Closed),
            (Vec::new(), Shape::Closed),
            (sources(&[3]), open(3000.0, Arrivals::Constant)),
        ] {
            let started = Instant::now();
            let spec = LoadSpec { sources, shape, connections: PORTS * 10, ..spec(&[server.address]) };
            let record = load(&spec);
            // The generator may try to open connections for up to 10 s. It must stop earlier here, because
            // connecting is hopeless.
            assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
            let (counts, connections) = (&record.counts, &record.connections);
            // For nine tenths of the slots, no port is free. The other slots must continue.
            assert_eq!(connections.established, u64::from(PORTS), "{connections:?}");
            assert!(counts.completed > 0, "{counts:?}");
            assert_eq!(counts.causes, [(Cause::PortsExhausted, counts.connect_errors)].into(), "{counts:?}");
            // There must be at most one attempt per millisecond, even while other connections receive
            // responses.
            let elapsed = started.elapsed().as_millis() as u64;
            assert!((1..=elapsed).contains(&counts.connect_errors), "{elapsed} ms: {counts:?}");
        }
    });
}

#[test]
fn a_connection_per_request_needs_no_more_ports_than_connections() {
    in_a_namespace(|| {
        let server = Server::new(obedient(Duration::ZERO));
        narrow();
        for limit in [1, 2] {
            let spec = LoadSpec { requests_per_connection: Some(limit), ..spec(&[server.address]) };
            let requests = u64::from(PORTS * 20);
            let record = load(&until_done(requests, spec));
            assert!(record.lifetime.opened >= u64::from(PORTS) * 10);
            assert_eq!(record.counts.completed, requests, "{:?}", record.counts);
        }
    });
}

#[test]
fn an_unreachable_address_is_reported() {
    in_a_namespace(|| {
        let server = Server::new(obedient(Duration::ZERO));
        // This address is in TEST-NET-3 (RFC 5737). The namespace has a route for loopback only.
        let nowhere = SocketAddr::from(([203, 0, 113, 1], 80));
        let record = load(&until_done(60, spec(&[server.address, nowhere])));
        let counts = &record.counts;
        assert_eq!(counts.causes, [(Cause::Unreachable, counts.connect_errors)].into(), "{counts:?}");
        assert!(counts.completed > 10 && counts.connect_errors > 0);
    });
}
