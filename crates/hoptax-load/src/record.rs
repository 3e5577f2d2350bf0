//! What the generator answers: the load record, one JSON document on its standard output.
//!
//! Counts speak of the requests whose scheduled moment lies in the measured time, and add up:
//! `scheduled = completed + timeouts + connect_errors + resets + bad_responses + unsent + in_flight`.

use crate::histogram::Encoded;
use crate::stamp::ClockId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of [`LoadRecord`].
pub const RECORD_SCHEMA: u32 = 1;

/// Length of a window: 100 ms.
pub const WINDOW_NS: u64 = 100 * crate::clock::MILLISECOND;

/// The event loop, as records and summaries name it.
pub const EVENT_LOOP: &str = "epoll";

/// What one generator saw during one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// [`RECORD_SCHEMA`].
    pub schema: u32,
    /// Event loop used: [`EVENT_LOOP`]; older versions also wrote `io_uring`.
    pub event_loop: String,
    /// Threads used.
    pub workers: u32,
    /// Start of the measured time, Unix nanoseconds: for people.
    pub started_unix_ns: u64,
    /// Start of the measured time on [`crate::clock::now`]: for laying windows beside other processes' samples.
    pub started_ns: u64,
    /// Length of the measured time; shorter than asked when interrupted.
    pub measured_ns: u64,
    /// Whether a signal ended the trial early.
    pub interrupted: bool,
    /// Outcomes of the requests scheduled in the measured time.
    pub counts: Counts,
    /// Requests that completed inside the measured time, whenever they were scheduled: throughput is this over
    /// `measured_ns`.
    pub completed_in_time: u64,
    /// The whole life of the generator, warm-up and drain included: what the upstream's ledger is compared with.
    pub lifetime: Lifetime,
    /// Connections.
    pub connections: Connections,
    /// Bytes of the requests completed in the measured time.
    pub bytes: Bytes,
    /// Latency histograms in nanoseconds.
    pub histograms: Histograms,
    /// The targets one by one, in the spec's order, where there are several.
    #[serde(default)]
    pub targets: Vec<TargetRecord>,
    /// TLS handshakes; absent without TLS.
    #[serde(default)]
    pub tls: Option<TlsTally>,
    /// The upstream's stamps; absent where none was asked for.
    #[serde(default)]
    pub stamps: Option<StampTally>,
    /// The generator's own cost over the measured time.
    pub cpu: GeneratorCpu,
    /// Largest resident set of the generator, bytes.
    pub rss_bytes_max: u64,
    /// Windows of [`WINDOW_NS`] from the start of the measured time, none left out; empty when not asked for.
    pub windows: Vec<Window>,
}

/// Outcomes; each scheduled request has exactly one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that were due.
    pub scheduled: u64,
    /// Requests whose first byte was handed to the kernel.
    pub sent: u64,
    /// Whole, well-formed responses, whatever their status.
    pub completed: u64,
    /// Completed, and a success by the target's checks: without any, by a status of 200 to 399.
    pub ok: u64,
    /// Completed by status code.
    pub status: BTreeMap<u16, u64>,
    /// Completed responses that failed a check, by the first check that they failed, in words: `completed` less `ok`, as that
    /// the status is 200 to 399 is a check too where no other is about the status. For each check at most nine texts.
    #[serde(default)]
    pub failed_checks: BTreeMap<String, u64>,
    /// Given up after the timeout: while connecting, waiting or reading.
    pub timeouts: u64,
    /// No connection could be made.
    pub connect_errors: u64,
    /// The connection ended before the response did.
    pub resets: u64,
    /// What came back was not HTTP, or contradicted itself.
    pub bad_responses: u64,
    /// Due, but still in line when the trial ended.
    pub unsent: u64,
    /// Sent, without an outcome when the trial ended (an interrupted trial does not wait for them).
    pub in_flight: u64,
    /// Why requests failed: each of `timeouts`, `connect_errors`, `resets` and `bad_responses` has one cause.
    #[serde(default)]
    pub causes: BTreeMap<Cause, u64>,
    /// First few distinct errors in words, with how often each occurred.
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

/// What became of the connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Asked for.
    pub asked: u64,
    /// Standing when traffic began.
    pub established: u64,
    /// Opened inside the measured time.
    pub opened: u64,
    /// Requests of the measured time sent on a connection that had already carried one.
    pub reused: u64,
    /// Ended by the other side inside the measured time, or announced to be, without having been asked to.
    pub closed_by_peer: u64,
    /// Over the whole life: closed by us, as bytes came on them while no request was under way. A server that speaks unasked
    /// may also have answered requests before it had them.
    #[serde(default)]
    pub unasked: u64,
}

/// Bytes of HTTP, heads included; where there is TLS, before encryption and after decryption.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// Of requests.
    pub sent: u64,
    /// Of responses.
    pub received: u64,
    /// Of response bodies alone.
    pub body: u64,
}

/// The trial's histograms. A timeout is in `response_time` and `service_time` at the moment it was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histograms {
    /// Completed − scheduled: what a user feels.
    pub response_time: Encoded,
    /// Completed − actually sent.
    pub service_time: Encoded,
    /// Actually sent − scheduled.
    pub send_lag: Encoded,
    /// First response byte − actually sent.
    pub first_byte: Encoded,
    /// Connect started − connection established (TLS not counted), for connections of the whole life.
    pub connect: Encoded,
    /// Connection established − TLS handshake done, for connections of the whole life; absent without TLS.
    #[serde(default)]
    pub tls_handshake: Option<Encoded>,
    /// Upstream's receipt of the request − sent, of responses that carry the upstream's stamps; absent where none was asked
    /// for.
    #[serde(default)]
    pub request_path: Option<Encoded>,
    /// Completed − upstream's reply, of the same responses.
    #[serde(default)]
    pub response_path: Option<Encoded>,
}

/// What became of the upstream's stamps in the responses to the requests of the measured time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampTally {
    /// Responses whose stamps could be used.
    pub used: u64,
    /// Responses without stamps.
    pub missing: u64,
    /// Responses with stamps that are not numbers, or that contradict the generator's clock: received before the request was
    /// sent, or answered after the response was there.
    pub impossible: u64,
    /// The generator's clock; absent where the kernel does not tell.
    #[serde(default)]
    pub clock: Option<ClockId>,
}

/// TLS handshakes over the generator's whole life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsTally {
    /// Handshakes done.
    pub handshakes: u64,
    /// Of those, that resumed an earlier session.
    pub resumed: u64,
    /// Of those, by protocol version, e.g. `TLSv1.3`.
    pub versions: BTreeMap<String, u64>,
    /// Of those, by cipher suite, e.g. `TLS13_AES_256_GCM_SHA384`.
    pub cipher_suites: BTreeMap<String, u64>,
    /// Of those, by the protocol that ALPN agreed on; `none` where none was.
    pub alpn: BTreeMap<String, u64>,
}

/// What one target of several saw. Counts speak of the same requests as [`Counts`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetRecord {
    /// Its name.
    pub name: String,
    /// Requests that were due and given to a connection.
    pub scheduled: u64,
    /// Whole responses.
    pub completed: u64,
    /// Of those, successes.
    pub ok: u64,
    /// Failures of every kind.
    pub failed: u64,
    /// As in [`Histograms`].
    pub response_time: Encoded,
    /// As in [`Histograms`].
    pub service_time: Encoded,
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Nobody listens.
    ConnectRefused,
    /// No connection within the connect timeout.
    ConnectTimeout,
    /// The connect was answered by a reset.
    ConnectReset,
    /// There is no way to the address.
    Unreachable,
    /// All ports from the source to the address are in use.
    PortsExhausted,
    /// This process or the machine has no descriptor, or no memory, for another socket.
    DescriptorsExhausted,
    /// The connect failed otherwise.
    ConnectFailed,
    /// The TLS handshake was not done within the connect timeout.
    TlsTimeout,
    /// The server's certificate is not acceptable.
    TlsCertificate,
    /// The server refused the connection with an alert before it answered anything, or the two sides could not agree.
    TlsRefused,
    /// The connection ended within the TLS handshake.
    TlsClosed,
    /// What came was not TLS, or contradicted itself, in the handshake or after it.
    TlsMalformed,
    /// No byte of the response within the first-byte timeout.
    FirstByteTimeout,
    /// No whole response within the total timeout, and no byte of it either.
    ResponseTimeout,
    /// The response began, but was not whole within the total timeout.
    ReadTimeout,
    /// The connection was reset before the first byte of the response.
    ResetBeforeResponse,
    /// The connection was reset within the response.
    ResetInResponse,
    /// The connection was closed before the first byte of the response.
    ClosedBeforeResponse,
    /// The connection was closed within the response.
    ClosedInResponse,
    /// What came back was not a response, or contradicted itself.
    MalformedResponse,
}

impl Cause {
    /// Which of the [`Counts`] a failure of this cause is in.
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

/// The four kinds of failure that [`Counts`] tells apart.
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

/// The generator's own cost over the measured time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratorCpu {
    /// CPU time of all threads, nanoseconds.
    pub used_ns: u64,
    /// CPU time of the busiest worker, nanoseconds: at `measured_ns` the generator was the limit.
    pub busiest_worker_ns: u64,
}

/// 100 ms of a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Requests sent.
    pub sent: u64,
    /// Responses completed.
    pub completed: u64,
    /// Of those, successes.
    pub ok: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Errors of every other kind.
    pub errors: u64,
    /// Why: each of `timeouts` and `errors` has one cause.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub causes: BTreeMap<Cause, u64>,
    /// Connections established: within the measured time in the place of others, where connections are kept alive.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub opened: u64,
    /// Response times of what completed or timed out in the window (two significant digits); absent where nothing
    /// did.
    pub response_time: Option<Encoded>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What the generator tells while it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A phase begins.
    Phase(PhaseLine),
    /// One worker's window `index` (from 0) of the measured time has ended. Told only where [`crate::Watch::Windows`] is
    /// asked for; workers are added up by whoever listens.
    Window {
        /// Which window.
        index: u64,
        /// What one worker did in it.
        window: Window,
    },
}

/// A line that the generator writes to standard error as it passes from one phase to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseLine {
    /// The phase that begins.
    pub phase: Phase,
    /// When, on [`crate::clock::now`].
    pub at_ns: u64,
}

/// A line that a generator writes to standard error for each second of the measured time, where somebody watches: all
/// workers together. For eyes alone, as the record says all of it, and exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondLine {
    /// Which second, from 0.
    pub second: u64,
    /// Its length, nanoseconds: less than a second where the measured time ends within it.
    pub length_ns: u64,
    /// Requests sent.
    pub sent: u64,
    /// Responses completed.
    pub completed: u64,
    /// Of those, successes.
    pub ok: u64,
    /// Timeouts, errors, and responses that were no success.
    pub failed: u64,
    /// Median response time, nanoseconds; absent where nothing completed or timed out.
    pub p50_ns: Option<u64>,
    /// Its 99th percentile, nanoseconds.
    pub p99_ns: Option<u64>,
}

/// Phases of a generator's life, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Connections are being opened, paced.
    Connecting,
    /// Traffic that is thrown away.
    Warmup,
    /// The measured time.
    Measuring,
    /// Nothing new is scheduled; what is in flight is waited for, at most the timeout.
    Draining,
}
