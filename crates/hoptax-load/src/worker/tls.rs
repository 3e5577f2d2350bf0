//! TLS in a worker: how the events of a TLS session affect a slot.

use super::Worker;
use crate::connection::{Event, State};
use crate::event_loop::EventLoop;
use crate::tls::{Failure, Received, Session};
use hoptax_format::record::Cause;
use std::io;

impl Worker<'_> {
    /// Called when the connection leads to the server. Starts the TLS handshake, and starts the connect
    /// timeout again.
    pub(super) fn start_handshake<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64) {
        let token = self.token(slot);
        let tls = self.tls.as_mut().expect("called only with TLS");
        self.timeouts.connected(slot);
        self.timeouts.connecting(slot, now);
        let state = &mut self.slots[slot as usize];
        // A slot that has opened a tunnel is already in the state `Handshaking`.
        if state.state() == State::Connecting {
            state.step(Event::Reached);
        }
        match Session::start(&tls.client, now, &mut tls.buffers) {
            Err(failure) => self.session_failed(io, slot, now, &failure),
            Ok(session) => {
                state.session = Some(Box::new(session));
                if let Err(error) = io.send(token, &tls.buffers.out) {
                    self.handshake_broken(io, slot, now, Err(error));
                }
            }
        }
    }

    pub(super) fn decrypt<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64, bytes: &[u8]) {
        let token = self.token(slot);
        let tls = self.tls.as_mut().expect("called only with TLS");
        let Some(session) = self.slots[slot as usize].session.as_mut() else {
            if self.awaits_tunnel(slot) {
                self.read_tunnel(io, slot, now, bytes);
            }
            return;
        };
        let (began, recorder) = (session.began, &mut self.recorder);
        let received =
            session.receive(bytes, &mut tls.buffers, |agreed| recorder.handshake_done(began, now, agreed));
        let sent = if tls.buffers.out.is_empty() { Ok(()) } else { io.send(token, &tls.buffers.out) };
        let ended = session.peer_closed();
        let plain = std::mem::take(&mut tls.buffers.plain);
        match received {
            Ok(Received::Established) if plain.is_empty() && !ended => self.established(io, slot, now),
            Ok(Received::Established) => {
                let text = "TLS: the server sent data or closed the connection before the first request";
                self.handshake_failed(io, slot, now, Cause::TlsClosed, text);
            }
            _ if !plain.is_empty() => self.read(io, slot, now, &plain),
            _ => {}
        }
        if let Some(tls) = &mut self.tls {
            tls.buffers.plain = plain;
        }
        // The data that was just read may have ended the connection.
        if self.slots[slot as usize].session.is_none() {
            return;
        }
        match (received, sent) {
            (Err(failure), _) => self.session_failed(io, slot, now, &failure),
            (Ok(_), Err(error)) => self.ended(io, slot, now, Err(error)),
            (Ok(_), Ok(())) if ended => self.ended(io, slot, now, Ok(())),
            (Ok(_), Ok(())) => {}
        }
    }

    pub(super) fn handshake_broken<L: EventLoop>(
        &mut self,
        io: &mut L,
        slot: u32,
        now: u64,
        result: io::Result<()>,
    ) {
        let text = match result {
            Ok(()) => "TLS: the server closed the connection during the handshake".to_owned(),
            Err(error) => format!("TLS: the connection failed during the handshake: {error}"),
        };
        self.handshake_failed(io, slot, now, Cause::TlsClosed, &text);
    }

    fn handshake_failed<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64, cause: Cause, text: &str) {
        self.fail(io, slot, now, cause, text);
        self.connect_error = Some(text.to_owned());
    }

    fn session_failed<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64, failure: &Failure) {
        let state = &self.slots[slot as usize];
        let answered = state.session.as_ref().is_some_and(|session| session.answered());
        let cause = match failure {
            Failure::Certificate(_) => Cause::TlsCertificate,
            Failure::Malformed(_) => Cause::TlsMalformed,
            Failure::Refused(_) if !answered => Cause::TlsRefused,
            // After the first byte of a response, a fatal alert counts as a reset of the connection.
            Failure::Refused(_) if state.request.is_some_and(|times| times.first_byte.is_some()) => {
                Cause::ResetInResponse
            }
            Failure::Refused(_) => Cause::ResetBeforeResponse,
        };
        match state.state() {
            State::Handshaking | State::Busy if !answered => {
                self.handshake_failed(io, slot, now, cause, failure.text());
            }
            State::Handshaking | State::Busy => self.fail(io, slot, now, cause, failure.text()),
            // In TLS 1.3, the client can complete the handshake before the server refuses the client's
            // certificate.
            _ => {
                if !answered {
                    self.connect_error = Some(failure.text().to_owned());
                }
                io.close(self.token(slot));
                self.lost(slot, now);
            }
        }
    }
}
