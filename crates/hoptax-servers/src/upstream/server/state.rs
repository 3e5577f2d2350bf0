//! The state of an instance and of its connections.

use super::super::answer::{AnswerTo, Answers};
use super::super::calls::Calls;
use super::super::counts::{Count, Counts};
use super::super::delay::Behaviour;
use super::super::llm::Incoming;
use super::super::rules::{Chosen, Rules};
use super::super::sockets::Sockets;
use super::super::sources::Sources;
use super::super::special::{InstanceFacts, Outcome, Special};
use super::super::stream::{Completion, EventStream};
use super::super::switch::Switch;
use super::super::websocket::{WebSocket, WebSockets};
use super::groups::Live;
use super::streams::{Http2, Shared};
use crate::net::Tokens;
use hoptax_load::event_loop::Token;
use hoptax_wire::http1::{HeadCache, RequestDecoder, RequestHead};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::mem;
use std::sync::Arc;

/// Limit for the unsent bytes of a connection. Above this limit, the peer is a slow reader, and nothing more
/// is read from it.
pub(super) const HIGH_WATER: usize = 256 * 1024;
/// Limit for the delayed responses of one connection. At this limit, nothing more is read from the
/// connection.
pub(super) const MOST_DELAYED: usize = 1024;

/// Everything that an instance needs to serve its listeners.
#[derive(Clone)]
pub(in crate::upstream) struct Listening<'a> {
    pub(in crate::upstream) instance: u32,
    pub(in crate::upstream) answers: Answers,
    pub(in crate::upstream) calls: Calls,
    /// The answers to requests that accept events, and to those to the language model.
    pub(in crate::upstream) sources: Sources,
    pub(in crate::upstream) websockets: WebSockets,
    /// Answers to particular paths.
    pub(in crate::upstream) rules: Option<Rules>,
    pub(in crate::upstream) behaviour: Behaviour,
    pub(in crate::upstream) counts: &'a Counts,
    pub(in crate::upstream) all_counts: &'a [Arc<Counts>],
    /// Maximum number of connections that the instance may hold. At this number, it closes silent
    /// connections. If all connections are busy, it closes new connections at once.
    pub(in crate::upstream) room: u64,
    /// Number of requests after which a connection is closed.
    pub(in crate::upstream) close_after: Option<u64>,
    pub(in crate::upstream) token_secret: Option<&'a str>,
    pub(in crate::upstream) switch: &'a Switch,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Reply {
    /// The response to a request. The number is the time when the request was read; 0 without stamps.
    Answer(AnswerTo, u64),
    /// The same for a request with a rule. The second number is the place in [`Rules`].
    Ruled(AnswerTo, u64, u32),
    /// The same for a gRPC-Web call. The second number is the place in [`Calls::http1`].
    Web(AnswerTo, u64, u32),
    /// The head of a response with server-sent events. The second number is that of the first event.
    Events(AnswerTo, u64, u64),
    /// The head of a stream of the language model.
    Tokens(AnswerTo, u64, Completion),
    /// The response to a verification path. The number is its index in [`Server::prepared`].
    Prepared(u32),
    /// The answer to the handshake of a WebSocket, or a whole response of the language model: its index in
    /// [`Server::prepared`], and the time when the request was read.
    Stamped(u32, u64),
    Continue,
    BadRequest,
}

impl Reply {
    /// The stream of events that follows the head.
    pub(super) fn stream(self) -> Option<(AnswerTo, EventStream)> {
        match self {
            Self::Events(to, _, from) => Some((to, EventStream::new(from))),
            Self::Tokens(to, _, completion) => Some((to, EventStream::of_model(completion))),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    New,
    Open,
    Http2,
    WebSocket,
    Last,
    Discarding,
}

#[derive(Default)]
pub(super) struct Connection {
    /// Distinguishes this connection from earlier connections with the same token. Timers of those
    /// connections may still be in the heap.
    pub(super) generation: u32,
    pub(super) state: State,
    pub(super) blocked: bool,
    pub(super) peer_ended: bool,
    /// When bytes were last received. For a new connection, this is a time in the future. The value is 0
    /// while at most half of the possible connections are in use, because this saves reading the clock.
    pub(super) heard: u64,
    pub(super) decoder: RequestDecoder,
    pub(super) answer: Option<(AnswerTo, Option<Chosen>)>,
    /// The place of that answer in [`Calls::http1`], if the request is a gRPC-Web call.
    pub(super) web: Option<u32>,
    /// Number of the first event, if the request that is being read gets events.
    pub(super) events_from: Option<u64>,
    /// The events that are being sent over HTTP/1.
    pub(super) events: Option<Box<EventStream>>,
    /// The request that is being read, if its path is a verification path.
    pub(super) special: Option<Box<Special>>,
    /// The request that is being read, if it is for the language model.
    pub(super) llm: Option<Box<Incoming>>,
    /// Input that is incomplete, or that is not read because the connection is blocked. Almost always
    /// unallocated.
    pub(super) kept: Vec<u8>,
    /// Delayed responses, in the order of their requests, with the time when each is due.
    pub(super) line: VecDeque<(u64, Reply)>,
    /// Number of requests; only counted if connections have a limit.
    pub(super) requests: u64,
    /// Present in the state *http2*.
    pub(super) http2: Option<Box<Http2>>,
    /// Present in the state *websocket*.
    pub(super) websocket: Option<Box<WebSocket>>,
}

impl Connection {
    /// The responses with events over HTTP/1 that have not ended.
    pub(super) fn event_streams(&self) -> impl Iterator<Item = EventStream> {
        let in_line = self.line.iter().filter_map(|(_, reply)| reply.stream());
        let waiting = in_line.filter(|(to, _)| !to.head).map(|(_, stream)| stream);
        waiting.chain(self.events.as_deref().copied())
    }
}

/// Timers are ordered by time first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timer {
    pub(super) due: u64,
    pub(super) token: Token,
    pub(super) generation: u32,
}

pub(super) struct Server<'a> {
    pub(super) answers: Answers,
    pub(super) calls: Calls,
    pub(super) sources: Sources,
    pub(super) websockets: Live,
    pub(super) rules: Option<Rules>,
    pub(super) behaviour: Behaviour,
    pub(super) counts: &'a Counts,
    pub(super) switch: &'a Switch,
    pub(super) tokens: Tokens,
    pub(super) connections: Vec<Connection>,
    pub(super) room: u64,
    pub(super) last_search: u64,
    pub(super) timers: BinaryHeap<Reverse<Timer>>,
    pub(super) cache: HeadCache<RequestHead>,
    /// Responses that will be sent together on the current connection.
    pub(super) ready: Vec<Reply>,
    pub(super) ready_bytes: usize,
    pub(super) batch: Vec<u8>,
    pub(super) instance: u32,
    pub(super) all_counts: &'a [Arc<Counts>],
    pub(super) token_secret: Option<&'a str>,
    /// Unsent responses that were built for one request, and the free places in this list.
    pub(super) prepared: Vec<Vec<u8>>,
    pub(super) free_places: Vec<u32>,
    pub(super) close_after: Option<u64>,
    pub(super) shared: Shared,
}

impl<'a> Server<'a> {
    pub(super) fn new(from: Listening<'a>) -> Self {
        Self {
            answers: from.answers,
            calls: from.calls,
            sources: from.sources,
            websockets: Live::new(from.websockets),
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
            free_places: Vec::new(),
            close_after: from.close_after,
            shared: Shared::default(),
        }
    }

    pub(super) fn new_connection(&mut self) -> Token {
        let token = self.tokens.take();
        let fresh = |generation| Connection { generation, ..Connection::default() };
        match self.connections.get_mut(token.index()) {
            Some(old) => *old = fresh(old.generation.wrapping_add(1)),
            None => self.connections.push(fresh(0)),
        }
        token
    }

    /// Counts a request to a verification path, and returns its answer.
    pub(super) fn special_outcome(&self, special: &Special, tls: Option<(String, String)>) -> Outcome {
        special.version().map_or(&self.counts.http2, |version| self.counts.requests(version)).add(1);
        self.counts.reviews.add(u64::from(special.is_review()));
        let sum = |count: fn(&Counts) -> &Count| {
            self.all_counts.iter().map(|counts| count(counts).get()).sum::<u64>()
        };
        let outcome = special.answer(&InstanceFacts {
            instance: self.instance,
            tls,
            reviews: sum(|counts| &counts.reviews),
            delayed: sum(|counts| &counts.delayed),
            abandoned: sum(|counts| &counts.abandoned),
            token_secret: self.token_secret,
        });
        self.counts.delayed.add(u64::from(outcome.delay_ns > 0));
        outcome
    }

    /// Counts the delayed responses to verification paths whose client goes away.
    pub(super) fn count_abandoned(&self, token: Token) {
        let connection = &self.connections[token.index()];
        if connection.peer_ended {
            return;
        }
        let exchanges = connection.http2.iter().flat_map(|http2| &http2.exchanges);
        let on_streams = exchanges.filter(|exchange| exchange.is_delayed_special()).count();
        let in_line = connection.line.iter().filter(|(_, reply)| matches!(reply, Reply::Prepared(_))).count();
        self.counts.abandoned.add((on_streams + in_line) as u64);
    }

    pub(super) fn free(&mut self, reply: Reply) {
        if let Reply::Prepared(place) | Reply::Stamped(place, _) = reply {
            self.prepared[place as usize] = Vec::new();
            self.free_places.push(place);
        }
    }

    pub(super) fn settle(&mut self, io: &mut impl Sockets, token: Token) {
        let connection = &self.connections[token.index()];
        if connection.state == State::Http2 {
            return self.settle_http2(io, token);
        }
        if connection.state == State::WebSocket {
            return self.settle_websocket(io, token);
        }
        let is_open = matches!(connection.state, State::New | State::Open);
        let reads_on = is_open && (!connection.peer_ended || connection.blocked);
        let has_more = !connection.line.is_empty() || connection.events.is_some();
        if reads_on || has_more || io.unsent(token) > 0 {
            return;
        }
        let lingers = connection.state == State::Discarding && !connection.peer_ended;
        if !lingers || io.finish(token).is_err() {
            self.close(io, token);
        }
    }

    pub(super) fn close(&mut self, io: &mut impl Sockets, token: Token) {
        io.close(token);
        self.forget(token);
    }

    pub(super) fn forget(&mut self, token: Token) {
        // Sending can fail before the loop reports that the client has left.
        self.count_cut(token);
        let connection = &mut self.connections[token.index()];
        // A new generation invalidates the connection's timers. It also makes the callers of this function
        // discard the input that they would keep.
        connection.generation = connection.generation.wrapping_add(1);
        connection.event_streams().for_each(|stream| self.counts.left_by_client(&stream));
        connection.http2.iter().for_each(|http2| http2.count_left(self.counts));
        connection.state = State::Last;
        connection.kept = Vec::new();
        connection.special = None;
        connection.llm = None;
        connection.http2 = None;
        connection.websocket = None;
        connection.events = None;
        let line = mem::take(&mut connection.line);
        line.into_iter().for_each(|(_, reply)| self.free(reply));
        self.tokens.give_back(token);
        self.counts.open.take_back(1);
    }
}
