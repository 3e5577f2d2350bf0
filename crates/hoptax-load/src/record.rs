//! The load record: the generator's output, one JSON document on standard output.
//!
//! Counts cover the requests scheduled in the measured time, and add up: `scheduled = completed + timeouts +
//! connect_errors + resets + bad_responses + unsent + in_flight`.

use crate::histogram::Encoded;
use crate::stamp::ClockId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of [`LoadRecord`].
pub const RECORD_SCHEMA: u32 = 1;

/// Length of a window: 100 ms.
pub const WINDOW_NS: u64 = 100 * crate::clock::MILLISECOND;

/// Name of the event loop in records and summaries.
pub const EVENT_LOOP: &str = "epoll";

/// Results of one generator in one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// [`RECORD_SCHEMA`].
    pub schema: u32,
    /// Event loop used: [`EVENT_LOOP`]; older versions could also use `io_uring`.
    pub event_loop: String,
    /// Threads used.
    pub workers: u32,
    /// Start of the measured time, Unix nanoseconds, to be shown to people.
    pub started_unix_ns: u64,
    /// Start of the measured time on [`crate::clock::now`], used to align windows with samples of other processes.
    pub started_ns: u64,
    /// Length of the measured time, nanoseconds; shorter than requested if interrupted.
    pub measured_ns: u64,
    /// True if a signal ended the trial early.
    pub interrupted: bool,
    /// Outcomes of the requests scheduled in the measured time.
    pub counts: Counts,
    /// Requests that completed inside the measured time, no matter when they were scheduled. Throughput is this
    /// number divided by `measured_ns`.
    pub completed_in_time: u64,
    /// Totals over the whole life of the generator, including warm-up and drain. They are compared with the
    /// upstream's ledger.
    pub lifetime: Lifetime,
    /// Counts of connections.
    pub connections: Connections,
    /// Bytes of the requests completed inside the measured time.
    pub bytes: Bytes,
    /// Latency histograms, nanoseconds.
    pub histograms: Histograms,
    /// Results per target, in the spec's order; empty if there is only one target.
    #[serde(default)]
    pub targets: Vec<TargetRecord>,
    /// TLS handshakes; absent without TLS.
    #[serde(default)]
    pub tls: Option<TlsTally>,
    /// Use of the upstream's timestamps; absent if they were not requested.
    #[serde(default)]
    pub stamps: Option<StampTally>,
    /// CPU time of the generator during the measured time.
    pub cpu: GeneratorCpu,
    /// Largest resident set of the generator, bytes.
    pub rss_bytes_max: u64,
    /// Windows of [`WINDOW_NS`] from the start of the measured time, without gaps; empty if not requested.
    pub windows: Vec<Window>,
}

/// Outcomes of requests; each scheduled request has exactly one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that were due.
    pub scheduled: u64,
    /// Requests whose first byte was handed to the kernel.
    pub sent: u64,
    /// Complete, well-formed responses with any status.
    pub completed: u64,
    /// Completed responses that pass the target's checks. Without checks, responses with status 200 to 399 count.
    pub ok: u64,
    /// Completed responses by status code.
    pub status: BTreeMap<u16, u64>,
    /// Completed responses that failed a check, by a description of the first failed check. The sum is `completed` −
    /// `ok`. If no check is about the status, this includes statuses outside 200 to 399. At most nine descriptions
    /// per check.
    #[serde(default)]
    pub failed_checks: BTreeMap<String, u64>,
    /// Requests that were given up after a timeout, while connecting, waiting or reading.
    pub timeouts: u64,
    /// Requests for which no connection could be opened.
    pub connect_errors: u64,
    /// Requests whose connection ended before the response did.
    pub resets: u64,
    /// Requests whose response was not valid HTTP.
    pub bad_responses: u64,
    /// Requests that were due, but had not been sent when the trial ended.
    pub unsent: u64,
    /// Requests that were sent, but had no outcome when the trial ended (an interrupted trial does not wait for
    /// them).
    pub in_flight: u64,
    /// Causes of failures. Each failure in `timeouts`, `connect_errors`, `resets` and `bad_responses` has one cause.
    #[serde(default)]
    pub causes: BTreeMap<Cause, u64>,
    /// The first distinct error messages, with their counts.
    pub errors: BTreeMap<String, u64>,
}

/// Totals over the generator's whole life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifetime {
    /// Requests sent.
    pub sent: u64,
    /// Responses completed.
    pub completed: u64,
    /// Connections opened.
    pub opened: u64,
}

/// Numbers of connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Connections requested.
    pub asked: u64,
    /// Connections established when traffic began.
    pub established: u64,
    /// Connections opened inside the measured time.
    pub opened: u64,
    /// Requests of the measured time sent on a connection that had already carried one.
    pub reused: u64,
    /// Connections that the peer closed inside the measured time, or announced to close, without being asked to.
    pub closed_by_peer: u64,
    /// Connections that we closed, over the whole life, because bytes arrived on them without a request. A server
    /// that sends such data may also have answered requests before it received them.
    #[serde(default)]
    pub unasked: u64,
}

/// HTTP bytes, including heads. With TLS, they are counted before encryption and after decryption.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// Bytes of requests.
    pub sent: u64,
    /// Bytes of responses.
    pub received: u64,
    /// Bytes of response bodies.
    pub body: u64,
}

/// The trial's histograms. A timeout counts in `response_time` and `service_time`, with the time until the request
/// was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histograms {
    /// Completed − scheduled: the time that a user waits.
    pub response_time: Encoded,
    /// Completed − actually sent.
    pub service_time: Encoded,
    /// Actually sent − scheduled.
    pub send_lag: Encoded,
    /// First response byte − actually sent.
    pub first_byte: Encoded,
    /// Connection established − connect started, without TLS, for all connections of the generator's life.
    pub connect: Encoded,
    /// TLS handshake done − connection established, for all connections of the generator's life; absent without TLS.
    #[serde(default)]
    pub tls_handshake: Option<Encoded>,
    /// Received by the upstream − sent, for responses with the upstream's timestamps; absent if they were not requested.
    #[serde(default)]
    pub request_path: Option<Encoded>,
    /// Completed − replied by the upstream, for the same responses.
    #[serde(default)]
    pub response_path: Option<Encoded>,
}

/// Use of the upstream's timestamps in responses to requests of the measured time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampTally {
    /// Responses with usable timestamps.
    pub used: u64,
    /// Responses without timestamps.
    pub missing: u64,
    /// Responses whose timestamps are not numbers or contradict the generator's clock: the request was received
    /// before it was sent, or the response was sent after it was complete.
    pub impossible: u64,
    /// The generator's clock; absent if the kernel does not report it.
    #[serde(default)]
    pub clock: Option<ClockId>,
}

/// TLS handshakes over the generator's whole life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsTally {
    /// Completed handshakes.
    pub handshakes: u64,
    /// Handshakes that resumed an earlier session.
    pub resumed: u64,
    /// Handshakes by protocol version, for instance `TLSv1.3`.
    pub versions: BTreeMap<String, u64>,
    /// Handshakes by cipher suite, for instance `TLS13_AES_256_GCM_SHA384`.
    pub cipher_suites: BTreeMap<String, u64>,
    /// Handshakes by the protocol that ALPN selected; `none` without one.
    pub alpn: BTreeMap<String, u64>,
}

/// Results of one target, for the same requests as [`Counts`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetRecord {
    /// Name of the target.
    pub name: String,
    /// Requests that were due and assigned to a connection.
    pub scheduled: u64,
    /// Complete responses.
    pub completed: u64,
    /// Completed responses that pass all checks.
    pub ok: u64,
    /// Failures of all kinds.
    pub failed: u64,
    /// Response times, as in [`Histograms`].
    pub response_time: Encoded,
    /// Service times, as in [`Histograms`].
    pub service_time: Encoded,
}

/// Cause of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Nothing listens on the address.
    ConnectRefused,
    /// No connection within the connect timeout.
    ConnectTimeout,
    /// The connect was answered by a reset.
    ConnectReset,
    /// No route to the address.
    Unreachable,
    /// All ports from the source to the address are in use.
    PortsExhausted,
    /// The process or the machine lacks a descriptor or memory for another socket.
    DescriptorsExhausted,
    /// Another error of the connect.
    ConnectFailed,
    /// The TLS handshake did not complete within the connect timeout.
    TlsTimeout,
    /// The server's certificate is not acceptable.
    TlsCertificate,
    /// The server refused the connection with an alert before its first response, or there are no common parameters.
    TlsRefused,
    /// The connection ended during the TLS handshake.
    TlsClosed,
    /// The server sent something that is not valid TLS.
    TlsMalformed,
    /// No byte of the response within the first-byte timeout.
    FirstByteTimeout,
    /// No byte of the response within the total timeout.
    ResponseTimeout,
    /// The response began, but did not complete within the total timeout.
    ReadTimeout,
    /// The connection was reset before the first byte of the response.
    ResetBeforeResponse,
    /// The connection was reset in the middle of the response.
    ResetInResponse,
    /// The connection was closed before the first byte of the response.
    ClosedBeforeResponse,
    /// The connection was closed in the middle of the response.
    ClosedInResponse,
    /// The server sent something that is not a valid HTTP response.
    MalformedResponse,
}

impl Cause {
    /// The field of [`Counts`] that counts failures with this cause.
    pub fn kind(self) -> FailureKind {
        use Cause as C;
        match self {
            C::ConnectTimeout | C::TlsTimeout | C::FirstByteTimeout | C::ResponseTimeout | C::ReadTimeout => {
                FailureKind::Timeout
            }
            C::ConnectRefused
            | C::ConnectReset
            | C::Unreachable
            | C::PortsExhausted
            | C::DescriptorsExhausted
            | C::ConnectFailed
            | C::TlsCertificate
            | C::TlsRefused
            | C::TlsClosed => FailureKind::Connect,
            C::ResetBeforeResponse | C::ResetInResponse | C::ClosedBeforeResponse | C::ClosedInResponse => {
                FailureKind::Reset
            }
            C::MalformedResponse | C::TlsMalformed => FailureKind::BadResponse,
        }
    }
}

/// The four kinds of failure in [`Counts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// `timeouts`.
    Timeout,
    /// `connect_errors`.
    Connect,
    /// `resets`.
    Reset,
    /// `bad_responses`.
    BadResponse,
}

/// CPU time of the generator during the measured time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratorCpu {
    /// CPU time of all threads, nanoseconds.
    pub used_ns: u64,
    /// CPU time of the busiest worker, nanoseconds. If it reaches `measured_ns`, the generator was the bottleneck.
    pub busiest_worker_ns: u64,
}

/// 100 ms of a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Requests sent.
    pub sent: u64,
    /// Responses completed.
    pub completed: u64,
    /// Completed responses that pass all checks.
    pub ok: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Failures of all other kinds.
    pub errors: u64,
    /// Causes of failures. Each failure in `timeouts` and `errors` has one cause.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub causes: BTreeMap<Cause, u64>,
    /// Connections established. With keep-alive, they replace connections that ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub opened: u64,
    /// Response times of responses and timeouts in the window (two significant digits); absent if there were none.
    pub response_time: Option<Encoded>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Progress of a running generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A phase begins.
    Phase(PhaseLine),
    /// Window `index` (from 0) of the measured time has ended in one worker. Reported only with
    /// [`crate::Watch::Windows`]; the receiver sums over the workers.
    Window {
        /// Index of the window.
        index: u64,
        /// This worker's part of the window.
        window: Window,
    },
}

/// A line on the generator's standard error when a phase begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseLine {
    /// The phase that begins.
    pub phase: Phase,
    /// Start of the phase, on [`crate::clock::now`].
    pub at_ns: u64,
}

/// A line on the generator's standard error for each second of the measured time, over all workers. It is written
/// only if progress is being watched, and only for display: the record contains the exact figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondLine {
    /// Number of the second, from 0.
    pub second: u64,
    /// Its length, nanoseconds: less than a second if the measured time ends in it.
    pub length_ns: u64,
    /// Requests sent.
    pub sent: u64,
    /// Responses completed.
    pub completed: u64,
    /// Completed responses that pass all checks.
    pub ok: u64,
    /// Timeouts, errors, and responses that failed a check.
    pub failed: u64,
    /// Median response time, nanoseconds; absent without responses and timeouts.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the response time, nanoseconds.
    pub p99_ns: Option<u64>,
}

/// Phases of a generator's life, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Connections are being opened, at a limited pace.
    Connecting,
    /// Traffic whose results are discarded.
    Warmup,
    /// The measured time.
    Measuring,
    /// No new requests are sent. Outstanding requests are waited for, at most until their timeouts.
    Draining,
}
