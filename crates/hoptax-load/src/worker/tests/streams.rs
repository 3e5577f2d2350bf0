//! Tests a worker of HTTP/2 on a simulated network with random but reproducible events, as [`super::chance`]
//! does for HTTP/1. The servers decode with the server side of the codec.

use super::*;
use crate::codec::Http2;
use crate::pacer::Share;
use crate::recorder::outcomes;
use hoptax_format::random::Random;
use hoptax_format::spec::{Arrivals, HttpVersion, Rate, Retry};
use hoptax_wire::http2::{self, Block, Code, Config, Sections, Step, response_fields};
use rustix::io::Errno;
use std::collections::BTreeSet;

const CONNECTIONS: u32 = 3;
const STREAMS: u32 = 5;

/// The server's end of a connection.
struct Peer {
    /// Distinguishes this connection from later connections with the same token.
    id: u64,
    open: bool,
    wire: http2::Connection,
    /// Received data that does not form a whole frame yet.
    input: Vec<u8>,
    /// Data that has not been delivered to the worker yet.
    outbox: Vec<u8>,
    /// Streams whose request is complete and has no response yet.
    asked: Vec<u32>,
    /// True if the server closes the connection when it has answered everything.
    closing: bool,
}

struct Network {
    random: Random,
    trouble: bool,
    /// True if servers may cut connections and reset streams in ways that cost requests.
    costly: bool,
    sections: Sections,
    block: Block,
    peers: BTreeMap<Token, Peer>,
    connects: u64,
    /// Number of requests by connection since the failures have ended.
    asked: [u32; CONNECTIONS as usize],
}

impl Network {
    fn strikes(&mut self, times: u64) -> bool {
        self.trouble && self.random.below(times) == 0
    }

    fn strikes_hard(&mut self, times: u64) -> bool {
        self.costly && self.strikes(times)
    }

    /// The server reads `bytes`.
    fn serve(&mut self, token: Token, bytes: &[u8]) {
        let mut peer = self.peers.remove(&token).expect("it is open");
        peer.input.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            let step = peer.wire.advance(&peer.input[at..], &mut self.sections, &mut peer.outbox);
            let (consumed, step) = step.expect("the worker speaks HTTP/2");
            at += consumed;
            match step {
                Step::NeedMore => break,
                Step::Head { stream, end: true } | Step::Body { stream, end: true, .. } => {
                    self.asked[(token.0 % CONNECTIONS) as usize] += u32::from(!self.trouble);
                    if self.strikes(10) {
                        peer.wire.reset(stream.id, Code::REFUSED_STREAM, &mut peer.outbox);
                    } else if self.strikes_hard(15) {
                        peer.wire.reset(stream.id, Code::INTERNAL_ERROR, &mut peer.outbox);
                    } else if !self.strikes_hard(15) {
                        peer.asked.push(stream.id);
                    }
                    if self.strikes(12) && !peer.closing {
                        peer.wire.go_away(Code::NO_ERROR, &mut peer.outbox);
                        peer.closing = true;
                    }
                }
                Step::Reset { stream, .. } => peer.asked.retain(|asked| *asked != stream.id),
                _ => {}
            }
        }
        peer.input.drain(..at);
        self.peers.insert(token, peer);
    }

    /// Causes a random event on the connection of `token`, or no event.
    fn happen(&mut self, handler: &mut impl Handler<Self>, token: Token) {
        let (refused, breaks) = (self.strikes(6), self.strikes_hard(60));
        let (answers, fast, violates) = (self.random.below(4), self.random.below(3), self.strikes_hard(150));
        let order = self.random.next_u64() as usize;
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
        if breaks {
            self.peers.remove(&token);
            handler.closed(
                self,
                token,
                if order.is_multiple_of(2) { Ok(()) } else { Err(Errno::CONNRESET.into()) },
            );
            return;
        }
        for _ in 0..answers {
            if peer.asked.is_empty() {
                break;
            }
            let stream = peer.asked.swap_remove(order % peer.asked.len());
            peer.wire.send_head(stream, &self.block, &[], false, &mut peer.outbox);
            peer.wire.send_data(stream, b"ok", true, &mut peer.outbox);
        }
        if violates {
            peer.outbox.extend_from_slice(&[0, 0, 1, 6, 0, 0, 0, 0, 0, 0]);
        }
        if !peer.outbox.is_empty() {
            let most = if fast == 0 { 7.min(peer.outbox.len()) } else { peer.outbox.len() };
            let piece: Vec<u8> = peer.outbox.drain(..most).collect();
            handler.received(self, token, &piece);
        } else if peer.closing && peer.asked.is_empty() {
            handler.closed(self, token, Ok(()));
            if self.peers.get(&token).is_some_and(|peer| peer.id == id) {
                self.peers.remove(&token);
            }
        }
    }
}

impl EventLoop for Network {
    fn connect(&mut self, token: Token, _: &Address, _: Option<IpAddr>) -> io::Result<()> {
        assert!(!self.peers.contains_key(&token), "{token:?} is taken");
        if self.strikes(12) {
            return Err(Errno::ADDRNOTAVAIL.into());
        }
        self.connects += 1;
        let streams = 1 + self.random.below(2 * u64::from(STREAMS)) as u32;
        let mut outbox = Vec::new();
        let wire = http2::Connection::server(Config { streams, ..Config::default() }, &mut outbox);
        let (input, asked) = (Vec::new(), Vec::new());
        let peer = Peer { id: self.connects, open: false, wire, input, outbox, asked, closing: false };
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
        if self.strikes_hard(40) {
            return Err(Errno::PIPE.into());
        }
        self.serve(token, bytes);
        Ok(())
    }

    fn unsent(&self, _: Token) -> usize {
        0
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
        let waiting =
            |peer: &Peer| !peer.open || peer.closing || !peer.outbox.is_empty() || !peer.asked.is_empty();
        let all = self.random.below(4) == 0 && (self.trouble || !self.peers.values().any(waiting));
        clock::skip(if all { most } else { self.random.below(MILLISECOND).min(most) });
        let mut tokens: Vec<Token> = self.peers.keys().copied().collect();
        while !tokens.is_empty() {
            let token = tokens.swap_remove(self.random.below(tokens.len() as u64) as usize);
            self.happen(handler, token);
        }
        Ok(())
    }
}

/// Checks that the worker's state is consistent. Called between two turns.
fn agrees(worker: &mut Worker<'_, Http2>, io: &Network) {
    let states = || worker.connections.iter().map(Connection::state);
    let being = |wanted: &[State]| states().filter(|state| wanted.contains(state)).count();
    assert_eq!(worker.connecting, being(&[State::Connecting, State::Handshaking]));
    assert_eq!(worker.resting.len(), being(&[State::Resting]));
    assert_eq!(worker.queued.len(), being(&[State::Queued]));
    assert_eq!(worker.active, worker.exchanges.iter().filter(|one| one.request.is_some()).count());
    assert_eq!(worker.leaving, worker.connections.iter().filter(|one| one.leaving).count());
    let free: BTreeSet<ExchangeId> = worker.free.iter().copied().collect();
    assert_eq!(free.len(), worker.free.len(), "an exchange is free twice");
    for (id, exchange) in (0..).map(ExchangeId).zip(&worker.exchanges) {
        assert_eq!(free.contains(&id), exchange.is_free, "{id:?}");
        assert!(!exchange.is_free || exchange.request.is_none());
        assert!(!exchange.in_flight || exchange.request.is_some_and(|times| times.sent.is_some()));
    }
    for index in 0..worker.connections.len() {
        let id = ConnectionId(index as u32);
        let (token, former) = (worker.token(id), worker.former_token(id));
        let mine: Vec<ExchangeId> = worker.exchanges_on(id).collect();
        assert_eq!(mine.len(), STREAMS as usize);
        let connection = &mut worker.connections[index];
        let (state, second) = (connection.state(), connection.second);
        let stands = matches!(state, State::Handshaking | State::Open);
        assert_eq!(io.is_connected(token), stands, "{state:?}");
        assert_eq!(io.peers.contains_key(&former), connection.leaving);
        let on = |present: bool| {
            let on = |one: &&ExchangeId| {
                let exchange = &worker.exchanges[one.index()];
                exchange.in_flight && (exchange.stream.second == second) == present
            };
            mine.iter().filter(on).count() as u32
        };
        let codec = connection.codec.many().expect("HTTP/2");
        assert_eq!(codec.in_flight, on(true), "{state:?}");
        assert!(codec.out.is_empty() && codec.unsent.is_empty(), "not flushed");
        let retired =
            connection.former.as_mut().map_or(0, |former| former.codec.many().expect("HTTP/2").in_flight);
        assert_eq!(retired, on(false));
        assert!(connection.former.is_none() || (connection.leaving && retired > 0));
        let codec = connection.codec.many().expect("HTTP/2");
        let waiting: BTreeSet<ExchangeId> = codec.waiting.iter().copied().collect();
        assert_eq!(waiting.len(), codec.waiting.len(), "an exchange waits twice");
        let has_room = codec.has_room();
        for exchange in &mine {
            let exchange_state = &worker.exchanges[exchange.index()];
            let unsent = exchange_state.request.is_some() && !exchange_state.in_flight;
            if state == State::Open {
                assert_eq!(waiting.contains(exchange), unsent, "{exchange:?} is forgotten");
            }
            assert!(!unsent || state != State::Down, "{exchange:?} waits for no connection");
        }
        assert!(waiting.is_empty() || !has_room, "there is a stream for a request that waits");
    }
}

fn turns(worker: &mut Worker<'_, Http2>, io: &mut Network, count: u32) {
    for _ in 0..count {
        worker.turn(io, clock::now(), clock::now() + SECOND).expect("the network breaks no loop");
        agrees(worker, io);
    }
}

/// Runs one trial, from opening the connections to the end of the load. Without `costly` events, no request
/// may fail.
fn trial(seed: u64, costly: bool) {
    let mut random = Random::stream(seed, 1);
    let (mut targets, files) = (targets(), BTreeMap::new());
    if random.below(2) == 0 {
        targets[0].body = vec![b'x'; 3_000];
    }
    let addresses = [Address::from(SocketAddr::from(([127, 0, 0, 1], 1)))];
    let per_connection = (random.below(2) == 0).then(|| 1 + random.below(9) as u32);
    let protocol = Protocol { version: HttpVersion::Http2, per_connection, ..Protocol::default() };
    let mix = Mix::new(&targets, &files, 0, protocol).expect("valid");
    let total_ns = if costly { 400 * MILLISECOND } else { 1_000_000 * SECOND };
    let timeouts = spec::Timeouts { connect_ns: 300 * MILLISECOND, first_byte_ns: total_ns / 2, total_ns };
    let retry = if random.below(2) == 0 { Retry::Off } else { Retry::IdleClose };
    let most_leaving = random.below(4) as usize;
    let setup = Setup { streams: STREAMS, timeouts, most_leaving, retry, ..setup(&addresses, &mix) };
    let fields = response_fields(200, [], Some(2)).expect("valid");
    let mut io = Network {
        random: Random::new(seed),
        trouble: false,
        costly,
        sections: Sections::new(),
        block: Block::plain(&fields),
        peers: BTreeMap::new(),
        connects: 0,
        asked: [0; CONNECTIONS as usize],
    };
    let recorder = Recorder::new(true, 1).with_streams(true);
    let mut worker = Worker::<Http2>::new(&setup, (0, 1), CONNECTIONS, recorder);
    worker.open_all();
    while !worker.is_settled(clock::now()) {
        turns(&mut worker, &mut io, 1);
    }
    assert_eq!(worker.established_count(), u64::from(CONNECTIONS));
    let start = clock::now();
    let end = start + 1_000_000 * SECOND;
    worker.recorder.measure(start, end);
    worker.set_source(match random.below(2) {
        0 => Source::Closed { start, end, limit: u64::MAX },
        _ => {
            let pacer = |rate, times| {
                let share = Share { worker: 0, workers: 1 };
                Box::new(Pacer::new((&Rate::Fixed(rate), Arrivals::Poisson), share, seed, times, None))
            };
            Source::Open { warmup: pacer(1000.0, (start, start)), measured: pacer(2000.0, (start, end)) }
        }
    });
    io.trouble = true;
    turns(&mut worker, &mut io, 400);
    io.trouble = false;
    let mut left = 20_000;
    while io.asked.iter().any(|&asked| asked < 3) {
        assert!(left > 0, "a connection is lost: {:?}", io.asked);
        left -= 1;
        turns(&mut worker, &mut io, 1);
    }
    let ended = clock::now();
    worker.recorder.measured_until(ended);
    let due_unsent = worker.due_unsent(ended);
    worker.recorder.left_unsent(due_unsent);
    worker.set_source(Source::Quiet);
    let mut left = 20_000;
    while worker.active() > 0 && left > 0 {
        left -= 1;
        worker.leave_unsent();
        turns(&mut worker, &mut io, 1);
    }
    assert_eq!(worker.active(), 0, "every request has an outcome");
    let tally = worker.finish(ended);
    let counts = &tally.counts;
    assert_eq!(counts.scheduled, outcomes(counts), "{counts:?}");
    let failed = counts.timeouts + counts.connect_errors + counts.resets + counts.bad_responses;
    if !costly {
        // A request that was left unprocessed twice fails, and so do those that wait for a connection that
        // cannot be opened. Everything else is sent again.
        let of = |cause| counts.causes.get(&cause).copied().unwrap_or(0);
        let twice = of(Cause::StreamRefused) + of(Cause::GoawayUnprocessed);
        assert_eq!(failed, twice + counts.connect_errors + of(Cause::ConnectTimeout), "{counts:?}");
    }
    assert_eq!(tally.windows.iter().map(|window| window.completed).sum::<u64>(), tally.completed_in_time);
    assert_eq!(tally.histograms.send_lag.len(), counts.sent);
    assert_eq!(tally.histograms.response_time.len(), counts.completed + counts.timeouts);
    let streams = tally.streams.expect("recorded");
    assert!((1..=STREAMS).contains(&streams.tally.most_streams), "{:?}", streams.tally);
    let [connection, stream, _] = streams.waits();
    assert_eq!((connection.len(), stream.len()), (counts.sent, counts.sent));
}

#[test]
fn no_request_is_lost_when_servers_refuse_streams_and_retire_connections() {
    trials(0..300, |seed| trial(seed, false));
}

#[test]
fn every_exchange_carries_requests_again_after_random_failures() {
    trials(0..300, |seed| trial(seed, true));
}
