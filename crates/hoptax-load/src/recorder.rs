//! What one worker writes down, and how the workers' books become one.
//!
//! Two populations are kept apart. *Counts* and trial histograms speak of requests whose scheduled moment lies in the
//! measured time, whenever they ended. *Throughput* (`completed_in_time`, bytes, windows) speaks of what happened inside
//! the measured time, whenever it was scheduled: a request that straddles an edge is work done there all the same.

mod paths;
mod tally;
mod targets;
mod times;
mod windows;

pub(crate) use tally::{Handshakes, Tally, outcomes};
pub(crate) use times::{Response, Times};

use crate::histogram::{self, TRIAL_DIGITS};
use crate::record::{Cause, FailureKind, WINDOW_NS, Window};
use crate::stamp::Stamped;
use crate::tls::Agreed;
use hdrhistogram::Histogram;
use paths::Paths;
use tally::{add_error, count};
use targets::Targets;
use windows::Windows;

/// Statuses have three digits (RFC 9110, section 15).
const STATUSES: usize = 1000;

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

#[cfg(test)]
mod tests;
