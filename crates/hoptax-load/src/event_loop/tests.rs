//! Tests of the event loop with real sockets on the loopback interface. The tests wait for events, not for a
//! fixed time. A deadline bounds each step.

use super::*;
use crate::clock;
use hoptax_format::Address;
use hoptax_format::clock::{MILLISECOND, SECOND};
use rustix::net::sockopt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;

/// Records its events. If `echo` is true, it also sends received data back.
#[derive(Default)]
struct Witness {
    connected: Vec<(Token, bool)>,
    accepted: u32,
    received: Vec<u8>,
    closed: Vec<(Token, bool)>,
    drained: u32,
    echo: bool,
    close_on_receive: bool,
    keep_sending: bool,
}

impl Handler<Epoll> for Witness {
    fn connected(&mut self, _: &mut Epoll, token: Token, result: io::Result<()>) {
        self.connected.push((token, result.is_ok()));
    }

    fn accepted(&mut self, _: &mut Epoll, _: Token, _: SocketAddr) -> Option<Token> {
        self.accepted += 1;
        Some(Token(100 + self.accepted))
    }

    fn received(&mut self, io: &mut Epoll, token: Token, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
        if self.echo {
            io.send(token, bytes).expect("the peer is there");
        }
        if self.close_on_receive {
            io.close(token);
        }
    }

    fn closed(&mut self, _: &mut Epoll, token: Token, result: io::Result<()>) -> AfterEnd {
        self.closed.push((token, result.is_ok()));
        if self.keep_sending { AfterEnd::KeepSending } else { AfterEnd::Close }
    }

    fn drained(&mut self, _: &mut Epoll, _: Token) {
        self.drained += 1;
    }
}

/// Turns the loop until `done` returns true, for at most a minute. Only a failing test takes that long.
fn turn_until(io: &mut Epoll, witness: &mut Witness, done: impl Fn(&Witness) -> bool) {
    let deadline = clock::now() + 60 * SECOND;
    while !done(witness) {
        assert!(clock::now() < deadline, "it did not happen");
        io.turn(witness, Some(deadline)).expect("the loop works");
    }
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

fn connected_pair(io: &mut Epoll, witness: &mut Witness) -> TcpStream {
    let (listener, address) = listener();
    io.connect(Token(0), &address.into(), None).expect("connect starts");
    let peer = listener.accept().expect("accepts").0;
    turn_until(io, witness, |witness| witness.connected == [(Token(0), true)]);
    peer
}

/// A loop whose token 0 is connected to the third value.
fn pair(mut witness: Witness) -> (Epoll, Witness, TcpStream) {
    let mut io = Epoll::new().expect("epoll");
    let peer = connected_pair(&mut io, &mut witness);
    (io, witness, peer)
}

/// All that arrives at `peer` until the end, while the loop turns until everything is sent.
fn arriving(io: &mut Epoll, witness: &mut Witness, mut peer: TcpStream) -> Vec<u8> {
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        peer.read_to_end(&mut all).map(|_| all)
    });
    turn_until(io, witness, |witness| witness.drained == 1);
    reader.join().expect("no panic").expect("reads")
}

#[test]
fn reports_a_refused_connect_and_frees_the_token() {
    let mut io = Epoll::new().expect("epoll");
    let (listener, address) = listener();
    drop(listener);
    let mut witness = Witness::default();
    for attempt in 1..=2 {
        if io.connect(Token(0), &address.into(), None).is_ok() {
            turn_until(&mut io, &mut witness, |witness| witness.connected.len() == attempt);
            assert_eq!(witness.connected[attempt - 1], (Token(0), false));
        }
    }
}

#[test]
fn accepts_and_echoes_more_than_the_kernel_buffers() {
    let mut io = Epoll::new().expect("epoll");
    let (listener, address) = listener();
    // Accepted connections inherit this size of the send buffer.
    sockopt::set_socket_send_buffer_size(&listener, 64 * 1024).expect("a small buffer");
    let mut witness = Witness { echo: true, ..Witness::default() };
    io.listen(Token(0), listener).expect("listens");
    let (read, may_read) = std::sync::mpsc::channel();
    let sent: Vec<u8> = (0..8_000_000u32).map(|i| (i % 251) as u8).collect();
    let client = std::thread::spawn({
        let sent = sent.clone();
        move || {
            let mut stream = TcpStream::connect(address).expect("connects");
            // Limit the receive buffer, so that the socket cannot hold the whole echo. The server's send
            // buffer is limited too.
            sockopt::set_socket_recv_buffer_size(&stream, 64 * 1024).expect("a small buffer");
            stream.write_all(&sent).expect("writes");
            may_read.recv().expect("signalled");
            let mut back = vec![0; sent.len()];
            stream.read_exact(&mut back).expect("reads");
            back == sent
        }
    });
    // The client has not read any of the echo yet, so a part of it must be queued in the event loop.
    turn_until(&mut io, &mut witness, |witness| witness.received.len() == sent.len());
    let before = witness.drained;
    assert!(io.unsent(Token(101)) > 0, "more than the kernel buffers");
    read.send(()).expect("the client waits");
    turn_until(&mut io, &mut witness, |witness| !witness.closed.is_empty());
    assert!(client.join().expect("no panic"), "the echo differs");
    assert_eq!(witness.received.len(), sent.len());
    assert_eq!(witness.drained, before + 1, "called once, when the last byte has been sent");
}

#[test]
fn a_paused_connection_is_silent_until_resumed() {
    let (mut io, mut witness, mut peer) = pair(Witness::default());
    io.pause(Token(0));
    peer.write_all(b"early").expect("writes");
    for _ in 0..3 {
        io.turn(&mut witness, Some(clock::now() + MILLISECOND)).expect("turns");
    }
    assert!(witness.received.is_empty());
    io.resume(Token(0));
    turn_until(&mut io, &mut witness, |witness| witness.received == b"early");
}

#[test]
fn a_handler_may_close_while_it_receives() {
    let (mut io, mut witness, mut peer) = pair(Witness { close_on_receive: true, ..Witness::default() });
    peer.write_all(b"last words").expect("writes");
    turn_until(&mut io, &mut witness, |witness| !witness.received.is_empty());
    assert_eq!(peer.read(&mut [0; 8]).expect("reads"), 0, "the peer sees the end");
    assert!(witness.closed.is_empty(), "the side that closes gets no event");
    let (listener, address) = listener();
    io.connect(Token(0), &address.into(), None).expect("the token is free again");
    drop(listener);
}

#[test]
fn finish_ends_our_side_after_what_is_pending() {
    let (mut io, mut witness, peer) = pair(Witness::default());
    let sent = vec![7; 12_000_000];
    io.send(Token(0), &sent).expect("sends");
    assert!(io.unsent(Token(0)) > 0, "more than the kernel buffers");
    io.finish(Token(0)).expect("finishes");
    assert_eq!(arriving(&mut io, &mut witness, peer), sent);
}

#[test]
fn a_deadline_that_has_passed_polls() {
    let mut io = Epoll::new().expect("epoll");
    io.turn(&mut Witness::default(), Some(0)).expect("returns at once");
}

/// Turns the loop until all events that have happened so far are delivered.
fn settle(io: &mut Epoll, witness: &mut Witness) {
    for _ in 0..5 {
        io.turn(witness, Some(clock::now() + MILLISECOND)).expect("turns");
    }
}

#[test]
fn a_paused_connection_reports_the_end_when_resumed() {
    let (mut io, mut witness, mut peer) = pair(Witness::default());
    io.pause(Token(0));
    settle(&mut io, &mut witness);
    peer.write_all(b"last words").expect("writes");
    drop(peer);
    settle(&mut io, &mut witness);
    assert!(witness.received.is_empty() && witness.closed.is_empty());
    io.resume(Token(0));
    turn_until(&mut io, &mut witness, |witness| witness.closed == [(Token(0), true)]);
    assert_eq!(witness.received, b"last words");
}

#[test]
fn a_half_open_connection_still_sends() {
    let (mut io, mut witness, peer) = pair(Witness { keep_sending: true, ..Witness::default() });
    peer.shutdown(std::net::Shutdown::Write).expect("ends its side");
    turn_until(&mut io, &mut witness, |witness| witness.closed == [(Token(0), true)]);
    assert!(io.is_connected(Token(0)));
    let sent = vec![3; 12_000_000];
    io.send(Token(0), &sent).expect("sends");
    io.finish(Token(0)).expect("finishes");
    assert_eq!(arriving(&mut io, &mut witness, peer), sent);
    assert_eq!(witness.closed.len(), 1, "the end is reported once");
}

#[test]
fn a_closed_connection_delivers_no_more_events() {
    let (mut io, mut witness, mut former) = pair(Witness::default());
    former.write_all(b"too late").expect("writes");
    io.send(Token(0), &vec![1; 12_000_000]).expect("sends more than fits");
    assert!(io.unsent(Token(0)) > 0);
    io.close(Token(0));
    assert!(!io.is_connected(Token(0)) && io.unsent(Token(0)) == 0);
    witness.connected.clear();
    let mut peer = connected_pair(&mut io, &mut witness);
    io.send(Token(0), b"new").expect("sends");
    let mut three = [0; 3];
    peer.read_exact(&mut three).expect("reads");
    assert_eq!(&three, b"new");
    peer.write_all(b"also new").expect("writes");
    turn_until(&mut io, &mut witness, |witness| !witness.received.is_empty());
    settle(&mut io, &mut witness);
    assert_eq!(witness.received, b"also new");
    assert!(witness.closed.is_empty() && witness.drained == 0);
    // The client receives the bytes that the kernel had accepted, and then the end: a FIN, or an RST because
    // of unread data.
    let mut rest = Vec::new();
    let _ = former.read_to_end(&mut rest);
    assert!(rest.len() < 12_000_000);
}

#[test]
fn data_from_a_server_that_sends_first_is_received() {
    let mut io = Epoll::new().expect("epoll");
    let (listener, address) = listener();
    let mut witness = Witness::default();
    io.connect(Token(0), &address.into(), None).expect("connect starts");
    // The loop is not turned before the server's thread starts, so that the greeting and the end can arrive
    // before the loop processes the connect.
    let server = std::thread::spawn(move || listener.accept().expect("accepts").0.write_all(b"welcome"));
    turn_until(&mut io, &mut witness, |witness| witness.closed == [(Token(0), true)]);
    server.join().expect("no panic").expect("writes");
    assert_eq!(witness.received, b"welcome");
    assert_eq!(witness.connected, [(Token(0), true)]);
}

#[test]
fn a_closed_listener_accepts_nothing() {
    let mut io = Epoll::new().expect("epoll");
    let (listener, address) = listener();
    let mut witness = Witness::default();
    io.listen(Token(0), listener).expect("listens");
    let _first = TcpStream::connect(address).expect("connects");
    turn_until(&mut io, &mut witness, |witness| witness.accepted == 1);
    assert!(io.is_connected(Token(101)) && !io.is_connected(Token(0)));
    io.close(Token(0));
    assert!(TcpStream::connect(address).is_err(), "nothing listens");
    settle(&mut io, &mut witness);
    assert_eq!(witness.accepted, 1);
}

#[test]
fn operations_on_free_tokens_do_nothing() {
    let mut io = Epoll::new().expect("epoll");
    for token in [Token(0), Token(7)] {
        io.close(token);
        io.pause(token);
        io.resume(token);
        assert!(!io.is_connected(token) && io.unsent(token) == 0);
        assert!(io.send(token, b"x").is_err() && io.finish(token).is_err());
    }
}

#[test]
fn a_unix_socket_works_like_any_other_connection() {
    let mut io = Epoll::new().expect("epoll");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let address = Address::Unix(path.clone());
    let refused = io.connect(Token(0), &address, None).expect_err("there is no such file");
    assert_eq!(refused.kind(), io::ErrorKind::NotFound);
    let listener = UnixListener::bind(&path).expect("binds");
    let mut witness = Witness::default();
    // If a connect is cancelled before its result was delivered, the handler must not receive a result.
    io.connect(Token(0), &address, None).expect("the token is free");
    io.close(Token(0));
    io.connect(Token(0), &address, None).expect("the token is free again");
    turn_until(&mut io, &mut witness, |witness| !witness.connected.is_empty());
    assert_eq!(witness.connected, [(Token(0), true)]);
    drop(listener.accept().expect("the cancelled one"));
    let mut peer = listener.accept().expect("accepts").0;
    io.send(Token(0), b"question").expect("sends");
    let mut question = [0; 8];
    peer.read_exact(&mut question).expect("arrives");
    peer.write_all(b"answer").expect("writes");
    turn_until(&mut io, &mut witness, |witness| witness.received == b"answer");
    drop(peer);
    turn_until(&mut io, &mut witness, |witness| witness.closed == [(Token(0), true)]);
    drop(listener);
    let refused = io.connect(Token(0), &address, None).expect_err("no listener");
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_unix_socket_with_a_full_backlog_fails_at_once() {
    let mut io = Epoll::new().expect("epoll");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).expect("binds");
    rustix::net::listen(&listener, 2).expect("the backlog can be changed");
    let mut witness = Witness::default();
    let address = Address::Unix(path);
    let mut connects = (0..100).map(|token| (token, io.connect(Token(token), &address, None)));
    let (full, error) = connects.find_map(|(token, result)| Some((token, result.err()?))).expect("it fills");
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    turn_until(&mut io, &mut witness, |witness| witness.connected.len() == full as usize);
    let _room = listener.accept().expect("accepts");
    io.connect(Token(full), &address, None).expect("there is room, and the token is free");
    turn_until(&mut io, &mut witness, |witness| witness.connected.last() == Some(&(Token(full), true)));
}

#[test]
fn a_failure_after_the_peer_ended_its_side_is_reported() {
    let (mut io, mut witness, peer) = pair(Witness { keep_sending: true, ..Witness::default() });
    peer.shutdown(std::net::Shutdown::Write).expect("ends its side");
    turn_until(&mut io, &mut witness, |witness| witness.closed == [(Token(0), true)]);
    // With a linger time of zero, closing the socket resets the connection.
    sockopt::set_socket_linger(&peer, Some(std::time::Duration::ZERO)).expect("set");
    drop(peer);
    turn_until(&mut io, &mut witness, |witness| witness.closed == [(Token(0), true), (Token(0), false)]);
    let (listener, address) = listener();
    io.connect(Token(0), &address.into(), None).expect("the token is free again");
    drop(listener);
}

#[test]
fn connections_that_are_reset_leave_no_port_behind() {
    let (mut io, _, mut peer) = pair(Witness::default());
    io.reset_all();
    assert!(!io.is_connected(Token(0)), "the token is free");
    peer.set_nonblocking(false).expect("set");
    let error = std::io::Read::read(&mut peer, &mut [0; 8]).expect_err("no end of the stream");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}
