//! Where slow requests spent their time, which a run with `tail` records after its rounds. Each line of
//! `tails.jsonl` is one [`TailPass`].

use super::{Failure, Role};
use hoptax_format::moments::Moment;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One pass: a contender had the load of a load point while `perf` recorded which thread had which CPU.
/// Passes are not trials, and no other figure uses them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TailPass {
    /// Position among all of these passes of the run, from 0.
    pub sequence: u32,
    /// Round of passes, from 0.
    pub round: u32,
    /// The contender's label.
    pub contender: String,
    /// Index into [`super::RunRecord::load`].
    pub load: u32,
    /// The recorder and its version. Empty if it did not run.
    pub recorder: String,
    /// Why the pass failed; absent if it succeeded.
    pub failed: Option<Failure>,
    /// Number of requests whose moments were kept.
    pub requests: u64,
    /// Number of answered requests whose moments were not kept, because enough were kept already.
    pub left_out: u64,
    /// Number of events of the scheduler that were lost.
    pub lost: u64,
    /// Median response time of the pass, ns.
    pub p50_ns: u64,
    /// 99th percentile of the response time of the pass, ns. Slow requests took longer.
    pub p99_ns: u64,
    /// The causes that slices refer to by index.
    pub causes: Vec<TailCause>,
    /// Slices of the measured time.
    pub slices: Vec<TailSlice>,
    /// The slowest requests, the slowest first.
    pub slowest: Vec<SlowRequest>,
}

/// What a request spent time on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TailCause {
    /// Kind of the cause.
    pub kind: TailKind,
    /// The role that had the request; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// For `waiting`, who had the CPU: a role, or the name of a program or of a thread of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
}

/// Kind of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TailKind {
    /// The role ran.
    Running,
    /// The role's thread served another request first.
    Neighbour,
    /// The role's thread was ready, and another thread had its CPU.
    Waiting,
    /// The role's thread slept: a timer, a lock, a disk or the network.
    Asleep,
    /// All connections of the generator were busy.
    Connection,
    /// A thread was ready or its timer was due, but no thread had the CPU, or the CPU stood still.
    Nobody,
    /// The record does not say.
    Unknown,
}

/// Who had a CPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holder {
    /// A thread of a role.
    Role(Role),
    /// Another program or a thread of the kernel, by name.
    Other(String),
}

/// A slice of the measured time of a pass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TailSlice {
    /// Whether the hypervisor took CPU time in it.
    #[serde(default)]
    pub disturbed: bool,
    /// The requests beyond p99 that ended in it.
    pub slow: TailGroup,
    /// The requests near the median that ended in it.
    pub usual: TailGroup,
}

/// The times of some requests, added up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TailGroup {
    /// Number of requests.
    pub requests: u64,
    /// For each cause, its index and the time that the requests spent on it, ns. The times add up to the
    /// response times.
    pub ns: Vec<(u32, u64)>,
}

/// One of the slowest requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowRequest {
    /// Its moments.
    pub moment: Moment,
    /// Its time from when it was due, in pieces: the index of the cause, and the length, ns.
    pub pieces: Vec<(u32, u64)>,
    /// What the threads of the roles did meanwhile.
    pub lanes: Vec<Lane>,
    /// Who had the CPUs meanwhile.
    pub cpus: Vec<CpuLane>,
}

/// What a thread did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// Its role.
    pub role: Role,
    /// Its name and its id: `nginx 4711`.
    pub thread: String,
    /// Begin and end after the request was due, ns, and what it did.
    pub spans: Vec<(u64, u64, Doing)>,
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// It has a CPU.
    Running,
    /// It could run, and has no CPU.
    Ready,
    /// It waits for something.
    Asleep,
}

/// Who had a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuLane {
    /// Number of the CPU.
    pub cpu: u32,
    /// Begin and end after the request was due, ns, and the name of the thread. Idle time is left out.
    pub spans: Vec<(u64, u64, String)>,
}

/// What the scheduler did on all CPUs of a machine. It is not recorded, and only used during a pass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchTrace {
    /// The threads that were seen, by id.
    pub threads: BTreeMap<u32, SeenThread>,
    /// The events, by time.
    pub events: Vec<SwitchEvent>,
    /// Number of events that were lost.
    pub lost: u64,
    /// Number of lines that could not be parsed.
    pub unreadable: u64,
    /// Name and version of the recorder.
    pub recorder: String,
    /// The processes of the gateway. Empty for direct.
    pub gateway: BTreeSet<u32>,
    /// The processes of the upstream.
    pub upstream: BTreeSet<u32>,
}

/// A thread of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenThread {
    /// Its name.
    pub name: String,
    /// Its process; absent if the thread never had a CPU.
    pub process: Option<u32>,
}

/// Something that the scheduler did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchEvent {
    /// When, ns on [`hoptax_format::clock::now`].
    pub at_ns: u64,
    /// The CPU that recorded it.
    pub cpu: u32,
    /// What it did.
    pub what: Switch,
}

/// What the scheduler did. Threads are ids, and 0 is the idle thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Switch {
    /// A thread left the CPU, and the next one got it.
    To {
        /// The thread that left.
        from: u32,
        /// True if it could have continued.
        ready: bool,
        /// The thread that got the CPU.
        to: u32,
    },
    /// A thread was woken.
    Wake {
        /// The woken thread.
        thread: u32,
        /// The thread that had the CPU at this moment. An interrupt may have woken the thread there instead.
        by: u32,
    },
    /// A timer that fires every [`BEAT_NS`]. If it is late, the CPU stood still.
    Beat,
}

/// Time between two beats of a CPU, ns.
pub const BEAT_NS: u64 = 1_000_000;

impl TailPass {
    /// A pass without results.
    pub fn blank(round: u32, contender: &str, load: u32) -> Self {
        Self { round, contender: contender.to_owned(), load, ..Self::default() }
    }
}
