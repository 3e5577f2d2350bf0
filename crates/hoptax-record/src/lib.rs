//! What a run leaves on disk: the types of `run.json` and `trials.jsonl`.
//!
//! `analysis` and `report` work from these alone, so that a report can be made again without measuring again. A change
//! that an older reader would misread raises [`SCHEMA`].
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

/// Version of the run directory. 2: plans have targets and three timeouts. 3: the number of trials may be found while
/// measuring, and trials may be steps of a search. Versions 1 and 2 still read.
pub const SCHEMA: u32 = 3;

/// The label of the baseline, which no gateway may take.
pub const DIRECT: &str = "direct";

/// `run.json`: written before the first trial, and again with `ended` when the run is over.
///
/// On disk the plan has the types of [`plan`]; who reads it puts what it means in their place, by [`RunRecord::with_plan`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord<P = Plan, L = LoadPoint> {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of hoptax.
    pub hoptax: String,
    /// The plan as it was understood.
    pub plan: P,
    /// The plan as it was typed.
    pub plan_text: String,
    /// The command line.
    pub command: Vec<String>,
    /// Seed of the order and the arrivals.
    pub seed: u64,
    /// Every contender in the plan's order, direct first.
    pub contenders: Vec<Contender>,
    /// The load points that trials index.
    pub load: Vec<L>,
    /// Trials planned, direct ones included.
    pub trials_planned: u32,
    /// Why there was no further round, where their number was found while measuring.
    #[serde(default)]
    pub stopped: Option<Stopped>,
    /// The machine.
    pub environment: Environment,
    /// How fit the host was before the first trial; absent in older runs.
    #[serde(default)]
    pub host_at_start: Option<HostLook>,
    /// The same look after the last trial; absent while it runs, and in older runs.
    #[serde(default)]
    pub host_at_end: Option<HostLook>,
    /// What the loopback carries, where bodies are large enough for that to matter; absent in older runs.
    #[serde(default)]
    pub link: Option<Link>,
    /// Start, Unix nanoseconds.
    pub started_unix_ns: u64,
    /// How the run ended; absent while it runs, and for ever if it was killed.
    pub ended: Option<Ended>,
}

impl<P, L> RunRecord<P, L> {
    /// The same record with its plan in another form.
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

/// Why `trials: auto` began no further round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stopped {
    /// Every headline tax was known within what was asked for.
    Narrow,
    /// Another round would not have ended in time.
    Budget,
    /// There were as many as there may be.
    Rounds,
}

/// Direct or a gateway, as it was found when the run began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// [`DIRECT`] or the gateway's label.
    pub label: String,
    /// Pack, hop kind or `external`; empty for direct.
    pub kind: String,
    /// Version as the gateway told it; absent where it could not be read.
    pub version: Option<String>,
    /// Worker threads or processes asked for.
    pub workers: Option<u32>,
    /// Settings that differ from what the gateway ships, with the reason: taken from the pack.
    pub settings: Vec<Setting>,
    /// The gateway's own counters that are read around each trial; empty in older runs.
    #[serde(default)]
    pub counters: Vec<Counter>,
    /// Digest of each rendered file, by its name: equal digests are equal configurations.
    pub rendered: BTreeMap<String, String>,
    /// Why it takes no part: not installed, did not start, answered wrong. Its cases are then reported as failed.
    pub failed: Option<Failure>,
}

/// A counter that a pack names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Name, as in [`TrialRecord::gateway_counters`].
    pub name: String,
    /// What it counts.
    pub meaning: String,
    /// Whether it grows when a limit was hit.
    pub overflow: bool,
    /// The setting that lifts the limit, or what else to do; absent where the pack does not say.
    pub advice: Option<String>,
}

/// What the loopback carries between two processes of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Bytes of a message.
    pub message_bytes: u64,
    /// Bytes per second in one direction, one connection.
    pub bytes_per_second: f64,
}

/// A setting that differs from what the gateway ships.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The setting, as it is written in the gateway's configuration.
    pub setting: String,
    /// Why.
    pub reason: String,
}

/// Why something could not be measured, in words and with what was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// At which step.
    pub stage: Stage,
    /// What happened and what to do, one or a few sentences.
    pub message: String,
    /// Last log lines, or both answers of a failed verification.
    pub detail: String,
}

/// Steps at which a contender or a trial can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Not installed.
    Missing,
    /// Did not start or never became ready.
    Start,
    /// Answered otherwise than direct.
    Verify,
    /// Died, or became unreachable, during a trial.
    Trial,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Unix nanoseconds.
    pub unix_ns: u64,
    /// A signal ended it before its last trial.
    pub interrupted: bool,
    /// Why it could not go on, if something other than a signal ended it before its last trial.
    #[serde(default)]
    pub failed: Option<Failure>,
}

/// The machine a run was made on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Host name.
    pub host: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Processor's model name.
    pub cpu: String,
    /// CPUs this process may use.
    pub cpus: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Descriptors a process may hold.
    pub descriptors: u64,
    /// Clock source of the kernel.
    pub clock_source: Option<String>,
    /// CPU frequency governor, where there is one.
    pub governor: Option<String>,
    /// Virtualisation, where it could be told.
    pub hypervisor: Option<String>,
}

/// How fit a host is to be measured on, at one moment: what `hoptax doctor` shows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostLook {
    /// When, Unix nanoseconds.
    pub at_unix_ns: u64,
    /// What was looked at, in the order in which it is shown.
    pub items: Vec<Fitness>,
}

/// One thing that was looked at on a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fitness {
    /// Names it: `cpus`, `governor`, `steal`, …
    pub name: String,
    /// How it stands.
    pub status: FitnessStatus,
    /// What was seen, in a few words: `2`, `performance`, `3.1 %`.
    pub seen: String,
    /// Why it matters where it is not in order; empty where it is.
    pub message: String,
    /// What to do; absent where nothing is to be done.
    pub advice: Option<String>,
}

/// How something about a host stands; the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FitnessStatus {
    /// Figures from this host will be wrong, or a run will fail.
    Bad,
    /// Figures will be noisier than they need be, or a limit is near.
    Warning,
    /// It cannot be told here.
    Unknown,
    /// In order.
    Good,
}

/// One line of `trials.jsonl`: one case in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Round, from 0.
    pub round: u32,
    /// Position in the whole run, from 0.
    pub sequence: u32,
    /// [`DIRECT`] or a gateway's label.
    pub contender: String,
    /// Index into [`RunRecord::load`].
    pub load: u32,
    /// Which of the round's two direct trials of this load point this is; absent for gateways.
    pub direct: Option<DirectTrial>,
    /// The step of a capacity search that this trial is; absent for trials of rounds.
    #[serde(default)]
    pub step: Option<SearchStep>,
    /// Why the trial failed; what was measured until then stands beside it.
    pub failed: Option<Failure>,
    /// What the generator saw; absent if it could not say anything.
    pub load_record: Option<LoadRecord>,
    /// CPU and memory of the generator; absent in older runs.
    #[serde(default)]
    pub generator: Option<RoleUsage>,
    /// CPU and memory of the gateway's processes; absent for direct and for an external one without a pid.
    pub gateway: Option<RoleUsage>,
    /// CPU and memory of the upstream; absent where it is not ours.
    pub upstream: Option<RoleUsage>,
    /// The host over the measured time.
    pub host: HostUsage,
    /// The upstream's count over the generator's whole life; absent where the upstream is not ours.
    pub ledger: Option<LedgerDelta>,
    /// The clock that the upstream's stamps are on; absent where the upstream is not ours or does not tell, and in older
    /// runs.
    #[serde(default)]
    pub upstream_clock: Option<ClockId>,
    /// The kernel's network counters over the generator's whole life; absent in older runs.
    #[serde(default)]
    pub network: Option<NetworkUsage>,
    /// Bytes that the gateway wrote to its logs over the generator's whole life; absent for direct, for external ones, and
    /// in older runs.
    #[serde(default)]
    pub gateway_log_bytes: Option<u64>,
    /// The gateway's own counters, by the names that its pack gives them: what they grew by over the generator's whole
    /// life. Empty where the pack names none.
    #[serde(default)]
    pub gateway_counters: BTreeMap<String, f64>,
    /// What the plan made happen while it was measured, in the order of the plan. Empty in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventRecord>,
}

/// One event of a trial. Times are from the beginning of the measured time, as those of windows are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventRecord {
    /// What was asked for, and when.
    pub event: Event,
    /// When it was begun; absent where the trial ended before.
    pub at_ns: Option<u64>,
    /// When it was done: a signal sent, a command ended, an instance listening again, a gateway ready again; absent where it
    /// could not be done.
    pub done_ns: Option<u64>,
    /// Why it did not happen, or did not come to its end.
    pub failed: Option<String>,
    /// Of `change-route`: when the new route answered.
    #[serde(default)]
    pub new_route: Option<NewRoute>,
}

/// The first answer of a route that a gateway was given while it went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewRoute {
    /// From the beginning of the event to the answer.
    pub after_ns: u64,
    /// Questions until then, the answered one among them.
    pub questions: u64,
}

/// A step of a capacity search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SearchStep {
    /// Which step of this contender's search this is, from 0.
    pub number: u32,
    /// The rate tried, requests/s.
    pub rate: f64,
    /// What the trial is for.
    pub purpose: StepPurpose,
}

/// What a step of a search is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepPurpose {
    /// To find where the objective ends to be held.
    Search,
    /// To confirm, by a longer trial, that it is held there.
    Confirm,
}

/// What the kernel counted in the network namespace that the traffic ran in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkUsage {
    /// Connections dropped as a listen queue was full (`ListenOverflows`).
    pub listen_overflows: u64,
    /// Connections dropped by listeners for any reason (`ListenDrops`).
    pub listen_drops: u64,
    /// SYNs and SYN-ACKs sent again (`TCPSynRetrans`).
    pub syn_retransmits: u64,
    /// Segments sent again (`RetransSegs`).
    pub retransmits: u64,
    /// Segments sent (`OutSegs`).
    pub segments_sent: u64,
    /// Most sockets in TIME_WAIT seen at once.
    pub time_wait_max: u64,
    /// Ports that the kernel may choose from (`ip_local_port_range`).
    pub local_ports: u64,
}

/// Which of a round's two direct trials of a load point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DirectTrial {
    /// Before the gateways.
    First,
    /// After them.
    Last,
}

/// CPU time and memory of one role's whole process tree over exactly the measured time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleUsage {
    /// CPU time, nanoseconds.
    pub cpu_ns: u64,
    /// Processes at the end.
    pub processes: u32,
    /// Threads at the end.
    pub threads: u32,
    /// Largest sum of resident sets, bytes (shared pages count once per process).
    pub rss_bytes_max: u64,
    /// Largest sum of proportional sets, bytes (shared pages are divided); absent where the kernel does not tell.
    pub pss_bytes_max: Option<u64>,
    /// CPU time per window, nanoseconds; as long as the generator's windows.
    pub cpu_ns_by_window: Vec<u64>,
    /// Sum of resident sets at the end of each window, bytes; empty in older runs.
    #[serde(default)]
    pub rss_bytes_by_window: Vec<u64>,
    /// Time for which the cgroup's CPU limit held it back, nanoseconds; absent where there is no limit or it cannot be told.
    #[serde(default)]
    pub throttled_ns: Option<u64>,
    /// CPUs that its threads may run on, those left out that hardly work; empty where it cannot be told.
    #[serde(default)]
    pub cpus_allowed: Vec<u32>,
    /// Threads that worked, over all its processes: those that were on a CPU for 2 % of the time and for a quarter of what
    /// the busiest was; absent where it cannot be told, and in older runs.
    #[serde(default)]
    pub busy_threads: Option<u32>,
    /// Time for which its threads were ready to run and waited for a CPU, all together, nanoseconds; absent where it cannot be
    /// told, and in older runs.
    #[serde(default)]
    pub waiting_ns: Option<u64>,
}

/// The host over the measured time. Shares are of all CPUs together, 0 to 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostUsage {
    /// Share taken by the hypervisor.
    pub steal: f64,
    /// Share used by processes that are none of ours.
    pub foreign: f64,
    /// Share spent idle.
    pub idle: f64,
    /// Steal per window.
    pub steal_by_window: Vec<f64>,
    /// Foreign use per window.
    pub foreign_by_window: Vec<f64>,
    /// What the hypervisor took from each CPU, window by window; absent in older runs.
    #[serde(default)]
    pub stolen: Option<Stolen>,
    /// The one-minute load average when the measured time ended; absent in older runs.
    #[serde(default)]
    pub load_average: Option<f64>,
}

/// What the hypervisor took from each CPU, window by window.
///
/// The kernel counts it in ticks of 10 ms and learns of it only when a CPU runs again: what was taken in one window may
/// stand in a later one. So the lists go beyond the measured time, in both directions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stolen {
    /// Windows in front of the measured time that each list begins with.
    pub before: u32,
    /// Windows behind the measured time that each list ends with.
    pub after: u32,
    /// CPU time taken in each window, nanoseconds, by CPU (as `/proc/stat` lists those that are online, from 0). CPUs that
    /// nothing was taken from are left out.
    pub ns_by_cpu: BTreeMap<u32, Vec<u64>>,
}

/// What the upstream counted between two looks at its ledger.
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
    /// Whether requests are all that was counted: connections, bytes and versions are then unknown, not zero.
    #[serde(default)]
    pub requests_only: bool,
}
