//! `hoptax load --json`: the same members as for a case in `hoptax report --format json`. Intervals are null,
//! because there is only one trial.

use super::limits::Judged;
use super::outcome::LoadOutcome;
use hdrhistogram::Histogram;
use hoptax_format::histogram::{DecodeError, Encoded, LOWEST, spread};
use hoptax_format::messages::MessagesRecord;
use hoptax_format::record::{Counts, Histograms, Http2Tally, LoadRecord, TargetRecord, TlsTally};
use hoptax_format::spec::{HttpVersion, LoadSpec, Rate, Retry, Shape, Stage};
use hoptax_record::report::{self, MessageTimes, Spread, Waits};
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of the JSON document.
const SCHEMA: u32 = 1;
/// Nanoseconds per microsecond.
const MICROSECOND: f64 = 1e3;
/// Nanoseconds per second.
const SECOND: f64 = 1e9;

#[derive(Debug, Serialize)]
pub(super) struct LoadResults {
    schema: u32,
    url: String,
    interrupted: bool,
    /// True if the load ended early because every request failed.
    gave_up: bool,
    load: Load,
    trials: u32,
    measured_s: f64,
    /// Requests in flight on average.
    concurrency: Option<f64>,
    throughput: Throughput,
    response_time: Times,
    service_time: Times,
    send_lag: Times,
    first_byte: Times,
    connect: Times,
    /// Waits of requests before they could be sent whole. Absent for HTTP/1.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<Waits<Times>>,
    /// Absent without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_handshake: Option<Times>,
    counts: Counts,
    /// Figures of each target. Empty if there is only one target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    targets: Vec<TargetResults>,
    /// Absent without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<TlsTally>,
    connections: Connections,
    /// Absent for HTTP/1.
    #[serde(skip_serializing_if = "Option::is_none")]
    http2: Option<Http2Tally>,
    /// Numbers of messages. Absent without streams of messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<report::Messages>,
    /// Times of messages. Absent without streams of messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<MessageTimes<Times>>,
    bytes: Bytes,
    cpu: Cpu,
    memory: Memory,
    /// Where the first redirect points to.
    redirected_to: Option<String>,
    limits: Vec<Judged>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Load {
    r#loop: &'static str,
    connections: u32,
    /// Maximum number of requests in flight on a connection. Absent if it is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    streams: Option<u32>,
    /// Connections go to these addresses in turn.
    addresses: Vec<String>,
    /// Requests per second. If the rate has stages, this is the mean.
    rate: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stages: Vec<Stage>,
    arrivals: Option<String>,
    /// Absent if the load has no time limit and ends after a number of requests.
    duration_s: Option<f64>,
    requests: Option<u64>,
    http: HttpVersion,
    requests_per_connection: Option<u32>,
    retry: Retry,
    workers: u32,
    event_loop: String,
}

#[derive(Debug, Serialize)]
struct TargetResults {
    name: String,
    scheduled: u64,
    completed: u64,
    ok: u64,
    failed: u64,
    response_time: Times,
    service_time: Times,
}

/// A value. Its interval is null, because a single trial has no interval.
#[derive(Debug, Serialize)]
struct Estimate {
    estimate: f64,
    low: Option<f64>,
    high: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Throughput {
    #[serde(flatten)]
    estimate: Estimate,
    unit: &'static str,
}

/// Percentiles and other statistics of one histogram, in microseconds.
#[derive(Debug, Serialize)]
struct Times {
    #[serde(flatten)]
    values: BTreeMap<&'static str, Estimate>,
    samples: u64,
    unit: &'static str,
}

#[derive(Debug, Serialize)]
struct Connections {
    asked: u64,
    established: u64,
    opened: u64,
    reused: u64,
    closed_by_peer: u64,
    per_request: f64,
    responses: Option<Spread>,
    /// Connections that had a request, but got no response.
    unanswered: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Bytes {
    sent: u64,
    received: u64,
    body: u64,
    per_response: f64,
}

#[derive(Debug, Serialize)]
struct Cpu {
    generator_us_per_request: f64,
    generator_utilisation: f64,
}

#[derive(Debug, Serialize)]
struct Memory {
    generator_rss_bytes_max: u64,
}

impl LoadResults {
    pub(super) fn new(load: &LoadOutcome<'_>) -> Result<Self, DecodeError> {
        let (spec, record) = (load.spec, load.record);
        let targets = record.targets.iter().map(TargetResults::new).collect::<Result<_, _>>()?;
        let tls_handshake = record.histograms.tls_handshake.as_ref().map(Times::new).transpose()?;
        let completed = record.completed_in_time as f64;
        let seconds = record.measured_ns as f64 / SECOND;
        let connections = record.connections;
        let bytes = record.bytes;
        let messages = record.messages.as_ref();
        Ok(Self {
            schema: SCHEMA,
            url: load.url.to_owned(),
            interrupted: record.interrupted,
            gave_up: record.gave_up,
            load: Load::new(spec, record),
            trials: 1,
            measured_s: seconds,
            concurrency: load.concurrency(),
            throughput: Throughput { estimate: estimate(ratio(completed, seconds)), unit: "requests/s" },
            response_time: Times::new(&record.histograms.response_time)?,
            service_time: Times::new(&record.histograms.service_time)?,
            send_lag: Times::new(&record.histograms.send_lag)?,
            first_byte: Times::new(&record.histograms.first_byte)?,
            connect: Times::new(&record.histograms.connect)?,
            wait: waits(&record.histograms)?,
            tls_handshake,
            counts: record.counts.clone(),
            targets,
            tls: record.tls.clone(),
            connections: Connections {
                asked: connections.asked,
                established: connections.established,
                opened: connections.opened,
                reused: connections.reused,
                closed_by_peer: connections.closed_by_peer,
                per_request: ratio(connections.opened as f64, record.counts.sent as f64),
                responses: load.responses.as_ref().and_then(spread).map(Spread::from),
                unanswered: record.occupancy.as_ref().map(|one| one.unanswered),
            },
            http2: record.http2,
            messages: messages.map(|messages| numbers(messages, seconds)),
            message: messages.map(message_times).transpose()?,
            bytes: Bytes {
                sent: bytes.sent,
                received: bytes.received,
                body: bytes.body,
                per_response: ratio(bytes.received as f64, completed),
            },
            cpu: Cpu {
                generator_us_per_request: ratio(record.cpu.used_ns as f64 / MICROSECOND, completed),
                generator_utilisation: ratio(record.cpu.busiest_worker_ns as f64, record.measured_ns as f64),
            },
            memory: Memory { generator_rss_bytes_max: record.rss_bytes_max },
            redirected_to: record.redirected_to.clone(),
            limits: load.limits.clone(),
            warnings: load.doubts.iter().map(|doubt| format!("{doubt} {}", doubt.advice())).collect(),
        })
    }
}

impl Load {
    fn new(spec: &LoadSpec, record: &LoadRecord) -> Self {
        let (r#loop, rate, arrivals) = match &spec.shape {
            Shape::Closed => ("closed", None, None),
            Shape::Open { rate, arrivals } => {
                ("open", Some(rate.mean()), Some(hoptax_plan::units::show_arrivals(*arrivals)))
            }
        };
        Self {
            r#loop,
            connections: spec.connections,
            streams: (spec.streams > 1).then_some(spec.streams),
            addresses: spec.addresses.iter().map(ToString::to_string).collect(),
            rate,
            stages: match &spec.shape {
                Shape::Open { rate: Rate::Stages(stages), .. } => stages.clone(),
                _ => Vec::new(),
            },
            arrivals,
            duration_s: (spec.duration_ns < super::to_spec::UNBOUNDED.as_nanos() as u64)
                .then_some(spec.duration_ns as f64 / SECOND),
            requests: spec.requests,
            http: spec.http,
            requests_per_connection: spec.requests_per_connection,
            retry: spec.retry,
            workers: record.workers,
            event_loop: record.event_loop.clone(),
        }
    }
}

/// The waits, if they were recorded.
fn waits(histograms: &Histograms) -> Result<Option<Waits<Times>>, DecodeError> {
    let Histograms { connection_wait, stream_wait, window_wait, .. } = histograms;
    Ok(match (connection_wait, stream_wait, window_wait) {
        (Some(connection), Some(stream), Some(window)) => Some(Waits {
            connection: Times::new(connection)?,
            stream: Times::new(stream)?,
            window: Times::new(window)?,
        }),
        _ => None,
    })
}

/// Numbers of messages, and of streams of tokens. `seconds` is the measured time.
fn numbers(record: &MessagesRecord, seconds: f64) -> report::Messages {
    let counts = record.counts;
    let per_second = |count: u64, unit| {
        let estimate = report::Estimate::bare(ratio(count as f64, seconds), 1);
        Some(report::Throughput { estimate, unit })
    };
    let tokens = record.tokens.as_ref().map(|tokens| report::Tokens {
        counts: tokens.counts,
        tokens_per_second: per_second(counts.received, "tokens/s"),
        streams_per_second: per_second(tokens.counts.ended + tokens.counts.left, "streams/s"),
        good_per_second: tokens.counts.good.and_then(|good| per_second(good, "requests/s")),
    });
    report::Messages { counts, tokens }
}

fn message_times(record: &MessagesRecord) -> Result<MessageTimes<Times>, DecodeError> {
    let histograms = &record.histograms;
    let tokens = record.tokens.as_ref().map(|tokens| &tokens.histograms);
    let recorded =
        |encoded: &Encoded| Times::new(encoded).map(|times| Some(times).filter(|times| times.samples > 0));
    let if_known = |encoded: Option<&Encoded>| encoded.map_or(Ok(None), recorded);
    Ok(MessageTimes {
        response_time: recorded(&histograms.response_time)?,
        headers: if_known(histograms.headers.as_ref())?,
        first_message: recorded(&histograms.first_message)?,
        age: recorded(&histograms.age)?,
        gap: recorded(&histograms.gap)?,
        reach: if_known(histograms.reach.as_ref())?,
        first_event: if_known(tokens.map(|tokens| &tokens.first_event))?,
        first_age: if_known(tokens.map(|tokens| &tokens.first_age))?,
        token_time: if_known(tokens.map(|tokens| &tokens.per_token))?,
    })
}

impl TargetResults {
    fn new(target: &TargetRecord) -> Result<Self, DecodeError> {
        Ok(Self {
            name: target.name.clone(),
            scheduled: target.scheduled,
            completed: target.completed,
            ok: target.ok,
            failed: target.failed,
            response_time: Times::new(&target.response_time)?,
            service_time: Times::new(&target.service_time)?,
        })
    }
}

impl Times {
    fn new(encoded: &Encoded) -> Result<Self, DecodeError> {
        let histogram: Histogram<u64> = encoded.decode()?;
        let at = |quantile| histogram.value_at_quantile(quantile) as f64;
        let values = if histogram.is_empty() {
            BTreeMap::new()
        } else {
            [
                ("p50", at(0.5)),
                ("p75", at(0.75)),
                ("p90", at(0.9)),
                ("p95", at(0.95)),
                ("p99", at(0.99)),
                ("p99.9", at(0.999)),
                ("min", histogram.min() as f64),
                ("max", histogram.max() as f64),
                ("mean", histogram.mean()),
                ("stdev", histogram.stdev()),
            ]
            .map(|(name, nanoseconds)| (name, estimate(zero_below_lowest(nanoseconds) / MICROSECOND)))
            .into()
        };
        Ok(Self { values, samples: histogram.len(), unit: "us" })
    }
}

/// Rounds values below [`LOWEST`] to zero, because histograms cannot distinguish them from zero.
fn zero_below_lowest(nanoseconds: f64) -> f64 {
    if nanoseconds < LOWEST as f64 { 0.0 } else { nanoseconds }
}

fn estimate(estimate: f64) -> Estimate {
    Estimate { estimate, low: None, high: None }
}

/// `part / whole`, or zero if `whole` is zero, because JSON has no NaN.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
