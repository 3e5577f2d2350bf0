//! Tests of `hoptax hop` as a process. The path of a request selects the behaviour of the origin behind the
//! hop.

use crate::findings::two_ports;
use crate::origin::Origin;
use crate::support::{PATIENCE, hoptax, wait_until};
use crate::wire::{Client, Response, Server, UnusedAddress, chunked, sample};
use hoptax_servers::ledger;
use hoptax_wire::http1::{Framing, Version};
use std::net::TcpListener;

const KINDS: [&str; 2] = ["l4", "l7"];

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")
}

fn head(path: &str) -> String {
    format!("HEAD {path} HTTP/1.1\r\nhost: a\r\n\r\n")
}

fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn post_chunked(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n");
    [head.as_bytes(), &chunked(body)].concat()
}

#[test]
fn bodies_of_all_sizes_pass_both_ways() {
    let origin = Origin::start();
    for kind in KINDS {
        let (_hop, address) = Server::hop(kind, origin.address, &[]);
        let mut client = Client::connect(address);
        for size in [0, 1, 1000, 65_536, 300_001, 1 << 20] {
            let body = sample(size);
            for request in [post("/echo", &body), post_chunked("/echo", &body)] {
                let response = client.send(request).response();
                assert_eq!((response.status, response.framing), (200, Framing::Length(size as u64)));
                assert!(response.body == body, "{kind}: {size} bytes came back changed");
            }
            for path in ["/bytes", "/chunked"] {
                let response = client.send(get(&format!("{path}?{size}"))).response();
                assert!(response.body == body, "{kind}: {size} bytes of {path} came changed");
                assert!(response.keep_alive, "{kind} {path}");
            }
            let response = Client::connect(address).send(get(&format!("/until-close?{size}"))).response();
            assert!(response.body == body, "{kind}: {size} bytes until close came changed");
        }
    }
}

#[test]
fn answers_without_bodies_pass() {
    let origin = Origin::start();
    for kind in KINDS {
        let (_hop, address) = Server::hop(kind, origin.address, &[]);
        let mut client = Client::connect(address);
        let to_head = client.send(head("/bytes?500")).response_to_head();
        assert!(to_head.head.contains("content-length: 500\r\n"), "{kind}: {}", to_head.head);
        client.send(head("/chunked?500")).response_to_head();
        assert_eq!(client.send(get("/204")).response().status, 204);
        let not_modified = client.send(get("/304")).response();
        assert!(not_modified.head.contains("content-length: 99\r\n"), "{kind}: {}", not_modified.head);
        assert!(not_modified.head.contains("etag: x\r\n"), "{kind}");
        assert_eq!(client.send(get("/bytes?5")).response().body, sample(5), "{kind}: still synchronised");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = Origin::start();
    for kind in KINDS {
        let (_hop, address) = Server::hop(kind, origin.address, &[]);
        let mut client = Client::connect(address);
        let sizes = [3, 70_000, 0, 500, 12, 200_000];
        let requests: Vec<u8> = sizes
            .iter()
            .flat_map(|size| {
                [get(&format!("/bytes?{size}")).into_bytes(), post_chunked("/echo", &sample(*size))].concat()
            })
            .collect();
        client.send(requests);
        for size in sizes {
            assert!(client.response().body == sample(size), "{kind}: {size} bytes");
            assert!(client.response().body == sample(size), "{kind}: {size} bytes echoed");
        }
    }
}

#[test]
fn requests_may_come_byte_by_byte() {
    let origin = Origin::start();
    let (_hop, address) = Server::hop("l7", origin.address, &[]);
    let mut client = Client::connect(address);
    for byte in post_chunked("/echo", b"hello there") {
        client.send([byte]);
    }
    assert_eq!(client.response().body, b"hello there");
}

#[test]
fn ends_of_streams_pass_both_ways() {
    let origin = Origin::start();
    for kind in KINDS {
        let (_hop, address) = Server::hop(kind, origin.address, &[]);
        let mut client = Client::connect(address);
        client.send(get("/bytes?100000").repeat(3)).finish();
        (0..3).for_each(|_| assert_eq!(client.response().body.len(), 100_000, "{kind}"));
        assert!(client.is_closed(), "{kind}");
    }
}

#[test]
fn slow_readers_and_slow_upstreams_take_no_memory() {
    let origin = Origin::start();
    let upstream = Server::start(&["upstream", "--body", "64MiB"]);
    for kind in KINDS {
        let (hop, address) = Server::hop(kind, upstream.instance(0), &[]);
        let before = hop.memory();
        let mut client = Client::connect(address);
        client.send(get("/"));
        // Waits for the first bytes. The other bytes stay unread while other requests are served.
        let mut first = [0; 1];
        client.stream.peek(&mut first).expect("it began");
        for _ in 0..20 {
            assert_eq!(Client::connect(address).send(head("/")).response_to_head().status, 200, "{kind}");
        }
        let grown = hop.memory().saturating_sub(before);
        assert!(grown < 16 << 20, "{kind}: {grown} bytes for one slow reader");
        assert_eq!(client.response().body.len(), 64 << 20, "{kind}");

        let (hop, address) = Server::hop(kind, origin.address, &[]);
        let body = sample(32 << 20);
        let mut client = Client::connect(address);
        let before = hop.memory();
        assert!(client.send(post("/echo", &body)).response().body == body, "{kind}");
        let grown = hop.memory().saturating_sub(before);
        assert!(grown < 16 << 20, "{kind}: {grown} bytes for one large request");
    }
}

#[test]
fn l7_pools_upstream_connections() {
    let origin = Origin::start();
    let (_hop, address) = Server::hop("l7", origin.address, &[]);
    for _ in 0..10 {
        let mut client = Client::connect(address);
        (0..3).for_each(|_| assert_eq!(client.send(get("/bytes?10")).response().status, 200));
    }
    assert_eq!(origin.connections(), 1);
    // The client must not reuse a connection after `connection: close`.
    let mut client = Client::connect(address);
    let response = client.send(get("/close")).response();
    assert!(response.keep_alive, "the client's connection is separate");
    assert!(!response.head.contains("keep-alive"), "{}", response.head);
    assert_eq!(client.send(get("/bytes?10")).response().status, 200);
    assert_eq!(origin.connections(), 2);
}

#[test]
fn l7_forwards_end_to_end_headers_and_adds_none() {
    let origin = Origin::start();
    let (_hop, address) = Server::hop("l7", origin.address, &[]);
    let mut client = Client::connect(address);
    let asked = "GET /bytes?1 HTTP/1.1\r\nHost: echo.com\r\nX-One: 1\r\nx-two:  2 \r\n";
    client.send(format!("{asked}Connection: keep-alive, x-mine\r\nX-Mine: 3\r\nTE: trailers\r\n\r\n"));
    let response = client.response();
    assert_eq!(response.head, "HTTP/1.1 200 OK\r\nx-a: b\r\ncontent-length: 1\r\n\r\n");
    let expected = "GET /bytes?1 HTTP/1.1\r\nHost: echo.com\r\nX-One: 1\r\nx-two: 2\r\n\r\n";
    assert_eq!(origin.heads(), [expected]);
}

#[test]
fn l7_serves_old_clients() {
    let origin = Origin::start();
    let (_hop, address) = Server::hop("l7", origin.address, &[]);
    let old = |path: &str, more: &str| format!("GET {path} HTTP/1.0\r\n{more}\r\n");
    let mut client = Client::connect(address);
    let keep_alive = "connection: keep-alive\r\n";
    let response = client.send(old("/bytes?10", keep_alive)).response();
    assert!(response.head.contains(keep_alive), "{}", response.head);
    // A client with HTTP/1.0 receives no chunks and no interim responses.
    let response = client.send(old("/hints", keep_alive)).response();
    assert_eq!((response.interim, response.body), (0, b"ok".to_vec()));
    let response = client.send(old("/chunked?5000", keep_alive)).response();
    assert_eq!((response.framing, response.version), (Framing::UntilClose, Version::Http11));
    assert_eq!(response.body, sample(5000));
    assert!(origin.heads().iter().all(|head| head.contains(&format!("host: {}\r\n", origin.address))));
    let mut client = Client::connect(address);
    assert!(!client.send(old("/bytes?10", "")).response().keep_alive);
    assert!(client.is_closed());
}

#[test]
fn interim_responses_pass() {
    let origin = Origin::start();
    for kind in KINDS {
        let (_hop, address) = Server::hop(kind, origin.address, &[]);
        let mut client = Client::connect(address);
        let response = client.send(get("/hints")).response();
        assert_eq!((response.interim, response.body), (1, b"ok".to_vec()), "{kind}");
        client.send("POST /echo HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n");
        let mut first = [0; 12];
        client.stream.peek(&mut first).expect("100 comes before the body is sent");
        assert_eq!(client.send("abc").response().interim, 1, "{kind}");
    }
}

#[test]
fn l7_retries_requests_lost_on_a_stale_connection() {
    let origin = Origin::start();
    let (_hop, address) = Server::hop("l7", origin.address, &[]);
    let mut client = Client::connect(address);
    // The origin answers one request per connection, and closes the connection when the second request
    // arrives. So the hop must repeat the second request on a new connection.
    for count in 1..=5 {
        assert_eq!(client.send(get("/once")).response().body, b"once", "request {count}");
    }
    assert_eq!(origin.connections(), 5);
    assert_eq!(origin.heads().len(), 9, "all but the first were sent twice");
    // A request with side effects must not be repeated.
    assert_eq!(client.send(post("/once", b"x")).response().status, 502);
    // If the first request on a new connection fails, the upstream is at fault, so the request is not
    // retried.
    let requests = origin.heads().len();
    assert_eq!(client.send(get("/nothing")).response().status, 502);
    assert_eq!(origin.heads().len(), requests + 1);
}

#[test]
fn l7_answers_502_when_the_upstream_fails() {
    let origin = Origin::start();
    let (_hop, address) = Server::hop("l7", origin.address, &[]);
    let mut client = Client::connect(address);
    let malformed =
        "is malformed: not an HTTP/1 head: the version is not HTTP/1.0 or HTTP/1.1: `this is not HTTP`";
    for (path, why) in [("/nothing", "closed the connection before its response"), ("/garbage", malformed)] {
        let refused = client.send(get(path)).response();
        assert_eq!(refused.status, 502, "{path}");
        let body = String::from_utf8_lossy(&refused.body).into_owned();
        assert!(body.contains(why) && body.contains(&origin.address.to_string()), "{path}: {body}");
        assert_eq!(client.send(head(path)).response_to_head().status, 502, "{path}");
        assert_eq!(
            client.send(get("/bytes?3")).response().status,
            200,
            "the connection lives on after {path}"
        );
    }
    let cut = client.send(get("/cut")).read(false);
    assert!(cut.as_ref().is_err_and(|error| error.contains("ended before")), "{cut:?}");
}

#[test]
fn l7_passes_on_odd_answers() {
    let origin = Origin::start();
    let (_hop, address) = Server::hop("l7", origin.address, &[]);
    let mut client = Client::connect(address);
    for _ in 0..2 {
        let response = client.send(get("/odd")).response();
        assert_eq!((response.status, response.body.as_slice()), (200, &b"ok"[..]));
        let head = response.head;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nx-a: one   two\r\n\"x-b\": three\r\n"), "{head}");
    }
}

#[test]
fn l7_answers_502_where_nobody_listens() {
    let nobody = UnusedAddress::new();
    let (_hop, address) = Server::hop("l7", nobody.address, &[]);
    let mut client = Client::connect(address);
    let statuses = |responses: Vec<Response>| responses.iter().map(|one| one.status).collect::<Vec<_>>();
    client.send(get("/").repeat(100)).send(post("/", &sample(100_000))).send(get("/"));
    assert_eq!(statuses((0..102).map(|_| client.response()).collect()), [502; 102]);
}

#[test]
fn l4_closes_where_nobody_listens() {
    let nobody = UnusedAddress::new();
    let (_hop, address) = Server::hop("l4", nobody.address, &[]);
    assert!(Client::connect(address).send(get("/")).read(false).is_err());
}

#[test]
fn l7_continues_after_an_early_response() {
    let origin = Origin::start();
    let (_hop, address) = Server::hop("l7", origin.address, &[]);
    let mut client = Client::connect(address);
    let request = post("/early", &sample(50_000));
    let (first, second) = request.split_at(1000);
    let response = client.send(first).response();
    assert_eq!((response.status, response.body), (413, b"no".to_vec()));
    assert_eq!(client.send(second).send(get("/bytes?7")).response().body, sample(7));
}

#[test]
fn l7_refuses_ambiguous_requests() {
    let origin = Origin::start();
    let (_hop, address) = Server::hop("l7", origin.address, &[]);
    for (request, status) in [
        (
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabc", 400),
        ("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400),
        ("nonsense\r\n\r\n", 400),
        ("CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n", 501),
    ] {
        let mut client = Client::connect(address);
        assert_eq!(client.send(request).response().status, status, "{request:?}");
        assert!(client.is_closed(), "{request:?}");
    }
    assert_eq!(origin.heads(), [""; 0]);
}

#[test]
fn upstreams_take_turns() {
    let origins = [Origin::start(), Origin::start()];
    let second = origins[1].address.to_string();
    for kind in KINDS {
        let (_hop, address) = Server::hop(kind, origins[0].address, &["--upstream", &second]);
        let before: Vec<usize> = origins.iter().map(|origin| origin.heads().len()).collect();
        // `hop-l4` takes the next instance for each connection. `hop-l7` takes the next instance for each
        // request.
        let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(address)).collect();
        for client in &mut clients {
            (0..2).for_each(|_| assert_eq!(client.send(get("/bytes?1")).response().status, 200));
        }
        let each: Vec<usize> =
            origins.iter().zip(before).map(|(origin, before)| origin.heads().len() - before).collect();
        assert_eq!(each, [4, 4], "{kind}");
    }
}

#[test]
fn workers_share_the_port() {
    let origin = Origin::start();
    for kind in KINDS {
        let (hop, address) = Server::hop(kind, origin.address, &["--workers", "3", "--cpus", "0"]);
        let mut clients: Vec<Client> = (0..30).map(|_| Client::connect(address)).collect();
        for client in &mut clients {
            assert_eq!(client.send(get("/bytes?1")).response().status, 200, "{kind}");
        }
        assert_eq!(hop.stop(), Some(0), "{kind}");
    }
}

#[test]
fn disconnecting_clients_leave_no_connections() {
    let upstream = Server::start(&["upstream", "--body", "100kB", "--delay", "choice(50% 0ms, 50% 1ms)"]);
    let script =
        [post("/", &sample(50)), get("/").repeat(2).into_bytes(), post_chunked("/", &sample(30))].concat();
    let servers = KINDS.map(|kind| Server::hop(kind, upstream.instance(0), &[]));
    let addresses = [upstream.instance(0), servers[0].1, servers[1].1];
    for address in addresses {
        for cut in 0..script.len() {
            // Disconnects while responses are unread, so that most of these connections end with a reset.
            Client::connect(address).send(&script[..cut]);
        }
        let mut client = Client::connect(address);
        client.send(&script);
        (0..4).for_each(|_| assert_eq!(client.response().body.len(), 100_000));
    }
    drop(servers);
    // All clients have disconnected, but the upstream notices this a little later.
    wait_until("no connection is left open", PATIENCE, || {
        ledger::fetch(upstream.control()).expect("a ledger").instances[0].open == 0
    });
}

#[test]
fn l7_reconnects_to_a_restarted_upstream() {
    // The kernel never assigns this port to another process, so the restarted upstream can use it again.
    let port = two_ports()[0].port().to_string();
    let upstream = Server::start(&["upstream", "--port", &port]);
    let (_hop, address) = Server::hop("l7", upstream.instance(0), &[]);
    let mut client = Client::connect(address);
    assert_eq!(client.send(get("/")).response().status, 200);
    upstream.stop();
    assert_eq!(client.send(get("/")).response().status, 502);
    let _again = Server::start(&["upstream", "--port", &port]);
    assert_eq!(client.send(get("/")).response().status, 200);
}

#[test]
fn reports_wrong_options() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("bound").to_string();
    for (options, code, words) in [
        (vec!["l7", "--upstream", "127.0.0.1:1", "--listen", &taken], 1, format!("{taken} is in use")),
        (vec!["l7", "--upstream", "127.0.0.1"], 2, "HOST:PORT".to_owned()),
        (vec!["l7"], 2, "--upstream".to_owned()),
        (vec!["l5", "--upstream", "127.0.0.1:1"], 2, "l4, l7".to_owned()),
    ] {
        let output = hoptax().arg("hop").args(&options).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {said}");
        assert!(said.contains(&words), "{options:?}: {said}");
    }
}
