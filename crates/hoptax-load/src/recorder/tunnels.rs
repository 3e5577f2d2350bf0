//! Counts of WebSockets: handshakes, pings and ends.

use super::Recorder;
use hoptax_format::messages::MessageCounts;

impl Recorder {
    /// Records that the client has answered a ping.
    pub(crate) fn ping_answered(&mut self, now: u64) {
        let is_measured = self.counts(now);
        if let Some(counts) = self.messages_if(is_measured) {
            counts.pings += 1;
        }
    }

    /// Records that the server did not accept the handshake of a WebSocket that was due at `scheduled`.
    pub(crate) fn handshake_refused(&mut self, scheduled: u64) {
        let is_measured = self.counts(scheduled);
        if let Some(counts) = self.messages_if(is_measured) {
            counts.refused += 1;
        }
    }

    /// Records the end of a WebSocket whose handshake the server had accepted. `is_cut` is true if there was
    /// no close frame.
    pub(crate) fn tunnel_ended(&mut self, scheduled: u64, now: u64, is_compressed: bool, is_cut: bool) {
        let is_measured = scheduled < self.end && now >= self.start;
        if let Some(counts) = self.messages_if(is_measured) {
            counts.compressed += u64::from(is_compressed);
            counts.cut += u64::from(is_cut);
        }
    }

    fn messages_if(&mut self, is_measured: bool) -> Option<&mut MessageCounts> {
        let messages = self.tally.messages.as_mut().filter(|_| is_measured)?;
        Some(&mut messages.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn websockets_count_in_the_measured_time() {
        let mut recorder = Recorder::new(false, 1).with_messages(true);
        recorder.measure(10, 20);
        for at in [9, 10, 19, 20] {
            recorder.ping_answered(at);
            recorder.handshake_refused(at);
        }
        // One ended before, one began before, one ended after, one began after.
        for (scheduled, now) in [(5, 9), (5, 15), (15, 25), (20, 25)] {
            recorder.tunnel_ended(scheduled, now, true, scheduled == 15);
        }
        let counts = recorder.messages_if(true).expect("recorded");
        assert_eq!((counts.pings, counts.refused, counts.compressed, counts.cut), (2, 2, 2, 1));
        assert!(Recorder::new(false, 1).messages_if(true).is_none());
    }
}
