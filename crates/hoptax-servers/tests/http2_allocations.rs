//! Checks that the upstream allocates nothing per request over HTTP/2, and nothing per message of a
//! WebSocket, once its buffers have grown.
//!
//! This file must have a single test, because the counter covers the whole process.

// `GlobalAlloc` is an unsafe trait. This allocator passes every call to the system's allocator.
#![allow(unsafe_code)]

use hoptax_format::Address;
use hoptax_format::messages::{Carrier, ENDLESS, StreamKind, StreamSpec};
use hoptax_plan::{Body, BuiltInUpstream, Delay, PathStream, UpstreamEvents};
use hoptax_servers::upstream::{Placement, RunningUpstream};
use hoptax_wire::http2::{Block, Config, Connection, RequestParts, Sections, Step, request_fields};
use hoptax_wire::websocket::{self, Decoder, Opcode, Side, write_frame};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of allocations in all threads that are not exempt. Each reallocation also counts.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// True in the thread of the client. Its allocations are not counted.
    static EXEMPT: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    // A thread that is ending no longer has this flag, so its allocations count.
    if !EXEMPT.try_with(Cell::get).unwrap_or(false) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

struct Counting;

// SAFETY: every call is passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller of this function upholds the same contract.
        unsafe { System.alloc(layout) }
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

/// Number of requests in flight.
const IN_FLIGHT: u32 = 50;
/// Number of allocations of buffers that grow to a new maximum, such as the unsent part of a send.
const LARGEST_YET: u64 = 20;

/// Names of the cases with gRPC calls.
const CALLS: &str = "calls of gRPC";
const STREAMS: &str = "streams of gRPC";
const EVENTS: &str = "server-sent events";
/// Number of messages of a stream.
const MESSAGES: u32 = 200;

/// Sends requests, `IN_FLIGHT` at a time.
struct Client {
    socket: TcpStream,
    connection: Connection,
    sections: Sections,
    post: Block,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Client {
    fn exchange(&mut self, requests: u32) {
        let (mut sent, mut ended) = (0, 0);
        let mut bytes = [0; 65_536];
        while ended < requests {
            while sent < requests && sent - ended < IN_FLIGHT {
                let stream = self
                    .connection
                    .request(0, false, &self.post, &[], false, &mut self.output)
                    .expect("room");
                self.connection.send_data(stream, &[b'x'; 100], true, &mut self.output);
                sent += 1;
            }
            self.socket.write_all(&self.output).expect("sent");
            self.output.clear();
            let count = self.socket.read(&mut bytes).expect("data");
            assert!(count > 0, "the connection has ended");
            self.input.extend_from_slice(&bytes[..count]);
            let mut at = 0;
            loop {
                let found = self.connection.advance(&self.input[at..], &mut self.sections, &mut self.output);
                let (consumed, step) = found.expect("valid");
                at += consumed;
                match step {
                    Step::NeedMore => break,
                    Step::Body { end, .. } => ended += u32::from(end),
                    Step::Trailers { .. } => ended += 1,
                    Step::Head { .. } => assert_eq!(self.sections.head.status(), 200),
                    _ => {}
                }
            }
            self.input.drain(..at);
        }
    }
}

#[test]
fn requests_allocate_nothing() {
    EXEMPT.set(true);
    for (name, body, delay_ms, stamps, window) in [
        ("small", 1024, 0, false, 1 << 20),
        ("stamped", 1024, 0, true, 1 << 20),
        ("delayed", 10, 1, false, 1 << 20),
        ("large, with small windows", 100_000, 0, false, 10_000),
        (CALLS, 1024, 0, true, 1 << 20),
        (STREAMS, 100, 0, false, 1 << 20),
        (STREAMS, 100, 0, false, 10_000),
        (EVENTS, 100, 0, false, 1 << 20),
        (EVENTS, 100, 0, true, 10_000),
    ] {
        let stream =
            StreamSpec { same_clock: true, ..StreamSpec::grpc(StreamKind::ServerStream, MESSAGES, 0) };
        let of_path = PathStream { path: "/x".into(), stream };
        // A stream takes memory once, and not for each message.
        let is_stream = [STREAMS, EVENTS].contains(&name);
        let (warm, measured, per_request) = if is_stream { (150, 50, 1) } else { (2000, 2000, 0) };
        let events = UpstreamEvents {
            count: MESSAGES,
            gap: Duration::ZERO,
            bytes: 100,
            first: Duration::ZERO,
            per_write: 1,
            split: 1,
            heartbeat: None,
        };
        let settings = BuiltInUpstream {
            headers: vec![("x-a".into(), "b".into())],
            delay: Delay::Fixed(Duration::from_millis(delay_ms)),
            streams: if name == STREAMS { vec![of_path] } else { Vec::new() },
            events: (name == EVENTS).then_some(events),
            ..BuiltInUpstream::with_body(Body::Size(body))
        };
        let placement = Placement { stamps, ..Placement::default() };
        let upstream = RunningUpstream::start(&settings, &placement).expect("it starts");
        let Address::Tcp(address) = &upstream.ready().instances[0] else { panic!("a port") };
        let socket = TcpStream::connect(address).expect("connects");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        socket.set_nodelay(true).expect("a socket");
        let mut output = Vec::new();
        let config = Config { window, ..Config::default() };
        let connection = Connection::client(config, &mut output);
        let parts = RequestParts {
            method: "POST",
            scheme: "http",
            authority: "a",
            path: "/x",
            content_length: Some(100),
        };
        let is_call = [CALLS, STREAMS].contains(&name);
        let content_type = if is_call { "application/grpc" } else { "text/plain" };
        let accept = if name == EVENTS { "text/event-stream" } else { "*/*" };
        let headers = [("accept", accept), ("content-type", content_type)];
        let fields = request_fields(parts, headers).expect("valid");
        let post = Block::shared(&[&fields]).remove(0);
        let (sections, input) = (Sections::new(), Vec::new());
        let mut client = Client { socket, connection, sections, post, input, output };
        client.exchange(warm);
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        client.exchange(measured);
        let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
        let most = LARGEST_YET + u64::from(per_request * measured);
        assert!(allocated <= most, "{name}: {allocated} allocations for {measured} requests");
    }
    messages_allocate_nothing();
}

/// The same for messages of WebSockets over HTTP/1.1: pushed ones, and those that return.
fn messages_allocate_nothing() {
    let stream = StreamSpec {
        carrier: Carrier::WebSocket,
        ..StreamSpec::grpc(StreamKind::ServerStream, ENDLESS, 100_000)
    };
    let settings = BuiltInUpstream {
        streams: vec![PathStream { path: "/feed".into(), stream }],
        websocket_compression: true,
        ..BuiltInUpstream::with_body(Body::Size(100))
    };
    for (path, deflates) in [("/feed", false), ("/feed", true), ("/echo", false), ("/echo", true)] {
        let upstream = RunningUpstream::start(&settings, &Placement::default()).expect("it starts");
        let Address::Tcp(address) = &upstream.ready().instances[0] else { panic!("a port") };
        let mut socket = TcpStream::connect(address).expect("connects");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        socket.set_nodelay(true).expect("a socket");
        let offer = if deflates { "sec-websocket-extensions: permessage-deflate\r\n" } else { "" };
        write!(
            socket,
            "GET {path} HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
            sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{offer}\r\n"
        )
        .expect("sent");
        // The head is read byte by byte, so that no frame is.
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            socket.read_exact(&mut byte).expect("a head");
            head.extend_from_slice(&byte);
        }
        let mut decoder = Decoder::new(Side::Server, deflates);
        let mut message = Vec::new();
        write_frame(&mut message, Opcode::Binary, Some([1, 2, 3, 4]), &[b'x'; 100]);
        let mut receive = |messages: u32| {
            let (mut received, mut bytes) = (0, [0; 65_536]);
            while received < messages {
                if path == "/echo" {
                    socket.write_all(&message).expect("sent");
                }
                let count = socket.read(&mut bytes).expect("data");
                assert!(count > 0, "the connection has ended");
                let mut rest = &bytes[..count];
                loop {
                    let (consumed, step) = decoder.advance(rest).expect("frames");
                    rest = &rest[consumed..];
                    match step {
                        websocket::Step::NeedMore => break,
                        websocket::Step::Data { end, .. } => received += u32::from(end),
                        _ => {}
                    }
                }
            }
        };
        receive(2000);
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        receive(2000);
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        assert!(allocations <= LARGEST_YET, "{path}: {allocations} allocations for 2,000 messages");
    }
}
