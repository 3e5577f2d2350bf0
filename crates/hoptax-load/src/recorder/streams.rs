//! What the connections saw of HTTP/2, and how long requests waited before they were sent.

use hdrhistogram::Histogram;
use hoptax_format::histogram::{self, TRIAL_DIGITS};
use hoptax_format::record::Http2Tally;

/// A histogram of waiting times, nanoseconds. Most are zero, so zeros are counted apart.
#[derive(Debug)]
pub(crate) struct Waits {
    zeros: u64,
    others: Histogram<u64>,
}

#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) tally: Http2Tally,
    pub(super) connection: Waits,
    pub(super) stream: Waits,
    pub(super) window: Waits,
}

impl Waits {
    fn new() -> Self {
        Self { zeros: 0, others: histogram::empty(TRIAL_DIGITS) }
    }

    #[inline]
    pub(super) fn record(&mut self, ns: u64) {
        match ns {
            0 => self.zeros += 1,
            ns => self.others.saturating_record(ns),
        }
    }

    fn add(&mut self, other: &Self) {
        self.zeros += other.zeros;
        self.others.add(&other.others).expect("all have the same bounds");
    }

    /// All waiting times in one histogram.
    fn into_histogram(mut self) -> Histogram<u64> {
        self.others.saturating_record_n(0, self.zeros);
        self.others
    }
}

impl Streams {
    pub(super) fn new() -> Self {
        Self {
            tally: Http2Tally::default(),
            connection: Waits::new(),
            stream: Waits::new(),
            window: Waits::new(),
        }
    }

    /// The times that requests waited for a connection, for a stream and for a window.
    pub(crate) fn waits(self) -> [Histogram<u64>; 3] {
        [self.connection, self.stream, self.window].map(Waits::into_histogram)
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.tally.add(&other.tally);
        self.connection.add(&other.connection);
        self.stream.add(&other.stream);
        self.window.add(&other.window);
    }
}
