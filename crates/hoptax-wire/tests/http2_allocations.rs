//! Checks that an HTTP/2 connection allocates nothing per request once its buffers have grown, on both sides.

// `GlobalAlloc` is an unsafe trait. This allocator passes every call to the system's allocator.
#![allow(unsafe_code)]

use hoptax_wire::http2::{
    Block, Config, Connection, RequestParts, Sections, Step, hpack, request_fields, response_fields,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Number of allocations of this thread. The test harness allocates in others.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no counter any more.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
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
static ALLOCATOR: Counting = Counting;

struct Side {
    connection: Connection,
    sections: Sections,
    output: Vec<u8>,
}

/// Sends 20 requests with bodies at a time, and answers them. The answers have a field that differs each
/// time, and that the server adds to the client's dynamic table.
fn round(
    client: &mut Side,
    server: &mut Side,
    post: &Block,
    ok: &Block,
    varying: &mut Vec<u8>,
    number: &mut u32,
) {
    for tag in 0..20 {
        let stream = client.connection.request(tag, false, post, &[], false, &mut client.output);
        client.connection.send_data(stream.expect("a stream"), &[b'x'; 500], true, &mut client.output);
    }
    let mut at = 0;
    loop {
        let found = server.connection.advance(&client.output[at..], &mut server.sections, &mut server.output);
        let (consumed, step) = found.expect("valid");
        at += consumed;
        match step {
            Step::NeedMore => break,
            Step::Body { stream, end: true, .. } => {
                *number += 1;
                varying.clear();
                // A literal that the client adds to its table: name `x-id`, a value of 5 bytes.
                varying.extend_from_slice(b"\x40\x04x-id\x05");
                varying.extend((0..5).map(|place| b'a' + (*number >> (4 * place) & 15) as u8));
                server.connection.send_head(stream.id, ok, varying, false, &mut server.output);
                server.connection.send_data(stream.id, &[b'y'; 800], true, &mut server.output);
            }
            _ => {}
        }
    }
    client.output.clear();
    let (mut at, mut ended) = (0, 0);
    loop {
        let found = client.connection.advance(&server.output[at..], &mut client.sections, &mut client.output);
        let (consumed, step) = found.expect("valid");
        at += consumed;
        match step {
            Step::NeedMore => break,
            Step::Head { .. } => {
                assert_eq!(client.sections.head.fields().get("x-id").map(<[u8]>::len), Some(5));
            }
            Step::Body { end, .. } => ended += u32::from(end),
            _ => {}
        }
    }
    assert_eq!(ended, 20);
    server.output.clear();
}

#[test]
fn requests_allocate_nothing() {
    let mut output = Vec::new();
    let connection = Connection::client(Config::default(), &mut output);
    let mut client = Side { connection, sections: Sections::new(), output };
    let mut output = Vec::new();
    let connection = Connection::server(Config::default(), &mut output);
    let mut server = Side { connection, sections: Sections::new(), output };
    let parts = RequestParts {
        method: "POST",
        scheme: "http",
        authority: "a",
        path: "/x",
        content_length: Some(500),
    };
    let post = Block::shared(&[&request_fields(parts, [("accept", "*/*")]).expect("valid")]).remove(0);
    let ok = Block::plain(&response_fields(200, [("server", "y")], Some(800)).expect("valid"));
    let (mut varying, mut number) = (Vec::new(), 0);
    hpack::write_literal(&mut varying, "room", &[0; 100]);
    for _ in 0..100 {
        round(&mut client, &mut server, &post, &ok, &mut varying, &mut number);
    }
    let before = ALLOCATIONS.get();
    for _ in 0..1000 {
        round(&mut client, &mut server, &post, &ok, &mut varying, &mut number);
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
