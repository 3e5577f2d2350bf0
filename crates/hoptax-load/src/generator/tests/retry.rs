//! Servers that close a connection after its first response without announcing this, and requests that are
//! sent again.

use super::*;

/// Behaviour of a server that answers the first request on each connection. It closes the connection when the
/// second request has arrived and `delay` is over.
fn answer_first(delay: Duration) -> impl Fn(TcpStream, &AtomicU64) + Clone + Send + 'static {
    move |mut connection, answered| {
        if request(&mut connection) && connection.write_all(OK).is_ok() {
            answered.fetch_add(1, Ordering::Relaxed);
            if request(&mut connection) {
                thread::sleep(delay);
            }
        }
    }
}

/// Runs `requests` requests over one connection at a time, with retries.
fn retrying(server: &Server, shape: Shape, requests: u64) -> LoadRecord {
    let spec = LoadSpec { shape, connections: 1, retry: Retry::IdleClose, ..spec(&[server.address]) };
    load(&until_done(requests, spec))
}

#[test]
fn connections_that_end_after_their_first_response_are_counted() {
    let server = Server::new(answer_once(OK));
    let record = load(&until_done(100, spec(&[server.address])));
    let (counts, connections) = (&record.counts, record.connections);
    // On each connection, the first request is answered and the second request is lost.
    assert_eq!(counts.completed + counts.resets, 100, "{counts:?}");
    assert!(counts.completed.abs_diff(counts.resets) <= 4, "{counts:?}");
    assert_eq!((counts.retried, connections.closed_on_reuse), (0, counts.resets));
    // The last connections can end while they are idle.
    let after_first = connections.closed_after_first;
    assert!((counts.resets..=counts.completed).contains(&after_first), "{connections:?}");
    assert_eq!(connections.closed_by_peer, after_first);
}

#[test]
fn connections_that_end_otherwise_are_not_counted() {
    let announced = answer_once(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello");
    let second = |mut connection: TcpStream, _: &AtomicU64| {
        for _ in 0..2 {
            if !request(&mut connection) || connection.write_all(OK).is_err() {
                return;
            }
        }
        request(&mut connection);
    };
    for (server, on_reuse) in [(Server::new(announced), 0), (Server::new(second), 20)] {
        let spec = LoadSpec { connections: 1, ..spec(&[server.address]) };
        let record = load(&until_done(60, spec));
        let Connections { closed_by_peer, closed_after_first, closed_on_reuse, .. } = record.connections;
        assert_eq!((closed_after_first, closed_on_reuse), (0, on_reuse), "{:?}", record.connections);
        assert!(closed_by_peer >= on_reuse.max(1));
    }
}

#[test]
fn a_request_on_a_connection_that_the_server_closes_is_sent_again() {
    let server = Server::new(answer_first(Duration::ZERO));
    for shape in [Shape::Closed, open(2000.0, Arrivals::Constant)] {
        let before = server.requests.load(Ordering::Relaxed);
        let spec = LoadSpec { shape, retry: Retry::IdleClose, ..spec(&[server.address]) };
        let record = load(&until_done(100, spec));
        let (counts, connections) = (&record.counts, record.connections);
        assert_eq!((counts.completed, counts.ok, counts.sent), (100, 100, 100), "{counts:?}");
        // All requests are sent again, except the first request on each initial connection.
        assert!((96..100).contains(&counts.retried), "{counts:?}");
        assert_eq!((connections.closed_on_reuse, connections.reused), (counts.retried, counts.retried));
        assert_eq!(connections.closed_after_first, counts.retried);
        // A request that was sent again counts once, and the server counts it once too. Reports compute extra
        // upstream requests from these two counts.
        assert_eq!((record.lifetime.sent, record.lifetime.completed), (100, 100));
        assert_eq!(server.requests.load(Ordering::Relaxed) - before, 100);
        assert_eq!(record.windows.iter().map(|window| window.errors).sum::<u64>(), 0);
    }
}

#[test]
fn a_server_that_closes_at_once_costs_no_request_with_retry() {
    let server = Server::new(answer_once(OK));
    for shape in [Shape::Closed, open(500.0, Arrivals::Constant)] {
        let spec = LoadSpec { shape, retry: Retry::IdleClose, ..spec(&[server.address]) };
        let record = load(&until_done(100, spec));
        assert_eq!(record.counts.completed, 100, "{:?}", record.counts);
        assert_eq!(record.counts.retried, record.connections.closed_on_reuse);
    }
}

#[test]
fn a_connection_that_is_reset_counts_like_one_that_is_closed() {
    let server = Server::new(|mut connection: TcpStream, _: &AtomicU64| {
        if request(&mut connection) && connection.write_all(OK).is_ok() && request(&mut connection) {
            rustix::net::sockopt::set_socket_linger(&connection, Some(Duration::ZERO)).expect("set");
        }
    });
    let record = retrying(&server, Shape::Closed, 10);
    assert_eq!((record.counts.completed, record.counts.retried), (10, 9), "{:?}", record.counts);
}

#[test]
fn the_lost_attempt_is_part_of_the_times() {
    const LOST: u64 = 30;
    let server = Server::new(answer_first(Duration::from_millis(LOST)));
    for shape in [Shape::Closed, open(10.0, Arrivals::Constant)] {
        let record = retrying(&server, shape, 10);
        assert_eq!((record.counts.completed, record.counts.retried), (10, 9), "{:?}", record.counts);
        let least = LOST * MILLISECOND - LOST * MILLISECOND / 500;
        // All requests except the first one need two attempts.
        for times in [&record.histograms.response_time, &record.histograms.service_time] {
            assert!(quantile(times, 0.2) >= least, "{}", quantile(times, 0.2));
        }
    }
}

#[test]
fn a_request_that_fails_again_is_a_failure() {
    // Connections are numbered from 0. Even ones carry one response, odd ones none.
    let server = Server::new(|mut connection: TcpStream, connections: &AtomicU64| {
        let even = connections.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        if request(&mut connection) && even && connection.write_all(OK).is_ok() {
            request(&mut connection);
        }
    });
    for shape in [Shape::Closed, open(50.0, Arrivals::Constant)] {
        server.requests.store(0, Ordering::Relaxed);
        let record = retrying(&server, shape, 8);
        let counts = &record.counts;
        assert_eq!((counts.completed, counts.retried), (4, 4), "{counts:?}");
        assert_eq!(counts.causes, [(Cause::ClosedBeforeResponse, 4)].into(), "{counts:?}");
    }
}

#[test]
fn other_failures_are_not_sent_again() {
    let on_new = Server::new(|mut connection: TcpStream, _: &AtomicU64| {
        request(&mut connection);
    });
    let begun = Server::new(|mut connection: TcpStream, _: &AtomicU64| {
        if request(&mut connection) && connection.write_all(OK).is_ok() && request(&mut connection) {
            let _ = connection.write_all(b"HTTP/1.1 2");
        }
    });
    // The pause before a new connection doubles with each failure in a row.
    for (server, sent, failed, cause) in
        [(&on_new, 6, 6, Cause::ClosedBeforeResponse), (&begun, 10, 5, Cause::ClosedInResponse)]
    {
        let record = retrying(server, Shape::Closed, sent);
        assert_eq!(record.counts.causes, [(cause, failed)].into(), "{:?}", record.counts);
        assert_eq!((record.counts.retried, record.connections.closed_on_reuse), (0, 0));
    }
}

#[test]
fn only_idempotent_methods_are_sent_again() {
    let server = Server::new(answer_first(Duration::ZERO));
    for (method, again) in
        [("GET", 9), ("PUT", 9), ("DELETE", 9), ("OPTIONS", 9), ("POST", 0), ("PATCH", 0), ("get", 0)]
    {
        let mut spec = LoadSpec { connections: 1, retry: Retry::IdleClose, ..spec(&[server.address]) };
        spec.targets[0].method = method.into();
        let counts = load(&until_done(10, spec)).counts;
        assert_eq!(counts.retried, again, "{method}: {counts:?}");
        assert_eq!(counts.resets, if again > 0 { 0 } else { 5 }, "{method}: {counts:?}");
    }
}
