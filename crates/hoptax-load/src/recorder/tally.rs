//! Results of a worker, and how the results of all workers are added up.

use super::messages::Messages;
use super::occupancy::Busy;
use super::paths::Paths;
use super::streams::Streams;
use super::targets::Targets;
use crate::checks::FailedChecks;
use hdrhistogram::Histogram;
use hoptax_format::histogram::{self, Encoded, TRIAL_DIGITS, WINDOW_DIGITS};
use hoptax_format::record::{Bytes, Connections, Counts, Lifetime, TlsTally, Window};

#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) counts: Counts,
    pub(crate) completed_in_time: u64,
    pub(crate) lifetime: Lifetime,
    pub(crate) connections: Connections,
    pub(crate) bytes: Bytes,
    pub(crate) histograms: Latencies,
    pub(crate) windows: Vec<Window>,
    pub(crate) failed_checks: FailedChecks,
    pub(crate) targets: Targets,
    /// Absent until the first TLS handshake is complete.
    pub(crate) tls: Option<Box<Handshakes>>,
    pub(crate) paths: Option<Box<Paths>>,
    /// Absent for HTTP/1.
    pub(crate) streams: Option<Box<Streams>>,
    /// Absent if no call has streams.
    pub(crate) messages: Option<Box<Messages>>,
    pub(crate) last_outcome: u64,
    /// Failed requests over the whole life of the worker.
    pub(crate) failures: u64,
    pub(crate) busy: Box<Busy>,
    /// Where the first redirect pointed to.
    pub(crate) redirected_to: Option<String>,
}

/// The histograms of a trial, in nanoseconds.
#[derive(Debug)]
pub(crate) struct Latencies {
    pub(crate) response_time: Histogram<u64>,
    pub(crate) service_time: Histogram<u64>,
    pub(crate) send_lag: Histogram<u64>,
    pub(crate) first_byte: Histogram<u64>,
    pub(crate) connect: Histogram<u64>,
}

/// Counts of TLS handshakes over the whole life of a worker.
#[derive(Debug)]
pub(crate) struct Handshakes {
    pub(crate) tally: TlsTally,
    /// Durations of handshakes, nanoseconds.
    pub(crate) took: Histogram<u64>,
}

pub(crate) fn outcomes(counts: &Counts) -> u64 {
    counts.completed
        + counts.timeouts
        + counts.connect_errors
        + counts.resets
        + counts.bad_responses
        + counts.unsent
        + counts.in_flight
}

impl Handshakes {
    pub(crate) fn new() -> Self {
        Self { tally: TlsTally::default(), took: histogram::empty(TRIAL_DIGITS) }
    }

    fn add(&mut self, other: &Self) {
        self.took.add(&other.took).expect("all have the same bounds");
        self.tally.add(&other.tally);
    }
}

impl Tally {
    pub(crate) fn new() -> Self {
        let empty = || histogram::empty(TRIAL_DIGITS);
        Self {
            counts: Counts::default(),
            completed_in_time: 0,
            lifetime: Lifetime::default(),
            connections: Connections::default(),
            bytes: Bytes::default(),
            histograms: Latencies {
                response_time: empty(),
                service_time: empty(),
                send_lag: empty(),
                first_byte: empty(),
                connect: empty(),
            },
            windows: Vec::new(),
            failed_checks: FailedChecks::default(),
            targets: Targets::default(),
            tls: None,
            paths: None,
            streams: None,
            messages: None,
            last_outcome: 0,
            failures: 0,
            busy: Box::new(Busy::new()),
            redirected_to: None,
        }
    }

    pub(crate) fn add(&mut self, other: Tally) {
        self.counts.add(other.counts);
        self.completed_in_time += other.completed_in_time;
        self.lifetime.add(other.lifetime);
        self.connections.add(other.connections);
        self.bytes.add(other.bytes);
        self.histograms.add(&other.histograms);
        self.failed_checks.add_all(&other.failed_checks);
        self.targets.add(other.targets);
        if let Some(theirs) = other.tls {
            self.tls.get_or_insert_with(|| Box::new(Handshakes::new())).add(&theirs);
        }
        if let Some(theirs) = other.paths {
            self.paths.get_or_insert_with(|| Box::new(Paths::new())).add(&theirs);
        }
        if let Some(theirs) = other.streams {
            self.streams.get_or_insert_with(|| Box::new(Streams::new())).add(&theirs);
        }
        if let Some(theirs) = other.messages {
            self.messages.get_or_insert_with(|| Box::new(Messages::new())).add(&theirs);
        }
        self.last_outcome = self.last_outcome.max(other.last_outcome);
        self.redirected_to = self.redirected_to.take().or(other.redirected_to);
        if self.windows.len() < other.windows.len() {
            self.windows.resize_with(other.windows.len(), Window::default);
        }
        for (mine, theirs) in self.windows.iter_mut().zip(other.windows) {
            add_window(mine, theirs);
        }
    }
}

impl Latencies {
    fn add(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.response_time, &other.response_time),
            (&mut self.service_time, &other.service_time),
            (&mut self.send_lag, &other.send_lag),
            (&mut self.first_byte, &other.first_byte),
            (&mut self.connect, &other.connect),
        ] {
            mine.add(theirs).expect("all have the same bounds");
        }
    }
}

fn add_window(mine: &mut Window, theirs: Window) {
    let mut theirs = theirs;
    let response_time = theirs.response_time.take();
    mine.add_counts(theirs);
    mine.response_time = match (mine.response_time.take(), response_time) {
        (Some(mine), Some(theirs)) => {
            let mut sum = histogram::empty(WINDOW_DIGITS);
            for part in [mine, theirs] {
                let part = part.decode().expect("encoded by this process");
                sum.add(&part).expect("all have the same bounds");
            }
            Some(Encoded::new(&sum))
        }
        (mine, theirs) => mine.or(theirs),
    };
}
