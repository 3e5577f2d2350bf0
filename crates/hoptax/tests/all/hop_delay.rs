//! Delays and warm-ups of `hop-l7`. Each delayed message must be late by exactly the delay, and other
//! messages must not be delayed. No message may be lost or reordered.

use crate::origin::Origin;
use crate::support::refusals::refusals;
use crate::support::{PATIENCE, Scratch, hoptax, wait_until};
use crate::wire::{Client, Server, sample};
use hoptax_format::random::Random;
use std::time::{Duration, Instant};

const GET: &str = "GET /bytes?70000 HTTP/1.1\r\nhost: a\r\n\r\n";
const POST: &str = "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello";

fn assert_each_waits(delays: &[&str], each: Duration) {
    let origin = Origin::start();
    let (_hop, address) = Server::hop("l7", origin.address, delays);
    let mut client = Client::connect(address);
    for _ in 0..3 {
        let before = Instant::now();
        assert!(client.send(GET).response().body == sample(70_000), "{delays:?}");
        assert!(before.elapsed() >= each, "{delays:?}: {:?}", before.elapsed());
    }
    // These requests are pipelined.
    let before = Instant::now();
    client.send([GET, POST, GET].concat());
    assert!(client.response().body == sample(70_000), "{delays:?}");
    assert_eq!(client.response().body, b"hello", "{delays:?}");
    assert!(client.response().body == sample(70_000), "{delays:?}");
    assert!(before.elapsed() >= each * 3, "{delays:?}: {:?}", before.elapsed());
}

#[test]
fn requests_and_responses_are_delayed_by_the_given_time() {
    assert_each_waits(&["--delay-in", "5ms"], Duration::from_millis(5));
    assert_each_waits(&["--delay-out", "5ms"], Duration::from_millis(5));
    assert_each_waits(&["--delay-in", "3ms", "--delay-out", "4ms"], Duration::from_millis(7));
    assert_each_waits(
        &["--delay-in", "3ms", "--delay-out", "4ms", "--delay-how", "spin"],
        Duration::from_millis(7),
    );
    assert_each_waits(&["--delay-in", "5ms", "--cpus", "0"], Duration::from_millis(5));
}

#[test]
fn requests_in_pieces_and_large_bodies_pass_through_a_delay() {
    let origin = Origin::start();
    let (_hop, address) = Server::hop("l7", origin.address, &["--delay-in", "2ms", "--delay-out", "2ms"]);
    let mut client = Client::connect(address);
    for byte in POST.bytes() {
        client.send([byte]);
    }
    assert_eq!(client.response().body, b"hello");
    let body = sample(3_000_000);
    let head = format!("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", body.len());
    assert!(client.send(head).send(&body).response().body == body);
    let until_close = "GET /until-close?300001 HTTP/1.1\r\nhost: a\r\n\r\n";
    assert!(Client::connect(address).send(until_close).response().body == sample(300_001));
}

#[test]
fn a_half_closed_client_still_gets_its_delayed_response() {
    let origin = Origin::start();
    let (_hop, address) = Server::hop("l7", origin.address, &["--delay-in", "20ms", "--delay-out", "20ms"]);
    let mut client = Client::connect(address);
    client.send(GET);
    client.stream.shutdown(std::net::Shutdown::Write).expect("it stands");
    assert!(client.response().body == sample(70_000));
}

#[test]
fn a_client_that_disconnects_during_a_delay_frees_everything() {
    let origin = Origin::start();
    let delays = ["--delay-in", "1ms", "--delay-out", "1ms"];
    let (hop, address) = Server::hop("l7", origin.address, &delays);
    for cut in 0..POST.len() {
        Client::connect(address).send(POST).send(&POST[..cut]);
    }
    assert_eq!(Client::connect(address).send(POST).response().body, b"hello");
    assert_eq!(hop.stop(), Some(0));
}

/// The delay is longer than any test. So a request was delayed if it has no answer, and was not delayed if it
/// has an answer.
#[test]
fn only_the_given_share_is_delayed() {
    const REQUESTS: usize = 40;
    let origin = Origin::start();
    for seed in ["1", "2"] {
        let delays = ["--delay-out", "60s", "--delay-share", "30%", "--seed", seed];
        let (_hop, address) = Server::hop("l7", origin.address, &delays);
        let mut drawn = Random::stream(seed.parse().expect("a number"), 0);
        let expected = (0..REQUESTS).filter(|_| drawn.unit() >= 0.3).count();
        let mut clients: Vec<Client> = (0..REQUESTS).map(|_| Client::connect(address)).collect();
        for client in &mut clients {
            client.send(POST);
        }
        // Waits until all requests that were not delayed have received the first bytes of their answers.
        let mut answered = vec![false; REQUESTS];
        for client in &clients {
            client.stream.set_nonblocking(true).expect("set");
        }
        wait_until(&format!("{expected} requests are answered"), PATIENCE, || {
            for (client, answered) in clients.iter().zip(&mut answered) {
                *answered |= client.stream.peek(&mut [0]).is_ok();
            }
            answered.iter().filter(|&&answered| answered).count() >= expected
        });
    }
}

/// Each request has its own connection, so that both workers receive requests. The hop must count the
/// requests of both workers together.
#[test]
fn only_the_first_requests_are_part_of_a_warm_up() {
    const COLD: usize = 20;
    const EXTRA: Duration = Duration::from_millis(20);
    let origin = Origin::start();
    let warming = ["--warming-requests", "20", "--warming-extra", "20ms", "--warming-fall", "step"];
    let options = [&warming[..], &["--workers", "2"]].concat();
    let (_hop, address) = Server::hop("l7", origin.address, &options);
    let times: Vec<Duration> = (0..2 * COLD)
        .map(|_| {
            let mut client = Client::connect(address);
            let before = Instant::now();
            assert_eq!(client.send(POST).response().body, b"hello");
            before.elapsed()
        })
        .collect();
    assert!(times[..COLD].iter().all(|time| *time >= EXTRA), "{times:?}");
    // A busy machine can delay a few of the other requests.
    let fast = times[COLD..].iter().filter(|time| **time < EXTRA).count();
    assert!(fast > COLD / 2, "{times:?}");
}

#[test]
fn refuses_impossible_delays() {
    let lines = [
        &["l4", "--delay-in", "2ms"][..],
        &["l7", "--delay-share", "1%"],
        &["l7", "--delay-in", "2ms", "--delay-share", "0%"],
        &["l7", "--delay-in", "2m"],
        &["l7", "--delay-in", "2"],
        &["l7", "--warming-requests", "9"],
        &["l7", "--warming-extra", "1ms"],
        &["l7", "--delay-in", "2ms", "--warming-fall", "step"],
        &["l7", "--warming-requests", "0", "--warming-extra", "1ms"],
        &["l7", "--warming-requests", "9", "--warming-extra", "2s"],
        &["l4", "--warming-requests", "9", "--warming-extra", "1ms"],
        &["l7", "--fault-deadline", "drop"],
        &["h2", "--fault-cut", "1s"],
        &["h2", "--fault-false-end"],
        &["l7", "--fault-retry", "0"],
        &["l7", "--fault-hold-first", "2m"],
        &["l4", "--fault-drop", "1%"],
        &["l7", "--fault-bunch", "1"],
        &["h2", "--upstream-http", "1.1", "--delay-message", "1ms"],
        &["h2", "--fault-drop", "0%"],
        &["h2", "--fault-deadline", "lose"],
    ];
    insta::assert_snapshot!(refusals(&["hop", "--upstream", "127.0.0.1:1"], &lines));
}

#[test]
fn a_delay_in_a_plan_shows_in_the_run() {
    let scratch = Scratch::new();
    let plan = scratch.file(
        "planted.yaml",
        "gateways:\n  - { name: hop-l7, label: slow, delay: { in: 4ms, out: 3ms, how: sleep } }\n\
         load: [{ loop: closed, connections: 1, requests: 20, duration: 60s }]\ntrials: 2\nwarmup: 0s\n",
    );
    let checked = hoptax().arg("check").arg(&plan).output().expect("it runs");
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(said.contains("4ms in, 3ms"), "{said}");
    let out = scratch.path().join("out");
    hoptax().arg("run").arg(&plan).arg("--out").arg(&out).output().expect("it runs");
    let run_dir = std::fs::read_dir(&out).expect("a directory").next().expect("a run").expect("read").path();
    let report = crate::support::json(hoptax().arg("report").arg(&run_dir).args(["--format", "json"]));
    let case = crate::run::case(&report, "slow");
    assert!(case["response_time"]["p50"]["estimate"].as_f64().expect("measured") >= 7000.0, "{case}");
    let record = std::fs::read_to_string(run_dir.join("run.json")).expect("written");
    assert!(record.contains("4ms in, 3ms"), "{record}");
}
