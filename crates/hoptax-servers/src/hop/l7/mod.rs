//! `hop-l7`: parses HTTP/1.1, forwards each request over a pooled upstream connection, and streams the
//! response back.
//!
//! As a forward proxy, it takes requests with the whole URL, and opens tunnels ([`tunnels`]). A WebSocket
//! gets a tunnel, too, from its handshake on. Parts of responses pass at once, unless the plan's faults keep
//! events ([`events`]) or change bodies ([`bodies`]).
//!
//! A client's requests are answered one after another. An *exchange* is one request with its response:
//!
//! ```text
//!   no exchange ── head ──► request is passed on ── its end ──► waiting ── response's end ──► no exchange
//!                                  └──── response's end first (or 502) ───► rest of the request is discarded ────┘
//! ```
//!
//! An upstream connection serves one exchange at a time. Between exchanges it is in the pool. Invariants:
//! * a client with an exchange has at most one upstream connection, and each refers to the other;
//! * a client whose request is delayed has no exchange yet, and nothing after that request is read;
//! * the event loop never calls a handler while a handler calls the loop, so only the functions below advance
//!   an exchange. A call to the loop may close a connection, so the caller looks the connection up again
//!   afterwards.

mod bodies;
mod events;
mod held;
mod proxy;
mod requests;
mod responses;
mod rewrite;
mod state;
#[cfg(test)]
mod tests;
mod tunnels;

use super::forward::ForwardProxy;
use super::holds::Holds;
use super::pairs::Pairs;
use super::turns::Turns;
use crate::net::Tokens;
use hoptax_format::Address;
use hoptax_host::threads::{Stop, sleep_precisely};
use hoptax_load::event_loop::{AfterEnd, Epoll, EventLoop, Handler, Token};
use hoptax_wire::http1::HeadCache;
use proxy::Proxy;
use responses::Lost;
use rewrite::Last;
use state::{Peer, Peers};
use std::io;
use std::mem;
use std::net::{SocketAddr, TcpListener};

/// Serves connections until it is stopped.
pub(super) fn serve(
    listener: TcpListener,
    upstreams: Vec<Address>,
    worker: usize,
    (forward, holds): (Option<ForwardProxy>, Holds),
    stop: &Stop,
) -> io::Result<()> {
    if holds.any() {
        sleep_precisely();
    }
    let mut io = Epoll::new()?;
    let mut proxy = Proxy {
        idle: vec![Vec::new(); upstreams.len()],
        turns: Turns::new(upstreams, worker),
        tokens: Tokens::default(),
        peers: Peers::default(),
        request_heads: HeadCache::new(),
        response_heads: HeadCache::new(),
        requests: Last::default(),
        responses: Last::default(),
        out: Vec::new(),
        holds,
        forward,
        tunnels: Pairs::default(),
    };
    let token = proxy.tokens.take();
    io.listen(token, listener)?;
    while !stop.asked() {
        let next = proxy.holds.next();
        io.turn(&mut proxy, next)?;
        proxy.let_go(&mut io);
    }
    Ok(())
}

impl<L: EventLoop> Handler<L> for Proxy {
    fn connected(&mut self, io: &mut L, token: Token, result: io::Result<()>) {
        if let Peer::Tunnel { index, is_asked, .. } = *self.peers.get(token) {
            return self.tunnel_connected(io, token, (index, is_asked), result);
        }
        let Some(upstream) = self.peers.upstream(token) else { return };
        let client = upstream.client;
        upstream.connected = true;
        let waiting = mem::take(&mut upstream.waiting);
        let sent = match result {
            Ok(()) => io.send(token, &waiting).map_err(Lost::Failed),
            Err(error) => Err(Lost::Unreachable(error)),
        };
        if let Err(lost) = sent {
            self.upstream_lost(io, token, &lost);
            if let Some(client) = client {
                self.read_on(io, client);
            }
        } else if let Some(client) = client {
            self.regulate(io, client);
        }
    }

    fn accepted(&mut self, _: &mut L, _: Token, _: SocketAddr) -> Option<Token> {
        let token = self.tokens.take();
        self.peers.put(token, Peer::Client(Box::default()));
        Some(token)
    }

    fn received(&mut self, io: &mut L, token: Token, bytes: &[u8]) {
        match self.peers.get(token) {
            Peer::Client(client) if client.discarding => {}
            Peer::Client(client) if client.kept.is_empty() => {
                let consumed = self.read_requests(io, token, bytes);
                if let Some(client) = self.peers.client(token) {
                    client.kept.extend_from_slice(&bytes[consumed..]);
                    self.regulate(io, token);
                    self.close_if_done(io, token);
                }
            }
            Peer::Client(client) => {
                client.kept.extend_from_slice(bytes);
                self.read_on(io, token);
            }
            Peer::Upstream(upstream) => {
                upstream.heard = true;
                let mut kept = mem::take(&mut upstream.kept);
                let input = if kept.is_empty() {
                    bytes
                } else {
                    kept.extend_from_slice(bytes);
                    &kept
                };
                let consumed = self.read_response(io, token, input);
                if let Some(upstream) = self.peers.upstream(token) {
                    upstream.kept.extend_from_slice(&input[consumed..]);
                }
            }
            Peer::Tunnel { .. } => self.tunnels.received(io, &mut self.tokens, token, bytes),
            Peer::Free => {}
        }
    }

    fn closed(&mut self, io: &mut L, token: Token, result: io::Result<()>) -> AfterEnd {
        match self.peers.get(token) {
            Peer::Client(client) => {
                client.ended = true;
                if result.is_err() {
                    self.drop_client(io, token);
                } else {
                    // The client has ended its side, but may still wait for responses to earlier requests.
                    self.read_on(io, token);
                }
            }
            Peer::Upstream(upstream) if upstream.is_abandoned => self.drop_upstream(io, token),
            Peer::Upstream(upstream) => {
                let client = upstream.client;
                // If the response has no other end, the end of the connection completes it.
                if result.is_ok() && upstream.decoder.end_of_input() == Ok(true) {
                    if let Some(exchange) = client.and_then(|client| self.peers.exchange(client)) {
                        exchange.end_to_client(&mut self.out);
                    }
                    self.send_client(io, token, Some(false));
                } else {
                    let lost = result.map_or_else(Lost::Failed, |()| Lost::Closed);
                    self.upstream_lost(io, token, &lost);
                    if let Some(client) = client {
                        self.read_on(io, client);
                    }
                }
            }
            Peer::Tunnel { .. } => return self.tunnels.closed(io, &mut self.tokens, token, result),
            Peer::Free => {}
        }
        // Finished connections were closed above.
        AfterEnd::KeepSending
    }

    fn drained(&mut self, io: &mut L, token: Token) {
        match self.peers.get(token) {
            Peer::Client(client) => {
                let upstream = client.exchange.as_ref().and_then(|exchange| exchange.upstream);
                if let Some(upstream) = upstream
                    && let Some(source) = self.peers.upstream(upstream)
                    && source.held.is_none()
                    && mem::replace(&mut source.paused, false)
                {
                    io.resume(upstream);
                }
                self.read_on(io, token);
            }
            Peer::Upstream(upstream) => {
                if let Some(client) = upstream.client {
                    self.regulate(io, client);
                }
            }
            Peer::Tunnel { .. } => self.tunnels.drained(io, &mut self.tokens, token),
            Peer::Free => {}
        }
    }
}
