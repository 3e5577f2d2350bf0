//! Cases: a contender at a load point.

use super::super::Failure;
use super::{Difference, Estimate, Latency, Load, Tax, Throughput};
use hoptax_load::record::{Cause, Counts, TlsTally};
use serde::Serialize;
use std::collections::BTreeMap;

/// One case, from its good trials. Members are absent if they could not be measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    /// Name of the case, as used in findings.
    pub case: String,
    /// `direct` or the gateway's label.
    pub gateway: String,
    /// The load point.
    pub load: Load,
    /// Number of good trials behind the figures.
    pub trials: u32,
    /// Why there is no good trial; absent if there is one, and if no trial was reached.
    pub failed: Option<Failure>,
    /// Trials that failed.
    pub failed_trials: Vec<FailedTrial>,
    /// Throughput.
    pub throughput: Option<Throughput>,
    /// Response time: completed − scheduled.
    pub response_time: Option<Latency>,
    /// Service time: completed − sent.
    pub service_time: Option<Latency>,
    /// Send lag: sent − scheduled.
    pub send_lag: Option<Latency>,
    /// Time to the first byte of the response: first byte − sent.
    pub first_byte: Option<Latency>,
    /// Time to connect, over the generator's whole life.
    pub connect: Option<Latency>,
    /// TLS handshakes, over the generator's whole life; absent without TLS.
    pub tls: Option<Tls>,
    /// The targets of a mix, in the plan's order; empty for a single target.
    pub targets: Vec<Target>,
    /// Outcomes of requests, summed over trials.
    pub counts: Option<Counts>,
    /// Connections.
    pub connections: Option<Connections>,
    /// Bytes on the wire.
    pub bytes: Option<Bytes>,
    /// CPU time.
    pub cpu: Option<Cpu>,
    /// Memory.
    pub memory: Option<Memory>,
    /// The upstream's ledger; absent if it has none.
    pub ledger: Option<Ledger>,
    /// The tax; absent for direct.
    pub tax: Option<Tax>,
    /// Figures from quiet windows alone; absent if steal was not recorded.
    pub quiet: Option<Quiet>,
    /// Time on the request path and on the response path; absent if the upstream does not stamp its responses, or its
    /// stamps cannot be used.
    pub path: Option<Path>,
    /// What clients saw around each event of the plan; left out without events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Codes of the findings about this case.
    pub findings: Vec<&'static str>,
}

/// A trial of a case that failed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedTrial {
    /// Round, from 0.
    pub round: u32,
    /// Why it failed.
    #[serde(flatten)]
    pub failure: Failure,
}

/// Connections, over all trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Connections {
    /// Connections requested in each trial.
    pub asked: u64,
    /// Smallest number of connections open when the traffic of a trial began.
    pub established: u64,
    /// Connections opened during measured times.
    pub opened: u64,
    /// Requests sent on a connection that had carried one before.
    pub reused: u64,
    /// Connections closed by the other side during measured times.
    pub closed_by_peer: u64,
    /// Connections opened per request sent; absent without requests.
    pub per_request: Option<f64>,
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

/// TLS handshakes, over the generator's whole life and all trials.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tls {
    /// Number of handshakes by kind.
    #[serde(flatten)]
    pub tally: TlsTally,
    /// Duration of a handshake: handshake done − connection established.
    pub handshake: Latency,
}

/// CPU time of each role per request, over all trials. Absent for a role that was not watched.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cpu {
    /// CPU time of the gateway per completed request, µs.
    pub gateway_us_per_request: Option<f64>,
    /// CPU time of the generator per completed request, µs.
    pub generator_us_per_request: Option<f64>,
    /// CPU time of the upstream per completed request, µs.
    pub upstream_us_per_request: Option<f64>,
    /// Largest share of a trial that the generator's busiest worker was on a CPU.
    pub generator_utilisation: Option<f64>,
}

/// Largest memory of the gateway's processes in any trial, bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Memory {
    /// Sum of resident sets (RSS).
    pub gateway_rss_bytes_max: Option<u64>,
    /// Sum of proportional sets (PSS).
    pub gateway_pss_bytes_max: Option<u64>,
}

/// The upstream's ledger, relative to the requests that the generator sent in its whole life.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ledger {
    /// Upstream requests per request sent.
    pub requests_per_request: Option<f64>,
    /// Upstream connections per request sent; absent if the ledger does not count connections.
    pub connections_per_request: Option<f64>,
    /// Upstream requests by HTTP version.
    pub http_version: BTreeMap<String, u64>,
    /// Upstream requests by instance.
    pub by_instance: Vec<u64>,
    /// Upstream requests.
    pub requests: u64,
    /// Requests that the generator sent.
    pub sent: u64,
}

/// One target of a mix, over all good trials of a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Target {
    /// Name of the target.
    pub name: String,
    /// Share of the requests that the plan gives it, 0 to 1.
    pub share: f64,
    /// Requests that were due and given to a connection.
    pub scheduled: u64,
    /// Complete responses.
    pub completed: u64,
    /// Successful responses, among the complete ones.
    pub ok: u64,
    /// Failures of every kind.
    pub failed: u64,
    /// Response time: completed − scheduled.
    pub response_time: Latency,
    /// Service time: completed − sent.
    pub service_time: Latency,
    /// Median response time minus direct's for the same target, µs; absent for direct.
    pub added_p50: Option<Difference>,
    /// 99th percentile of the response time minus direct's for the same target, µs; absent for direct.
    pub added_p99: Option<Difference>,
}

/// Time on the request path and on the response path, µs. The upstream's own time is in neither.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Path {
    /// Received by the upstream − sent, at the median.
    pub request_us_p50: Option<Estimate>,
    /// Completed − replied by the upstream, at the median.
    pub response_us_p50: Option<Estimate>,
    /// Time that the gateway adds on the request path, at the median; absent for direct.
    pub added_request_us_p50: Option<Difference>,
    /// Time that the gateway adds on the response path, at the median; absent for direct.
    pub added_response_us_p50: Option<Difference>,
    /// Number of responses behind the figures.
    pub responses: u64,
}

/// A case from its quiet windows. If no window of the load point was left out, the figures are those of all
/// windows. Absent figures: no trial has enough quiet windows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Quiet {
    /// Windows of the trials that recorded steal.
    pub windows: u64,
    /// Number of these windows that were left out.
    pub left_out: u64,
    /// Share of windows left out, 0 to 1.
    pub share_left_out: f64,
    /// Number of trials behind the figures: those with enough quiet windows.
    pub trials: u32,
    /// Number of trials with too few quiet windows; they are in no quiet figure.
    pub trials_left_out: u32,
    /// Completed requests ÷ quiet time.
    pub throughput: Option<Throughput>,
    /// Response times of requests that completed in quiet windows.
    pub response_time: Option<Latency>,
    /// CPU time of the gateway per completed request, over the quiet windows of all trials, µs.
    pub cpu_us_per_request: Option<f64>,
    /// The tax, relative to direct's quiet windows; absent for direct. Extra upstream requests are not recorded
    /// by window: they are those of whole trials.
    pub tax: Option<Tax>,
}

/// One event of a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// The action, with its settings.
    pub event: String,
    /// Planned time, seconds since the start of the measured time.
    pub at_s: f64,
    /// Number of trials in which the event was done.
    pub trials: u32,
    /// Why the event was not done in other trials, each reason once.
    pub failed: Vec<String>,
    /// Duration of the event, µs; absent if it was never done.
    pub took_us: Option<Estimate>,
    /// For `change-route`: time until the new route answered, µs; absent for other events.
    pub new_route_after_us: Option<Estimate>,
    /// What clients saw in the windows around the event.
    pub around: Stretch,
    /// What clients saw in the windows of the same trials that belong to no event.
    pub quiet: Stretch,
}

/// What clients saw in some windows.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stretch {
    /// Length of the windows, seconds, over all trials.
    pub seconds: f64,
    /// Requests with a complete response.
    pub completed: u64,
    /// Unsuccessful responses among them, for example a gateway's error page for a missing upstream.
    pub not_ok: u64,
    /// Requests without a complete response.
    pub failed: u64,
    /// Causes of these failures, with counts.
    pub causes: BTreeMap<Cause, u64>,
    /// Connections opened to replace others. With keep-alive this is the number of connections dropped.
    pub connections_opened: u64,
    /// 99th percentile of the response time, µs, to two digits; absent without responses.
    pub p99_us: Option<Estimate>,
    /// Longest response time, µs, without an interval; absent without responses.
    pub slowest_us: Option<Estimate>,
}
