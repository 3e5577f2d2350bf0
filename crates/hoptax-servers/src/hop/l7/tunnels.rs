//! Tunnels of the proxy: after CONNECT, and after the handshake of a WebSocket, it forwards the bytes of both
//! sides without reading them.

use super::proxy::Proxy;
use super::responses::Lost;
use super::rewrite;
use super::state::{Client, Peer};
use crate::hop::forward::Refusal;
use hoptax_load::event_loop::{EventLoop, Token};
use hoptax_plan::{HopDelayHow, units};
use hoptax_wire::http1::{Framing, RequestHead, fields, has_token};
use std::io;

/// The answer to CONNECT when the upstream is connected.
const OPEN: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

pub(super) fn is_connect(raw: &[u8], head: &RequestHead) -> bool {
    &raw[head.method.clone()] == b"CONNECT"
}

/// True if a request is the handshake of a WebSocket.
pub(super) fn is_websocket(raw: &[u8], head: &RequestHead) -> bool {
    let mut is_named = false;
    let read = head.upgrade.then(|| {
        fields(raw, |field| {
            is_named |= field.name.eq_ignore_ascii_case("upgrade") && has_token(field.value, "websocket");
        })
    });
    read.is_some_and(|read| read.is_ok()) && is_named && head.framing == Framing::None
}

impl Proxy {
    /// Connects to an upstream for a client that sent CONNECT, or refuses the tunnel. Returns true if the
    /// bytes after the request belong to the tunnel.
    pub(super) fn begin_tunnel(
        &mut self,
        io: &mut impl EventLoop,
        token: Token,
        raw: &[u8],
        head: &RequestHead,
    ) -> bool {
        let allowed = match &self.forward {
            None => {
                let text = "this hop is not a forward proxy; start it with --forward-proxy HOST:PORT\n";
                Err(Refusal::Answer(501, text.to_owned()))
            }
            Some(_) if head.framing != Framing::None => {
                Err(Refusal::Answer(400, "CONNECT cannot have a body\n".to_owned()))
            }
            Some(forward) => forward.tunnel(&raw[head.target.clone()]),
        };
        if let Err(refusal) = allowed {
            self.refuse(io, token, refusal);
            return false;
        }
        let index = self.turns.next();
        self.open_tunnel(io, token, index, true)
    }

    /// Connects to an upstream for the handshake of a WebSocket, or refuses the handshake. Returns true if
    /// the bytes after the request belong to the WebSocket. The upstream answers the handshake. If it
    /// refuses, the client's connection stays connected to this upstream.
    pub(super) fn begin_websocket(
        &mut self,
        io: &mut impl EventLoop,
        token: Token,
        raw: &[u8],
        head: &RequestHead,
    ) -> bool {
        let faults = self.holds.faults.unwrap_or_default();
        if self.holds.happens(faults.refuse) {
            let text = "this hop refuses WebSockets, because it was started with --fault-refuse\n";
            self.refuse(io, token, Refusal::Answer(502, text.to_owned()));
            return false;
        }
        let index = self.turns.next();
        let host = units::host_header_of(false, self.turns.address(index));
        let mut request = Vec::new();
        let written = rewrite::handshake(&mut request, raw, head, &host, faults.deflate.is_none());
        if let Err(malformed) = written {
            self.refuse(io, token, malformed.into());
            return false;
        }
        if !self.open_tunnel(io, token, index, false) {
            return false;
        }
        let cut = self.holds.spend(token, HopDelayHow::Sleep, faults.cut);
        self.peers.put(token, Peer::Tunnel { index, is_asked: false, cut });
        self.tunnels.received(io, &mut self.tokens, token, &request);
        true
    }

    /// Connects a client's connection to an upstream. If this fails at once, the client gets 502.
    fn open_tunnel(&mut self, io: &mut impl EventLoop, token: Token, index: usize, is_asked: bool) -> bool {
        let upstream = self.tokens.take();
        if let Err(error) = io.connect(upstream, self.turns.address(index), None) {
            self.tokens.give_back(upstream);
            let text = Lost::Unreachable(error).describe(self.turns.address(index));
            self.refuse(io, token, Refusal::Answer(502, text));
            return false;
        }
        for side in [token, upstream] {
            self.peers.put(side, Peer::Tunnel { index, is_asked, cut: None });
        }
        self.tunnels.add(token, upstream);
        true
    }

    /// Called when the connect of a tunnel has succeeded or failed. Answers the client's CONNECT, if it sent
    /// one.
    pub(super) fn tunnel_connected(
        &mut self,
        io: &mut impl EventLoop,
        token: Token,
        (index, is_asked): (usize, bool),
        result: io::Result<()>,
    ) {
        let Err(error) = result else {
            let client = self.tunnels.other(token);
            if is_asked && client.is_some_and(|client| io.send(client, OPEN).is_err()) {
                return self.tunnels.close(io, &mut self.tokens, token);
            }
            return self.tunnels.connected(io, &mut self.tokens, token);
        };
        let Some(client) = self.tunnels.unreachable(token) else { return };
        self.peers.take(token);
        self.tokens.give_back(token);
        // The hop ignores bytes that the client has already sent for the tunnel.
        let peer = Client { ended: client.ended, ..Client::default() };
        self.peers.put(client.token, Peer::Client(Box::new(peer)));
        io.resume(client.token);
        let text = Lost::Unreachable(error).describe(self.turns.address(index));
        self.refuse(io, client.token, Refusal::Answer(502, text));
    }
}
