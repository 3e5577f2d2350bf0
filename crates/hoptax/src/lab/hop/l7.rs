//! `hop-l7`: parses HTTP/1.1, takes each request to a pooled upstream connection, and streams the answer back.
//!
//! A client's requests are answered one after the other. An *exchange* is one request with its response:
//!
//! ```text
//!   no exchange ── head ──► request is passed on ── its end ──► waiting ── response's end ──► no exchange
//!                                  └──── response's end first (or 502) ───► rest of the request is thrown away ──┘
//! ```
//!
//! An upstream connection serves one exchange at a time and is idle in the pool in between. Invariants:
//! * a client with an exchange has at most one upstream connection, and they name each other;
//! * nothing that the loop is asked to do calls back, so only the functions below move an exchange on, and those that
//!   may end a client's or an upstream's connection look it up again afterwards.

use super::pool::{Exchange, Slot, Slots, Upstream};
use super::rewrite::{self, Last};
use super::{HIGH_WATER, Turns};
use crate::lab::net::Tokens;
use crate::lab::threads::Stop;
use hoptax_load::event_loop::{AfterEnd, Epoll, EventLoop, Handler, Token};
use hoptax_wire::http1::{
    Framing, HeadCache, Malformed, ParsedResponse, RequestHead, RequestStep, Step, Version, response_head,
};
use std::io;
use std::mem;
use std::net::{SocketAddr, TcpListener};

/// Bytes of requests that may wait behind the one that is being answered.
const LONGEST_QUEUE: usize = 64 * 1024;

/// Serves until told to stop.
pub(super) fn serve(
    listener: TcpListener,
    upstreams: Vec<SocketAddr>,
    worker: usize,
    stop: &Stop,
) -> io::Result<()> {
    let mut io = Epoll::new()?;
    let mut proxy = Proxy {
        idle: vec![Vec::new(); upstreams.len()],
        turns: Turns::new(upstreams, worker),
        tokens: Tokens::default(),
        slots: Slots::default(),
        request_heads: HeadCache::new(),
        response_heads: HeadCache::new(),
        requests: Last::default(),
        responses: Last::default(),
        out: Vec::new(),
    };
    let token = proxy.tokens.take();
    io.listen(token, listener)?;
    while !stop.asked() {
        io.turn(&mut proxy, None)?;
    }
    Ok(())
}

/// What was passed on from the front of an upstream's input.
enum Passed {
    NeedMore,
    Part { consumed: usize },
    End { consumed: usize, keep_alive: bool },
}

struct Proxy {
    turns: Turns,
    tokens: Tokens,
    slots: Slots,
    /// Idle connections by upstream; the one used last is taken first, so that superfluous ones grow old and close.
    idle: Vec<Vec<Token>>,
    request_heads: HeadCache<RequestHead>,
    response_heads: HeadCache<ParsedResponse>,
    /// By upstream: its address may stand in the head.
    requests: Last<usize>,
    responses: Last<(rewrite::Client, bool)>,
    /// Where what is sent next is put together; empty in between.
    out: Vec<u8>,
}

// ---- From the client ------------------------------------------------------------------------------------------------

impl Proxy {
    /// Passes on requests from the front of `input` until one has to be answered first; tells how much was consumed.
    fn read_requests(&mut self, io: &mut Epoll, token: Token, input: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let Some(client) = self.slots.client(token) else {
                self.out.clear();
                return at;
            };
            let waiting = client.exchange.as_ref().is_some_and(|exchange| exchange.request_done);
            let behind = client.exchange.is_none() && io.unsent(token) > HIGH_WATER;
            if waiting || behind || client.last {
                break;
            }
            match client.decoder.advance_with(&mut self.request_heads, &input[at..]) {
                Ok(RequestStep::NeedMore) => break,
                Ok(RequestStep::Head { consumed, head }) => {
                    self.begin(io, token, &input[at..at + consumed], &head);
                    at += consumed;
                }
                Ok(RequestStep::Body { consumed, data }) => {
                    if let Some(exchange) = &client.exchange {
                        exchange.to_upstream.write(&mut self.out, &input[at..][data]);
                    }
                    at += consumed;
                }
                Ok(RequestStep::End { consumed, .. }) => {
                    at += consumed;
                    if let Some(exchange) = &mut client.exchange {
                        exchange.request_done = true;
                        exchange.to_upstream.end(&mut self.out);
                    }
                    self.to_upstream(io, token);
                    self.end_if_over(io, token);
                }
                Err(error) => {
                    self.out.clear();
                    self.refuse(io, token, error);
                    return at;
                }
            }
        }
        self.to_upstream(io, token);
        at
    }

    /// Starts an exchange: its head stands in `self.out` afterwards.
    fn begin(&mut self, io: &mut Epoll, token: Token, raw: &[u8], head: &RequestHead) {
        if &raw[head.method.clone()] == b"CONNECT" {
            return self.answer_and_close(io, token, 501, "this hop makes no tunnels\n");
        }
        let index = self.turns.next();
        let address = self.turns.address(index);
        let rewritten = self.requests.or_rewrite(&mut self.out, raw, index, |out| {
            rewrite::request(out, raw, head, &address.to_string())
        });
        let to_upstream = match rewritten {
            Ok(coding) => coding,
            Err(error) => {
                self.out.clear();
                return self.refuse(io, token, error);
            }
        };
        let Some(client) = self.slots.client(token) else { return };
        // A request without a body can be sent again as it is, and these methods may be (RFC 9110 §9.2.2).
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
        });
        let upstream = match self.idle[index].pop() {
            Some(idle) => idle,
            None => match self.connect(io, index) {
                Ok(upstream) => upstream,
                Err(_) => return self.bad_gateway(io, token),
            },
        };
        self.join(token, upstream);
    }

    fn connect(&mut self, io: &mut Epoll, index: usize) -> io::Result<Token> {
        let upstream = self.tokens.take();
        match io.connect(upstream, self.turns.address(index), None) {
            Ok(()) => self.slots.put(upstream, Slot::Upstream(Box::new(Upstream::new(index)))),
            Err(error) => {
                self.tokens.give_back(upstream);
                return Err(error);
            }
        }
        Ok(upstream)
    }

    fn join(&mut self, token: Token, upstream: Token) {
        let Some(exchange) = self.slots.exchange(token) else { return };
        exchange.upstream = Some(upstream);
        let is_head = exchange.is_head;
        if let Some(upstream) = self.slots.upstream(upstream) {
            upstream.client = Some(token);
            upstream.decoder.begin(is_head);
        }
    }

    /// Sends what stands in `self.out` to the client's upstream, or throws it away when there is none any more.
    fn to_upstream(&mut self, io: &mut Epoll, token: Token) {
        if self.out.is_empty() {
            return;
        }
        let out = mem::take(&mut self.out);
        let upstream = self.slots.exchange(token).and_then(|exchange| exchange.upstream);
        if let Some(token) = upstream
            && let Some(upstream) = self.slots.upstream(token)
        {
            if !upstream.connected {
                upstream.waiting.extend_from_slice(&out);
            } else if io.send(token, &out).is_err() {
                io.close(token);
                self.upstream_lost(io, token);
            }
        }
        self.out = out;
        self.out.clear();
    }

    /// Reads on in what a client had sent ahead, after an exchange is over or its answers have left.
    fn read_on(&mut self, io: &mut Epoll, token: Token) {
        let Some(client) = self.slots.client(token) else { return };
        let kept = mem::take(&mut client.kept);
        let consumed = self.read_requests(io, token, &kept);
        let Some(client) = self.slots.client(token) else { return };
        client.kept = kept;
        client.kept.drain(..consumed);
        if client.kept.is_empty() {
            client.kept = Vec::new();
        }
        self.regulate(io, token);
        self.close_if_done(io, token);
    }

    /// Holds the client back while its upstream is slow or much of what it sent waits; lets it go on otherwise.
    fn regulate(&mut self, io: &mut Epoll, token: Token) {
        let upstream = self.slots.exchange(token).and_then(|exchange| exchange.upstream);
        let backlog = upstream.map_or(0, |upstream| {
            let waiting = self.slots.upstream(upstream).map_or(0, |upstream| upstream.waiting.len());
            waiting + io.unsent(upstream)
        });
        let Some(client) = self.slots.client(token) else { return };
        let limit = if client.paused { 0 } else { HIGH_WATER };
        let hold = client.kept.len() >= LONGEST_QUEUE || backlog > limit;
        if hold != client.paused {
            client.paused = hold;
            if hold { io.pause(token) } else { io.resume(token) }
        }
    }

    /// Closes a client that has ended its side or had its last answer, once nothing is left to be sent to it.
    fn close_if_done(&mut self, io: &mut Epoll, token: Token) {
        let Some(client) = self.slots.client(token) else { return };
        if client.ended && client.exchange.as_ref().is_some_and(|exchange| !exchange.request_done) {
            return self.drop_client(io, token);
        }
        let over = client.last || (client.ended && client.exchange.is_none());
        if !over || io.unsent(token) > 0 {
            return;
        }
        let lingers = client.deaf && !client.ended;
        if !lingers || io.finish(token).is_err() {
            self.drop_client(io, token);
        }
    }

    /// Closes a client, and the upstream connection of its exchange with it: nobody waits for that answer.
    fn drop_client(&mut self, io: &mut Epoll, token: Token) {
        io.close(token);
        let Slot::Client(client) = self.slots.take(token) else { return };
        self.tokens.give_back(token);
        if let Some(upstream) = client.exchange.and_then(|exchange| exchange.upstream) {
            self.drop_upstream(io, upstream);
        }
    }

    // ---- Answers of our own -----------------------------------------------------------------------------------------

    /// Answers what is not a request with 400.
    fn refuse(&mut self, io: &mut Epoll, token: Token, error: Malformed) {
        let started = self.slots.exchange(token).is_some_and(|exchange| exchange.to_client.is_some());
        if started {
            return self.drop_client(io, token);
        }
        self.answer_and_close(io, token, 400, &format!("{error}\n"));
    }

    fn answer_and_close(&mut self, io: &mut Epoll, token: Token, status: u16, text: &str) {
        let Some(client) = self.slots.client(token) else { return };
        let upstream = client.exchange.take().and_then(|exchange| exchange.upstream);
        (client.last, client.deaf) = (true, true);
        if let Some(upstream) = upstream {
            self.drop_upstream(io, upstream);
        }
        if io.send(token, &own_answer(status, text, false, false)).is_err() {
            return self.drop_client(io, token);
        }
        self.close_if_done(io, token);
    }

    /// Answers the exchange with 502; the client's connection lives on. The upstream is gone already.
    fn bad_gateway(&mut self, io: &mut Epoll, token: Token) {
        let Some(exchange) = self.slots.exchange(token) else { return };
        exchange.upstream = None;
        exchange.response_done = true;
        // To a 1.0 client it would have to be said that the connection stays; it is simpler not to.
        exchange.stays = exchange.keep_alive && exchange.version == Version::Http11;
        let (stays, is_head) = (exchange.stays, exchange.is_head);
        let answer = own_answer(502, "the upstream cannot be reached, or broke off\n", stays, is_head);
        if io.send(token, &answer).is_err() {
            return self.drop_client(io, token);
        }
        self.end_if_over(io, token);
    }

    /// Ends the client's exchange when both its request and its response are over.
    fn end_if_over(&mut self, io: &mut Epoll, token: Token) {
        let Some(client) = self.slots.client(token) else { return };
        let Some(exchange) = &client.exchange else { return };
        if exchange.response_done && !exchange.stays {
            // What is left of the request is not wanted, but must not reset the connection either.
            client.deaf = !exchange.request_done;
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

// ---- From the upstream ----------------------------------------------------------------------------------------------

impl Proxy {
    /// Streams a response to its client. `input` holds everything that came and was not consumed; tells how much is
    /// now: all of it when the response is over or the connection lost, as what follows is nobody's.
    fn read_response(&mut self, io: &mut Epoll, token: Token, input: &[u8]) -> usize {
        let mut at = 0;
        loop {
            match self.pass_on(token, &input[at..]) {
                Ok(Passed::NeedMore) => {
                    self.to_client(io, token, None);
                    return at;
                }
                Ok(Passed::Part { consumed }) => at += consumed,
                Ok(Passed::End { consumed, keep_alive }) => {
                    // Who sends more than was asked for is not to be trusted again.
                    let reusable = keep_alive && at + consumed == input.len();
                    self.to_client(io, token, Some(reusable));
                    return input.len();
                }
                Err(_) => {
                    // Not HTTP, or unasked. What came before it goes out, so that the client sees where it broke off.
                    let client = self.slots.upstream(token).and_then(|upstream| upstream.client);
                    self.to_client(io, token, None);
                    if self.slots.upstream(token).is_some_and(|upstream| upstream.client == client) {
                        self.upstream_lost(io, token);
                    }
                    client.into_iter().for_each(|client| self.read_on(io, client));
                    return input.len();
                }
            }
        }
    }

    /// One step of the response at the front of `input`: what the client gets of it stands in `self.out` afterwards.
    fn pass_on(&mut self, token: Token, input: &[u8]) -> Result<Passed, Malformed> {
        let upstream = self.slots.upstream(token).ok_or(Malformed::Unasked)?;
        let client = upstream.client.ok_or(Malformed::Unasked)?;
        let step = upstream.decoder.advance_with(&mut self.response_heads, input)?;
        let exchange = self.slots.exchange(client).ok_or(Malformed::Unasked)?;
        let kind = rewrite::Client { version: exchange.version, keep_alive: exchange.keep_alive };
        let out = &mut self.out;
        Ok(match step {
            Step::NeedMore => Passed::NeedMore,
            Step::Interim { consumed } => {
                // A 1.0 client does not know interim responses.
                if exchange.version == Version::Http11 {
                    rewrite::interim(out, &input[..consumed])?;
                }
                Passed::Part { consumed }
            }
            Step::Head { consumed, head } => {
                let raw = &input[..consumed];
                let coding = self.responses.or_rewrite(out, raw, (kind, exchange.is_head), |out| {
                    rewrite::response(out, raw, &head, kind)
                })?;
                exchange.to_client = Some(coding);
                exchange.stays = kind.stays(head.framing);
                Passed::Part { consumed }
            }
            Step::Body { consumed, data } => {
                exchange.write_to_client(out, &input[data]);
                Passed::Part { consumed }
            }
            Step::End { consumed, keep_alive } => {
                exchange.end_to_client(out);
                Passed::End { consumed, keep_alive }
            }
        })
    }

    /// Sends what stands in `self.out` to the upstream's client; with `over`, the response has ended, and the
    /// upstream's connection may be used again if that is true.
    fn to_client(&mut self, io: &mut Epoll, upstream: Token, over: Option<bool>) {
        let Some(client) = self.slots.upstream(upstream).and_then(|upstream| upstream.client) else { return };
        let sent = if self.out.is_empty() { Ok(()) } else { io.send(client, &self.out) };
        self.out.clear();
        if sent.is_err() {
            return self.drop_client(io, client);
        }
        let Some(reusable) = over else {
            if io.unsent(client) > HIGH_WATER
                && let Some(source) = self.slots.upstream(upstream)
            {
                source.paused = true;
                io.pause(upstream);
            }
            return;
        };
        let Some(exchange) = self.slots.exchange(client) else { return };
        exchange.upstream = None;
        exchange.response_done = true;
        // A request that goes on after its response is thrown away, and so is the connection that had its first half.
        let whole = exchange.request_done;
        self.release(io, upstream, reusable && whole);
        self.end_if_over(io, client);
        self.read_on(io, client);
    }

    fn release(&mut self, io: &mut Epoll, token: Token, reusable: bool) {
        let Some(upstream) = self.slots.upstream(token) else { return };
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

    fn drop_upstream(&mut self, io: &mut Epoll, token: Token) {
        io.close(token);
        let Slot::Upstream(upstream) = self.slots.take(token) else { return };
        self.tokens.give_back(token);
        let idle = &mut self.idle[upstream.index];
        if upstream.client.is_none()
            && let Some(place) = idle.iter().rposition(|&idle| idle == token)
        {
            idle.remove(place);
        }
    }

    /// An upstream's connection has ended early. A kept one may have been closed before our request reached it, so a
    /// request that may be repeated is, once, on a fresh one; otherwise the client is told as well as it still can be.
    fn upstream_lost(&mut self, io: &mut Epoll, token: Token) {
        let Some(upstream) = self.slots.upstream(token) else { return };
        let (client, index) = (upstream.client, upstream.index);
        let stale = upstream.reused && !upstream.heard;
        self.drop_upstream(io, token);
        let Some(client) = client else { return };
        let Some(exchange) = self.slots.exchange(client) else { return };
        exchange.upstream = None;
        if exchange.to_client.is_some() {
            return self.drop_client(io, client);
        }
        if !(stale && exchange.repeatable) {
            return self.bad_gateway(io, client);
        }
        let Ok(fresh) = self.connect(io, index) else { return self.bad_gateway(io, client) };
        let head = self.slots.client(client).map(|client| client.head.clone()).unwrap_or_default();
        if let Some(upstream) = self.slots.upstream(fresh) {
            upstream.waiting = head;
        }
        self.join(client, fresh);
    }
}

// ---- The loop's events ----------------------------------------------------------------------------------------------

impl Handler<Epoll> for Proxy {
    fn connected(&mut self, io: &mut Epoll, token: Token, result: io::Result<()>) {
        let Some(upstream) = self.slots.upstream(token) else { return };
        let client = upstream.client;
        upstream.connected = true;
        let waiting = mem::take(&mut upstream.waiting);
        if result.is_err() || io.send(token, &waiting).is_err() {
            self.upstream_lost(io, token);
            if let Some(client) = client {
                self.read_on(io, client);
            }
        } else if let Some(client) = client {
            self.regulate(io, client);
        }
    }

    fn accepted(&mut self, _: &mut Epoll, _: Token, _: SocketAddr) -> Option<Token> {
        let token = self.tokens.take();
        self.slots.put(token, Slot::Client(Box::default()));
        Some(token)
    }

    fn received(&mut self, io: &mut Epoll, token: Token, bytes: &[u8]) {
        match self.slots.get(token) {
            Slot::Client(client) if client.deaf => {}
            Slot::Client(client) if client.kept.is_empty() => {
                let consumed = self.read_requests(io, token, bytes);
                if let Some(client) = self.slots.client(token) {
                    client.kept.extend_from_slice(&bytes[consumed..]);
                    self.regulate(io, token);
                    self.close_if_done(io, token);
                }
            }
            Slot::Client(client) => {
                client.kept.extend_from_slice(bytes);
                self.read_on(io, token);
            }
            Slot::Upstream(upstream) => {
                upstream.heard = true;
                let mut kept = mem::take(&mut upstream.kept);
                let input = if kept.is_empty() {
                    bytes
                } else {
                    kept.extend_from_slice(bytes);
                    &kept
                };
                let consumed = self.read_response(io, token, input);
                if let Some(upstream) = self.slots.upstream(token) {
                    upstream.kept.extend_from_slice(&input[consumed..]);
                }
            }
            Slot::Free => {}
        }
    }

    fn closed(&mut self, io: &mut Epoll, token: Token, result: io::Result<()>) -> AfterEnd {
        match self.slots.get(token) {
            Slot::Client(client) => {
                client.ended = true;
                if result.is_err() {
                    self.drop_client(io, token);
                } else {
                    // It may still wait for the answers to what it has sent.
                    self.read_on(io, token);
                }
            }
            Slot::Upstream(upstream) => {
                let client = upstream.client;
                // The end of the connection may be the end of the response.
                if result.is_ok() && upstream.decoder.end_of_input() == Ok(true) {
                    if let Some(exchange) = client.and_then(|client| self.slots.exchange(client)) {
                        exchange.end_to_client(&mut self.out);
                    }
                    self.to_client(io, token, Some(false));
                } else {
                    self.upstream_lost(io, token);
                    if let Some(client) = client {
                        self.read_on(io, client);
                    }
                }
            }
            Slot::Free => {}
        }
        // Whatever is over was closed above.
        AfterEnd::KeepSending
    }

    fn drained(&mut self, io: &mut Epoll, token: Token) {
        match self.slots.get(token) {
            Slot::Client(client) => {
                let upstream = client.exchange.as_ref().and_then(|exchange| exchange.upstream);
                if let Some(upstream) = upstream
                    && let Some(source) = self.slots.upstream(upstream)
                    && mem::replace(&mut source.paused, false)
                {
                    io.resume(upstream);
                }
                self.read_on(io, token);
            }
            Slot::Upstream(upstream) => {
                if let Some(client) = upstream.client {
                    self.regulate(io, client);
                }
            }
            Slot::Free => {}
        }
    }
}
