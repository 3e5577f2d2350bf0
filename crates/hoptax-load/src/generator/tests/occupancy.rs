//! How connections are used: shares of the requests, time in flight, silence, and waiting for a connection.

use super::*;
use hoptax_format::record::Occupancy;
use std::time::Instant;

pub(super) fn occupancy(record: &LoadRecord) -> &Occupancy {
    record.occupancy.as_ref().expect("every load records it")
}

/// The number of responses of each connection, in ascending order.
fn shares(record: &LoadRecord) -> Vec<u64> {
    let responses = occupancy(record).responses.decode().expect("our own");
    let shares = responses.iter_recorded().flat_map(|step| {
        let times = step.count_at_value() as usize;
        std::iter::repeat_n(step.value_iterated_to(), times)
    });
    shares.collect()
}

pub(super) fn adds_up(record: &LoadRecord) {
    let (occupancy, shares) = (occupancy(record), shares(record));
    assert_eq!(shares.len() as u64, record.connections.asked);
    let (sum, completed) = (shares.iter().sum::<u64>() as f64, record.counts.completed as f64);
    assert!((sum - completed).abs() <= 0.002 * completed, "{sum} of {completed}");
    let streams = record.http2.map_or(1, |http2| u64::from(http2.most_streams.max(1)));
    let most = record.measured_ns * record.connections.asked * streams;
    assert!(occupancy.busy_ns <= most, "{} of {most}", occupancy.busy_ns);
    assert!(occupancy.silence.at_ns + occupancy.silence.for_ns <= record.measured_ns);
    assert!(occupancy.waited <= record.counts.scheduled);
}

/// Answers requests on the first `served` connections, and on no other connection.
fn serves_first(served: u64) -> impl Fn(TcpStream, &AtomicU64) + Clone + Send + 'static {
    let accepted = std::sync::Arc::new(AtomicU64::new(0));
    move |connection, requests| match accepted.fetch_add(1, Ordering::Relaxed) < served {
        true => answer(OK, MODEST)(connection, requests),
        false => silent(connection, requests),
    }
}

#[test]
fn connections_that_are_never_served_are_counted() {
    let check = |shape, warmup_ns, workers| {
        let server = Server::new(serves_first(4));
        let timeouts = Timeouts::all(400 * MILLISECOND);
        let spec =
            LoadSpec { shape, warmup_ns, workers, timeouts, connections: 6, ..spec(&[server.address]) };
        let record = load(&spec);
        let shares = shares(&record);
        assert_eq!(
            occupancy(&record).unanswered,
            2,
            "{:?}, {warmup_ns} ns, {workers} workers: {shares:?}",
            spec.shape
        );
        assert_eq!(shares[..2], [0, 0]);
        assert!(shares[2] > 0);
    };
    thread::scope(|scope| {
        for workers in [1, 2] {
            scope.spawn(move || check(Shape::Closed, 0, workers));
            scope.spawn(move || check(Shape::Closed, 50 * MILLISECOND, workers));
            scope.spawn(move || check(open(500.0, Arrivals::Constant), 0, workers));
        }
    });
}

#[test]
fn idle_connections_do_not_count_as_unanswered() {
    let server = Server::new(answer(OK, Duration::ZERO));
    let spec =
        LoadSpec { shape: open(1000.0, Arrivals::Constant), connections: 50, ..spec(&[server.address]) };
    let record = load(&until_done(10, spec));
    assert_eq!(occupancy(&record).unanswered, 0);
    assert_eq!(shares(&record).iter().filter(|share| **share == 0).count(), 40);
}

#[test]
fn a_stalled_server_is_silent() {
    const STALL: Duration = Duration::from_millis(150);
    for (shape, workers) in [(Shape::Closed, 1), (Shape::Closed, 2), (open(400.0, Arrivals::Constant), 2)] {
        let first = Arc::new(OnceLock::new());
        // All connections stall until the same time, 2 × `STALL` after the first request.
        let server = Server::new(move |mut connection: TcpStream, _: &AtomicU64| {
            while request(&mut connection) {
                let passed = first.get_or_init(Instant::now).elapsed();
                let stalled = (STALL..2 * STALL).contains(&passed);
                thread::sleep(if stalled { 2 * STALL - passed } else { MODEST });
                if connection.write_all(OK).is_err() {
                    return;
                }
            }
        });
        let spec = LoadSpec {
            shape: shape.clone(),
            workers,
            duration_ns: 500 * MILLISECOND,
            ..spec(&[server.address])
        };
        let record = load(&spec);
        let silence = occupancy(&record).silence;
        assert!(silence.for_ns > 100 * MILLISECOND, "{shape:?}, {workers} workers: {silence:?}");
        assert!(silence.for_ns < 500 * MILLISECOND, "{silence:?}");
    }
}

#[test]
fn requests_that_wait_for_a_connection_are_counted() {
    let server = Server::new(answer(OK, Duration::from_millis(20)));
    let at = |connections| {
        let shape = open(200.0, Arrivals::Constant);
        load(&LoadSpec { shape, connections, ..spec(&[server.address]) })
    };
    let few = at(1);
    assert!(occupancy(&few).waited * 2 > few.counts.sent, "{:?}", occupancy(&few));
    retry_if_disturbed(|| {
        let enough = at(60);
        seen(occupancy(&enough).waited == 0, || format!("{:?}", occupancy(&enough)))
    });
}

#[test]
fn a_load_of_failures_only_gives_up() {
    for (workers, shape) in [(1, Shape::Closed), (2, Shape::Closed), (2, open(1000.0, Arrivals::Constant))] {
        let server = Server::new(answer(b"nonsense\r\n\r\n", Duration::ZERO));
        let spec = LoadSpec { gives_up: true, workers, shape, ..spec(&[server.address]) };
        let record = load(&until_done(2_000, spec));
        assert!(record.gave_up && record.counts.completed == 0);
        let failed = record.counts.bad_responses;
        assert!((20..200).contains(&failed), "5 for each of 4 connections: {failed}");
    }
}

#[test]
fn one_response_keeps_a_load_from_giving_up() {
    let bad = Server::new(answer(b"nonsense\r\n\r\n", Duration::ZERO));
    let good = Server::new(answer(OK, Duration::from_millis(5)));
    let spec = LoadSpec { gives_up: true, workers: 2, connections: 2, ..spec(&[bad.address, good.address]) };
    let record = load(&LoadSpec { duration_ns: 500 * MILLISECOND, ..spec });
    assert!(!record.gave_up && record.measured_ns == 500 * MILLISECOND);
    assert!(record.counts.bad_responses > 0 && record.counts.completed > 0, "{:?}", record.counts);
}

#[test]
fn the_first_redirect_is_reported() {
    let moved = b"HTTP/1.1 302 Found\r\nlocation: /login?next=1\r\ncontent-length: 0\r\n\r\n";
    for (response, expected) in [(&moved[..], Some("/login")), (OK, None)] {
        let server = Server::new(answer(response, Duration::ZERO));
        let record = load(&until_done(20, spec(&[server.address])));
        assert_eq!(record.redirected_to.as_deref(), expected);
    }
}
