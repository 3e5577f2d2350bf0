//! Checks that a request allocates nothing once the load runs steadily. Each load runs twice, the second time
//! with more requests. The additional allocations are compared with the additional work.
//!
//! This file must have a single test, because the counter covers the whole process, and the test harness
//! allocates when a test ends.

// `GlobalAlloc` is an unsafe trait. This allocator passes every call to the system's allocator.
#![allow(unsafe_code)]

use hoptax_format::clock;
use hoptax_format::grpc;
use hoptax_format::llm::{Api, Pause, TokenSpec};
use hoptax_format::messages::{Carrier, StreamKind, StreamSpec, with_room};
use hoptax_format::record::{LoadRecord, Phase};
use hoptax_format::spec::{
    Arrivals, Check, Chunked, HttpVersion, LoadSpec, Rate, Shape, TargetSpec, Timeouts, TlsSpec, TlsVersion,
    Verify,
};
use hoptax_format::stamp::{self, Stamp};
use hoptax_format::websocket::{KEY_VALUE, add_headers};
use hoptax_load::Progress;
use hoptax_load::Watch;
use hoptax_testing::own_listener;
use hoptax_wire::http2;
use hoptax_wire::websocket::{Decoder, Opcode, Side, Step, mask, write_frame};
use rustls::crypto::ring;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::alloc::{GlobalAlloc, Layout, System};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Number of allocations in all threads that are not exempt. Each reallocation also counts.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// True in the threads of the server. Their allocations are not counted.
    static EXEMPT: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

fn count() {
    // A thread that is ending no longer has this flag, so its allocations count.
    if !EXEMPT.try_with(Cell::get).unwrap_or(false) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller of this function upholds the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller of this function upholds the same contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller of this function upholds the same contract.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller of this function upholds the same contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const WHOLE: &[&[u8]] = &[b"HTTP/1.1 200 OK\r\nx-kind: test\r\ncontent-length: 5\r\n\r\nhello"];
/// A response in four pieces. It is split inside the head, inside the size of a chunk, and inside a chunk.
const IN_PIECES: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\nx-kind: test\r\ntransfer-",
    b"encoding: chunked\r\n\r\n1",
    b"0\r\n01234567",
    b"89abcdef\r\n0\r\n\r\n",
];

/// A response with space for timestamps: the server overwrites the zeros.
const STAMPED: &[&[u8]] = &[b"HTTP/1.1 200 OK\r\nhoptax-stamp: 0000000000000000000 \
    0000000000000000000\r\ncontent-length: 5\r\n\r\nhello"];

/// The responses to a gRPC-Web call, and to one with a stream.
const OF_WEB: &[&[u8]] =
    &[b"HTTP/1.1 200 OK\r\ncontent-type: application/grpc-web+proto\r\ncontent-length: \
    31\r\n\r\n\0\0\0\0\x05hello\x80\0\0\0\x10grpc-status: 0\r\n"];
const STREAM_OF_WEB: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\ncontent-length: 41\r\n\r\n\0\0\0\0\x05hel",
    b"lo\0\0\0\0\x05hello\x80\0\0\0\x10grpc-status: 0\r\n",
];

/// The bodies of the events of a response, in two pieces: events with and without a stamp, and a comment.
const EVENTS: [&[u8]; 2] =
    [b"data: x", b"y\n\ndata: ~hx00000000000000000000000000000001\n\n: \n\ndata: z\n\n"];
/// A response with [`EVENTS`].
const OF_EVENTS: &[&[u8]] = &[b"HTTP/1.1 200 OK\r\ncontent-length: 66\r\n\r\n", EVENTS[0], EVENTS[1]];
/// The bodies of the events of a stream of two tokens, in two pieces.
const TOKENS: [&[u8]; 2] = [
    b"data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"cont",
    b"ent\":\"y\"}}]}\n\ndata: [DONE]\n\n",
];
/// A response with [`TOKENS`].
const OF_TOKENS: &[&[u8]] = &[b"HTTP/1.1 200 OK\r\ncontent-length: 108\r\n\r\n", TOKENS[0], TOKENS[1]];

struct Case {
    name: &'static str,
    shape: Shape,
    windows: bool,
    watch: Watch,
    stamps: bool,
    response: &'static [&'static [u8]],
    /// TLS version. Absent if the load does not use TLS.
    tls: Option<TlsVersion>,
    /// Number of streams on each connection. Absent for HTTP/1.
    streams: Option<u32>,
    targets: fn() -> Vec<TargetSpec>,
    /// Number of allocations that may happen once per load, but not once per request.
    once: u64,
    requests: (u64, u64),
}

/// Number of requests in the shorter load, and in the longer load.
const FEW_AND_MANY: (u64, u64) = (200, 1200);
/// Number of requests in the shorter load, and in the longer load, if requests are large.
const FEW_AND_MANY_LARGE: (u64, u64) = (10, 80);
/// Length of a large body, bytes. It is more than the kernel accepts at once.
const LARGE: usize = 4 << 20;
/// Number of allocations of a buffer that grows. The length of the unsent part of a large request varies, and
/// the buffer grows at each new maximum.
const LARGEST_YET: u64 = 40;
const CONNECTIONS: u32 = 8;
/// Number of allocations when the starting thread waits on its channel for the first time. This may happen
/// only in the longer load.
const BY_CHANCE: u64 = 4;
/// Number of allocations of buffers for pieces. They happen when the number of incomplete responses reaches a
/// new maximum.
const PIECES: u64 = BY_CHANCE + 3 * CONNECTIONS as u64;
/// Number of allocations per window: one for the encoded histogram, one for the copy that the receiver gets,
/// and one for space in the record and in the channel.
const PER_WINDOW: u64 = 3;
/// Number of allocations that are independent of the number of windows. Some buffers grow when a window is
/// larger than all earlier windows, and others double when they are full.
const WINDOWS_TOGETHER: u64 = 16;

#[test]
fn a_request_in_steady_state_allocates_nothing() {
    for case in cases() {
        examine(&case);
    }
    examine_websockets();
}

/// Runs two loads with a WebSocket on each connection, the second time with more messages.
fn examine_websockets() {
    let address = serve_websockets();
    let allocations = [200, 1_200].map(|number| {
        let spec = LoadSpec {
            connections: CONNECTIONS,
            duration_ns: 60 * clock::SECOND,
            requests: Some(CONNECTIONS.into()),
            timeouts: Timeouts::all(60 * clock::SECOND),
            windows: false,
            ..LoadSpec::closed(vec![address.into()], vec![websocket(number)])
        };
        let mut before = 0;
        let record = hoptax_load::run(&spec, &AtomicBool::new(false), Watch::Phases, |progress| {
            if matches!(progress, Progress::Phase(line) if line.phase == Phase::Measuring) {
                before = ALLOCATIONS.load(Ordering::Relaxed);
            }
        });
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        let record = record.expect("a load that can run");
        let received = record.messages.as_ref().map(|messages| messages.counts.received);
        assert_eq!(received, Some(u64::from(number) * u64::from(CONNECTIONS)), "{:?}", record.counts);
        allocations
    });
    let more = allocations[1].saturating_sub(allocations[0]);
    assert!(more <= PIECES, "{more} allocations for 1,000 more messages on each of {CONNECTIONS} WebSockets");
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
        streams: None,
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
        Case { targets: chunked, ..case("closed loop, requests in chunks", Shape::Closed, WHOLE) },
        Case {
            tls: Some(TlsVersion::Tls13),
            targets: chunked,
            ..case("TLS 1.3, requests in chunks", open(Arrivals::Poisson), WHOLE)
        },
        Case { tls: Some(TlsVersion::Tls13), ..upload("TLS 1.3, large requests") },
        Case { streams: Some(1), once: PIECES, ..case("HTTP/2, one stream", Shape::Closed, WHOLE) },
        Case { streams: Some(10), once: PIECES, ..case("HTTP/2, ten streams", Shape::Closed, WHOLE) },
        Case {
            streams: Some(4),
            targets: mix_of_one_kind,
            once: PIECES,
            ..case("HTTP/2, open loop, templates", open(Arrivals::Poisson), WHOLE)
        },
        Case {
            streams: Some(4),
            tls: Some(TlsVersion::Tls13),
            once: PIECES,
            ..case("HTTP/2 with TLS 1.3", Shape::Closed, WHOLE)
        },
        Case { streams: Some(4), targets: calls, once: PIECES, ..case("gRPC", Shape::Closed, WHOLE) },
        Case {
            streams: Some(4),
            targets: streams,
            once: PIECES + LARGEST_YET,
            ..case("gRPC, streams of the client", Shape::Closed, WHOLE)
        },
        Case { targets: web_calls, ..case("gRPC-Web over HTTP/1.1", Shape::Closed, OF_WEB) },
        Case {
            targets: web_streams,
            once: PIECES,
            ..case("gRPC-Web over HTTP/1.1, streams", Shape::Closed, STREAM_OF_WEB)
        },
        Case { targets: events, once: PIECES, ..case("events over HTTP/1.1", Shape::Closed, OF_EVENTS) },
        Case { targets: tokens, once: PIECES, ..case("tokens over HTTP/1.1", Shape::Closed, OF_TOKENS) },
        Case { targets: pauses, once: PIECES, ..case("pauses over HTTP/1.1", Shape::Closed, OF_TOKENS) },
        Case {
            streams: Some(4),
            targets: pauses,
            once: PIECES + LARGEST_YET,
            ..case("pauses over HTTP/2", Shape::Closed, WHOLE)
        },
        Case {
            streams: Some(4),
            targets: events,
            once: PIECES + LARGEST_YET,
            ..case("events over HTTP/2", Shape::Closed, WHOLE)
        },
    ]
}

fn plain() -> TargetSpec {
    TargetSpec::only("GET", "/", vec![("host".into(), "test".into())], Vec::new())
}

/// Bodies in chunks, with and without pauses, and with and without templates.
fn chunked() -> Vec<TargetSpec> {
    let one = |index: u64, text: &str, pause_ns| TargetSpec {
        name: index.to_string(),
        method: "POST".into(),
        body: text.into(),
        body_is_template: true,
        chunked: Some(Chunked { chunk_bytes: 4, pause_ns }),
        ..plain()
    };
    [("a body", 0), ("a body", 1), ("{{uuid}}", 0), ("{{uuid}}", 1)]
        .into_iter()
        .zip(0..)
        .map(|((text, pause_ns), index)| one(index, text, pause_ns))
        .collect()
}

/// A mix that uses all templates. It has two kinds of response, and its checks accept both.
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

/// As [`mix`], for a server with one kind of response.
fn mix_of_one_kind() -> Vec<TargetSpec> {
    mix().into_iter().map(|target| TargetSpec { checks: Vec::new(), ..target }).collect()
}

fn calls() -> Vec<TargetSpec> {
    let mut headers = vec![("host".to_owned(), "test".to_owned())];
    grpc::add_headers(&mut headers, None);
    let body = grpc::body(b"hello").expect("short");
    vec![TargetSpec { grpc: true, ..TargetSpec::only(grpc::METHOD, "/echo.Echo/Say", headers, body) }]
}

fn web_calls() -> Vec<TargetSpec> {
    let mut call = TargetSpec { grpc_web: true, ..calls().remove(0) };
    grpc::web_headers(&mut call.headers);
    vec![call]
}

fn web_streams() -> Vec<TargetSpec> {
    let stream = StreamSpec::grpc(StreamKind::ServerStream, 2, 0);
    let body = with_room(b"hello".to_vec(), false);
    vec![TargetSpec { body, stream: Some(stream), ..web_calls().remove(0) }]
}

fn events() -> Vec<TargetSpec> {
    let mut target = plain();
    target.headers.push(("accept".into(), "text/event-stream".into()));
    let stream = StreamSpec::grpc(StreamKind::ServerStream, 3, 0);
    vec![TargetSpec { stream: Some(StreamSpec { carrier: Carrier::Events, ..stream }), ..target }]
}

fn tokens() -> Vec<TargetSpec> {
    let mut targets = events();
    let tokens = Some(TokenSpec { api: Api::OpenAi, usage: false, leave: None, pause: None, goodput: None });
    let stream = targets[0].stream.map(|stream| StreamSpec { messages: 2, tokens, ..stream });
    targets[0].stream = stream;
    targets[0].headers.push(("x-tokens".into(), "2".into()));
    targets
}

/// Clients that read nothing for a time after the first of two tokens.
fn pauses() -> Vec<TargetSpec> {
    let mut targets = tokens();
    let pause = Some(Pause { after_tokens: 1, time_ns: 200_000 });
    let spec = targets[0].stream.as_mut().and_then(|stream| stream.tokens.as_mut());
    spec.expect("a stream of tokens").pause = pause;
    targets
}

fn websocket(messages: u32) -> TargetSpec {
    let mut headers = vec![("host".to_owned(), "test".to_owned())];
    add_headers(&mut headers, false);
    let stream = StreamSpec::grpc(StreamKind::BothWays, messages, 0);
    let stream = Some(StreamSpec { carrier: Carrier::WebSocket, ..stream });
    let body = with_room(b"hello".to_vec(), false);
    TargetSpec { stream, ..TargetSpec::only("GET", "/", headers, body) }
}

/// Calls with many messages, at once and one after the other.
fn streams() -> Vec<TargetSpec> {
    let of = |name: &str, every_ns| {
        let stream = StreamSpec::grpc(StreamKind::ClientStream, 20, every_ns);
        let body = with_room(b"hello".to_vec(), false);
        TargetSpec { name: name.into(), body, stream: Some(stream), ..calls().remove(0) }
    };
    vec![of("burst", 0), of("paced", 20_000)]
}

fn examine(case: &Case) {
    let address = serve(case);
    // The first run is not counted, because some allocations happen only once per process.
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

/// Runs the case with `requests` requests. Returns the number of allocations and the record.
fn carry_out(case: &Case, address: SocketAddr, requests: u64) -> (u64, LoadRecord) {
    let spec = LoadSpec {
        tls: case.tls.map(|version| TlsSpec {
            server_name: "server.test".into(),
            verify: Verify::Nothing,
            client_certificate: None,
            resumption: true,
            alpn: if case.streams.is_some() { vec!["h2".to_owned()] } else { Vec::new() },
            versions: vec![version],
            cipher_suites: Vec::new(),
        }),
        http: if case.streams.is_some() { HttpVersion::Http2 } else { HttpVersion::Http11 },
        streams: case.streams.unwrap_or(1),
        files: BTreeMap::from([("tokens".to_owned(), "a\nsomewhat-longer\nb\n".to_owned())]),
        shape: case.shape.clone(),
        connections: CONNECTIONS,
        warmup_ns: 20 * clock::MILLISECOND,
        duration_ns: 60 * clock::SECOND,
        requests: Some(requests),
        timeouts: Timeouts::all(60 * clock::SECOND),
        windows: case.windows,
        stamps: case.stamps,
        moments: case.stamps.then_some(1_000),
        ..LoadSpec::closed(vec![address.into()], (case.targets)())
    };
    let interrupt = AtomicBool::new(false);
    let mut before = 0;
    let record = hoptax_load::run(&spec, &interrupt, case.watch, |progress| {
        // Counting starts here. The allocations before this point vary, because they depend on listing
        // descriptors and starting threads.
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

/// Answers every request with the pieces of the case, and sends each piece in its own segment. The server
/// runs until the process ends.
fn serve(case: &Case) -> SocketAddr {
    let listener = own_listener();
    // Limit the data that the server's socket can hold, so that the sender's buffers fill up.
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 256 * 1024).expect("a socket");
    let address = listener.local_addr().expect("bound");
    let is_http2 = case.streams.is_some();
    let (pieces, tls) = (case.response, case.tls.map(|_| tls_server(is_http2)));
    // Each thread is started only once. Starting a thread allocates, and the thread can become exempt only
    // after it has started.
    for _ in 0..CONNECTIONS {
        let (listener, tls) = (listener.try_clone().expect("a descriptor"), tls.clone());
        thread::spawn(move || {
            EXEMPT.set(true);
            for connection in listener.incoming().flatten() {
                connection.set_nodelay(true).expect("a socket");
                match (&tls, is_http2) {
                    (None, false) => answer(connection, pieces),
                    (None, true) => answer_http2(connection),
                    (Some(config), _) => {
                        let session = ServerConnection::new(Arc::clone(config)).expect("a server");
                        let connection = StreamOwned::new(session, connection);
                        if is_http2 { answer_http2(connection) } else { answer(connection, pieces) }
                    }
                }
            }
        });
    }
    address
}

/// Accepts WebSockets, and sends each message back. The server runs until the process ends.
fn serve_websockets() -> SocketAddr {
    let listener = own_listener();
    let address = listener.local_addr().expect("bound");
    for _ in 0..CONNECTIONS {
        let listener = listener.try_clone().expect("a descriptor");
        thread::spawn(move || {
            EXEMPT.set(true);
            for connection in listener.incoming().flatten() {
                connection.set_nodelay(true).expect("a socket");
                send_back(connection);
            }
        });
    }
    address
}

fn send_back(mut connection: TcpStream) {
    let mut buffer = vec![0; 64 * 1024];
    if !request(&mut connection, &mut buffer) {
        return;
    }
    let accept = hoptax_load::websocket::accept(KEY_VALUE.as_bytes());
    let head = format!("HTTP/1.1 101 Switching Protocols\r\nsec-websocket-accept: {accept}\r\n\r\n");
    let mut out = head.into_bytes();
    let (mut decoder, mut message) = (Decoder::new(Side::Client, false), Vec::new());
    loop {
        if connection.write_all(&out).is_err() {
            return;
        }
        out.clear();
        let Ok(read @ 1..) = connection.read(&mut buffer) else { return };
        let mut input = &buffer[..read];
        loop {
            let (consumed, step) = decoder.advance(input).expect("the client is right");
            match step {
                Step::NeedMore => break,
                Step::Begin { .. } => message.clear(),
                Step::Data { data, end } => {
                    let start = message.len();
                    message.extend_from_slice(&input[data]);
                    let (key, offset) = decoder.unmask().expect("clients mask");
                    mask(&mut message[start..], key, offset);
                    if end {
                        write_frame(&mut out, Opcode::Binary, None, &message);
                    }
                }
                Step::Control(opcode) => write_frame(&mut out, opcode, None, decoder.control()),
            }
            input = &input[consumed..];
        }
    }
}

fn tls_server(is_http2: bool) -> Arc<ServerConfig> {
    let identity = rcgen::generate_simple_self_signed(["server.test".to_owned()]).expect("a certificate");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![identity.cert.der().clone()], identity.signing_key.into());
    let mut config = config.expect("they belong together");
    // The server sends no tickets, because the client would read them once per connection, at varying times.
    config.send_tls13_tickets = 0;
    if is_http2 {
        config.alpn_protocols = vec![b"h2".to_vec()];
    }
    Arc::new(config)
}

fn answer(mut connection: impl Read + Write, pieces: &[&[u8]]) {
    let mut buffer = vec![0; 64 * 1024];
    while request(&mut connection, &mut buffer) {
        let received = clock::now();
        for (index, piece) in pieces.iter().enumerate() {
            if index > 0 {
                // Let the client run, so that it mostly reads one piece at a time.
                thread::yield_now();
            }
            if connection.write_all(&stamped(piece, received)).is_err() {
                return;
            }
        }
    }
}

/// Answers every request on every stream. Calls of gRPC get a message and trailers. Requests for events get
/// some.
fn answer_http2(mut connection: impl Read + Write) {
    let mut out = Vec::new();
    let mut server = http2::Connection::server(http2::Config::default(), &mut out);
    let fields = http2::response_fields(200, [("x-kind", "test")], Some(5)).expect("valid");
    let block = http2::Block::plain(&fields);
    let of_call = http2::response_fields(200, [("content-type", "application/grpc")], None).expect("valid");
    let (of_call, message) = (http2::Block::plain(&of_call), grpc::body(b"hello").expect("short"));
    let of_events = http2::response_fields(200, [("content-type", "text/event-stream")], None);
    let of_events = http2::Block::plain(&of_events.expect("valid"));
    let trailers = [http2::OutField { name: "grpc-status".into(), value: "0".into() }];
    let trailers = http2::Block::plain(&trailers);
    let (mut sections, mut input, mut buffer) = (http2::Sections::new(), Vec::new(), vec![0; 64 * 1024]);
    loop {
        let mut at = 0;
        loop {
            let Ok((consumed, step)) = server.advance(&input[at..], &mut sections, &mut out) else { return };
            at += consumed;
            let stream = match step {
                http2::Step::NeedMore => break,
                http2::Step::Head { stream, end: true } | http2::Step::Body { stream, end: true, .. } => {
                    stream.id
                }
                _ => continue,
            };
            if sections.head.fields().get("content-type") == Some(&b"application/grpc"[..]) {
                server.send_head(stream, &of_call, &[], false, &mut out);
                server.send_data(stream, &message, false, &mut out);
                server.send_head(stream, &trailers, &[], true, &mut out);
                continue;
            }
            if sections.head.fields().get("accept") == Some(&b"text/event-stream"[..]) {
                let is_tokens = sections.head.fields().get("x-tokens").is_some();
                let [start, rest] = if is_tokens { TOKENS } else { EVENTS };
                server.send_head(stream, &of_events, &[], false, &mut out);
                server.send_data(stream, start, false, &mut out);
                server.send_data(stream, rest, true, &mut out);
                continue;
            }
            server.send_head(stream, &block, &[], false, &mut out);
            server.send_data(stream, b"hello", true, &mut out);
        }
        input.drain(..at);
        if connection.write_all(&out).and_then(|()| connection.flush()).is_err() {
            return;
        }
        out.clear();
        match connection.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => input.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Returns the piece. If the piece has space for timestamps, they are inserted.
fn stamped(piece: &[u8], received: u64) -> Cow<'_, [u8]> {
    let blank = stamp::BLANK.as_bytes();
    let Some(at) = piece.windows(blank.len()).position(|window| window == blank) else { return piece.into() };
    let mut piece = piece.to_vec();
    let value = (&mut piece[at..at + stamp::LENGTH]).try_into().expect("as long as it is");
    Stamp { received, replied: clock::now() }.write(value);
    piece.into()
}

/// Reads one request. Returns false if the client sends no further request. The head is short, so it arrives
/// in one piece.
fn request(connection: &mut impl Read, buffer: &mut [u8]) -> bool {
    let Ok(mut read @ 1..) = connection.read(buffer) else { return false };
    let text = String::from_utf8_lossy(&buffer[..read]);
    let head = text.find("\r\n\r\n").expect("a whole head") + 4;
    if text[..head].contains("\r\ntransfer-encoding: chunked\r\n") {
        while !buffer[..read].ends_with(b"\r\n0\r\n\r\n") {
            match connection.read(&mut buffer[read..]) {
                Ok(more @ 1..) => read += more,
                _ => return false,
            }
        }
        return true;
    }
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
