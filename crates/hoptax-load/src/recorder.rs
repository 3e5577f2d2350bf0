//! What one worker writes down, and how the workers' books become one.
//!
//! Two populations are kept apart. *Counts* and trial histograms speak of requests whose scheduled moment lies in the
//! measured time, whenever they ended. *Throughput* (`completed_in_time`, bytes, windows) speaks of what happened inside
//! the measured time, whenever it was scheduled: a request that straddles an edge is work done there all the same.

mod paths;
mod targets;
mod windows;

use crate::checks::{Failed, FailedChecks};
use crate::histogram::{self, Encoded, TRIAL_DIGITS, WINDOW_DIGITS};
use crate::record::{Bytes, Cause, Connections, Counts, FailureKind, Lifetime, TlsTally, WINDOW_NS, Window};
use crate::stamp::Stamped;
use crate::tls::Agreed;
use hdrhistogram::Histogram;
use paths::Paths;
use targets::Targets;
use windows::Windows;

/// Distinct error texts kept; any more are counted under [`OTHER_ERRORS`].
const ERROR_TEXTS: usize = 16;
const OTHER_ERRORS: &str = "other errors";
/// Statuses have three digits (RFC 9110, section 15).
const STATUSES: usize = 1000;

/// One request under way.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    /// When it was due.
    pub(crate) scheduled: u64,
    /// When its first byte was handed to the kernel; absent while it waits for its connection.
    pub(crate) sent: Option<u64>,
    /// When the first byte of its response was seen.
    pub(crate) first_byte: Option<u64>,
    /// Its length, bytes, head included; 0 while it waits for its connection.
    pub(crate) length: u64,
    /// Which target it goes to.
    pub(crate) target: u32,
}

impl Times {
    /// A request to `target` that is due at `scheduled`.
    pub(crate) fn new(scheduled: u64, target: u32) -> Self {
        Self { scheduled, target, ..Self::default() }
    }
}

/// A whole response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Response {
    /// Status code.
    pub(crate) status: u16,
    /// Bytes, heads included.
    pub(crate) bytes: u64,
    /// Bytes of its body.
    pub(crate) body: u64,
    /// The first check that it failed; absent: it is a success.
    pub(crate) failed: Option<Failed>,
}

/// One worker's books.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// The measured time; empty and at infinity until traffic has been agreed on.
    start: u64,
    end: u64,
    tally: Tally,
    status: Box<[u64; STATUSES]>,
    /// Requests sent at their scheduled moment: so many zeros of the send lag.
    on_time: u64,
    /// Values that are response time, service time and first byte in one, as nearly all are in a closed loop with
    /// small responses: recorded once, added three times at the end.
    alike: Histogram<u64>,
    windows: Option<Windows>,
}

/// What is added up over workers.
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
    /// Absent until a handshake is done.
    pub(crate) tls: Option<Box<Handshakes>>,
    /// What the upstream's stamps say; absent where none are asked for.
    pub(crate) paths: Option<Box<Paths>>,
    /// When the last request of the measured time had its outcome.
    pub(crate) last_outcome: u64,
}

/// The histograms of a trial, nanoseconds.
#[derive(Debug)]
pub(crate) struct Latencies {
    pub(crate) response_time: Histogram<u64>,
    pub(crate) service_time: Histogram<u64>,
    pub(crate) send_lag: Histogram<u64>,
    pub(crate) first_byte: Histogram<u64>,
    pub(crate) connect: Histogram<u64>,
}

/// TLS handshakes of a worker's whole life.
#[derive(Debug)]
pub(crate) struct Handshakes {
    pub(crate) tally: TlsTally,
    /// How long they took, nanoseconds.
    pub(crate) took: Histogram<u64>,
}

impl Recorder {
    /// For so many targets.
    pub(crate) fn new(windows: bool, targets: usize) -> Self {
        Self {
            start: u64::MAX,
            end: u64::MAX,
            tally: Tally { targets: Targets::new(targets), ..Tally::new() },
            status: Box::new([0; STATUSES]),
            on_time: 0,
            alike: histogram::empty(TRIAL_DIGITS),
            windows: windows.then(Windows::new),
        }
    }

    /// The same, with books on the upstream's stamps, where they are asked for.
    pub(crate) fn with_stamps(mut self, asked: bool) -> Self {
        self.tally.paths = asked.then(|| Box::new(Paths::new()));
        self
    }

    /// Sets the measured time: from `start` up to, not including, `end`.
    pub(crate) fn measure(&mut self, start: u64, end: u64) {
        (self.start, self.end) = (start, end);
    }

    /// The measured time ended at `ended`, maybe before the end that was set.
    pub(crate) fn measured_until(&mut self, ended: u64) {
        self.end = self.end.min(ended);
    }

    /// Whether a request of this moment is one of the trial's.
    fn counts(&self, scheduled: u64) -> bool {
        self.start <= scheduled && scheduled < self.end
    }

    /// The window that runs at `now`; absent outside the measured time. Moments never go back.
    fn window(&mut self, now: u64) -> Option<&mut Windows> {
        if now < self.start || now >= self.end {
            return None;
        }
        let windows = self.windows.as_mut()?;
        windows.run_until((now - self.start) / WINDOW_NS);
        Some(windows)
    }

    /// Tells the windows before number `index` that were not told yet, with their numbers; `keep`: the tally shall have them
    /// too.
    pub(crate) fn tell_windows(&mut self, index: u64, keep: bool, tell: impl FnMut(u64, Window)) {
        if let Some(windows) = &mut self.windows {
            windows.tell_until(index, keep, tell);
        }
    }

    /// A request to `target` was due at `scheduled`.
    pub(crate) fn scheduled(&mut self, scheduled: u64, target: u32) {
        if self.counts(scheduled) {
            self.tally.counts.scheduled += 1;
            self.tally.targets.scheduled(target);
        }
    }

    /// Requests that were due in the measured time but stood in line when it ended.
    pub(crate) fn left_in_line(&mut self, requests: u64) {
        self.tally.counts.scheduled += requests;
        self.tally.counts.unsent += requests;
    }

    /// A request's first byte went to the kernel at `sent`; `reused`: on a connection that had carried one before.
    pub(crate) fn sent(&mut self, scheduled: u64, sent: u64, reused: bool) {
        self.tally.lifetime.sent += 1;
        if let Some(windows) = self.window(sent) {
            windows.running.sent += 1;
        }
        if !self.counts(scheduled) {
            return;
        }
        self.tally.counts.sent += 1;
        self.tally.connections.reused += u64::from(reused);
        match sent.saturating_sub(scheduled) {
            0 => self.on_time += 1,
            lag => self.tally.histograms.send_lag.saturating_record(lag),
        }
    }

    /// A whole response was there at `now`.
    pub(crate) fn completed(&mut self, times: Times, now: u64, response: Response) {
        self.tally.lifetime.completed += 1;
        let ok = response.failed.is_none();
        if now >= self.start && now < self.end {
            self.tally.completed_in_time += 1;
            self.tally.bytes.sent += times.length;
            self.tally.bytes.received += response.bytes;
            self.tally.bytes.body += response.body;
        }
        let response_time = now.saturating_sub(times.scheduled);
        if let Some(windows) = self.window(now) {
            windows.running.completed += 1;
            windows.running.ok += u64::from(ok);
            windows.response_time.saturating_record(response_time);
        }
        if !self.counts(times.scheduled) {
            return;
        }
        self.tally.last_outcome = now;
        self.tally.counts.completed += 1;
        self.tally.counts.ok += u64::from(ok);
        if let Some(failed) = response.failed {
            self.tally.failed_checks.add(times.target, failed, 1);
        }
        self.tally.targets.completed(times, now, ok);
        self.status[usize::from(response.status).min(STATUSES - 1)] += 1;
        if times.sent == Some(times.scheduled) && times.first_byte == Some(now) {
            self.alike.saturating_record(response_time);
        } else {
            self.record_apart(times, now);
        }
    }

    /// The head of the response that was whole at `now` said this of stamps.
    pub(crate) fn stamped(&mut self, times: Times, now: u64, stamped: Stamped) {
        if self.counts(times.scheduled)
            && let Some(paths) = &mut self.tally.paths
        {
            paths.stamped(times, now, stamped);
        }
    }

    /// A request was given up at `now`, because of `text`.
    ///
    /// A timeout is in the response time, and in the service time if it had been sent: percentiles that left out the
    /// requests nobody waited for any longer would flatter. Other failures are counted only, as the moment at which a
    /// connection broke is no measure of how long an answer takes.
    pub(crate) fn failed(&mut self, times: Times, now: u64, cause: Cause, text: &str) {
        let timeout = cause.kind() == FailureKind::Timeout;
        let response_time = now.saturating_sub(times.scheduled);
        if let Some(windows) = self.window(now) {
            *windows.running.causes.entry(cause).or_default() += 1;
            if timeout {
                windows.running.timeouts += 1;
                windows.response_time.saturating_record(response_time);
            } else {
                windows.running.errors += 1;
            }
        }
        if !self.counts(times.scheduled) {
            return;
        }
        self.tally.last_outcome = now;
        let counts = &mut self.tally.counts;
        match cause.kind() {
            FailureKind::Timeout => counts.timeouts += 1,
            FailureKind::Connect => counts.connect_errors += 1,
            FailureKind::Reset => counts.resets += 1,
            FailureKind::BadResponse => counts.bad_responses += 1,
        }
        *counts.causes.entry(cause).or_default() += 1;
        add_error(&mut counts.errors, text, 1);
        self.tally.targets.failed(times, now, timeout);
        if timeout {
            self.record_apart(times, now);
        }
    }

    fn record_apart(&mut self, times: Times, now: u64) {
        let histograms = &mut self.tally.histograms;
        histograms.response_time.saturating_record(now.saturating_sub(times.scheduled));
        let Some(sent) = times.sent else { return };
        histograms.service_time.saturating_record(now.saturating_sub(sent));
        if let Some(first_byte) = times.first_byte {
            histograms.first_byte.saturating_record(first_byte.saturating_sub(sent));
        }
    }

    /// A request had no outcome when the trial ended.
    pub(crate) fn left_over(&mut self, times: Times) {
        if self.counts(times.scheduled) {
            match times.sent {
                Some(_) => self.tally.counts.in_flight += 1,
                None => self.tally.counts.unsent += 1,
            }
        }
    }

    /// Requests of the measured time that have no outcome yet.
    pub(crate) fn outstanding(&self) -> u64 {
        let counts = &self.tally.counts;
        counts.scheduled - outcomes(counts)
    }

    /// Requests scheduled in the measured time so far.
    pub(crate) fn scheduled_so_far(&self) -> u64 {
        self.tally.counts.scheduled
    }

    /// When the last request of the measured time had its outcome; zero before.
    pub(crate) fn last_outcome(&self) -> u64 {
        self.tally.last_outcome
    }

    /// A connection was established at `now`, having been started at `started`.
    pub(crate) fn opened(&mut self, started: u64, now: u64) {
        self.tally.lifetime.opened += 1;
        self.tally.histograms.connect.saturating_record(now.saturating_sub(started));
        self.tally.connections.opened += u64::from(self.start <= now && now < self.end);
        if let Some(windows) = self.window(now) {
            windows.running.opened += 1;
        }
    }

    /// A TLS handshake that began at `began` was done at `now`.
    pub(crate) fn shaken(&mut self, began: u64, now: u64, agreed: Agreed<'_>) {
        let handshakes = self.tally.tls.get_or_insert_with(|| Box::new(Handshakes::new()));
        handshakes.took.saturating_record(now.saturating_sub(began));
        let tally = &mut handshakes.tally;
        tally.handshakes += 1;
        tally.resumed += u64::from(agreed.resumed);
        let alpn = String::from_utf8_lossy(agreed.alpn.unwrap_or(b"none"));
        for (counts, name) in [
            (&mut tally.versions, agreed.version),
            (&mut tally.cipher_suites, agreed.suite),
            (&mut tally.alpn, &alpn),
        ] {
            count(counts, name, 1);
        }
    }

    /// The other side ended a connection, or announced that it would, and had not been asked to.
    pub(crate) fn closed_by_peer(&mut self, now: u64) {
        self.tally.connections.closed_by_peer += u64::from(self.start <= now && now < self.end);
    }

    /// Bytes came on a connection that nothing had been asked on.
    pub(crate) fn unasked(&mut self) {
        self.tally.connections.unasked += 1;
    }

    /// So many connections stood when traffic began.
    pub(crate) fn established(&mut self, connections: u64) {
        self.tally.connections.established = connections;
    }

    /// Closes the books on a measured time that ended at `ended`.
    pub(crate) fn finish(mut self, ended: u64) -> Tally {
        let histograms = &mut self.tally.histograms;
        histograms.send_lag.saturating_record_n(0, self.on_time);
        for histogram in
            [&mut histograms.response_time, &mut histograms.service_time, &mut histograms.first_byte]
        {
            histogram.add(&self.alike).expect("all have the same bounds");
        }
        for (status, count) in (0..).zip(self.status.iter()).filter(|(_, count)| **count > 0) {
            self.tally.counts.status.insert(status, *count);
        }
        if let Some(mut windows) = self.windows {
            windows.run_until(ended.saturating_sub(self.start).div_ceil(WINDOW_NS));
            self.tally.windows = windows.into_ended();
        }
        self.tally
    }
}

/// Requests that have an outcome.
pub(crate) fn outcomes(counts: &Counts) -> u64 {
    counts.completed
        + counts.timeouts
        + counts.connect_errors
        + counts.resets
        + counts.bad_responses
        + counts.unsent
        + counts.in_flight
}

fn add_error(errors: &mut std::collections::BTreeMap<String, u64>, text: &str, times: u64) {
    let text = if errors.len() < ERROR_TEXTS || errors.contains_key(text) { text } else { OTHER_ERRORS };
    count(errors, text, times);
}

/// Allocates only where `name` is new.
fn count(counts: &mut std::collections::BTreeMap<String, u64>, name: &str, times: u64) {
    match counts.get_mut(name) {
        Some(count) => *count += times,
        None => {
            counts.insert(name.to_owned(), times);
        }
    }
}

impl Handshakes {
    /// None yet.
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
    /// Nothing yet.
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

    /// Adds another worker's tally.
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

#[cfg(test)]
mod tests;
