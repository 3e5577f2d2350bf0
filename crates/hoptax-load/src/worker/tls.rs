//! TLS in a worker: how the events of a TLS session affect its connection.

use super::Worker;
use crate::codec::Codec;
use crate::connection::{ConnectionId, Event, State};
use crate::event_loop::EventLoop;
use crate::tls::{Failure, Received, Session};
use hoptax_format::record::Cause;
use std::io;

impl<C: Codec> Worker<'_, C> {
    /// Called when the connection leads to the server. Starts the TLS handshake, and starts the connect
    /// timeout again.
    pub(super) fn start_handshake<L: EventLoop>(&mut self, io: &mut L, connection: ConnectionId, now: u64) {
        let token = self.token(connection);
        let tls = self.tls.as_mut().expect("called only with TLS");
        self.timeouts.connected(connection);
        self.timeouts.connecting(connection, now);
        let this = &mut self.connections[connection.index()];
        // A connection that has opened a tunnel is already in the state `Handshaking`.
        if this.state() == State::Connecting {
            this.step(Event::Reached);
        }
        match Session::start(&tls.client, now, &mut tls.buffers) {
            Err(failure) => self.session_failed(io, connection, now, &failure),
            Ok(session) => {
                this.session = Some(Box::new(session));
                if let Err(error) = io.send(token, &tls.buffers.out) {
                    self.handshake_broken(io, connection, now, Err(error));
                }
            }
        }
    }

    pub(super) fn decrypt<L: EventLoop>(
        &mut self,
        io: &mut L,
        connection: ConnectionId,
        now: u64,
        bytes: &[u8],
    ) {
        let token = self.token(connection);
        let tls = self.tls.as_mut().expect("called only with TLS");
        let Some(session) = self.connections[connection.index()].session.as_mut() else {
            if self.awaits_tunnel(connection) {
                self.read_tunnel(io, connection, now, bytes);
            }
            return;
        };
        let (began, recorder) = (session.began, &mut self.recorder);
        let mut selected = None;
        let received = session.receive(bytes, &mut tls.buffers, |agreed| {
            if C::STREAMS && agreed.alpn != Some(b"h2") {
                selected = Some(String::from_utf8_lossy(agreed.alpn.unwrap_or(b"no protocol")).into_owned());
            }
            recorder.handshake_done(began, now, agreed);
        });
        let sent = if tls.buffers.out.is_empty() { Ok(()) } else { io.send(token, &tls.buffers.out) };
        let ended = session.peer_closed();
        let plain = std::mem::take(&mut tls.buffers.plain);
        match received {
            Ok(Received::Established) if selected.is_some() => {
                let selected = selected.unwrap_or_default();
                let text = format!("TLS: the server does not speak HTTP/2 (ALPN: {selected})");
                self.not_established(io, connection, now, Cause::NotHttp2, &text);
            }
            // A server of HTTP/2 can send its settings at once.
            Ok(Received::Established) if C::STREAMS => {
                self.established(io, connection, now);
                if !plain.is_empty() {
                    self.read(io, connection, now, &plain);
                }
            }
            Ok(Received::Established) if plain.is_empty() && !ended => self.established(io, connection, now),
            Ok(Received::Established) => {
                let text = "TLS: the server sent data or closed the connection before the first request";
                self.not_established(io, connection, now, Cause::TlsClosed, text);
            }
            _ if !plain.is_empty() => self.read(io, connection, now, &plain),
            _ => {}
        }
        if let Some(tls) = &mut self.tls {
            tls.buffers.plain = plain;
        }
        // The data that was just read may have ended the connection.
        if self.connections[connection.index()].session.is_none() {
            return;
        }
        match (received, sent) {
            (Err(failure), _) => self.session_failed(io, connection, now, &failure),
            (Ok(_), Err(error)) => self.ended(io, connection, now, Err(error)),
            (Ok(_), Ok(())) if ended => self.ended(io, connection, now, Ok(())),
            (Ok(_), Ok(())) => {}
        }
    }

    pub(super) fn handshake_broken<L: EventLoop>(
        &mut self,
        io: &mut L,
        connection: ConnectionId,
        now: u64,
        result: io::Result<()>,
    ) {
        let text = match result {
            Ok(()) => "TLS: the server closed the connection during the handshake".to_owned(),
            Err(error) => format!("TLS: the connection failed during the handshake: {error}"),
        };
        self.not_established(io, connection, now, Cause::TlsClosed, &text);
    }

    fn session_failed<L: EventLoop>(
        &mut self,
        io: &mut L,
        connection: ConnectionId,
        now: u64,
        failure: &Failure,
    ) {
        let this = &self.connections[connection.index()];
        let mut requests = self
            .exchanges_on(connection)
            .map(|exchange| &self.exchanges[exchange.index()])
            .filter(|exchange| exchange.in_flight && (!C::STREAMS || exchange.stream.second == this.second));
        let in_flight = requests.next();
        let is_begun = in_flight
            .into_iter()
            .chain(requests)
            .any(|exchange| exchange.request.is_some_and(|times| times.first_byte.is_some()));
        let in_flight = in_flight.is_some();
        let answered = this.session.as_ref().is_some_and(|session| session.answered());
        let cause = match failure {
            Failure::Certificate(_) => Cause::TlsCertificate,
            Failure::Malformed(_) => Cause::TlsMalformed,
            Failure::Refused(_) if !answered => Cause::TlsRefused,
            // After the first byte of a response, a fatal alert counts as a reset of the connection.
            Failure::Refused(_) if is_begun => Cause::ResetInResponse,
            Failure::Refused(_) => Cause::ResetBeforeResponse,
        };
        let is_handshaking = this.state() == State::Handshaking;
        match (is_handshaking || in_flight, answered) {
            (true, false) => self.not_established(io, connection, now, cause, failure.text()),
            (true, true) => self.fail(io, connection, now, cause, failure.text()),
            // In TLS 1.3, the client can complete the handshake before the server refuses the client's
            // certificate.
            (false, _) => {
                if !answered {
                    self.connect_error = Some(failure.text().to_owned());
                }
                io.close(self.token(connection));
                self.lost(connection, now);
            }
        }
    }
}
