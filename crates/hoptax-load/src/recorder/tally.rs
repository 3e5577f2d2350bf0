//! Results of a worker, and how the results of all workers are added up.

use super::paths::Paths;
use super::targets::Targets;
use crate::checks::FailedChecks;
use crate::histogram::{self, Encoded, TRIAL_DIGITS, WINDOW_DIGITS};
use crate::record::{Bytes, Connections, Counts, Lifetime, TlsTally, Window};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Maximum number of distinct error texts. Further texts are counted as [`OTHER_ERRORS`].
pub(super) const ERROR_TEXTS: usize = 16;
pub(super) const OTHER_ERRORS: &str = "other errors";

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
    pub(crate) last_outcome: u64,
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

pub(super) fn add_error(errors: &mut BTreeMap<String, u64>, text: &str, times: u64) {
    let text = if errors.len() < ERROR_TEXTS || errors.contains_key(text) { text } else { OTHER_ERRORS };
    count(errors, text, times);
}

/// Adds `times` to the count of `name`. Allocates only if `name` is new.
pub(super) fn count(counts: &mut BTreeMap<String, u64>, name: &str, times: u64) {
    match counts.get_mut(name) {
        Some(count) => *count += times,
        None => {
            counts.insert(name.to_owned(), times);
        }
    }
}

impl Handshakes {
    pub(crate) fn new() -> Self {
        Self { tally: TlsTally::default(), took: histogram::empty(TRIAL_DIGITS) }
    }

    fn add(&mut self, other: &Self) {
        self.took.add(&other.took).expect("all have the same bounds");
        let (mine, theirs) = (&mut self.tally, &other.tally);
        mine.handshakes += theirs.handshakes;
        mine.resumed += theirs.resumed;
        for (mine, theirs) in [
            (&mut mine.versions, &theirs.versions),
            (&mut mine.cipher_suites, &theirs.cipher_suites),
            (&mut mine.alpn, &theirs.alpn),
        ] {
            for (name, times) in theirs {
                count(mine, name, *times);
            }
        }
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
            last_outcome: 0,
        }
    }

    pub(crate) fn add(&mut self, other: Tally) {
        add_counts(&mut self.counts, other.counts);
        self.completed_in_time += other.completed_in_time;
        self.lifetime.sent += other.lifetime.sent;
        self.lifetime.completed += other.lifetime.completed;
        self.lifetime.opened += other.lifetime.opened;
        let (mine, theirs) = (&mut self.connections, other.connections);
        mine.asked += theirs.asked;
        mine.established += theirs.established;
        mine.opened += theirs.opened;
        mine.reused += theirs.reused;
        mine.closed_by_peer += theirs.closed_by_peer;
        mine.closed_after_first += theirs.closed_after_first;
        mine.closed_on_reuse += theirs.closed_on_reuse;
        mine.unasked += theirs.unasked;
        self.bytes.sent += other.bytes.sent;
        self.bytes.received += other.bytes.received;
        self.bytes.body += other.bytes.body;
        self.histograms.add(&other.histograms);
        self.failed_checks.add_all(&other.failed_checks);
        self.targets.add(other.targets);
        if let Some(theirs) = other.tls {
            self.tls.get_or_insert_with(|| Box::new(Handshakes::new())).add(&theirs);
        }
        if let Some(theirs) = other.paths {
            self.paths.get_or_insert_with(|| Box::new(Paths::new())).add(&theirs);
        }
        self.last_outcome = self.last_outcome.max(other.last_outcome);
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

fn add_counts(mine: &mut Counts, theirs: Counts) {
    mine.scheduled += theirs.scheduled;
    mine.sent += theirs.sent;
    mine.retried += theirs.retried;
    mine.completed += theirs.completed;
    mine.ok += theirs.ok;
    mine.timeouts += theirs.timeouts;
    mine.connect_errors += theirs.connect_errors;
    mine.resets += theirs.resets;
    mine.bad_responses += theirs.bad_responses;
    mine.unsent += theirs.unsent;
    mine.in_flight += theirs.in_flight;
    for (status, count) in theirs.status {
        *mine.status.entry(status).or_default() += count;
    }
    for (cause, count) in theirs.causes {
        *mine.causes.entry(cause).or_default() += count;
    }
    for (check, count) in theirs.failed_checks {
        *mine.failed_checks.entry(check).or_default() += count;
    }
    for (text, count) in theirs.errors {
        add_error(&mut mine.errors, &text, count);
    }
}

fn add_window(mine: &mut Window, theirs: Window) {
    mine.sent += theirs.sent;
    mine.completed += theirs.completed;
    mine.ok += theirs.ok;
    mine.timeouts += theirs.timeouts;
    mine.errors += theirs.errors;
    mine.opened += theirs.opened;
    for (cause, count) in theirs.causes {
        *mine.causes.entry(cause).or_default() += count;
    }
    mine.response_time = match (mine.response_time.take(), theirs.response_time) {
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
