//! How long the other side has been silent. Both sides send something at least every [`BEAT`]. A side that
//! hears nothing for [`LIMIT`] gives up, because a host that was switched off or cut off closes no
//! connection.

use super::frame;
use hoptax_format::clock::SECOND;
use serde::Serialize;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Longest time between two messages of one side. The cost of a message is too small to measure.
const BEAT: Duration = Duration::from_secs(1);

/// Time of silence after which a side gives up, ns. Guards need some time too, and all services must have
/// ended 10 s after a host was lost.
pub(crate) const LIMIT_NS: u64 = 8 * SECOND;

/// If two checks are further apart than this, ns, our own process was suspended between them. The silence
/// during the suspension says nothing about the other side.
const SUSPENDED_NS: u64 = SECOND;

/// Writes frames, and `beat` whenever no frame comes for [`BEAT`], until writing fails or no sender is left.
pub(crate) fn send_frames(to: &mut impl Write, frames: &Receiver<Vec<u8>>, beat: &impl Serialize) {
    let beat = frame::encode(beat).expect("a beat is short");
    loop {
        let frame = match frames.recv_timeout(BEAT) {
            Ok(frame) => frame,
            Err(RecvTimeoutError::Timeout) => beat.clone(),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if to.write_all(&frame).is_err() {
            return;
        }
    }
}

/// Decides whether the other side is silent. All times are on one monotonic clock, ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Silence {
    heard_ns: u64,
    looked_ns: u64,
}

impl Silence {
    /// Begins to listen now.
    pub(crate) fn new(now: u64) -> Self {
        Self { heard_ns: now, looked_ns: now }
    }

    /// Notes that something was heard.
    pub(crate) fn heard(&mut self, at: u64) {
        self.heard_ns = self.heard_ns.max(at);
    }

    /// Whether nothing was heard for too long. Must be called several times a second.
    pub(crate) fn is_too_long(&mut self, now: u64) -> bool {
        if now.saturating_sub(self.looked_ns) > SUSPENDED_NS {
            self.heard_ns = now;
        }
        self.looked_ns = now;
        now.saturating_sub(self.heard_ns) > LIMIT_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every 0.1 s from `from` to `to`, both in tenths of a second. Returns the first moment of too
    /// long a silence.
    fn first(silence: &mut Silence, from: u64, to: u64) -> Option<u64> {
        (from..=to).find(|tenth| silence.is_too_long(tenth * SECOND / 10))
    }

    #[test]
    fn silence_counts_from_what_was_heard_last() {
        let mut silence = Silence::new(0);
        assert_eq!(first(&mut silence, 0, 80), None);
        silence.heard(8 * SECOND);
        assert_eq!(first(&mut silence, 80, 300), Some(161), "8 s after it");
    }

    #[test]
    fn our_own_suspension_is_not_silence() {
        let mut silence = Silence::new(0);
        assert_eq!(first(&mut silence, 0, 10), None);
        assert_eq!(first(&mut silence, 1_000, 1_080), None, "suspended for 99 s");
        assert_eq!(first(&mut silence, 1_081, 1_100), Some(1_081));
    }
}
