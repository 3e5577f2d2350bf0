//! `hoptax upstream` as a process: its answers, the time that they take, and its ledger.

use crate::support::refusals::refused;
use crate::support::{PATIENCE, hoptax, wait_for};
use crate::wire::{Client, Server, chunked, sample};
use hoptax_servers::ledger;
use hoptax_wire::http1::{Framing, Version};
use std::time::{Duration, Instant};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const HEAD: &str = "HEAD / HTTP/1.1\r\nhost: a\r\n\r\n";

fn upstream(options: &[&str]) -> Server {
    Server::start(&[&["upstream"], options].concat())
}

#[test]
fn answers_as_configured() {
    let upstream = upstream(&["--status", "201", "--header", "x-a: b c", "--body-text", "hello"]);
    let mut client = Client::connect(upstream.instance(0));
    let response = client.send(GET).response();
    assert_eq!(
        response.head,
        "HTTP/1.1 201 Created\r\ncontent-type: text/plain\r\nx-a: b c\r\ncontent-length: 5\r\n\r\n"
    );
    assert_eq!(response.body, b"hello");
    let to_head = client.send(HEAD).response_to_head();
    assert_eq!((to_head.head, to_head.body), (response.head, Vec::new()));
    assert_eq!(client.send(GET).response().body, b"hello");
    assert_eq!(upstream.stop(), Some(0));
}

#[test]
fn answers_without_body_where_there_is_none() {
    let upstream = upstream(&["--status", "204"]);
    let response = Client::connect(upstream.instance(0)).send(GET).response();
    assert_eq!((response.status, response.framing, response.body), (204, Framing::None, Vec::new()));
}

#[test]
fn answers_with_a_file_and_with_a_large_body() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let content = sample(300_000);
    std::fs::write(file.path(), &content).expect("written");
    let from_file = upstream(&["--body-file", &file.path().to_string_lossy()]);
    assert_eq!(Client::connect(from_file.instance(0)).send(GET).response().body, content);
    let large = upstream(&["--body", "1MiB"]);
    assert_eq!(Client::connect(large.instance(0)).send(GET).response().body.len(), 1 << 20);
}

#[test]
fn closes_or_keeps_the_connection_as_each_version_asks() {
    let upstream = upstream(&["--body", "10B"]);
    for (request, keeps) in [
        ("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", false),
        ("GET / HTTP/1.0\r\n\r\n", false),
        ("GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n", true),
    ] {
        let mut client = Client::connect(upstream.instance(0));
        let response = client.send(request).response();
        assert_eq!((response.keep_alive, response.version), (keeps, Version::Http11), "{request:?}");
        let said = if keeps { "connection: keep-alive\r\n" } else { "connection: close\r\n" };
        assert!(response.head.contains(said), "{request:?}");
        if keeps {
            assert_eq!(client.send(request).response(), response);
        } else {
            assert!(client.is_closed(), "{request:?}");
        }
    }
}

#[test]
fn reads_request_bodies_to_their_end() {
    let upstream = upstream(&[]);
    let mut client = Client::connect(upstream.instance(0));
    for length in [0, 1, 1000, 100_000] {
        let body = sample(length);
        client.send(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n")).send(&body);
        assert_eq!(client.response().status, 200);
        client.send("PUT / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n").send(chunked(&body));
        assert_eq!(client.response().status, 200);
    }
    assert_eq!(ledger::fetch(upstream.control()).expect("a ledger").instances[0].requests, 8);
}

#[test]
fn answers_expect_100_continue() {
    let upstream = upstream(&[]);
    let mut client = Client::connect(upstream.instance(0));
    client.send("POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n");
    let mut first = [0; 25];
    std::io::Read::read_exact(&mut client.stream, &mut first).expect("100 comes before the body is sent");
    assert_eq!(&first, b"HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(client.send("abc").response().status, 200);
}

#[test]
fn answers_pipelined_requests_in_order_whatever_their_delays() {
    for delay in ["0ms", "uniform(0ms, 3ms)", "choice(50% 0ms, 50% 2ms)"] {
        let upstream = upstream(&["--delay", delay]);
        let mut client = Client::connect(upstream.instance(0));
        // A client can tell answers to HEAD from answers to GET, because only answers to GET have a body.
        client.send([GET, HEAD, HEAD, GET, HEAD, GET].concat().repeat(50));
        for _ in 0..50 {
            for is_head in [false, true, true, false, true, false] {
                let response = if is_head { client.response_to_head() } else { client.response() };
                assert_eq!(response.body.len(), if is_head { 0 } else { 1024 }, "{delay}");
            }
        }
        assert_eq!(ledger::fetch(upstream.control()).expect("a ledger").instances[0].requests, 300);
    }
}

#[test]
fn answers_pipelined_requests_after_a_half_close() {
    let upstream = upstream(&["--delay", "1ms"]);
    let mut client = Client::connect(upstream.instance(0));
    client.send(GET.repeat(3)).finish();
    (0..3).for_each(|_| assert_eq!(client.response().status, 200));
    assert!(client.is_closed());
}

#[test]
fn refuses_what_is_not_a_request_and_closes() {
    let upstream = upstream(&[]);
    for malformed in [
        "nonsense\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ] {
        let mut client = Client::connect(upstream.instance(0));
        client.send(GET).send(malformed);
        assert_eq!(client.response().status, 200, "{malformed:?}");
        assert_eq!(client.response().status, 400, "{malformed:?}");
        assert!(client.is_closed(), "{malformed:?}");
    }
    let counts = &ledger::fetch(upstream.control()).expect("a ledger").instances[0];
    assert_eq!(counts.requests, 4, "only requests are counted");
}

#[test]
fn delays_responses_as_configured() {
    let upstream = upstream(&["--delay", "2ms"]);
    let mut client = Client::connect(upstream.instance(0));
    let began = Instant::now();
    let mut least = Duration::MAX;
    // The test uses the shortest of many response times, because the machine may be busy.
    for asked in 1.. {
        let start = Instant::now();
        client.send(GET).response();
        least = least.min(start.elapsed());
        assert!(least >= Duration::from_millis(2), "{least:?}");
        if asked >= 50 && least < Duration::from_micros(2500) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{least:?} in {asked} requests");
    }
}

#[test]
fn fails_the_same_requests_for_the_same_seed() {
    let statuses = |seed: &str| {
        let upstream = upstream(&["--failures", "30%", "--seed", seed]);
        let mut client = Client::connect(upstream.instance(0));
        client.send(GET.repeat(200));
        (0..200).map(|_| client.response().status).collect::<Vec<_>>()
    };
    let first = statuses("1");
    let failed = first.iter().filter(|&&status| status == 500).count();
    assert!((30..90).contains(&failed), "{failed} of 200 failed");
    assert!(first.iter().all(|status| matches!(status, 200 | 500)));
    assert_eq!(first, statuses("1"));
    assert_ne!(first, statuses("2"));
}

#[test]
fn counts_exactly() {
    let upstream = upstream(&["--instances", "2", "--body", "100B"]);
    let before = ledger::fetch(upstream.control()).expect("a ledger");
    assert_eq!(before.instances.len(), 2);
    let old = "GET / HTTP/1.0\r\n\r\n";
    let (mut bytes_in, mut bytes_out) = (0, 0);
    let mut clients: Vec<Client> =
        (0..6).map(|index| Client::connect(upstream.instance(index % 2))).collect();
    for client in &mut clients {
        for request in [GET, GET, GET, old] {
            let response = client.send(request).response();
            bytes_in += request.len();
            bytes_out += response.head.len() + response.body.len();
        }
        assert!(client.is_closed());
    }
    let open = Client::connect(upstream.instance(1)).send(GET).response();
    (bytes_in, bytes_out) = (bytes_in + GET.len(), bytes_out + open.head.len() + open.body.len());

    let after = ledger::fetch(upstream.control()).expect("a ledger");
    let delta = after.since(&before);
    assert_eq!(delta.by_instance, [12, 13]);
    assert_eq!((delta.requests, delta.connections), (25, 7));
    assert_eq!((delta.bytes_in, delta.bytes_out), (bytes_in as u64, bytes_out as u64));
    assert_eq!(delta.http_version, [("1.0".to_owned(), 6), ("1.1".to_owned(), 19)].into());
}

#[test]
fn counts_requests_of_clients_that_disconnect() {
    let upstream = upstream(&["--delay", "60s"]);
    let counts = |done: &dyn Fn(&ledger::InstanceCounts) -> bool| {
        wait_for("the count is reached", PATIENCE, || {
            Some(ledger::fetch(upstream.control()).expect("a ledger").instances.remove(0)).filter(done)
        })
    };
    let mut client = Client::connect(upstream.instance(0));
    client.send(GET).send(GET);
    assert_eq!(counts(&|counts| counts.requests == 2).bytes_out, 0, "both responses are delayed");
    drop(client);
    let mut next = Client::connect(upstream.instance(0));
    next.send(GET);
    counts(&|counts| counts.requests == 3);
}

#[test]
fn the_control_socket_serves_only_the_ledger() {
    let upstream = upstream(&[]);
    let mut client = Client::connect(upstream.control());
    assert_eq!(client.send("GET /other HTTP/1.1\r\nhost: a\r\n\r\n").response().status, 404);
    let ledger = client.send("GET /ledger HTTP/1.1\r\nhost: a\r\n\r\n").response();
    assert_eq!(ledger.status, 200);
    assert!(serde_json::from_slice::<ledger::Ledger>(&ledger.body).is_ok());
}

#[test]
fn a_slow_reader_takes_no_memory() {
    let upstream = upstream(&["--body", "1MiB"]);
    let mut client = Client::connect(upstream.instance(0));
    let before = upstream.memory();
    // The client does not read these 200 MiB of responses at first. The first read waits until the upstream
    // has started to send.
    client.send(GET.repeat(200));
    assert_eq!(client.response().body.len(), 1 << 20);
    let grown = upstream.memory().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes for one slow reader");
    (1..200).for_each(|_| assert_eq!(client.response().body.len(), 1 << 20));
}

#[test]
fn reports_wrong_options() {
    let running = upstream(&[]);
    let taken = running.instance(0);
    let (address, port) = (taken.ip().to_string(), taken.port().to_string());
    for (options, code, words) in [
        (vec!["--address", address.as_str(), "--port", &port], 1, format!("{taken} is in use")),
        (vec!["--body", "1"], 2, "has no unit".to_owned()),
        (vec!["--delay", "unifrom(1ms, 2ms)"], 2, "uniform".to_owned()),
        (vec!["--header", "no colon"], 2, "name: value".to_owned()),
        (vec!["--status", "101"], 2, "200..=599".to_owned()),
        (vec!["--body-file", "/no/such/file"], 1, "/no/such/file".to_owned()),
        (vec!["--cpus", "60000"], 2, "CPU 60000".to_owned()),
        (vec!["--body", "1B", "--body-text", "x"], 2, "cannot be used with".to_owned()),
    ] {
        let output = hoptax().arg("upstream").args(&options).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {said}");
        assert!(said.contains(&words), "{options:?}: {said}");
    }
}

/// During a run, all gateways keep running and keep their pools. Idle connections of other gateways must not
/// use up the file descriptors. The current gateway needs some descriptors, and reading the ledger needs one.
#[test]
fn idle_connections_are_closed_when_descriptors_run_out() {
    let upstream = Server::start_with_descriptors(150, &["upstream"]);
    let pooled: Vec<Client> = (0..70)
        .map(|_| {
            let mut client = Client::connect(upstream.instance(0));
            client.send(GET).response();
            client
        })
        .collect();
    let deadline = Instant::now() + PATIENCE;
    let mut fresh = Vec::new();
    while fresh.len() < 70 {
        assert!(Instant::now() < deadline, "only {} of 70 were answered", fresh.len());
        let mut client = Client::connect(upstream.instance(0));
        client.send(GET).response();
        fresh.push(client);
        let ledger = ledger::fetch(upstream.control()).expect("a descriptor is left for the ledger");
        assert!(ledger.instances[0].open <= 106, "a tenth stays free: {}", ledger.instances[0].open);
        if fresh.len() == 30 {
            // The upstream may close only connections that were silent for 100 ms. It must never close busy
            // connections.
            std::thread::sleep(Duration::from_millis(150));
            for client in &mut fresh {
                assert_eq!(client.send(GET).response().status, 200);
            }
        }
    }
    for client in &mut fresh {
        assert_eq!(client.send(GET).response().status, 200, "a busy client keeps its connection");
    }
    drop(pooled);
}

#[test]
fn tls_takes_its_identity_from_the_environment() {
    let error = refused(hoptax().args(["upstream", "--tls"]).env_remove("HOPTAX_UPSTREAM_IDENTITY"));
    insta::assert_snapshot!(error);
    let output = hoptax().args(["upstream", "--tls"]).env("HOPTAX_UPSTREAM_IDENTITY", "nothing").output();
    insta::assert_snapshot!(String::from_utf8_lossy(&output.expect("it runs").stderr));
}
