//! The load record: the output of the generator, one JSON document on standard output.
//!
//! The counts cover the requests that were scheduled in the measured time. They add up:
//! `scheduled = completed + timeouts + connect_errors + resets + bad_responses + unsent + in_flight`.

use crate::histogram::Encoded;
use crate::messages::MessagesRecord;
use crate::moments::Moments;
use crate::stamp::ClockId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the format of [`LoadRecord`].
pub const RECORD_SCHEMA: u32 = 1;

/// Length of a window: 100 ms.
pub const WINDOW_NS: u64 = 100 * crate::clock::MILLISECOND;

/// Name of the event loop in records and summaries.
pub const EVENT_LOOP: &str = "epoll";

/// Results of one generator in one trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// Version of this format: [`RECORD_SCHEMA`].
    pub schema: u32,
    /// Event loop that was used: [`EVENT_LOOP`], or `io_uring` in records of older versions.
    pub event_loop: String,
    /// Number of worker threads.
    pub workers: u32,
    /// Start of the measured time in Unix nanoseconds, for display.
    pub started_unix_ns: u64,
    /// Start of the measured time on the clock of [`crate::clock::now`]. It is used to align windows with
    /// samples of other processes.
    pub started_ns: u64,
    /// Length of the measured time, nanoseconds. It is shorter than requested if the trial was interrupted.
    pub measured_ns: u64,
    /// True if a signal ended the trial early.
    pub interrupted: bool,
    /// True if the load ended early because every request failed ([`crate::spec::LoadSpec::gives_up`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gave_up: bool,
    /// Outcomes of the requests scheduled in the measured time.
    pub counts: Counts,
    /// Number of requests that completed inside the measured time, no matter when they were scheduled.
    /// Throughput is this number divided by `measured_ns`.
    pub completed_in_time: u64,
    /// Totals over the whole life of the generator, including warm-up and drain. They are compared with the
    /// totals in the upstream's ledger.
    pub lifetime: Lifetime,
    /// Numbers of connections.
    pub connections: Connections,
    /// What the connections saw of HTTP/2. Absent if the load uses HTTP/1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http2: Option<Http2Tally>,
    /// Messages of calls with streams. Absent if the load has no such call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessagesRecord>,
    /// How the connections were used. Absent in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<Occupancy>,
    /// Where the first redirect pointed to, without its query. Absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirected_to: Option<String>,
    /// Bytes of the requests completed inside the measured time.
    pub bytes: Bytes,
    /// Latency histograms, nanoseconds.
    pub histograms: Histograms,
    /// Results of each target, in the order of the spec. Empty if there is only one target.
    #[serde(default)]
    pub targets: Vec<TargetRecord>,
    /// Counts of TLS handshakes. Absent if the load does not use TLS.
    #[serde(default)]
    pub tls: Option<TlsTally>,
    /// Counts of the upstream's timestamps. Absent if the load did not request timestamps.
    #[serde(default)]
    pub stamps: Option<StampTally>,
    /// The moments of single requests. Absent if the load did not ask for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moments: Option<Moments>,
    /// CPU time of the generator during the measured time.
    pub cpu: GeneratorCpu,
    /// Maximum resident set of the generator, bytes.
    pub rss_bytes_max: u64,
    /// Windows, without gaps, beginning with the measured time. Empty if windows were not requested. Their
    /// length is [`WINDOW_NS`], unless the spec sets another one.
    pub windows: Vec<Window>,
}

/// Numbers of requests by outcome. Each scheduled request has exactly one outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that were due.
    pub scheduled: u64,
    /// Requests that were sent: at least their first byte was passed to the kernel.
    pub sent: u64,
    /// Requests that were sent again, on a new connection ([`crate::spec::Retry`]). A retry is not an
    /// outcome: the request counts once in `sent` and has the outcome of its second attempt. Older versions
    /// sent no request again.
    #[serde(default)]
    pub retried: u64,
    /// Requests with a complete, well-formed response, no matter which status it has.
    pub completed: u64,
    /// Completed requests whose stream the client ended: with the measured time
    /// ([`crate::messages::ENDLESS`]), or on purpose ([`crate::llm::Leave`]). They have no response time. The
    /// status is 0 if the client left before the head of the response.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ended_by_client: u64,
    /// Completed requests with a response that passes the target's checks. Without checks, the status must be
    /// 200 to 399.
    pub ok: u64,
    /// Completed requests by status code.
    pub status: BTreeMap<u16, u64>,
    /// Completed gRPC calls by the name of their status. A response without a status is mapped from HTTP
    /// ([`crate::grpc::status_of`]). Empty without gRPC.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grpc: BTreeMap<String, u64>,
    /// Completed gRPC calls whose response had the status 200, but no status of the call: its trailers were
    /// lost. They count as UNKNOWN in `grpc`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub trailers_lost: u64,
    /// Completed requests with a response that failed a check, by a description of the first failed check.
    /// The sum is `completed` − `ok`. If the target has no check of the status, a status outside 200 to 399
    /// counts as a failed check. Each check has at most nine descriptions.
    #[serde(default)]
    pub failed_checks: BTreeMap<String, u64>,
    /// Requests that were given up after a timeout: while connecting, waiting for the response or reading it.
    pub timeouts: u64,
    /// Requests that were not sent because no connection could be opened for them.
    pub connect_errors: u64,
    /// Requests without a complete response, because their connection ended first.
    pub resets: u64,
    /// Requests with a response that was not valid HTTP.
    pub bad_responses: u64,
    /// Requests that were due, but were not sent before the trial ended.
    pub unsent: u64,
    /// Requests that were sent, but had no outcome when the trial ended. This happens because an interrupted
    /// trial does not wait for outstanding responses.
    pub in_flight: u64,
    /// Causes of failed requests. Each request in `timeouts`, `connect_errors`, `resets` and `bad_responses`
    /// has one cause.
    #[serde(default)]
    pub causes: BTreeMap<Cause, u64>,
    /// Error messages, with the number of times that each occurred. Only the first distinct messages are
    /// listed. All further messages are counted together.
    pub errors: BTreeMap<String, u64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// True if a status asks the client to request another address (RFC 9110, section 15.4). 300 and 304 do not.
#[inline]
pub fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Totals over the whole life of the generator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifetime {
    /// Number of requests sent. A request that was sent again counts once.
    pub sent: u64,
    /// Number of responses completed.
    pub completed: u64,
    /// Number of connections opened.
    pub opened: u64,
}

/// Numbers of connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Number of connections requested.
    pub asked: u64,
    /// Number of connections that were established when traffic began.
    pub established: u64,
    /// Number of connections opened inside the measured time.
    pub opened: u64,
    /// Number of requests of the measured time that were sent on a connection that had already carried
    /// another request.
    pub reused: u64,
    /// Number of connections that the peer closed inside the measured time, or announced to close, although
    /// the generator had not asked the peer to do so.
    pub closed_by_peer: u64,
    /// Number of connections of `closed_by_peer` that the peer closed or reset after exactly one response,
    /// without announcing this in the response. Zero in records of older versions, which did not count them.
    #[serde(default)]
    pub closed_after_first: u64,
    /// Number of requests of the measured time whose reused connection the peer closed or reset before the
    /// first byte of the response. Each of these requests was sent again or failed. Zero in records of older
    /// versions.
    #[serde(default)]
    pub closed_on_reuse: u64,
    /// Number of connections that the generator closed because bytes arrived when no request was outstanding.
    /// This count covers the generator's whole life. If a server sends bytes without a request, it may also
    /// answer requests too early, before it has received them.
    #[serde(default)]
    pub unasked: u64,
}

/// Counts of HTTP/2 over the generator's whole life, except where noted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http2Tally {
    /// Smallest number of concurrent streams that a server allowed (SETTINGS_MAX_CONCURRENT_STREAMS). Absent
    /// if no server stated a limit.
    pub stream_limit: Option<u32>,
    /// Largest number of streams that were open on one connection at the same time.
    pub most_streams: u32,
    /// Number of GOAWAY frames that arrived.
    pub goaways: u64,
    /// Number of GOAWAY frames with the code ENHANCE_YOUR_CALM: the server believes that the generator
    /// attacks it.
    pub calmed: u64,
    /// Number of streams that servers reset, also those that were then sent again.
    pub resets: u64,
    /// Number of streams that servers reset with REFUSED_STREAM.
    pub refused: u64,
    /// Number of requests that the server had not processed, because of GOAWAY or REFUSED_STREAM, and that
    /// were sent again. Only requests of the measured time. They are a part of [`Counts::retried`].
    pub unprocessed: u64,
    /// Time in which requests of the measured time could not send their body because a flow-control window
    /// was empty, nanoseconds.
    pub window_stalled_ns: u64,
    /// Time in which requests of the measured time were in flight, summed over the streams, nanoseconds.
    pub stream_ns: u64,
    /// Number of responses to requests of the measured time that ended after the response to a later request
    /// of the same connection. Zero if a server answers the requests of a connection in their order.
    #[serde(default)]
    pub overtaken: u64,
}

/// How the connections were used. One connection here is one of the connections that the load requests. If it
/// ends, its counts continue with the connection that replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Responses to requests of the measured time on each connection, as a histogram of counts.
    pub responses: Encoded,
    /// Number of connections that had a request, but got no response.
    pub unanswered: u64,
    /// Time in which a request was in flight, summed over the connections, inside the measured time,
    /// nanoseconds.
    pub busy_ns: u64,
    /// Number of requests of the measured time that were due while no connection was free (open loop).
    pub waited: u64,
    /// The longest time inside the measured time in which requests were in flight, no response ended and no
    /// message of a stream arrived.
    pub silence: Silence,
    /// The longest turn of a worker's event loop in the measured time, nanoseconds. A worker sleeps for at
    /// most 50 ms, so a longer turn means that it did not run, or had too much to do.
    pub longest_turn_ns: u64,
}

/// A time in which no response ended and no message of a stream arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// Time from the start of the measured time to the start of the silence, nanoseconds.
    pub at_ns: u64,
    /// Length of the silence, nanoseconds.
    pub for_ns: u64,
}

/// Numbers of HTTP bytes, including heads. With TLS, bytes are counted before encryption and after
/// decryption.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// Bytes of requests, including heads.
    pub sent: u64,
    /// Bytes of responses, including heads.
    pub received: u64,
    /// Bytes of response bodies.
    pub body: u64,
}

/// Histograms of a trial. A timeout counts in `response_time` and `service_time`. Its value is the time until
/// the request was given up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histograms {
    /// Completed − scheduled: the time that a user would wait.
    pub response_time: Encoded,
    /// Completed − actually sent.
    pub service_time: Encoded,
    /// Actually sent − scheduled.
    pub send_lag: Encoded,
    /// The part of `send_lag` in which the request waited for a connection. Absent for HTTP/1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_wait: Option<Encoded>,
    /// The part of `send_lag` in which the request had a connection and waited for a stream, because the
    /// server allows fewer streams than the load. Absent for HTTP/1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_wait: Option<Encoded>,
    /// Time from the sending of a request's head until the flow-control window had room for its whole body.
    /// Absent for HTTP/1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_wait: Option<Encoded>,
    /// First response byte − actually sent.
    pub first_byte: Encoded,
    /// Connection established − connect started, without TLS. Includes all connections of the generator's
    /// life.
    pub connect: Encoded,
    /// TLS handshake done − connection established. Includes all connections of the generator's life. Absent
    /// if the load does not use TLS.
    #[serde(default)]
    pub tls_handshake: Option<Encoded>,
    /// Received by the upstream − sent, for responses that carry the upstream's timestamps. Absent if the
    /// load did not request timestamps.
    #[serde(default)]
    pub request_path: Option<Encoded>,
    /// Completed − replied by the upstream, for the same responses as `request_path`.
    #[serde(default)]
    pub response_path: Option<Encoded>,
}

/// Counts of the upstream's timestamps in responses to requests of the measured time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampTally {
    /// Number of responses with usable timestamps.
    pub used: u64,
    /// Number of responses without timestamps.
    pub missing: u64,
    /// Number of responses with unusable timestamps. The timestamps are not numbers, or they contradict the
    /// generator's clock: the request was received before it was sent, or the response was sent after it was
    /// complete.
    pub impossible: u64,
    /// The clock of the generator. Absent if the kernel does not report it.
    #[serde(default)]
    pub clock: Option<ClockId>,
}

/// Counts of TLS handshakes over the generator's whole life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsTally {
    /// Number of completed handshakes.
    pub handshakes: u64,
    /// Number of handshakes that resumed an earlier session.
    pub resumed: u64,
    /// Number of handshakes by protocol version, for example `TLSv1.3`.
    pub versions: BTreeMap<String, u64>,
    /// Number of handshakes by cipher suite, for example `TLS13_AES_256_GCM_SHA384`.
    pub cipher_suites: BTreeMap<String, u64>,
    /// Number of handshakes by the protocol that ALPN selected, or `none` if ALPN selected no protocol.
    pub alpn: BTreeMap<String, u64>,
}

/// Results of one target. They cover the same requests as [`Counts`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetRecord {
    /// Name of the target.
    pub name: String,
    /// Number of requests that were due and assigned to a connection.
    pub scheduled: u64,
    /// Number of complete responses.
    pub completed: u64,
    /// Number of completed responses that pass all checks.
    pub ok: u64,
    /// Number of failed requests, with any cause.
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
    /// The connection was not established within the connect timeout.
    ConnectTimeout,
    /// The peer answered the connect with a reset.
    ConnectReset,
    /// No route to the address.
    Unreachable,
    /// All ports from the source to the address are in use.
    PortsExhausted,
    /// The process or the machine has no free descriptor, or not enough memory, for another socket.
    DescriptorsExhausted,
    /// The connect failed with another error.
    ConnectFailed,
    /// The forward proxy did not open the tunnel (CONNECT).
    ProxyRefused,
    /// The TLS handshake did not complete within the connect timeout.
    TlsTimeout,
    /// The server's certificate was not accepted.
    TlsCertificate,
    /// The server refused the connection with an alert before its first response, or client and server have
    /// no TLS parameters in common.
    TlsRefused,
    /// The connection ended during the TLS handshake.
    TlsClosed,
    /// The server sent something that is not valid TLS.
    TlsMalformed,
    /// No byte of the response arrived within the first-byte timeout.
    FirstByteTimeout,
    /// No byte of the response arrived within the total timeout.
    ResponseTimeout,
    /// The response began, but was not complete within the total timeout.
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
    /// The server does not speak HTTP/2 on this connection.
    NotHttp2,
    /// The server allowed no stream for the request within the total timeout.
    NoStream,
    /// The server refused the stream (REFUSED_STREAM), also when the request was sent again.
    StreamRefused,
    /// The server reset the stream.
    StreamReset,
    /// The server closed the connection (GOAWAY) without processing the request, also when the request was
    /// sent again.
    GoawayUnprocessed,
    /// The server takes no WebSockets over HTTP/2 (RFC 8441).
    NoWebSockets,
    /// A WebSocket ended without a close frame, after its handshake.
    TunnelCut,
    /// The server closed a WebSocket with a status code that is not 1000 (normal) or 1001 (going away).
    TunnelClosed,
    /// The response of a language model was whole, but did not announce the end of its stream of tokens.
    StreamUnended,
    /// The server reported an error within a stream of tokens.
    StreamError,
}

impl Cause {
    /// Returns the kind of failure: the field of [`Counts`] that counts requests with this cause.
    pub fn kind(self) -> FailureKind {
        use Cause as C;
        match self {
            C::ConnectTimeout
            | C::TlsTimeout
            | C::FirstByteTimeout
            | C::ResponseTimeout
            | C::ReadTimeout
            | C::NoStream => FailureKind::Timeout,
            C::ConnectRefused
            | C::ConnectReset
            | C::Unreachable
            | C::PortsExhausted
            | C::DescriptorsExhausted
            | C::ConnectFailed
            | C::ProxyRefused
            | C::TlsCertificate
            | C::TlsRefused
            | C::TlsClosed
            | C::NotHttp2
            | C::NoWebSockets => FailureKind::Connect,
            C::ResetBeforeResponse
            | C::ResetInResponse
            | C::ClosedBeforeResponse
            | C::ClosedInResponse
            | C::StreamRefused
            | C::StreamReset
            | C::GoawayUnprocessed
            | C::TunnelCut
            | C::TunnelClosed => FailureKind::Reset,
            C::MalformedResponse | C::TlsMalformed | C::StreamUnended | C::StreamError => {
                FailureKind::BadResponse
            }
        }
    }
}

/// The four kinds of failure. Each is counted in its own field of [`Counts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Counted in `timeouts`.
    Timeout,
    /// Counted in `connect_errors`.
    Connect,
    /// Counted in `resets`.
    Reset,
    /// Counted in `bad_responses`.
    BadResponse,
}

/// CPU time of the generator during the measured time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratorCpu {
    /// CPU time of all threads, nanoseconds.
    pub used_ns: u64,
    /// CPU time of the busiest worker, nanoseconds. If this time reaches `measured_ns`, the generator was the
    /// bottleneck.
    pub busiest_worker_ns: u64,
}

/// Results of one window of a trial (100 ms).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Number of requests sent.
    pub sent: u64,
    /// Number of responses completed.
    pub completed: u64,
    /// Number of completed responses that pass all checks.
    pub ok: u64,
    /// Number of timeouts.
    pub timeouts: u64,
    /// Number of failures that are not timeouts.
    pub errors: u64,
    /// Causes of failures. Each failure in `timeouts` and `errors` has one cause.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub causes: BTreeMap<Cause, u64>,
    /// Number of connections established. If the load uses keep-alive, these connections replace connections
    /// that have ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub opened: u64,
    /// Response times of the window's responses and timeouts, with two significant digits. Absent if there
    /// were none.
    pub response_time: Option<Encoded>,
}

/// A line that the generator writes to standard error when a phase begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseLine {
    /// The phase that begins.
    pub phase: Phase,
    /// Start of the phase, on [`crate::clock::now`].
    pub at_ns: u64,
}

/// A line that the generator writes to standard error for each second of the measured time, with the sums of
/// all workers. It is written only on request, and is meant for display: the record contains the exact
/// figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondLine {
    /// Number of the second, from 0.
    pub second: u64,
    /// Length of this second, nanoseconds. It is shorter than a second if the measured time ends within it.
    pub length_ns: u64,
    /// Number of requests sent.
    pub sent: u64,
    /// Number of responses completed.
    pub completed: u64,
    /// Number of completed responses that pass all checks.
    pub ok: u64,
    /// Number of timeouts, of errors, and of responses that failed a check, together.
    pub failed: u64,
    /// Median response time, nanoseconds. Absent if there were no responses and no timeouts.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the response time, nanoseconds. Absent if there were no responses and no timeouts.
    pub p99_ns: Option<u64>,
    /// Response times. Present only for parts of a load, which are added up later: percentiles cannot be
    /// added up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_time: Option<Encoded>,
}

/// Phases of a generator's life, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The generator opens its connections, at a limited pace.
    Connecting,
    /// All connections are open. The generator waits for the other generators of the load. Only parts of a
    /// load ([`crate::spec::LoadPart`]) have this phase.
    Connected,
    /// Requests are sent, but their results are discarded.
    Warmup,
    /// The measured time.
    Measuring,
    /// No new requests are sent. The generator waits for outstanding responses, at most until their timeouts.
    Draining,
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "digits per window of {}. **Several" time(WINDOW_NS);
}

#[cfg(test)]
mod tests {
    use super::is_redirect;

    #[test]
    fn some_statuses_of_300_to_399_are_redirects() {
        assert_eq!([200, 301, 304, 308, 404].map(is_redirect), [false, true, false, true, false]);
    }
}
