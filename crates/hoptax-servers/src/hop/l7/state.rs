//! State of `hop-l7`'s connections.

use super::bodies::Changed;
use super::events::Altered;
use super::rewrite::Coding;
use crate::hop::holds::Holds;
use hoptax_load::event_loop::Token;
use hoptax_wire::http1::{RequestDecoder, RequestHead, ResponseDecoder, Version};
use std::borrow::Cow;

/// A request and its response.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) version: Version,
    pub(super) is_head: bool,
    /// Whether the client keeps its connection open.
    pub(super) keep_alive: bool,
    /// Whether the request may be sent again. Such a request consists of its head only.
    pub(super) repeatable: bool,
    /// The upstream connection. Absent once the response is complete or the upstream is lost; the rest of the
    /// request is then discarded.
    pub(super) upstream: Option<Token>,
    pub(super) to_upstream: Coding,
    pub(super) request_done: bool,
    /// Set when the response's head has been forwarded.
    pub(super) to_client: Option<Coding>,
    /// Whether the client's connection stays open after this exchange.
    pub(super) stays: bool,
    pub(super) response_done: bool,
    /// Events of the response, if the hop changes or delays them.
    pub(super) events: Option<Box<Altered>>,
    /// Body of the request, if the hop changes it.
    pub(super) asked: Option<Changed>,
    /// Body of the response, if the hop changes it.
    pub(super) answered: Option<Box<Changed>>,
    /// How many times the request may be sent again if the upstream refuses it.
    pub(super) retries: u32,
    /// The request as it was sent, if it may be sent again.
    pub(super) sent: Vec<u8>,
}

impl Exchange {
    /// Writes a part of the body. `client` is the connection of this exchange.
    pub(super) fn write_to_client(
        &mut self,
        out: &mut Vec<u8>,
        data: &[u8],
        client: Token,
        holds: &mut Holds,
    ) {
        let Some(coding) = self.to_client else { return };
        let data = self.answered.as_mut().map_or(Cow::Borrowed(data), |body| body.read(data));
        match &mut self.events {
            None => coding.write(out, &data),
            Some(events) => {
                let mut passed = Vec::new();
                events.read(&data, client, holds, &mut passed);
                coding.write(out, &passed);
            }
        }
    }

    /// Writes a part of the request's body.
    pub(super) fn write_to_upstream(&mut self, out: &mut Vec<u8>, data: &[u8]) {
        match &mut self.asked {
            None => self.to_upstream.write(out, data),
            Some(body) => self.to_upstream.write(out, &body.read(data)),
        }
    }

    /// Writes a regular end of a stream that the upstream has cut. Returns false if the plan does not say so.
    pub(super) fn end_falsely(&mut self, out: &mut Vec<u8>) -> bool {
        let (Some(coding), Some(events)) = (self.to_client, &mut self.events) else { return false };
        let mut passed = Vec::new();
        let is_ended = events.end_falsely(&mut passed);
        if is_ended {
            coding.write(out, &passed);
            coding.end(out);
        }
        is_ended
    }

    /// Writes the events that waited. `is_end` is true if the response has ended.
    pub(super) fn release_events(&mut self, out: &mut Vec<u8>, is_end: bool) {
        if let (Some(coding), Some(events)) = (self.to_client, &mut self.events) {
            let mut passed = Vec::new();
            events.release(is_end, &mut passed);
            coding.write(out, &passed);
        }
    }

    pub(super) fn end_to_client(&mut self, out: &mut Vec<u8>) {
        self.release_events(out, true);
        if let Some(coding) = self.to_client {
            coding.end(out);
        }
    }

    /// True if events of the response wait for this timer.
    pub(super) fn waits_for(&self, timer: u64) -> bool {
        self.events.as_ref().is_some_and(|events| events.waits_for(timer))
    }
}

/// The head of a delayed request.
#[derive(Debug)]
pub(super) struct HeldRequest {
    pub(super) id: u64,
    pub(super) raw: Vec<u8>,
    pub(super) head: RequestHead,
}

/// A client's connection.
#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) decoder: RequestDecoder,
    /// Input that was received but not read yet. It is almost always empty, and then no memory is allocated
    /// for it.
    pub(super) kept: Vec<u8>,
    pub(super) exchange: Option<Exchange>,
    /// Head of the current request as it was forwarded, kept in order to send the request again.
    pub(super) head: Vec<u8>,
    pub(super) held: Option<Box<HeldRequest>>,
    /// True if the response of this exchange must be delayed.
    pub(super) hold_answer: bool,
    pub(super) paused: bool,
    pub(super) ended: bool,
    pub(super) last: bool,
    /// True if further bytes from the client are discarded until it closes. If the hop closed first, the
    /// connection could be reset before the client has read the response.
    pub(super) discarding: bool,
}

#[derive(Debug, Default)]
pub(super) struct Upstream {
    pub(super) index: usize,
    pub(super) decoder: ResponseDecoder,
    pub(super) kept: Vec<u8>,
    /// Client of the current exchange; absent while the connection is in the pool.
    pub(super) client: Option<Token>,
    pub(super) connected: bool,
    pub(super) waiting: Vec<u8>,
    pub(super) paused: bool,
    /// Id of the timer of a delayed response. Nothing more is read from the connection until the timer
    /// expires.
    pub(super) held: Option<u64>,
    pub(super) reused: bool,
    pub(super) heard: bool,
    /// True if the client has left, and the hop reads the response to its end.
    pub(super) is_abandoned: bool,
}

impl Upstream {
    pub(super) fn new(index: usize) -> Self {
        Self { index, ..Self::default() }
    }
}

#[derive(Debug, Default)]
pub(super) enum Peer {
    /// Unused, or used by a listener.
    #[default]
    Free,
    Client(Box<Client>),
    Upstream(Box<Upstream>),
    /// One side of a tunnel to the upstream with this index.
    Tunnel {
        index: usize,
        /// True if the client has sent CONNECT, and gets an answer from the hop. The upstream answers
        /// handshakes of WebSockets.
        is_asked: bool,
        /// Id of the timer after which the hop closes the tunnel. Only the client's side can have one.
        cut: Option<u64>,
    },
}

#[derive(Debug, Default)]
pub(super) struct Peers(Vec<Peer>);

impl Peers {
    pub(super) fn put(&mut self, token: Token, peer: Peer) {
        if self.0.len() <= token.index() {
            self.0.resize_with(token.index() + 1, Peer::default);
        }
        self.0[token.index()] = peer;
    }

    /// Returns the token's peer, which must exist.
    pub(super) fn get(&mut self, token: Token) -> &mut Peer {
        &mut self.0[token.index()]
    }

    pub(super) fn take(&mut self, token: Token) -> Peer {
        std::mem::take(self.get(token))
    }

    pub(super) fn client(&mut self, token: Token) -> Option<&mut Client> {
        match self.get(token) {
            Peer::Client(client) => Some(client),
            _ => None,
        }
    }

    pub(super) fn exchange(&mut self, token: Token) -> Option<&mut Exchange> {
        self.client(token)?.exchange.as_mut()
    }

    pub(super) fn upstream(&mut self, token: Token) -> Option<&mut Upstream> {
        match self.get(token) {
            Peer::Upstream(upstream) => Some(upstream),
            _ => None,
        }
    }
}
