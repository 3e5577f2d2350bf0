//! What only this loop can get wrong: rings and buffers that are too small for what happens.

use super::*;
use crate::event_loop::tests::{Witness, connected_pair, listener, turn_until};
use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// Everything as small as it can be.
const TINY: Sizes = Sizes { submissions: 2, completions: 4, buffers: Size { count: 2, bytes: 4096 } };

/// A loop, where the kernel allows one.
fn uring(sizes: Sizes) -> Option<Uring> {
    Uring::with_sizes(sizes)
        .inspect_err(|error| eprintln!("left out, as io_uring cannot be had: {error}"))
        .ok()
}

/// Echoes on connections that it accepts; counts what arrives, by token.
#[derive(Default)]
struct Echo {
    next: u32,
    received: HashMap<Token, usize>,
    closed: usize,
}

impl Handler<Uring> for Echo {
    fn connected(&mut self, _: &mut Uring, _: Token, _: io::Result<()>) {}

    fn accepted(&mut self, _: &mut Uring, _: Token, _: SocketAddr) -> Option<Token> {
        self.next += 1;
        Some(Token(self.next))
    }

    fn received(&mut self, io: &mut Uring, token: Token, bytes: &[u8]) {
        *self.received.entry(token).or_default() += bytes.len();
        io.send(token, bytes).expect("the peer is there");
    }

    fn closed(&mut self, _: &mut Uring, _: Token, result: io::Result<()>) -> AfterEnd {
        result.expect("the peer ends its side in order");
        self.closed += 1;
        AfterEnd::Close
    }
}

/// `clients` at once send `length` bytes each, and want them back.
fn echo_to_many(mut io: Uring, clients: usize, length: usize) {
    let (listener, address) = listener();
    io.listen(Token(0), listener).expect("listens");
    let all = std::thread::spawn(move || {
        let mut streams: Vec<_> =
            (0..clients).map(|_| TcpStream::connect(address).expect("connects")).collect();
        for (index, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&vec![index as u8; length]).expect("writes");
        }
        for (index, stream) in streams.iter_mut().enumerate() {
            let mut back = vec![0; length];
            stream.read_exact(&mut back).expect("reads");
            assert!(back.iter().all(|byte| *byte == index as u8), "bytes of another connection");
        }
    });
    let mut echo = Echo::default();
    let deadline = clock::now() + 20 * clock::SECOND;
    while echo.closed < clients {
        assert!(clock::now() < deadline, "{} of {clients} are done", echo.closed);
        io.turn(&mut echo, Some(deadline)).expect("the loop works");
    }
    all.join().expect("all came back");
    assert!(echo.received.values().all(|received| *received == length));
    assert_eq!(echo.received.len(), clients);
}

#[test]
fn many_connections_share_the_buffers() {
    if let Some(io) = uring(SIZES) {
        echo_to_many(io, 300, 10_000);
    }
}

#[test]
fn goes_on_when_buffers_and_queues_run_out() {
    if let Some(io) = uring(TINY) {
        echo_to_many(io, 50, 50_000);
    }
}

#[test]
fn more_happens_in_a_turn_than_the_queue_holds() {
    let Some(mut io) = uring(TINY) else { return };
    let (listener, address) = listener();
    for token in 0..40 {
        io.connect(Token(token), &address.into(), None).expect("connect starts");
    }
    let mut witness = Witness::default();
    turn_until(&mut io, &mut witness, |witness| witness.connected.len() == 40);
    assert!(witness.connected.iter().all(|(_, succeeded)| *succeeded));
    drop(listener);
    turn_until(&mut io, &mut witness, |witness| witness.closed.len() == 40);
}

#[test]
fn a_send_in_flight_outlives_its_connection() {
    let Some(mut io) = uring(TINY) else { return };
    let mut witness = Witness::default();
    let mut peers = Vec::new();
    for round in 0..10 {
        let peer = connected_pair(&mut io, &mut witness);
        witness.connected.clear();
        io.send(Token(0), &vec![round; 12_000_000]).expect("sends");
        assert!(io.unsent(Token(0)) > 0);
        if round % 2 == 0 {
            // Once it was queued only, once the kernel has it.
            io.turn(&mut witness, Some(0)).expect("turns");
        }
        io.close(Token(0));
        peers.push((round, peer));
    }
    for (round, mut peer) in peers {
        let mut read = Vec::new();
        peer.read_to_end(&mut read).expect("an end in order");
        assert!(read.len() < 12_000_000 && read.iter().all(|byte| *byte == round));
    }
    io.turn(&mut witness, Some(0)).expect("turns");
    assert_eq!(witness.drained, 0);
    assert!(witness.closed.is_empty());
}

#[test]
fn a_dropped_loop_ends_its_connections() {
    let Some(mut io) = uring(SIZES) else { return };
    let mut witness = Witness::default();
    let mut peer = connected_pair(&mut io, &mut witness);
    drop(io);
    assert_eq!(peer.read(&mut [0; 1]).expect("reads"), 0, "the end");
}

#[test]
fn tokens_beyond_the_registered_ones_work_too() {
    let Some(mut io) = uring(SIZES) else { return };
    let (listener, address) = listener();
    let token = Token(40_000);
    io.connect(token, &address.into(), None).expect("connect starts");
    let mut peer = listener.accept().expect("accepts").0;
    let mut witness = Witness::default();
    turn_until(&mut io, &mut witness, |witness| witness.connected == [(token, true)]);
    let body = vec![5; 9_000_000];
    io.send(token, &body).expect("sends");
    let reader = std::thread::spawn(move || {
        let mut read = vec![0; 9_000_000];
        peer.read_exact(&mut read).map(|()| read)
    });
    turn_until(&mut io, &mut witness, |witness| witness.drained == 1);
    assert!(reader.join().expect("no panic").expect("reads") == body);
}
