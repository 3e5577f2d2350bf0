//! What the generator answers: the load record, one JSON document on its standard output.
//!
//! Counts speak of the requests whose scheduled moment lies in the measured time, and add up:
//! `scheduled = completed + timeouts + connect_errors + resets + bad_responses + unsent + in_flight`.

use crate::histogram::Encoded;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of [`LoadRecord`].
pub const RECORD_SCHEMA: u32 = 1;

/// Length of a window: 100 ms.
pub const WINDOW_NS: u64 = 100 * crate::clock::MILLISECOND;

/// What one generator saw during one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// [`RECORD_SCHEMA`].
    pub schema: u32,
    /// Event loop used: `epoll` or `io_uring`.
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
    /// Completed with a status of 200 to 399.
    pub ok: u64,
    /// Completed by status code.
    pub status: BTreeMap<u16, u64>,
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
    /// Closed by the other side inside the measured time.
    pub closed_by_peer: u64,
}

/// Bytes on the wire, heads included.
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
    /// Connect started − connection established, for connections of the whole life.
    pub connect: Encoded,
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
    /// Of those, with a status of 200 to 399.
    pub ok: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Errors of every other kind.
    pub errors: u64,
    /// Response times of what completed or timed out in the window (two significant digits); absent where nothing
    /// did.
    pub response_time: Option<Encoded>,
}

/// A line that the generator writes to standard error as it passes from one phase to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseLine {
    /// The phase that begins.
    pub phase: Phase,
    /// When, on [`crate::clock::now`].
    pub at_ns: u64,
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
