//! Cases: a contender at a load point.

use super::super::Failure;
use super::{Difference, Estimate, Latency, Load, Tax, Throughput};
use hoptax_load::record::{Cause, Counts, TlsTally};
use serde::Serialize;
use std::collections::BTreeMap;

/// One case, measured from its good trials. Members are absent if they could not be measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    /// Names the case in findings.
    pub case: String,
    /// `direct` or the gateway's label.
    pub gateway: String,
    /// The load point.
    pub load: Load,
    /// Good trials behind the figures.
    pub trials: u32,
    /// Why there is no good trial; absent if there is one, and if none was reached.
    pub failed: Option<Failure>,
    /// Trials that failed.
    pub failed_trials: Vec<FailedTrial>,
    /// Throughput.
    pub throughput: Option<Throughput>,
    /// Completed − scheduled.
    pub response_time: Option<Latency>,
    /// Completed − sent.
    pub service_time: Option<Latency>,
    /// Sent − scheduled.
    pub send_lag: Option<Latency>,
    /// First byte of the answer − sent.
    pub first_byte: Option<Latency>,
    /// Of each connect, over the generator's whole life.
    pub connect: Option<Latency>,
    /// TLS handshakes, over the generator's whole life; absent without TLS.
    pub tls: Option<Tls>,
    /// The targets of a mix, in the plan's order; empty if there is a single one.
    pub targets: Vec<Target>,
    /// Outcomes, summed.
    pub counts: Option<Counts>,
    /// Connections.
    pub connections: Option<Connections>,
    /// Bytes.
    pub bytes: Option<Bytes>,
    /// CPU time.
    pub cpu: Option<Cpu>,
    /// Memory.
    pub memory: Option<Memory>,
    /// The upstream's count; absent if it keeps none.
    pub ledger: Option<Ledger>,
    /// What the hop costs; absent for direct.
    pub tax: Option<Tax>,
    /// The same figures from quiet windows alone; absent if it is not known what the hypervisor took.
    pub quiet: Option<Quiet>,
    /// The way there and the way back; absent if the upstream does not stamp its answers, or its stamps cannot be used.
    pub path: Option<Path>,
    /// What clients saw around each event of the plan; left out if there was none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Codes of the findings about this case.
    pub findings: Vec<&'static str>,
}

/// A trial of a case that could not be measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedTrial {
    /// Round, from 0.
    pub round: u32,
    /// Why.
    #[serde(flatten)]
    pub failure: Failure,
}

/// What became of the connections, over all trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Connections {
    /// Requested in each trial.
    pub asked: u64,
    /// Fewest that were open when the traffic of a trial began.
    pub established: u64,
    /// Opened inside the measured times.
    pub opened: u64,
    /// Requests sent on a connection that had already carried one.
    pub reused: u64,
    /// Closed by the other side inside the measured times.
    pub closed_by_peer: u64,
    /// Opened per request sent.
    pub per_request: Option<f64>,
}

/// Bytes on the wire, over all trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Bytes {
    /// Of requests.
    pub sent: u64,
    /// Of responses.
    pub received: u64,
    /// Of a response, head included.
    pub per_response: Option<f64>,
}

/// TLS handshakes, over the generator's whole life and all trials.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tls {
    /// How often which kind.
    #[serde(flatten)]
    pub tally: TlsTally,
    /// Connection established − handshake done.
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
    /// Largest share of a trial for which the generator's busiest worker was on a CPU.
    pub generator_utilisation: Option<f64>,
}

/// Largest memory of the gateway's processes in any trial, bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Memory {
    /// Sum of resident sets.
    pub gateway_rss_bytes_max: Option<u64>,
    /// Sum of proportional sets.
    pub gateway_pss_bytes_max: Option<u64>,
}

/// The upstream's count, set against what the generator sent in its whole life.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ledger {
    /// Upstream requests per request sent.
    pub requests_per_request: Option<f64>,
    /// Upstream connections per request sent; absent if the ledger counts none.
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

/// What one target of several saw, over all good trials of a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Share of the requests that the plan gives it, 0 to 1.
    pub share: f64,
    /// Requests that were due and given to a connection.
    pub scheduled: u64,
    /// Whole answers.
    pub completed: u64,
    /// Of those, successes.
    pub ok: u64,
    /// Failures of every kind.
    pub failed: u64,
    /// Completed − scheduled.
    pub response_time: Latency,
    /// Completed − sent.
    pub service_time: Latency,
    /// Response time added to direct's of the same target at the median, µs; absent for direct.
    pub added_p50: Option<Difference>,
    /// At the 99th percentile, µs.
    pub added_p99: Option<Difference>,
}

/// The way there and the way back, µs. The upstream's own time belongs to neither.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Path {
    /// Received by the upstream − sent, at the median.
    pub request_us_p50: Option<Estimate>,
    /// Completed − replied by the upstream, at the median.
    pub response_us_p50: Option<Estimate>,
    /// What the gateway adds on the way there, at the median; absent for direct.
    pub added_request_us_p50: Option<Difference>,
    /// What the gateway adds on the way back, at the median; absent for direct.
    pub added_response_us_p50: Option<Difference>,
    /// Responses behind it.
    pub responses: u64,
}

/// A case as its quiet windows tell it. The figures are those of all windows if none of the load point was left out, and
/// absent if no trial has enough quiet windows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Quiet {
    /// Windows of the trials that recorded steal.
    pub windows: u64,
    /// Of these, left out.
    pub left_out: u64,
    /// The share of the two.
    pub share_left_out: f64,
    /// Trials behind the figures: those with enough quiet windows.
    pub trials: u32,
    /// Trials with too few quiet windows, which are in no quiet figure.
    pub trials_left_out: u32,
    /// Completed requests over quiet time.
    pub throughput: Option<Throughput>,
    /// Response times of what completed in quiet windows.
    pub response_time: Option<Latency>,
    /// CPU time of the gateway per request completed, over the quiet windows of all trials, µs.
    pub cpu_us_per_request: Option<f64>,
    /// The tax, against direct's quiet windows; absent for direct. Extra upstream requests are not known by window: they are
    /// those of the whole trials.
    pub tax: Option<Tax>,
}

/// One event of a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// The action, with its settings.
    pub event: String,
    /// When, s from the beginning of the measured time, as planned.
    pub at_s: f64,
    /// Trials in which it was done.
    pub trials: u32,
    /// Why it was not done in the others, each reason once.
    pub failed: Vec<String>,
    /// How long it took to be done, µs.
    pub took_us: Option<Estimate>,
    /// Of `change-route`: time until the new route answered, µs.
    pub new_route_after_us: Option<Estimate>,
    /// The windows around it.
    pub around: Stretch,
    /// The windows of the same trials that belong to no event.
    pub quiet: Stretch,
}

/// What clients saw in some windows.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stretch {
    /// Time, s, of all trials together.
    pub seconds: f64,
    /// Requests answered.
    pub completed: u64,
    /// Of those, answers that were no success: what a gateway answers for an upstream that is not there, for example.
    pub not_ok: u64,
    /// Requests that got no whole answer.
    pub failed: u64,
    /// Why.
    pub causes: BTreeMap<Cause, u64>,
    /// Connections established in the place of others: the number dropped, if connections are kept alive.
    pub connections_opened: u64,
    /// 99th percentile of the response times, µs, to two digits.
    pub p99_us: Option<Estimate>,
    /// Longest response time, µs; it has no interval.
    pub slowest_us: Option<Estimate>,
}
