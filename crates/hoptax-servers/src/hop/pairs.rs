//! Pairs of connections: each receives the bytes that the other sends. `hop-l4` forwards every connection
//! this way, `hop-l7` only tunnels.
//!
//! When one side ends its stream, the stream to the other side also ends. The other side may continue to
//! send. Both connections are closed when both sides have ended and all bytes were sent, or when one of the
//! connections fails.

use super::turns::HIGH_WATER;
use crate::net::Tokens;
use hoptax_load::event_loop::{AfterEnd, EventLoop, Token};
use std::io;

/// One connection of a pair.
struct Side {
    other: Token,
    /// Whether the connection is established. It is false for a connection to an upstream until the connect
    /// has succeeded.
    connected: bool,
    ended: bool,
    /// Reading is paused because the other side is slow.
    paused: bool,
    waiting: Vec<u8>,
}

impl Side {
    fn new(other: Token, connected: bool) -> Self {
        Self { other, connected, ended: false, paused: false, waiting: Vec::new() }
    }
}

/// A client whose upstream could not be reached. Its connection is still open.
pub(super) struct Client {
    pub(super) token: Token,
    pub(super) ended: bool,
}

#[derive(Default)]
pub(super) struct Pairs {
    /// Indexed by token. `None` if the token is free or belongs to no pair.
    sides: Vec<Option<Side>>,
}

impl Pairs {
    /// Adds a pair: an established connection to a client, and one to an upstream that is being established.
    pub(super) fn add(&mut self, client: Token, upstream: Token) {
        self.put(client, Side::new(upstream, true));
        self.put(upstream, Side::new(client, false));
    }

    fn put(&mut self, token: Token, side: Side) {
        if self.sides.len() <= token.index() {
            self.sides.resize_with(token.index() + 1, || None);
        }
        self.sides[token.index()] = Some(side);
    }

    fn side(&mut self, token: Token) -> Option<&mut Side> {
        self.sides.get_mut(token.index())?.as_mut()
    }

    /// The other connection of the pair.
    pub(super) fn other(&self, token: Token) -> Option<Token> {
        self.sides.get(token.index())?.as_ref().map(|side| side.other)
    }

    /// Closes both connections.
    pub(super) fn close(&mut self, io: &mut impl EventLoop, tokens: &mut Tokens, token: Token) {
        let Some(side) = self.sides[token.index()].take() else { return };
        for token in [token, side.other] {
            io.close(token);
            tokens.give_back(token);
            self.sides[token.index()] = None;
        }
    }

    /// Called when the connect to `upstream` has failed. Forgets the pair, and returns its client.
    pub(super) fn unreachable(&mut self, upstream: Token) -> Option<Client> {
        let token = self.sides.get_mut(upstream.index())?.take()?.other;
        let client = self.sides[token.index()].take()?;
        Some(Client { token, ended: client.ended })
    }

    /// Called when the connection to the upstream is established.
    pub(super) fn connected(&mut self, io: &mut impl EventLoop, tokens: &mut Tokens, token: Token) {
        let Some(side) = self.side(token) else { return };
        let client = side.other;
        side.connected = true;
        let waiting = std::mem::take(&mut side.waiting);
        if io.send(token, &waiting).is_err() {
            return self.close(io, tokens, token);
        }
        let Some(source) = self.side(client) else { return };
        if source.ended {
            self.pass_end(io, tokens, client, token);
        } else if io.unsent(token) == 0 {
            source.paused = false;
            io.resume(client);
        } else {
            // The client can be paused since before the pair was added.
            source.paused = true;
        }
    }

    /// Sends bytes to the other side, or keeps them until it is connected. Pauses this side if the other one
    /// is slow.
    pub(super) fn received(
        &mut self,
        io: &mut impl EventLoop,
        tokens: &mut Tokens,
        from: Token,
        bytes: &[u8],
    ) {
        let Some(to) = self.other(from) else { return };
        let Some(target) = self.side(to) else { return };
        let backlog = if target.connected {
            if io.send(to, bytes).is_err() {
                return self.close(io, tokens, from);
            }
            io.unsent(to)
        } else {
            target.waiting.extend_from_slice(bytes);
            target.waiting.len()
        };
        if backlog > HIGH_WATER {
            io.pause(from);
            if let Some(source) = self.side(from) {
                source.paused = true;
            }
        }
    }

    /// Called when a connection has ended or failed.
    pub(super) fn closed(
        &mut self,
        io: &mut impl EventLoop,
        tokens: &mut Tokens,
        token: Token,
        result: io::Result<()>,
    ) -> AfterEnd {
        let Some(side) = self.side(token) else { return AfterEnd::Close };
        side.ended = true;
        let other = side.other;
        match result {
            Err(_) => self.close(io, tokens, token),
            // If the other side is not connected yet, the stream to it ends as soon as it is connected.
            Ok(()) if self.side(other).is_some_and(|side| side.connected) => {
                self.pass_end(io, tokens, token, other);
            }
            Ok(()) => {}
        }
        AfterEnd::KeepSending
    }

    /// Called when all bytes for a connection were sent. Resumes the other side if it is paused.
    pub(super) fn drained(&mut self, io: &mut impl EventLoop, tokens: &mut Tokens, token: Token) {
        let Some(other) = self.other(token) else { return };
        if let Some(source) = self.side(other)
            && std::mem::replace(&mut source.paused, false)
        {
            io.resume(other);
        }
        self.close_if_over(io, tokens, (token, other));
    }

    /// Called when `from` has ended: ends the stream to `to`, and closes the pair if both sides have ended.
    fn pass_end(&mut self, io: &mut impl EventLoop, tokens: &mut Tokens, from: Token, to: Token) {
        if io.finish(to).is_err() {
            return self.close(io, tokens, from);
        }
        self.close_if_over(io, tokens, (from, to));
    }

    fn close_if_over(&mut self, io: &mut impl EventLoop, tokens: &mut Tokens, (one, other): (Token, Token)) {
        let ended = [one, other].iter().all(|&token| self.side(token).is_none_or(|side| side.ended));
        if ended && io.unsent(one) == 0 && io.unsent(other) == 0 {
            self.close(io, tokens, one);
        }
    }
}
