//! State of `hop-h2`: its connections and exchanges.

use super::altered::Altered;
use super::fields::{Coding, LastFields, LastHead};
use crate::hop::holds::Holds;
use crate::hop::turns::Turns;
use crate::net::Tokens;
use hoptax_load::event_loop::Token;
use hoptax_wire::http1::{HeadCache, ParsedResponse, ResponseDecoder};
use hoptax_wire::http2::{Block, Config, Connection, Release, Sections, StreamRef};
use std::mem;

/// What the hop speaks to its upstreams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UpstreamHttp {
    /// HTTP/2, by prior knowledge: all streams of a worker share a connection.
    #[default]
    Http2,
    /// HTTP/1.1, with a pool of connections.
    Http1,
}

/// The windows limit what an exchange keeps if its receiver is slow. Windows are given back when the receiver
/// has the data.
const CONFIG: Config = Config {
    streams: 1024,
    window: 256 * 1024,
    connection_window: 1 << 24,
    header_table: 4096,
    max_fields: 64 * 1024,
    release: Release::ByCaller,
    connect_protocol: false,
};

/// A connection over HTTP/2, to a client or to an upstream.
pub(super) struct Link {
    pub(super) connection: Connection,
    /// The upstream; absent if the peer is a client.
    pub(super) upstream: Option<usize>,
    /// False until the connect has succeeded.
    pub(super) connected: bool,
    /// The peer has ended its side.
    pub(super) ended: bool,
    /// The peer has violated the protocol. The connection is closed when GOAWAY is sent.
    pub(super) broken: bool,
    /// Exchanges keep data because the peer reads too slowly.
    pub(super) slow: bool,
    /// Input that is incomplete.
    pub(super) kept: Vec<u8>,
    /// Bytes that are sent after the current event, or once connected.
    pub(super) output: Vec<u8>,
}

impl Link {
    pub(super) fn to_client() -> Self {
        let mut output = Vec::new();
        let connection = Connection::server(CONFIG, &mut output);
        Self::new(connection, None, output)
    }

    pub(super) fn to_upstream(index: usize) -> Self {
        let mut output = Vec::new();
        let connection = Connection::client(CONFIG, &mut output);
        Self::new(connection, Some(index), output)
    }

    fn new(connection: Connection, upstream: Option<usize>, output: Vec<u8>) -> Self {
        let connected = upstream.is_none();
        let (ended, broken, slow) = (false, false, false);
        Self { connection, upstream, connected, ended, broken, slow, kept: Vec::new(), output }
    }
}

/// A connection over HTTP/1 to an upstream. It carries one exchange at a time.
#[derive(Default)]
pub(super) struct Http1 {
    pub(super) index: usize,
    pub(super) decoder: ResponseDecoder,
    /// Place of the exchange; absent while the connection is in the pool.
    pub(super) exchange: Option<u32>,
    pub(super) connected: bool,
    pub(super) paused: bool,
    /// The exchange keeps data because the upstream reads too slowly.
    pub(super) slow: bool,
    pub(super) kept: Vec<u8>,
    pub(super) output: Vec<u8>,
}

impl Http1 {
    pub(super) fn new(index: usize) -> Self {
        Self { index, ..Self::default() }
    }
}

#[derive(Default)]
pub(super) enum Peer {
    /// Unused, or used by a listener.
    #[default]
    Free,
    Link(Box<Link>),
    Http1(Box<Http1>),
}

#[derive(Default)]
pub(super) struct Peers(Vec<Peer>);

impl Peers {
    pub(super) fn put(&mut self, token: Token, peer: Peer) {
        if self.0.len() <= token.index() {
            self.0.resize_with(token.index() + 1, Peer::default);
        }
        self.0[token.index()] = peer;
    }

    pub(super) fn get(&mut self, token: Token) -> Option<&mut Peer> {
        self.0.get_mut(token.index())
    }

    pub(super) fn take(&mut self, token: Token) -> Peer {
        self.get(token).map(mem::take).unwrap_or_default()
    }

    pub(super) fn link(&mut self, token: Token) -> Option<&mut Link> {
        match self.get(token) {
            Some(Peer::Link(link)) => Some(link),
            _ => None,
        }
    }

    pub(super) fn http1(&mut self, token: Token) -> Option<&mut Http1> {
        match self.get(token) {
            Some(Peer::Http1(http1)) => Some(http1),
            _ => None,
        }
    }
}

/// One direction of an exchange: the request, or the response.
#[derive(Default)]
pub(super) struct Half {
    /// The head as it is sent. Empty until it has arrived.
    pub(super) head: Vec<u8>,
    pub(super) head_sent: bool,
    /// Data that the receiver does not accept yet.
    pub(super) data: Vec<u8>,
    pub(super) trailers: Vec<u8>,
    /// Everything has arrived.
    pub(super) ended: bool,
    /// Everything was sent.
    pub(super) done: bool,
    /// Id of the timer that delays this half.
    pub(super) held: Option<u64>,
    /// Messages that the hop changes or delays, of a response only.
    pub(super) altered: Option<Box<Altered>>,
}

impl Half {
    fn clear(&mut self) {
        self.head.clear();
        self.data.clear();
        self.trailers.clear();
        (self.head_sent, self.ended, self.done, self.held) = (false, false, false, None);
        self.altered = None;
    }

    /// True if messages wait for a timer. The half cannot end before they have passed.
    pub(super) fn is_waiting(&self) -> bool {
        self.altered.as_ref().is_some_and(|altered| altered.is_waiting())
    }

    /// True if nothing follows the head.
    pub(super) fn is_head_alone(&self) -> bool {
        self.ended && self.data.is_empty() && self.trailers.is_empty() && !self.is_waiting()
    }
}

/// A request and its response.
pub(super) struct Exchange {
    pub(super) client: Token,
    /// Number of the client's stream; 0 if the place is free.
    pub(super) client_stream: u32,
    /// The upstream's connection; absent while the request is delayed, and after the connection was lost.
    pub(super) upstream: Option<Token>,
    /// Number of the upstream's stream; 0 until the request's head was sent, and over HTTP/1.
    pub(super) upstream_stream: u32,
    pub(super) index: usize,
    pub(super) request: Half,
    pub(super) response: Half,
    pub(super) coding: Coding,
    pub(super) is_head: bool,
    /// The request has a body or trailers.
    pub(super) has_body: bool,
    /// The request can be sent again, even if the upstream may have processed it.
    pub(super) is_idempotent: bool,
    /// How often the request was sent again.
    pub(super) repeats: u8,
    /// The response will be delayed.
    pub(super) hold_answer: bool,
    /// The messages of the response will be delayed.
    pub(super) hold_messages: bool,
}

/// The exchanges of a worker. Streams have the places as tags.
#[derive(Default)]
pub(super) struct Exchanges {
    places: Vec<Exchange>,
    free: Vec<u32>,
}

impl Exchanges {
    /// Begins an exchange. It reuses the memory of an earlier one.
    pub(super) fn begin(&mut self, client: Token, client_stream: u32) -> u32 {
        if let Some(place) = self.free.pop() {
            let old = &mut self.places[place as usize];
            (old.client, old.client_stream) = (client, client_stream);
            return place;
        }
        self.places.push(Exchange {
            client,
            client_stream,
            upstream: None,
            upstream_stream: 0,
            index: 0,
            request: Half::default(),
            response: Half::default(),
            coding: Coding::Raw,
            is_head: false,
            has_body: false,
            is_idempotent: false,
            repeats: 0,
            hold_answer: false,
            hold_messages: false,
        });
        self.places.len() as u32 - 1
    }

    pub(super) fn end(&mut self, place: u32) {
        let Some(exchange) = self.get(place) else { return };
        exchange.client_stream = 0;
        (exchange.upstream, exchange.upstream_stream) = (None, 0);
        (exchange.repeats, exchange.hold_answer, exchange.hold_messages) = (0, false, false);
        exchange.request.clear();
        exchange.response.clear();
        self.free.push(place);
    }

    /// The exchange in this place.
    pub(super) fn get(&mut self, place: u32) -> Option<&mut Exchange> {
        self.places.get_mut(place as usize).filter(|exchange| exchange.client_stream != 0)
    }

    /// Place of the exchange of a client's stream.
    pub(super) fn of_client(&mut self, client: Token, stream: StreamRef) -> Option<u32> {
        let exchange = self.get(stream.tag)?;
        (exchange.client == client && exchange.client_stream == stream.id).then_some(stream.tag)
    }

    /// Place of the exchange of an upstream's stream.
    pub(super) fn of_upstream(&mut self, upstream: Token, stream: StreamRef) -> Option<u32> {
        let exchange = self.get(stream.tag)?;
        let is_same = exchange.upstream == Some(upstream) && exchange.upstream_stream == stream.id;
        is_same.then_some(stream.tag)
    }

    /// Places of all exchanges that use a connection.
    pub(super) fn of_connection(&self, token: Token) -> Vec<u32> {
        let uses = |exchange: &Exchange| {
            exchange.client_stream != 0 && (exchange.client == token || exchange.upstream == Some(token))
        };
        (0..).zip(&self.places).filter(|(_, exchange)| uses(exchange)).map(|(place, _)| place).collect()
    }
}

/// The state of one worker.
pub(super) struct Worker {
    pub(super) turns: Turns,
    pub(super) http: UpstreamHttp,
    pub(super) tokens: Tokens,
    /// Tokens that are given back after the current event, so that nothing mistakes a new connection for an
    /// old one.
    pub(super) freed: Vec<Token>,
    pub(super) peers: Peers,
    pub(super) exchanges: Exchanges,
    /// For each upstream: its connections over HTTP/2, or its idle connections over HTTP/1.
    pub(super) pools: Vec<Vec<Token>>,
    /// The latest heads and trailers of requests and of responses.
    pub(super) requests: Sections,
    pub(super) responses: Sections,
    pub(super) request_heads: LastFields,
    pub(super) response_heads: LastFields,
    pub(super) http1_responses: LastHead,
    pub(super) http1_heads: HeadCache<ParsedResponse>,
    /// Connections with output.
    pub(super) dirty: Vec<Token>,
    /// A block without fields. All fields follow it.
    pub(super) no_fields: Block,
    pub(super) holds: Holds,
}

impl Worker {
    pub(super) fn new(turns: Turns, upstreams: usize, http: UpstreamHttp, holds: Holds) -> Self {
        Self {
            turns,
            http,
            tokens: Tokens::default(),
            freed: Vec::new(),
            peers: Peers::default(),
            exchanges: Exchanges::default(),
            pools: vec![Vec::new(); upstreams],
            requests: Sections::new(),
            responses: Sections::new(),
            request_heads: LastFields::default(),
            response_heads: LastFields::default(),
            http1_responses: LastHead::default(),
            http1_heads: HeadCache::new(),
            dirty: Vec::new(),
            no_fields: Block::plain(&[]),
            holds,
        }
    }

    /// Notes that a connection has output.
    pub(super) fn touch(&mut self, token: Token) {
        if self.dirty.last() != Some(&token) {
            self.dirty.push(token);
        }
    }
}
