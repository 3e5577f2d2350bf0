//! Sends requests, at once or in pieces.

use super::Worker;
use crate::clock;
use crate::connection::Event;
use crate::event_loop::EventLoop;

impl Worker<'_> {
    pub(super) fn send<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64) {
        let token = self.token(slot);
        let state = &mut self.slots[slot as usize];
        let times = state.request.as_mut().expect("only a slot with a request sends");
        let reused = state.carried > 0;
        state.carried = state.carried.saturating_add(1);
        let bytes = self.requests.next(times.target, state.carried);
        let (bytes, more_follow) = match &mut self.uploads {
            None => (bytes, false),
            Some(uploads) => {
                let mix = self.setup.mix;
                let fixed = mix.fixed(times.target, state.carried);
                uploads.begin(slot, now, mix.target(times.target).pieces, bytes, fixed)
            }
        };
        times.length = bytes.len() as u64;
        let given = match &mut self.tls {
            None => io.send(token, bytes),
            Some(tls) => tls.send(io, token, state.session.as_deref_mut(), bytes),
        };
        if let Err(error) = given {
            return self.unanswered(io, slot, now, Err(error));
        }
        // The first attempt of a retried request was already recorded. Its service time begins with that
        // attempt.
        let is_retry = times.sent.is_some();
        times.sent.get_or_insert(now);
        let scheduled = times.scheduled;
        let target = self.setup.mix.target(times.target);
        state.expect_response(target);
        state.step(Event::Sent);
        if more_follow {
            self.timeouts.sending(slot, now);
        } else {
            self.timeouts.sent(slot, now);
        }
        if !is_retry {
            self.recorder.sent(scheduled, now, reused);
        }
    }

    /// Sends all pieces that are due at `now`.
    pub(super) fn send_pieces<L: EventLoop>(&mut self, io: &mut L, now: u64) {
        let Some(mut uploads) = self.uploads.take() else { return };
        while let Some(slot) = uploads.take_due(now) {
            let token = self.token(slot);
            let state = &mut self.slots[slot as usize];
            let (piece, is_last) = uploads.piece(slot);
            let length = piece.len();
            let given = match &mut self.tls {
                None => io.send(token, piece),
                Some(tls) => tls.send(io, token, state.session.as_deref_mut(), piece),
            };
            match (given, &mut state.request) {
                (Ok(()), Some(times)) => {
                    times.length += length as u64;
                    if is_last && times.first_byte.is_none() {
                        self.timeouts.sent_whole(slot, clock::now());
                    }
                    uploads.advance(slot, length);
                }
                // The server may have answered before it closed the connection. The answer, or the end of the
                // connection, is read next.
                (Err(error), _) => uploads.fail(slot, error),
                (Ok(()), None) => {
                    uploads.cancel(slot);
                }
            }
        }
        self.uploads = Some(uploads);
    }

    /// Ends the upload of `slot`. Returns true if some pieces of its request were not sent.
    pub(super) fn cancel_upload(&mut self, slot: u32) -> bool {
        self.uploads.as_mut().is_some_and(|uploads| uploads.cancel(slot))
    }
}
