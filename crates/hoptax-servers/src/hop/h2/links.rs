//! Handles the events of connections over HTTP/2.

use super::altered::Altered;
use super::fields::{Coding, literals};
use super::state::{Link, Peer, Worker};
use hoptax_load::event_loop::{EventLoop, Token};
use hoptax_plan::HopDelay;
use hoptax_wire::http2::{Code, Step, StreamRef};
use std::mem;

impl Worker {
    pub(super) fn received_on_link(&mut self, io: &mut impl EventLoop, token: Token, bytes: &[u8]) {
        let Some(link) = self.peers.link(token).filter(|link| !link.broken) else { return };
        let mut kept = mem::take(&mut link.kept);
        if kept.is_empty() {
            let consumed = self.read_link(io, token, bytes);
            kept.extend_from_slice(&bytes[consumed..]);
        } else {
            kept.extend_from_slice(bytes);
            let consumed = self.read_link(io, token, &kept);
            kept.drain(..consumed);
        }
        if let Some(link) = self.peers.link(token) {
            link.kept = kept;
        }
    }

    /// Reads frames from the front of `input`. Returns the number of bytes consumed.
    fn read_link(&mut self, io: &mut impl EventLoop, token: Token, input: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let Some(link) = self.peers.link(token) else { return input.len() };
            let is_client = link.upstream.is_none();
            let sections = if is_client { &mut self.requests } else { &mut self.responses };
            let found = link.connection.advance(&input[at..], sections, &mut link.output);
            self.touch(token);
            let (consumed, step) = match found {
                Ok((consumed, Step::NeedMore)) => return at + consumed,
                Ok(found) => found,
                Err(fault) => {
                    self.break_link(io, token, &format!("violated the protocol: {fault}"));
                    return input.len();
                }
            };
            if is_client {
                self.client_step(io, token, step, &input[at..]);
            } else {
                self.upstream_step(io, token, step, &input[at..]);
            }
            at += consumed;
        }
    }

    /// Ends a connection whose peer has violated the protocol.
    fn break_link(&mut self, io: &mut impl EventLoop, token: Token, why: &str) {
        let Some(link) = self.peers.link(token) else { return };
        if link.upstream.is_some() {
            self.flush(io);
            return self.drop_upstream(io, token, why);
        }
        link.broken = true;
        for place in self.exchanges.of_connection(token) {
            self.cancel(io, place);
        }
    }

    fn client_step(&mut self, io: &mut impl EventLoop, token: Token, step: Step, input: &[u8]) {
        match step {
            Step::Head { stream, end } => self.begin(io, token, stream.id, end),
            Step::Body { stream, data, end } => {
                let Some(place) = self.exchanges.of_client(token, stream) else {
                    return self.release(token, stream.id, data.len());
                };
                if let Some(exchange) = self.exchanges.get(place) {
                    exchange.request.ended |= end;
                }
                self.pass_request(io, place, &input[data]);
            }
            Step::Trailers { stream } => {
                let Some(place) = self.exchanges.of_client(token, stream) else { return };
                if let Some(exchange) = self.exchanges.get(place) {
                    exchange.request.ended = true;
                    literals(self.requests.trailers.fields(), &mut exchange.request.trailers);
                }
                self.pass_request(io, place, &[]);
            }
            Step::Writable { stream } => {
                if let Some(place) = self.exchanges.of_client(token, stream) {
                    self.pass_response(io, place, &[]);
                }
            }
            Step::Reset { stream, .. } | Step::Failed { stream, .. } => {
                if let Some(place) = self.exchanges.of_client(token, stream) {
                    self.cancel(io, place);
                }
            }
            _ => {}
        }
    }

    /// Begins the exchange of a request whose head is in the sections.
    fn begin(&mut self, io: &mut impl EventLoop, client: Token, stream: u32, end: bool) {
        self.holds.warm_up();
        let delay = self.holds.draw();
        let place = self.exchanges.begin(client, stream);
        if let Some(link) = self.peers.link(client) {
            link.connection.set_tag(stream, place);
        }
        let method = self.requests.head.method();
        let is_head = method == b"HEAD";
        let is_idempotent = [&b"GET"[..], b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"TRACE"].contains(&method);
        let is_written = self.write_request_head(place, end);
        let Some(exchange) = self.exchanges.get(place) else { return };
        (exchange.is_head, exchange.is_idempotent, exchange.has_body) = (is_head, is_idempotent, !end);
        exchange.request.ended = end;
        if !is_written {
            return self.answer(io, place, 400, "the request cannot be sent over HTTP/1\n");
        }
        if let Some(HopDelay { inbound, outbound, how, .. }) = delay {
            (exchange.hold_answer, exchange.hold_messages) = (!outbound.is_zero(), true);
            exchange.request.held = self.holds.spend(Token(place), how, inbound);
            if exchange.request.held.is_some() {
                return;
            }
        }
        self.dispatch(io, place);
    }

    fn upstream_step(&mut self, io: &mut impl EventLoop, token: Token, step: Step, input: &[u8]) {
        match step {
            Step::Interim { stream } => {
                if let Some(place) = self.exchanges.of_upstream(token, stream) {
                    let mut head = Vec::new();
                    literals(self.responses.head.fields(), &mut head);
                    self.pass_interim(place, &head);
                }
            }
            Step::Head { stream, end } => {
                let Some(place) = self.exchanges.of_upstream(token, stream) else { return };
                let Some(exchange) = self.exchanges.get(place) else { return };
                let fields = self.responses.head.fields();
                self.response_heads.or_write(fields, (0, end), &mut exchange.response.head, |to| {
                    literals(fields, to);
                    Coding::Raw
                });
                exchange.response.ended = end;
                let hold_messages = exchange.hold_messages;
                let altered = self.planted(hold_messages).map(|planted| Box::new(Altered::new(planted)));
                if let Some(exchange) = self.exchanges.get(place) {
                    exchange.response.altered = altered;
                }
                self.hold_answer(place);
                self.pass_response(io, place, &[]);
            }
            Step::Body { stream, data, end } => {
                let Some(place) = self.exchanges.of_upstream(token, stream) else {
                    return self.release(token, stream.id, data.len());
                };
                if let Some(exchange) = self.exchanges.get(place) {
                    exchange.response.ended |= end;
                }
                self.pass_body(io, place, &input[data]);
            }
            Step::Trailers { stream } => {
                let Some(place) = self.exchanges.of_upstream(token, stream) else { return };
                if let Some(exchange) = self.exchanges.get(place) {
                    exchange.response.ended = true;
                    literals(self.responses.trailers.fields(), &mut exchange.response.trailers);
                }
                self.pass_response(io, place, &[]);
            }
            Step::Writable { stream } => {
                if let Some(place) = self.exchanges.of_upstream(token, stream) {
                    self.pass_request(io, place, &[]);
                }
            }
            Step::Reset { stream, code, unprocessed } => {
                self.stream_lost(io, token, stream, &format!("has reset the stream: {code}"), unprocessed);
            }
            Step::Failed { stream, fault } => {
                self.stream_lost(io, token, stream, &format!("violated the protocol: {fault}"), false);
            }
            _ => {}
        }
    }

    fn stream_lost(
        &mut self,
        io: &mut impl EventLoop,
        token: Token,
        stream: StreamRef,
        why: &str,
        unprocessed: bool,
    ) {
        if let Some(place) = self.exchanges.of_upstream(token, stream) {
            self.upstream_lost(io, place, why, unprocessed);
        }
    }

    /// Sends an interim head to the client, unless the response is delayed.
    pub(super) fn pass_interim(&mut self, place: u32, head: &[u8]) {
        let Some(exchange) = self.exchanges.get(place) else { return };
        let (client, stream) = (exchange.client, exchange.client_stream);
        if let Some(Link { connection, output, .. }) = self.peers.link(client) {
            connection.send_head(stream, &self.no_fields, head, false, output);
            self.touch(client);
        }
    }

    /// Called when the head of a response has arrived. Decides whether to delay the response.
    pub(super) fn hold_answer(&mut self, place: u32) {
        let (Some(delay), Some(exchange)) = (self.holds.delay, self.exchanges.get(place)) else { return };
        if mem::take(&mut exchange.hold_answer) {
            exchange.response.held = self.holds.spend(Token(place), delay.how, delay.outbound);
        }
    }

    /// Ends an exchange whose client no longer needs it.
    pub(super) fn cancel(&mut self, io: &mut impl EventLoop, place: u32) {
        let Some(client) = self.exchanges.get(place).map(|exchange| exchange.client) else { return };
        self.end_exchange(io, place, Code::CANCEL);
        self.close_if_done(io, client);
    }

    /// Closes a client that has ended its side, once it has all its responses.
    pub(super) fn close_if_done(&mut self, io: &mut impl EventLoop, client: Token) {
        let Some(link) = self.peers.link(client).filter(|link| link.ended) else { return };
        let unsent = !link.output.is_empty() || io.unsent(client) > 0;
        if !unsent && self.exchanges.of_connection(client).is_empty() {
            self.drop_client(io, client);
        }
    }

    /// Closes a client, and cancels its exchanges.
    pub(super) fn drop_client(&mut self, io: &mut impl EventLoop, token: Token) {
        io.close(token);
        if matches!(self.peers.take(token), Peer::Free) {
            return;
        }
        self.freed.push(token);
        for place in self.exchanges.of_connection(token) {
            self.cancel(io, place);
        }
    }
}
