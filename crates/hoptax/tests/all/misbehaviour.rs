//! Tests of the tools that plant faults in other tests.

use crate::support::hog::Hog;
use crate::support::proxy::{Misbehaviour, Planted, Proxy};
use crate::support::{PATIENCE, wait_until};
use crate::wire::{Client, Server};
use hoptax_servers::ledger::{self, Ledger};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// The built-in upstream behind a misbehaving proxy.
struct World {
    upstream: Server,
    proxy: Proxy,
}

impl World {
    fn new(wrong: Misbehaviour) -> Self {
        let upstream = Server::start(&["upstream", "--instances", "2", "--body-text", "hello"]);
        let upstreams: Vec<SocketAddr> = (0..2).map(|index| upstream.instance(index)).collect();
        Self { proxy: Proxy::start(&upstreams, wrong), upstream }
    }

    fn client(&self) -> Client {
        Client::connect(self.proxy.address)
    }

    fn bodies(&self, count: usize) -> Vec<String> {
        let mut client = self.client();
        (0..count).map(|_| String::from_utf8(client.send(GET).response().body).expect("text")).collect()
    }

    fn ledger(&self) -> Ledger {
        ledger::fetch(self.upstream.control()).expect("a ledger")
    }

    fn requests(&self) -> Vec<u64> {
        self.ledger().instances.iter().map(|instance| instance.requests).collect()
    }
}

#[test]
fn by_default_nothing_is_wrong() {
    let world = World::new(Misbehaviour::default());
    let mut client = world.client();
    for _ in 0..4 {
        let response = client.send(GET).response();
        assert_eq!((response.status, response.keep_alive, response.body), (200, true, b"hello".to_vec()));
    }
    client.send("HEAD / HTTP/1.1\r\nhost: a\r\n\r\n").response_to_head();
    let post = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc";
    assert_eq!(client.send(post).response().status, 200);
    assert_eq!(world.requests(), [3, 3], "in turn");
    let connections: Vec<_> = world.ledger().instances.iter().map(|instance| instance.connections).collect();
    assert_eq!(connections, [1, 1]);
    assert_eq!((world.proxy.requests(), world.proxy.leaked()), (6, 0));
    assert_eq!(world.proxy.url(), format!("http://{}", world.proxy.address));
}

#[test]
fn ends_client_connections() {
    let world = World::new(Misbehaviour { close_clients: true, ..Misbehaviour::default() });
    let mut client = world.client();
    let response = client.send(GET).response();
    assert!(!response.keep_alive && response.head.contains("connection: close\r\n"), "{}", response.head);
    assert!(client.is_closed());
    let world = World::new(Misbehaviour { http_10: true, ..Misbehaviour::default() });
    let mut client = world.client();
    let response = client.send(GET).response();
    assert!(!response.keep_alive && response.head.starts_with("HTTP/1.0 200"), "{}", response.head);
    assert!(client.is_closed());
}

#[test]
fn opens_new_upstream_connections_and_duplicates_requests() {
    let world = World::new(Misbehaviour { fresh_upstream: true, ..Misbehaviour::default() });
    world.bodies(6);
    let connections: u64 = world.ledger().instances.iter().map(|instance| instance.connections).sum();
    assert_eq!(connections, 6);
    let world = World::new(Misbehaviour { duplicate_every: Some(3), ..Misbehaviour::default() });
    assert_eq!(world.bodies(9), ["hello"; 9]);
    assert_eq!(world.requests().iter().sum::<u64>(), 12);
}

#[test]
fn limits_the_rate() {
    let world = World::new(Misbehaviour { limit_per_second: Some(3), ..Misbehaviour::default() });
    let mut client = world.client();
    let begun = Instant::now();
    let statuses: Vec<u16> = (0..50).map(|_| client.send(GET).response().status).collect();
    let seconds = begun.elapsed().as_secs() as usize + 1;
    let passed = statuses.iter().filter(|&&status| status == 200).count();
    assert!((3..=3 * seconds).contains(&passed), "{passed} in {seconds} s: {statuses:?}");
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    assert_eq!(world.requests().iter().sum::<u64>(), passed as u64);
}

#[test]
fn alters_and_caches_answers() {
    let world = World::new(Misbehaviour { alter_every: Some(2), ..Misbehaviour::default() });
    assert_eq!(world.bodies(4), ["hello", "hellp", "hello", "hellp"]);
    let world = World::new(Misbehaviour { cached: true, ..Misbehaviour::default() });
    assert_eq!(world.bodies(5), ["hello"; 5]);
    assert_eq!(world.requests().iter().sum::<u64>(), 1);
}

#[test]
fn leaks_and_favours() {
    let world = World::new(Misbehaviour { leak_bytes: 1000, ..Misbehaviour::default() });
    world.bodies(5);
    assert_eq!(world.proxy.leaked(), 5000);
    let world = World::new(Misbehaviour { favour_first: Some(5), ..Misbehaviour::default() });
    world.bodies(20);
    assert_eq!(world.requests(), [16, 4]);
}

#[test]
fn delays_some_in_whole_steps_or_all_at_once() {
    let took = |wrong, requests: usize| {
        let world = World::new(wrong);
        let mut client = world.client();
        let one = |_| {
            let begun = Instant::now();
            assert_eq!(client.send(GET).response().status, 200);
            begun.elapsed()
        };
        (0..requests).map(one).collect::<Vec<Duration>>()
    };
    let (inbound, outbound) = (Duration::from_millis(3), Duration::from_millis(4));
    for spin in [false, true] {
        let delay = Some(Planted { inbound, outbound, every: 2, spin });
        let times = took(Misbehaviour { delay, ..Misbehaviour::default() }, 4);
        assert!(times[1].min(times[3]) >= inbound + outbound, "{times:?}");
    }
    let quantum = Some(Duration::from_millis(5));
    let times = took(Misbehaviour { quantum, ..Misbehaviour::default() }, 3);
    assert!(times.iter().all(|time| *time >= Duration::from_millis(5)), "{times:?}");
    let stall = Some((2, Duration::from_millis(100)));
    let times = took(Misbehaviour { stall, ..Misbehaviour::default() }, 2);
    assert!(times[1] >= Duration::from_millis(99), "{times:?}");
}

/// Number of listen-queue overflows that the kernel has counted in this network namespace.
fn overflows() -> u64 {
    let text = std::fs::read_to_string("/proc/net/netstat").expect("procfs");
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let place = names.split(' ').position(|name| name == "ListenOverflows").expect("counted");
    values.split(' ').nth(place).and_then(|value| value.parse().ok()).expect("a number")
}

#[test]
fn accepts_slowly_from_a_short_queue() {
    let backlog = Some((1, Duration::from_millis(200)));
    let world = World::new(Misbehaviour { backlog, ..Misbehaviour::default() });
    let before = overflows();
    let address = world.proxy.address;
    let threads: Vec<_> = (0..8)
        .map(|_| std::thread::spawn(move || Client::connect(address).send(GET).response().status))
        .collect();
    for thread in threads {
        assert_eq!(thread.join().expect("no panic"), 200);
    }
    assert!(overflows() > before);
}

#[test]
fn a_hog_burns_cpu_until_it_is_dropped() {
    let hog = Hog::start();
    let stat = format!("/proc/{}/stat", hog.pid());
    wait_until("it burns CPU time", PATIENCE, || {
        let text = std::fs::read_to_string(&stat).expect("it runs");
        let fields: Vec<&str> = text.rsplit(')').next().expect("fields").split_whitespace().collect();
        // User time in ticks of 10 ms. In `/proc/PID/stat`, it is the 12th field after the name.
        fields[11].parse::<u64>().expect("a number") >= 5
    });
    drop(hog);
    assert!(std::fs::read_to_string(&stat).is_err(), "it still runs");
}
