//! Tests a worker on a simulated network with random but reproducible events. No test waits, because the
//! clock is advanced instead. After each turn, the state of the worker must be consistent. Once the failures
//! have ended, every slot must carry requests again.

use super::*;
use crate::clock;
use crate::pacer::Share;
use crate::recorder::outcomes;
use crate::tls::testing::{self, Authority, NAME};
use hoptax_format::random::Random;
use hoptax_format::spec::{Arrivals, Chunked, Rate, Retry, TlsVersion};
use rustix::io::Errno;
use rustls::{ServerConfig, ServerConnection};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

const CONNECTIONS: u32 = 6;
/// Responses of a failing server. If the second value is true, the server closes the connection after the
/// response, even if the request did not ask the server to close it.
const ANSWERS: [(&[u8], bool); 8] = [
    (OK, false),
    (
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: \
        chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        false,
    ),
    (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok", true),
    (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", true),
    (b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\ncut off", true),
    (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok and more", false),
    (b"no HTTP at all\r\n\r\n", true),
    (b"", false),
];

struct Peer {
    /// Distinguishes this connection from later connections with the same token.
    id: u64,
    open: bool,
    tls: Option<Box<ServerConnection>>,
    /// Received data that does not form a complete request yet.
    asked: Vec<u8>,
    /// Data that has not been delivered to the worker yet.
    outbox: Vec<u8>,
    /// True if the connection must close when the outbox has been delivered.
    closing: bool,
    unsent: usize,
}

struct Chance {
    random: Random,
    trouble: bool,
    /// True while all connects fail.
    shut: bool,
    tls: Option<Arc<ServerConfig>>,
    peers: BTreeMap<Token, Peer>,
    connects: u64,
    /// Number of requests per connection since the failures have ended.
    asked: [u32; CONNECTIONS as usize],
}

impl Chance {
    /// Returns true with probability 1 / `times` while failures are enabled, and otherwise false.
    fn strikes(&mut self, times: u64) -> bool {
        self.trouble && self.random.below(times) == 0
    }

    fn is_same(&self, token: Token, id: u64) -> bool {
        self.peers.get(&token).is_some_and(|peer| peer.id == id)
    }

    /// Acts as the server: reads `bytes` and adds the responses to the outbox.
    fn serve(&mut self, token: Token, bytes: &[u8]) {
        let (answer, closes) = if self.trouble {
            ANSWERS[self.random.below(ANSWERS.len() as u64) as usize]
        } else {
            (OK, false)
        };
        let (corrupt, politely, early) = (self.strikes(60), !self.strikes(4), self.strikes(20));
        let peer = self.peers.get_mut(&token).expect("it is open");
        match &mut peer.tls {
            None => peer.asked.extend_from_slice(bytes),
            Some(tls) => {
                let mut bytes = bytes;
                while !bytes.is_empty() {
                    tls.read_tls(&mut bytes).expect("there is room");
                    match tls.process_new_packets() {
                        Ok(state) => {
                            let old = peer.asked.len();
                            peer.asked.resize(old + state.plaintext_bytes_to_read(), 0);
                            tls.reader().read_exact(&mut peer.asked[old..]).expect("it was said to be there");
                        }
                        Err(_) => {
                            peer.closing = true;
                            break;
                        }
                    }
                }
            }
        }
        // A server may answer before it has read the whole body.
        if peer.asked.ends_with(b"\r\n\r\n") || early && !peer.asked.is_empty() {
            let asked = std::mem::take(&mut peer.asked);
            self.asked[(token.0 % CONNECTIONS) as usize] += u32::from(!self.trouble);
            let told_to = asked.windows(17).any(|text| text == b"connection: close");
            match &mut peer.tls {
                None => peer.outbox.extend_from_slice(answer),
                Some(tls) => tls.writer().write_all(answer).expect("memory"),
            }
            peer.closing |= closes || told_to && politely;
        }
        if let Some(tls) = &mut peer.tls {
            if peer.closing && politely {
                tls.send_close_notify();
            }
            while tls.wants_write() {
                tls.write_tls(&mut peer.outbox).expect("memory");
            }
        }
        if corrupt && let Some(byte) = peer.outbox.last_mut() {
            *byte ^= 0x55;
        }
    }

    /// Causes a random event on the connection of `token`, or no event.
    fn happen(&mut self, handler: &mut impl Handler<Self>, token: Token) {
        let refused = self.strikes(6);
        let (breaks, speaks, fast) = (self.strikes(80), self.strikes(80), self.random.below(3));
        let Some(peer) = self.peers.get_mut(&token) else { return };
        let id = peer.id;
        if !peer.open {
            if refused {
                self.peers.remove(&token);
                handler.connected(self, token, Err(Errno::CONNREFUSED.into()));
            } else if fast > 0 || !self.trouble {
                peer.open = true;
                handler.connected(self, token, Ok(()));
            }
            return;
        }
        peer.unsent = 0;
        if speaks && peer.tls.is_none() {
            return handler.received(self, token, b"HTTP/1.1 408 Request Timeout\r\n\r\n");
        }
        if breaks {
            self.peers.remove(&token);
            handler.closed(self, token, Err(Errno::CONNRESET.into()));
            return;
        }
        if !peer.outbox.is_empty() {
            let most = if fast == 0 { 7.min(peer.outbox.len()) } else { peer.outbox.len() };
            let piece: Vec<u8> = peer.outbox.drain(..most).collect();
            handler.received(self, token, &piece);
        } else if peer.closing {
            handler.closed(self, token, Ok(()));
            if self.is_same(token, id) {
                self.peers.remove(&token);
            }
        }
    }
}

impl EventLoop for Chance {
    fn connect(&mut self, token: Token, _: &Address, _: Option<IpAddr>) -> io::Result<()> {
        assert!(!self.peers.contains_key(&token), "{token:?} is taken");
        if self.shut && self.random.below(2) == 0 {
            return Err(Errno::CONNREFUSED.into());
        }
        if self.strikes(12) {
            return Err(Errno::ADDRNOTAVAIL.into());
        }
        if self.shut || self.strikes(8) {
            return Err(Errno::AGAIN.into());
        }
        self.connects += 1;
        let tls =
            self.tls.as_ref().map(|config| ServerConnection::new(Arc::clone(config)).expect("a server"));
        let peer = Peer {
            id: self.connects,
            open: false,
            tls: tls.map(Box::new),
            asked: Vec::new(),
            outbox: Vec::new(),
            closing: false,
            unsent: 0,
        };
        self.peers.insert(token, peer);
        Ok(())
    }

    fn listen(&mut self, _: Token, _: impl Into<crate::event_loop::ListeningSocket>) -> io::Result<()> {
        unreachable!("a worker does not listen")
    }

    fn send(&mut self, token: Token, bytes: &[u8]) -> io::Result<()> {
        if !self.is_connected(token) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if self.strikes(40) {
            return Err(Errno::PIPE.into());
        }
        self.serve(token, bytes);
        let unsent = usize::from(self.strikes(30));
        self.peers.get_mut(&token).expect("it is open").unsent = unsent;
        Ok(())
    }

    fn unsent(&self, token: Token) -> usize {
        self.peers.get(&token).map_or(0, |peer| peer.unsent)
    }

    fn is_connected(&self, token: Token) -> bool {
        self.peers.get(&token).is_some_and(|peer| peer.open)
    }

    fn pause(&mut self, _: Token) {}

    fn resume(&mut self, _: Token) {}

    fn finish(&mut self, _: Token) -> io::Result<()> {
        Ok(())
    }

    fn close(&mut self, token: Token) {
        self.peers.remove(&token);
    }

    fn turn(&mut self, handler: &mut impl Handler<Self>, deadline: Option<u64>) -> io::Result<()> {
        let most = deadline.unwrap_or(u64::MAX).saturating_sub(clock::now()).min(2 * SECOND);
        // Skip the whole time until the deadline, or only a part of it as if an event had occurred earlier.
        let waiting = |peer: &Peer| !peer.open || peer.closing || !peer.outbox.is_empty();
        let all = self.random.below(4) == 0 && (self.trouble || !self.peers.values().any(waiting));
        let part = if all { most } else { self.random.below(MILLISECOND).min(most) };
        clock::skip(part);
        let mut tokens: Vec<Token> = self.peers.keys().copied().collect();
        while !tokens.is_empty() {
            let token = tokens.swap_remove(self.random.below(tokens.len() as u64) as usize);
            self.happen(handler, token);
        }
        Ok(())
    }
}

/// Checks that the worker's state is consistent. Called between two turns.
fn agrees(worker: &Worker<'_>, io: &Chance) {
    let states = || worker.connections.iter().map(Connection::state);
    let being = |wanted: &[State]| states().filter(|state| wanted.contains(state)).count();
    let requests = worker.exchanges.iter().filter(|exchange| exchange.request.is_some()).count();
    let in_flight = worker.exchanges.iter().filter(|exchange| exchange.in_flight).count();
    assert_eq!(worker.connecting, being(&[State::Connecting, State::Handshaking]));
    assert_eq!(worker.resting.len(), being(&[State::Resting]));
    assert_eq!(worker.active, requests);
    assert_eq!(worker.leaving, worker.connections.iter().filter(|one| one.leaving).count());
    let queued: BTreeSet<ConnectionId> = worker.queued.iter().copied().collect();
    assert_eq!((queued.len(), queued.len()), (worker.queued.len(), being(&[State::Queued])));
    let free: BTreeSet<ExchangeId> = worker.free.iter().copied().collect();
    assert_eq!(free.len(), worker.free.len(), "an exchange is free twice");
    assert!(free.iter().all(|free| worker.exchanges[free.index()].request.is_none()));
    for (index, connection) in (0..).map(ConnectionId).zip(&worker.connections) {
        let (token, former) = (worker.token(index), worker.former_token(index));
        let exchange_id = worker.exchange_on(index);
        let exchange = &worker.exchanges[exchange_id.index()];
        let state = connection.state();
        let stands = matches!(state, State::Handshaking | State::Open);
        assert_eq!(io.is_connected(token), stands, "{state:?}");
        assert_eq!(io.peers.contains_key(&token), stands || state == State::Connecting);
        assert_eq!(io.peers.contains_key(&former), connection.leaving);
        let sent = exchange.request.is_some_and(|times| times.sent.is_some());
        match state {
            State::Open => assert_eq!(sent, exchange.in_flight),
            // A request that is sent again waits for its new connection.
            State::Queued | State::Connecting | State::Handshaking => {
                assert!(!exchange.in_flight && (!sent || worker.setup.retry == Retry::IdleClose));
            }
            State::Down | State::Resting => assert!(!sent && !exchange.in_flight),
        }
        assert_eq!(connection.session.is_some(), stands && io.tls.is_some());
        let uploads = worker.uploads.as_ref().is_some_and(|uploads| uploads.is_waiting(exchange_id));
        assert!(!uploads || exchange.in_flight);
        match state {
            State::Connecting | State::Handshaking => assert!(worker.timeouts.is_connecting(index)),
            // It may be waiting to connect again, and its connect timeout is then still armed.
            State::Queued => {}
            _ => assert!(!worker.timeouts.is_connecting(index)),
        }
    }
    if being(&[State::Connecting, State::Handshaking]) + in_flight + worker.leaving > 0 {
        assert!(worker.timeouts.next() < u64::MAX, "no timeout is armed");
    }
}

fn turns(worker: &mut Worker<'_>, io: &mut Chance, count: u32) {
    for _ in 0..count {
        worker.turn(io, clock::now(), clock::now() + SECOND).expect("chance breaks no loop");
        agrees(worker, io);
    }
}

/// Runs one trial, from opening the connections to the end of the load.
fn trial(seed: u64, tls: Option<(&Client, &Arc<ServerConfig>)>, chunked: Option<Chunked>) {
    let mut random = Random::stream(seed, 1);
    let (mut targets, files) = (targets(), BTreeMap::new());
    if chunked.is_some() {
        (targets[0].body, targets[0].chunked) = (b"a body".into(), chunked);
    }
    let addresses = [Address::from(SocketAddr::from(([127, 0, 0, 1], 1)))];
    let per_connection = (random.below(2) == 0).then(|| 1 + random.below(3) as u32);
    let protocol = Protocol { per_connection, ..Protocol::default() };
    let mix = Mix::new(&targets, &files, 0, protocol).expect("valid");
    let timeouts = spec::Timeouts {
        connect_ns: 300 * MILLISECOND,
        first_byte_ns: 200 * MILLISECOND,
        total_ns: 400 * MILLISECOND,
    };
    let most_leaving = random.below(4) as usize;
    let tls_client = tls.map(|(client, _)| client);
    let retry = if random.below(2) == 0 { Retry::Off } else { Retry::IdleClose };
    let setup = Setup { timeouts, most_leaving, retry, tls: tls_client, ..setup(&addresses, &mix) };
    let mut io = Chance {
        random: Random::new(seed),
        trouble: random.below(4) > 0,
        shut: random.below(4) == 0,
        tls: tls.map(|(_, config)| Arc::clone(config)),
        peers: BTreeMap::new(),
        connects: 0,
        asked: [0; CONNECTIONS as usize],
    };
    let mut worker = Worker::new(&setup, (0, 1), CONNECTIONS, Recorder::new(true, 1));
    worker.open_all();
    while random.below(300) > 0 && !worker.is_settled(clock::now()) {
        turns(&mut worker, &mut io, 1);
    }
    if worker.is_settled(clock::now()) {
        agrees(&worker, &io);
    }

    let start = clock::now() + random.below(100) * MILLISECOND;
    let end = start + 10_000 * SECOND;
    worker.recorder.measure(start, end);
    worker.set_source(match random.below(2) {
        0 => Source::Closed { start, end, limit: u64::MAX },
        _ => {
            let pacer = |rate, times| {
                let share = Share { worker: 0, workers: 1 };
                Box::new(Pacer::new((&Rate::Fixed(rate), Arrivals::Poisson), share, seed, times, None))
            };
            Source::Open {
                warmup: pacer(1000.0, (clock::now(), start)),
                measured: pacer(300.0, (start, end)),
            }
        }
    });
    (io.trouble, io.shut) = (true, false);
    turns(&mut worker, &mut io, 400);

    io.trouble = false;
    let mut left = 20_000;
    while io.asked.iter().any(|&asked| asked < 3) {
        assert!(left > 0, "a connection is lost: {:?}", io.asked);
        left -= 1;
        turns(&mut worker, &mut io, 1);
    }
    assert!(worker.connections.iter().all(|one| one.failures == 0), "a connection still counts failures");

    (io.trouble, io.shut) = (seed.is_multiple_of(2), seed.is_multiple_of(4));
    let ended = clock::now();
    worker.recorder.measured_until(ended);
    let due_unsent = worker.due_unsent(ended);
    worker.recorder.left_unsent(due_unsent);
    worker.set_source(Source::Quiet);
    while worker.active() > 0 && clock::now() < ended + 2 * SECOND {
        worker.leave_unsent();
        agrees(&worker, &io);
        turns(&mut worker, &mut io, 1);
    }
    worker.record_unfinished();
    let tally = worker.finish(ended);
    assert_eq!(tally.counts.scheduled, outcomes(&tally.counts), "{:?}", tally.counts);
    assert!(tally.counts.in_flight <= u64::from(CONNECTIONS));
    assert_eq!(tally.windows.iter().map(|window| window.completed).sum::<u64>(), tally.completed_in_time);
    let retried = if retry == Retry::Off { 0 } else { tally.connections.closed_on_reuse };
    assert_eq!(tally.counts.retried, retried);
    assert!(tally.connections.closed_after_first <= tally.connections.closed_by_peer);
    assert_eq!(tally.histograms.send_lag.len(), tally.counts.sent);
    let response_times = tally.histograms.response_time.len();
    assert_eq!(response_times, tally.counts.completed + tally.counts.timeouts);
}

#[test]
fn no_connection_is_lost_after_random_failures() {
    trials(0..300, |seed| trial(seed, None, None));
}

#[test]
fn no_connection_is_lost_after_random_failures_of_uploads_in_pieces() {
    for pause_ns in [1, 20 * MILLISECOND] {
        trials(0..200, |seed| trial(seed, None, Some(Chunked { chunk_bytes: 2, pause_ns })));
    }
}

#[test]
fn no_connection_is_lost_after_random_failures_with_tls() {
    let authority = Authority::new("authority.test");
    let client = Client::new(&testing::client(&authority)).expect("a client");
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let server = Arc::new(testing::server(&authority.sign(NAME), &[version], None));
        let tls = Some((&client, &server));
        trials(0..40, |seed| trial(seed, tls, None));
        let chunked = Some(Chunked { chunk_bytes: 2, pause_ns: MILLISECOND });
        trials(40..60, |seed| trial(seed, tls, chunked));
    }
}
