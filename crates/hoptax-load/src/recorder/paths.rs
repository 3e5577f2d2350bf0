//! Results from the upstream's timestamps: the time from sending a request until the upstream has received
//! it, and the time from the upstream's reply until the response is complete.

use super::times::Times;
use crate::stamped::Stamped;
use hdrhistogram::Histogram;
use hoptax_format::histogram::{self, TRIAL_DIGITS};
use hoptax_format::record::StampTally;

/// Results of one worker. Its two histograms need 216 KiB each, so this struct exists only if timestamps were
/// requested.
#[derive(Debug)]
pub(crate) struct Paths {
    pub(crate) tally: StampTally,
    /// Received − sent, nanoseconds.
    pub(crate) request: Histogram<u64>,
    /// Completed − replied, nanoseconds.
    pub(crate) response: Histogram<u64>,
}

impl Paths {
    pub(super) fn new() -> Self {
        let empty = || histogram::empty(TRIAL_DIGITS);
        Self { tally: StampTally::default(), request: empty(), response: empty() }
    }

    pub(super) fn stamped(&mut self, times: Times, now: u64, stamped: Stamped) {
        let split = match stamped {
            Stamped::No => {
                self.tally.missing += 1;
                return;
            }
            Stamped::Unreadable => None,
            Stamped::With(stamp) => times.sent.and_then(|sent| stamp.split(sent, now)),
        };
        match split {
            None => self.tally.impossible += 1,
            Some(paths) => {
                self.tally.used += 1;
                self.request.saturating_record(paths.request);
                self.response.saturating_record(paths.response);
            }
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.tally.add_counts(&other.tally);
        for (mine, theirs) in [(&mut self.request, &other.request), (&mut self.response, &other.response)] {
            mine.add(theirs).expect("all have the same bounds");
        }
    }
}
