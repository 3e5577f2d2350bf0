//! Planted delays in the proxy: which requests and responses wait, and what happens when the wait is over.
//! This module also spends the CPU time of a planted warm-up.

use super::proxy::Proxy;
use super::state::{HeldRequest, Peer};
use crate::hop::holds::Timer;
use hoptax_format::clock;
use hoptax_load::event_loop::{EventLoop, Token};
use hoptax_plan::HopDelay;
use hoptax_wire::http1::RequestHead;
use std::mem;

impl Proxy {
    /// Called when the head of a request has been read. Spends the request's share of the warm-up. Then
    /// decides whether to delay the request. If so, keeps the head and returns true.
    pub(super) fn hold_request(&mut self, token: Token, raw: &[u8], head: &RequestHead) -> bool {
        self.holds.warm_up();
        let delay = self.holds.draw();
        let Some(client) = self.peers.client(token) else { return false };
        client.hold_answer = delay.is_some_and(|delay| !delay.outbound.is_zero());
        let Some(HopDelay { inbound, how, .. }) = delay else { return false };
        let Some(id) = self.holds.spend(token, how, inbound) else { return false };
        client.held = Some(Box::new(HeldRequest { id, raw: raw.to_vec(), head: head.clone() }));
        true
    }

    /// Called when the first bytes of a response arrive. Decides whether to delay the response. Returns true
    /// if the response waits.
    pub(super) fn hold_answer(&mut self, io: &mut impl EventLoop, token: Token) -> bool {
        let Some(delay) = self.holds.delay else { return false };
        let Some(upstream) = self.peers.upstream(token) else { return false };
        if upstream.held.is_some() {
            return true;
        }
        let client = upstream.client.and_then(|client| self.peers.client(client));
        if !client.is_some_and(|client| mem::take(&mut client.hold_answer)) {
            return false;
        }
        let Some(id) = self.holds.spend(token, delay.how, delay.outbound) else { return false };
        if let Some(upstream) = self.peers.upstream(token) {
            upstream.held = Some(id);
            upstream.paused = true;
            io.pause(token);
        }
        true
    }

    /// Forwards all delayed requests, responses and events that are due, and closes tunnels. If a connection
    /// was closed meanwhile, its timer is skipped, because the timer's id no longer matches.
    pub(super) fn let_go(&mut self, io: &mut impl EventLoop) {
        while let Some(Timer { id, token, .. }) = self.holds.over(clock::now()) {
            match self.peers.get(token) {
                Peer::Client(client) if client.held.as_ref().is_some_and(|held| held.id == id) => {
                    if let Some(held) = client.held.take() {
                        self.begin(io, token, &held.raw, &held.head);
                        self.read_on(io, token);
                    }
                }
                Peer::Client(client) => {
                    let exchange = client.exchange.as_mut().filter(|exchange| exchange.waits_for(id));
                    let Some(exchange) = exchange else { continue };
                    exchange.release_events(&mut self.out, false);
                    if let Some(upstream) = exchange.upstream {
                        self.send_client(io, upstream, None);
                    }
                }
                Peer::Tunnel { cut, .. } if *cut == Some(id) => {
                    self.tunnels.close(io, &mut self.tokens, token);
                }
                Peer::Upstream(upstream) if upstream.held == Some(id) => {
                    upstream.held = None;
                    upstream.paused = false;
                    let kept = mem::take(&mut upstream.kept);
                    io.resume(token);
                    let consumed = self.read_response(io, token, &kept);
                    if let Some(upstream) = self.peers.upstream(token) {
                        upstream.kept.extend_from_slice(&kept[consumed..]);
                    }
                }
                _ => {}
            }
        }
    }
}
