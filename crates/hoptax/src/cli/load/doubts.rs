//! Warnings about results of a load that users easily misread. Each warning has advice.
//!
//! The limits are the same as in the findings of `hoptax-analysis/src/checks`.

use super::figures::{decimals, thousands, time};
use hdrhistogram::Histogram;
use hoptax_load::record::{Cause, Connections, LoadRecord};
use hoptax_load::spec::{LoadSpec, Retry, Shape, is_idempotent};
use std::fmt;

/// Maximum share of the measured time during which the busiest worker may be on a CPU.
const BUSY: f64 = 0.85;
/// Maximum p99 of the send lag (how late requests are sent), as a share of the median response time.
const LATE: f64 = 0.1;
/// Minimum share of the due requests that must complete in the measured time.
const ACHIEVED: f64 = 0.99;
/// Maximum share of connections that may be busy on average. Above this limit, requests have to wait for a connection.
const OCCUPIED: f64 = 0.8;
/// Minimum number of requests per connection. Below this limit, keep-alive does not work.
const KEPT: u64 = 10;
/// Maximum share of failed requests. If more requests fail, the response times do not show the requested load but a
/// lighter load.
const FAILED: f64 = 0.01;
/// Status of a server that does not serve the requested host on this connection (RFC 9110, section 15.5.20).
const MISDIRECTED: u16 = 421;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Doubt {
    /// The busiest worker was on a CPU for this share of the time.
    GeneratorBusy { share: f64, workers: u32 },
    /// The generator established fewer connections (`stood`) than requested (`asked`).
    ConnectionsShort { asked: u64, stood: u64 },
    /// Fewer requests per second completed (`done`) than were due (`due`). `occupied` is true if all connections were
    /// busy.
    RateMissed { due: f64, done: f64, connections: u32, occupied: bool },
    /// Requests were sent late. `occupied` is true if all connections were busy.
    SentLate { p99_ns: u64, occupied: bool, connections: u32 },
    /// The server closes connections instead of keeping them alive.
    NotKeptAlive { opened: u64, requests: u64 },
    /// The server closes most connections after their first response without announcing this, and `lost` requests were
    /// on such connections.
    /// `can_retry` is true if hoptax could send some of these requests again, and was not told to.
    ClosedUnannounced { closed: u64, lost: u64, can_retry: bool },
    /// The server answered this many requests with status 421. `over_tls` is true if the load uses TLS.
    Misdirected { count: u64, over_tls: bool },
    /// The server closed each connection before its first response. `over_tls` is true if the load uses TLS.
    NeverAnswered { over_tls: bool },
    /// Many requests failed.
    Failures { failed: u64, scheduled: u64 },
}

/// The warnings about `record`.
pub(super) fn of(
    spec: &LoadSpec,
    record: &LoadRecord,
    response_time: &Histogram<u64>,
    service_time: &Histogram<u64>,
    send_lag: &Histogram<u64>,
) -> Vec<Doubt> {
    let counts = &record.counts;
    let seconds = record.measured_ns as f64 / 1e9;
    let mut doubts = Vec::new();
    let busy = record.cpu.busiest_worker_ns as f64 / record.measured_ns.max(1) as f64;
    if busy > BUSY {
        doubts.push(Doubt::GeneratorBusy { share: busy.min(1.0), workers: record.workers });
    }
    let (asked, stood) = (record.connections.asked, record.connections.established);
    if stood < asked && !record.interrupted {
        doubts.push(Doubt::ConnectionsShort { asked, stood });
    }
    if matches!(spec.shape, Shape::Open { .. }) && seconds > 0.0 {
        let throughput = record.completed_in_time as f64 / seconds;
        // Little's law: busy connections = throughput × service time.
        let occupied = throughput * service_time.mean() / 1e9 > OCCUPIED * f64::from(spec.connections);
        let connections = spec.connections;
        let due = counts.scheduled;
        let lag = send_lag.value_at_quantile(0.99);
        if due > 0 && (record.completed_in_time as f64) < ACHIEVED * due as f64 && !record.interrupted {
            doubts.push(Doubt::RateMissed {
                due: due as f64 / seconds,
                done: throughput,
                connections,
                occupied,
            });
        } else if lag as f64 > LATE * response_time.value_at_quantile(0.5) as f64 {
            doubts.push(Doubt::SentLate { p99_ns: lag, occupied, connections });
        }
    }
    let Connections { opened, closed_after_first: closed, closed_on_reuse: lost, .. } = record.connections;
    if closed > 0 && closed * KEPT > counts.sent && closed * 2 > opened {
        let can_retry =
            spec.retry == Retry::Off && spec.targets.iter().any(|target| is_idempotent(&target.method));
        doubts.push(Doubt::ClosedUnannounced { closed, lost, can_retry });
    } else if spec.requests_per_connection.is_none() && opened > 0 && opened * KEPT > counts.sent {
        doubts.push(Doubt::NotKeptAlive { opened, requests: counts.sent });
    }
    let misdirected = counts.status.get(&MISDIRECTED).copied().unwrap_or(0);
    if misdirected as f64 > FAILED * counts.completed as f64 {
        doubts.push(Doubt::Misdirected { count: misdirected, over_tls: spec.tls.is_some() });
    }
    let failed = counts.timeouts + counts.connect_errors + counts.resets + counts.bad_responses;
    let of = |cause: Cause| counts.causes.get(&cause).copied().unwrap_or(0);
    let unanswered = of(Cause::ClosedBeforeResponse) + of(Cause::ResetBeforeResponse);
    if counts.completed == 0 && 2 * unanswered > failed {
        doubts.push(Doubt::NeverAnswered { over_tls: spec.tls.is_some() });
    }
    if failed as f64 > FAILED * counts.scheduled as f64 {
        doubts.push(Doubt::Failures { failed, scheduled: counts.scheduled });
    }
    doubts
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GeneratorBusy { share, .. } => write!(
                f,
                "The busiest worker was on a CPU for {:.0} % of the time. The limit may be the generator, not the \
                 server.",
                100.0 * share
            ),
            Self::ConnectionsShort { asked, stood } => write!(
                f,
                "Only {} of {} connections were established when traffic began. The load was lighter than requested.",
                thousands(*stood),
                thousands(*asked)
            ),
            Self::RateMissed { due, done, .. } => write!(
                f,
                "{} requests/s were due, and {} requests/s were completed. This is an overload, so response times \
                 grow with the duration.",
                decimals(*due),
                decimals(*done)
            ),
            Self::SentLate { p99_ns, occupied, .. } => {
                let cause = if *occupied { ", waiting for a connection" } else { "" };
                write!(
                    f,
                    "1 % of the requests were sent more than {} after they were due{cause}. The response times of \
                     these requests include this delay.",
                    time(*p99_ns as f64)
                )
            }
            Self::NotKeptAlive { opened, requests } => write!(
                f,
                "{} connections were opened for {} requests. The server does not keep connections alive, so \
                 response times include the time to connect.",
                thousands(*opened),
                thousands(*requests)
            ),
            Self::ClosedUnannounced { closed, lost, .. } => write!(
                f,
                "The server closed {} connections after their first response without saying `Connection: close`. It \
                 did not answer {} requests that were sent on such connections.",
                thousands(*closed),
                thousands(*lost)
            ),
            Self::Misdirected { count, .. } => write!(
                f,
                "The server answered {} requests with 421 Misdirected Request: it does not serve this host on this \
                 connection.",
                thousands(*count)
            ),
            Self::NeverAnswered { .. } => f.write_str(
                "The server accepted connections, and closed them before the first byte of a response.",
            ),
            Self::Failures { failed, scheduled } => write!(
                f,
                "{} of {} requests failed. Requests that fail at once make the other requests look faster.",
                thousands(*failed),
                thousands(*scheduled)
            ),
        }
    }
}

impl Doubt {
    /// What to do.
    pub(super) fn advice(&self) -> String {
        match self {
            Self::GeneratorBusy { workers, .. } => {
                format!("Use more workers (--workers {}), or a lower rate (--rate).", workers + 1)
            }
            Self::ConnectionsShort { .. } => {
                "Raise the limit (the server's connections, its listen backlog, or open files), or use fewer \
                 connections (-c)."
                    .to_owned()
            }
            Self::RateMissed { connections, occupied: true, .. } => format!(
                "All connections were busy: lower the rate, or use more connections (-c {}).",
                connections * 2
            ),
            Self::RateMissed { .. } => "Lower the rate, or find the cause of the failures.".to_owned(),
            Self::SentLate { connections, occupied: true, .. } => {
                format!("Use more connections (-c {}), or lower the rate.", connections * 2)
            }
            Self::SentLate { .. } => {
                "Reserve a CPU for the generator (--cpus), or compare service times.".to_owned()
            }
            Self::NotKeptAlive { .. } => {
                "Switch on keep-alive in the server, or add --no-keepalive if this is intended.".to_owned()
            }
            Self::ClosedUnannounced { can_retry: false, .. } => {
                "Switch on keep-alive in the server, or use a new connection for each request (--no-keepalive)."
                    .to_owned()
            }
            Self::ClosedUnannounced { .. } => {
                "Switch on keep-alive in the server, or send such requests again, as HTTP clients do (--retry \
                 idle-close)."
                    .to_owned()
            }
            Self::Misdirected { over_tls: true, .. } => {
                "Give the name of the header `host` to TLS too (--server-name NAME), or correct the header (-H 'host: \
                 NAME')."
                    .to_owned()
            }
            Self::Misdirected { .. } => "Correct the header `host` (-H 'host: NAME').".to_owned(),
            Self::NeverAnswered { over_tls } => format!(
                "It may serve another host (-H 'host: NAME'), or expect {}HTTP/2 or the PROXY protocol.",
                if *over_tls { "" } else { "TLS (https://), " }
            ),
            Self::Failures { .. } => "Fix the causes listed above before you use the times.".to_owned(),
        }
    }
}
