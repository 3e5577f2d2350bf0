//! Handles the upstream's side: streams responses to the client, and keeps, closes or replaces upstream
//! connections.

use super::bodies::Changed;
use super::events::{self, Altered};
use super::proxy::Proxy;
use super::rewrite;
use super::state::Peer;
use crate::hop::turns::HIGH_WATER;
use hoptax_format::Address;
use hoptax_load::event_loop::{EventLoop, Token};
use hoptax_plan::HopFaults;
use hoptax_wire::http1::{Malformed, ResponseHead, Step, Version};
use std::io;
use std::mem;

enum Passed {
    NeedMore,
    Part { consumed: usize },
    End { consumed: usize, keep_alive: bool },
    Retry,
}

/// Why an upstream connection gave no complete response.
#[derive(Debug)]
pub(super) enum Lost {
    Unreachable(io::Error),
    Failed(io::Error),
    Closed,
    /// The response is malformed. The text says why.
    Malformed(String),
}

impl Lost {
    pub(super) fn describe(&self, upstream: &Address) -> String {
        match self {
            Self::Unreachable(error) => format!("the upstream {upstream} cannot be reached: {error}\n"),
            Self::Failed(error) => format!("the connection to the upstream {upstream} failed: {error}\n"),
            Self::Closed => format!("the upstream {upstream} closed the connection before its response\n"),
            Self::Malformed(why) => format!("the response of the upstream {upstream} is malformed: {why}\n"),
        }
    }
}

impl Proxy {
    /// Streams a response to its client. `input` holds all bytes that were received and not consumed. Returns
    /// the number of bytes consumed, which is all of them if the response is complete or the connection is
    /// lost.
    pub(super) fn read_response(&mut self, io: &mut impl EventLoop, token: Token, input: &[u8]) -> usize {
        if self.peers.upstream(token).is_some_and(|upstream| upstream.is_abandoned) {
            return self.read_abandoned(io, token, input);
        }
        if self.hold_answer(io, token) {
            return 0;
        }
        let mut at = 0;
        loop {
            match self.pass_on(token, &input[at..]) {
                Ok(Passed::NeedMore) => {
                    self.send_client(io, token, None);
                    return at;
                }
                Ok(Passed::Part { consumed }) => at += consumed,
                Ok(Passed::Retry) => {
                    self.retry(io, token);
                    return input.len();
                }
                Ok(Passed::End { consumed, keep_alive }) => {
                    // If an upstream sends more than its response, its connection is not used again.
                    let reusable = keep_alive && at + consumed == input.len();
                    self.send_client(io, token, Some(reusable));
                    return input.len();
                }
                Err(malformed) => {
                    // The response is malformed, or there is no request for it. The bytes before the error
                    // are still sent, so that the client sees where the response ended.
                    let client = self.peers.upstream(token).and_then(|upstream| upstream.client);
                    self.send_client(io, token, None);
                    if self.peers.upstream(token).is_some_and(|upstream| upstream.client == client) {
                        self.upstream_lost(io, token, &Lost::Malformed(malformed.describe(&input[at..])));
                    }
                    client.into_iter().for_each(|client| self.read_on(io, client));
                    return input.len();
                }
            }
        }
    }

    /// Processes one step of the response at the front of `input`, and leaves the bytes for the client in
    /// `self.out`.
    fn pass_on(&mut self, token: Token, input: &[u8]) -> Result<Passed, Malformed> {
        let upstream = self.peers.upstream(token).ok_or(Malformed::UnexpectedBytes)?;
        let client = upstream.client.ok_or(Malformed::UnexpectedBytes)?;
        let step = upstream.decoder.advance_with(&mut self.response_heads, input)?;
        let exchange = self.peers.exchange(client).ok_or(Malformed::UnexpectedBytes)?;
        let kind = rewrite::Client { version: exchange.version, keep_alive: exchange.keep_alive };
        let out = &mut self.out;
        Ok(match step {
            Step::NeedMore => Passed::NeedMore,
            Step::Interim { consumed } => {
                // HTTP/1.0 has no interim responses.
                if exchange.version == Version::Http11 {
                    rewrite::interim(out, &input[..consumed])?;
                }
                Passed::Part { consumed }
            }
            Step::Head { consumed, head } => {
                let raw = &input[..consumed];
                let is_refused = head.status == 429 || head.status >= 500;
                if is_refused && exchange.request_done && exchange.retries > 0 {
                    return Ok(Passed::Retry);
                }
                exchange.answered = Changed::of_response(self.holds.llm(), raw, head.framing).map(Box::new);
                let framing = exchange.answered.as_ref().map(|body| body.framing(head.framing));
                let head = ResponseHead { framing: framing.unwrap_or(head.framing), ..head };
                let coding = self.responses.or_rewrite(out, raw, (kind, exchange.is_head), |out| {
                    rewrite::response(out, raw, &head, kind)
                })?;
                exchange.to_client = Some(coding);
                let faults = self.holds.faults.filter(HopFaults::changes_messages);
                let faults = faults.filter(|_| events::can_change(raw, &head));
                exchange.events = faults.map(|faults| Box::new(Altered::new(faults)));
                exchange.stays = kind.stays(head.framing);
                Passed::Part { consumed }
            }
            Step::Body { consumed, data } => {
                exchange.write_to_client(out, &input[data], client, &mut self.holds);
                Passed::Part { consumed }
            }
            Step::End { consumed, keep_alive } => {
                exchange.end_to_client(out);
                Passed::End { consumed, keep_alive }
            }
        })
    }

    /// Sends `self.out` to the upstream's client. `over` is `None` if the response has not ended yet.
    /// Otherwise, `over` is true if the upstream connection may be used again.
    pub(super) fn send_client(&mut self, io: &mut impl EventLoop, upstream: Token, over: Option<bool>) {
        let Some(client) = self.peers.upstream(upstream).and_then(|upstream| upstream.client) else { return };
        let sent = if self.out.is_empty() { Ok(()) } else { io.send(client, &self.out) };
        self.out.clear();
        if sent.is_err() {
            self.drop_client(io, client);
            if over.is_some() && self.peers.upstream(upstream).is_some() {
                self.drop_upstream(io, upstream);
            }
            return;
        }
        let Some(reusable) = over else {
            if io.unsent(client) > HIGH_WATER
                && !self.holds.llm().unbounded
                && let Some(source) = self.peers.upstream(upstream)
            {
                source.paused = true;
                io.pause(upstream);
            }
            return;
        };
        let Some(exchange) = self.peers.exchange(client) else { return };
        exchange.upstream = None;
        exchange.response_done = true;
        // If the client is still sending the request when the response has ended, the rest of the request is
        // discarded. The upstream connection is not used again, because it received only the beginning of the
        // request.
        let whole = exchange.request_done;
        self.release(io, upstream, reusable && whole);
        self.end_if_over(io, client);
        self.read_on(io, client);
    }

    fn release(&mut self, io: &mut impl EventLoop, token: Token, reusable: bool) {
        let Some(upstream) = self.peers.upstream(token) else { return };
        if !reusable || io.unsent(token) > 0 {
            return self.drop_upstream(io, token);
        }
        upstream.client = None;
        upstream.reused = true;
        upstream.heard = false;
        if mem::replace(&mut upstream.paused, false) {
            io.resume(token);
        }
        self.idle[upstream.index].push(token);
    }

    pub(super) fn drop_upstream(&mut self, io: &mut impl EventLoop, token: Token) {
        io.close(token);
        let Peer::Upstream(upstream) = self.peers.take(token) else { return };
        self.tokens.give_back(token);
        let idle = &mut self.idle[upstream.index];
        if upstream.client.is_none()
            && let Some(place) = idle.iter().rposition(|&idle| idle == token)
        {
            idle.remove(place);
        }
    }

    /// Handles an upstream connection that has ended early. A pooled connection may have been closed before
    /// the request reached the upstream. In this case, a repeatable request is sent once more on a new
    /// connection. Otherwise, the client gets a 502 response, or its connection is closed if the response has
    /// already begun.
    pub(super) fn upstream_lost(&mut self, io: &mut impl EventLoop, token: Token, lost: &Lost) {
        let Some(upstream) = self.peers.upstream(token) else { return };
        let (client, index) = (upstream.client, upstream.index);
        let stale = upstream.reused && !upstream.heard;
        self.drop_upstream(io, token);
        let Some(client) = client else { return };
        let Some(exchange) = self.peers.exchange(client) else { return };
        exchange.upstream = None;
        if exchange.to_client.is_some() {
            return self.end_cut(io, client);
        }
        if !(stale && exchange.repeatable) {
            return self.bad_gateway(io, client, index, lost);
        }
        let head = self.peers.client(client).map(|client| client.head.clone()).unwrap_or_default();
        self.ask_again(io, client, index, head);
    }

    /// Sends a request on a new connection.
    fn ask_again(&mut self, io: &mut impl EventLoop, client: Token, index: usize, request: Vec<u8>) {
        let fresh = match self.connect(io, index) {
            Ok(fresh) => fresh,
            Err(error) => return self.bad_gateway(io, client, index, &Lost::Unreachable(error)),
        };
        if let Some(upstream) = self.peers.upstream(fresh) {
            upstream.waiting = request;
        }
        self.join(client, fresh);
    }

    /// Closes this connection, on which a refusal has arrived, and sends the refused request again.
    fn retry(&mut self, io: &mut impl EventLoop, token: Token) {
        let Some(upstream) = self.peers.upstream(token) else { return };
        let (client, index) = (upstream.client, upstream.index);
        self.drop_upstream(io, token);
        let Some(client) = client else { return };
        let Some(exchange) = self.peers.exchange(client) else { return };
        exchange.upstream = None;
        exchange.retries -= 1;
        let request = exchange.sent.clone();
        self.out.clear();
        self.ask_again(io, client, index, request);
    }

    /// Ends a response that the upstream has cut: with a regular end if the plan says so, otherwise by
    /// closing the client's connection.
    fn end_cut(&mut self, io: &mut impl EventLoop, client: Token) {
        let Some(exchange) = self.peers.exchange(client) else { return };
        if !exchange.end_falsely(&mut self.out) {
            return self.drop_client(io, client);
        }
        exchange.response_done = true;
        let sent = io.send(client, &self.out);
        self.out.clear();
        if sent.is_err() {
            return self.drop_client(io, client);
        }
        self.end_if_over(io, client);
    }

    /// Keeps an upstream connection whose client has left, until the response has ended.
    pub(super) fn abandon(&mut self, io: &mut impl EventLoop, token: Token) {
        let Some(upstream) = self.peers.upstream(token) else { return };
        upstream.client = None;
        upstream.is_abandoned = true;
        if upstream.held.is_none() && mem::replace(&mut upstream.paused, false) {
            io.resume(token);
        }
    }

    /// Reads a response whose client has left. Returns the number of bytes consumed.
    fn read_abandoned(&mut self, io: &mut impl EventLoop, token: Token, input: &[u8]) -> usize {
        let mut at = 0;
        while let Some(upstream) = self.peers.upstream(token) {
            match upstream.decoder.advance_with(&mut self.response_heads, &input[at..]) {
                Ok(Step::NeedMore) => return at,
                Ok(
                    Step::Interim { consumed } | Step::Head { consumed, .. } | Step::Body { consumed, .. },
                ) => at += consumed,
                Ok(Step::End { .. }) | Err(_) => self.drop_upstream(io, token),
            }
        }
        input.len()
    }
}
