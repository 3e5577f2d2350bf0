//! One instance: reads requests and sends each response when it is due, in the order of the requests.
//!
//! A connection is in one of these states:
//! * *open*: requests are read and answered;
//! * *blocked*: the peer reads responses too slowly; nothing is read until it has caught up;
//! * *last*: the last response has been chosen; the connection closes once all bytes are sent;
//! * *discarding*: the input was not HTTP and 400 has been sent; further input is discarded, because closing
//!   at once could reset the connection before the peer has read the response.

use super::answer::{AnswerTo, Answers, BAD_REQUEST, CONTINUE, INLINE_BODY};
use super::counts::Counts;
use super::delay::Behaviour;
use super::rules::{Chosen, Rules};
use super::secure::{SecureLoop, Sessions};
use super::sockets::Sockets;
use super::special::{InstanceFacts, Special, is_special};
use super::switch::Switch;
use crate::net::{Listener, Tokens};
use hoptax_format::clock;
use hoptax_format::stamp::Stamp;
use hoptax_host::threads::Stop;
use hoptax_load::event_loop::{AfterEnd, Epoll, EventLoop, Handler, Token};
use hoptax_wire::http1::{Framing, HeadCache, RequestDecoder, RequestHead, RequestStep};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;

/// Limit for the unsent bytes of a connection. Above this limit, the peer is a slow reader, and nothing more
/// is read from it.
const HIGH_WATER: usize = 256 * 1024;
/// If there are too many connections, a connection that has been silent for longer than this may be closed.
const SILENT_NS: u64 = clock::SECOND / 10;
/// Additional time for which a new connection is allowed to be silent. It is needed because a generator opens
/// all its connections before it uses the first.
const FRESH_NS: u64 = 5 * clock::SECOND;
/// Pause after a search that found no silent connections, because each search visits all connections.
const SEARCH_PAUSE_NS: u64 = clock::SECOND / 20;
/// Limit for the delayed responses of one connection. At this limit, nothing more is read from the
/// connection.
const MOST_DELAYED: usize = 1024;

/// Everything that an instance needs to serve its listeners.
#[derive(Clone)]
pub(super) struct Listening<'a> {
    pub(super) instance: u32,
    pub(super) answers: Answers,
    /// Answers to particular paths.
    pub(super) rules: Option<Rules>,
    pub(super) behaviour: Behaviour,
    pub(super) counts: &'a Counts,
    pub(super) all_counts: &'a [Arc<Counts>],
    /// Maximum number of connections that the instance may hold. At this number, it closes silent
    /// connections. If all connections are busy, it closes new connections at once.
    pub(super) room: u64,
    pub(super) token_secret: Option<&'a str>,
    pub(super) switch: &'a Switch,
}

/// Serves all listeners until stopped. With `config`, serves them over TLS.
///
/// When the instance's switch is turned off, closes the listeners and all connections. When the switch is
/// turned on, listens again.
pub(super) fn serve(
    mut listeners: Vec<Listener>,
    mut from: Listening<'_>,
    config: Option<&Arc<rustls::ServerConfig>>,
    stop: &Stop,
) -> io::Result<()> {
    let (switch, counts) = (from.switch, from.counts);
    let addresses: Vec<_> = listeners.iter().map(|listener| listener.address().clone()).collect();
    loop {
        let mut io = Epoll::new()?;
        let mut sessions = config.map(|config| Sessions::new(Arc::clone(config)));
        let mut server = Server::new(from.clone());
        for listener in &listeners {
            let token = server.new_connection();
            io.listen(token, listener.socket()?)?;
        }
        switch.back();
        while !stop.asked() && !switch.asked() {
            let next = server.next_timer();
            match &mut sessions {
                None => io.turn(&mut server, next)?,
                Some(sessions) => io.turn(&mut sessions.serving(&mut server), next)?,
            }
            if server.next_timer().is_some() {
                match &mut sessions {
                    None => server.send_due(&mut io, clock::now()),
                    Some(sessions) => server.send_due(&mut SecureLoop::new(&mut io, sessions), clock::now()),
                }
            }
        }
        if stop.asked() {
            return Ok(());
        }
        from.behaviour = server.behaviour;
        drop((io, listeners));
        // Bind the same addresses again at once, so that no other process gets them. The kernel may have
        // chosen the ports, and could then give them to another process.
        listeners = addresses.iter().map(Listener::hold).collect::<Result<_, _>>()?;
        counts.open.take_back(counts.open.get());
        switch.rest(stop);
        if stop.asked() {
            return Ok(());
        }
        listeners.iter().try_for_each(Listener::listen)?;
    }
}

#[derive(Debug, Clone, Copy)]
enum Reply {
    /// The response to a request. The number is the time when the request was read; 0 without stamps.
    Answer(AnswerTo, u64),
    /// The same for a request with a rule. The second number is the place in [`Rules`].
    Ruled(AnswerTo, u64, u32),
    /// The response to a verification path. The number is its index in [`Server::prepared`].
    Prepared(u32),
    Continue,
    BadRequest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Last,
    Discarding,
}

struct Connection {
    /// Distinguishes this connection from earlier connections with the same token. Timers of those
    /// connections may still be in the heap.
    generation: u32,
    state: State,
    blocked: bool,
    peer_ended: bool,
    /// When bytes were last received. For a new connection, this is a time in the future. The value is 0
    /// while at most half of the possible connections are in use, because this saves reading the clock.
    heard: u64,
    decoder: RequestDecoder,
    answer: Option<(AnswerTo, Option<Chosen>)>,
    /// The request that is being read, if its path is a verification path.
    special: Option<Box<Special>>,
    /// Input that is incomplete, or that is not read because the connection is blocked. Almost always
    /// unallocated.
    kept: Vec<u8>,
    /// Delayed responses, in the order of their requests, with the time when each is due.
    line: VecDeque<(u64, Reply)>,
}

/// Timers are ordered by time first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    due: u64,
    token: Token,
    generation: u32,
}

struct Server<'a> {
    answers: Answers,
    rules: Option<Rules>,
    behaviour: Behaviour,
    counts: &'a Counts,
    switch: &'a Switch,
    tokens: Tokens,
    connections: Vec<Connection>,
    room: u64,
    last_search: u64,
    timers: BinaryHeap<Reverse<Timer>>,
    cache: HeadCache<RequestHead>,
    /// Responses that will be sent together on the current connection.
    ready: Vec<Reply>,
    ready_bytes: usize,
    batch: Vec<u8>,
    instance: u32,
    all_counts: &'a [Arc<Counts>],
    token_secret: Option<&'a str>,
    /// Unsent responses to verification paths. Empty elements are free.
    prepared: Vec<Vec<u8>>,
}

impl<'a> Server<'a> {
    fn new(from: Listening<'a>) -> Self {
        Self {
            answers: from.answers,
            rules: from.rules,
            behaviour: from.behaviour,
            counts: from.counts,
            switch: from.switch,
            tokens: Tokens::default(),
            connections: Vec::new(),
            room: from.room,
            last_search: 0,
            timers: BinaryHeap::new(),
            cache: HeadCache::new(),
            ready: Vec::new(),
            ready_bytes: 0,
            batch: Vec::new(),
            instance: from.instance,
            all_counts: from.all_counts,
            token_secret: from.token_secret,
            prepared: Vec::new(),
        }
    }

    fn new_connection(&mut self) -> Token {
        let token = self.tokens.take();
        let fresh = |generation| Connection {
            generation,
            state: State::Open,
            blocked: false,
            peer_ended: false,
            heard: 0,
            decoder: RequestDecoder::new(),
            answer: None,
            special: None,
            kept: Vec::new(),
            line: VecDeque::new(),
        };
        match self.connections.get_mut(token.index()) {
            Some(old) => *old = fresh(old.generation.wrapping_add(1)),
            None => self.connections.push(fresh(0)),
        }
        token
    }

    /// Closes the connections that have been silent longest, a tenth of the limit at a time. Such connections
    /// are idle in the pools of gateways that are not being measured. Gateways run during the whole run, and
    /// some keep thousands of connections in their pools.
    fn make_room(&mut self, io: &mut impl Sockets) {
        let now = clock::now();
        if now - self.last_search < SEARCH_PAUSE_NS {
            return;
        }
        let silent = |(index, connection): (usize, &Connection)| {
            let token = Token(index as u32);
            let idle = connection.state == State::Open
                && now.saturating_sub(connection.heard) > SILENT_NS
                && connection.decoder.is_between()
                && connection.kept.is_empty()
                && connection.line.is_empty()
                && !connection.peer_ended
                && io.is_connected(token)
                && io.unsent(token) == 0;
            idle.then_some((connection.heard, token))
        };
        let mut silent: Vec<(u64, Token)> = self.connections.iter().enumerate().filter_map(silent).collect();
        if silent.is_empty() {
            self.last_search = now;
            return;
        }
        silent.sort_unstable();
        for &(_, token) in silent.iter().take((self.room / 10).max(1) as usize) {
            self.close(io, token);
        }
    }

    fn next_timer(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse(timer)| timer.due)
    }

    /// Reads requests from the front of `input`, chooses their responses and sends the responses that are
    /// due. Returns the number of bytes consumed.
    fn read(&mut self, io: &mut impl Sockets, token: Token, input: &[u8]) -> usize {
        let mut at = 0;
        let now = if self.answers.are_stamped() { clock::now() } else { 0 };
        while self.connections[token.index()].state == State::Open {
            let connection = &mut self.connections[token.index()];
            match connection.decoder.advance_with(&mut self.cache, &input[at..]) {
                Ok(RequestStep::NeedMore) => break,
                Ok(RequestStep::Head { consumed, head }) => {
                    let body_is_missing = at + consumed == input.len();
                    if is_special(&input[at..][head.target.clone()]) {
                        let whole = &input[at..at + consumed];
                        connection.special = Some(Box::new(Special::new(&head, whole)));
                        self.send_continue(token, &head, body_is_missing);
                    } else {
                        self.head(token, &head, &input[at..], body_is_missing);
                    }
                    at += consumed;
                }
                Ok(RequestStep::Body { consumed, data }) => {
                    if let Some(special) = &mut connection.special {
                        special.body(&input[at..][data]);
                    }
                    at += consumed;
                }
                Ok(RequestStep::End { consumed, keep_alive }) => {
                    at += consumed;
                    if !keep_alive {
                        connection.state = State::Last;
                        self.counts.closing.add(1);
                    }
                    if let Some((answer, chosen)) = connection.answer.take() {
                        // Requests are counted on arrival, so that the count includes requests whose response
                        // is delayed or whose client gives up.
                        self.counts.requests(answer.version).add(1);
                        match chosen {
                            Some(Chosen { place, delay_ns }) => {
                                self.reply(token, Reply::Ruled(answer, now, place), delay_ns);
                            }
                            None => {
                                let delay = self.behaviour.delay_ns();
                                self.reply(token, Reply::Answer(answer, now), delay);
                            }
                        }
                    } else if let Some(special) = connection.special.take() {
                        let tls = io.tls(token);
                        self.answer_special(token, &special, tls);
                    }
                }
                Err(_) => {
                    connection.state = State::Discarding;
                    self.reply(token, Reply::BadRequest, 0);
                }
            }
            if self.ready_bytes > HIGH_WATER && !self.flush(io, token) {
                return at;
            }
            let connection = &mut self.connections[token.index()];
            if io.unsent(token) > HIGH_WATER || connection.line.len() >= MOST_DELAYED {
                connection.blocked = true;
                io.pause(token);
                break;
            }
        }
        self.flush(io, token);
        at
    }

    /// Chooses the answer. `input` begins with the request's head.
    fn head(&mut self, token: Token, head: &RequestHead, input: &[u8], body_is_missing: bool) {
        let answer = AnswerTo {
            version: head.version,
            keep_alive: head.keep_alive,
            head: head.is_head,
            failed: self.behaviour.fails(),
        };
        let rules = self.rules.as_mut();
        let chosen =
            rules.and_then(|rules| rules.choose(&input[head.method.clone()], &input[head.target.clone()]));
        self.connections[token.index()].answer = Some((answer, chosen));
        self.send_continue(token, head, body_is_missing);
    }

    /// Sends 100 Continue to a client that waits for it.
    fn send_continue(&mut self, token: Token, head: &RequestHead, body_is_missing: bool) {
        // A client that has already sent its body does not wait (RFC 9110 §10.1.1).
        if head.expect_continue && body_is_missing && head.framing != Framing::None {
            self.reply(token, Reply::Continue, 0);
        }
    }

    fn answer_special(&mut self, token: Token, special: &Special, tls: Option<(String, String)>) {
        self.counts.requests(special.version()).add(1);
        self.counts.reviews.add(u64::from(special.is_review()));
        let facts = InstanceFacts {
            instance: self.instance,
            tls,
            reviews: self.all_counts.iter().map(|counts| counts.reviews.get()).sum(),
            token_secret: self.token_secret,
        };
        let outcome = special.answer(&facts);
        if outcome.closes {
            self.connections[token.index()].state = State::Last;
        }
        if !outcome.bytes.is_empty() {
            let free = self.prepared.iter().position(Vec::is_empty).unwrap_or(self.prepared.len());
            if free == self.prepared.len() {
                self.prepared.push(Vec::new());
            }
            self.prepared[free] = outcome.bytes;
            self.reply(token, Reply::Prepared(free as u32), outcome.delay_ns);
        }
    }

    fn free(&mut self, reply: Reply) {
        if let Reply::Prepared(place) = reply {
            self.prepared[place as usize] = Vec::new();
        }
    }

    /// Queues a response after the earlier responses of the connection.
    fn reply(&mut self, token: Token, reply: Reply, delay: u64) {
        let connection = &mut self.connections[token.index()];
        if delay == 0 && connection.line.is_empty() {
            self.ready_bytes += self.length(reply);
            self.ready.push(reply);
            return;
        }
        let due = clock::now() + delay;
        connection.line.push_back((due, reply));
        let generation = connection.generation;
        self.timers.push(Reverse(Timer { due, token, generation }));
    }

    /// Sends every delayed response that is due. A response waits for all earlier responses on its
    /// connection, even if they are due later.
    fn send_due(&mut self, io: &mut impl Sockets, now: u64) {
        while let Some(&Reverse(Timer { due, token, generation })) = self.timers.peek() {
            if due > now {
                break;
            }
            self.timers.pop();
            if self.connections[token.index()].generation != generation {
                continue;
            }
            while let Some(&(due, reply)) = self.connections[token.index()].line.front() {
                if due > now {
                    break;
                }
                self.connections[token.index()].line.pop_front();
                self.ready_bytes += self.length(reply);
                self.ready.push(reply);
            }
            if self.flush(io, token) && self.unblock(io, token) {
                self.settle(io, token);
            }
        }
    }

    fn bytes(&self, reply: Reply) -> (&[u8], &[u8]) {
        match reply {
            Reply::Answer(to, _) => self.answers.get(to),
            Reply::Ruled(to, _, place) => {
                self.rules.as_ref().map_or((&[], &[]), |rules| rules.get(place).get(to))
            }
            Reply::Prepared(place) => (&self.prepared[place as usize], &[]),
            Reply::Continue => (CONTINUE, &[]),
            Reply::BadRequest => (BAD_REQUEST, &[]),
        }
    }

    fn length(&self, reply: Reply) -> usize {
        let (head, body) = self.bytes(reply);
        head.len() + body.len()
    }

    /// Sends all ready responses in as few sends as possible. Returns false if the connection failed and is
    /// gone.
    fn flush(&mut self, io: &mut impl Sockets, token: Token) -> bool {
        if self.ready.is_empty() {
            return true;
        }
        let ready = mem::take(&mut self.ready);
        let now = if self.answers.are_stamped() { clock::now() } else { 0 };
        // Count the bytes before sending them. So when a client has received a response, the ledger already
        // includes its bytes.
        let length = self.ready_bytes as u64;
        self.counts.bytes_out.add(length);
        let mut batch = mem::take(&mut self.batch);
        let sent = match ready.as_slice() {
            [reply] if !matches!(reply, Reply::Ruled(..)) => {
                self.stamp(*reply, now);
                let (head, body) = self.bytes(*reply);
                send_both(io, token, head, body)
            }
            several => self.send_batched(io, token, (several, now), &mut batch),
        };
        batch.clear();
        self.batch = batch;
        if sent.is_err() {
            self.counts.bytes_out.take_back(length);
        }
        ready.iter().for_each(|reply| self.free(*reply));
        self.ready = ready;
        self.ready.clear();
        self.ready_bytes = 0;
        if sent.is_err() {
            self.close(io, token);
        }
        sent.is_ok()
    }

    fn stamp(&mut self, reply: Reply, now: u64) {
        if !self.answers.are_stamped() {
            return;
        }
        match reply {
            Reply::Answer(to, received) => self.answers.stamp(to, Stamp { received, replied: now }),
            Reply::Ruled(to, received, place) => {
                if let Some(rules) = &mut self.rules {
                    rules.get_mut(place).stamp(to, Stamp { received, replied: now });
                }
            }
            _ => {}
        }
    }

    fn send_batched(
        &mut self,
        io: &mut impl Sockets,
        token: Token,
        (replies, now): (&[Reply], u64),
        batch: &mut Vec<u8>,
    ) -> io::Result<()> {
        for &reply in replies {
            self.stamp(reply, now);
            let (head, body) = self.bytes(reply);
            batch.extend_from_slice(head);
            // Copying a short body costs less than a second send.
            if body.len() <= INLINE_BODY {
                batch.extend_from_slice(body);
            } else {
                send_both(io, token, batch, body)?;
                batch.clear();
            }
        }
        send_both(io, token, batch, &[])
    }

    /// Reads the pending input of a blocked connection once its peer has caught up. Returns false if the
    /// connection failed and is gone.
    fn unblock(&mut self, io: &mut impl Sockets, token: Token) -> bool {
        let connection = &mut self.connections[token.index()];
        if !connection.blocked || io.unsent(token) > 0 || connection.line.len() > MOST_DELAYED / 2 {
            return true;
        }
        connection.blocked = false;
        let kept = mem::take(&mut connection.kept);
        let generation = connection.generation;
        let consumed = self.read(io, token, &kept);
        let connection = &mut self.connections[token.index()];
        if connection.generation != generation {
            return false;
        }
        connection.kept = kept[consumed..].to_vec();
        if !connection.blocked {
            io.resume(token);
        }
        true
    }

    fn settle(&mut self, io: &mut impl Sockets, token: Token) {
        let connection = &self.connections[token.index()];
        let reads_on = connection.state == State::Open && (!connection.peer_ended || connection.blocked);
        if reads_on || !connection.line.is_empty() || io.unsent(token) > 0 {
            return;
        }
        let lingers = connection.state == State::Discarding && !connection.peer_ended;
        if !lingers || io.finish(token).is_err() {
            self.close(io, token);
        }
    }

    fn close(&mut self, io: &mut impl Sockets, token: Token) {
        io.close(token);
        self.forget(token);
    }

    fn forget(&mut self, token: Token) {
        let connection = &mut self.connections[token.index()];
        // A new generation invalidates the connection's timers. It also makes the callers of this function
        // discard the input that they would keep.
        connection.generation = connection.generation.wrapping_add(1);
        connection.state = State::Last;
        connection.kept = Vec::new();
        connection.special = None;
        let line = mem::take(&mut connection.line);
        line.into_iter().for_each(|(_, reply)| self.free(reply));
        self.tokens.give_back(token);
        self.counts.open.take_back(1);
    }
}

fn send_both(io: &mut impl Sockets, token: Token, head: &[u8], body: &[u8]) -> io::Result<()> {
    if !head.is_empty() {
        io.send(token, head)?;
    }
    if !body.is_empty() {
        io.send(token, body)?;
    }
    Ok(())
}

impl<L: Sockets> Handler<L> for Server<'_> {
    fn connected(&mut self, _: &mut L, _: Token, _: io::Result<()>) {}

    fn accepted(&mut self, io: &mut L, _: Token, _: SocketAddr) -> Option<Token> {
        // An instance that is about to close accepts no connections. It also drops the connection that the
        // switch opened to wake this thread.
        if self.switch.asked() {
            return None;
        }
        if self.counts.open.get() >= self.room {
            self.make_room(io);
            if self.counts.open.get() >= self.room {
                return None;
            }
        }
        self.counts.connections.add(1);
        self.counts.open.add(1);
        let token = self.new_connection();
        self.connections[token.index()].heard = clock::now() + FRESH_NS;
        Some(token)
    }

    fn received(&mut self, io: &mut L, token: Token, bytes: &[u8]) {
        self.counts.bytes_in.add(bytes.len() as u64);
        let connection = &mut self.connections[token.index()];
        if connection.state != State::Open {
            return;
        }
        connection.heard = if self.counts.open.get() > self.room / 2 { clock::now() } else { 0 };
        if connection.blocked {
            connection.kept.extend_from_slice(bytes);
            return;
        }
        let generation = connection.generation;
        let mut kept = mem::take(&mut connection.kept);
        let input = if kept.is_empty() {
            bytes
        } else {
            kept.extend_from_slice(bytes);
            &kept
        };
        let consumed = self.read(io, token, input);
        let connection = &mut self.connections[token.index()];
        if connection.generation != generation {
            return;
        }
        if consumed < input.len() && connection.state == State::Open {
            connection.kept = input[consumed..].to_vec();
        }
        if connection.state != State::Open {
            self.settle(io, token);
        }
    }

    fn closed(&mut self, io: &mut L, token: Token, result: io::Result<()>) -> AfterEnd {
        if result.is_err() {
            self.forget(token);
            return AfterEnd::Close;
        }
        self.connections[token.index()].peer_ended = true;
        // A peer that has ended its side may still wait for responses. These are delayed responses, and
        // responses to input that has not been read yet.
        self.settle(io, token);
        AfterEnd::KeepSending
    }

    fn drained(&mut self, io: &mut L, token: Token) {
        if self.unblock(io, token) {
            self.settle(io, token);
        }
    }
}
