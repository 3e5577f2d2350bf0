//! What the event loop reports: connections that are established, bytes, and ends of connections.

use super::{Source, Worker};
use crate::clock;
use crate::codec::{Codec, Read};
use crate::connection::{ConnectionId, Event, State};
use crate::event_loop::{AfterEnd, EventLoop, Handler, Token};
use hoptax_format::record::Cause;
use std::io;

impl<L: EventLoop, C: Codec> Handler<L> for Worker<'_, C> {
    fn connected(&mut self, io: &mut L, token: Token, result: io::Result<()>) {
        let now = clock::now();
        let (connection, _) = self.connection_with(token);
        match result {
            Ok(()) => {
                self.pace.connected();
                if let Err(error) = self.send_proxy_header(io, connection) {
                    return self.connect_failed(io, connection, now, &error);
                }
                match self.setup.tunnel {
                    None => self.reached(io, connection, now),
                    Some(request) => self.ask_for_tunnel(io, connection, now, request),
                }
            }
            Err(error) => self.connect_failed(io, connection, now, &error),
        }
        self.flush(io);
    }

    fn received(&mut self, io: &mut L, token: Token, bytes: &[u8]) {
        let (connection, present) = self.connection_with(token);
        let now = clock::now();
        if present {
            match self.tls {
                None => self.read(io, connection, now, bytes),
                Some(_) => self.decrypt(io, connection, now, bytes),
            }
        } else if C::STREAMS {
            self.read_former(io, connection, now, bytes);
        }
        // Data on a retired connection of HTTP/1 is ignored. Only its end matters.
        self.flush(io);
    }

    fn closed(&mut self, io: &mut L, token: Token, result: io::Result<()>) -> AfterEnd {
        let (connection, present) = self.connection_with(token);
        // The socket cannot be used again, so it is closed whether or not a request uses it.
        io.close(token);
        if present {
            self.ended(io, connection, clock::now(), result);
        } else {
            if C::STREAMS {
                self.former_ended(io, connection, clock::now(), result);
            }
            self.retired(connection);
        }
        self.flush(io);
        AfterEnd::Close
    }
}

impl<C: Codec> Worker<'_, C> {
    /// Called when the connection leads to the server: TCP is connected, and the tunnel is open if there is
    /// one.
    pub(super) fn reached<L: EventLoop>(&mut self, io: &mut L, connection: ConnectionId, now: u64) {
        self.recorder.opened(self.connections[connection.index()].connect_started, now);
        match self.tls {
            None => self.established(io, connection, now),
            Some(_) => self.start_handshake(io, connection, now),
        }
    }

    pub(super) fn established<L: EventLoop>(&mut self, io: &mut L, id: ConnectionId, now: u64) {
        if C::STREAMS && !self.greeted(id, now) {
            return;
        }
        if C::STREAMS && self.sockets.is_some() && !self.many(id).takes_websockets() {
            let text = "HTTP/2: the server takes no WebSockets (ENABLE_CONNECT_PROTOCOL, RFC 8441)";
            return self.not_established(io, id, now, Cause::NoWebSockets, text);
        }
        self.connecting -= 1;
        self.timeouts.connected(id);
        let connection = &mut self.connections[id.index()];
        connection.step(Event::Established);
        if matches!(self.source, Source::Opening) {
            // Before traffic begins, an established connection counts as a success.
            connection.failures = 0;
            self.pace.proved();
        }
        if C::STREAMS {
            return self.resume_streams(io, id, now);
        }
        let exchange = self.exchange_on(id);
        if self.exchanges[exchange.index()].request.is_some() {
            self.send(io, exchange, now);
        } else if !self.starting.contains(&exchange.0) {
            self.freed(io, exchange, now);
        }
    }

    pub(super) fn read<L: EventLoop>(&mut self, io: &mut L, id: ConnectionId, now: u64, bytes: &[u8]) {
        if C::STREAMS {
            return self.read_current(io, id, now, bytes);
        }
        let exchange_id = self.exchange_on(id);
        let exchange = &mut self.exchanges[exchange_id.index()];
        if !exchange.in_flight {
            if self.awaits_tunnel(id) {
                return self.read_tunnel(io, id, now, bytes);
            }
            // A server that sends data without a request, for example status 408 on an idle connection, is
            // about to close the connection.
            io.close(self.token(id));
            self.connections[id.index()].step(Event::Closed);
            self.recorder.unasked();
            let text = match self.setup.proxy_protocol {
                None => "the server sent data without a request",
                Some(_) => "the server sent data without a request; it may not expect the PROXY protocol",
            };
            self.connect_error = Some(text.to_owned());
            return;
        }
        let times = exchange.request.as_mut().expect("a request in flight");
        if times.first_byte.is_none() {
            times.first_byte = Some(now);
            self.timeouts.responding(exchange_id);
        }
        if self.sockets.as_ref().is_some_and(|sockets| sockets.is_accepted(exchange_id)) {
            exchange.answer.bytes += bytes.len() as u64;
            self.messages_read();
            return self.hear_frames(io, exchange_id, now, true, bytes);
        }
        let target = self.setup.mix.target(times.target);
        let codec = self.connections[id.index()].codec.one().expect("only HTTP/1 comes here");
        let read = codec.read(&mut exchange.answer, &mut self.scratch, target, bytes);
        let heard = self.hear_read(exchange_id, now);
        match read {
            Ok(Read::More) if heard.is_some() => self.stop_reading(io, exchange_id),
            Ok(Read::More) => {}
            Ok(Read::Switched(answered)) => self.switched(io, exchange_id, now, answered),
            Ok(Read::Whole { response, keep_alive }) => {
                let response = heard.unwrap_or(response);
                self.complete(io, exchange_id, now, response, keep_alive);
            }
            Err(refused) => self.fail(io, id, now, Cause::MalformedResponse, &refused.text),
        }
    }

    /// Called when the peer has closed a connection, or when the connection has failed.
    pub(super) fn ended<L: EventLoop>(
        &mut self,
        io: &mut L,
        id: ConnectionId,
        now: u64,
        result: io::Result<()>,
    ) {
        if self.awaits_tunnel(id) {
            return self.tunnel_broken(io, id, now, result);
        }
        if C::STREAMS {
            return self.streams_ended(io, id, now, result);
        }
        let exchange_id = self.exchange_on(id);
        let connection = &mut self.connections[id.index()];
        let exchange = &self.exchanges[exchange_id.index()];
        if connection.state() == State::Handshaking {
            return self.handshake_broken(io, id, now, result);
        }
        if !exchange.in_flight {
            io.close(self.token(id));
            return self.lost(id, now);
        }
        if self.sockets.as_ref().is_some_and(|sockets| sockets.is_accepted(exchange_id)) {
            return self.socket_cut(io, exchange_id, now, result);
        }
        // With TLS, only a close_notify is a valid end of the data, because anyone on the network path can
        // close a TCP connection.
        let whole = connection.session.as_ref().is_none_or(|session| session.peer_closed());
        let times = exchange.request.expect("a request in flight");
        let target = self.setup.mix.target(times.target);
        let response = result.as_ref().ok().filter(|()| whole);
        let codec = connection.codec.one().expect("only HTTP/1 comes here");
        match response.and_then(|()| codec.read_end(&exchange.answer, target)) {
            Some(response) => self.complete(io, exchange_id, now, response, false),
            None => {
                let unsent = self.uploads.as_mut().and_then(|uploads| uploads.failure(exchange_id));
                self.unanswered(io, exchange_id, now, result.and(unsent.map_or(Ok(()), Err)));
            }
        }
    }

    /// Called when an idle connection has ended. This is not a failure, because the connection carried no
    /// request. The worker connects again when there is a request.
    pub(super) fn lost(&mut self, id: ConnectionId, now: u64) {
        let connection = &mut self.connections[id.index()];
        connection.step(Event::Closed);
        self.recorder.closed_unannounced(now, connection.carried);
    }
}
