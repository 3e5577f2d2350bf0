//! Cases. A case is a contender at a load point.

use super::super::{DIRECT, Failure, Times};
use super::{Difference, Estimate, Latency, Load, Series, Tail, Tax, Throughput};
use hoptax_format::llm::TokenCounts;
use hoptax_format::messages::MessageCounts;
use hoptax_format::record::{Cause, Counts, Http2Tally, TlsTally};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Deref;

/// Results of one case, calculated from the trials that did not fail. Members are absent if they could not be
/// measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Case {
    /// Name of the case, as used in findings.
    pub case: String,
    /// `direct` or the gateway's label.
    pub gateway: String,
    /// The load point.
    pub load: Load,
    /// Number of trials that did not fail. The figures are calculated from these trials.
    pub trials: u32,
    /// Why every trial of the case failed; absent if a trial succeeded, and if the run ended before the first
    /// trial of the case.
    pub failed: Option<Failure>,
    /// Trials that failed.
    pub failed_trials: Vec<FailedTrial>,
    /// Number of trials that were set aside because the hypervisor disturbed them or had moved a CPU. If
    /// there are none, the JSON has no such member.
    #[serde(skip_serializing_if = "is_zero")]
    pub set_aside: u32,
    /// Number of trials that were set aside because the process was still warming up. If there are none, the
    /// JSON has no such member.
    #[serde(skip_serializing_if = "is_zero")]
    pub warming: u32,
    /// Number of the gateway's processes that the trials belong to. If there is only one, the JSON has no
    /// such member.
    #[serde(skip_serializing_if = "is_at_most_one")]
    pub processes: u32,
    /// Number of trials, of those in `set_aside`, that were set aside because the hypervisor had moved a CPU.
    #[serde(skip)]
    pub moved: u32,
    /// The last round that has a trial of the case, from 0. The trial may have failed or have been set aside.
    #[serde(skip)]
    pub last_round: Option<u32>,
    /// Throughput.
    pub throughput: Option<Throughput>,
    /// Response time: completed − scheduled.
    pub response_time: Option<Latency>,
    /// Service time: completed − sent.
    pub service_time: Option<Latency>,
    /// Send lag: sent − scheduled.
    pub send_lag: Option<Latency>,
    /// How long requests waited, and for what. Without HTTP/2, the JSON has no such member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Waits>,
    /// Time to the first byte of the response: first byte − sent.
    pub first_byte: Option<Latency>,
    /// Time to connect. Includes connections that were opened before the measured time.
    pub connect: Option<Latency>,
    /// TLS handshakes, including handshakes before the measured time; absent without TLS.
    pub tls: Option<Tls>,
    /// The targets of a mix, in the order of the plan; empty if the plan has a single target.
    pub targets: Vec<TargetFigures>,
    /// Each generator, in the order of the plan. If there is only one, the JSON has no such member.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub generators: Vec<GeneratorFigures>,
    /// Outcomes of requests, summed over trials.
    pub counts: Option<Counts>,
    /// Connections.
    pub connections: Option<Connections>,
    /// What the connections saw of HTTP/2, over all trials. Without HTTP/2, the JSON has no such member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http2: Option<Http2Tally>,
    /// Numbers of messages of streams, over all trials. Without streams, the JSON has no such member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Messages>,
    /// Times of these messages. Without streams, the JSON has no such member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageTimes>,
    /// Bytes on the wire.
    pub bytes: Option<Bytes>,
    /// CPU time.
    pub cpu: Option<Cpu>,
    /// Memory.
    pub memory: Option<Memory>,
    /// The upstream's ledger; absent if the upstream has no ledger.
    pub ledger: Option<Ledger>,
    /// The tax; absent for direct.
    pub tax: Option<Tax>,
    /// What the run resolves of the tail of the tax; absent for direct, and if the tax has no added p99.
    pub tail: Option<Tail>,
    /// Figures from the quiet windows only; absent if steal was not recorded.
    pub quiet: Option<QuietFigures>,
    /// Time on the request path and on the response path; absent if the upstream does not stamp its
    /// responses, and if the stamps cannot be used.
    pub path: Option<Path>,
    /// What clients saw around each event of the plan. If the plan has no events, the JSON has no such
    /// member.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventFigures>,
    /// Codes of the findings about this case.
    pub findings: Vec<&'static str>,
    /// Each trial over time, for charts.
    #[serde(skip)]
    pub series: Vec<Series>,
    /// The distribution of the response times, for charts. Each point is (1 ÷ share of slower samples,
    /// response time in µs).
    #[serde(skip)]
    pub curve: Vec<(f64, f64)>,
}

impl Case {
    /// True for direct.
    pub fn is_direct(&self) -> bool {
        self.gateway == DIRECT
    }

    /// The figures of these times. Absent if they were not measured.
    pub fn times(&self, times: Times) -> Option<&Latency> {
        match times {
            Times::Response => self.response_time.as_ref(),
            Times::FirstByte => self.first_byte.as_ref(),
            of_messages => self.message.as_ref()?.times(of_messages),
        }
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_at_most_one(number: &u32) -> bool {
    *number <= 1
}

/// A failed trial of a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedTrial {
    /// Round, from 0.
    pub round: u32,
    /// Why it failed.
    #[serde(flatten)]
    pub failure: Failure,
}

/// Waits of requests of HTTP/2.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Waits<T = Latency> {
    /// From the scheduled time until the request had a connection.
    pub connection: T,
    /// From then until it had a stream.
    pub stream: T,
    /// From sending its head until the flow-control window had room for its whole body.
    pub window: T,
}

/// Numbers of messages of streams.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Messages {
    /// Numbers of messages.
    #[serde(flatten)]
    pub counts: MessageCounts,
    /// Streams of tokens, whose messages are the tokens. Without them, the JSON has no such member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
}

impl Deref for Messages {
    type Target = MessageCounts;

    fn deref(&self) -> &MessageCounts {
        &self.counts
    }
}

/// Streams of tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tokens {
    /// Numbers of streams and events.
    #[serde(flatten)]
    pub counts: TokenCounts,
    /// Tokens received ÷ measured time.
    pub tokens_per_second: Option<Throughput>,
    /// Streams whose end was announced, or that the client left on purpose ÷ measured time.
    pub streams_per_second: Option<Throughput>,
    /// Good requests ÷ measured time. Absent without [limits](hoptax_format::llm::TokenSpec::goodput).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub good_per_second: Option<Throughput>,
}

/// Times of messages of streams. Times that were not recorded are left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MessageTimes<T = Latency> {
    /// From when the client's message was due until its answer arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_time: Option<T>,
    /// From sending the request until the first message arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_message: Option<T>,
    /// From when the server's message was due at the server until it arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age: Option<T>,
    /// From the arrival of a message to that of the next message of the same call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<T>,
    /// From sending the request until the head of the response had arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<T>,
    /// Fan-out: from when a message was due until the last connection had it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reach: Option<T>,
    /// Streams of tokens: from sending the request until the first event arrived, with content or without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_event: Option<T>,
    /// Age of the first token of each stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_age: Option<T>,
    /// Time per token (TPOT) of each stream: from the first token to the last ÷ (tokens − 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_time: Option<T>,
}

impl<T> MessageTimes<T> {
    /// These times. Absent if they were not recorded, and for times of whole responses.
    pub fn times(&self, times: Times) -> Option<&T> {
        let times = match times {
            Times::Response | Times::FirstByte => return None,
            Times::Message => &self.response_time,
            Times::FirstMessage => &self.first_message,
            Times::Age => &self.age,
            Times::Gap => &self.gap,
            Times::Headers => &self.headers,
            Times::Reach => &self.reach,
            Times::FirstEvent => &self.first_event,
            Times::FirstAge => &self.first_age,
            Times::TokenTime => &self.token_time,
        };
        times.as_ref()
    }
}

/// Connections, over all trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Connections {
    /// Connections requested in each trial.
    pub asked: u64,
    /// Number of connections that were open when the traffic of a trial began. If the trials differ, this is
    /// the smallest number.
    pub established: u64,
    /// Connections opened during measured times.
    pub opened: u64,
    /// Requests sent on a connection that had already carried a request.
    pub reused: u64,
    /// Connections closed by the other side during measured times.
    pub closed_by_peer: u64,
    /// Connections opened per request sent; absent without requests.
    pub per_request: Option<f64>,
    /// Responses on each connection of a trial. Absent in runs of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub responses: Option<Spread>,
    /// Connections that had a request in a trial, but got no response. Absent in runs of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<u64>,
}

/// The lowest, the median and the highest of several counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// The lowest count.
    pub min: u64,
    /// The median.
    pub median: u64,
    /// The highest count.
    pub max: u64,
}

impl From<[u64; 3]> for Spread {
    fn from([min, median, max]: [u64; 3]) -> Self {
        Self { min, median, max }
    }
}

/// Bytes on the wire, over all trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Bytes {
    /// Bytes of requests.
    pub sent: u64,
    /// Bytes of responses.
    pub received: u64,
    /// Bytes per response, including its head; absent without responses.
    pub per_response: Option<f64>,
}

/// TLS handshakes of all trials, including handshakes before the measured time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tls {
    /// Number of handshakes of each kind.
    #[serde(flatten)]
    pub tally: TlsTally,
    /// Duration of a handshake: handshake done − connection established.
    pub handshake: Latency,
}

/// CPU time of each role per request, over all trials. Absent for a role that was not measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cpu {
    /// CPU time of the gateway per completed request, µs.
    pub gateway_us_per_request: Option<f64>,
    /// CPU time of the generator per completed request, µs.
    pub generator_us_per_request: Option<f64>,
    /// CPU time of the upstream per completed request, µs.
    pub upstream_us_per_request: Option<f64>,
    /// Share of a trial for which the generator's busiest worker was on a CPU. If the trials differ, this is
    /// the largest share.
    pub generator_utilisation: Option<f64>,
}

/// Maximum memory of the gateway's processes in all trials, bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Memory {
    /// Sum of resident sets (RSS).
    pub gateway_rss_bytes_max: Option<u64>,
    /// Sum of proportional sets (PSS).
    pub gateway_pss_bytes_max: Option<u64>,
}

/// The upstream's ledger, compared with the number of requests that the generator sent. Both numbers include
/// requests before the measured time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ledger {
    /// Upstream requests per request sent.
    pub requests_per_request: Option<f64>,
    /// Upstream connections per request sent; absent if the ledger does not count connections.
    pub connections_per_request: Option<f64>,
    /// Number of upstream requests with each HTTP version.
    pub http_version: BTreeMap<String, u64>,
    /// Number of upstream requests that each instance received.
    pub by_instance: Vec<u64>,
    /// Upstream requests.
    pub requests: u64,
    /// Requests that the generator sent.
    pub sent: u64,
}

/// One target of a mix, over all trials of a case that did not fail.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TargetFigures {
    /// Name of the target.
    pub name: String,
    /// The target's share of the requests according to the plan, 0 to 1.
    pub share: f64,
    /// Number of due requests that were assigned to a connection.
    pub scheduled: u64,
    /// Complete responses.
    pub completed: u64,
    /// Complete responses that were successful.
    pub ok: u64,
    /// Failures of every kind.
    pub failed: u64,
    /// Response time: completed − scheduled.
    pub response_time: Latency,
    /// Service time: completed − sent.
    pub service_time: Latency,
    /// Median response time minus the median of direct for the same target, µs; absent for direct.
    pub added_p50: Option<Difference>,
    /// 99th percentile of the response time minus the percentile of direct for the same target, µs; absent
    /// for direct.
    pub added_p99: Option<Difference>,
}

/// One of several generators, over all trials of a case that did not fail.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GeneratorFigures {
    /// Name of its host.
    pub name: String,
    /// Number of connections that it was asked to open.
    pub connections: u64,
    /// Throughput of its requests.
    pub throughput: Option<Throughput>,
    /// Response time of its requests: completed − scheduled.
    pub response_time: Latency,
    /// Send lag of its requests: sent − scheduled.
    pub send_lag: Latency,
    /// Share of a trial for which its busiest worker was on a CPU. If the trials differ, this is the largest
    /// share.
    pub utilisation: f64,
    /// Median of its response times minus the median of its response times of direct, µs; absent for direct.
    pub added_p50: Option<Difference>,
}

/// Time on the request path and on the response path, µs. The time that the upstream itself needs is not
/// included.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Path {
    /// Median time from sending a request until the upstream received it.
    pub request_us_p50: Option<Estimate>,
    /// Median time from the upstream's reply until the generator had received the complete response.
    pub response_us_p50: Option<Estimate>,
    /// Time that the gateway adds to the median of the request path; absent for direct.
    pub added_request_us_p50: Option<Difference>,
    /// Time that the gateway adds to the median of the response path; absent for direct.
    pub added_response_us_p50: Option<Difference>,
    /// Number of responses from which the figures are calculated.
    pub responses: u64,
}

/// Results of a case, calculated from its quiet windows only. If no window of the load point was left out,
/// the figures are the same as for all windows. The figures are absent if no trial has enough quiet windows.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct QuietFigures {
    /// Number of windows in the trials that recorded steal.
    pub windows: u64,
    /// Number of windows that were left out, because they were not quiet.
    pub left_out: u64,
    /// Share of windows left out, 0 to 1.
    pub share_left_out: f64,
    /// Number of trials with enough quiet windows. The figures are calculated from these trials.
    pub trials: u32,
    /// Number of trials with too few quiet windows. The figures do not include these trials.
    pub trials_left_out: u32,
    /// Completed requests ÷ quiet time.
    pub throughput: Option<Throughput>,
    /// Response times of requests that completed in quiet windows.
    pub response_time: Option<Latency>,
    /// CPU time of the gateway per completed request, over the quiet windows of all trials, µs.
    pub cpu_us_per_request: Option<f64>,
    /// The tax, compared with the quiet windows of direct; absent for direct. Extra upstream requests are not
    /// recorded for each window, so they are counted over whole trials.
    pub tax: Option<Tax>,
}

impl QuietFigures {
    /// True if at least one window of the case is left out. Otherwise the quiet figures of the case cover all
    /// its windows.
    pub fn leaves_out(&self) -> bool {
        self.left_out > 0
    }
}

/// One event of a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventFigures {
    /// The action, with its settings.
    pub event: String,
    /// Planned time, seconds since the start of the measured time.
    pub at_s: f64,
    /// Number of trials in which the event happened.
    pub trials: u32,
    /// Why the event did not happen in other trials. Each reason is listed once.
    pub failed: Vec<String>,
    /// Duration of the event, µs; absent if the event never happened.
    pub took_us: Option<Estimate>,
    /// Time until the new route answered, µs, for the event `change-route`. Absent for other events.
    pub new_route_after_us: Option<Estimate>,
    /// What clients saw in the windows around the event.
    pub around: Stretch,
    /// What clients saw in the windows of these trials that belong to no event.
    pub quiet: Stretch,
}

/// What clients saw in some windows.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stretch {
    /// Total length of the windows in all trials, seconds.
    pub seconds: f64,
    /// Requests with a complete response.
    pub completed: u64,
    /// Complete responses that were unsuccessful, for example a gateway's error page because the upstream is
    /// down.
    pub not_ok: u64,
    /// Requests without a complete response.
    pub failed: u64,
    /// Causes of the failures, with the number of failures for each.
    pub causes: BTreeMap<Cause, u64>,
    /// Connections opened to replace others. With keep-alive, this is the number of connections that were
    /// dropped.
    pub connections_opened: u64,
    /// 99th percentile of the response time, µs, with a precision of two digits. Absent without responses.
    pub p99_us: Option<Estimate>,
    /// Longest response time, µs; it has no interval. Absent without responses.
    pub slowest_us: Option<Estimate>,
}
