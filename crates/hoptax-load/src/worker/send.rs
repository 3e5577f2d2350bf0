//! Sends requests, at once or in pieces.

use super::Worker;
use crate::clock;
use crate::codec::Codec;
use crate::event_loop::EventLoop;
use crate::exchange::ExchangeId;

impl<C: Codec> Worker<'_, C> {
    pub(super) fn send<L: EventLoop>(&mut self, io: &mut L, id: ExchangeId, now: u64) {
        let connection_id = self.connection_of(id);
        let token = self.token(connection_id);
        let connection = &mut self.connections[connection_id.index()];
        let exchange = &mut self.exchanges[id.index()];
        let times = exchange.request.as_mut().expect("only an exchange with a request sends");
        let reused = connection.carried > 0;
        connection.carried = connection.carried.saturating_add(1);
        let bytes = self.requests.next(times.target, connection.carried);
        let (bytes, more_follow) = match &mut self.uploads {
            None => (bytes, false),
            Some(uploads) => {
                let mix = self.setup.mix;
                let fixed = mix.fixed(times.target, connection.carried);
                uploads.begin(id, now, mix.target(times.target).pieces, bytes, fixed)
            }
        };
        times.length = bytes.len() as u64;
        let given = match &mut self.tls {
            None => io.send(token, bytes),
            Some(tls) => tls.send(io, token, connection.session.as_deref_mut(), bytes),
        };
        if let Err(error) = given {
            return self.unanswered(io, id, now, Err(error));
        }
        // The first attempt of a retried request was already recorded. Its service time begins with that
        // attempt.
        let is_retry = times.sent.is_some();
        times.sent.get_or_insert(now);
        let scheduled = times.scheduled;
        let target = self.setup.mix.target(times.target);
        connection.codec.one().expect("only HTTP/1 comes here").expect_response(target);
        exchange.sent(target);
        if self.sockets.is_some() {
            self.begin_socket(id);
        }
        if more_follow {
            self.timeouts.sending(id, now);
        } else {
            self.timeouts.sent(id, now);
        }
        if !is_retry {
            self.recorder.sent(scheduled, now, reused);
        }
        if target.stream.is_some() && target.handshake.is_none() {
            self.sent_talk(id, now, scheduled);
        }
    }

    /// Sends all pieces that are due at `now`.
    pub(super) fn send_pieces<L: EventLoop>(&mut self, io: &mut L, now: u64) {
        let Some(mut uploads) = self.uploads.take() else { return };
        while let Some(id) = uploads.take_due(now) {
            let connection = self.connection_of(id);
            let token = self.token(connection);
            let (piece, is_last) = uploads.piece(id);
            let length = piece.len();
            let given = match &mut self.tls {
                None => io.send(token, piece),
                Some(tls) => {
                    let session = self.connections[connection.index()].session.as_deref_mut();
                    tls.send(io, token, session, piece)
                }
            };
            match (given, &mut self.exchanges[id.index()].request) {
                (Ok(()), Some(times)) => {
                    times.length += length as u64;
                    if is_last && times.first_byte.is_none() {
                        self.timeouts.sent_whole(id, clock::now());
                    }
                    uploads.advance(id, length);
                }
                // The server may have answered before it closed the connection. The answer, or the end of the
                // connection, is read next.
                (Err(error), _) => uploads.fail(id, error),
                (Ok(()), None) => {
                    uploads.cancel(id);
                }
            }
        }
        self.uploads = Some(uploads);
    }

    /// Ends the upload of an exchange. Returns true if some pieces of its request were not sent.
    pub(super) fn cancel_upload(&mut self, exchange: ExchangeId) -> bool {
        self.uploads.as_mut().is_some_and(|uploads| uploads.cancel(exchange))
    }
}
