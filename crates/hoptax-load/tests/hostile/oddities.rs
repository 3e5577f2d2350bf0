//! Servers that send additional responses or send data without a request, and servers that do not accept
//! connections.

use super::Outcome::{Answered, Fails};
use super::{REQUESTS, Server, answers, case, load, meet, shapes};
use hoptax_format::record::Cause;
use hoptax_format::spec::Timeouts;
use hoptax_load::LoadError;
use hoptax_testing::{own_loopback, retry_if_disturbed};
use rustix::net::{AddressFamily, SocketType};
use std::net::{SocketAddr, TcpListener};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[test]
fn two_responses_to_one_request() {
    meet(&[
        answers("twice the same", Fails(Cause::MalformedResponse), OK.repeat(2)),
        answers("and a half", Fails(Cause::MalformedResponse), format!("{OK}HTTP/1.1 20")),
        answers("and garbage", Fails(Cause::MalformedResponse), format!("{OK}\0")),
        answers("and an empty line", Fails(Cause::MalformedResponse), format!("{OK}\r\n")),
    ]);
}

#[test]
fn data_without_a_request_is_not_used_as_a_response() {
    // At this rate, the second response arrives before the next request is sent. The connection is closed,
    // but no request fails.
    let case = case("and another one later", Answered(200), |peer| {
        if peer.request() && peer.write(OK) {
            std::thread::sleep(std::time::Duration::from_millis(20));
            peer.write(OK);
            peer.until_gone();
        }
    });
    let server = Server::start(&case.behaviour);
    let [_, open] = shapes();
    let mut spec = case.spec(server.address, open);
    spec.shape = hoptax_format::spec::Shape::Open {
        rate: hoptax_format::spec::Rate::Fixed(2.0),
        arrivals: hoptax_format::spec::Arrivals::Constant,
    };
    spec.connections = 1;
    spec.timeouts = Timeouts::all(5 * super::IMPATIENT);
    // Data without a request must end its connection. If the server is delayed by half a second, its data
    // arrives after the next request was sent, and is used as the response to this request.
    let record = retry_if_disturbed(|| {
        let record = load(spec.clone()).expect("a load");
        super::adds_up(&record);
        let ended = record.connections.reused + record.counts.timeouts == 0;
        if ended { Ok(record) } else { Err(format!("{:?}", record.connections)) }
    });
    case.check(&record);
    assert!(record.connections.unasked >= REQUESTS - 1, "{:?}", record.connections);
}

#[test]
fn a_server_that_sends_before_the_first_request_is_detected() {
    let mut case = case("answers first", Answered(200), |peer| {
        peer.write(OK);
        peer.until_gone();
    });
    // The server sends one response per connection and nothing after it, so further requests time out.
    case.timeout = super::IMPATIENT;
    for shape in shapes() {
        let server = Server::start(&case.behaviour);
        // If a connection is opened for a request, the response may arrive before or after this request is
        // sent. If a connection is opened in advance, a response on it shows that the server sends without a
        // request.
        match load(case.spec(server.address, shape)) {
            Ok(record) => {
                super::adds_up(&record);
                assert!(record.connections.unasked > 0, "{:?}", record.connections);
            }
            Err(LoadError::NoConnection { cause, .. }) => {
                assert!(cause.contains("without a request"), "{cause}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Creates a listener with the smallest possible backlog. It never accepts a connection.
fn listener() -> (TcpListener, SocketAddr) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    rustix::net::bind(&socket, &SocketAddr::from((own_loopback(), 0))).expect("a port");
    rustix::net::listen(&socket, 0).expect("a listener");
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

#[test]
fn a_full_backlog() {
    let check = |shape| {
        let (listener, address) = listener();
        let case = case("accepts nothing", Fails(Cause::ConnectTimeout), |_| {});
        let mut spec = case.spec(address, shape);
        (spec.connections, spec.requests) = (8, Some(16));
        // No request can succeed, so the timeouts may be short.
        spec.timeouts = Timeouts::all(super::IMPATIENT / 4);
        // The kernel completes the first connects without the server. The other connects wait for space in
        // the backlog.
        let record = load(spec).expect("some connections are established");
        super::adds_up(&record);
        let causes: Vec<Cause> = record.counts.causes.keys().copied().collect();
        assert_eq!(causes, [Cause::ConnectTimeout, Cause::ResponseTimeout], "{:?}", record.counts);
        assert_eq!((record.counts.ok, record.counts.timeouts), (0, 16));
        assert!(record.connections.established < 8);
        drop(listener);
    };
    std::thread::scope(|scope| {
        for shape in shapes() {
            scope.spawn(move || check(shape));
        }
    });
}

#[test]
fn a_server_that_accepts_late() {
    let (listener, address) = listener();
    let server = std::thread::spawn(move || {
        let mut served = 0;
        while served < REQUESTS {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let (mut connection, _) = listener.accept().expect("a client");
            use std::io::{Read as _, Write as _};
            let mut buffer = [0; 1024];
            while served < REQUESTS && matches!(connection.read(&mut buffer), Ok(1..)) {
                served += u64::from(connection.write_all(OK.as_bytes()).is_ok());
            }
        }
    });
    let case = case("accepts late", Answered(200), |_| {});
    let [closed, _] = shapes();
    let mut spec = case.spec(address, closed);
    spec.connections = 1;
    let record = load(spec).expect("a load");
    case.check(&record);
    server.join().expect("served all");
}
