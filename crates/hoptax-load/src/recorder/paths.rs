//! Results from the upstream's timestamps: the time from sending a request until the upstream has received
//! it, and the time from the upstream's reply until the response is complete.

use super::times::Times;
use crate::limits;
use crate::stamped::Stamped;
use hdrhistogram::Histogram;
use hoptax_format::histogram::{self, TRIAL_DIGITS};
use hoptax_format::moments::{Moment, Moments};
use hoptax_format::record::StampTally;
use hoptax_format::stamp::Stamp;

/// Results of one worker. Its two histograms need 216 KiB each, so this struct exists only if timestamps were
/// requested.
#[derive(Debug)]
pub(crate) struct Paths {
    pub(crate) tally: StampTally,
    /// Received − sent, nanoseconds.
    pub(crate) request: Histogram<u64>,
    /// Completed − replied, nanoseconds.
    pub(crate) response: Histogram<u64>,
    /// Absent unless the load asks for moments.
    pub(crate) moments: Option<Box<KeptMoments>>,
}

/// The moments of a worker's requests. Its room is allocated once.
#[derive(Debug, Clone)]
pub(crate) struct KeptMoments {
    pub(crate) kept: Moments,
    /// Id of the worker's thread.
    thread: u32,
    most: usize,
}

impl KeptMoments {
    /// Room for `most` requests of the calling thread.
    pub(super) fn new(most: u32) -> Self {
        let requests = Vec::with_capacity(most as usize);
        let kept = Moments { process: std::process::id(), requests, ..Moments::default() };
        Self { kept, thread: limits::thread_id(), most: most as usize }
    }

    fn keep(&mut self, times: Times, stamp: Stamp, now: u64) {
        if self.kept.requests.len() == self.most {
            self.kept.left_out += 1;
            return;
        }
        self.kept.requests.push(Moment {
            scheduled: times.scheduled,
            sent: times.sent.unwrap_or(times.scheduled),
            received: stamp.received,
            replied: stamp.replied,
            completed: now,
            thread: self.thread,
        });
    }
}

impl Paths {
    pub(super) fn new() -> Self {
        let empty = || histogram::empty(TRIAL_DIGITS);
        Self { tally: StampTally::default(), request: empty(), response: empty(), moments: None }
    }

    pub(super) fn stamped(&mut self, times: Times, now: u64, stamped: Stamped) {
        let split = match stamped {
            Stamped::No => {
                self.tally.missing += 1;
                return;
            }
            Stamped::Unreadable => None,
            Stamped::With(stamp) => times.sent.and_then(|sent| Some((stamp, stamp.split(sent, now)?))),
        };
        match split {
            None => self.tally.impossible += 1,
            Some((stamp, paths)) => {
                if let Some(moments) = &mut self.moments {
                    moments.keep(times, stamp, now);
                }
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
        match (&mut self.moments, &other.moments) {
            (Some(mine), Some(theirs)) => {
                mine.kept.left_out += theirs.kept.left_out;
                mine.kept.requests.extend_from_slice(&theirs.kept.requests);
            }
            (None, Some(theirs)) => self.moments = Some(theirs.clone()),
            (_, None) => {}
        }
    }
}
