//! Finds a connection to an upstream for each request, and handles the loss of upstreams.

use super::fields::{Coding, fits_http1, request_literals, to_http1};
use super::state::{Http1, Link, Peer, UpstreamHttp, Worker};
use hoptax_load::event_loop::{EventLoop, Token};
use hoptax_plan::units;
use hoptax_wire::http2::Code;
use std::io;

/// How often a request is sent again that an upstream has not processed.
const MOST_REPEATS: u8 = 5;

impl Worker {
    /// Writes the head of a request for its upstream. The head is in the sections. Returns false if it cannot
    /// be written for HTTP/1.
    pub(super) fn write_request_head(&mut self, place: u32, end: bool) -> bool {
        let index = self.turns.next();
        let Some(exchange) = self.exchanges.get(place) else { return false };
        exchange.index = index;
        let head = &self.requests.head;
        let to = &mut exchange.request.head;
        match self.http {
            UpstreamHttp::Http2 => {
                let planted = self.holds.faults.and_then(|faults| faults.deadline);
                self.request_heads.or_write(head.fields(), (0, end), to, |to| {
                    request_literals(head.fields(), planted, to);
                    Coding::Raw
                });
            }
            UpstreamHttp::Http1 if fits_http1(head) => {
                let address = self.turns.address(index);
                exchange.coding = self.request_heads.or_write(head.fields(), (index, end), to, |to| {
                    to_http1(head, &units::host_header_of(false, address), end, to)
                });
            }
            UpstreamHttp::Http1 => return false,
        }
        true
    }

    /// Sends a request whose head is written to its upstream.
    pub(super) fn dispatch(&mut self, io: &mut impl EventLoop, place: u32) {
        let Some(exchange) = self.exchanges.get(place) else { return };
        let (index, is_head) = (exchange.index, exchange.is_head);
        match self.reach(io, index) {
            Ok(token) => {
                if let Some(http1) = self.peers.http1(token) {
                    http1.exchange = Some(place);
                    http1.decoder.begin(is_head);
                }
                if let Some(exchange) = self.exchanges.get(place) {
                    exchange.upstream = Some(token);
                }
                self.pass_request(io, place, &[]);
            }
            Err(error) => {
                let address = self.turns.address(index);
                let text = format!("the upstream {address} cannot be reached: {error}\n");
                self.answer(io, place, 502, &text);
            }
        }
    }

    /// A connection to an upstream that has room for a request.
    fn reach(&mut self, io: &mut impl EventLoop, index: usize) -> io::Result<Token> {
        let pool = &mut self.pools[index];
        let found = match self.http {
            UpstreamHttp::Http1 => pool.pop(),
            UpstreamHttp::Http2 => {
                let peers = &mut self.peers;
                let has_room =
                    |token: &Token| peers.link(*token).is_some_and(|link| link.connection.capacity() > 0);
                pool.iter().copied().find(has_room)
            }
        };
        if let Some(token) = found {
            return Ok(token);
        }
        let token = self.tokens.take();
        if let Err(error) = io.connect(token, self.turns.address(index), None) {
            self.tokens.give_back(token);
            return Err(error);
        }
        match self.http {
            UpstreamHttp::Http1 => self.peers.put(token, Peer::Http1(Box::new(Http1::new(index)))),
            UpstreamHttp::Http2 => {
                self.peers.put(token, Peer::Link(Box::new(Link::to_upstream(index))));
                self.pools[index].push(token);
            }
        }
        Ok(token)
    }

    /// Called when a connect has succeeded or failed.
    pub(super) fn reached(&mut self, io: &mut impl EventLoop, token: Token, result: io::Result<()>) {
        match self.peers.get(token) {
            Some(Peer::Link(link)) => link.connected = true,
            Some(Peer::Http1(http1)) => http1.connected = true,
            _ => return,
        }
        if let Err(error) = result {
            return self.drop_upstream(io, token, &format!("cannot be reached: {error}"));
        }
        self.touch(token);
        self.flush(io);
        self.pass_all(io, token);
    }

    /// Passes the data that were kept because a connection was slow.
    pub(super) fn pass_all(&mut self, io: &mut impl EventLoop, token: Token) {
        for place in self.exchanges.of_connection(token) {
            let Some(exchange) = self.exchanges.get(place) else { continue };
            if exchange.client == token {
                self.pass_response(io, place, &[]);
            } else {
                self.pass_request(io, place, &[]);
            }
        }
    }

    /// Closes a connection to an upstream, and ends its exchanges.
    pub(super) fn drop_upstream(&mut self, io: &mut impl EventLoop, token: Token, why: &str) {
        io.close(token);
        let index = match self.peers.take(token) {
            Peer::Link(link) => link.upstream,
            Peer::Http1(http1) => Some(http1.index),
            Peer::Free => return,
        };
        self.freed.push(token);
        if let Some(index) = index {
            self.pools[index].retain(|pooled| *pooled != token);
        }
        for place in self.exchanges.of_connection(token) {
            self.upstream_lost(io, place, why, false);
        }
    }

    /// Handles an upstream that will not complete an exchange. `unprocessed` is true if it has not processed
    /// the request. The hop sends such a request again if it has no body. It sends an idempotent request once
    /// more in any case. Otherwise it answers 502, or resets the stream if the response has begun.
    pub(super) fn upstream_lost(
        &mut self,
        io: &mut impl EventLoop,
        place: u32,
        why: &str,
        unprocessed: bool,
    ) {
        self.release_kept(place);
        let Some(exchange) = self.exchanges.get(place) else { return };
        (exchange.upstream, exchange.upstream_stream) = (None, 0);
        if !exchange.response.head.is_empty() {
            return self.reset_client(io, place);
        }
        let half = &mut exchange.request;
        let most = match (unprocessed, exchange.is_idempotent) {
            (true, _) => MOST_REPEATS,
            (false, true) => 1,
            (false, false) => 0,
        };
        if !exchange.has_body && exchange.repeats < most {
            exchange.repeats += 1;
            (half.head_sent, half.done) = (false, false);
            return self.dispatch(io, place);
        }
        let address = self.turns.address(exchange.index);
        let text = format!("the upstream {address} {why}\n");
        self.answer(io, place, 502, &text);
    }

    /// Separates an exchange from its upstream. If the upstream has not completed it, cancels it.
    pub(super) fn leave_upstream(&mut self, io: &mut impl EventLoop, place: u32, code: Code) {
        let Some(exchange) = self.exchanges.get(place) else { return };
        let stream = std::mem::take(&mut exchange.upstream_stream);
        let Some(token) = exchange.upstream.take() else { return };
        match self.peers.get(token) {
            Some(Peer::Link(link)) => {
                link.connection.reset(stream, code, &mut link.output);
                let is_over = link.connection.is_closing() && link.connection.open_streams() == 0;
                self.touch(token);
                if is_over {
                    self.drop_upstream(io, token, "has ended the connection");
                }
            }
            // A connection that has completed its exchange has left it already.
            Some(Peer::Http1(_)) => self.drop_upstream(io, token, "has ended the connection"),
            _ => {}
        }
    }
}
