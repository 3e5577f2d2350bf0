//! Real sockets on loopback. Each test's steps are bounded by a deadline, and wait for events rather than for time.

use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Remembers what it was told; echoes when asked to.
#[derive(Default)]
struct Witness {
    connected: Vec<(Token, bool)>,
    accepted: u32,
    received: Vec<u8>,
    closed: Vec<(Token, bool)>,
    drained: u32,
    echo: bool,
    keep_sending: bool,
    close_on_receive: bool,
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

/// Turns until `done`, five seconds at most.
fn turn_until(io: &mut Epoll, witness: &mut Witness, done: impl Fn(&Witness) -> bool) {
    let deadline = clock::now() + 5 * clock::SECOND;
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
    io.connect(Token(0), address, None).expect("connect starts");
    let peer = listener.accept().expect("accepts").0;
    turn_until(io, witness, |witness| witness.connected == [(Token(0), true)]);
    peer
}

#[test]
fn connects_sends_and_receives() {
    let mut io = Epoll::new().expect("epoll");
    let mut witness = Witness::default();
    let mut peer = connected_pair(&mut io, &mut witness);
    io.send(Token(0), b"question").expect("sends");
    let mut question = [0; 8];
    peer.read_exact(&mut question).expect("reads");
    assert_eq!(&question, b"question");
    peer.write_all(b"answer").expect("writes");
    turn_until(&mut io, &mut witness, |witness| witness.received == b"answer");
    drop(peer);
    turn_until(&mut io, &mut witness, |witness| witness.closed == [(Token(0), true)]);
}

#[test]
fn tells_a_refused_connect_and_frees_the_token() {
    let (listener, address) = listener();
    drop(listener);
    let mut io = Epoll::new().expect("epoll");
    let mut witness = Witness::default();
    for attempt in 1..=2 {
        if io.connect(Token(0), address, None).is_ok() {
            turn_until(&mut io, &mut witness, |witness| witness.connected.len() == attempt);
            assert_eq!(witness.connected[attempt - 1], (Token(0), false));
        }
    }
}

#[test]
fn accepts_and_echoes_more_than_the_kernel_buffers() {
    let (listener, address) = listener();
    // Inherited by what it accepts.
    sockopt::set_socket_send_buffer_size(&listener, 64 * 1024).expect("a small buffer");
    let mut io = Epoll::new().expect("epoll");
    let mut witness = Witness { echo: true, ..Witness::default() };
    io.listen(Token(0), listener).expect("listens");
    let (read, may_read) = std::sync::mpsc::channel();
    let sent: Vec<u8> = (0..8_000_000u32).map(|i| (i % 251) as u8).collect();
    let client = std::thread::spawn({
        let sent = sent.clone();
        move || {
            let mut stream = TcpStream::connect(address).expect("connects");
            // Fixed, it cannot grow to hold all of the echo, and the server's side is bounded below.
            sockopt::set_socket_recv_buffer_size(&stream, 64 * 1024).expect("a small buffer");
            stream.write_all(&sent).expect("writes");
            may_read.recv().expect("told to");
            let mut back = vec![0; sent.len()];
            stream.read_exact(&mut back).expect("reads");
            back == sent
        }
    });
    // Nobody has read any of the echo by now, so it can only be waiting here.
    turn_until(&mut io, &mut witness, |witness| witness.received.len() == sent.len());
    let before = witness.drained;
    assert!(io.unsent(Token(101)) > 0, "more than the kernel buffers");
    read.send(()).expect("the client waits");
    turn_until(&mut io, &mut witness, |witness| !witness.closed.is_empty());
    assert!(client.join().expect("no panic"), "the echo differs");
    assert_eq!(witness.received.len(), sent.len());
    assert_eq!(witness.drained, before + 1, "once, when the last of it has left");
}

#[test]
fn a_paused_connection_is_silent_until_resumed() {
    let mut io = Epoll::new().expect("epoll");
    let mut witness = Witness::default();
    let mut peer = connected_pair(&mut io, &mut witness);
    io.pause(Token(0));
    peer.write_all(b"early").expect("writes");
    for _ in 0..3 {
        io.turn(&mut witness, Some(clock::now() + clock::MILLISECOND)).expect("turns");
    }
    assert!(witness.received.is_empty());
    io.resume(Token(0));
    turn_until(&mut io, &mut witness, |witness| witness.received == b"early");
}

#[test]
fn a_handler_may_close_while_it_receives() {
    let mut io = Epoll::new().expect("epoll");
    let mut witness = Witness { close_on_receive: true, ..Witness::default() };
    let mut peer = connected_pair(&mut io, &mut witness);
    peer.write_all(b"last words").expect("writes");
    turn_until(&mut io, &mut witness, |witness| !witness.received.is_empty());
    assert_eq!(peer.read(&mut [0; 8]).expect("reads"), 0, "the peer sees the end");
    assert!(witness.closed.is_empty(), "who closes is not told so");
    let (listener, address) = listener();
    io.connect(Token(0), address, None).expect("the token is free again");
    drop(listener);
}

#[test]
fn finish_ends_our_side_after_what_is_pending() {
    let mut io = Epoll::new().expect("epoll");
    let mut witness = Witness::default();
    let mut peer = connected_pair(&mut io, &mut witness);
    let sent = vec![7; 6_000_000];
    io.send(Token(0), &sent).expect("sends");
    assert!(io.unsent(Token(0)) > 0, "more than the kernel buffers");
    io.finish(Token(0)).expect("finishes");
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        peer.read_to_end(&mut all).map(|_| all)
    });
    turn_until(&mut io, &mut witness, |witness| witness.drained == 1);
    assert_eq!(reader.join().expect("no panic").expect("reads"), sent);
}

#[test]
fn a_connection_that_breaks_after_its_peer_ended_is_told() {
    let mut io = Epoll::new().expect("epoll");
    let mut witness = Witness { keep_sending: true, ..Witness::default() };
    let peer = connected_pair(&mut io, &mut witness);
    peer.shutdown(std::net::Shutdown::Write).expect("ends its side");
    turn_until(&mut io, &mut witness, |witness| witness.closed == [(Token(0), true)]);
    // Closed without lingering, it is reset.
    sockopt::set_socket_linger(&peer, Some(std::time::Duration::ZERO)).expect("set");
    drop(peer);
    turn_until(&mut io, &mut witness, |witness| witness.closed == [(Token(0), true), (Token(0), false)]);
    let (listener, address) = listener();
    io.connect(Token(0), address, None).expect("the token is free again");
    drop(listener);
}

#[test]
fn a_deadline_that_has_passed_polls() {
    let mut io = Epoll::new().expect("epoll");
    io.turn(&mut Witness::default(), Some(0)).expect("returns at once");
}
