//! Records the results of one worker, and merges the results of all workers.
//!
//! Results cover one of two sets of requests. *Counts* and the histograms of a trial cover the requests that
//! were scheduled in the measured time, no matter when they ended. *Throughput* (`completed_in_time`, bytes,
//! windows) covers everything that happened in the measured time. It includes requests that were scheduled
//! before the measured time and completed within it, because they are work done in that time.

mod messages;
pub(crate) mod occupancy;
mod paths;
mod reach;
mod streams;
mod tally;
mod targets;
mod times;
mod token_events;
mod token_tally;
mod tunnels;
mod windows;

pub(crate) use messages::Arrival;
pub(crate) use tally::{Handshakes, Tally, outcomes};
pub(crate) use times::{Call, Response, Times};

use crate::stamped::Stamped;
use crate::tls::Agreed;
use hdrhistogram::Histogram;
use hoptax_format::grpc::Status;
use hoptax_format::histogram::{self, TRIAL_DIGITS};
use hoptax_format::messages::StreamKind;
use hoptax_format::record::{Cause, FailureKind, Http2Tally, WINDOW_NS, Window};
use hoptax_format::sums::{add_error, count};
use messages::Messages;
use paths::{KeptMoments, Paths};
use reach::Reach;
use streams::Streams;
use targets::Targets;
use windows::Windows;

/// Number of possible status codes: they have three digits (RFC 9110, section 15).
const STATUSES: usize = 1000;

#[derive(Debug)]
pub(crate) struct Recorder {
    /// Start of the measured time; `end` is its end. Both are `u64::MAX` until the times are set.
    start: u64,
    end: u64,
    tally: Tally,
    status: Box<[u64; STATUSES]>,
    /// Number of gRPC calls by status.
    calls: [u64; Status::COUNT],
    /// Number of requests that were sent exactly at their scheduled time. Their send lag is zero.
    on_time: u64,
    /// Requests with equal response time, service time and time to first byte. In a closed loop with small
    /// responses, nearly all requests are like this. The time of such a request is recorded once, here,
    /// instead of in three histograms. At the end, this histogram is added to the other three.
    alike: Histogram<u64>,
    windows: Option<Windows>,
    /// Length of a window, ns.
    window_ns: u64,
    /// True once a message of a stream has arrived. Endless streams have no complete response before the end.
    has_heard: bool,
}

impl Recorder {
    pub(crate) fn new(windows: bool, targets: usize) -> Self {
        Self {
            start: u64::MAX,
            end: u64::MAX,
            tally: Tally { targets: Targets::new(targets), ..Tally::new() },
            status: Box::new([0; STATUSES]),
            calls: [0; Status::COUNT],
            on_time: 0,
            alike: histogram::empty(TRIAL_DIGITS),
            windows: windows.then(Windows::new),
            window_ns: WINDOW_NS,
            has_heard: false,
        }
    }

    pub(crate) fn with_stamps(mut self, asked: bool) -> Self {
        self.tally.paths = asked.then(|| Box::new(Paths::new()));
        self
    }

    /// Keeps the moments of this many requests, if the load has stamps. The calling thread must be the
    /// worker's.
    pub(crate) fn with_moments(mut self, most: Option<u32>) -> Self {
        if let (Some(paths), Some(most)) = (&mut self.tally.paths, most) {
            paths.moments = Some(Box::new(KeptMoments::new(most)));
        }
        self
    }

    /// Records HTTP/2 too, if `asked` is true.
    pub(crate) fn with_streams(mut self, asked: bool) -> Self {
        self.tally.streams = asked.then(|| Box::new(Streams::new()));
        self
    }

    /// Records the reach of messages too, if `asked` is true. Messages must be recorded.
    pub(crate) fn with_reach(mut self, asked: bool) -> Self {
        if let Some(messages) = &mut self.tally.messages {
            messages.reach = asked.then(Reach::default);
        }
        self
    }

    /// Records messages too, if `asked` is true.
    pub(crate) fn with_messages(mut self, asked: bool) -> Self {
        self.tally.messages = asked.then(|| Box::new(Messages::new()));
        self
    }

    pub(crate) fn with_window_length(mut self, ns: u64) -> Self {
        self.window_ns = ns;
        self
    }

    /// Sets the measured time. It begins at `start`, and ends just before `end`.
    pub(crate) fn measure(&mut self, start: u64, end: u64) {
        (self.start, self.end) = (start, end);
    }

    /// Shortens the measured time so that it ends at `ended`, unless it ends earlier already.
    pub(crate) fn measured_until(&mut self, ended: u64) {
        self.end = self.end.min(ended);
    }

    fn counts(&self, scheduled: u64) -> bool {
        self.start <= scheduled && scheduled < self.end
    }

    /// Returns the current window at `now`, or `None` outside the measured time. `now` must never decrease.
    fn window(&mut self, now: u64) -> Option<&mut Windows> {
        if now < self.start || now >= self.end {
            return None;
        }
        let windows = self.windows.as_mut()?;
        windows.run_until((now - self.start) / self.window_ns);
        Some(windows)
    }

    /// Calls `report` for each window before window `index` that was not reported yet. The arguments are the
    /// window's number and its results. If `keep` is true, the tally keeps these windows too.
    pub(crate) fn report_windows(&mut self, index: u64, keep: bool, report: impl FnMut(u64, Window)) {
        if let Some(windows) = &mut self.windows {
            windows.report_until(index, keep, report);
        }
    }

    pub(crate) fn scheduled(&mut self, scheduled: u64, target: u32) {
        if self.counts(scheduled) {
            self.tally.counts.scheduled += 1;
            self.tally.targets.scheduled(target);
        }
    }

    /// Records requests that were due in the measured time, but still had no connection when it ended.
    pub(crate) fn left_unsent(&mut self, requests: u64) {
        self.tally.counts.scheduled += requests;
        self.tally.counts.unsent += requests;
    }

    /// Records that the first byte of a request was passed to the kernel at `sent`. `reused` is true if the
    /// connection had already carried another request.
    pub(crate) fn sent(&mut self, scheduled: u64, sent: u64, reused: bool) {
        self.tally.lifetime.sent += 1;
        self.tally.busy.sent(sent);
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

    /// Records a complete response. Returns true if its request belongs to the measured time.
    pub(crate) fn completed(&mut self, times: Times, now: u64, response: Response) -> bool {
        self.tally.lifetime.completed += 1;
        self.no_longer_in_flight(times, now, true);
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
            return false;
        }
        self.tally.last_outcome = now;
        self.responded(times.target, response);
        self.tally.targets.completed(times, now, ok);
        if times.sent == Some(times.scheduled) && times.first_byte == Some(now) {
            self.alike.saturating_record(response_time);
        } else {
            self.record_apart(times, now);
        }
        true
    }

    /// Records that the client has ended a stream. `left` is the time when it left on purpose; `None` if an
    /// endless stream ended with the measured time. The stream counts as a complete response, but its
    /// response time is not recorded, because the client chose it. Returns true if its request belongs to the
    /// measured time.
    pub(crate) fn ended_by_client(&mut self, times: Times, left: Option<u64>, response: Response) -> bool {
        self.tally.lifetime.completed += 1;
        self.no_longer_in_flight(times, left.unwrap_or(self.end), response.status > 0);
        let counts = self.counts(times.scheduled);
        if left.map_or(counts, |now| self.counts(now)) {
            self.tally.completed_in_time += 1;
            self.tally.bytes.sent += times.length;
            self.tally.bytes.received += response.bytes;
            self.tally.bytes.body += response.body;
        }
        if let Some(now) = left
            && let Some(windows) = self.window(now)
        {
            windows.running.completed += 1;
            windows.running.ok += u64::from(response.failed.is_none());
        }
        if !counts {
            return false;
        }
        if let Some(now) = left {
            self.tally.last_outcome = now;
        }
        self.tally.counts.ended_by_client += 1;
        self.tally.targets.ended_by_client(times.target, response.failed.is_none());
        self.responded(times.target, response);
        true
    }

    /// Counts a response to a request of the measured time.
    fn responded(&mut self, target: u32, response: Response) {
        self.tally.counts.completed += 1;
        self.tally.counts.ok += u64::from(response.failed.is_none());
        if let Some(failed) = response.failed {
            self.tally.failed_checks.add(target, failed, 1);
        }
        self.status[usize::from(response.status).min(STATUSES - 1)] += 1;
        if let Some(Call { status, trailers_lost }) = response.call {
            self.calls[status.number()] += 1;
            self.tally.counts.trailers_lost += u64::from(trailers_lost);
        }
    }

    /// Called when the measured time begins, for each endless stream of the warm-up. From then on, it counts
    /// as a request that was due and sent at the start of the measured time.
    pub(crate) fn adopt(&mut self, times: &mut Times) {
        if times.scheduled >= self.start {
            return;
        }
        times.scheduled = self.start;
        times.sent = times.sent.map(|sent| sent.max(self.start));
        times.first_byte = times.first_byte.map(|at| at.max(self.start));
        times.length = 0;
        self.scheduled(times.scheduled, times.target);
        if times.sent.is_some() {
            self.tally.counts.sent += 1;
            self.on_time += 1;
        }
    }

    fn no_longer_in_flight(&mut self, times: Times, now: u64, response: bool) {
        if let Some(sent) = times.sent {
            self.tally.busy.ended(sent, now, response, (self.start, self.end));
        }
    }

    pub(crate) fn stamped(&mut self, times: Times, now: u64, stamped: Stamped) {
        if self.counts(times.scheduled)
            && let Some(paths) = &mut self.tally.paths
        {
            paths.stamped(times, now, stamped);
        }
    }

    /// Records a failed request. `text` describes the failure.
    ///
    /// A timeout counts in the response time, because percentiles without these requests would look too good.
    /// If the request was sent, the timeout also counts in the service time. Other failures are only counted,
    /// because the time until a connection fails does not show how long a response takes.
    pub(crate) fn failed(&mut self, times: Times, now: u64, cause: Cause, text: &str) {
        self.no_longer_in_flight(times, now, false);
        self.tally.failures += 1;
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

    pub(crate) fn unfinished(&mut self, times: Times) {
        self.no_longer_in_flight(times, self.end, false);
        if self.counts(times.scheduled) {
            match times.sent {
                Some(_) => self.tally.counts.in_flight += 1,
                None => self.tally.counts.unsent += 1,
            }
        }
    }

    /// Records that a request had to wait until a connection was free.
    pub(crate) fn waited(&mut self, scheduled: u64) {
        self.tally.busy.waited += u64::from(self.counts(scheduled));
    }

    /// Records that a message was sent that was due at `due`.
    pub(crate) fn message_sent(&mut self, due: u64) {
        if self.counts(due)
            && let Some(messages) = &mut self.tally.messages
        {
            messages.sent();
        }
    }

    /// Records the arrival of a message of the call with these times.
    pub(crate) fn message_arrived(&mut self, times: Times, arrival: Arrival) {
        // The clock of another host says nothing about this one.
        let is_ours = arrival.spec.kind == StreamKind::BothWays || arrival.spec.same_clock;
        let due = arrival.due.filter(|_| is_ours);
        let counts = self.counts(due.unwrap_or(arrival.now));
        let sent = self.sent_in_time(times).filter(|_| arrival.before.is_none());
        self.has_heard = true;
        self.tally.busy.heard(arrival.now, (self.start, self.end));
        let Some(messages) = &mut self.tally.messages else { return };
        if let Some(sent) = sent {
            messages.first(arrival.now.saturating_sub(sent));
            if let (true, Some(due), Some(tokens)) =
                (arrival.spec.tokens.is_some(), due, &mut messages.tokens)
            {
                tokens.first_age.saturating_record(arrival.now.saturating_sub(due));
            }
        }
        if let (true, None, Some(reach)) = (arrival.spec.fan_out, arrival.before, &mut messages.reach) {
            reach.opened();
        }
        if counts {
            messages.arrived(arrival, due);
        }
    }

    /// Time when the request was sent, if it was due and sent in the measured time. Excludes endless streams
    /// of the warm-up, which [`Self::adopt`] has moved to the start of the measured time.
    fn sent_in_time(&self, times: Times) -> Option<u64> {
        times.sent.filter(|sent| self.counts(times.scheduled) && *sent > self.start)
    }

    /// Records that the head of a response with a stream is complete.
    pub(crate) fn head_arrived(&mut self, times: Times, now: u64) {
        if let Some(sent) = self.sent_in_time(times)
            && let Some(messages) = &mut self.tally.messages
        {
            messages.head(now.saturating_sub(sent));
        }
    }

    /// Records the arrival of a comment of an event stream.
    pub(crate) fn comment_arrived(&mut self, now: u64) {
        if self.counts(now)
            && let Some(messages) = &mut self.tally.messages
        {
            messages.counts.comments += 1;
        }
    }

    /// Records the end of a fan-out stream that had received a message.
    pub(crate) fn fan_out_ended(&mut self) {
        if let Some(messages) = &mut self.tally.messages
            && let Some(reach) = &mut messages.reach
        {
            reach.ended();
        }
    }

    /// Records how many messages of a successful call did not arrive (`lost`), and how many had no number.
    pub(crate) fn messages_lost(&mut self, scheduled: u64, now: u64, lost: u64, unnumbered: u64) {
        if scheduled < self.end
            && now >= self.start
            && let Some(messages) = &mut self.tally.messages
        {
            messages.lost(lost, unnumbered);
        }
    }

    /// Records how long a turn of the event loop took.
    pub(crate) fn turned(&mut self, ns: u64) {
        self.tally.busy.longest_turn = self.tally.busy.longest_turn.max(ns);
    }

    /// True if the measured time has begun.
    pub(crate) fn is_measuring(&self, now: u64) -> bool {
        now >= self.start
    }

    /// Number of failed requests over the whole life of the worker. `None` once a response was complete, or a
    /// message of a stream has arrived.
    pub(crate) fn failures_without_response(&self) -> Option<u64> {
        (self.tally.lifetime.completed == 0 && !self.has_heard).then_some(self.tally.failures)
    }

    pub(crate) fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }

    pub(crate) fn outstanding(&self) -> u64 {
        let counts = &self.tally.counts;
        counts.scheduled - outcomes(counts)
    }

    pub(crate) fn scheduled_so_far(&self) -> u64 {
        self.tally.counts.scheduled
    }

    /// Time of the latest outcome of a request of the measured time, or zero before the first outcome.
    pub(crate) fn last_outcome(&self) -> u64 {
        self.tally.last_outcome
    }

    pub(crate) fn opened(&mut self, started: u64, now: u64) {
        self.tally.lifetime.opened += 1;
        self.tally.histograms.connect.saturating_record(now.saturating_sub(started));
        self.tally.connections.opened += u64::from(self.start <= now && now < self.end);
        if let Some(windows) = self.window(now) {
            windows.running.opened += 1;
        }
    }

    pub(crate) fn handshake_done(&mut self, began: u64, now: u64, agreed: Agreed<'_>) {
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

    /// Records that the peer closed a connection, or announced to close it, although the generator had not
    /// asked the peer to do so.
    pub(crate) fn closed_by_peer(&mut self, now: u64) {
        self.tally.connections.closed_by_peer += u64::from(self.start <= now && now < self.end);
    }

    /// Records that the peer closed a connection between two responses, without announcing this. `answered`
    /// is the number of responses that had arrived on the connection.
    pub(crate) fn closed_unannounced(&mut self, now: u64, answered: u32) {
        self.closed_by_peer(now);
        let first = answered == 1 && self.start <= now && now < self.end;
        self.tally.connections.closed_after_first += u64::from(first);
    }

    /// Records that the peer closed a reused connection before the first byte of the response to a request.
    pub(crate) fn closed_on_reuse(&mut self, scheduled: u64) {
        self.tally.connections.closed_on_reuse += u64::from(self.counts(scheduled));
    }

    /// Records that a request will be sent again.
    pub(crate) fn retried(&mut self, scheduled: u64) {
        self.tally.counts.retried += u64::from(self.counts(scheduled));
    }

    /// Records how long a request waited for a stream before it was sent. The rest of its lag is the wait for
    /// a connection.
    pub(crate) fn sent_on_stream(&mut self, scheduled: u64, sent: u64, stream_wait: u64) {
        if self.counts(scheduled)
            && let Some(streams) = &mut self.tally.streams
        {
            streams.stream.record(stream_wait);
            streams.connection.record(sent.saturating_sub(scheduled).saturating_sub(stream_wait));
        }
    }

    /// Records how long the body of a request waited for a flow-control window.
    pub(crate) fn window_waited(&mut self, scheduled: u64, ns: u64) {
        if self.counts(scheduled)
            && let Some(streams) = &mut self.tally.streams
        {
            streams.window.record(ns);
            streams.tally.window_stalled_ns += ns;
        }
    }

    /// Records that the server left a request unprocessed, so that it is sent again.
    pub(crate) fn unprocessed(&mut self, scheduled: u64) {
        let counts = u64::from(self.counts(scheduled));
        self.http2(|tally| tally.unprocessed += counts);
    }

    /// Records that a response ended after the response to a later request on the same connection. Call it
    /// only for requests of the measured time.
    pub(crate) fn overtaken(&mut self) {
        self.http2(|tally| tally.overtaken += 1);
    }

    /// Records the number of streams that are open on a connection.
    #[inline]
    pub(crate) fn streams_open(&mut self, count: u32) {
        self.http2(|tally| tally.most_streams = tally.most_streams.max(count));
    }

    /// Records the number of streams that a server allows. `None` if it has stated no limit.
    pub(crate) fn stream_limit(&mut self, limit: Option<u32>) {
        self.http2(|tally| {
            tally.stream_limit = [tally.stream_limit, limit].into_iter().flatten().min();
        });
    }

    pub(crate) fn stream_reset(&mut self, refused: bool) {
        self.http2(|tally| {
            tally.resets += 1;
            tally.refused += u64::from(refused);
        });
    }

    /// Records a GOAWAY frame. `calm` is true if the server believes that we attack it.
    pub(crate) fn go_away(&mut self, calm: bool) {
        self.http2(|tally| {
            tally.goaways += 1;
            tally.calmed += u64::from(calm);
        });
    }

    #[inline]
    fn http2(&mut self, record: impl FnOnce(&mut Http2Tally)) {
        if let Some(streams) = &mut self.tally.streams {
            record(&mut streams.tally);
        }
    }

    pub(crate) fn unasked(&mut self) {
        self.tally.connections.unasked += 1;
    }

    pub(crate) fn established(&mut self, connections: u64) {
        self.tally.connections.established = connections;
    }

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
        for (status, times) in Status::ALL.into_iter().zip(self.calls).filter(|(_, times)| *times > 0) {
            count(&mut self.tally.counts.grpc, status.name(), times);
        }
        if let Some(mut windows) = self.windows {
            windows.run_until(ended.saturating_sub(self.start).div_ceil(self.window_ns));
            self.tally.windows = windows.into_ended();
        }
        self.tally
    }
}

#[cfg(test)]
mod tests;
