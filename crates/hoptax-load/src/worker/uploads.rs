//! Sends the pieces of requests that pause between their chunks, each when it is due.
//!
//! The first piece is sent like a whole request. The others are due at fixed times after it, so all uploads
//! of a target take the same time, even if a piece is late.

use crate::exchange::ExchangeId;
use crate::target::Pieces;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

/// The uploads of a worker's exchanges.
#[derive(Debug, Default)]
pub(super) struct Uploads<'a> {
    uploads: Vec<Upload<'a>>,
    /// When the next piece of an exchange is due. Entries of uploads that have ended are skipped, and removed
    /// before there are more than two entries per exchange.
    due: BinaryHeap<Reverse<(u64, ExchangeId)>>,
}

#[derive(Debug, Default)]
struct Upload<'a> {
    /// When the next piece is due. Absent if there is no further piece.
    due: Option<u64>,
    pieces: Option<Pieces>,
    /// The whole request, if all requests to its target are the same. Otherwise, it is in `made`.
    fixed: Option<&'a [u8]>,
    made: Vec<u8>,
    sent: usize,
    /// Why a piece could not be sent.
    failed: Option<io::Error>,
}

impl Upload<'_> {
    fn rest(&self) -> &[u8] {
        &self.fixed.unwrap_or(&self.made)[self.sent..]
    }
}

impl<'a> Uploads<'a> {
    /// Begins to send `request` on `exchange` at `now`. Returns its first piece, and whether other pieces
    /// follow. `fixed` is the request too, if all requests to this target are the same.
    pub(super) fn begin<'b>(
        &mut self,
        exchange: ExchangeId,
        now: u64,
        pieces: Option<Pieces>,
        request: &'b [u8],
        fixed: Option<&'a [u8]>,
    ) -> (&'b [u8], bool) {
        let Some(how) = pieces else { return (request, false) };
        let first = how.first(request);
        if first == request.len() {
            return (request, false);
        }
        if self.uploads.len() <= exchange.index() {
            self.uploads.resize_with(exchange.index() + 1, Upload::default);
        }
        let upload = &mut self.uploads[exchange.index()];
        upload.made.clear();
        if fixed.is_none() {
            upload.made.extend_from_slice(request);
        }
        (upload.pieces, upload.fixed, upload.sent, upload.failed) = (pieces, fixed, first, None);
        self.wait(exchange, now.saturating_add(how.pause_ns));
        (&request[..first], true)
    }

    fn wait(&mut self, exchange: ExchangeId, due: u64) {
        self.uploads[exchange.index()].due = Some(due);
        // Each exchange has at most one current entry. The others are of uploads that have ended.
        if self.due.len() >= 2 * self.uploads.len() {
            let uploads = &self.uploads;
            self.due.retain(|Reverse((due, exchange))| uploads[exchange.index()].due == Some(*due));
        }
        self.due.push(Reverse((due, exchange)));
    }

    /// When the next piece is due, or `u64::MAX` if there is none.
    pub(super) fn next(&self) -> u64 {
        self.due.peek().map_or(u64::MAX, |Reverse((due, _))| *due)
    }

    /// Returns an exchange whose next piece is due at `now`.
    pub(super) fn take_due(&mut self, now: u64) -> Option<ExchangeId> {
        while self.next() <= now {
            let Reverse((due, exchange)) = self.due.pop()?;
            if self.uploads[exchange.index()].due == Some(due) {
                return Some(exchange);
            }
        }
        None
    }

    /// The next piece of `exchange`, and whether it is the last.
    pub(super) fn piece(&self, exchange: ExchangeId) -> (&[u8], bool) {
        let upload = &self.uploads[exchange.index()];
        let rest = upload.rest();
        let length = upload.pieces.map_or(rest.len(), |pieces| pieces.next(rest.len()));
        (&rest[..length], length == rest.len())
    }

    #[cfg(test)]
    pub(super) fn is_waiting(&self, exchange: ExchangeId) -> bool {
        self.uploads.get(exchange.index()).is_some_and(|upload| upload.due.is_some())
    }

    /// Called when the next piece of `exchange`, of `length` bytes, was sent.
    pub(super) fn advance(&mut self, exchange: ExchangeId, length: usize) {
        let upload = &mut self.uploads[exchange.index()];
        upload.sent += length;
        let due = upload.due.take().filter(|_| !upload.rest().is_empty());
        if let (Some(due), Some(pieces)) = (due, upload.pieces) {
            self.wait(exchange, due.saturating_add(pieces.pause_ns));
        }
    }

    /// Called when the next piece of `exchange` could not be sent. No further piece is sent.
    pub(super) fn fail(&mut self, exchange: ExchangeId, error: io::Error) {
        let upload = &mut self.uploads[exchange.index()];
        (upload.due, upload.failed) = (None, Some(error));
    }

    /// Ends the upload of `exchange`. Returns true if some pieces were not sent.
    pub(super) fn cancel(&mut self, exchange: ExchangeId) -> bool {
        let upload = self.uploads.get_mut(exchange.index());
        upload.is_some_and(|upload| upload.due.take().is_some() | upload.failed.take().is_some())
    }

    /// Why a piece of the current request of `exchange` could not be sent. Absent if all were sent.
    pub(super) fn failure(&mut self, exchange: ExchangeId) -> Option<io::Error> {
        self.uploads.get_mut(exchange.index())?.failed.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_that_end_long_before_they_are_due_leave_few_entries() {
        let (slow, short) = (ExchangeId(0), ExchangeId(1));
        let mut uploads = Uploads::default();
        uploads.uploads.resize_with(2, Upload::default);
        uploads.wait(slow, 5000);
        for now in 0..1000 {
            uploads.wait(short, now + 10_000);
            assert!(uploads.cancel(short) && uploads.due.len() <= 4, "{now}");
        }
        assert_eq!([5000, 20_000].map(|now| uploads.take_due(now)), [Some(slow), None]);
    }
}
