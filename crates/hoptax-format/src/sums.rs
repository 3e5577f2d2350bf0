//! Adds up the counts of the workers of a generator, and the counts of the generators of a load.

use crate::fields::add_fields;
use crate::histogram::{DecodeError, Encoded};
use crate::record::{
    Bytes, Connections, Counts, Http2Tally, Lifetime, Occupancy, Silence, StampTally, TlsTally, Window,
};
use std::collections::BTreeMap;

/// Maximum number of distinct error texts. Further texts are counted as [`OTHER_ERRORS`].
pub const ERROR_TEXTS: usize = 16;
/// Name under which all further error texts are counted.
pub const OTHER_ERRORS: &str = "other errors";

/// Adds `times` to the count of an error.
pub fn add_error(errors: &mut BTreeMap<String, u64>, text: &str, times: u64) {
    let text = if errors.len() < ERROR_TEXTS || errors.contains_key(text) { text } else { OTHER_ERRORS };
    count(errors, text, times);
}

/// Adds `times` to the count of `name`. Allocates only if `name` is new.
pub fn count(counts: &mut BTreeMap<String, u64>, name: &str, times: u64) {
    match counts.get_mut(name) {
        Some(count) => *count += times,
        None => {
            counts.insert(name.to_owned(), times);
        }
    }
}

impl Counts {
    /// Adds the counts of `theirs`.
    pub fn add(&mut self, theirs: Self) {
        add_fields!(self, theirs:
            scheduled sent retried completed ended_by_client ok timeouts connect_errors resets bad_responses
            unsent in_flight
        );
        for (status, count) in theirs.status {
            *self.status.entry(status).or_default() += count;
        }
        for (status, count) in &theirs.grpc {
            self::count(&mut self.grpc, status, *count);
        }
        self.trailers_lost += theirs.trailers_lost;
        for (cause, count) in theirs.causes {
            *self.causes.entry(cause).or_default() += count;
        }
        for (check, count) in theirs.failed_checks {
            *self.failed_checks.entry(check).or_default() += count;
        }
        for (text, count) in theirs.errors {
            add_error(&mut self.errors, &text, count);
        }
    }
}

impl Lifetime {
    /// Adds the counts of `theirs`.
    pub fn add(&mut self, theirs: Self) {
        add_fields!(self, theirs: all sent completed opened);
    }
}

impl Connections {
    /// Adds the counts of `theirs`.
    pub fn add(&mut self, theirs: Self) {
        add_fields!(self, theirs:
            all asked established opened reused closed_by_peer closed_after_first closed_on_reuse unasked
        );
    }
}

impl Http2Tally {
    /// Adds the counts of `theirs`. The limit is the smaller of the two.
    pub fn add(&mut self, theirs: &Self) {
        self.stream_limit = self.stream_limit.into_iter().chain(theirs.stream_limit).min();
        self.most_streams = self.most_streams.max(theirs.most_streams);
        add_fields!(self, theirs:
            goaways calmed resets refused unprocessed window_stalled_ns stream_ns overtaken
        );
    }
}

impl Bytes {
    /// Adds the counts of `theirs`.
    pub fn add(&mut self, theirs: Self) {
        add_fields!(self, theirs: all sent received body);
    }
}

impl TlsTally {
    /// Adds the counts of `theirs`.
    pub fn add(&mut self, theirs: &Self) {
        self.handshakes += theirs.handshakes;
        self.resumed += theirs.resumed;
        for (mine, theirs) in [
            (&mut self.versions, &theirs.versions),
            (&mut self.cipher_suites, &theirs.cipher_suites),
            (&mut self.alpn, &theirs.alpn),
        ] {
            for (name, times) in theirs {
                count(mine, name, *times);
            }
        }
    }
}

impl StampTally {
    /// Adds the counts. The clock does not change.
    pub fn add_counts(&mut self, theirs: &Self) {
        add_fields!(self, theirs: used missing impossible);
    }
}

impl Window {
    /// Adds the counts of a window. The response times do not change.
    pub fn add_counts(&mut self, theirs: Self) {
        add_fields!(self, theirs: sent completed ok timeouts errors opened);
        for (cause, count) in theirs.causes {
            *self.causes.entry(cause).or_default() += count;
        }
    }
}

impl Occupancy {
    /// Adds the record of another generator that sent a part of the same load and began at the same moment.
    ///
    /// # Errors
    /// If a histogram cannot be read.
    pub fn plus(self, theirs: &Self) -> Result<Self, DecodeError> {
        let mut responses = self.responses.decode()?;
        let other_range = |_| DecodeError::Head("its range of values is not that of hoptax");
        responses.add(theirs.responses.decode()?).map_err(other_range)?;
        Ok(Self {
            responses: Encoded::new(&responses),
            unanswered: self.unanswered + theirs.unanswered,
            busy_ns: self.busy_ns + theirs.busy_ns,
            waited: self.waited + theirs.waited,
            silence: self.silence.common(theirs.silence),
            longest_turn_ns: self.longest_turn_ns.max(theirs.longest_turn_ns),
        })
    }
}

impl Silence {
    /// The silence from `from` to `to`. Its length is zero if `to` is earlier.
    #[inline]
    pub fn between(from: u64, to: u64) -> Self {
        Self { at_ns: from, for_ns: to.saturating_sub(from) }
    }

    /// The time that both silences have in common. Its length is zero if they do not overlap.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        let end = (self.at_ns + self.for_ns).min(other.at_ns + other.for_ns);
        Self::between(self.at_ns.max(other.at_ns), end)
    }
}
