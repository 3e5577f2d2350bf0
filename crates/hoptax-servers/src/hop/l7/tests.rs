//! `hop-l7` between sockets of a test.

use crate::hop::{HopSettings, Kind, RunningHop};
use hoptax_plan::{HopDelay, HopFaults, HopLlm};
use hoptax_testing::wait_for;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);
const HANDSHAKE: &[u8] = b"GET /chat HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-key: k\r\nsec-websocket-extensions: permessage-deflate\r\n\r\n";
const ACCEPTED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n";

/// A hop with these faults, and the listener of its upstream.
fn hop(faults: HopFaults) -> (RunningHop, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a listener");
    let settings = HopSettings {
        kind: Kind::L7,
        listen: "127.0.0.1:0".parse().expect("an address"),
        upstreams: vec![listener.local_addr().expect("it listens").into()],
        workers: 1,
        cpus: Vec::new(),
        forward: None,
        delay: Some(HopDelay { faults: Some(faults), ..HopDelay::default() }),
        seed: 0,
    };
    (RunningHop::start(&settings).expect("it starts"), listener)
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_nonblocking(false).expect("a socket");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

/// A client that has sent these bytes.
fn client(hop: &RunningHop, bytes: &[u8]) -> TcpStream {
    let mut client = patient(TcpStream::connect(hop.ready().listen).expect("it listens"));
    client.write_all(bytes).expect("sent");
    client
}

/// The connection that the hop opens to its upstream.
fn upstream(listener: &TcpListener) -> TcpStream {
    patient(wait_for("the hop's connection", PATIENCE, || Some(listener.accept().ok()?.0)))
}

fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        head.extend_from_slice(&byte);
    }
    String::from_utf8(head).expect("text")
}

fn expect(stream: &mut TcpStream, expected: &[u8]) {
    let mut bytes = vec![0; expected.len()];
    stream.read_exact(&mut bytes).expect("as many bytes");
    assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(expected));
}

/// A hop with these faults of AI gateways.
fn llm_hop(llm: HopLlm) -> (RunningHop, TcpListener) {
    hop(HopFaults { llm: Some(llm), ..HopFaults::default() })
}

const PROMPT: &[u8] =
    b"POST / HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n{\"a\":1}";
const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    transfer-encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n";

/// A hop with these faults, its client, and its upstream, which has sent the begin of a stream.
fn streaming(llm: HopLlm) -> ((RunningHop, TcpListener), TcpStream, TcpStream) {
    let (hop, listener) = llm_hop(llm);
    let mut client = client(&hop, PROMPT);
    let mut upstream = upstream(&listener);
    head(&mut upstream);
    expect(&mut upstream, br#"{"a":1}"#);
    upstream.write_all(STREAM).expect("sent");
    head(&mut client);
    ((hop, listener), client, upstream)
}

/// Like [`is_closed`], but false if nothing arrives in time.
fn is_closed_now(stream: &mut TcpStream) -> bool {
    !matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// True if the connection has ended, or was reset.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn bytes_pass_both_ways_after_a_handshake() {
    let (hop, listener) = hop(HopFaults::default());
    let mut client = client(&hop, &[HANDSHAKE, b"early"].concat());
    let mut upstream = upstream(&listener);
    let request = head(&mut upstream);
    for expected in ["connection: Upgrade\r\nupgrade: websocket\r\n", "sec-websocket-extensions: "] {
        assert!(request.contains(expected), "{request}");
    }
    expect(&mut upstream, b"early");
    let accepted = [ACCEPTED, b"\x81\x01a"].concat();
    upstream.write_all(&accepted).expect("sent");
    expect(&mut client, &accepted);
    client.write_all(b"\x88\x00").expect("sent");
    expect(&mut upstream, b"\x88\x00");
    drop(upstream);
    assert!(is_closed(&mut client));
}

#[test]
fn json_of_requests_and_responses_gets_a_field() {
    let (hop, listener) = llm_hop(HopLlm { add_field: true, alter_response: true, ..HopLlm::default() });
    let mut client = client(&hop, PROMPT);
    let mut upstream = upstream(&listener);
    let request = head(&mut upstream);
    assert!(request.contains("content-length: 19\r\n"), "{request}");
    expect(&mut upstream, br#"{"x_added":1,"a":1}"#);
    let fields = "content-type: application/json\r\ncontent-length: 7";
    let answer = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{{\"b\":2}}");
    upstream.write_all(answer.as_bytes()).expect("sent");
    let answer = head(&mut client);
    assert!(answer.contains("content-length: 19\r\n"), "{answer}");
    expect(&mut client, br#"{"x_added":1,"b":2}"#);
}

#[test]
fn refused_requests_are_sent_again() {
    let (hop, listener) = llm_hop(HopLlm { retry: 2, ..HopLlm::default() });
    let mut client = client(&hop, PROMPT);
    for (status, is_passed) in [(429, false), (500, false), (503, true)] {
        let mut upstream = upstream(&listener);
        head(&mut upstream);
        expect(&mut upstream, br#"{"a":1}"#);
        let answer = format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n");
        upstream.write_all(answer.as_bytes()).expect("sent");
        if is_passed {
            assert_eq!(head(&mut client), answer);
        } else {
            assert!(is_closed(&mut upstream));
        }
    }
}

#[test]
fn streams_that_are_cut_get_a_good_end() {
    for false_end in [false, true] {
        let llm = HopLlm { false_end, hold_first: PATIENCE * 6, ..HopLlm::default() };
        let (_hop, mut client, upstream) = streaming(llm);
        drop(upstream);
        if false_end {
            expect(&mut client, b"17\r\ndata: a\n\ndata: [DONE]\n\n\r\n0\r\n\r\n");
        } else {
            assert!(is_closed(&mut client));
        }
    }
}

#[test]
fn only_a_hop_without_a_limit_reads_on_while_the_client_does_not() {
    // More than the kernel and the hop keep of two connections.
    const CHUNKS: usize = 1024;
    let chunk = format!("10000\r\n{}\r\n", "a".repeat(0x10000));
    for unbounded in [false, true] {
        let (_hop, _client, mut upstream) = streaming(HopLlm { unbounded, ..HopLlm::default() });
        let limit = if unbounded { PATIENCE } else { Duration::from_millis(200) };
        upstream.set_write_timeout(Some(limit)).expect("a socket");
        let sent = (0..CHUNKS).take_while(|_| upstream.write_all(chunk.as_bytes()).is_ok()).count();
        assert_eq!(sent == CHUNKS, unbounded, "{sent} chunks");
    }
}

#[test]
fn responses_are_read_to_their_end_although_the_client_has_left() {
    for ignore_abort in [false, true] {
        let (_hop, client, mut upstream) = streaming(HopLlm { ignore_abort, ..HopLlm::default() });
        drop(client);
        // The hop notices that the client has left when it sends to it.
        upstream.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket");
        let event = b"9\r\ndata: b\n\n\r\n";
        let mut sends = || upstream.write_all(event).is_ok() && !is_closed_now(&mut upstream);
        if ignore_abort {
            assert!((0..10).all(|_| sends()));
            upstream.write_all(b"0\r\n\r\n").expect("sent");
            upstream.set_read_timeout(Some(PATIENCE)).expect("a socket");
            assert!(is_closed(&mut upstream), "after the end");
        } else {
            wait_for("the hop to leave", PATIENCE, || (!sends()).then_some(()));
        }
    }
}
