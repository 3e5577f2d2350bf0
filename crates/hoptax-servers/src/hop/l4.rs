//! `hop-l4`: forwards bytes without reading them. For each accepted connection, it opens a connection to an
//! upstream.

use super::pairs::Pairs;
use super::turns::Turns;
use crate::net::Tokens;
use hoptax_format::Address;
use hoptax_host::threads::Stop;
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
    let mut relay =
        Relay { turns: Turns::new(upstreams, worker), tokens: Tokens::default(), pairs: Pairs::default() };
    let token = relay.tokens.take();
    io.listen(token, listener)?;
    while !stop.asked() {
        io.turn(&mut relay, None)?;
    }
    Ok(())
}

struct Relay {
    turns: Turns,
    tokens: Tokens,
    pairs: Pairs,
}

impl<L: EventLoop> Handler<L> for Relay {
    fn connected(&mut self, io: &mut L, token: Token, result: io::Result<()>) {
        match result {
            Ok(()) => self.pairs.connected(io, &mut self.tokens, token),
            Err(_) => self.pairs.close(io, &mut self.tokens, token),
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
        self.pairs.add(client, upstream);
        Some(client)
    }

    fn received(&mut self, io: &mut L, token: Token, bytes: &[u8]) {
        self.pairs.received(io, &mut self.tokens, token, bytes);
    }

    fn closed(&mut self, io: &mut L, token: Token, result: io::Result<()>) -> AfterEnd {
        self.pairs.closed(io, &mut self.tokens, token, result)
    }

    fn drained(&mut self, io: &mut L, token: Token) {
        self.pairs.drained(io, &mut self.tokens, token);
    }
}
