//! `hop-l4`: forwards bytes without reading them.
//!
//! For each accepted connection, the hop opens a connection to an upstream. When one side ends its stream,
//! the hop also ends the stream to the other side. The other side may continue to send. The hop closes both
//! connections when both sides have ended and all bytes were sent, or when one of the connections fails.

use super::turns::{HIGH_WATER, Turns};
use crate::net::Tokens;
use hoptax_host::threads::Stop;
use hoptax_load::Address;
use hoptax_load::event_loop::{AfterEnd, Epoll, EventLoop, Handler, Token};
use std::io;
use std::net::{SocketAddr, TcpListener};

/// Forwards connections until stopped.
pub(super) fn serve(
    listener: TcpListener,
    upstreams: Vec<Address>,
    worker: usize,
    stop: &Stop,
) -> io::Result<()> {
    let mut io = Epoll::new()?;
    let mut pairs =
        Pairs { turns: Turns::new(upstreams, worker), tokens: Tokens::default(), sides: Vec::new() };
    let token = pairs.tokens.take();
    io.listen(token, listener)?;
    while !stop.asked() {
        io.turn(&mut pairs, None)?;
    }
    Ok(())
}

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

struct Pairs {
    turns: Turns,
    tokens: Tokens,
    /// Indexed by token. `None` if the token is free or belongs to a listener.
    sides: Vec<Option<Side>>,
}

impl Pairs {
    fn put(&mut self, token: Token, side: Side) {
        if self.sides.len() <= token.index() {
            self.sides.resize_with(token.index() + 1, || None);
        }
        self.sides[token.index()] = Some(side);
    }

    fn side(&mut self, token: Token) -> Option<&mut Side> {
        self.sides.get_mut(token.index())?.as_mut()
    }

    fn close_pair(&mut self, io: &mut impl EventLoop, token: Token) {
        let Some(side) = self.sides[token.index()].take() else { return };
        for token in [token, side.other] {
            io.close(token);
            self.tokens.give_back(token);
            self.sides[token.index()] = None;
        }
    }

    /// Sends bytes to `to`, or keeps them until `to` is connected. Pauses `from` if `to` is slow.
    fn forward(&mut self, io: &mut impl EventLoop, from: Token, to: Token, bytes: &[u8]) {
        let Some(target) = self.side(to) else { return };
        let backlog = if target.connected {
            if io.send(to, bytes).is_err() {
                return self.close_pair(io, from);
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

    /// Called when `from` has ended: ends the stream to `to`, and closes the pair if both sides have ended.
    fn pass_end(&mut self, io: &mut impl EventLoop, from: Token, to: Token) {
        if io.finish(to).is_err() {
            return self.close_pair(io, from);
        }
        self.close_if_over(io, from, to);
    }

    fn close_if_over(&mut self, io: &mut impl EventLoop, one: Token, other: Token) {
        let ended = [one, other].iter().all(|&token| self.side(token).is_none_or(|side| side.ended));
        if ended && io.unsent(one) == 0 && io.unsent(other) == 0 {
            self.close_pair(io, one);
        }
    }
}

impl<L: EventLoop> Handler<L> for Pairs {
    fn connected(&mut self, io: &mut L, token: Token, result: io::Result<()>) {
        let Some(side) = self.side(token) else { return };
        let client = side.other;
        if result.is_err() {
            return self.close_pair(io, token);
        }
        side.connected = true;
        let waiting = std::mem::take(&mut side.waiting);
        if io.send(token, &waiting).is_err() {
            return self.close_pair(io, token);
        }
        let Some(source) = self.side(client) else { return };
        if source.ended {
            self.pass_end(io, client, token);
        } else if io.unsent(token) == 0 {
            source.paused = false;
            io.resume(client);
        }
    }

    fn accepted(&mut self, io: &mut L, _: Token, _: SocketAddr) -> Option<Token> {
        let (client, upstream) = (self.tokens.take(), self.tokens.take());
        let index = self.turns.next();
        if io.connect(upstream, self.turns.address(index), None).is_err() {
            self.tokens.give_back(upstream);
            self.tokens.give_back(client);
            return None;
        }
        self.put(client, Side::new(upstream, true));
        self.put(upstream, Side::new(client, false));
        Some(client)
    }

    fn received(&mut self, io: &mut L, token: Token, bytes: &[u8]) {
        if let Some(side) = self.side(token) {
            let other = side.other;
            self.forward(io, token, other, bytes);
        }
    }

    fn closed(&mut self, io: &mut L, token: Token, result: io::Result<()>) -> AfterEnd {
        let Some(side) = self.side(token) else { return AfterEnd::Close };
        side.ended = true;
        let other = side.other;
        match result {
            Err(_) => self.close_pair(io, token),
            // If the other side is not connected yet, the hop ends the stream to it as soon as it is
            // connected.
            Ok(()) if self.side(other).is_some_and(|side| side.connected) => self.pass_end(io, token, other),
            Ok(()) => {}
        }
        AfterEnd::KeepSending
    }

    fn drained(&mut self, io: &mut L, token: Token) {
        let Some(side) = self.side(token) else { return };
        let other = side.other;
        if let Some(source) = self.side(other)
            && std::mem::replace(&mut source.paused, false)
        {
            io.resume(other);
        }
        self.close_if_over(io, token, other);
    }
}
