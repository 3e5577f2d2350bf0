//! HTTP/2: many responses at a time.

use crate::exchange::ExchangeId;
use crate::spares::Spares;
use hoptax_format::clock::SECOND;
use hoptax_wire::http2::{self, Config};
use std::collections::VecDeque;

/// Maximum number of streams that we reset on a connection within [`CANCELS_IN`]. Servers count resets to
/// recognise attacks, and close a connection that has too many: Traffic Server closes it after 200 in a
/// minute. Our timeouts must not cause this.
const MOST_CANCELS: u32 = 50;
const CANCELS_IN: u64 = 60 * SECOND;
/// Window of each stream if clients pause, bytes. This is HTTP/2's default (RFC 9113, section 6.9.2). Our
/// usual window is larger than most responses, so a pause would not stop them.
const WINDOW_OF_PAUSES: u32 = 65_535;

/// One connection. It owns little memory until it begins.
#[derive(Debug, Default)]
pub(crate) struct Http2 {
    /// Absent until the connection to the server is established.
    connection: Option<Box<http2::Connection>>,
    /// Input that the connection could not use yet: the beginning of a frame.
    pub(crate) spill: Vec<u8>,
    /// Output that was not sent yet.
    pub(crate) out: Vec<u8>,
    /// True while the worker knows that it must flush this connection.
    pub(crate) is_listed: bool,
    /// Exchanges whose requests are in `out`.
    pub(crate) unsent: Vec<ExchangeId>,
    /// Exchanges that wait for a stream, in order.
    pub(crate) waiting: VecDeque<ExchangeId>,
    /// Number of exchanges whose request is on this connection and has no outcome yet.
    pub(crate) in_flight: u32,
    /// The latest stream whose response is complete.
    newest: u32,
    /// True if the connection gets no further request: the server has sent GOAWAY, or the connection has
    /// carried as many requests as it may.
    pub(crate) draining: bool,
    /// Number of streams that we have reset since `cancels_since`.
    cancels: u32,
    cancels_since: u64,
}

impl Http2 {
    /// Begins the connection: writes the preface and our settings. `streams` is the maximum number of
    /// requests in flight. `has_pauses` is true if clients pause within responses.
    pub(crate) fn begin(&mut self, streams: u32, has_pauses: bool, spares: &mut Spares) {
        self.prepare(spares);
        let usual = Config { streams, ..Config::default() };
        let config = if has_pauses { Config { window: WINDOW_OF_PAUSES, ..usual } } else { usual };
        self.connection = Some(Box::new(http2::Connection::client(config, &mut self.out)));
    }

    /// True if the connection has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.connection.is_some()
    }

    /// True if the connection has begun, and the server's settings have not arrived.
    pub(crate) fn is_greeting(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| !connection.peer_settings_known())
    }

    /// Makes sure that there is a buffer for output.
    pub(crate) fn prepare(&mut self, spares: &mut Spares) {
        if self.out.capacity() == 0 {
            self.out = spares.take();
        }
    }

    /// The connection with its buffer for output. `None` if it has not begun, or has ended.
    #[inline]
    pub(crate) fn parts(&mut self) -> Option<(&mut http2::Connection, &mut Vec<u8>)> {
        self.connection.as_deref_mut().map(|connection| (connection, &mut self.out))
    }

    /// True if a request can be sent now.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        !self.draining && self.connection.as_ref().is_some_and(|connection| connection.capacity() > 0)
    }

    /// The largest number of streams that the server allows, if it has stated one.
    pub(crate) fn stream_limit(&self) -> Option<u32> {
        self.connection.as_ref().and_then(|connection| connection.peer().max_concurrent_streams)
    }

    /// True if the server takes WebSockets (RFC 8441, section 3).
    pub(crate) fn takes_websockets(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.peer().connect_protocol)
    }

    /// True if a response was complete on this connection.
    pub(crate) fn has_answered(&self) -> bool {
        self.newest > 0
    }

    /// Called when the response on a stream is complete. Returns true if the response on a later stream was
    /// complete before.
    #[inline]
    pub(crate) fn completed(&mut self, stream: u32) -> bool {
        let is_overtaken = stream < self.newest;
        self.newest = self.newest.max(stream);
        is_overtaken
    }

    /// Counts a stream that we want to reset at `now`. Returns false if the server could mistake another
    /// reset for an attack.
    pub(crate) fn may_cancel(&mut self, now: u64) -> bool {
        if now.saturating_sub(self.cancels_since) >= CANCELS_IN {
            (self.cancels, self.cancels_since) = (0, now);
        }
        self.cancels += 1;
        self.cancels <= MOST_CANCELS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_streams_are_reset_in_a_minute() {
        let mut codec = Http2::default();
        let allowed = |codec: &mut Http2, now| (0..200).filter(|_| codec.may_cancel(now)).count();
        assert_eq!(allowed(&mut codec, SECOND), MOST_CANCELS as usize);
        assert_eq!(allowed(&mut codec, 2 * SECOND), 0);
        assert_eq!(allowed(&mut codec, CANCELS_IN + SECOND), MOST_CANCELS as usize);
    }

    #[test]
    fn responses_after_that_of_a_later_stream_are_overtaken() {
        let mut codec = Http2::default();
        let overtaken = [3, 1, 5, 11, 7, 9, 13].map(|stream| codec.completed(stream));
        assert_eq!(overtaken, [false, true, false, false, true, true, false]);
    }

    #[test]
    fn a_connection_has_no_room_before_the_settings_of_the_server() {
        let (mut codec, mut spares) = (Http2::default(), Spares::new(1000));
        assert!(!codec.has_begun() && !codec.is_greeting() && !codec.has_room());
        codec.begin(10, false, &mut spares);
        assert!(codec.has_begun() && codec.is_greeting());
        assert!(codec.out.starts_with(http2::PREFACE));
    }
}
