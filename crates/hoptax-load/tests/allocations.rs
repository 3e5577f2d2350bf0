//! Checks that a request in steady state allocates nothing. Each load runs twice, the second time for longer. The
//! additional allocations are compared with the additional work.
//!
//! This file has a single test, because the counter covers the whole process, and the test harness allocates when a
//! test ends.

// `GlobalAlloc` is an unsafe trait. This allocator passes every call to the system's.
#![allow(unsafe_code)]

use hoptax_load::record::{LoadRecord, Phase, Progress};
use hoptax_load::spec::{
    Arrivals, Check, EventLoopName, HttpVersion, LoadSpec, Rate, SPEC_SCHEMA, Shape, TargetSpec, Timeouts,
    TlsSpec, TlsVersion, Verify,
};
use hoptax_load::stamp::{self, Stamp};
use hoptax_load::{Watch, clock};
use rustls::crypto::ring;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::alloc::{GlobalAlloc, Layout, System};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Allocations of all threads that are not exempt. Each reallocation counts too.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// True in the threads of the server, which is not under test.
    static EXEMPT: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

fn count() {
    // A thread that is ending has no flag any more, so its allocations count.
    if !EXEMPT.try_with(Cell::get).unwrap_or(false) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: by this function's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: by this function's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: by this function's contract.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: by this function's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const WHOLE: &[&[u8]] = &[b"HTTP/1.1 200 OK\r\nx-kind: test\r\ncontent-length: 5\r\n\r\nhello"];
/// A response that is split inside the head, inside a chunk's size, and inside a chunk.
const IN_PIECES: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\nx-kind: test\r\ntransfer-",
    b"encoding: chunked\r\n\r\n1",
    b"0\r\n01234567",
    b"89abcdef\r\n0\r\n\r\n",
];

/// The server overwrites the zeros with its timestamps.
const STAMPED: &[&[u8]] = &[b"HTTP/1.1 200 OK\r\nhoptax-stamp: 0000000000000000000 0000000000000000000\r\ncontent-length: 5\r\n\r\nhello"];

struct Case {
    name: &'static str,
    shape: Shape,
    windows: bool,
    watch: Watch,
    stamps: bool,
    response: &'static [&'static [u8]],
    /// TLS version; absent for plain text.
    tls: Option<TlsVersion>,
    targets: fn() -> Vec<TargetSpec>,
    /// Number of allocations that can happen once per load, but not once per request.
    once: u64,
    requests: (u64, u64),
}

/// Numbers of requests in the shorter and in the longer load.
const FEW_AND_MANY: (u64, u64) = (500, 5500);
/// The same for large requests.
const FEW_AND_MANY_LARGE: (u64, u64) = (25, 175);
/// Length of a large body, bytes: more than the kernel accepts at once.
const LARGE: usize = 4 << 20;
/// Allocations of a buffer that grows. The unsent part of a large request varies, and each new maximum makes the
/// buffer grow.
const LARGEST_YET: u64 = 40;
const CONNECTIONS: u32 = 8;
/// Allocations when the starting thread sleeps on its channel for the first time. This may happen only in the longer
/// load.
const BY_CHANCE: u64 = 4;
/// Allocations of buffers for pieces. They happen whenever more responses than ever before are incomplete at once.
const PIECES: u64 = BY_CHANCE + 3 * CONNECTIONS as u64;
/// Allocations per window: its encoded histogram, the copy for the receiver, and space in the record and the channel.
const PER_WINDOW: u64 = 3;
/// Allocations of all windows together. Some buffers grow with the largest window so far, and others double when they
/// are full.
const WINDOWS_TOGETHER: u64 = 16;

#[test]
fn a_request_in_steady_state_allocates_nothing() {
    for case in cases() {
        examine(&case);
    }
}

fn large() -> &'static [&'static [u8]] {
    const LENGTH: usize = 100_000;
    let mut response = format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n").into_bytes();
    response.resize(response.len() + LENGTH, b'x');
    vec![&*response.leak()].leak()
}

fn cases() -> Vec<Case> {
    let case = |name, shape, response| Case {
        name,
        shape,
        windows: false,
        watch: Watch::Phases,
        stamps: false,
        response,
        tls: None,
        targets: || vec![plain()],
        once: BY_CHANCE,
        requests: FEW_AND_MANY,
    };
    let upload = |name| Case {
        targets: || vec![TargetSpec { method: "POST".into(), body: vec![b'x'; LARGE], ..plain() }],
        once: BY_CHANCE + LARGEST_YET,
        requests: FEW_AND_MANY_LARGE,
        ..case(name, Shape::Closed, WHOLE)
    };
    let open = |arrivals| Shape::Open { rate: Rate::Fixed(10_000.0), arrivals };
    vec![
        case("closed loop", Shape::Closed, WHOLE),
        Case { once: PIECES, ..case("closed loop, responses in pieces", Shape::Closed, IN_PIECES) },
        case("open loop, constant", open(Arrivals::Constant), WHOLE),
        case("open loop, jitter", open(Arrivals::Jitter(0.5)), WHOLE),
        case("open loop, Poisson", open(Arrivals::Poisson), WHOLE),
        Case { targets: mix, ..case("closed loop, a mix with templates and checks", Shape::Closed, WHOLE) },
        Case {
            targets: mix,
            once: PIECES,
            ..case(
                "open loop, a mix with templates and checks, in pieces",
                open(Arrivals::Poisson),
                IN_PIECES,
            )
        },
        Case { stamps: true, ..case("closed loop with stamps", Shape::Closed, STAMPED) },
        Case { windows: true, ..case("closed loop with windows", Shape::Closed, WHOLE) },
        Case {
            windows: true,
            watch: Watch::Windows,
            ..case("open loop with reported windows", open(Arrivals::Constant), WHOLE)
        },
        Case { tls: Some(TlsVersion::Tls12), ..case("TLS 1.2", Shape::Closed, WHOLE) },
        Case { tls: Some(TlsVersion::Tls13), ..case("TLS 1.3", open(Arrivals::Constant), WHOLE) },
        Case {
            tls: Some(TlsVersion::Tls13),
            once: PIECES,
            ..case("TLS 1.3, responses in pieces", Shape::Closed, IN_PIECES)
        },
        Case {
            tls: Some(TlsVersion::Tls13),
            once: PIECES,
            ..case("TLS 1.3, large responses", Shape::Closed, large())
        },
        upload("closed loop, large requests"),
        Case { tls: Some(TlsVersion::Tls13), ..upload("TLS 1.3, large requests") },
    ]
}

fn plain() -> TargetSpec {
    TargetSpec::only("GET", "/", vec![("host".into(), "test".into())], Vec::new())
}

/// A mix that uses all templates, and checks that both kinds of response pass.
fn mix() -> Vec<TargetSpec> {
    let checks = vec![
        Check::Status(vec![(200, 200), (204, 299)]),
        Check::BodyLength { least: 5, most: 16 },
        Check::Header { name: "X-Kind".into(), value: Some("test".into()) },
        Check::BodyContains("e".into()),
    ];
    let mut made = TargetSpec {
        name: "made".into(),
        method: "POST".into(),
        path: "/{{seq}}/{{uuid}}?n={{random -5 100000}}&t={{line tokens}}".into(),
        body: b"{\"user\":\"{{base64 user-{{seq}}:{{line tokens}}}}\"}".to_vec(),
        body_is_template: true,
        ..plain()
    };
    made.headers
        .push(("authorization".into(), "Basic {{base64 {{line tokens}}:{{base64 {{uuid}}}}}}".into()));
    let checked = TargetSpec { name: "checked".into(), weight: 3, checks, ..plain() };
    vec![plain(), made, checked]
}

fn examine(case: &Case) {
    let address = serve(case);
    // The first run is not counted, because it makes the allocations that happen only once per process.
    carry_out(case, address, case.requests.0 / 5);
    let (few, record_of_few) = carry_out(case, address, case.requests.0);
    let (many, record_of_many) = carry_out(case, address, case.requests.1);
    let windows = record_of_many.windows.len().saturating_sub(record_of_few.windows.len()) as u64;
    let of_windows = if case.windows { PER_WINDOW * windows + WINDOWS_TOGETHER } else { 0 };
    let (more, allowed) = (many.saturating_sub(few), case.once + of_windows);
    assert!(
        more <= allowed,
        "{}: {} more requests in {windows} more windows allocated {more} times more ({few} and {many}); \
         {allowed} are allowed",
        case.name,
        case.requests.1 - case.requests.0,
    );
}

/// Runs the case with this many requests and counts the allocations.
fn carry_out(case: &Case, address: SocketAddr, requests: u64) -> (u64, LoadRecord) {
    let spec = LoadSpec {
        schema: SPEC_SCHEMA,
        addresses: vec![address.into()],
        sources: Vec::new(),
        tls: case.tls.map(|version| TlsSpec {
            server_name: "server.test".into(),
            verify: Verify::Nothing,
            client_certificate: None,
            resumption: true,
            alpn: Vec::new(),
            versions: vec![version],
            cipher_suites: Vec::new(),
        }),
        http: HttpVersion::Http11,
        requests_per_connection: None,
        files: BTreeMap::from([("tokens".to_owned(), "a\nsomewhat-longer\nb\n".to_owned())]),
        targets: (case.targets)(),
        shape: case.shape.clone(),
        connections: CONNECTIONS,
        warmup_ns: 20 * clock::MILLISECOND,
        duration_ns: 60 * clock::SECOND,
        requests: Some(requests),
        timeouts: Timeouts::all(60 * clock::SECOND),
        workers: 1,
        cpus: Vec::new(),
        seed: 1,
        windows: case.windows,
        stamps: case.stamps,
        event_loop: EventLoopName::Epoll,
    };
    let interrupt = AtomicBool::new(false);
    let mut before = 0;
    let record = hoptax_load::run(&spec, &interrupt, case.watch, |progress| {
        // Counting starts here, because listing descriptors and starting threads makes a varying number of
        // allocations.
        if matches!(progress, Progress::Phase(line) if line.phase == Phase::Warmup) {
            before = ALLOCATIONS.load(Ordering::Relaxed);
        }
    });
    let record = record.expect("a load that can run");
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert_eq!(
        (record.counts.ok, record.lifetime.opened),
        (requests, CONNECTIONS.into()),
        "{:?}",
        record.counts
    );
    let used = record.stamps.as_ref().map(|stamps| stamps.used);
    assert_eq!(used, case.stamps.then_some(requests), "{:?}", record.stamps);
    (allocations, record)
}

/// Answers every request with the case's pieces, each in its own segment, until the process ends.
fn serve(case: &Case) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    // Limits the data that the server buffers, so that the sender's buffers fill up.
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 256 * 1024).expect("a socket");
    let address = listener.local_addr().expect("bound");
    let (pieces, tls) = (case.response, case.tls.map(|_| tls_server()));
    // Each thread is started only once, because starting a thread allocates before the thread can be exempt.
    for _ in 0..CONNECTIONS {
        let (listener, tls) = (listener.try_clone().expect("a descriptor"), tls.clone());
        thread::spawn(move || {
            EXEMPT.set(true);
            for connection in listener.incoming().flatten() {
                connection.set_nodelay(true).expect("a socket");
                match &tls {
                    None => answer(connection, pieces),
                    Some(config) => {
                        let session = ServerConnection::new(Arc::clone(config)).expect("a server");
                        answer(StreamOwned::new(session, connection), pieces);
                    }
                }
            }
        });
    }
    address
}

fn tls_server() -> Arc<ServerConfig> {
    let identity = rcgen::generate_simple_self_signed(["server.test".to_owned()]).expect("a certificate");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![identity.cert.der().clone()], identity.signing_key.into());
    let mut config = config.expect("they belong together");
    // No tickets, because the client would read them once per connection, at varying times.
    config.send_tls13_tickets = 0;
    Arc::new(config)
}

fn answer(mut connection: impl Read + Write, pieces: &[&[u8]]) {
    let mut buffer = vec![0; 64 * 1024];
    while request(&mut connection, &mut buffer) {
        let received = clock::now();
        for (index, piece) in pieces.iter().enumerate() {
            if index > 0 {
                // Lets the client run, so that it mostly reads the pieces one at a time.
                thread::yield_now();
            }
            if connection.write_all(&stamped(piece, received)).is_err() {
                return;
            }
        }
    }
}

/// The piece, with timestamps if it has space for them.
fn stamped(piece: &[u8], received: u64) -> Cow<'_, [u8]> {
    let blank = stamp::BLANK.as_bytes();
    let Some(at) = piece.windows(blank.len()).position(|window| window == blank) else { return piece.into() };
    let mut piece = piece.to_vec();
    let value = (&mut piece[at..at + stamp::LENGTH]).try_into().expect("as long as it is");
    Stamp { received, replied: clock::now() }.write(value);
    piece.into()
}

/// Reads one request. Returns false if no further request comes. The head arrives in one piece, because it is short.
fn request(connection: &mut impl Read, buffer: &mut [u8]) -> bool {
    let Ok(mut read @ 1..) = connection.read(buffer) else { return false };
    let text = String::from_utf8_lossy(&buffer[..read]);
    let head = text.find("\r\n\r\n").expect("a whole head") + 4;
    let length = text[..head].lines().find_map(|line| line.strip_prefix("content-length: "));
    let whole = head + length.map_or(0, |length| length.parse().expect("a length"));
    while read < whole {
        match connection.read(buffer) {
            Ok(more @ 1..) => read += more,
            _ => return false,
        }
    }
    true
}
