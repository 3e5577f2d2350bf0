//! Passes requests to upstreams and responses to clients, as fast as the receivers accept them.

use super::fields::{Coding, own_head};
use super::state::{Half, Link, Peer, Worker};
use crate::hop::turns::HIGH_WATER;
use hoptax_load::event_loop::{EventLoop, Token};
use hoptax_wire::http1::chunk_size_line;
use hoptax_wire::http2::{Block, Code};

/// Sends the data and the end of a half on a stream. `fresh` is data that has just arrived. Returns the
/// number of bytes for which the receiver had room, or that nobody needs any more.
fn send_on_stream(
    half: &mut Half,
    (link, stream): (&mut Link, u32),
    (fresh, is_slow): (&[u8], bool),
    no_fields: &Block,
) -> usize {
    if half.done {
        return fresh.len();
    }
    if is_slow || !half.data.is_empty() {
        half.data.extend_from_slice(fresh);
    }
    if is_slow {
        return 0;
    }
    let is_kept = !half.data.is_empty();
    let data = if is_kept { half.data.as_slice() } else { fresh };
    let has_ended = half.ended && !half.is_waiting();
    let end = has_ended && half.trailers.is_empty();
    let length = data.len();
    if length > 0 || end {
        let Some(sent) = link.connection.send_data(stream, data, end, &mut link.output) else {
            // The receiver has reset the stream. An event will report this.
            half.data.clear();
            half.done = true;
            return length;
        };
        if sent < length {
            if is_kept {
                half.data.drain(..sent);
            } else {
                half.data.extend_from_slice(&fresh[sent..]);
            }
            return sent;
        }
        half.data.clear();
    }
    if has_ended {
        if !half.trailers.is_empty() {
            link.connection.send_head(stream, no_fields, &half.trailers, true, &mut link.output);
        }
        half.done = true;
    }
    length
}

impl Worker {
    /// Passes the part of a request that has arrived to its upstream. `fresh` is data that has just arrived.
    pub(super) fn pass_request(&mut self, io: &mut impl EventLoop, place: u32, fresh: &[u8]) {
        let Some(exchange) = self.exchanges.get(place) else { return };
        let (client, client_stream) = (exchange.client, exchange.client_stream);
        let (Some(to), None) = (exchange.upstream, exchange.request.held) else {
            if exchange.request.done {
                // The hop has answered the request itself, and nobody needs its body.
                return self.release(client, client_stream, fresh.len());
            }
            exchange.request.data.extend_from_slice(fresh);
            return;
        };
        let half = &mut exchange.request;
        let taken = match self.peers.get(to) {
            Some(Peer::Link(link)) => {
                let is_slow = io.unsent(to) + link.output.len() > HIGH_WATER;
                link.slow |= is_slow;
                if !half.head_sent {
                    let end = half.is_head_alone() && fresh.is_empty();
                    let Link { connection, output, .. } = &mut **link;
                    let (head, no_fields) = (&half.head, &self.no_fields);
                    let stream = connection.request(place, exchange.is_head, no_fields, head, end, output);
                    let Some(stream) = stream else {
                        half.data.extend_from_slice(fresh);
                        let why = "has no free stream";
                        return self.upstream_lost(io, place, why, true);
                    };
                    exchange.upstream_stream = stream;
                    (half.head_sent, half.done) = (true, end);
                }
                send_on_stream(
                    half,
                    (&mut **link, exchange.upstream_stream),
                    (fresh, is_slow),
                    &self.no_fields,
                )
            }
            Some(Peer::Http1(http1)) => {
                if !half.head_sent {
                    http1.output.extend_from_slice(&half.head);
                    half.head_sent = true;
                }
                half.data.extend_from_slice(fresh);
                let is_slow = io.unsent(to) + http1.output.len() > HIGH_WATER;
                http1.slow |= is_slow;
                if is_slow || half.done {
                    0
                } else {
                    let length = half.data.len();
                    if exchange.coding == Coding::Chunks && length > 0 {
                        chunk_size_line(&mut http1.output, length);
                        http1.output.extend_from_slice(&half.data);
                        http1.output.extend_from_slice(b"\r\n");
                    } else {
                        http1.output.extend_from_slice(&half.data);
                    }
                    half.data.clear();
                    if half.ended && exchange.coding == Coding::Chunks {
                        http1.output.extend_from_slice(b"0\r\n\r\n");
                    }
                    half.done = half.ended;
                    length
                }
            }
            _ => fresh.len(),
        };
        self.touch(to);
        self.release(client, client_stream, taken);
        self.end_if_over(io, place);
    }

    /// Passes the part of a response that has arrived to its client. `fresh` is data that has just arrived.
    pub(super) fn pass_response(&mut self, io: &mut impl EventLoop, place: u32, fresh: &[u8]) {
        let Some(exchange) = self.exchanges.get(place) else { return };
        let (to, stream) = (exchange.client, exchange.client_stream);
        let half = &mut exchange.response;
        if let (true, Some(altered)) = (half.ended, &mut half.altered) {
            altered.end(&mut half.data);
        }
        if half.held.is_some() || half.head.is_empty() {
            half.data.extend_from_slice(fresh);
            return self.regulate(io, place);
        }
        let Some(link) = self.peers.link(to) else { return };
        if !half.head_sent {
            let end = half.is_head_alone() && fresh.is_empty();
            let Link { connection, output, .. } = link;
            connection.send_head(stream, &self.no_fields, &half.head, end, output);
            (half.head_sent, half.done) = (true, end);
        }
        let is_slow = io.unsent(to) + link.output.len() > HIGH_WATER;
        link.slow |= is_slow;
        let taken = send_on_stream(half, (link, stream), (fresh, is_slow), &self.no_fields);
        self.touch(to);
        if let Some(exchange) = self.exchanges.get(place)
            && let (Some(from), None) = (exchange.upstream, &exchange.response.altered)
        {
            let stream = exchange.upstream_stream;
            self.release(from, stream, taken);
        }
        self.regulate(io, place);
        self.end_if_over(io, place);
    }

    /// Pauses reading from an upstream over HTTP/1 while the exchange keeps much of its response. HTTP/2 has
    /// windows for this.
    fn regulate(&mut self, io: &mut impl EventLoop, place: u32) {
        let Some(exchange) = self.exchanges.get(place) else { return };
        let (Some(from), kept) = (exchange.upstream, exchange.response.data.len()) else { return };
        let Some(http1) = self.peers.http1(from) else { return };
        if http1.paused && kept <= HIGH_WATER / 2 {
            http1.paused = false;
            io.resume(from);
        } else if !http1.paused && kept > HIGH_WATER {
            http1.paused = true;
            io.pause(from);
        }
    }

    /// Gives window space back to the sender of data.
    pub(super) fn release(&mut self, token: Token, stream: u32, bytes: usize) {
        if bytes > 0
            && let Some(link) = self.peers.link(token)
        {
            link.connection.release(stream, bytes as u32, &mut link.output);
            self.touch(token);
        }
    }

    /// Frees the exchange if its response was sent.
    fn end_if_over(&mut self, io: &mut impl EventLoop, place: u32) {
        let Some(exchange) = self.exchanges.get(place) else { return };
        if !exchange.response.done {
            return;
        }
        let (client, stream) = (exchange.client, exchange.client_stream);
        let request_ended = exchange.request.ended;
        self.end_exchange(io, place, Code::NO_ERROR);
        if !request_ended && let Some(link) = self.peers.link(client) {
            // Nobody needs the rest of the request (RFC 9113, section 8.1).
            link.connection.reset(stream, Code::NO_ERROR, &mut link.output);
        }
        self.close_if_done(io, client);
    }

    /// Ends the exchange without a response, or without the rest of the response.
    pub(super) fn reset_client(&mut self, io: &mut impl EventLoop, place: u32) {
        let Some(exchange) = self.exchanges.get(place) else { return };
        let (client, stream) = (exchange.client, exchange.client_stream);
        self.end_exchange(io, place, Code::CANCEL);
        if let Some(link) = self.peers.link(client) {
            link.connection.reset(stream, Code::INTERNAL_ERROR, &mut link.output);
            self.touch(client);
        }
        self.close_if_done(io, client);
    }

    /// Frees the place of an exchange. If its upstream has not completed it, `code` says why it ends.
    pub(super) fn end_exchange(&mut self, io: &mut impl EventLoop, place: u32, code: Code) {
        self.release_kept(place);
        self.leave_upstream(io, place, code);
        self.exchanges.end(place);
    }

    /// Gives the windows of data back that the exchange keeps and will not send.
    pub(super) fn release_kept(&mut self, place: u32) {
        let Some(exchange) = self.exchanges.get(place) else { return };
        let of_response = if exchange.response.altered.is_some() { 0 } else { exchange.response.data.len() };
        let kept = [exchange.request.data.len(), of_response];
        let (client, client_stream) = (exchange.client, exchange.client_stream);
        let (upstream, upstream_stream) = (exchange.upstream, exchange.upstream_stream);
        exchange.request.data.clear();
        exchange.response.data.clear();
        self.release(client, client_stream, kept[0]);
        upstream.into_iter().for_each(|upstream| self.release(upstream, upstream_stream, kept[1]));
    }

    /// Answers with a text of the hop's own. The exchange has no upstream.
    pub(super) fn answer(&mut self, io: &mut impl EventLoop, place: u32, status: u16, text: &str) {
        self.release_kept(place);
        let Some(exchange) = self.exchanges.get(place) else { return };
        (exchange.request.done, exchange.request.held) = (true, None);
        let half = &mut exchange.response;
        half.head.clear();
        half.altered = None;
        own_head(status, text.len(), &mut half.head);
        if !exchange.is_head {
            half.data.extend_from_slice(text.as_bytes());
        }
        (half.ended, half.held) = (true, None);
        self.pass_response(io, place, &[]);
    }
}
