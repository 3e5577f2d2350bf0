//! Handles the client's side: reads requests, and forwards or answers them.

use super::bodies::Changed;
use super::proxy::Proxy;
use super::responses::Lost;
use super::rewrite;
use super::state::{Exchange, Peer, Upstream};
use super::tunnels::{is_connect, is_websocket};
use crate::hop::forward::Refusal;
use crate::hop::turns::HIGH_WATER;
use hoptax_load::event_loop::{EventLoop, Token};
use hoptax_plan::units;
use hoptax_wire::http1::{Framing, RequestHead, RequestStep, Version, response_head};
use std::io;
use std::mem;

/// A client may send further requests before the current request is finished. This is the maximum number of
/// bytes of such requests that the hop keeps.
const LONGEST_QUEUE: usize = 64 * 1024;

impl Proxy {
    /// Forwards requests from the front of `input`. Stops at a request that must wait for an earlier
    /// response. Returns the number of bytes consumed.
    pub(super) fn read_requests(&mut self, io: &mut impl EventLoop, token: Token, input: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let Some(client) = self.peers.client(token) else {
                self.out.clear();
                return at;
            };
            let waiting = client.exchange.as_ref().is_some_and(|exchange| exchange.request_done);
            let behind = client.exchange.is_none() && io.unsent(token) > HIGH_WATER;
            if waiting || behind || client.last || client.held.is_some() {
                break;
            }
            match client.decoder.advance_with(&mut self.request_heads, &input[at..]) {
                Ok(RequestStep::NeedMore) => break,
                Ok(RequestStep::Head { consumed, head }) => {
                    let raw = &input[at..at + consumed];
                    if is_connect(raw, &head) {
                        at += consumed;
                        if self.begin_tunnel(io, token, raw, &head) {
                            self.tunnels.received(io, &mut self.tokens, token, &input[at..]);
                            return input.len();
                        }
                        continue;
                    }
                    if self.forward.is_none() && is_websocket(raw, &head) {
                        at += consumed;
                        if self.begin_websocket(io, token, raw, &head) {
                            self.tunnels.received(io, &mut self.tokens, token, &input[at..]);
                            return input.len();
                        }
                        continue;
                    }
                    if !self.hold_request(token, raw, &head) {
                        self.begin(io, token, raw, &head);
                    }
                    at += consumed;
                }
                Ok(RequestStep::Body { consumed, data }) => {
                    if let Some(exchange) = &mut client.exchange {
                        exchange.write_to_upstream(&mut self.out, &input[at..][data]);
                    }
                    at += consumed;
                }
                Ok(RequestStep::End { consumed, .. }) => {
                    at += consumed;
                    if let Some(exchange) = &mut client.exchange {
                        exchange.request_done = true;
                        exchange.to_upstream.end(&mut self.out);
                    }
                    self.send_upstream(io, token);
                    self.end_if_over(io, token);
                }
                Err(error) => {
                    self.out.clear();
                    self.refuse(io, token, error.into());
                    return at;
                }
            }
        }
        self.send_upstream(io, token);
        at
    }

    /// Starts an exchange and puts the head of its request into `self.out`.
    pub(super) fn begin(&mut self, io: &mut impl EventLoop, token: Token, raw: &[u8], head: &RequestHead) {
        let index = self.turns.next();
        let address = self.turns.address(index);
        let forward = self.forward.as_ref();
        let llm = self.holds.llm();
        let asked = Changed::of_request(llm, raw, head.framing);
        let framing = asked.as_ref().map_or(head.framing, |body| body.framing(head.framing));
        let head = &RequestHead { framing, ..head.clone() };
        let rewritten = self.requests.or_rewrite(&mut self.out, raw, index, |out| match forward {
            None => Ok(rewrite::request(out, raw, head, &units::host_header_of(false, address))?),
            Some(forward) => {
                let asked = forward.whole_url(&raw[head.target.clone()])?;
                Ok::<_, Refusal>(rewrite::request_for(out, raw, head, &asked)?)
            }
        });
        let to_upstream = match rewritten {
            Ok(coding) => coding,
            Err(refusal) => {
                self.out.clear();
                return self.refuse(io, token, refusal);
            }
        };
        let Some(client) = self.peers.client(token) else { return };
        // A request without a body can be repeated if its method is idempotent (RFC 9110 §9.2.2).
        let idempotent = [&b"GET"[..], b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"TRACE"]
            .contains(&&raw[head.method.clone()]);
        client.head.clear();
        client.head.extend_from_slice(&self.out);
        client.exchange = Some(Exchange {
            version: head.version,
            is_head: head.is_head,
            keep_alive: head.keep_alive,
            repeatable: idempotent && head.framing == Framing::None,
            upstream: None,
            to_upstream,
            request_done: false,
            to_client: None,
            stays: head.keep_alive,
            response_done: false,
            events: None,
            asked,
            answered: None,
            retries: llm.retry,
            sent: Vec::new(),
        });
        let upstream = match self.idle[index].pop() {
            Some(idle) => idle,
            None => match self.connect(io, index) {
                Ok(upstream) => upstream,
                Err(error) => return self.bad_gateway(io, token, index, &Lost::Unreachable(error)),
            },
        };
        self.join(token, upstream);
    }

    pub(super) fn connect(&mut self, io: &mut impl EventLoop, index: usize) -> io::Result<Token> {
        let upstream = self.tokens.take();
        match io.connect(upstream, self.turns.address(index), None) {
            Ok(()) => self.peers.put(upstream, Peer::Upstream(Box::new(Upstream::new(index)))),
            Err(error) => {
                self.tokens.give_back(upstream);
                return Err(error);
            }
        }
        Ok(upstream)
    }

    pub(super) fn join(&mut self, token: Token, upstream: Token) {
        let Some(exchange) = self.peers.exchange(token) else { return };
        exchange.upstream = Some(upstream);
        let is_head = exchange.is_head;
        if let Some(upstream) = self.peers.upstream(upstream) {
            upstream.client = Some(token);
            upstream.decoder.begin(is_head);
        }
    }

    /// Sends `self.out` to the client's upstream, or discards it if the client no longer has an upstream.
    fn send_upstream(&mut self, io: &mut impl EventLoop, token: Token) {
        if self.out.is_empty() {
            return;
        }
        let out = mem::take(&mut self.out);
        let upstream = self.peers.exchange(token).and_then(|exchange| {
            if exchange.retries > 0 {
                exchange.sent.extend_from_slice(&out);
            }
            exchange.upstream
        });
        if let Some(token) = upstream
            && let Some(upstream) = self.peers.upstream(token)
        {
            if !upstream.connected {
                upstream.waiting.extend_from_slice(&out);
            } else if let Err(error) = io.send(token, &out) {
                io.close(token);
                self.upstream_lost(io, token, &Lost::Failed(error));
            }
        }
        self.out = out;
        self.out.clear();
    }

    /// Reads the bytes that a client has already sent. Called after an exchange has ended, after responses
    /// were sent, and when a delayed request continues. In the last case, the head of the delayed request is
    /// in `self.out`.
    pub(super) fn read_on(&mut self, io: &mut impl EventLoop, token: Token) {
        let Some(client) = self.peers.client(token) else { return self.out.clear() };
        let kept = mem::take(&mut client.kept);
        let consumed = self.read_requests(io, token, &kept);
        let Some(client) = self.peers.client(token) else { return };
        client.kept = kept;
        client.kept.drain(..consumed);
        if client.kept.is_empty() {
            client.kept = Vec::new();
        }
        self.regulate(io, token);
        self.close_if_done(io, token);
    }

    /// Pauses reading from the client while its upstream is slow, or while many unread bytes of the client
    /// are waiting. Otherwise, resumes reading.
    pub(super) fn regulate(&mut self, io: &mut impl EventLoop, token: Token) {
        let upstream = self.peers.exchange(token).and_then(|exchange| exchange.upstream);
        let backlog = upstream.map_or(0, |upstream| {
            let waiting = self.peers.upstream(upstream).map_or(0, |upstream| upstream.waiting.len());
            waiting + io.unsent(upstream)
        });
        let Some(client) = self.peers.client(token) else { return };
        let limit = if client.paused { 0 } else { HIGH_WATER };
        let hold = client.kept.len() >= LONGEST_QUEUE || backlog > limit;
        if hold != client.paused {
            client.paused = hold;
            if hold { io.pause(token) } else { io.resume(token) }
        }
    }

    /// Closes a client that has ended its side or received its last response, once all bytes have been sent
    /// to it.
    pub(super) fn close_if_done(&mut self, io: &mut impl EventLoop, token: Token) {
        let Some(client) = self.peers.client(token) else { return };
        if client.ended && client.exchange.as_ref().is_some_and(|exchange| !exchange.request_done) {
            return self.drop_client(io, token);
        }
        let over = client.last || (client.ended && client.exchange.is_none() && client.held.is_none());
        if !over || io.unsent(token) > 0 {
            return;
        }
        let lingers = client.discarding && !client.ended;
        if !lingers || io.finish(token).is_err() {
            self.drop_client(io, token);
        }
    }

    /// Closes a client, and the upstream connection of its exchange, if it has one and the hop stops reading.
    pub(super) fn drop_client(&mut self, io: &mut impl EventLoop, token: Token) {
        io.close(token);
        let Peer::Client(client) = self.peers.take(token) else { return };
        self.tokens.give_back(token);
        let Some(exchange) = client.exchange else { return };
        let Some(upstream) = exchange.upstream else { return };
        if exchange.request_done && self.holds.llm().ignore_abort {
            self.abandon(io, upstream);
        } else {
            self.drop_upstream(io, upstream);
        }
    }

    // ---- Responses of the hop itself
    // ----------------------------------------------------------------------------------

    /// Answers a request that is not forwarded, and closes the client's connection. A malformed request gets
    /// 400.
    pub(super) fn refuse(&mut self, io: &mut impl EventLoop, token: Token, refusal: Refusal) {
        let started = self.peers.exchange(token).is_some_and(|exchange| exchange.to_client.is_some());
        if started {
            return self.drop_client(io, token);
        }
        let (status, text) = match refusal {
            Refusal::Malformed(malformed) => (400, format!("{malformed}\n")),
            Refusal::Answer(status, text) => (status, text),
        };
        let Some(client) = self.peers.client(token) else { return };
        let upstream = client.exchange.take().and_then(|exchange| exchange.upstream);
        (client.last, client.discarding) = (true, true);
        if let Some(upstream) = upstream {
            self.drop_upstream(io, upstream);
        }
        if io.send(token, &own_answer(status, &text, false, false)).is_err() {
            return self.drop_client(io, token);
        }
        self.close_if_done(io, token);
    }

    /// Answers the exchange with 502, whose body says why, and keeps the client's connection. `index` is the
    /// index of the upstream. The upstream connection is already closed.
    pub(super) fn bad_gateway(&mut self, io: &mut impl EventLoop, token: Token, index: usize, lost: &Lost) {
        let text = lost.describe(self.turns.address(index));
        let Some(exchange) = self.peers.exchange(token) else { return };
        exchange.upstream = None;
        exchange.response_done = true;
        // An HTTP/1.0 client would need a keep-alive header in the response. Closing the connection is
        // simpler.
        exchange.stays = exchange.keep_alive && exchange.version == Version::Http11;
        let (stays, is_head) = (exchange.stays, exchange.is_head);
        let answer = own_answer(502, &text, stays, is_head);
        if io.send(token, &answer).is_err() {
            return self.drop_client(io, token);
        }
        self.end_if_over(io, token);
    }

    /// Ends the client's exchange if its request and response are complete.
    pub(super) fn end_if_over(&mut self, io: &mut impl EventLoop, token: Token) {
        let Some(client) = self.peers.client(token) else { return };
        let Some(exchange) = &client.exchange else { return };
        if exchange.response_done && !exchange.stays {
            // The rest of the request is discarded. Closing the connection now could reset it before the
            // client has read the response.
            client.discarding = !exchange.request_done;
            client.last = true;
            client.exchange = None;
            self.close_if_done(io, token);
        } else if exchange.response_done && exchange.request_done {
            client.exchange = None;
        }
    }
}

fn own_answer(status: u16, text: &str, stays: bool, is_head: bool) -> Vec<u8> {
    let headers = [("content-type", "text/plain"), ("connection", "close")];
    let headers = &headers[..if stays { 1 } else { 2 }];
    let mut answer = response_head(Version::Http11, status, headers.iter().copied(), Some(text.len() as u64))
        .expect("the headers are constants");
    if !is_head {
        answer.extend_from_slice(text.as_bytes());
    }
    answer
}
