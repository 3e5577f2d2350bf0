//! `hop-h2`: forwards requests of HTTP/2 clients over HTTP/2 or HTTP/1.1, and streams the responses back.
//!
//! An *exchange* is one request with its response. Each of its two *halves* is passed to its receiver as fast
//! as the receiver's windows allow. Windows are given back to the sender when the receiver has the data, so
//! that a slow receiver slows down only its own exchange.
//!
//! ```text
//!   client's stream ── request half ──► upstream's stream, or a pooled connection over HTTP/1
//!                   ◄── response half ──
//! ```
//!
//! Invariants:
//! * streams have the places of their exchanges as tags. An event of a stream that no longer belongs to its
//!   exchange is ignored;
//! * a response whose messages the hop changes or delays has given its windows back when its data arrived;
//! * output is collected for each connection, and sent once at the end of each event;
//! * tokens are given back at the end of an event.

mod altered;
mod fields;
mod http1;
mod links;
mod messages;
mod passing;
mod state;
mod upstreams;

use super::holds::{Holds, Timer};
use super::turns::Turns;
use hoptax_format::Address;
use hoptax_format::clock;
use hoptax_host::threads::{Stop, sleep_precisely};
use hoptax_load::event_loop::{AfterEnd, Epoll, EventLoop, Handler, Token};
pub use state::UpstreamHttp;
use state::{Link, Peer, Worker};
use std::io;
use std::mem;
use std::net::{SocketAddr, TcpListener};

/// Serves connections until it is stopped.
pub(super) fn serve(
    listener: TcpListener,
    upstreams: Vec<Address>,
    worker: usize,
    (http, holds): (UpstreamHttp, Holds),
    stop: &Stop,
) -> io::Result<()> {
    if holds.any() {
        sleep_precisely();
    }
    let mut io = Epoll::new()?;
    let count = upstreams.len();
    let mut worker = Worker::new(Turns::new(upstreams, worker), count, http, holds);
    let token = worker.tokens.take();
    io.listen(token, listener)?;
    while !stop.asked() {
        let next = worker.holds.next();
        io.turn(&mut worker, next)?;
        worker.let_go(&mut io);
    }
    Ok(())
}

impl Worker {
    /// Passes all delayed requests and responses that are due.
    fn let_go(&mut self, io: &mut impl EventLoop) {
        while let Some(Timer { id, token: Token(place), .. }) = self.holds.over(clock::now()) {
            let Some(exchange) = self.exchanges.get(place) else { continue };
            if exchange.request.held == Some(id) {
                exchange.request.held = None;
                self.dispatch(io, place);
            } else if exchange.response.held == Some(id) {
                exchange.response.held = None;
                self.pass_response(io, place, &[]);
            } else {
                self.release_messages(io, place, id);
            }
            self.finish_event(io);
        }
    }

    /// Sends all output.
    fn flush(&mut self, io: &mut impl EventLoop) {
        let mut dirty = mem::take(&mut self.dirty);
        let mut at = 0;
        while let Some(&token) = dirty.get(at) {
            at += 1;
            self.flush_one(io, token);
            dirty.append(&mut self.dirty);
        }
        dirty.clear();
        self.dirty = dirty;
    }

    fn flush_one(&mut self, io: &mut impl EventLoop, token: Token) {
        let (connected, output, slow, is_broken) = match self.peers.get(token) {
            Some(Peer::Link(link)) => (link.connected, &mut link.output, &mut link.slow, link.broken),
            Some(Peer::Http1(http1)) => (http1.connected, &mut http1.output, &mut http1.slow, false),
            _ => return,
        };
        if !connected || output.is_empty() {
            return;
        }
        let sent = io.send(token, output);
        output.clear();
        if let Err(error) = sent {
            return self.lost(io, token, Err(error));
        }
        // If the kernel has accepted everything, no event reports it.
        let is_ready = io.unsent(token) == 0 && mem::take(slow);
        if is_broken && io.finish(token).is_err() {
            // Otherwise the client reads GOAWAY, and closes the connection.
            return self.drop_client(io, token);
        }
        if is_ready {
            self.pass_all(io, token);
        }
        self.close_if_done(io, token);
    }

    /// Called when the peer has ended its side, or the connection has failed.
    fn lost(&mut self, io: &mut impl EventLoop, token: Token, result: io::Result<()>) {
        match self.peers.get(token) {
            Some(Peer::Link(link)) if link.upstream.is_none() => {
                link.ended = true;
                if result.is_err() || link.broken {
                    self.drop_client(io, token);
                } else {
                    // The client has ended its side, but may still wait for responses.
                    self.close_if_done(io, token);
                }
            }
            Some(Peer::Link(_)) => {
                let why = result.map_or_else(
                    |error| format!("failed: {error}"),
                    |()| "closed the connection before its response".to_owned(),
                );
                self.drop_upstream(io, token, &why);
            }
            Some(Peer::Http1(_)) => self.http1_closed(io, token, result.map_err(|error| error.to_string())),
            _ => {}
        }
    }

    /// Called at the end of each event.
    fn finish_event(&mut self, io: &mut impl EventLoop) {
        self.flush(io);
        for token in self.freed.drain(..) {
            self.tokens.give_back(token);
        }
    }
}

impl<L: EventLoop> Handler<L> for Worker {
    fn connected(&mut self, io: &mut L, token: Token, result: io::Result<()>) {
        self.reached(io, token, result);
        self.finish_event(io);
    }

    fn accepted(&mut self, _: &mut L, _: Token, _: SocketAddr) -> Option<Token> {
        let token = self.tokens.take();
        self.peers.put(token, Peer::Link(Box::new(Link::to_client())));
        Some(token)
    }

    fn received(&mut self, io: &mut L, token: Token, bytes: &[u8]) {
        match self.peers.get(token) {
            Some(Peer::Link(_)) => self.received_on_link(io, token, bytes),
            Some(Peer::Http1(_)) => self.received_on_http1(io, token, bytes),
            _ => {}
        }
        self.finish_event(io);
    }

    fn closed(&mut self, io: &mut L, token: Token, result: io::Result<()>) -> AfterEnd {
        self.lost(io, token, result);
        self.finish_event(io);
        // Finished connections were closed above.
        AfterEnd::KeepSending
    }

    fn drained(&mut self, io: &mut L, token: Token) {
        self.pass_all(io, token);
        self.finish_event(io);
        self.close_if_done(io, token);
        self.finish_event(io);
    }
}
