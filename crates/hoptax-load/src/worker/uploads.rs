//! Sends the pieces of requests that pause between their chunks, each when it is due.
//!
//! The first piece is sent like a whole request. The others are due at fixed times after it, so all uploads
//! of a target take the same time, even if a piece is late.

use crate::target::Pieces;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

/// The uploads of a worker's slots.
#[derive(Debug, Default)]
pub(super) struct Uploads<'a> {
    slots: Vec<Upload<'a>>,
    /// When the next piece of a slot is due. Entries of uploads that have ended are skipped.
    due: BinaryHeap<Reverse<(u64, u32)>>,
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
    /// Begins to send `request` on `slot` at `now`. Returns its first piece, and whether other pieces follow.
    /// `fixed` is the request too, if all requests to this target are the same.
    pub(super) fn begin<'b>(
        &mut self,
        slot: u32,
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
        if self.slots.len() <= slot as usize {
            self.slots.resize_with(slot as usize + 1, Upload::default);
        }
        let upload = &mut self.slots[slot as usize];
        upload.made.clear();
        if fixed.is_none() {
            upload.made.extend_from_slice(request);
        }
        (upload.pieces, upload.fixed, upload.sent, upload.failed) = (pieces, fixed, first, None);
        self.wait(slot, now.saturating_add(how.pause_ns));
        (&request[..first], true)
    }

    fn wait(&mut self, slot: u32, due: u64) {
        self.slots[slot as usize].due = Some(due);
        self.due.push(Reverse((due, slot)));
    }

    /// When the next piece is due, or `u64::MAX` if there is none.
    pub(super) fn next(&self) -> u64 {
        self.due.peek().map_or(u64::MAX, |Reverse((due, _))| *due)
    }

    /// Returns a slot whose next piece is due at `now`.
    pub(super) fn take_due(&mut self, now: u64) -> Option<u32> {
        while self.next() <= now {
            let Reverse((due, slot)) = self.due.pop()?;
            if self.slots[slot as usize].due == Some(due) {
                return Some(slot);
            }
        }
        None
    }

    /// The next piece of `slot`, and whether it is the last.
    pub(super) fn piece(&self, slot: u32) -> (&[u8], bool) {
        let upload = &self.slots[slot as usize];
        let rest = upload.rest();
        let length = upload.pieces.map_or(rest.len(), |pieces| pieces.next(rest.len()));
        (&rest[..length], length == rest.len())
    }

    #[cfg(test)]
    pub(super) fn is_waiting(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|upload| upload.due.is_some())
    }

    /// Called when the next piece of `slot`, of `length` bytes, was sent.
    pub(super) fn advance(&mut self, slot: u32, length: usize) {
        let upload = &mut self.slots[slot as usize];
        upload.sent += length;
        let due = upload.due.take().filter(|_| !upload.rest().is_empty());
        if let (Some(due), Some(pieces)) = (due, upload.pieces) {
            self.wait(slot, due.saturating_add(pieces.pause_ns));
        }
    }

    /// Called when the next piece of `slot` could not be sent. No further piece is sent.
    pub(super) fn fail(&mut self, slot: u32, error: io::Error) {
        let upload = &mut self.slots[slot as usize];
        (upload.due, upload.failed) = (None, Some(error));
    }

    /// Ends the upload of `slot`. Returns true if some pieces were not sent.
    pub(super) fn cancel(&mut self, slot: u32) -> bool {
        let upload = self.slots.get_mut(slot as usize);
        upload.is_some_and(|upload| upload.due.take().is_some() | upload.failed.take().is_some())
    }

    /// Why a piece of the current request of `slot` could not be sent. Absent if all were sent.
    pub(super) fn failure(&mut self, slot: u32) -> Option<io::Error> {
        self.slots.get_mut(slot as usize)?.failed.take()
    }
}
