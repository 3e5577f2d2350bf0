//! Whole trials against servers that behave correctly or incorrectly. In every case, the counts must add up.

use super::*;
use crate::recorder::outcomes;
use hoptax_format::Address;
use hoptax_format::clock::SECOND;
use hoptax_format::record::{Cause, Connections, FailureKind};
use hoptax_format::spec::{HttpVersion, Rate, Retry, Stage, TargetSpec, Timeouts};
use hoptax_testing::{own_listener, retry_if_disturbed, unless_it_hangs, unused_address};
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

mod chunks;
mod connections;
mod events;
mod grpc;
mod grpc_web;
mod http2;
mod lateness;
mod messages;
mod mix;
mod namespace;
mod occupancy;
mod parts;
mod retry;
mod secure_tunnel;
mod stages;
mod stamps;
mod tls;
mod tokens;
mod trouble;
mod tunnel;
mod websocket;
mod websocket_streams;
mod windows;

/// A test fails after this time. It is much longer than any load in these tests takes.
const HANGS: Duration = Duration::from_secs(120);
/// Delay of servers that do not need to be fast. Without a delay, a closed loop uses all CPUs.
const MODEST: Duration = Duration::from_millis(2);
const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

/// A server with one thread per connection. Each thread runs `behave`. The connection closes when `behave`
/// returns.
struct Server {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Server {
    fn new(behave: impl Fn(TcpStream, &AtomicU64) + Clone + Send + 'static) -> Self {
        Self::on(own_listener(), behave)
    }

    fn on(listener: TcpListener, behave: impl Fn(TcpStream, &AtomicU64) + Clone + Send + 'static) -> Self {
        let server = Self {
            address: listener.local_addr().expect("bound"),
            requests: Arc::default(),
            stop: Arc::default(),
        };
        let (stop, requests) = (Arc::clone(&server.stop), Arc::clone(&server.requests));
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                connection.set_nodelay(true).expect("a socket");
                let (behave, requests) = (behave.clone(), Arc::clone(&requests));
                thread::spawn(move || behave(connection, &requests));
            }
        });
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // This connect wakes the thread that accepts connections, so that it notices the flag. The listener
        // may already be closed.
        let _ = TcpStream::connect(self.address);
    }
}

/// Reads one request without a body. Returns false if the client sends no further request.
fn request(connection: &mut impl io::Read) -> bool {
    connections::head(connection).is_some()
}

fn answer(
    response: &'static [u8],
    delay: Duration,
) -> impl Fn(TcpStream, &AtomicU64) + Clone + Send + 'static {
    move |mut connection, requests| {
        while request(&mut connection) {
            requests.fetch_add(1, Ordering::Relaxed);
            if !delay.is_zero() {
                thread::sleep(delay);
            }
            if connection.write_all(response).is_err() {
                return;
            }
        }
    }
}

fn answer_once(response: &'static [u8]) -> impl Fn(TcpStream, &AtomicU64) + Clone + Send + 'static {
    move |mut connection, _| {
        if request(&mut connection) {
            // If the client has closed the connection, writing fails here. The client counts the failure
            // itself.
            let _ = connection.write_all(response);
        }
    }
}

fn silent(mut connection: TcpStream, _: &AtomicU64) {
    while request(&mut connection) {}
}

fn spec(addresses: &[SocketAddr]) -> LoadSpec {
    let headers = vec![("host".into(), "test".into())];
    let target = TargetSpec { name: "target".into(), ..TargetSpec::only("GET", "/", headers, Vec::new()) };
    LoadSpec {
        connections: 4,
        duration_ns: 300 * MILLISECOND,
        timeouts: Timeouts::all(5000 * MILLISECOND),
        ..LoadSpec::closed(addresses.iter().map(|&address| address.into()).collect(), vec![target])
    }
}

fn phase(progress: Progress) -> PhaseLine {
    match progress {
        Progress::Phase(line) => line,
        Progress::Window { .. } => panic!("windows were not requested"),
    }
}

fn open(rate: f64, arrivals: Arrivals) -> Shape {
    Shape::Open { rate: Rate::Fixed(rate), arrivals }
}

/// Changes `spec` to a load that ends after `requests` requests. The load never reaches its duration.
fn until_done(requests: u64, spec: LoadSpec) -> LoadSpec {
    LoadSpec { requests: Some(requests), duration_ns: 60_000 * MILLISECOND, ..spec }
}

/// Returns an error with a description if `holds` is false. Used for conditions that a noisy machine can
/// violate.
fn seen(holds: bool, describe: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(describe()) }
}

fn staged(stages: &[(f64, f64, u64)]) -> Shape {
    let stage = |&(from, to, for_ns)| Stage { from, to, for_ns };
    Shape::Open { rate: Rate::Stages(stages.iter().map(stage).collect()), arrivals: Arrivals::Constant }
}

/// Runs `spec` and checks the properties that every record must have.
fn load(spec: &LoadSpec) -> LoadRecord {
    let spec = spec.clone();
    let load = move || run(&spec, &AtomicBool::new(false), Watch::Phases, |_| {});
    let record = unless_it_hangs(HANGS, load).expect("a load that can run");
    adds_up(&record);
    assert!(!record.interrupted);
    record
}

/// Runs a load that cannot run. Returns the error.
fn refusal(spec: &LoadSpec) -> LoadError {
    let spec = spec.clone();
    let load = move || run(&spec, &AtomicBool::new(false), Watch::Phases, |_| {});
    unless_it_hangs(HANGS, load).expect_err("it cannot run")
}

fn is_refused(spec: &LoadSpec, expected: &str) {
    let error = refusal(spec).to_string();
    assert!(error.contains(expected), "{error}");
}

fn adds_up(record: &LoadRecord) {
    adds_up_in_windows(record, hoptax_format::record::WINDOW_NS);
}

fn adds_up_in_windows(record: &LoadRecord, window_ns: u64) {
    let counts = &record.counts;
    assert_eq!(counts.scheduled, outcomes(counts), "{counts:?}");
    assert_eq!(counts.status.values().sum::<u64>(), counts.completed);
    let failed = counts.timeouts + counts.connect_errors + counts.resets + counts.bad_responses;
    assert_eq!(counts.errors.values().sum::<u64>(), failed);
    for (kind, failed) in [
        (FailureKind::Timeout, counts.timeouts),
        (FailureKind::Connect, counts.connect_errors),
        (FailureKind::Reset, counts.resets),
        (FailureKind::BadResponse, counts.bad_responses),
    ] {
        let of_kind = counts.causes.iter().filter(|(cause, _)| cause.kind() == kind);
        assert_eq!(of_kind.map(|(_, count)| count).sum::<u64>(), failed, "{kind:?}: {counts:?}");
    }
    let histograms = &record.histograms;
    let length = |encoded: &Encoded| encoded.decode().expect("our own").len();
    let ended = counts.completed - counts.ended_by_client;
    assert_eq!(length(&histograms.response_time), ended + counts.timeouts);
    assert_eq!(length(&histograms.send_lag), counts.sent);
    assert_eq!(length(&histograms.connect), record.lifetime.opened);
    if !record.windows.is_empty() {
        let completed: u64 = record.windows.iter().map(|window| window.completed).sum();
        let tokens = record.messages.as_ref().and_then(|messages| messages.tokens.as_ref());
        // Streams that the client left are in the windows, unlike those that ended with the measured time.
        let ended = counts.ended_by_client - tokens.map_or(0, |tokens| tokens.counts.left);
        assert_eq!(completed + ended, record.completed_in_time);
        assert_eq!(record.windows.len() as u64, record.measured_ns.div_ceil(window_ns));
    }
    assert!(record.lifetime.completed >= counts.completed);
    mix::adds_up(record);
    occupancy::adds_up(record);
}

/// Runs all cases at once. If a disturbed machine spoils one of them, runs all of them again. That counts as
/// one retry.
fn retry_together<T: Sync>(cases: &[T], check: impl Fn(&T) -> Result<(), String> + Sync) {
    let check = &check;
    retry_if_disturbed(|| {
        thread::scope(|scope| {
            let threads: Vec<_> = cases.iter().map(|case| scope.spawn(move || check(case))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("the case ran"))
        })
    });
}

fn quantile(encoded: &Encoded, quantile: f64) -> u64 {
    encoded.decode().expect("our own").value_at_quantile(quantile)
}

#[test]
fn a_closed_loop_completes_what_it_sends() {
    let server = Server::new(answer(OK, MODEST));
    for workers in [1, 3] {
        let spec = LoadSpec { workers, warmup_ns: 50 * MILLISECOND, ..spec(&[server.address]) };
        retry_if_disturbed(|| {
            let before = server.requests.load(Ordering::Relaxed);
            let record = load(&spec);
            assert_eq!(record.counts.completed, record.counts.scheduled);
            assert_eq!(record.lifetime.completed, server.requests.load(Ordering::Relaxed) - before);
            assert_eq!(record.measured_ns, spec.duration_ns);
            assert_eq!((record.connections.established, record.lifetime.opened), (4, 4));
            assert_eq!(record.bytes.received, record.completed_in_time * OK.len() as u64);
            assert_eq!(record.bytes.body, record.completed_in_time * 5);
            assert!(record.cpu.used_ns > 0 && record.cpu.busiest_worker_ns <= record.cpu.used_ns);
            assert_eq!(record.workers, workers);
            seen(record.counts.completed > 10, || format!("{:?}", record.counts))?;
            // The counts must not include the warm-up, but the lifetime totals do.
            seen(record.lifetime.completed > record.counts.completed, || format!("{:?}", record.lifetime))
        });
    }
}

#[test]
fn phases_are_reported_in_order_with_their_times() {
    let server = Server::new(answer(OK, MODEST));
    for (warmup_ns, expected) in [
        (40 * MILLISECOND, vec![Phase::Connecting, Phase::Warmup, Phase::Measuring, Phase::Draining]),
        (0, vec![Phase::Connecting, Phase::Measuring, Phase::Draining]),
    ] {
        let spec = LoadSpec { warmup_ns, ..spec(&[server.address]) };
        let mut lines = Vec::new();
        let record =
            run(&spec, &AtomicBool::new(false), Watch::Phases, |progress| lines.push(phase(progress)))
                .expect("a load");
        assert_eq!(lines.iter().map(|line| line.phase).collect::<Vec<_>>(), expected);
        let at = |phase| lines.iter().find(|line| line.phase == phase).expect("reported").at_ns;
        assert_eq!(at(Phase::Measuring), record.started_ns);
        assert_eq!(at(Phase::Draining), record.started_ns + record.measured_ns);
        if warmup_ns > 0 {
            assert_eq!(at(Phase::Measuring) - at(Phase::Warmup), warmup_ns);
        }
    }
}

#[test]
fn draining_begins_when_the_last_worker_is_done() {
    let quick = Server::new(answer(OK, Duration::ZERO));
    let slow = Server::new(answer(OK, Duration::from_millis(40)));
    let spec = LoadSpec { workers: 2, connections: 2, ..spec(&[quick.address, slow.address]) };
    let spec = until_done(10, spec);
    let mut draining = 0;
    let record = run(&spec, &AtomicBool::new(false), Watch::Phases, |progress| {
        let line = phase(progress);
        if line.phase == Phase::Draining {
            draining = line.at_ns;
        }
    });
    let record = record.expect("a load");
    adds_up(&record);
    assert_eq!(record.counts.completed, 10);
    assert!(record.measured_ns >= 5 * 40 * MILLISECOND, "five requests one after the other");
    assert_eq!(draining, record.started_ns + record.measured_ns);
}

#[test]
fn a_limited_number_of_requests_is_sent_exactly() {
    let server = Server::new(answer(OK, Duration::ZERO));
    for shape in [Shape::Closed, open(5000.0, Arrivals::Poisson), open(5000.0, Arrivals::Constant)] {
        let spec = LoadSpec {
            shape: shape.clone(),
            workers: 3,
            requests: Some(500),
            duration_ns: 3_600_000 * MILLISECOND,
            ..spec(&[server.address])
        };
        let record = load(&spec);
        assert_eq!((record.counts.scheduled, record.counts.completed), (500, 500), "{shape:?}");
        assert_eq!(record.completed_in_time, 500);
        assert!(record.measured_ns < spec.duration_ns);
    }
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let server = Server::new(answer(OK, Duration::ZERO));
    let check = |arrivals, workers| {
        let spec = LoadSpec {
            shape: open(1000.0, arrivals),
            workers,
            warmup_ns: 30 * MILLISECOND,
            connections: 16,
            ..spec(&[server.address])
        };
        let record = load(&spec);
        let expected = if arrivals == Arrivals::Poisson { 200..400 } else { 300..301 };
        assert!(expected.contains(&record.counts.scheduled), "{arrivals:?}: {:?}", record.counts);
        assert_eq!(record.counts.completed + record.counts.unsent, record.counts.scheduled);
    };
    thread::scope(|scope| {
        for arrivals in [Arrivals::Constant, Arrivals::Jitter(0.5), Arrivals::Poisson] {
            for workers in [1, 2] {
                scope.spawn(move || check(arrivals, workers));
            }
        }
    });
}

#[test]
fn an_overloaded_open_loop_leaves_requests_queued() {
    let server = Server::new(answer(OK, Duration::from_millis(20)));
    for arrivals in [Arrivals::Constant, Arrivals::Jitter(1.0)] {
        let spec = LoadSpec { shape: open(1000.0, arrivals), connections: 1, ..spec(&[server.address]) };
        retry_if_disturbed(|| {
            let record = load(&spec);
            assert_eq!(record.counts.scheduled, 300);
            assert!(record.counts.unsent > 200, "{:?}", record.counts);
            // Queueing time is part of the response time, but not of the service time. Requests are sent in
            // the order in which they are due. At most 15 of them are sent, so the last one was due in the
            // first 15 ms.
            let histograms = &record.histograms;
            let (response, lag) =
                (quantile(&histograms.response_time, 1.0), quantile(&histograms.send_lag, 1.0));
            seen(response.min(lag) > 200 * MILLISECOND, || {
                format!("{response} ns, {lag} ns of them queued")
            })?;
            let service = quantile(&histograms.service_time, 0.1) / MILLISECOND;
            seen((19..100).contains(&service), || format!("{service} ms at the server"))
        });
    }
}

#[test]
fn a_server_that_closes_each_connection_costs_a_connect_per_request() {
    for response in [
        &b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello"[..],
        b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
    ] {
        let server = Server::new(answer_once(response));
        for shape in [Shape::Closed, open(500.0, Arrivals::Constant)] {
            let record = load(&until_done(100, LoadSpec { shape, ..spec(&[server.address]) }));
            let counts = &record.counts;
            assert_eq!(counts.completed, 100, "{counts:?}");
            assert_eq!(record.connections.reused, 0);
            assert!(record.lifetime.opened >= record.lifetime.completed);
            assert_eq!(record.connections.closed_by_peer, record.completed_in_time);
            // The time that a request waits for its connect is part of its response time and of its send lag.
            assert!(quantile(&record.histograms.send_lag, 0.5) > 1000, "{counts:?}");
            assert_eq!(record.bytes.body, 5 * record.completed_in_time);
        }
    }
}

#[test]
fn a_request_with_connection_close_uses_a_connection_of_its_own() {
    let server = Server::new(answer(OK, Duration::ZERO));
    let mut spec = spec(&[server.address]);
    spec.targets[0].headers.push(("connection".into(), "close".into()));
    let record = load(&until_done(50, spec));
    assert_eq!(record.counts.completed, 50, "{:?}", record.counts);
    assert_eq!((record.connections.reused, record.connections.closed_by_peer), (0, 0));
}

#[test]
fn idle_connections_closed_by_the_server_are_replaced_without_an_error() {
    // The server closes each connection after its response, without announcing this. At this rate, the
    // connection closes between two requests, unless the server's thread is delayed.
    let server = Server::new(answer_once(OK));
    let spec = LoadSpec { shape: open(20.0, Arrivals::Constant), connections: 1, ..spec(&[server.address]) };
    let record = load(&until_done(6, spec));
    assert_eq!(record.counts.completed + record.counts.resets, 6, "{:?}", record.counts);
    assert!(record.counts.completed >= 2, "{:?}", record.counts);
    assert!(record.lifetime.opened >= record.counts.completed);
}

#[test]
fn a_refused_connect_fails_the_request_that_waited_for_it() {
    let refused = unused_address();
    let server = Server::new(answer(OK, MODEST));
    for shape in [Shape::Closed, open(400.0, Arrivals::Constant)] {
        let spec = LoadSpec { shape, ..spec(&[server.address, refused]) };
        retry_if_disturbed(|| {
            let record = load(&spec);
            assert_eq!(record.connections.established, 2);
            // Two of the slots fail. They wait 10, 20, 40, … ms between attempts, so there are only a few
            // attempts.
            assert!(record.counts.connect_errors <= 20, "{:?}", record.counts);
            let some = record.counts.completed > 10 && record.counts.connect_errors >= 2;
            seen(some, || format!("{:?}", record.counts))
        });
    }
}

#[test]
fn silence_is_a_timeout_at_the_end_of_the_timeout() {
    let server = Server::new(silent);
    for shape in [Shape::Closed, open(100.0, Arrivals::Constant)] {
        let timeout_ns = 60 * MILLISECOND;
        let spec = LoadSpec { shape, timeouts: Timeouts::all(timeout_ns), ..spec(&[server.address]) };
        let record = load(&until_done(20, spec));
        assert_eq!((record.counts.timeouts, record.counts.completed), (20, 0), "{:?}", record.counts);
        assert!(record.counts.errors.contains_key("timeout while waiting for the response"));
        let service = &record.histograms.service_time;
        assert!(quantile(service, 0.1) < 10 * timeout_ns);
        assert!(quantile(service, 0.0) >= timeout_ns - timeout_ns / 500);
    }
}

#[test]
fn an_interrupt_ends_the_trial_with_the_results_so_far() {
    let quick = Server::new(answer(OK, Duration::ZERO));
    let mute = Server::new(silent);
    for (server, shape) in [
        (&quick, Shape::Closed),
        (&mute, Shape::Closed),
        (&quick, open(1000.0, Arrivals::Constant)),
        (&mute, open(1000.0, Arrivals::Poisson)),
    ] {
        let hour = 3_600_000 * MILLISECOND;
        let spec =
            LoadSpec { shape, duration_ns: hour, timeouts: Timeouts::all(hour), ..spec(&[server.address]) };
        let interrupt = AtomicBool::new(false);
        let record = run(&spec, &interrupt, Watch::Phases, |progress| {
            interrupt.store(phase(progress).phase == Phase::Measuring, Ordering::Relaxed);
        });
        let record = record.expect("connections were established");
        assert!(record.interrupted && record.measured_ns < 10_000 * MILLISECOND);
        adds_up(&record);
    }
}

#[test]
fn an_interrupt_before_traffic_leaves_an_empty_record() {
    let server = Server::new(answer(OK, Duration::ZERO));
    let record = run(&spec(&[server.address]), &AtomicBool::new(true), Watch::Phases, |_| {})
        .expect("interrupted, not failed");
    assert!(record.interrupted);
    assert_eq!((record.counts.scheduled, record.lifetime.sent), (0, 0));
    assert!(record.measured_ns < 50 * MILLISECOND, "seen before the first request");
    adds_up(&record);
}

#[test]
fn a_known_delay_appears_in_the_service_time() {
    let delay = 5 * MILLISECOND;
    let server = Server::new(answer(OK, Duration::from_nanos(delay)));
    for shape in [Shape::Closed, open(100.0, Arrivals::Constant)] {
        let record = load(&LoadSpec { shape: shape.clone(), ..spec(&[server.address]) });
        // Low quantiles are used, because a busy machine delays some of the responses, but not all of them.
        assert!(quantile(&record.histograms.service_time, 0.0) >= delay - delay / 500, "{shape:?}");
        assert!(quantile(&record.histograms.service_time, 0.2) < 2 * delay, "{shape:?}");
        assert!(quantile(&record.histograms.first_byte, 0.0) >= delay - delay / 500, "{shape:?}");
    }
}

#[test]
fn a_large_request_and_a_large_response_are_transferred_completely() {
    const LARGE: usize = 3_000_000;
    let server = Server::new(|mut connection: TcpStream, _: &AtomicU64| {
        let mut response = format!("HTTP/1.1 200 OK\r\ncontent-length: {LARGE}\r\n\r\n").into_bytes();
        response.resize(response.len() + LARGE, b'x');
        let mut seen = 0;
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = connection.read(&mut buffer) {
            seen += count;
            // Every request has `LARGE` + 1 bytes (see below), so the whole request has arrived.
            if seen > LARGE {
                seen = 0;
                if connection.write_all(&response).is_err() {
                    return;
                }
            }
        }
    });
    let mut spec = LoadSpec { connections: 1, requests: Some(5), ..spec(&[server.address]) };
    spec.targets[0].body = vec![b'y'; LARGE];
    // Shorten the body by the length of the head, so that each request has exactly the length that the server
    // expects.
    let request = crate::target::first_request(&spec.targets[0], &spec.files, 0, spec.http).expect("valid");
    let head = request.len() - LARGE;
    spec.targets[0].body.truncate(LARGE + 1 - head);
    spec.duration_ns = 60_000 * MILLISECOND;
    let record = load(&spec);
    assert_eq!(record.counts.completed, 5, "{:?}", record.counts);
    assert_eq!(record.bytes.body, 5 * LARGE as u64);
    assert_eq!(record.connections.reused, 4);
}

#[test]
fn invalid_specs_are_refused() {
    let address: SocketAddr = "127.0.0.1:1".parse().expect("an address");
    let good = spec(&[address]);
    let told = [
        LoadSpec { schema: 9, ..good.clone() },
        LoadSpec { addresses: Vec::new(), ..good.clone() },
        LoadSpec { targets: Vec::new(), ..good.clone() },
        LoadSpec { targets: vec![TargetSpec { weight: 0, ..good.targets[0].clone() }], ..good.clone() },
        LoadSpec { connections: 0, ..good.clone() },
        LoadSpec { workers: 0, ..good.clone() },
        LoadSpec { requests: Some(0), ..good.clone() },
        LoadSpec { shape: open(0.0, Arrivals::Constant), ..good.clone() },
        LoadSpec { shape: open(f64::NAN, Arrivals::Constant), ..good.clone() },
        LoadSpec { shape: open(9.0, Arrivals::Jitter(1.5)), ..good.clone() },
        LoadSpec { shape: staged(&[(9.0, 9.0, 5)]), ..good.clone() },
        LoadSpec { part: Some(LoadPart { index: 2, of: 2 }), ..good.clone() },
        LoadSpec { part: Some(LoadPart { index: 0, of: 5 }), ..good.clone() },
    ]
    .map(|bad| {
        let error = refusal(&bad);
        assert!(matches!(error, LoadError::Spec(_)), "{error}");
        format!("{error}\n")
    })
    .concat();
    insta::assert_snapshot!(told);
    let pinned = LoadSpec { cpus: vec![1_000_000], ..good };
    let error = refusal(&pinned);
    assert!(matches!(error, LoadError::Pin { cpu: 1_000_000, .. }), "{error}");
}
