//! Warnings about results of a load that users easily misread. Each warning has advice that follows from the
//! observation.
//!
//! Limits that findings also use are in [`hoptax_analysis::thresholds`].

mod failing;
mod lateness;
mod text;

pub(super) use failing::{advice_on, failed};
use hdrhistogram::Histogram;
use hoptax_analysis::thresholds::{BUSY, REDIRECTED, SERVED};
use hoptax_format::histogram::{rank, value_at_rank};
use hoptax_format::record::{Cause, Connections, LoadRecord, Silence};
use hoptax_format::spec::{Check, LoadSpec, Retry, Shape, is_idempotent};
pub(super) use lateness::Late;
/// Minimum number of requests per connection. Below this limit, keep-alive does not work.
const KEPT: u64 = 10;
/// Maximum share of failed requests. If more requests fail, the response times do not show the requested load
/// but a lighter load.
const FAILED: f64 = 0.01;
/// A silence matters if it lasts at least `SILENT` ns. It must also last at least `LONG` ns, or at least the
/// share `SILENT_SHARE` of the measured time.
const SILENT: u64 = 250_000_000;
const SILENT_SHARE: f64 = 0.05;
const LONG: u64 = 1_000_000_000;
/// A silence is a stall if it is this many times as long as the median service time.
const STALLED: u64 = 10;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Doubt {
    /// The busiest worker was on a CPU for this share of the time.
    GeneratorBusy { share: f64, workers: u32 },
    /// A worker did not run for this long, although it had CPU time left.
    GeneratorPaused { for_ns: u64 },
    /// The generator established fewer connections (`stood`) than requested (`asked`).
    ConnectionsShort { asked: u64, stood: u64 },
    /// Some connections got no response. `median` is the median number of responses on the other connections.
    Unserved { unanswered: u64, asked: u64, median: u64 },
    /// Requests were in flight, and no response arrived for a long time.
    Stalled { silence: Silence, is_open: bool },
    /// Fewer requests per second completed (`done`) than were due (`due`).
    RateMissed { due: f64, done: f64, late: Late },
    /// Requests were sent late.
    SentLate { p99_ns: u64, late: Late },
    /// The server closes connections instead of keeping them alive.
    NotKeptAlive { opened: u64, requests: u64 },
    /// The server closes most connections after their first response without announcing this, and `lost`
    /// requests were on such connections. `can_retry` is true if such requests can be sent again, but were
    /// not.
    ClosedUnannounced { closed: u64, lost: u64, can_retry: bool },
    /// The server allows fewer streams on a connection than requested.
    StreamsCapped { limit: u32, asked: u32 },
    /// The server closed this many connections because it takes the load for an attack.
    Calmed { count: u64 },
    /// The server answered this many requests with status 421. `over_tls` is true if the load uses TLS.
    Misdirected { count: u64, over_tls: bool },
    /// The server closed each connection before its first response. `over_tls` is true if the load uses TLS,
    /// `proxied` if it sends headers of the PROXY protocol, and `http2` if it uses HTTP/2.
    NeverAnswered { over_tls: bool, proxied: bool, http2: bool },
    /// Many requests failed, most of them with this cause.
    Failures { failed: u64, scheduled: u64, most: Option<Cause> },
    /// Many responses are not successes, most of them with this status.
    NotSuccesses { failed: u64, completed: u64, status: Option<u16>, proxied: bool },
    /// Most responses are redirects, which nobody expected.
    Redirects { redirects: u64, completed: u64, status: u16, to: Option<String> },
}

/// Histograms of a record, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decoded<'a> {
    pub(super) response_time: &'a Histogram<u64>,
    pub(super) service_time: &'a Histogram<u64>,
    pub(super) send_lag: &'a Histogram<u64>,
    /// Responses of each connection. Absent if they were not recorded.
    pub(super) responses: Option<&'a Histogram<u64>>,
}

/// The warnings about `record`.
pub(super) fn of(spec: &LoadSpec, record: &LoadRecord, times: Decoded<'_>) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    doubts.extend(generator(record));
    let (asked, stood) = (record.connections.asked, record.connections.established);
    if stood < asked && !record.interrupted {
        doubts.push(Doubt::ConnectionsShort { asked, stood });
    }
    doubts.extend(unserved(record, times));
    let silence = stall(record, times);
    if let Some(silence) = silence {
        doubts.push(Doubt::Stalled { silence, is_open: matches!(spec.shape, Shape::Open { .. }) });
    }
    doubts.extend(lateness::of(spec, record, times, silence.is_some()));
    doubts.extend(keep_alive(spec, record));
    doubts.extend(http2(spec, record));
    doubts.extend(failing::misdirected(spec, record));
    let never_answered = failing::never_answered(spec, record);
    // The general warning about failures would give the same advice, but without the facts about TLS.
    if never_answered.is_none() {
        doubts.extend(failing::failures(record));
    }
    doubts.extend(never_answered);
    doubts.extend(failing::not_successes(spec, record));
    doubts.extend(redirects(spec, record));
    doubts
}

fn is_busy(record: &LoadRecord) -> Option<f64> {
    let share = record.cpu.busiest_worker_ns as f64 / record.measured_ns.max(1) as f64;
    (share > BUSY).then(|| share.min(1.0))
}

fn generator(record: &LoadRecord) -> Option<Doubt> {
    if let Some(share) = is_busy(record) {
        return Some(Doubt::GeneratorBusy { share, workers: record.workers });
    }
    paused(record).map(|for_ns| Doubt::GeneratorPaused { for_ns })
}

/// How long the generator did not run. `None` if this time does not matter, or if the generator was busy.
fn paused(record: &LoadRecord) -> Option<u64> {
    let longest = record.occupancy.as_ref()?.longest_turn_ns;
    (matters(longest, record.measured_ns) && is_busy(record).is_none()).then_some(longest)
}

fn matters(ns: u64, measured_ns: u64) -> bool {
    ns >= SILENT && (ns >= LONG || ns as f64 >= SILENT_SHARE * measured_ns as f64)
}

/// The longest silence, if the server caused it and it is much longer than a usual response.
fn stall(record: &LoadRecord, times: Decoded<'_>) -> Option<Silence> {
    let occupancy = record.occupancy.as_ref()?;
    let silence = occupancy.silence;
    let usual = value_at_rank(times.service_time, rank(0.5, times.service_time.len()));
    let is_stall = matters(silence.for_ns, record.measured_ns)
        && record.counts.completed > 0
        && silence.for_ns >= STALLED * usual
        // A generator that does not run cannot read responses.
        && 2 * occupancy.longest_turn_ns < silence.for_ns;
    is_stall.then_some(silence)
}

fn unserved(record: &LoadRecord, times: Decoded<'_>) -> Option<Doubt> {
    let unanswered = record.occupancy.as_ref()?.unanswered;
    let asked = record.connections.asked;
    let served = asked.saturating_sub(unanswered);
    if unanswered == 0 || served == 0 || record.counts.completed < SERVED * served {
        return None;
    }
    let responses = times.responses?;
    // The connections without a response have the lowest ranks.
    let idle = responses.len().saturating_sub(served);
    let median = value_at_rank(responses, idle + rank(0.5, served));
    Some(Doubt::Unserved { unanswered, asked, median })
}

/// What the server did to the streams.
fn http2(spec: &LoadSpec, record: &LoadRecord) -> impl Iterator<Item = Doubt> {
    let tally = record.http2.unwrap_or_default();
    let limit = tally.stream_limit.filter(|limit| *limit < spec.streams);
    let capped = limit.map(|limit| Doubt::StreamsCapped { limit, asked: spec.streams });
    let calmed = (tally.calmed > 0).then_some(Doubt::Calmed { count: tally.calmed });
    capped.into_iter().chain(calmed)
}

fn keep_alive(spec: &LoadSpec, record: &LoadRecord) -> Option<Doubt> {
    let counts = &record.counts;
    let Connections { opened, closed_by_peer, closed_after_first: closed, closed_on_reuse: lost, .. } =
        record.connections;
    if closed > 0 && closed * KEPT > counts.sent && closed * 2 > opened {
        let is_off = spec.retry == Retry::Off;
        let can_retry = is_off && spec.targets.iter().any(|target| is_idempotent(&target.method));
        return Some(Doubt::ClosedUnannounced { closed, lost, can_retry });
    }
    // Connections that ended with a failure say nothing about keep-alive.
    let ended_well = closed_by_peer.saturating_sub(counts.resets);
    let ends = ended_well * KEPT > counts.sent && ended_well * 2 > opened;
    (spec.requests_per_connection.is_none() && ends)
        .then_some(Doubt::NotKeptAlive { opened, requests: counts.sent })
}

/// Redirects that are most of the responses, unless the user expects them.
fn redirects(spec: &LoadSpec, record: &LoadRecord) -> Option<Doubt> {
    let expected =
        spec.targets.iter().any(|target| target.checks.iter().any(|check| matches!(check, Check::Status(_))));
    let statuses =
        || record.counts.status.iter().filter(|(status, _)| hoptax_format::record::is_redirect(**status));
    let redirects: u64 = statuses().map(|(_, count)| count).sum();
    let completed = record.counts.completed;
    if expected || redirects == 0 || (redirects as f64) < REDIRECTED * completed as f64 {
        return None;
    }
    let status = statuses().max_by_key(|(_, count)| **count).map(|(status, _)| *status)?;
    Some(Doubt::Redirects { redirects, completed, status, to: record.redirected_to.clone() })
}
