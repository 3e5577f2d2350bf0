//! One instance: reads requests and sends each response when it is due.
//!
//! A connection is in one of these states:
//! * *new*: nothing has arrived, or too little to choose the protocol;
//! * *open*: requests of HTTP/1 are read and answered;
//! * *http2*: requests of HTTP/2 are read and answered;
//! * *websocket*: messages are read and sent, after a request of HTTP/1.1 has changed the protocol;
//! * *last*: the last response of HTTP/1 has been chosen; the connection closes once all bytes are sent;
//! * *discarding*: the last bytes were chosen, such as 400 or GOAWAY; further input is discarded, because
//!   closing at once could reset the connection before the peer has read those bytes.
//!
//! An open connection of either protocol is *blocked* while the peer reads responses too slowly. Nothing is
//! read until it has caught up.

mod events;
mod groups;
mod http1;
mod http2;
mod messages;
mod room;
mod state;
mod streams;
mod websocket_streams;
mod websockets;

use super::secure::{SecureLoop, Sessions};
use super::sockets::Sockets;
use crate::net::Listener;
use hoptax_format::clock;
use hoptax_host::threads::Stop;
use hoptax_load::event_loop::{AfterEnd, Epoll, EventLoop, Handler, Token};
pub(super) use state::Listening;
use state::{Server, State};
use std::cmp::Reverse;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use streams::begins_with_preface;

/// Serves all listeners until stopped. With `config`, serves them over TLS.
///
/// When the instance's switch is turned off, closes the listeners and all connections. When the switch is
/// turned on, listens again.
pub(super) fn serve(
    mut listeners: Vec<Listener>,
    mut from: Listening<'_>,
    config: Option<&Arc<rustls::ServerConfig>>,
    stop: &Stop,
) -> io::Result<()> {
    let (switch, counts) = (from.switch, from.counts);
    let addresses: Vec<_> = listeners.iter().map(|listener| listener.address().clone()).collect();
    loop {
        let mut io = Epoll::new()?;
        let mut sessions = config.map(|config| Sessions::new(Arc::clone(config)));
        let mut server = Server::new(from.clone());
        for listener in &listeners {
            let token = server.new_connection();
            io.listen(token, listener.socket()?)?;
        }
        switch.back();
        while !stop.asked() && !switch.asked() {
            let next = server.next_timer();
            match &mut sessions {
                None => io.turn(&mut server, next)?,
                Some(sessions) => io.turn(&mut sessions.serving(&mut server), next)?,
            }
            if server.next_timer().is_some() {
                match &mut sessions {
                    None => server.send_due(&mut io, clock::now()),
                    Some(sessions) => server.send_due(&mut SecureLoop::new(&mut io, sessions), clock::now()),
                }
            }
        }
        if stop.asked() {
            return Ok(());
        }
        (from.behaviour, from.sources) = (server.behaviour, server.sources);
        drop((io, listeners));
        // Bind the same addresses again at once, so that no other process gets them. The kernel may have
        // chosen the ports, and could then give them to another process.
        listeners = addresses.iter().map(Listener::hold).collect::<Result<_, _>>()?;
        counts.open.take_back(counts.open.get());
        switch.rest(stop);
        if stop.asked() {
            return Ok(());
        }
        listeners.iter().try_for_each(Listener::listen)?;
    }
}

impl Server<'_> {
    fn next_timer(&self) -> Option<u64> {
        let next = self.timers.peek().map(|Reverse(timer)| timer.due);
        match self.shared.next_timer() {
            None => next,
            Some(due) => Some(next.map_or(due, |next| next.min(due))),
        }
    }

    /// Sends every response that is due.
    fn send_due(&mut self, io: &mut impl Sockets, now: u64) {
        self.send_due_in_order(io, now);
        self.send_due_on_streams(io, now);
    }

    /// Handles bytes in a state other than *open*.
    fn received_elsewhere(&mut self, io: &mut impl Sockets, token: Token, bytes: &[u8]) {
        let connection = &mut self.connections[token.index()];
        match connection.state {
            State::Http2 => self.received_http2(io, token, bytes),
            State::WebSocket => self.received_websocket(io, token, bytes),
            // TLS has chosen the protocol. Without TLS, the first bytes do.
            State::New => {
                let is_http2 = io.is_http2(token);
                match is_http2.or_else(|| begins_with_preface(&connection.kept, bytes)) {
                    Some(true) => {
                        self.begin_http2(token);
                        self.received_http2(io, token, bytes);
                    }
                    Some(false) => {
                        connection.state = State::Open;
                        self.received_http1(io, token, bytes);
                    }
                    None => connection.kept.extend_from_slice(bytes),
                }
            }
            State::Open | State::Last | State::Discarding => {}
        }
    }
}

impl<L: Sockets> Handler<L> for Server<'_> {
    fn connected(&mut self, _: &mut L, _: Token, _: io::Result<()>) {}

    fn accepted(&mut self, io: &mut L, _: Token, _: SocketAddr) -> Option<Token> {
        // An instance that is about to close accepts no connections. It also drops the connection that the
        // switch opened to wake this thread.
        if self.switch.asked() {
            return None;
        }
        if self.counts.open.get() >= self.room {
            self.make_room(io);
            if self.counts.open.get() >= self.room {
                return None;
            }
        }
        self.counts.connections.add(1);
        self.counts.open.add(1);
        let token = self.new_connection();
        self.connections[token.index()].heard = clock::now() + room::FRESH_NS;
        Some(token)
    }

    fn received(&mut self, io: &mut L, token: Token, bytes: &[u8]) {
        self.counts.bytes_in.add(bytes.len() as u64);
        let connection = &mut self.connections[token.index()];
        if connection.state != State::Open {
            return self.received_elsewhere(io, token, bytes);
        }
        self.received_http1(io, token, bytes);
    }

    fn closed(&mut self, io: &mut L, token: Token, result: io::Result<()>) -> AfterEnd {
        self.count_abandoned(token);
        self.count_cut(token);
        self.connections[token.index()].peer_ended = true;
        if result.is_err() {
            self.forget(token);
            return AfterEnd::Close;
        }
        if self.end_events(token) {
            return AfterEnd::Close;
        }
        // A peer that has ended its side may still wait for responses. These are delayed responses, and
        // responses to input that has not been read yet.
        self.settle(io, token);
        AfterEnd::KeepSending
    }

    fn drained(&mut self, io: &mut L, token: Token) {
        if self.connections[token.index()].state == State::Http2 {
            return self.drained_http2(io, token);
        }
        if self.resume_events(io, token) && self.unblock(io, token) {
            self.settle(io, token);
        }
    }
}
