//! The part of the load that one thread runs: its connections and their exchanges, and how it reacts to their
//! events.
//!
//! Workers share nothing. Once the load runs steadily, a request allocates nothing.

use crate::clock;
use crate::codec::{Codec, Http1};
use crate::connection::{Connection, ConnectionId, Event, State};
use crate::event_loop::EventLoop;
use crate::exchange::{Exchange, ExchangeId};
use crate::pace::Pace;
use crate::pacer::Pacer;
use crate::recorder::{Recorder, Response, Tally, Times};
use crate::scratch::Scratch;
use crate::target::{Mix, Requests};
use crate::timeouts::{Expired, Timeouts};
use crate::tls::Client;
use hoptax_format::Address;
use hoptax_format::clock::MILLISECOND;
use hoptax_format::record::Cause;
use hoptax_format::spec;
use sockets::Sockets;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::IpAddr;
use talks::Messages;
use tls_shared::TlsShared;
use uploads::Uploads;

/// Time until the next connect after a first failure. Each further failure doubles this time.
const SHORTEST_REST: u64 = 10 * MILLISECOND;
/// Maximum time until the next connect after a failure.
const LONGEST_REST: u64 = 1000 * MILLISECOND;
/// Maximum number of exchanges that get their first request before the loop reads responses again.
const STARTS_AT_ONCE: usize = 128;
/// Shortly before a request is due, a worker with its own CPU stops sleeping and polls. This is the duration
/// of polling, nanoseconds. It covers the wake-up latency of common kernels.
const SPIN: u64 = 50_000;
/// Maximum number of attempts to open each connection before traffic begins. If the peer refuses them, there
/// are fewer attempts.
const OPENING_ATTEMPTS: u8 = 5;
/// Status of a response that switches to WebSocket.
const SWITCHES: u16 = 101;

/// A load without any response gives up after this many failures per connection. With the waiting times
/// between them, these failures take 0.3 s.
const HOPELESS_FAILURES: u64 = 5;

#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) addresses: &'a [Address],
    /// Local addresses to connect from. If empty, the kernel chooses.
    pub(crate) sources: &'a [IpAddr],
    pub(crate) mix: &'a Mix<'a>,
    /// Maximum number of requests in flight on a connection. More than one only with HTTP/2.
    pub(crate) streams: u32,
    pub(crate) tls: Option<&'a Client>,
    pub(crate) proxy_protocol: Option<spec::ProxyProtocol>,
    /// The request that opens a tunnel through a forward proxy.
    pub(crate) tunnel: Option<&'a [u8]>,
    /// Maximum number of retired connections per worker that are open at the same time as the regular
    /// connections.
    pub(crate) most_leaving: usize,
    pub(crate) timeouts: spec::Timeouts,
    pub(crate) retry: spec::Retry,
    pub(crate) spin: Spin,
    pub(crate) stamps: bool,
}

/// Whether a worker polls without sleeping shortly before a request is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spin {
    /// A worker never polls, because it has no CPU of its own.
    Never,
    /// A worker polls while no request is in flight, because the processes that share its CPU are idle then.
    Unloaded,
    /// A worker always polls, because it has its own CPU.
    Always,
}

impl Spin {
    /// The choice for the workers of `spec`.
    pub(crate) fn of(spec: &spec::LoadSpec) -> Self {
        match (spec.cpus.is_empty(), spec.shares_cpus) {
            (true, _) => Self::Never,
            (false, true) => Self::Unloaded,
            (false, false) => Self::Always,
        }
    }
}

/// Source of new requests.
#[derive(Debug)]
pub(crate) enum Source {
    /// No requests yet: connections are opened, and failed connects are retried.
    Opening,
    Quiet,
    /// Closed loop. Until `end`, each free exchange gets a request. From `start` on, requests are counted,
    /// and at most `limit` of them are sent.
    Closed {
        start: u64,
        end: u64,
        limit: u64,
    },
    /// Open loop. Each request that is due gets a free exchange. Requests that are still due from the warm-up
    /// are sent before the requests of the measured time.
    Open {
        warmup: Box<Pacer>,
        measured: Box<Pacer>,
    },
}

#[derive(Debug)]
pub(crate) struct Worker<'a, C = Http1> {
    setup: &'a Setup<'a>,
    connections: Vec<Connection<C>>,
    /// Exchange `e` belongs to connection `e mod n`, where `n` is the number of connections. So successive
    /// exchanges are on different connections, and with HTTP/1 both have the same number.
    exchanges: Vec<Exchange>,
    /// Connections are numbered over all workers. Connection `c` of this worker has the number `first_address
    /// + c * address_step`. Number `i` goes to address `i mod n`, where `n` is the number of addresses.
    first_address: usize,
    address_step: usize,
    source: Source,
    pub(crate) recorder: Recorder,
    timeouts: Timeouts,
    /// Connections that wait after a failure, ordered by the end of their waiting time.
    resting: BinaryHeap<Reverse<(u64, ConnectionId)>>,
    /// Connections that are needed, in the order in which they began to be needed.
    queued: VecDeque<ConnectionId>,
    /// Number of connections that are connecting, wait for a tunnel, or are in a TLS handshake.
    connecting: usize,
    pace: Pace,
    /// Number of retired connections that the peer has not closed yet.
    leaving: usize,
    /// True once the peer did not close a retired connection in time, because it waits for the client.
    peer_waits: bool,
    /// Exchanges without a request, in an open loop. The one that has been free for the longest time is
    /// first.
    free: VecDeque<ExchangeId>,
    /// Numbers of the exchanges that have not had their turn since traffic began.
    starting: std::ops::Range<u32>,
    active: usize,
    requests: Requests<'a>,
    /// Absent if all requests are sent at once.
    uploads: Option<Box<Uploads<'a>>>,
    /// Absent if no request has streams of messages.
    messages: Option<Box<Messages>>,
    /// Absent if no request is the handshake of a WebSocket.
    sockets: Option<Box<Sockets>>,
    scratch: Scratch,
    /// Connections with output that was not sent yet. Only with HTTP/2.
    unsent: Vec<ConnectionId>,
    tls: Option<Box<TlsShared>>,
    pub(crate) connect_error: Option<String>,
}

impl<'a, C: Codec> Worker<'a, C> {
    pub(crate) fn new(
        setup: &'a Setup<'a>,
        (index, workers): (u32, u32),
        connections: u32,
        recorder: Recorder,
    ) -> Self {
        let room_for_checks = setup.mix.room_for_checks();
        let exchanges = connections * if C::STREAMS { setup.streams } else { 1 };
        Self {
            setup,
            connections: (0..connections).map(|_| Connection::default()).collect(),
            exchanges: (0..exchanges).map(|_| Exchange::new(room_for_checks)).collect(),
            first_address: index as usize,
            address_step: workers as usize,
            source: Source::Opening,
            recorder,
            timeouts: Timeouts::new(setup.timeouts),
            resting: BinaryHeap::new(),
            queued: VecDeque::with_capacity(connections as usize),
            connecting: 0,
            pace: Pace::default(),
            leaving: 0,
            peer_waits: false,
            free: VecDeque::with_capacity(exchanges as usize),
            starting: 0..0,
            active: 0,
            requests: Requests::new(setup.mix, (index, workers)),
            uploads: setup.mix.has_pieces().then(Box::default),
            messages: Messages::new(setup.mix, exchanges),
            sockets: Sockets::new(setup.mix, exchanges, clock::now() ^ u64::from(index)),
            scratch: Scratch::new(setup.mix.len(), setup.stamps),
            unsent: Vec::new(),
            tls: setup.tls.map(|client| TlsShared::new(client, connections as usize)),
            connect_error: None,
        }
    }

    #[inline]
    fn connection_of(&self, exchange: ExchangeId) -> ConnectionId {
        if C::STREAMS {
            ConnectionId(exchange.0 % self.connections.len() as u32)
        } else {
            ConnectionId(exchange.0)
        }
    }

    /// The only exchange of a connection of HTTP/1.
    #[inline]
    fn exchange_on(&self, connection: ConnectionId) -> ExchangeId {
        debug_assert!(!C::STREAMS, "a connection of HTTP/2 has many");
        ExchangeId(connection.0)
    }

    /// All exchanges of a connection.
    #[inline]
    fn exchanges_on(&self, connection: ConnectionId) -> impl Iterator<Item = ExchangeId> + use<C> {
        let step = self.connections.len();
        (connection.0..self.exchanges.len() as u32).step_by(step).map(ExchangeId)
    }

    pub(crate) fn open_all(&mut self) {
        for connection in 0..self.connections.len() as u32 {
            self.queue_connect(ConnectionId(connection));
        }
    }

    /// True if every connection is established or has used all its attempts. If connecting is hopeless, this
    /// function also cancels further attempts.
    pub(crate) fn is_settled(&mut self, now: u64) -> bool {
        if self.pace.is_hopeless(now) {
            self.source = Source::Quiet;
            self.cancel_queued();
        }
        let resting = matches!(self.source, Source::Opening) && !self.resting.is_empty();
        self.queued.is_empty() && self.connecting == 0 && !resting
    }

    pub(crate) fn established_count(&self) -> u64 {
        self.connections.iter().filter(|connection| connection.state() == State::Open).count() as u64
    }

    /// Number of requests without an outcome that an exchange has.
    pub(crate) fn active(&self) -> usize {
        self.active
    }

    /// Sets the source of new requests, which starts or stops traffic.
    pub(crate) fn set_source(&mut self, source: Source) {
        self.starting = match source {
            Source::Closed { .. } | Source::Open { .. } => 0..self.exchanges.len() as u32,
            Source::Opening | Source::Quiet => 0..0,
        };
        self.source = source;
    }

    /// Number of open-loop requests that were due before `until` and were not given to an exchange yet.
    pub(crate) fn due_unsent(&self, until: u64) -> u64 {
        match &self.source {
            Source::Open { measured, .. } => measured.due_unsent(until),
            _ => 0,
        }
    }

    pub(crate) fn record_unfinished(&mut self) {
        for index in 0..self.exchanges.len() {
            if let Some(times) = self.exchanges[index].request.take() {
                let connection = self.connection_of(ExchangeId(index as u32));
                self.connections[connection.index()].in_vain = true;
                self.recorder.unfinished(times);
            }
        }
    }

    pub(crate) fn finish(mut self, ended: u64) -> Tally {
        let tally = self.recorder.tally();
        for connection in &self.connections {
            tally.busy.connection(connection.answered, connection.in_vain);
        }
        tally.redirected_to = self.scratch.redirected_to.take();
        self.recorder.finish(ended)
    }

    /// True if no response was ever complete, and at least [`HOPELESS_FAILURES`] requests per connection
    /// have failed.
    pub(crate) fn is_hopeless(&self) -> bool {
        let enough = HOPELESS_FAILURES * self.connections.len() as u64;
        self.recorder.failures_without_response().is_some_and(|failures| failures >= enough)
    }

    pub(crate) fn has_response(&self) -> bool {
        self.recorder.failures_without_response().is_none()
    }

    /// Does all work that is due, then waits for events until `until` or until more work is due.
    pub(crate) fn turn<L: EventLoop>(&mut self, io: &mut L, mut now: u64, until: u64) -> io::Result<()> {
        if self.timeouts.next() <= now {
            // First process the bytes that have already arrived. They arrived in time, even if this thread
            // reads them only after the timeout.
            io.turn(self, Some(now))?;
            let looked = clock::now().max(now);
            while let Some(expired) = self.timeouts.expire(now) {
                self.time_out(io, expired, looked);
            }
            // Processing the timeouts took time. Requests that are sent below must not get a timestamp from
            // before this work.
            now = looked;
        }
        while let Some(Reverse((at, connection))) = self.resting.peek().copied()
            && at <= now
        {
            self.resting.pop();
            self.rested(io, connection, now);
        }
        if self.uploads.is_some() {
            self.send_pieces(io, now);
        }
        if self.messages.is_some() {
            self.send_due_messages(io, now);
        }
        if self.may_connect() || !self.starting.is_empty() {
            self.connect_queued(io);
            for _ in 0..STARTS_AT_ONCE {
                let Some(exchange) = self.starting.next() else { break };
                self.start(io, ExchangeId(exchange));
            }
            // The steps above took time, and they armed timeouts at times after the old value of `now`.
            now = clock::now().max(now);
        }
        self.dispatch(io, now, false);
        self.flush(io);
        let deadline = self.deadline(now, until);
        io.turn(self, Some(deadline))
    }

    fn deadline(&self, now: u64, until: u64) -> u64 {
        if !self.starting.is_empty() {
            return now;
        }
        let mut deadline = until;
        if self.may_connect() {
            deadline = deadline.min(self.pace.not_before().max(now));
        }
        deadline = deadline.min(self.timeouts.next());
        if let Some(uploads) = &self.uploads {
            deadline = deadline.min(uploads.next());
        }
        if let Some(messages) = &self.messages {
            let due = messages.next();
            let spins = self.setup.spin == Spin::Always;
            deadline = deadline.min(if spins { due.saturating_sub(SPIN) } else { due });
        }
        if let Some(Reverse((at, _))) = self.resting.peek() {
            deadline = deadline.min(*at);
        }
        if let (Source::Open { warmup, measured }, false) = (&self.source, self.free.is_empty()) {
            let due = warmup.peek().or_else(|| measured.peek()).unwrap_or(u64::MAX);
            // To spin, use a deadline that is already in the past. Each turn then returns at once.
            let spins = match self.setup.spin {
                Spin::Never => false,
                Spin::Unloaded => self.active == 0,
                Spin::Always => true,
            };
            deadline = deadline.min(if spins { due.saturating_sub(SPIN) } else { due });
        }
        deadline
    }

    /// Gives an exchange its first request, or marks it as free. In a closed loop, the first request is due
    /// at once, because no earlier response determines its time.
    fn start<L: EventLoop>(&mut self, io: &mut L, exchange: ExchangeId) {
        let state = self.connections[self.connection_of(exchange).index()].state();
        if matches!(state, State::Down | State::Open) && self.exchanges[exchange.index()].request.is_none() {
            self.freed(io, exchange, clock::now());
        }
    }

    /// Called when an exchange is ready for its next request.
    fn freed<L: EventLoop>(&mut self, io: &mut L, exchange: ExchangeId, now: u64) {
        match &self.source {
            Source::Opening | Source::Quiet => {}
            Source::Closed { start, end, limit } => {
                if now < *end && (now < *start || self.recorder.scheduled_so_far() < *limit) {
                    self.assign(io, exchange, now, now);
                }
            }
            Source::Open { .. } => {
                // While exchanges get their first request, an empty list of free exchanges does not mean that
                // all are busy.
                let waited = self.free.is_empty() && self.starting.is_empty();
                self.exchanges[exchange.index()].is_free = true;
                self.free.push_back(exchange);
                self.dispatch(io, now, waited);
            }
        }
    }

    /// In an open loop, assigns requests that are due to free exchanges. `waited` is true if none was free
    /// until now.
    fn dispatch<L: EventLoop>(&mut self, io: &mut L, mut now: u64, mut waited: bool) {
        while let (Source::Open { warmup, measured }, false) = (&mut self.source, self.free.is_empty()) {
            let next = if warmup.peek().is_some() { warmup } else { measured };
            let Some(scheduled) = next.take_due(now) else { return };
            let exchange = self.free.pop_front().expect("there is a free one");
            self.exchanges[exchange.index()].is_free = false;
            if waited || self.connections[self.connection_of(exchange).index()].state() != State::Open {
                self.recorder.waited(scheduled);
            }
            waited = false;
            self.assign(io, exchange, scheduled, now);
            now = clock::now();
        }
    }

    fn assign<L: EventLoop>(&mut self, io: &mut L, exchange: ExchangeId, scheduled: u64, now: u64) {
        let target = self.requests.choose();
        self.recorder.scheduled(scheduled, target);
        self.active += 1;
        let assigned = &mut self.exchanges[exchange.index()];
        assigned.request = Some(Times::new(scheduled, target));
        if C::STREAMS {
            assigned.stream.clear();
        }
        let connection = self.connection_of(exchange);
        match self.connections[connection.index()].state() {
            State::Open if C::STREAMS => self.send_on_stream(exchange, now),
            State::Open => self.send(io, exchange, now),
            // Another exchange of this connection was the first that needed it.
            state if C::STREAMS && state != State::Down => {}
            _ => {
                self.queue_connect(connection);
                self.connect_queued(io);
            }
        }
    }

    fn queue_connect(&mut self, connection: ConnectionId) {
        self.connections[connection.index()].step(Event::Wanted);
        self.queued.push_back(connection);
    }

    /// Called when a connect, or the request of a connection, failed. Records the outcome of the request and
    /// closes the connection. The worker then waits before it connects again, so that a failing target is not
    /// flooded.
    fn fail<L: EventLoop>(&mut self, io: &mut L, id: ConnectionId, now: u64, cause: Cause, text: &str) {
        io.close(self.token(id));
        self.rest(id, now, cause);
        if C::STREAMS {
            return self.streams_failed(id, now, cause, text);
        }
        let exchange = self.exchange_on(id);
        self.cancel_upload(exchange);
        self.fail_request(exchange, now, cause, text);
    }

    /// Called when a connection has failed. The worker waits before it connects again.
    fn rest(&mut self, id: ConnectionId, now: u64, cause: Cause) {
        self.timeouts.connected(id);
        let connection = &mut self.connections[id.index()];
        match connection.state() {
            State::Connecting | State::Handshaking => self.connecting -= 1,
            State::Queued => self.queued.retain(|queued| *queued != id),
            _ => {}
        }
        if connection.state() != State::Open || connection.carried <= 1 {
            self.pace.failed(now, matches!(cause, Cause::PortsExhausted | Cause::DescriptorsExhausted));
        }
        connection.step(Event::Failed);
        let rest = SHORTEST_REST.saturating_mul(1 << connection.failures.min(20)).min(LONGEST_REST);
        connection.failures = connection.failures.saturating_add(1);
        self.resting.push(Reverse((now + rest, id)));
    }

    /// Records that the request of an exchange has failed, if it has one.
    fn fail_request(&mut self, exchange: ExchangeId, now: u64, cause: Cause, text: &str) {
        self.timeouts.failed(exchange);
        if self.messages.is_some() {
            self.drop_talk(exchange);
        }
        let connection = self.connection_of(exchange);
        let exchange = &mut self.exchanges[exchange.index()];
        exchange.in_flight = false;
        if let Some(times) = exchange.request.take() {
            self.active -= 1;
            self.connections[connection.index()].in_vain |= self.recorder.is_measuring(now);
            self.recorder.failed(times, now, cause, text);
        }
    }

    fn time_out<L: EventLoop>(&mut self, io: &mut L, expired: Expired, now: u64) {
        let (connection, cause, text) = match expired {
            Expired::Connect(id) => {
                let state = self.connections[id.index()].state();
                let (cause, text) = match (self.awaits_tunnel(id), state) {
                    (true, _) => {
                        (Cause::ConnectTimeout, "timeout while waiting for the proxy's answer to CONNECT")
                    }
                    (false, State::Handshaking) if self.connections[id.index()].is_greeting() => {
                        (Cause::ConnectTimeout, "timeout while waiting for the server's HTTP/2 settings")
                    }
                    (false, State::Handshaking) => (Cause::TlsTimeout, "timeout in the TLS handshake"),
                    (false, _) => (Cause::ConnectTimeout, "timeout while connecting"),
                };
                self.connect_error = Some(text.to_owned());
                (id, cause, text)
            }
            Expired::FirstByte(exchange) => {
                let (cause, text) =
                    (Cause::FirstByteTimeout, "timeout while waiting for the first byte of the response");
                if C::STREAMS {
                    return self.stream_timed_out(io, exchange, now, cause, text);
                }
                (self.connection_of(exchange), cause, text)
            }
            // The time limit applies to the server, not to the client's own waits.
            Expired::Total(exchange) if self.waits_for_itself(exchange) => {
                return self.timeouts.sending(exchange, now);
            }
            Expired::Total(exchange) => {
                let request = self.exchanges[exchange.index()].request;
                let (cause, text) = match request.is_some_and(|times| times.first_byte.is_some()) {
                    false => (Cause::ResponseTimeout, "timeout while waiting for the response"),
                    true => (Cause::ReadTimeout, "timeout while reading the response"),
                };
                if C::STREAMS {
                    return self.stream_timed_out(io, exchange, now, cause, text);
                }
                (self.connection_of(exchange), cause, text)
            }
            Expired::Leaving(id) => {
                self.peer_waits = true;
                io.reset(self.former_token(id));
                return self.retired(id);
            }
        };
        self.fail(io, connection, now, cause, text);
    }

    fn rested<L: EventLoop>(&mut self, io: &mut L, id: ConnectionId, now: u64) {
        let connection = &mut self.connections[id.index()];
        connection.step(Event::Rested);
        match self.source {
            Source::Opening if connection.failures < OPENING_ATTEMPTS => self.queue_connect(id),
            _ if C::STREAMS => self.resume_streams(io, id, now),
            _ if self.starting.contains(&id.0) => {}
            _ => self.freed(io, self.exchange_on(id), now),
        }
    }

    /// Called when a response is complete. The exchange gets its next request, on the same connection or on a
    /// new one.
    fn complete<L: EventLoop>(
        &mut self,
        io: &mut L,
        id: ExchangeId,
        now: u64,
        response: Response,
        keep_alive: bool,
    ) {
        self.timeouts.completed(id);
        self.pace.proved();
        let mut fault = None;
        if self.messages.is_some() {
            fault = self.token_fault(id);
            self.end_talk(id, now);
        }
        let connection_id = self.connection_of(id);
        let token = self.token(connection_id);
        // If parts of the request are still unsent, they would precede the next request. The connection is
        // therefore not used again.
        let unsent = io.unsent(token);
        let is_cut = self.cancel_upload(id) || unsent > 0;
        let exchange = &mut self.exchanges[id.index()];
        exchange.in_flight = false;
        let mut times = exchange.request.take().expect("a request in flight");
        times.length = times.length.saturating_sub(unsent as u64);
        let connection = &mut self.connections[connection_id.index()];
        connection.failures = 0;
        self.active -= 1;
        match fault {
            None => connection.answered += u32::from(self.recorder.completed(times, now, response)),
            Some((cause, text)) => self.recorder.failed(times, now, cause, text),
        }
        if self.setup.stamps && fault.is_none() {
            self.recorder.stamped(times, now, exchange.answer.stamped);
        }
        // A connection that was a WebSocket carries no other request, and nobody announces this.
        let closing = response.status == SWITCHES || self.setup.mix.closes(times.target, connection.carried);
        if !keep_alive && !closing {
            self.recorder.closed_by_peer(now);
        }
        let keep_alive = keep_alive && !connection.session.as_ref().is_some_and(|session| session.is_spent());
        if !keep_alive || closing || is_cut {
            if is_cut {
                io.close(token);
            }
            self.retire(io, connection_id, now);
        }
        self.freed(io, id, now);
    }
}

mod connects;
mod drain;
mod endless;
mod event_reader;
mod events;
mod pauses;
mod retire;
mod retry;
mod send;
mod server_sent;
mod sockets;
mod streaming;
mod streams;
mod talks;
mod tls;
mod tls_shared;
mod token_reader;
mod tokens;
mod tunnel;
mod uploads;
mod websocket;

#[cfg(test)]
mod tests;
