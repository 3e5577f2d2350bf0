//! In steady state a request allocates nothing: the same load is made twice, once for longer, and what the longer one
//! allocates more is set against what it did more.
//!
//! A single test, as the counter is the process's own and the test harness allocates when a test ends.

// An allocator is an unsafe trait; this one hands everything on to the system's.
#![allow(unsafe_code)]

use hoptax_load::event_loop::Choice;
use hoptax_load::record::{LoadRecord, Phase, Progress};
use hoptax_load::spec::{Arrivals, HttpVersion, LoadSpec, Rate, SPEC_SCHEMA, Shape, TargetSpec, Timeouts};
use hoptax_load::{Watch, clock};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Allocations of every thread that is not exempt, growing ones counted as another.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Set by the threads of the server, which is not what is tested.
    static EXEMPT: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

fn count() {
    // A thread that is going has no more flag; what it still does counts.
    if !EXEMPT.try_with(Cell::get).unwrap_or(false) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator as it came.
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

const WHOLE: &[&[u8]] = &[b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"];
/// Cut within the head, within a chunk's length, and within a chunk.
const IN_PIECES: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\ntransfer-",
    b"encoding: chunked\r\n\r\n1",
    b"0\r\n01234567",
    b"89abcdef\r\n0\r\n\r\n",
];

/// What is loaded and how.
struct Case {
    name: &'static str,
    event_loop: Choice,
    shape: Shape,
    windows: bool,
    watch: Watch,
    response: &'static [&'static [u8]],
    /// What may come at any time, but not once per request.
    once: u64,
}

/// Requests of the shorter and of the longer trial.
const FEW: u64 = 500;
const MANY: u64 = 5500;
const CONNECTIONS: u32 = 8;
/// Once in a trial, and not always in the shorter one: the starting thread's first sleep on its channel, and on io_uring the
/// first response that lies across the end of a receive buffer, which makes room for its piece.
const BY_CHANCE: u64 = 4;
/// Room for pieces is made when for the first time so many responses are in pieces at once.
const PIECES: u64 = BY_CHANCE + 3 * CONNECTIONS as u64;
/// A window allocates its encoded histogram, the copy for whoever is told, and its room in record and channel.
const PER_WINDOW: u64 = 3;
/// What grows with the largest window seen, and by doubling.
const WINDOWS_TOGETHER: u64 = 16;

#[test]
fn a_request_in_steady_state_allocates_nothing() {
    for event_loop in [Choice::Epoll, Choice::IoUring] {
        if event_loop.choose().is_err() {
            eprintln!("{event_loop:?} left out, as it cannot be had");
            continue;
        }
        for case in cases(event_loop) {
            examine(&case);
        }
    }
}

fn cases(event_loop: Choice) -> Vec<Case> {
    let case = |name, shape, response| Case {
        name,
        event_loop,
        shape,
        windows: false,
        watch: Watch::Phases,
        response,
        once: BY_CHANCE,
    };
    let open = |arrivals| Shape::Open { rate: Rate::Fixed(10_000.0), arrivals };
    vec![
        case("closed loop", Shape::Closed, WHOLE),
        Case { once: PIECES, ..case("closed loop, responses in pieces", Shape::Closed, IN_PIECES) },
        case("open loop, constant", open(Arrivals::Constant), WHOLE),
        case("open loop, jitter", open(Arrivals::Jitter(0.5)), WHOLE),
        case("open loop, Poisson", open(Arrivals::Poisson), WHOLE),
        Case { windows: true, ..case("closed loop with windows", Shape::Closed, WHOLE) },
        Case {
            windows: true,
            watch: Watch::Windows,
            ..case("open loop with windows told", open(Arrivals::Constant), WHOLE)
        },
    ]
}

/// Makes the load for its shorter and its longer time, and compares.
fn examine(case: &Case) {
    let address = serve(case.response);
    // Once for nothing: what is set up once in a process is no part of either.
    carry_out(case, address, 100);
    let (few, record_of_few) = carry_out(case, address, FEW);
    let (many, record_of_many) = carry_out(case, address, MANY);
    let windows = record_of_many.windows.len().saturating_sub(record_of_few.windows.len()) as u64;
    let of_windows = if case.windows { PER_WINDOW * windows + WINDOWS_TOGETHER } else { 0 };
    let (more, allowed) = (many.saturating_sub(few), case.once + of_windows);
    assert!(
        more <= allowed,
        "{}, {:?}: {} more requests in {windows} more windows allocated {more} times more ({few} and {many}); \
         {allowed} are allowed",
        case.name,
        case.event_loop,
        MANY - FEW,
    );
}

/// Carries out the case for so many requests, and counts.
fn carry_out(case: &Case, address: SocketAddr, requests: u64) -> (u64, LoadRecord) {
    let spec = LoadSpec {
        schema: SPEC_SCHEMA,
        addresses: vec![address.into()],
        sources: Vec::new(),
        tls: None,
        http: HttpVersion::Http11,
        requests_per_connection: None,
        files: BTreeMap::new(),
        targets: vec![TargetSpec::only("GET", "/", vec![("host".into(), "test".into())], Vec::new())],
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
        event_loop: case.event_loop,
    };
    let interrupt = AtomicBool::new(false);
    let mut before = 0;
    let record = hoptax_load::run(&spec, &interrupt, case.watch, |told| {
        // Not before: listing descriptors and starting threads allocate as they find the process.
        if matches!(told, Progress::Phase(line) if line.phase == Phase::Warmup) {
            before = ALLOCATIONS.load(Ordering::Relaxed);
        }
    });
    let record = record.expect("a load that can be made");
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert_eq!(
        (record.counts.ok, record.lifetime.opened),
        (requests, CONNECTIONS.into()),
        "{:?}",
        record.counts
    );
    (allocations, record)
}

/// Answers every request with these pieces, each as a segment of its own, until the process ends.
fn serve(pieces: &'static [&'static [u8]]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    // Started once, as the start of a thread allocates before it can be exempt.
    for _ in 0..CONNECTIONS {
        let listener = listener.try_clone().expect("a descriptor");
        thread::spawn(move || {
            EXEMPT.set(true);
            listener.incoming().flatten().for_each(|connection| answer(connection, pieces));
        });
    }
    address
}

fn answer(mut connection: TcpStream, pieces: &[&[u8]]) {
    connection.set_nodelay(true).expect("a socket");
    let mut buffer = [0; 1024];
    // The request is one segment, as it is short.
    while matches!(connection.read(&mut buffer), Ok(1..)) {
        for (index, piece) in pieces.iter().enumerate() {
            if index > 0 {
                // Lets the other side look, so that it mostly finds pieces.
                thread::yield_now();
            }
            if connection.write_all(piece).is_err() {
                return;
            }
        }
    }
}
