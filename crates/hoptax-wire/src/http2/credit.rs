//! Detects floods: many frames that cost the peer little and do not carry a request, a response or data (RFC
//! 9113, section 10.5). This module has no clock, so the limits are numbers of frames.

use super::Fault;

/// Number of frames without progress that are accepted in a row. A client that pings an idle connection every
/// 10 s needs a day for this.
const CREDIT: u32 = 10_000;
/// Each time that we send something, we accept this number of frames more. The peer can answer with a
/// WINDOW_UPDATE of the stream, one of the connection, and a PING that measures the round trip. A stream of
/// many small messages in one direction must not use up the credit.
const FRAMES_PER_SEND: u32 = 3;
/// Each time that we send this number of bytes, we accept one more frame: the peer can answer each of its
/// reads with a WINDOW_UPDATE.
const BYTES_PER_FRAME: usize = 256;
/// Maximum number of streams that a client may reset. Each request that completes allows four more resets,
/// and data that we send allow one more. Floods of resets therefore exceed the limit, and clients whose
/// requests often time out, or that leave long responses, do not.
const RESETS: u32 = 1000;
const RESETS_PER_REQUEST: u32 = 4;
/// Maximum number of CONTINUATION frames in a block. Four hold 64 KiB.
pub(super) const CONTINUATIONS: u32 = 256;

/// Number of frames and resets that we still accept from the peer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Credit {
    frames: u32,
    resets: u32,
}

impl Default for Credit {
    fn default() -> Self {
        Self { frames: CREDIT, resets: RESETS }
    }
}

impl Credit {
    /// Counts a frame that makes no progress. `flood` is the fault if there were too many.
    pub(super) fn spend(&mut self, flood: Fault) -> Result<(), Fault> {
        self.frames = self.frames.checked_sub(1).ok_or(flood)?;
        Ok(())
    }

    /// A request, a response or data has passed in either direction.
    #[inline]
    pub(super) fn progress(&mut self) {
        self.frames = self.frames.max(CREDIT);
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        const MOST: u32 = 1 << 30;
        let more = (bytes / BYTES_PER_FRAME) as u32 + FRAMES_PER_SEND;
        self.frames = self.frames.saturating_add(more).min(MOST);
        self.resets = (self.resets + u32::from(bytes > 0)).min(RESETS);
    }

    /// The client has reset a stream.
    pub(super) fn reset(&mut self) -> Result<(), Fault> {
        self.resets = self.resets.checked_sub(1).ok_or(Fault::ResetFlood)?;
        Ok(())
    }

    /// Both sides have ended a stream.
    #[inline]
    pub(super) fn completed(&mut self) {
        self.resets = (self.resets + RESETS_PER_REQUEST).min(RESETS);
    }
}
