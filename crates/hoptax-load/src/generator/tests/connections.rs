//! Tests how connections are opened, reused and closed.

use super::*;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Mutex;

/// Heads of the requests that a server has received on each connection.
type Heads = Arc<Mutex<Vec<Vec<String>>>>;

/// Reads the head of the next request. Returns `None` if the client sends no further request.
pub(super) fn head(connection: &mut impl std::io::Read) -> Option<String> {
    let mut seen = Vec::new();
    let mut buffer = [0; 1024];
    while !seen.ends_with(b"\r\n\r\n") {
        match connection.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(count) => seen.extend_from_slice(&buffer[..count]),
        }
    }
    Some(String::from_utf8_lossy(&seen).into_owned())
}

/// True if the request requires the server to close the connection after its response (RFC 9112, section
/// 9.3).
pub(super) fn asks_to_close(head: &str) -> bool {
    match head.contains(" HTTP/1.0\r\n") {
        true => !head.contains("\r\nconnection: keep-alive\r\n"),
        false => head.contains("\r\nconnection: close\r\n"),
    }
}

/// Behaviour of a server that answers requests. If `obedient` is true, the server closes a connection when
/// the request requires this. Otherwise it never closes a connection.
fn keeper(heads: &Heads, obedient: bool) -> impl Fn(TcpStream, &AtomicU64) + Clone + Send + 'static {
    let heads = Arc::clone(heads);
    move |mut connection, _| {
        let mut mine = Vec::new();
        while let Some(head) = head(&mut connection) {
            let closing = asks_to_close(&head);
            let version = if head.contains(" HTTP/1.0\r\n") { "HTTP/1.0" } else { "HTTP/1.1" };
            let words = if closing { "close" } else { "keep-alive" };
            mine.push(head);
            let answer = format!("{version} 200 OK\r\nconnection: {words}\r\ncontent-length: 5\r\n\r\nhello");
            if connection.write_all(answer.as_bytes()).is_err() || closing && obedient {
                break;
            }
        }
        heads.lock().expect("not poisoned").push(mine);
    }
}

/// Waits until `connections` connections have ended. Returns the heads of the requests that the server
/// received on each of them.
fn per_connection(heads: &Heads, connections: u64) -> Vec<Vec<String>> {
    loop {
        let seen = heads.lock().expect("not poisoned");
        if seen.len() as u64 >= connections {
            return seen.clone();
        }
        drop(seen);
        thread::yield_now();
    }
}

#[test]
fn a_connection_carries_requests_up_to_its_limit() {
    for (http, limit, workers) in [
        (HttpVersion::Http11, 1, 1),
        (HttpVersion::Http10, 1, 1),
        (HttpVersion::Http11, 3, 2),
        (HttpVersion::Http10, 3, 1),
    ] {
        for shape in [Shape::Closed, open(2000.0, Arrivals::Constant)] {
            let heads = Heads::default();
            let server = Server::new(keeper(&heads, true));
            let spec = LoadSpec {
                http,
                shape,
                workers,
                requests_per_connection: Some(limit),
                ..spec(&[server.address])
            };
            let record = load(&until_done(200, spec));
            assert_eq!((record.counts.completed, record.counts.ok), (200, 200), "{:?}", record.counts);
            let Connections { opened, reused, closed_by_peer, .. } = record.connections;
            assert_eq!(closed_by_peer, 0, "the server was asked to close");
            let mut whole = 0;
            let seen = per_connection(&heads, record.lifetime.opened);
            for requests in &seen {
                assert!(requests.len() <= limit as usize);
                let closing: Vec<bool> = requests.iter().map(|head| asks_to_close(head)).collect();
                let expected: Vec<bool> = (1..=requests.len()).map(|nth| nth == limit as usize).collect();
                assert_eq!(closing, expected);
                whole += u64::from(requests.len() == limit as usize);
                let version = if http == HttpVersion::Http10 { " HTTP/1.0\r\n" } else { " HTTP/1.1\r\n" };
                assert!(requests.iter().all(|head| head.contains(version)));
            }
            let used = seen.iter().filter(|requests| !requests.is_empty()).count() as u64;
            assert_eq!(reused, 200 - used);
            assert!(opened >= whole - 4 && record.lifetime.opened <= 4 + whole, "{opened} of {whole}");
            let bytes: usize = seen.iter().flatten().map(String::len).sum();
            assert_eq!(record.bytes.sent, bytes as u64);
        }
    }
}

#[test]
fn a_server_that_does_not_close_delays_no_request() {
    let heads = Heads::default();
    let server = Server::new(keeper(&heads, false));
    let spec = LoadSpec { requests_per_connection: Some(1), ..spec(&[server.address]) };
    let record = load(&until_done(300, spec));
    assert_eq!(record.counts.completed, 300);
    // The first four requests use the connections that are already open. If a server that does not close
    // caused a delay, it would affect all other requests.
    assert!(quantile(&record.histograms.response_time, 0.05) < 20 * MILLISECOND, "requests are delayed");
    assert_eq!(per_connection(&heads, record.lifetime.opened).len() as u64, record.lifetime.opened);
}

/// Serves one connection at a time. Answers the first request on each with `answer`, and then waits until the
/// client closes.
fn patient(answer: &'static [u8]) -> SocketAddr {
    let listener = own_listener();
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            if request(&mut connection) && connection.write_all(answer).is_ok() {
                while request(&mut connection) {}
            }
        }
    });
    address
}

/// Number of ports in TIME_WAIT with the remote address `address`.
fn kept_ports(address: SocketAddr) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("procfs");
    let IpAddr::V4(ip) = address.ip() else { panic!("not IPv4: {address}") };
    // The kernel prints the bytes of the address as one number in the order of the machine. State 06 is
    // TIME_WAIT (include/net/tcp_states.h).
    let ends = format!(" {:08X}:{:04X} 06", u32::from_ne_bytes(ip.octets()), address.port());
    table.lines().filter(|line| line.contains(&ends)).count()
}

#[test]
fn a_server_that_waits_for_the_client_to_close_delays_no_request() {
    const CLOSES: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    const OLD: &[u8] = b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok";
    for (answer, limit, http) in [
        (CLOSES, None, HttpVersion::Http11),
        (CLOSES, Some(1), HttpVersion::Http11),
        (OK, Some(1), HttpVersion::Http11),
        (OLD, None, HttpVersion::Http10),
    ] {
        for shape in [Shape::Closed, open(500.0, Arrivals::Constant)] {
            let address = patient(answer);
            let one = LoadSpec { shape, http, requests_per_connection: limit, ..spec(&[address]) };
            let record = load(&until_done(20, LoadSpec { connections: 1, workers: 1, ..one }));
            assert_eq!((record.counts.ok, record.lifetime.opened), (20, 20), "{:?}", record.counts);
            let slow = quantile(&record.histograms.response_time, 0.9);
            assert!(slow < 500 * MILLISECOND, "{slow} ns");
            assert_eq!(kept_ports(address), 0, "ports of ours are in TIME_WAIT");
        }
    }
}

#[test]
fn a_new_connection_is_part_of_the_response_time() {
    let heads = Heads::default();
    let server = Server::new(keeper(&heads, true));
    for shape in [Shape::Closed, open(500.0, Arrivals::Constant)] {
        let spec = LoadSpec { shape, requests_per_connection: Some(1), ..spec(&[server.address]) };
        let record = load(&until_done(100, LoadSpec { warmup_ns: 30 * MILLISECOND, ..spec }));
        // A request is first scheduled, then its connection is established, and then it is sent. The send lag
        // therefore includes the connect, and the response time includes the send lag.
        let connect = quantile(&record.histograms.connect, 0.1);
        assert!(quantile(&record.histograms.send_lag, 0.5) >= connect, "{connect}");
        let service = quantile(&record.histograms.service_time, 0.1);
        assert!(quantile(&record.histograms.response_time, 0.5) >= connect + service);
    }
}

#[test]
fn responses_of_http_1_0_end_with_their_connection() {
    let server = Server::new(answer_once(b"HTTP/1.0 200 OK\r\n\r\nhello, hello"));
    for (limit, unexpected) in [(Some(1), false), (None, true)] {
        let spec =
            LoadSpec { http: HttpVersion::Http10, requests_per_connection: limit, ..spec(&[server.address]) };
        let record = load(&until_done(50, spec));
        assert_eq!((record.counts.completed, record.connections.reused), (50, 0));
        assert_eq!(record.bytes.body, 50 * 12);
        // If the load uses keep-alive, the server closes connections unexpectedly, and each of these closes
        // is counted.
        assert_eq!(record.connections.closed_by_peer, if unexpected { 50 } else { 0 });
    }
}

fn unix_server(listener: UnixListener) {
    thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || while serve(&mut connection) {});
        }
    });
}

/// Answers one request. Returns false if the connection has ended.
fn serve(connection: &mut UnixStream) -> bool {
    head(connection).is_some_and(|head| connection.write_all(OK).is_ok() && !asks_to_close(&head))
}

#[test]
fn a_unix_socket_carries_load_like_any_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    unix_server(UnixListener::bind(&path).expect("binds"));
    for limit in [None, Some(1), Some(5)] {
        let spec = LoadSpec {
            addresses: vec![Address::Unix(path.clone())],
            requests_per_connection: limit,
            ..spec(&[])
        };
        let record = load(&until_done(200, spec));
        assert_eq!((record.counts.completed, record.counts.ok), (200, 200));
        assert_eq!(record.connections.established, 4);
        let carried = limit.map_or(200, u64::from).min(200);
        assert!((200 / carried..=200 / carried + 8).contains(&record.lifetime.opened), "{limit:?}");
    }
}

#[test]
fn a_full_backlog_of_a_unix_socket_is_waited_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).expect("binds");
    rustix::net::listen(&listener, 1).expect("the backlog can be changed");
    unix_server(listener);
    let spec = LoadSpec { addresses: vec![Address::Unix(path)], connections: 60, ..spec(&[]) };
    let record = load(&LoadSpec { requests_per_connection: Some(10), ..spec });
    assert_eq!(record.connections.established, 60);
    assert_eq!(record.counts.completed, record.counts.scheduled, "{:?}", record.counts);
}

#[test]
fn a_backlog_of_a_unix_socket_that_remains_full_is_a_connect_timeout() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).expect("binds");
    rustix::net::listen(&listener, 0).expect("the backlog can be changed");
    let timeouts = Timeouts { connect_ns: 40 * MILLISECOND, ..Timeouts::all(100 * MILLISECOND) };
    let spec = LoadSpec { addresses: vec![Address::Unix(path)], timeouts, ..spec(&[]) };
    // One connection fits into the backlog. It remains there, because the server does not accept it.
    let record = load(&until_done(8, spec));
    assert_eq!(record.connections.established, 1);
    assert!(record.counts.causes[&Cause::ConnectTimeout] > 0, "{:?}", record.counts);
}

#[test]
fn connections_use_their_sources_in_turn() {
    let peers = Arc::new(Mutex::new(BTreeMap::new()));
    let server = || {
        let peers = Arc::clone(&peers);
        Server::new(move |mut connection: TcpStream, _: &AtomicU64| {
            let way =
                (connection.local_addr().expect("ours").port(), connection.peer_addr().expect("theirs").ip());
            *peers.lock().expect("not poisoned").entry(way).or_insert(0) += 1;
            while request(&mut connection) && connection.write_all(OK).is_ok() {}
        })
    };
    let (first, second) = (server(), server());
    let sources =
        vec![IpAddr::from([127, 0, 0, 2]), IpAddr::from([127, 0, 0, 3]), IpAddr::from([127, 0, 0, 4])];
    for workers in [1, 2, 3] {
        peers.lock().expect("not poisoned").clear();
        let spec = LoadSpec { sources: sources.clone(), workers, ..spec(&[first.address, second.address]) };
        let record = load(&until_done(100, LoadSpec { connections: 12, ..spec }));
        assert_eq!((record.counts.completed, record.lifetime.opened), (100, 12));
        let peers = peers.lock().expect("not poisoned").clone();
        let expected = [first.address.port(), second.address.port()]
            .into_iter()
            .flat_map(|port| sources.iter().map(move |source| ((port, *source), 2)))
            .collect::<BTreeMap<_, _>>();
        assert_eq!(peers, expected, "{workers} workers");
    }
}

#[test]
fn each_time_measures_its_own_part() {
    const FIRST: u64 = 30;
    const REST: u64 = 50;
    let server = Server::new(|mut connection: TcpStream, _: &AtomicU64| {
        while request(&mut connection) {
            thread::sleep(Duration::from_millis(FIRST));
            let _ = connection.write_all(&OK[..30]);
            thread::sleep(Duration::from_millis(REST));
            if connection.write_all(&OK[30..]).is_err() {
                return;
            }
        }
    });
    for limit in [None, Some(1)] {
        let spec = LoadSpec { requests_per_connection: limit, ..spec(&[server.address]) };
        let histograms = load(&until_done(20, spec)).histograms;
        let least = |ms: u64| ms * MILLISECOND - ms * MILLISECOND / 500;
        // The minimum is used, because a busy machine delays some of the responses, but not all of them.
        let first = quantile(&histograms.first_byte, 0.0);
        assert!(first >= least(FIRST) && first < least(FIRST + REST), "{first}");
        let whole = quantile(&histograms.service_time, 0.0);
        assert!(whole >= least(FIRST + REST) && whole < least(2 * (FIRST + REST)), "{whole}");
        assert!(quantile(&histograms.response_time, 0.0) >= least(FIRST + REST));
        // The delays of the server begin after the connect, because the kernel completes the connect without
        // the server.
        assert!(quantile(&histograms.connect, 0.0) < least(FIRST));
    }
}

#[test]
fn each_part_has_its_own_timeout() {
    let stalling = |sent: &'static [u8]| {
        Server::new(
            move |mut connection: TcpStream, _: &AtomicU64| {
                while request(&mut connection) && connection.write_all(sent).is_ok() {}
            },
        )
    };
    let (silent, slow) = (stalling(b""), stalling(b"HTTP/1.1 200 OK\r\n"));
    let (short, long) = (40 * MILLISECOND, 600 * MILLISECOND);
    let cases = [
        (&silent, short, long, Cause::FirstByteTimeout, short),
        (&silent, long, short, Cause::ResponseTimeout, short),
        (&silent, short, short, Cause::ResponseTimeout, short),
        // The timeout `long` gives the server enough time to start its response.
        (&slow, long, long + short, Cause::ReadTimeout, long + short),
        (&slow, long, long, Cause::ReadTimeout, long),
    ];
    let shapes = [Shape::Closed, open(50.0, Arrivals::Constant)];
    let cases: Vec<_> =
        cases.into_iter().flat_map(|case| shapes.each_ref().map(|shape| (case, shape))).collect();
    // If the machine is disturbed, both timeouts can expire before the load notices, or the server can start
    // its response too late. The load may then report another timeout, and the test measures again.
    retry_together(&cases, |&((server, first_byte_ns, total_ns, cause, after), shape)| {
        let timeouts = Timeouts { connect_ns: 5000 * MILLISECOND, first_byte_ns, total_ns };
        let spec = until_done(4, LoadSpec { shape: shape.clone(), timeouts, ..spec(&[server.address]) });
        let record = load(&spec);
        seen(record.counts.causes == [(cause, 4)].into(), || format!("{:?}", record.counts))?;
        let given_up = quantile(&record.histograms.service_time, 0.0);
        assert!(given_up >= after - after / 500, "{given_up} for {cause:?}");
        Ok(())
    });
}
