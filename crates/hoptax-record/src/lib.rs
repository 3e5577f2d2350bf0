//! Types for the files of a run: `run.json`, `trials.jsonl` and its siblings.
//!
//! The analysis and the reports need only these files, so a report can be created again without a new
//! measurement. Increase [`SCHEMA`] for each change that an older hoptax would misread.
#![forbid(unsafe_code)]

mod aside;
pub mod bounded;
mod death;
mod digest;
pub mod dir;
mod failure;
mod generator_trial;
mod hosts;
mod machines;
mod metric;
pub mod plan;
mod printable;
pub mod profile;
pub mod report;
mod role_usage;
mod shares;
pub mod start;
pub mod tail;
pub mod units;
mod warm_up;

pub use aside::{AsideRules, LateStep, Placement, are_apart, has_failures, mark_aside, placements};
pub use metric::{Metric, Quantity, Times};

pub use death::{DEATHS_IN_CASE, Death, DeathDuring};
pub use digest::{Digest, digest};
pub use failure::{Failure, Stage};
pub use generator_trial::GeneratorTrial;
pub use hosts::{
    Environment, Fitness, FitnessStatus, ForeignProcess, HostLook, HostUsage, Leg, LegLook, Link,
    NetworkUsage, Role, RoundTrips, RunHost, Stalled, Stolen, TrialHost,
};
pub use printable::printable;
pub use role_usage::RoleUsage;
pub use shares::{Machine, Origin, Shares};
pub use warm_up::{Burst, WarmUp, WarmUpLoad};

use hoptax_format::record::LoadRecord;
use hoptax_format::stamp::ClockId;
use plan::{Event, LoadPoint, Plan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the format of the run directory. Since version 2, a plan has targets and three timeouts. Since
/// version 3, the number of rounds can be decided during the run, and a trial can be a step of a search.
/// Versions 1 and 2 can still be read.
pub const SCHEMA: u32 = 3;

/// Label of the baseline. No gateway can have this label.
pub const DIRECT: &str = "direct";

/// The content of `run.json`. hoptax writes the file before the first trial. At the end of the run, hoptax
/// writes it again, with `ended`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Version of the format: [`SCHEMA`].
    pub schema: u32,
    /// Version of hoptax.
    pub hoptax: String,
    /// The plan, with defaults filled in.
    pub plan: Plan,
    /// The text of the plan, as the user wrote it.
    pub plan_text: String,
    /// The command line.
    pub command: Vec<String>,
    /// Seed for the random order of the trials and for the random arrival times of requests.
    pub seed: u64,
    /// Direct first, then the gateways in the order of the plan.
    pub contenders: Vec<Contender>,
    /// The load points that trials refer to by index.
    pub load: Vec<LoadPoint>,
    /// Number of planned trials, including the trials of direct.
    pub trials_planned: u32,
    /// Why `trials: auto` started no further round; absent for a fixed number of rounds.
    pub stopped: Option<Stopped>,
    /// The machine.
    pub environment: Environment,
    /// Checks of the host before the first trial; absent in older runs.
    pub host_at_start: Option<HostLook>,
    /// Checks of the host after the last trial; absent while the run is in progress, and in older runs.
    pub host_at_end: Option<HostLook>,
    /// Throughput of the loopback device. It is measured only if bodies are large. Absent otherwise, and in
    /// older runs.
    pub link: Option<Link>,
    /// The hosts of the run, by name. Empty if hoptax itself ran all roles on its own host, and in older
    /// runs. `environment`, `host_at_start` and `host_at_end` are those of the generator's host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, RunHost>,
    /// The network between the hosts. Empty if there is only one host, and in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub legs: Vec<Leg>,
    /// How much separate runs scatter on this machine. Absent if the shares of hoptax hold, and in older
    /// runs.
    #[serde(default, skip_serializing_if = "Shares::is_built_in")]
    pub shares: Shares,
    /// Start of the run, in nanoseconds since the Unix epoch.
    pub started_unix_ns: u64,
    /// How the run ended; absent while the run is in progress, and if it was killed.
    pub ended: Option<Ended>,
}

/// Why `trials: auto` started no further round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stopped {
    /// The interval of every headline tax reached the requested precision.
    Narrow,
    /// Another round would not have fit into the time limit.
    Budget,
    /// The maximum number of rounds was reached.
    Rounds,
}

/// Direct or a gateway, as hoptax found it at the start of the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// [`DIRECT`] or the gateway's label.
    pub label: String,
    /// Name of the pack, kind of the hop, or `external`. Empty for direct.
    pub kind: String,
    /// Version that the gateway reports; absent if it could not be read.
    pub version: Option<String>,
    /// Number of worker threads or processes that the plan requests; absent if the plan requests no number.
    pub workers: Option<u32>,
    /// Settings that differ from the gateway's defaults, with reasons. They come from the pack.
    pub settings: Vec<Setting>,
    /// The gateway's counters. hoptax reads them before and after each trial. Empty in older runs.
    #[serde(default)]
    pub counters: Vec<Counter>,
    /// Digest of each rendered configuration file. The key is the name of the file. Equal digests mean equal
    /// configurations.
    pub rendered: BTreeMap<String, String>,
    /// Says which addresses of the service's host name were used. For direct, this is the upstream's host
    /// name. Absent if the name has only one address, and in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_note: Option<String>,
    /// Response headers that differed from direct's headers and were left out of the comparison. Empty in
    /// older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored_headers: Vec<IgnoredHeader>,
    /// The process of a service that already runs, if hoptax found the process by its listening socket.
    /// Absent if the plan names the process, and in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_process: Option<FoundProcess>,
    /// A header of the gateway's answer to a repeated request that says that a cache gave it, such as
    /// `x-cache: HIT`. Absent if there was none, and in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<String>,
    /// Targets for which the gateway's body in verification was longer or shorter than direct's. Empty in
    /// older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bodies: Vec<BodyLengths>,
    /// Warm-ups of the contender's process: one after each of its starts. For direct, these are warm-ups of
    /// the upstream. Empty if the plan has a fixed warm-up, and in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warm_ups: Vec<WarmUp>,
    /// Deaths of the gateway during the run, in order. Empty in older runs, which did not start a dead
    /// gateway again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deaths: Vec<Death>,
    /// Why the contender was not measured, for example because it was not installed, did not start or gave a
    /// wrong answer. Its cases are reported as failed. Absent if the contender was measured.
    pub failed: Option<Failure>,
}

/// A response header that differed from direct's header, and was left out of the comparison.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IgnoredHeader {
    /// Name of the header, in lower case.
    pub name: String,
    /// Value in direct's answer; absent if that answer has no such header.
    pub direct: Option<String>,
    /// Value in the gateway's answer; absent if that answer has no such header.
    pub gateway: Option<String>,
    /// Why the pack lists the header under `differences`; absent if only the plan does not compare it.
    pub reason: Option<String>,
}

/// A process that listens on the address of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundProcess {
    /// Process id.
    pub pid: u32,
    /// Name of its program.
    pub name: String,
}

/// Bodies of one target in verification, as they were transferred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyLengths {
    /// Name of the target.
    pub target: String,
    /// Length of direct's body, bytes.
    pub direct: u64,
    /// Length of the gateway's body, bytes.
    pub gateway: u64,
    /// How direct's body was encoded, such as `gzip`; absent if it was not.
    pub direct_encoding: Option<String>,
    /// How the gateway's body was encoded; absent if it was not.
    pub gateway_encoding: Option<String>,
}

/// What else the verification of a gateway found out, if its answers were right.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Headers that differed and were left out of the comparison: one for each name.
    pub ignored_headers: Vec<IgnoredHeader>,
    /// Targets whose bodies had different lengths.
    pub bodies: Vec<BodyLengths>,
    /// A header that says that a cache gave the answer to a repeated request.
    pub cached: Option<String>,
}

/// A counter of a gateway, defined in the gateway's pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Name of the counter. It is the key in [`TrialRecord::gateway_counters`].
    pub name: String,
    /// What the counter counts.
    pub meaning: String,
    /// Whether the counter grows when the gateway reaches a limit.
    pub overflow: bool,
    /// The setting that raises the limit, or other advice; absent if the pack contains no advice.
    pub advice: Option<String>,
}

/// A setting that differs from the gateway's shipped default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The setting, as written in the gateway's configuration.
    pub setting: String,
    /// Why the setting differs from the default.
    pub reason: String,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Time of the end, in nanoseconds since the Unix epoch.
    pub unix_ns: u64,
    /// Whether a signal ended the run before its last trial.
    pub interrupted: bool,
    /// Why the run ended before its last trial. Absent if all trials were measured, and if a signal ended the
    /// run.
    pub failed: Option<Failure>,
}

/// One line of `trials.jsonl`: the record of one trial, which is one case in one round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Version of the format: [`SCHEMA`].
    pub schema: u32,
    /// Round, from 0.
    pub round: u32,
    /// Position of the trial among all trials of the run, from 0.
    pub sequence: u32,
    /// [`DIRECT`] or a gateway's label.
    pub contender: String,
    /// Index into [`RunRecord::load`].
    pub load: u32,
    /// Which start of the gateway the process of this trial belongs to, from 0. 0 for direct, and in older
    /// runs.
    #[serde(default, skip_serializing_if = "warm_up::is_zero")]
    pub start: u32,
    /// Whether this is the first or the last direct trial of its round; absent for gateways.
    pub direct: Option<DirectTrial>,
    /// The step of the capacity search; absent if the trial belongs to no search.
    pub step: Option<SearchStep>,
    /// Why the trial failed; absent if it succeeded. The other members contain what was measured before the
    /// failure.
    pub failed: Option<Failure>,
    /// What the generator recorded; absent if the generator could not report its results.
    pub load_record: Option<LoadRecord>,
    /// CPU and memory of the generator, or of all generators together; absent in older runs.
    pub generator: Option<RoleUsage>,
    /// Each generator, in the order of the plan, if there are several. Empty otherwise, and in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generators: Vec<GeneratorTrial>,
    /// CPU and memory of the gateway's processes; absent for direct, and for an external gateway without a
    /// pid.
    pub gateway: Option<RoleUsage>,
    /// CPU and memory of the upstream; absent if hoptax did not start the upstream and the plan contains no
    /// pid.
    pub upstream: Option<RoleUsage>,
    /// The generator's host during the measured time. With several generators, it is the host of the first
    /// one.
    pub host: HostUsage,
    /// The other hosts of the run, by name. Empty if there is only one host, and in older runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, TrialHost>,
    /// Growth of the upstream's ledger between the start and the end of the generator; absent if the upstream
    /// has no ledger.
    pub ledger: Option<LedgerDelta>,
    /// The clock that the upstream uses for its timestamps. Absent in older runs, and if the upstream is
    /// external or does not report its clock.
    pub upstream_clock: Option<ClockId>,
    /// The kernel's network counters for the time between the start and the end of the generator; absent in
    /// older runs.
    pub network: Option<NetworkUsage>,
    /// Number of bytes that the gateway wrote to its logs between the start and the end of the generator.
    /// Absent for direct, for external gateways, and in older runs.
    pub gateway_log_bytes: Option<u64>,
    /// Growth of the gateway's counters between the start and the end of the generator. The keys are the
    /// names of the counters in the pack. Empty if the pack defines no counters.
    #[serde(default)]
    pub gateway_counters: BTreeMap<String, f64>,
    /// Events of the plan during this trial, in the order of the plan. Empty in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventRecord>,
    /// How far the CPUs of the roles were from each other. Empty if roles are not pinned to different CPUs,
    /// and in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_round_trips: Vec<CpuRoundTrip>,
    /// Why the trial does not count, although it did not fail. Not in the file: [`mark_aside`] sets it when
    /// the run is analysed.
    #[serde(skip)]
    pub set_aside: Option<Aside>,
}

/// Time that a cache line takes from one CPU to another and back. It changes if the hypervisor moves one of
/// the CPUs to another core.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CpuRoundTrip {
    /// The two CPUs, the lower number first.
    pub cpus: [u32; 2],
    /// The time just before the generator started, ns.
    pub before_ns: f64,
    /// The time just after the generator ended, ns.
    pub after_ns: f64,
}

/// Why a trial does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aside {
    /// The hypervisor took too much CPU time.
    Disturbed,
    /// The CPUs were closer together or farther apart than in most trials.
    Moved,
    /// The process was still getting faster.
    Warming,
}

/// One event of a trial. All times are in nanoseconds since the start of the measured time, like the times of
/// windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventRecord {
    /// The planned event.
    pub event: Event,
    /// Start of the event, ns; absent if the trial ended before the event started.
    pub at_ns: Option<u64>,
    /// End of the event, ns. Depending on the action, this is the time at which the signal was sent, the
    /// command ended, the instance listened again, or the gateway was ready again. Absent if the event did
    /// not happen or did not finish.
    pub done_ns: Option<u64>,
    /// Why the event did not happen or did not finish; absent if it finished.
    pub failed: Option<String>,
    /// The first answer of the new route, for the event `change-route`. Absent for other events, and if the
    /// route never answered.
    pub new_route: Option<NewRoute>,
}

/// The first answer through a route that was added while the gateway was running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewRoute {
    /// Time from the start of the event to the answer, ns.
    pub after_ns: u64,
    /// Number of requests that were sent to the route until it answered, including the request that was
    /// answered.
    pub questions: u64,
}

/// A step of a capacity search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SearchStep {
    /// Number of the step in this contender's search, from 0.
    pub number: u32,
    /// The rate tried, requests/s; in a closed loop, the number of connections.
    pub rate: f64,
    /// Purpose of the trial.
    pub purpose: StepPurpose,
}

/// Purpose of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepPurpose {
    /// To find the highest rate at which the contender meets the objective.
    Search,
    /// To confirm the highest rate with a longer trial.
    Confirm,
}

/// One of the two direct trials that each round contains for a load point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DirectTrial {
    /// Before the gateways.
    First,
    /// After the gateways.
    Last,
}

/// Calls with a deadline (`grpc-timeout`), as the upstream received them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlines {
    /// Number of calls.
    pub calls: u64,
    /// The smallest time limit, nanoseconds.
    pub least_ns: u64,
    /// The largest time limit, nanoseconds.
    pub most_ns: u64,
}

impl Deadlines {
    /// Adds other calls.
    pub fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.least_ns = self.least_ns.min(other.least_ns);
        self.most_ns = self.most_ns.max(other.most_ns);
    }
}

/// Requests to the language model that the built-in upstream plays, as it received them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LlmCounts {
    /// Requests that were read to their end, with those that it refused.
    pub requests: u64,
    /// Requests that were refused because they are not right: no JSON, no model, no messages.
    pub refused: u64,
    /// Requests with a key: `authorization`, `x-api-key` or `api-key`.
    pub with_key: u64,
    /// Responses that are streams.
    pub streams: u64,
    /// Streams that were sent to their end.
    pub ended: u64,
    /// Tokens sent in streams.
    pub tokens: u64,
    /// Streams that clients left before their end.
    pub left: u64,
    /// Tokens that were sent in streams that clients left, until the upstream noticed it.
    pub left_tokens: u64,
    /// Responses that failed as the plan says, by the name of the kind.
    pub failures: BTreeMap<String, u64>,
    /// Number of requests with each top-level field of their JSON. At most 64 fields are counted.
    pub fields: BTreeMap<String, u64>,
}

/// Growth of the upstream's ledger between two readings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerDelta {
    /// Number of requests that all instances answered.
    pub requests: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Number of requests with each HTTP version (`1.0`, `1.1`, `2`).
    pub http_version: BTreeMap<String, u64>,
    /// Number of requests that each instance answered.
    pub by_instance: Vec<u64>,
    /// Number of HTTP/2 streams that clients opened. Absent if the upstream did not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u64>,
    /// Largest number of HTTP/2 streams that were open on one connection when a stream was opened, itself
    /// included. Absent if the upstream did not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_streams: Option<u64>,
    /// Number of HTTP/2 streams that clients reset before they had the whole response. Absent if the upstream
    /// did not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancels: Option<u64>,
    /// Number of requests after which the client closes the connection: `Connection: close`, or HTTP/1.0
    /// without keep-alive. Absent if the upstream did not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closing: Option<u64>,
    /// gRPC calls that had a deadline when they arrived. Absent if there were none, or the upstream did not
    /// count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadlines: Option<Deadlines>,
    /// Number of server-sent events that the upstream sent. Absent if it has sent none, or did not count
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Number of streams of events that clients left before their end. Absent if there were none, or the
    /// upstream did not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_streams_left: Option<u64>,
    /// Requests to the language model. Absent if there were none, or the upstream did not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<LlmCounts>,
    /// Whether the ledger counts only requests. If so, the numbers of connections, bytes and versions are
    /// unknown, although they are zero here.
    #[serde(default)]
    pub requests_only: bool,
}
