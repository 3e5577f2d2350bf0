//! Tunnels of the proxy: after CONNECT, it forwards the bytes of both sides without reading them.

use super::proxy::Proxy;
use super::responses::Lost;
use super::state::{Client, Peer};
use crate::hop::forward::Refusal;
use hoptax_load::event_loop::{EventLoop, Token};
use hoptax_wire::http1::{Framing, RequestHead};
use std::io;

/// The answer to CONNECT when the upstream is connected.
const OPEN: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

pub(super) fn is_connect(raw: &[u8], head: &RequestHead) -> bool {
    &raw[head.method.clone()] == b"CONNECT"
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
        let upstream = self.tokens.take();
        if let Err(error) = io.connect(upstream, self.turns.address(index), None) {
            self.tokens.give_back(upstream);
            let text = Lost::Unreachable(error).describe(self.turns.address(index));
            self.refuse(io, token, Refusal::Answer(502, text));
            return false;
        }
        self.peers.put(token, Peer::Tunnel { index });
        self.peers.put(upstream, Peer::Tunnel { index });
        self.tunnels.add(token, upstream);
        true
    }

    /// Called when the connect of a tunnel has succeeded or failed. Answers the client's CONNECT.
    pub(super) fn tunnel_connected(
        &mut self,
        io: &mut impl EventLoop,
        token: Token,
        index: usize,
        result: io::Result<()>,
    ) {
        let Err(error) = result else {
            let client = self.tunnels.other(token);
            if client.is_some_and(|client| io.send(client, OPEN).is_err()) {
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
