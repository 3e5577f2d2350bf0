//! The files of a run: types of `run.json` and `trials.jsonl`.
//!
//! Analysis and reports work from these files alone, so that a report can be repeated without measuring again.
//! A change that an older reader would misread increases [`SCHEMA`].
#![forbid(unsafe_code)]

pub mod bounded;
mod digest;
pub mod dir;
mod metric;
pub mod plan;
pub mod report;

pub use metric::{Metric, Quantity};

pub use digest::{Digest, digest};

use hoptax_load::record::LoadRecord;
use hoptax_load::stamp::ClockId;
use plan::{Event, LoadPoint, Plan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the run directory. 2: plans have targets and three timeouts. 3: the number of trials may be
/// decided while measuring, and trials may be steps of a search. Versions 1 and 2 can still be read.
pub const SCHEMA: u32 = 3;

/// Label of the baseline; no gateway may have it.
pub const DIRECT: &str = "direct";

/// `run.json`: written before the first trial, and again with `ended` at the end of the run.
///
/// On disk the plan has the types of [`plan`]. Readers replace it by the plan's meaning with
/// [`RunRecord::with_plan`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord<P = Plan, L = LoadPoint> {
    /// Version of the format: [`SCHEMA`].
    pub schema: u32,
    /// Version of hoptax.
    pub hoptax: String,
    /// The plan, with defaults filled in.
    pub plan: P,
    /// The plan as typed.
    pub plan_text: String,
    /// The command line.
    pub command: Vec<String>,
    /// Seed of the order and the arrivals.
    pub seed: u64,
    /// Direct, then the gateways in the plan's order.
    pub contenders: Vec<Contender>,
    /// The load points that trials refer to by index.
    pub load: Vec<L>,
    /// Number of trials planned, including direct.
    pub trials_planned: u32,
    /// Why `trials: auto` started no further round; absent for a fixed number of rounds.
    #[serde(default)]
    pub stopped: Option<Stopped>,
    /// The machine.
    pub environment: Environment,
    /// Fitness of the host before the first trial; absent in older runs.
    #[serde(default)]
    pub host_at_start: Option<HostLook>,
    /// Fitness of the host after the last trial; absent while the run is in progress, and in older runs.
    #[serde(default)]
    pub host_at_end: Option<HostLook>,
    /// Throughput of the loopback device; measured only if bodies are large, and absent in older runs.
    #[serde(default)]
    pub link: Option<Link>,
    /// Start, Unix nanoseconds.
    pub started_unix_ns: u64,
    /// How the run ended; absent while it is in progress, and if it was killed.
    pub ended: Option<Ended>,
}

impl<P, L> RunRecord<P, L> {
    /// The record with its plan in another form.
    pub fn with_plan<Q, M>(self, plan: Q, load: Vec<M>) -> RunRecord<Q, M> {
        RunRecord {
            plan,
            load,
            schema: self.schema,
            hoptax: self.hoptax,
            plan_text: self.plan_text,
            command: self.command,
            seed: self.seed,
            contenders: self.contenders,
            trials_planned: self.trials_planned,
            stopped: self.stopped,
            environment: self.environment,
            host_at_start: self.host_at_start,
            host_at_end: self.host_at_end,
            link: self.link,
            started_unix_ns: self.started_unix_ns,
            ended: self.ended,
        }
    }
}

/// Why `trials: auto` started no further round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stopped {
    /// Every headline tax was known within the requested precision.
    Narrow,
    /// Another round would not have fit into the time limit.
    Budget,
    /// The maximum number of rounds was reached.
    Rounds,
}

/// Direct or a gateway, as found at the start of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// [`DIRECT`] or the gateway's label.
    pub label: String,
    /// Pack, hop kind or `external`; empty for direct.
    pub kind: String,
    /// Version that the gateway reports; absent if it could not be read.
    pub version: Option<String>,
    /// Worker threads or processes requested; absent if none were.
    pub workers: Option<u32>,
    /// Settings that differ from the gateway's shipped defaults, with reasons; taken from the pack.
    pub settings: Vec<Setting>,
    /// The gateway's own counters that are read before and after each trial; empty in older runs.
    #[serde(default)]
    pub counters: Vec<Counter>,
    /// Digest of each rendered file, by name. Equal digests mean equal configurations.
    pub rendered: BTreeMap<String, String>,
    /// Why the contender is not measured: not installed, did not start, wrong answer. Its cases are reported as
    /// failed.
    pub failed: Option<Failure>,
}

/// A gateway's own counter, named in its pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Name, as in [`TrialRecord::gateway_counters`].
    pub name: String,
    /// What it counts.
    pub meaning: String,
    /// Whether it grows when a limit is hit.
    pub overflow: bool,
    /// The setting that raises the limit, or other advice; absent if the pack gives none.
    pub advice: Option<String>,
}

/// Throughput of the loopback device between two processes of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Length of a message, bytes.
    pub message_bytes: u64,
    /// Bytes per second in one direction of one connection.
    pub bytes_per_second: f64,
}

/// A setting that differs from the gateway's shipped default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The setting, as written in the gateway's configuration.
    pub setting: String,
    /// Why it differs.
    pub reason: String,
}

/// Why something could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The step that failed.
    pub stage: Stage,
    /// What happened and what to do, one or a few sentences.
    pub message: String,
    /// The last log lines, or both answers of a failed verification; may be empty.
    pub detail: String,
}

/// Steps at which a contender or a trial can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Not installed.
    Missing,
    /// Did not start, or never became ready.
    Start,
    /// Its answer differs from direct's.
    Verify,
    /// Died or became unreachable during a trial.
    Trial,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Time of the end, Unix nanoseconds.
    pub unix_ns: u64,
    /// Whether a signal ended it before its last trial.
    pub interrupted: bool,
    /// Why it ended before its last trial, if not by a signal; absent otherwise.
    #[serde(default)]
    pub failed: Option<Failure>,
}

/// The machine of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Host name.
    pub host: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Model name of the processor.
    pub cpu: String,
    /// Number of CPUs that hoptax may use.
    pub cpus: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Maximum number of file descriptors of a process.
    pub descriptors: u64,
    /// Clock source of the kernel; absent if unknown.
    pub clock_source: Option<String>,
    /// CPU frequency governor; absent if there is none.
    pub governor: Option<String>,
    /// Kind of virtualisation; absent if none was detected.
    pub hypervisor: Option<String>,
}

/// Fitness of a host for measuring, at one moment: the content of `hoptax doctor`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostLook {
    /// Time of the checks, Unix nanoseconds.
    pub at_unix_ns: u64,
    /// The checks, in the order of display.
    pub items: Vec<Fitness>,
}

/// One check of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fitness {
    /// Name of the check: `cpus`, `governor`, `steal`, …
    pub name: String,
    /// Result of the check.
    pub status: FitnessStatus,
    /// What was found, in a few words: `2`, `performance`, `3.1 %`.
    pub seen: String,
    /// Why it matters; empty if the result is good.
    pub message: String,
    /// What to do; absent if nothing is to be done.
    pub advice: Option<String>,
}

/// Result of a check, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FitnessStatus {
    /// Figures from this host will be wrong, or a run will fail.
    Bad,
    /// Figures will be noisier than necessary, or a limit is near.
    Warning,
    /// Cannot be checked on this host.
    Unknown,
    /// Good.
    Good,
}

/// One line of `trials.jsonl`: one case in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Version of the format: [`SCHEMA`].
    pub schema: u32,
    /// Round, from 0.
    pub round: u32,
    /// Position in the whole run, from 0.
    pub sequence: u32,
    /// [`DIRECT`] or a gateway's label.
    pub contender: String,
    /// Index into [`RunRecord::load`].
    pub load: u32,
    /// Which of the round's two direct trials this is; absent for gateways.
    pub direct: Option<DirectTrial>,
    /// The step of a capacity search; absent for trials of rounds.
    #[serde(default)]
    pub step: Option<SearchStep>,
    /// Why the trial failed; absent if it did not. What was measured before the failure is kept.
    pub failed: Option<Failure>,
    /// What the generator recorded; absent if it could not report.
    pub load_record: Option<LoadRecord>,
    /// CPU and memory of the generator; absent in older runs.
    #[serde(default)]
    pub generator: Option<RoleUsage>,
    /// CPU and memory of the gateway's processes; absent for direct, and for an external gateway without a pid.
    pub gateway: Option<RoleUsage>,
    /// CPU and memory of the upstream; absent if hoptax did not start it and the plan gives no pid.
    pub upstream: Option<RoleUsage>,
    /// The host during the measured time.
    pub host: HostUsage,
    /// Growth of the upstream's ledger over the generator's whole life; absent if the upstream has no ledger.
    pub ledger: Option<LedgerDelta>,
    /// The clock of the upstream's stamps; absent if the upstream is external or does not report it, and in
    /// older runs.
    #[serde(default)]
    pub upstream_clock: Option<ClockId>,
    /// The kernel's network counters over the generator's whole life; absent in older runs.
    #[serde(default)]
    pub network: Option<NetworkUsage>,
    /// Bytes that the gateway wrote to its logs over the generator's whole life; absent for direct, for
    /// external gateways, and in older runs.
    #[serde(default)]
    pub gateway_log_bytes: Option<u64>,
    /// Growth of the gateway's own counters over the generator's whole life, by the names in its pack. Empty if
    /// the pack names none.
    #[serde(default)]
    pub gateway_counters: BTreeMap<String, f64>,
    /// Events of the plan during this trial, in the plan's order. Empty in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventRecord>,
}

/// One event of a trial. Times are nanoseconds since the start of the measured time, like those of windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventRecord {
    /// The planned event.
    pub event: Event,
    /// Start of the event, ns; absent if the trial ended before.
    pub at_ns: Option<u64>,
    /// End of the event, ns: a signal was sent, a command ended, an instance listens again, a gateway is ready
    /// again. Absent if it could not be done.
    pub done_ns: Option<u64>,
    /// Why it did not happen or did not finish; absent if it did.
    pub failed: Option<String>,
    /// For `change-route`: the first answer of the new route; absent for other events, and if there was none.
    #[serde(default)]
    pub new_route: Option<NewRoute>,
}

/// The first answer of a route that was added while the gateway was running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewRoute {
    /// Time from the start of the event to the answer, ns.
    pub after_ns: u64,
    /// Number of requests until then, including the answered one.
    pub questions: u64,
}

/// A step of a capacity search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SearchStep {
    /// Number of the step in this contender's search, from 0.
    pub number: u32,
    /// The rate tried, requests/s.
    pub rate: f64,
    /// Purpose of the trial.
    pub purpose: StepPurpose,
}

/// Purpose of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepPurpose {
    /// To find the highest rate that holds the objective.
    Search,
    /// To confirm that rate with a longer trial.
    Confirm,
}

/// Kernel counters of the network namespace of the traffic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkUsage {
    /// Connections dropped because a listen queue was full (`ListenOverflows`).
    pub listen_overflows: u64,
    /// Connections dropped by listeners for any reason (`ListenDrops`).
    pub listen_drops: u64,
    /// SYNs and SYN-ACKs sent again (`TCPSynRetrans`).
    pub syn_retransmits: u64,
    /// Segments sent again (`RetransSegs`).
    pub retransmits: u64,
    /// Segments sent (`OutSegs`).
    pub segments_sent: u64,
    /// Largest number of sockets in TIME_WAIT at once.
    pub time_wait_max: u64,
    /// Number of local ports that the kernel may choose from (`ip_local_port_range`).
    pub local_ports: u64,
}

/// Which of a round's two direct trials of a load point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DirectTrial {
    /// Before the gateways.
    First,
    /// After the gateways.
    Last,
}

/// CPU time and memory of a role's whole process tree, over exactly the measured time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleUsage {
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// Number of processes at the end.
    pub processes: u32,
    /// Number of threads at the end.
    pub threads: u32,
    /// Largest sum of resident sets (RSS), bytes. A shared page counts once per process.
    pub rss_bytes_max: u64,
    /// Largest sum of proportional sets (PSS), bytes. Shared pages are divided. Absent if the kernel does not
    /// report it.
    pub pss_bytes_max: Option<u64>,
    /// CPU time in each window, ns; one entry per window of the generator.
    pub cpu_ns_by_window: Vec<u64>,
    /// Sum of resident sets at the end of each window, bytes; empty in older runs.
    #[serde(default)]
    pub rss_bytes_by_window: Vec<u64>,
    /// Time for which the cgroup's CPU limit throttled the role, ns; absent without a limit, and if unknown.
    #[serde(default)]
    pub throttled_ns: Option<u64>,
    /// CPUs that the role's threads may run on, without threads that hardly run; empty if unknown.
    #[serde(default)]
    pub cpus_allowed: Vec<u32>,
    /// Number of busy threads in all processes: on a CPU for at least 2 % of the time and for at least a
    /// quarter of the busiest thread's time. Absent if unknown, and in older runs.
    #[serde(default)]
    pub busy_threads: Option<u32>,
    /// Time for which threads were ready to run and waited for a CPU, summed over threads, ns; absent if
    /// unknown, and in older runs.
    #[serde(default)]
    pub waiting_ns: Option<u64>,
}

/// The host during the measured time. Shares are of all CPUs together, 0 to 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostUsage {
    /// Share taken by the hypervisor.
    pub steal: f64,
    /// Share used by processes that do not belong to the run.
    pub foreign: f64,
    /// Share that was idle.
    pub idle: f64,
    /// Share taken by the hypervisor, per window.
    pub steal_by_window: Vec<f64>,
    /// Share used by foreign processes, per window.
    pub foreign_by_window: Vec<f64>,
    /// Time that the hypervisor took from each CPU, per window; absent in older runs.
    #[serde(default)]
    pub stolen: Option<Stolen>,
    /// One-minute load average at the end of the measured time; absent in older runs.
    #[serde(default)]
    pub load_average: Option<f64>,
}

/// Time that the hypervisor took from each CPU, per window.
///
/// The kernel counts it in ticks of 10 ms and notices it only when a CPU runs again, so a later window may show
/// it. The lists therefore begin before the measured time and end after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stolen {
    /// Number of windows at the start of each list that lie before the measured time.
    pub before: u32,
    /// Number of windows at the end of each list that lie after the measured time.
    pub after: u32,
    /// CPU time taken in each window, ns, by CPU (position among the online CPUs in `/proc/stat`, from 0). CPUs
    /// that lost none are left out.
    pub ns_by_cpu: BTreeMap<u32, Vec<u64>>,
}

/// Growth of the upstream's ledger between two readings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerDelta {
    /// Requests answered, over all instances.
    pub requests: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Requests by HTTP version (`1.0`, `1.1`).
    pub http_version: BTreeMap<String, u64>,
    /// Requests by instance.
    pub by_instance: Vec<u64>,
    /// Whether only requests were counted; connections, bytes and versions are then unknown, not zero.
    #[serde(default)]
    pub requests_only: bool,
}
