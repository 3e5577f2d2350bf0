//! Doubts about a load: what makes its figures mean something else than they seem to, each with its advice.
//!
//! The limits are those of `analysis/checks`, which judge the trials of a run.

use super::figures::{decimals, thousands, time};
use hdrhistogram::Histogram;
use hoptax_load::record::LoadRecord;
use hoptax_load::spec::{LoadSpec, Shape};
use std::fmt;

/// Share of the time that the busiest worker may be on a CPU.
const BUSY: f64 = 0.85;
/// Share of the median response time that the send lag's p99 may be.
const LATE: f64 = 0.1;
/// Share of the requests due that must complete in the measured time.
const ACHIEVED: f64 = 0.99;
/// Share of the connections that may be busy on average before the next request will have to wait for one.
const OCCUPIED: f64 = 0.8;
/// Requests per connection below which connections are not kept alive to speak of.
const KEPT: u64 = 10;
/// Share of the requests whose failure makes the others' times those of another load.
const FAILED: f64 = 0.01;

/// Something that is doubtful.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Doubt {
    /// The busiest worker was on a CPU for this share of the time.
    GeneratorBusy { share: f64, workers: u32 },
    /// Fewer connections stood than were asked for.
    ConnectionsShort { asked: u64, stood: u64 },
    /// So many per second were due and so many completed; so many connections, which were all busy or not.
    RateMissed { due: f64, done: f64, connections: u32, occupied: bool },
    /// Requests left late; all connections were busy, or not.
    SentLate { p99_ns: u64, occupied: bool, connections: u32 },
    /// The server ends connections although they could be kept.
    NotKeptAlive { opened: u64, requests: u64 },
    /// Many requests failed.
    Failures { failed: u64, scheduled: u64 },
}

/// What is doubtful about `record`.
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
    let opened = record.connections.opened;
    if spec.requests_per_connection.is_none() && opened > 0 && opened * KEPT > counts.sent {
        doubts.push(Doubt::NotKeptAlive { opened, requests: counts.sent });
    }
    let failed = counts.timeouts + counts.connect_errors + counts.resets + counts.bad_responses;
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
                "The busiest worker was on a CPU for {:.0} % of the time: the generator may have been the limit, and not \
                 the server.",
                100.0 * share
            ),
            Self::ConnectionsShort { asked, stood } => write!(
                f,
                "Only {} of {} connections stood when traffic began: the load was lighter than asked.",
                thousands(*stood),
                thousands(*asked)
            ),
            Self::RateMissed { due, done, .. } => write!(
                f,
                "{} requests/s were due and {} completed: the response times are those of an overload, and grow with \
                 the duration.",
                decimals(*due),
                decimals(*done)
            ),
            Self::SentLate { p99_ns, occupied, .. } => {
                let cause = if *occupied { ", waiting for a connection" } else { "" };
                write!(
                    f,
                    "1 % of the requests left more than {} after they were due{cause}: their response times hold that.",
                    time(*p99_ns as f64)
                )
            }
            Self::NotKeptAlive { opened, requests } => write!(
                f,
                "{} connections were opened for {} requests: the server does not keep them alive, and connecting is part \
                 of the response times.",
                thousands(*opened),
                thousands(*requests)
            ),
            Self::Failures { failed, scheduled } => write!(
                f,
                "{} of {} requests failed: what fails at once makes the rest look quick.",
                thousands(*failed),
                thousands(*scheduled)
            ),
        }
    }
}

impl Doubt {
    /// What to do about it.
    pub(super) fn advice(&self) -> String {
        match self {
            Self::GeneratorBusy { workers, .. } => format!(
                "Give it more CPUs (--workers {}), or a rate that it sends with ease (--rate).",
                workers + 1
            ),
            Self::ConnectionsShort { .. } => {
                "Raise what is in the way (the server's limit of connections, its listen \
                                              backlog, descriptors), or ask for fewer (-c)."
                    .to_owned()
            }
            Self::RateMissed { connections, occupied: true, .. } => format!(
                "All connections were busy: lower the rate, or give more connections (-c {}).",
                connections * 2
            ),
            Self::RateMissed { .. } => "Lower the rate, or find what failed.".to_owned(),
            Self::SentLate { connections, occupied: true, .. } => {
                format!("Give more connections (-c {}), or lower the rate.", connections * 2)
            }
            Self::SentLate { .. } => {
                "Give the generator a CPU of its own (--cpus), or compare service times.".to_owned()
            }
            Self::NotKeptAlive { .. } => {
                "Switch keep-alive on in the server, or ask for this: --no-keepalive.".to_owned()
            }
            Self::Failures { .. } => "Mend the causes listed above before reading the times.".to_owned(),
        }
    }
}
