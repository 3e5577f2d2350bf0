//! The messages between a runner and an agent. Both have the same version of hoptax, so this is not a format
//! for files.

use super::greeting::Versions;
use hoptax_format::spec::LoadSpec;
use hoptax_format::stamp::ClockId;
use hoptax_format::{Address, clock, random};
use hoptax_host::Watched;
use hoptax_host::probe::fitness::Moment;
use hoptax_host::probe::leg::{Messages, ReceiverAddress};
use hoptax_host::profile::Span;
use hoptax_lab::features::{Change, Credentials};
use hoptax_lab::first_requests::FirstRequests;
use hoptax_lab::process::Secrets;
use hoptax_lab::verify::Requests;
use hoptax_lab::{Facts, Profiling};
use hoptax_record::plan::{Action, CpuSets, Idle, Plan};
use hoptax_record::profile::PassKind;
use hoptax_record::{Environment, Failure, Stage};
use hoptax_run::{TrialUpdate, WatchedRoles};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// A message to an agent.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToAgent {
    /// A request. The agent sends one answer to it.
    Request {
        /// Number of the request, which its answer repeats. No two requests of a connection have the same
        /// number.
        id: u64,
        /// The request.
        request: Box<Request>,
    },
    /// An order that belongs to a request without an answer. An order for an answered request is ignored.
    Order {
        /// Number of the request.
        of: u64,
        /// The order.
        order: Order,
    },
    /// Says only that the runner is there.
    Beat,
}

/// A message from an agent, with an answer of this type.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromAgent<T> {
    /// The answer. No update follows it.
    Done {
        /// Number of the request.
        id: u64,
        /// The answer.
        value: T,
    },
    /// The request has failed. No update follows.
    Failed {
        /// Number of the request.
        id: u64,
        /// Why.
        failure: Failure,
    },
    /// News before the answer.
    Update {
        /// Number of the request.
        id: u64,
        /// The news.
        update: Update,
    },
    /// Says only that the agent is there.
    Beat,
}

/// What a runner can ask for. The comment of each request names the type of its answer.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// The first request → [`Welcome`].
    Hello(Hello),
    /// → [`super::inspection::Inspection`].
    Inspect(Box<Inspect>),
    /// Prepares the host for a run → `()`. It must come before all requests below, except for the next two.
    Prepare(Box<Prepare>),
    /// → [`ClockReading`].
    Clock,
    /// Checks whether the host is fit for measurements → `Option<HostLook>`.
    Fitness(Moment),
    /// → [`Started`].
    StartUpstream,
    /// Starts a gateway of the plan → [`Started`].
    StartGateway {
        /// Its label.
        label: String,
        /// The upstream's instances.
        upstreams: Vec<Address>,
        /// The upstream's instances that use TLS.
        tls_upstreams: Vec<Address>,
        /// Whether the agent waits until the gateway is ready.
        waits: bool,
    },
    /// From now on, starts gateways so that profilers can name their frames → `()`.
    PrepareProfiles,
    /// A request about a service that the agent has started.
    Service {
        /// Number of the service.
        id: u64,
        /// The request.
        request: ServiceRequest,
    },
    /// → `Verified`.
    Verify(Box<Verify>),
    /// Sends one request to a gateway → [`RouteAnswer`].
    AskRoute(Box<AskRoute>),
    /// → [`hoptax_lab::first_requests::FirstAnswers`]. After the update [`Update::Ready`], the agent waits
    /// for [`Order::Continue`].
    FirstRequests(Box<FirstRequests>),
    /// → [`hoptax_run::Look`].
    Look(WatchedRoles),
    /// Sends a load → [`hoptax_run::Loaded`]. Updates are [`Update::Trial`]. A part of a load begins with
    /// [`Order::Begin`].
    Load {
        /// The load, or a part of it.
        spec: Box<LoadSpec>,
        /// The roles on this host.
        roles: WatchedRoles,
        /// Whether to report each second.
        live: bool,
    },
    /// Samples this host while another host sends a load → [`hoptax_run::Usage`]. Ends with [`Order::End`].
    Sample {
        /// The roles on this host.
        roles: WatchedRoles,
        /// Whether only the counters of the network are read, because another host samples this machine.
        only_network: bool,
        /// Whether to report the use of resources.
        live: bool,
    },
    /// Starts to record stacks → the number of the recording, `u64`.
    RecordStacks {
        /// The gateway.
        gateway: Watched,
        /// What is recorded.
        kind: PassKind,
        /// How to record stacks of the gateway.
        profiling: Profiling,
    },
    /// Ends a recording → [`hoptax_run::Recorded`].
    FinishStacks {
        /// Number of the recording.
        recording: u64,
        /// Slices of time, on the agent's clock.
        spans: Vec<Span>,
    },
    /// Size of a file of a service, 0 if there is none → `u64`.
    FileSize(PathBuf),
    /// Bandwidth of the loopback → `Option<Link>`.
    Bandwidth {
        /// Length of a message.
        message_bytes: u64,
    },
    /// Opens a receiver, to which another host measures a leg → [`ReceiverAddress`].
    OpenReceiver {
        /// Address of this host.
        address: IpAddr,
        /// The receiver is closed after this time.
        limit: Duration,
    },
    /// Measures the leg to a receiver → [`hoptax_record::LegLook`].
    MeasureLeg {
        /// The receiver.
        to: ReceiverAddress,
        /// Lengths of the messages.
        messages: Messages,
        /// Whether to measure the bandwidth too.
        with_bandwidth: bool,
    },
    /// Round trip between two CPUs, ns → `Option<f64>`.
    CpuRoundTrip([u32; 2]),
    /// The files that the run has left → `Vec<KeptFile>`.
    Files,
}

/// What can be asked about a service.
#[derive(Debug, Serialize, Deserialize)]
pub enum ServiceRequest {
    /// → `()`; fails if the service has ended.
    Check,
    /// → `()`.
    Stop,
    /// The service is not needed any more: stops and forgets it → `()`.
    Drop,
    /// → [`hoptax_lab::Observed`].
    Observe,
    /// → `Option<Result<Ledger, String>>`.
    Ledger,
    /// → `String`.
    LogTails,
    /// → `Option<u64>`, on the agent's clock.
    Began,
    /// → `Option<Watched>`.
    Process,
    /// → `Option<Result<RoleUsage, String>>`. Both moments are on the agent's clock.
    Used {
        /// Begin.
        from_ns: u64,
        /// End.
        to_ns: u64,
    },
    /// → `Result<Effect, String>`.
    Act(Action),
}

impl Request {
    /// The stage of a run that fails if this request has no answer.
    pub fn stage(&self) -> Stage {
        match self {
            Self::Hello(_)
            | Self::Inspect(_)
            | Self::Prepare(_)
            | Self::StartUpstream
            | Self::StartGateway { .. } => Stage::Start,
            Self::Verify(_) => Stage::Verify,
            _ => Stage::Trial,
        }
    }
}

/// An order for a request without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// A signal arrived: answer soon.
    Interrupt,
    /// All parts of a load begin to send at this moment of the agent's clock.
    Begin(u64),
    /// The measured time begins at this moment of the agent's clock.
    Align(u64),
    /// The measured time has ended.
    Look,
    /// The load has ended. Both moments are on the agent's clock.
    End {
        /// Begin of the measured time.
        from_ns: u64,
        /// End of the measured time.
        to_ns: u64,
    },
    /// Go on after an update.
    Continue,
}

/// News before an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Update {
    /// News of a trial.
    Trial(TrialUpdate),
    /// The first right answer has arrived.
    Ready,
}

/// The first request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// The runner's versions.
    pub versions: Versions,
    /// The run, for the lock of the host.
    pub run: RunId,
}

/// Identity of a run. Agents of one run may share a host; agents of different runs may not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunId {
    /// Random characters.
    pub id: String,
    /// Name of the run directory, or another name that users recognise.
    pub name: String,
    /// The runner: `process 4711 on laptop`.
    pub runner: String,
    /// Start of the run, in nanoseconds since the Unix epoch.
    pub started_unix_ns: u64,
}

impl RunId {
    /// The identity of a run of this process, which starts now.
    pub fn new(name: &str) -> Self {
        let (now, process) = (clock::unix(), std::process::id());
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self {
            id: format!("{:016x}", random::from_system()),
            name: name.to_owned(),
            runner: format!("process {process} on {host}"),
            started_unix_ns: now,
        }
    }
}

/// An agent's answer to [`Hello`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// Description of the machine, with CPUs that sleep while they are idle.
    pub environment: Environment,
    /// Names the machine, and the part of it that the agent sees. Two agents with the same value see the same
    /// processes.
    pub machine: String,
    /// Names the network namespace. Two such names can be compared only on the same machine.
    pub network: String,
    /// The clock. Agents with the same value have the same clock. Absent if the kernel does not report it.
    pub clock: Option<ClockId>,
    /// CPUs that the agent may use.
    pub cpus: Vec<u32>,
    /// Whether idle CPUs can be made to poll.
    pub can_poll: bool,
    /// The directory for the files of the run.
    pub directory: PathBuf,
}

/// The clocks of a host at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// `CLOCK_MONOTONIC`, ns.
    pub monotonic_ns: u64,
    /// Nanoseconds since the Unix epoch.
    pub unix_ns: u64,
}

/// Asks which gateways, limits and profiler a host has for a plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Inspect {
    /// The plan.
    pub plan: Plan,
    /// Texts of the packs that are not built in: for each pack, its files by name.
    pub packs: BTreeMap<String, BTreeMap<String, String>>,
    /// Whether to ask the gateways' programs for their versions.
    pub versions: bool,
}

/// Everything that an agent needs for a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Prepare {
    /// What idle CPUs of the host do during the run.
    pub idle: Idle,
    /// What the host needs to start services. Absent if it only sends load.
    pub services: Option<Services>,
}

/// What a host needs to start services.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Services {
    /// The plan. The paths in it are paths of this host.
    pub plan: Plan,
    /// The upstream's body, if the plan names a file of the runner's host.
    pub upstream_body: Option<Bytes>,
    /// Texts of the packs that are not built in: for each pack, its files by name.
    pub packs: BTreeMap<String, BTreeMap<String, String>>,
    /// CPUs of the roles on this host.
    pub cpus: CpuSets,
    /// Address of this host on which services listen. Absent for 127.0.0.1.
    pub address: Option<IpAddr>,
    /// The run's secrets. Absent if this host needs none.
    pub secrets: Option<Secrets>,
}

/// A service that an agent has started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// Number of the service.
    pub service: u64,
    /// Where it accepts requests.
    pub endpoints: Vec<Address>,
    /// Facts about the service. Their `change` has no credentials.
    pub facts: Facts,
    /// Whether the change had credentials.
    pub has_credentials: bool,
    /// Root of its process tree, if it is known already.
    pub process: Option<Watched>,
    /// Whether plans can have events for it.
    pub has_controller: bool,
    /// Whether it can reload its configuration.
    pub can_reload: bool,
    /// Addresses of an upstream's instances that use TLS.
    pub tls_upstreams: Vec<Address>,
}

/// Verifies a gateway from this host's point of view.
#[derive(Debug, Serialize, Deserialize)]
pub struct Verify {
    /// The requests to both sides.
    pub requests: Requests,
    /// Time limit for each answer.
    pub timeout: Duration,
    /// The upstream's instances.
    pub direct: Vec<Address>,
    /// The gateway.
    pub gateway: Address,
    /// What differs in requests to the gateway.
    pub change: Change,
    /// Credentials of the change, as clients have them.
    pub credentials: Option<Credentials>,
}

/// One request to a route of a gateway.
#[derive(Debug, Serialize, Deserialize)]
pub struct AskRoute {
    /// The gateway.
    pub address: SocketAddr,
    /// The requests that verified the gateway.
    pub requests: Requests,
    /// What differs in requests to this route.
    pub change: Change,
    /// Time limit for the answer.
    pub timeout: Duration,
}

/// The status of the answer, or why there is none.
pub type RouteAnswer = Result<u16, String>;

/// A file that a run has left on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFile {
    /// Path below the directory of the run, such as `logs/nginx/stderr.log`.
    pub path: PathBuf,
    /// Number of bytes at the beginning of the file that are left out, because the file is large.
    pub left_out: u64,
    /// The rest of the file.
    pub content: Bytes,
}

/// Bytes, in base64 in messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Self).map_err(serde::de::Error::custom)
    }
}
