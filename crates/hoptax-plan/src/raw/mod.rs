//! The YAML of a plan as plain structs. The parser and the JSON Schema are both derived from these structs,
//! so they always agree.
//!
//! Values with units are still text here; [`super::meaning`] parses them. Doc comments of keys become
//! descriptions in the schema, which editors show.

mod created;
mod event;
mod forms;
mod host;
mod llm;
mod load;
mod messages;
mod request;
mod texts;

pub(crate) use created::{
    RawDestroy, RawKubernetes, RawOutputs, RawTerraform, RawToleration, RawWatchedPods, RawWorkload,
};
pub(crate) use event::{RawAction, RawEvent};
pub(crate) use forms::{JsonText, Ordered, Placed, Short, Sweep};
pub(crate) use host::{RawCommand, RawHost, RawRoles};
pub(crate) use llm::{RawGoodput, RawLeave, RawLlm, RawLlmFailure, RawPause, RawPrompt, RawUpstreamLlm};
pub(crate) use load::{RawLoad, RawLoadSelector, RawLoop, RawRetry, RawSearch};
pub(crate) use messages::{
    RawEvents, RawMessage, RawUpstreamEvents, RawWebSocket, RawWebSocketCompression, RawWebSocketKind,
};
pub(crate) use request::{
    RawBodyExpect, RawCallKind, RawChunked, RawCompression, RawExpect, RawGrpc, RawHeaderFile, RawLength,
    RawRequestBody, RawTarget, RawTimeouts, RawWarmUp,
};
pub(crate) use texts::{
    AddressText, ApiText, ArrivalsText, AskText, Auto, Bytes, BytesText, ConnectionCount, CpuList,
    DeadlineText, DelayText, FeatureText, FeaturesText, HostAddress, HttpText, JwtText, KeepAliveText, Limit,
    ListenText, MessagesText, ObjectiveText, OnOffText, PrecisionText, ProxyText, Rate, RequestCount,
    SearchedText, Share, SizesText, StageText, StatusText, SteadyRate, StreamCount, Text, Time, TrialsText,
};

use super::selector::SelectorKind;
use super::{
    AccessLog, BodyKind, HopDeflate, HopDelayHow, HopWarmingFall, Idle, Metric, PathSplit, Profile,
    ProxyForm, Resolve,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// A plan says what to measure. It names the upstream, the gateways, the targets, the load, and the number of
/// rounds.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "plan", extend("anyOf" = [
    { "required": ["load"] },
    { "required": ["start"] },
    { "properties": { "gateways": { "contains": { "required": ["features"], "type": "object" } } } },
]))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPlan {
    /// Name of the plan. The name of the run directory contains it. Use letters, digits, `.`, `_` and `-`.
    /// Default: the plan's file name without extension.
    pub(crate) name: Option<Placed<String>>,
    /// The service behind the gateways. Default: the built-in upstream with its defaults.
    pub(crate) upstream: Option<Placed<RawUpstream>>,
    /// The systems under test. Each entry is the name of a pack, or a mapping with more settings. hoptax
    /// always measures direct too.
    pub(crate) gateways: Vec<Placed<Short<RawGateway>>>,
    /// The request to send: one target, or a list of targets that are mixed by weight. Default: GET /.
    pub(crate) target: Option<Sweep<RawTarget>>,
    /// The traffic that the targets represent. `hoptax import` writes it, and reports quote it.
    pub(crate) imported: Option<RawImported>,
    /// How requests are sent. Each entry is one load point. An entry that contains lists gives several load
    /// points. A plan with `start` has a default: an open loop with 1000/s over 32 connections. So has a plan
    /// with features: an open loop with 1000/s over 8 connections for times, and a closed loop with 16
    /// connections for CPU per request and throughput.
    pub(crate) load: Option<Placed<Vec<Placed<RawLoad>>>>,
    /// Measures starts of the gateways instead of trials: when a gateway is ready, how long its first
    /// requests take, and how long it needs under load until its response times have settled. `{}` means the
    /// defaults of all settings. The plan then has one load point, and cannot have `time`, `precision`,
    /// `trials`, `events`, `isolate`, `restarts`, `cpu_profile` or `tail`. Default: trials.
    pub(crate) start: Option<Placed<RawStart>>,
    /// Longest time for all rounds. hoptax measures as many short rounds as fit. Default: 3m.
    pub(crate) time: Option<Placed<Time>>,
    /// Precision at which rounds stop, even if `time` is not over. Every headline tax must have this
    /// precision. The precision is half the width of the tax's interval, given as a time or as a share. A
    /// share is relative to the larger of the tax and direct's figure. Default: 5%.
    pub(crate) precision: Option<Placed<PrecisionText>>,
    /// Number of rounds, instead of `time` and `precision`: a number, `auto`, or a mapping with the settings
    /// of `auto`. Each round measures every gateway once and direct twice, at each load point. Default: as
    /// many rounds as fit into `time`.
    pub(crate) trials: Option<Placed<Short<RawTrials, TrialsText>>>,
    /// Warm-up. A time is unmeasured traffic before each trial, and nothing more. A mapping warms each
    /// process up after its start until it has settled: until its CPU time per request and its response time
    /// have stopped falling. Default: at most 60s under load for each process, and 50ms before each trial (2s
    /// in a plan with `trials` or `events`).
    pub(crate) warmup: Option<Placed<Short<RawWarmUp, Time>>>,
    /// Time without traffic between trials. Default: 0s.
    pub(crate) pause: Option<Placed<Time>>,
    /// Timeout of each connect and of each request. Write one time, or a mapping with `connect`, `first_byte`
    /// and `total`. Default: 3s.
    pub(crate) timeout: Option<Placed<Short<RawTimeouts, Time>>>,
    /// Local addresses that the generator connects from. It uses the addresses in turn. Default: chosen by
    /// the kernel.
    pub(crate) sources: Option<Vec<Placed<AddressText>>>,
    /// Settings of the gateways: the same for all gateways (`equalised`), or as shipped (`stock`). Default:
    /// equalised.
    pub(crate) profile: Option<Profile>,
    /// Whether gateways write access logs. Default: off.
    pub(crate) access_log: Option<AccessLog>,
    /// Whether the upstream adds timestamps to responses. Reports then split the added time into request path
    /// and response path. Default: off.
    pub(crate) path_split: Option<PathSplit>,
    /// Whether passes after the rounds record stacks of the gateways with `perf`: `on`, or a mapping. Reports
    /// then show which functions use CPU time. Default: off.
    pub(crate) cpu_profile: Option<Placed<Short<RawCpuProfile, OnOffText>>>,
    /// Whether passes after the rounds record with `perf` who had the CPUs: `on`, or a mapping. Reports then
    /// say why requests beyond p99 took longer. Turns `path_split` on. Default: off.
    pub(crate) tail: Option<Placed<Short<RawTail, OnOffText>>>,
    /// CPUs of each role, or `auto`. `auto` splits four or more CPUs between the roles. It splits two or
    /// three CPUs if idle CPUs poll and each gateway has one worker. Otherwise nothing is pinned. Default:
    /// auto.
    pub(crate) cpus: Option<Placed<Short<RawCpus, Auto>>>,
    /// What idle CPUs do during the run: `poll` for work, or `sleep`. `auto` means `poll` if this user may
    /// request it. Default: auto.
    pub(crate) idle: Option<RawIdle>,
    /// Whether hoptax restarts a gateway before each of its trials. Otherwise each gateway starts once per
    /// run. Default: false.
    pub(crate) isolate: Option<Placed<bool>>,
    /// How often gateways are restarted between rounds, 0 to 100. Their rounds are then spread over this many
    /// processes and one more, with at least two rounds each. Default: 3 for gateways that generate code
    /// while they run (JVM, .NET, V8), 0 for others.
    pub(crate) restarts: Option<Placed<u32>>,
    /// Seed for the random order of trials and the random arrival times. Default: hoptax chooses a random
    /// seed and records it.
    pub(crate) seed: Option<u64>,
    /// Events during trials, such as a reload of the gateway or a restart of the upstream. Default: none.
    pub(crate) events: Option<Vec<Placed<RawEvent>>>,
    /// Limits for each request. Reports show how many requests per second exceed none of them. All targets
    /// must be streams of tokens, which the client does not leave. Default: none.
    pub(crate) goodput: Option<Placed<RawGoodput>>,
    /// Limits on metrics. `hoptax run` exits with 3 if a limit is exceeded. Default: none.
    pub(crate) budget: Option<Vec<Placed<RawBudget>>>,
    /// Hosts that roles run on, by name: machines, containers, pods or network namespaces. Each needs a role
    /// in `roles`. The name `local` is the machine that runs hoptax; declare it only to give its `address`.
    /// Default: only `local`.
    pub(crate) hosts: Option<Ordered<RawHost>>,
    /// The host of each role. Default: local.
    pub(crate) roles: Option<RawRoles>,
}

/// How starts of gateways are measured.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "start")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawStart {
    /// Number of rounds. Each round starts every gateway once for its first requests and once for the load.
    /// With fewer than 6 rounds there are no intervals. Default: 20.
    pub(crate) times: Option<Placed<u32>>,
    /// Duration of the load after each start. Default: 10s.
    #[serde(rename = "for")]
    pub(crate) duration: Option<Placed<Time>>,
    /// Whether hoptax also measures reloads, for gateways that can reload. Default: true.
    pub(crate) reload: Option<bool>,
}

/// How stacks of the gateways are recorded.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "cpu_profile")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCpuProfile {
    /// Number of rounds of passes. Each round profiles every gateway at every load point once. Default: 6.
    pub(crate) passes: Option<Placed<u32>>,
    /// Measured time of a pass. Default: 2s.
    #[serde(rename = "for")]
    pub(crate) duration: Option<Placed<Time>>,
}

/// How slow requests are explained.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "tail")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTail {
    /// Number of rounds of passes. Each round has direct and every gateway at every load point once. Default:
    /// 4.
    pub(crate) passes: Option<Placed<u32>>,
    /// Measured time of a pass. Default: 5s.
    #[serde(rename = "for")]
    pub(crate) duration: Option<Placed<Time>>,
}

/// What idle CPUs do during the run.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "idle")]
pub(crate) enum RawIdle {
    /// `poll` if this user may request it, `sleep` otherwise.
    Auto,
    /// Look for work all the time.
    Poll,
    /// Sleep until there is work.
    Sleep,
}

impl RawIdle {
    /// The value, unless hoptax decides.
    pub(crate) fn fixed(self) -> Option<Idle> {
        match self {
            Self::Auto => None,
            Self::Poll => Some(Idle::Poll),
            Self::Sleep => Some(Idle::Sleep),
        }
    }
}

/// The service behind the gateways. With `url`, it is a service that already runs. Without `url`, it is the
/// built-in upstream.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "upstream")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawUpstream {
    /// URL of an upstream that already runs: http://host:port, https://host:port, or http+unix:/path for a
    /// Unix socket. It can be combined only with `server_name`, `authority`, `insecure`,
    /// `client_certificate`, `token_file`, `resolve`, `pid` and `ledger`.
    #[schemars(with = "Option<String>")]
    pub(crate) url: Option<Placed<String>>,
    /// Name or IP address for which the upstream's certificate must be valid. Only with https. Default: the
    /// host of `url`. Gateways that hoptax starts need a DNS name.
    pub(crate) server_name: Option<Placed<String>>,
    /// PEM file with the certificate authorities that are trusted to sign the upstream's certificate, or with
    /// that certificate itself. Only with https. Gateways that hoptax starts need it. Default: the
    /// authorities that the system trusts.
    pub(crate) authority: Option<Placed<String>>,
    /// Accept any certificate of the upstream. Only with https, and not with gateways that hoptax starts.
    pub(crate) insecure: Option<Placed<bool>>,
    /// Client certificate that gateways present to the upstream. If there is no `token_file`, the generator
    /// presents the certificate too when it connects directly. Only with https.
    pub(crate) client_certificate: Option<Placed<RawCertificate>>,
    /// File with a bearer token on a single line. All requests carry the token.
    pub(crate) token_file: Option<Placed<String>>,
    /// If the host of `url` has several addresses: `all` that accept connections are used in turn, or only
    /// the `first`. Default: all.
    pub(crate) resolve: Option<Placed<Resolve>>,
    /// Version of the PROXY protocol's header that direct connections begin with: v1 or v2. Not with gateways
    /// that hoptax starts. Default: none.
    pub(crate) proxy_protocol: Option<Placed<ProxyText>>,
    /// Process id of the upstream. hoptax measures CPU and memory of this process and its descendants.
    pub(crate) pid: Option<Placed<u32>>,
    /// Where to read the upstream's own count of requests. Default: the count is not read.
    pub(crate) ledger: Option<Placed<RawLedger>>,
    /// Number of instances. Each instance is a listener with its own port and thread. Default: 1.
    pub(crate) instances: Option<Placed<u32>>,
    /// Status of responses. Default: 200.
    pub(crate) status: Option<Placed<u16>>,
    /// Headers of responses. If the value is a list, the header is repeated. Default: none.
    pub(crate) headers: Option<Ordered<Sweep<Text>>>,
    /// Body of responses: a size, or a mapping with one of `size`, `text` and `file`. Default: 1KiB, or no
    /// body if the status is 204 or 304.
    pub(crate) body: Option<Placed<Short<RawBody, Bytes>>>,
    /// Delay of each response. Default: 0ms.
    pub(crate) delay: Option<Placed<DelayText>>,
    /// Share of requests that get a response with status 500. Default: 0%.
    pub(crate) failures: Option<Placed<Share>>,
    /// Port of the first instance. The other instances use the ports after it. Default: chosen by the kernel.
    pub(crate) port: Option<Placed<u16>>,
    /// `unix` to listen on a Unix socket that hoptax creates and removes, or `unix:/path` to choose its path.
    /// Direct and the gateways then connect to the socket. Default: a port.
    pub(crate) listen: Option<Placed<ListenText>>,
    /// Answers to particular paths. Other requests get the answer that the keys above describe. Default:
    /// none.
    pub(crate) answers: Option<Vec<Placed<RawAnswer>>>,
    /// gRPC status of calls without an answer of their own, such as not-found. Default: ok.
    pub(crate) grpc_status: Option<Placed<Text>>,
    /// Server-sent events for requests that accept `text/event-stream`. All targets that are plain GETs then
    /// receive them. Default: none.
    pub(crate) events: Option<Placed<RawUpstreamEvents>>,
    /// A language model that the upstream plays, for targets with `llm`; `{}` is one with all APIs. Default:
    /// none.
    pub(crate) llm: Option<Placed<RawUpstreamLlm>>,
}

/// The traffic that `hoptax import` made the targets from.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "imported")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawImported {
    /// Name of the file.
    pub(crate) from: String,
    /// Number of requests in the file.
    pub(crate) requests: u64,
    /// Share of these requests that have a target of their own kind.
    pub(crate) represented: Placed<Share>,
}

/// What the built-in upstream answers to requests for one path. Answers with the same method and path are
/// drawn by weight.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "answer")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawAnswer {
    /// Method. Default: any.
    pub(crate) method: Option<Placed<String>>,
    /// Path without query. `*` is one or more characters other than `/`, as in /users/*. The most exact path
    /// is used.
    #[schemars(with = "String")]
    pub(crate) path: Placed<String>,
    /// Share of this answer among those with the same method and path: its weight ÷ the sum of their weights.
    /// Default: 1.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) weight: Option<Placed<u32>>,
    /// Status. Default: 200.
    pub(crate) status: Option<Placed<u16>>,
    /// Size of the body, or a distribution of sizes. Default: 1KiB, or no body if the status is 204 or 304.
    pub(crate) body: Option<Placed<SizesText>>,
    /// Delay. Default: 0ms.
    pub(crate) delay: Option<Placed<DelayText>>,
}

/// A certificate chain and its private key, as PEM files. Relative paths start from the plan's directory.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "certificate")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCertificate {
    /// File of the certificate chain. The client's certificate comes first.
    pub(crate) certificate: Placed<String>,
    /// File of the private key.
    pub(crate) key: Placed<String>,
}

/// How to ask an upstream, over HTTP, how many requests it has answered.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "ledger")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLedger {
    /// Address from which hoptax reads the count: http://host:port. Default: the upstream's URL, with the TLS
    /// settings and the token of direct requests.
    #[schemars(with = "Option<String>")]
    pub(crate) url: Option<Placed<String>>,
    /// Path to request. Default: /metrics.
    pub(crate) path: Option<Placed<String>>,
    /// Format of the response. Default: prometheus.
    pub(crate) kind: Option<SelectorKind>,
    /// Selects the count of answered requests. With a list of selectors, hoptax adds up the counts that they
    /// select. The syntax is the same as for counters in packs.
    pub(crate) select: Sweep<Text>,
}

/// Body of a response. Give exactly one of `size`, `text` and `file`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "body", transform = forms::one_of("size text file"))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawBody {
    /// Number of bytes. Without `kind`, the body is a fixed printable pattern of this length, which gzip
    /// compresses to 2 %.
    pub(crate) size: Option<Placed<Bytes>>,
    /// Fills the size with content that compresses like real content of this kind: text or json.
    pub(crate) kind: Option<Placed<BodyKind>>,
    /// The text of the body.
    pub(crate) text: Option<Placed<Text>>,
    /// File with the content of the body. A relative path starts from the plan's directory.
    pub(crate) file: Option<Placed<String>>,
}

/// One system under test.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "gateway")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawGateway {
    /// A pack's name, `hop-l4`, `hop-l7`, `hop-h2`, or `external` for a gateway that already runs.
    #[schemars(with = "String")]
    pub(crate) name: Placed<String>,
    /// Unique name in this plan: letters, digits, `.`, `_` and `-`. Default: `name`.
    pub(crate) label: Option<Placed<String>>,
    /// Worker threads or processes. Default: 1.
    pub(crate) workers: Option<Placed<u32>>,
    /// Configuration variant of the pack. Default: the first variant of the pack.
    pub(crate) variant: Option<Placed<String>>,
    /// List of features to enable, or `each`, or `all-pairs`. `each` measures the gateway without features
    /// and with each feature alone. `all-pairs` measures these and also every pair of features. `hoptax
    /// gateways` lists the features of packs. Default: none.
    pub(crate) features: Option<Placed<RawFeatures>>,
    /// Whether a pack's gateway runs as processes or in a container. Default: process.
    pub(crate) driver: Option<Placed<RawDriver>>,
    /// Container image, for the driver `docker`. A list measures each image as a gateway of its own. Default:
    /// the image that the pack names.
    pub(crate) image: Option<Sweep<Text>>,
    /// Version of the pack's program: hoptax starts the installed program that reports it. With the driver
    /// `docker`, the tag of the image. A list measures each version as a gateway of its own. Default: the
    /// first program on the PATH.
    pub(crate) version: Option<Sweep<Text>>,
    /// Path of the pack's program. A relative path starts from the plan's directory. A list measures each
    /// program as a gateway of its own. Default: the first program on the PATH.
    pub(crate) binary: Option<Sweep<Text>>,
    /// Builds the pack's program from commits of a git repository. Each ref is measured as a gateway of its
    /// own.
    pub(crate) git: Option<Placed<RawGit>>,
    /// URL of an `external` gateway: http://host:port or https://host:port.
    #[schemars(with = "Option<String>")]
    pub(crate) url: Option<Placed<String>>,
    /// Name or IP address for which the certificate of an `external` gateway must be valid. Only with https.
    /// Default: the host of `url`.
    pub(crate) server_name: Option<Placed<String>>,
    /// PEM file with the certificate authorities that are trusted to sign the certificate of an `external`
    /// gateway, or with that certificate itself. Only with https. Default: the authorities that the system
    /// trusts.
    pub(crate) authority: Option<Placed<String>>,
    /// Accept any certificate of an `external` gateway. Only with https.
    pub(crate) insecure: Option<Placed<bool>>,
    /// Client certificate that the generator presents to an `external` gateway. Only with https.
    pub(crate) client_certificate: Option<Placed<RawCertificate>>,
    /// File with a bearer token on a single line, for an `external` gateway. Default: the upstream's.
    pub(crate) token_file: Option<Placed<String>>,
    /// If an `external` gateway or `hop-l7` is a forward proxy, how requests ask it for the upstream:
    /// `forward` names the upstream's whole URL in each request, `connect` opens a tunnel for each
    /// connection.
    pub(crate) proxy: Option<Placed<ProxyForm>>,
    /// File with USER:PASSWORD on a single line, for a forward proxy. Needs `proxy`.
    pub(crate) proxy_credentials: Option<Placed<String>>,
    /// If the host of an `external` gateway's `url` has several addresses: `all` that accept connections are
    /// used in turn, or only the `first`. Default: all.
    pub(crate) resolve: Option<Placed<Resolve>>,
    /// Version of the PROXY protocol's header that connections to an `external` gateway begin with: v1 or v2.
    /// Default: none.
    pub(crate) proxy_protocol: Option<Placed<ProxyText>>,
    /// Process id of an `external` gateway. hoptax measures CPU and memory of this process and its
    /// descendants.
    pub(crate) pid: Option<Placed<u32>>,
    /// Where CPU and memory of an `external` gateway on another machine come from. Excludes `pid`.
    pub(crate) watch: Option<Placed<RawWatch>>,
    /// Label of a pack's gateway in this plan. This gateway is measured only if that other gateway is not
    /// installed, and then replaces it. Needs `not_comparable`.
    pub(crate) instead_of: Option<Placed<String>>,
    /// What cannot be compared if this gateway replaces the other one. The report quotes it. Needs
    /// `instead_of`.
    pub(crate) not_comparable: Option<Placed<String>>,
    /// HTTP version for upstreams: 1.1 or 2. Default: 2 for `hop-h2` and in plans with gRPC calls, otherwise
    /// 1.1. Only some packs have it.
    pub(crate) upstream_http: Option<Placed<HttpText>>,
    /// Known delay that `hop-l7` or `hop-h2` adds. Use it to check that hoptax measures a known tax
    /// correctly. Default: none.
    pub(crate) delay: Option<Placed<RawHopDelay>>,
    /// Known warm-up of `hop-l7` or `hop-h2`. Use it to check that hoptax detects when a gateway is warm.
    /// Default: none.
    pub(crate) warming: Option<Placed<RawHopWarming>>,
    /// Faults that `hop-h2` plants in gRPC calls. Use them to check that hoptax finds them. Default: none.
    pub(crate) faults: Option<Placed<RawHopFaults>>,
}

/// Whether a pack's gateway runs as processes or in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "driver")]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawDriver {
    Process,
    Docker,
}

/// Where CPU and memory of a gateway come from. Give exactly one of `prometheus` and `kubernetes`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "watch", transform = forms::one_of("prometheus kubernetes"))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawWatch {
    /// A Prometheus server that monitors the gateway.
    pub(crate) prometheus: Option<Placed<RawPrometheus>>,
    /// The gateway's pods in a Kubernetes cluster.
    pub(crate) kubernetes: Option<Placed<RawWatchedPods>>,
}

/// A Prometheus server that monitors a gateway.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "prometheus")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPrometheus {
    /// URL of the server: http://host:port.
    pub(crate) url: Placed<String>,
    /// Selector of counters of CPU time, in seconds, without functions. Their sum is the gateway's.
    pub(crate) cpu: Placed<String>,
    /// Selector of gauges of memory, in bytes, without functions. Their sum is the gateway's.
    pub(crate) memory: Placed<String>,
}

/// Builds of a program from commits.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "git")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawGit {
    /// Directory of the repository. A relative path starts from the plan's directory.
    pub(crate) repository: Placed<String>,
    /// Branches, tags or commits. hoptax builds each commit once, in a work tree of its own.
    pub(crate) refs: Sweep<Text>,
    /// Shell command that builds the program. It runs in the work tree of the commit.
    pub(crate) build: Placed<String>,
    /// Path of the built program in the work tree.
    pub(crate) binary: Placed<String>,
}

/// `each`, `all-pairs`, or features one by one.
pub(crate) type RawFeatures = Short<Vec<Placed<Short<RawFeature, FeatureText>>>, FeaturesText>;

/// A feature with its setting. Give exactly one feature. Only `routes` can have a second key: `ask`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "feature", extend("minProperties" = 1))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RawFeature {
    /// Signature algorithm of the tokens: HS256 or RS256.
    pub(crate) jwt: Option<Placed<JwtText>>,
    /// Maximum rate of requests that the gateway allows, such as 1000/s. Default: 1000000/s, which no gateway
    /// reaches.
    pub(crate) rate_limit: Option<Placed<SteadyRate>>,
    /// Number of configured routes, 1 to 10000.
    pub(crate) routes: Option<Placed<u32>>,
    /// Position of the route that is requested. Default: middle.
    pub(crate) ask: Option<Placed<AskText>>,
    /// Number of consumers, 1 to 10000. Each consumer has its own credentials. If no other authentication is
    /// enabled, hoptax enables `key-auth`.
    pub(crate) consumers: Option<Placed<u32>>,
    /// Version of the header that each connection begins with: v1 or v2. Default: v2.
    pub(crate) proxy_protocol: Option<Placed<ProxyText>>,
    /// Number of upstream instances that the gateway uses in turn. At least 2.
    pub(crate) round_robin: Option<Placed<u32>>,
    /// Time for which the gateway caches the result of a token review, in whole seconds. Default: no caching.
    pub(crate) token_review: Option<Placed<Time>>,
}

/// A known delay. Give at least one of `in`, `out` and `message`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "hop-delay")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawHopDelay {
    /// Delay of a request before the hop forwards it. Default: 0ms.
    #[serde(rename = "in")]
    pub(crate) inbound: Option<Placed<Time>>,
    /// Delay of a response before the hop sends it to the client. Default: 0ms.
    #[serde(rename = "out")]
    pub(crate) outbound: Option<Placed<Time>>,
    /// Delay of each gRPC message of a response. Only `hop-h2` has it. Default: 0ms.
    pub(crate) message: Option<Placed<Time>>,
    /// Share of requests to delay. The seed determines which requests are delayed. Default: 100%.
    pub(crate) share: Option<Placed<Share>>,
    /// What the hop does during the delay: wait on a timer (`sleep`), or keep the CPU busy, so that other
    /// requests wait (`spin`). Default: sleep.
    pub(crate) how: Option<HopDelayHow>,
}

/// A known warm-up. The first requests since the start of the hop cost extra CPU time.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "hop-warming")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawHopWarming {
    /// Number of requests after which the hop is warm, 1 to 1000000000.
    pub(crate) requests: Placed<RequestCount>,
    /// Extra CPU time of the first request, 1us to 1s.
    pub(crate) extra: Placed<Time>,
    /// How the extra time falls to zero: a bit with each request (`linear`), or at once after the last
    /// request of the warm-up (`step`). Default: linear.
    pub(crate) fall: Option<HopWarmingFall>,
}

/// Faults in gRPC calls (`hop-h2`), or in event streams and WebSockets (`hop-l7`). Give at least one. The
/// seed determines which messages and handshakes have a fault.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "hop-faults")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawHopFaults {
    /// Share of the messages or events of responses to drop. Default: 0%.
    pub(crate) drop: Option<Placed<Share>>,
    /// Share of the messages or events of responses to send twice. Default: 0%.
    pub(crate) repeat: Option<Placed<Share>>,
    /// How long to keep the first message of a response, and those that arrive after it. The hop then sends
    /// them together. `hop-l7` sends them at the end of the response at the latest. Default: 0ms.
    pub(crate) hold: Option<Placed<Time>>,
    /// `hop-h2`: remove the `grpc-timeout` of calls (`drop`), or write this time limit instead. Default: pass
    /// it.
    pub(crate) deadline: Option<Placed<DeadlineText>>,
    /// `hop-l7`: share of the events to merge with the next one. Default: 0%.
    pub(crate) merge: Option<Placed<Share>>,
    /// `hop-l7`: number of events to collect and then send together, 2 to 1000. The first event of a response
    /// does not wait. Default: send each.
    pub(crate) bunch: Option<Placed<u32>>,
    /// `hop-l7`: share of the handshakes of WebSockets to answer with status 502. Default: 0%.
    pub(crate) refuse: Option<Placed<Share>>,
    /// `hop-l7`: close WebSockets without a close frame, this long after their handshake. Default: never.
    pub(crate) cut: Option<Placed<Time>>,
    /// `hop-l7`: remove the extensions from handshakes of WebSockets (`drop`), so that their messages are not
    /// compressed. Default: pass them.
    pub(crate) deflate: Option<HopDeflate>,
    /// `hop-l7`: keep the first event of a response for this long, and those behind it. Default: 0ms.
    pub(crate) hold_first: Option<Placed<Time>>,
    /// `hop-l7`: end event streams that the upstream cuts with `data: [DONE]`. Default: false.
    pub(crate) false_end: Option<bool>,
    /// `hop-l7`: read responses to their end although the client has left. Default: false.
    pub(crate) ignore_abort: Option<bool>,
    /// `hop-l7`: number of times to send a request again that was answered with 429 or 5xx, up to 100.
    /// Default: 0.
    pub(crate) retry: Option<u32>,
    /// `hop-l7`: change `completion_tokens` and `output_tokens` in responses. Default: false.
    pub(crate) rewrite_usage: Option<bool>,
    /// `hop-l7`: add a field to the JSON of requests. Default: false.
    pub(crate) add_field: Option<bool>,
    /// `hop-l7`: add a field to the JSON of responses that are not streamed. Default: false.
    pub(crate) alter_response: Option<bool>,
    /// `hop-l7`: drop the comments between events. Default: false.
    pub(crate) drop_comments: Option<bool>,
    /// `hop-l7`: read all that the upstream sends, although the client does not read. Default: false.
    pub(crate) unbounded: Option<bool>,
}

/// CPUs of each role. hoptax does not pin a role that is not listed.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "cpus")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCpus {
    /// CPUs of the generator.
    pub(crate) generator: Option<Placed<CpuList>>,
    /// CPUs of the gateways. All gateways share these CPUs, because only one gateway is under load at a time.
    pub(crate) gateway: Option<Placed<CpuList>>,
    /// CPUs of the upstream.
    pub(crate) upstream: Option<Placed<CpuList>>,
}

/// Settings of `auto`. Rounds continue until every headline tax is precise enough.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "trials")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTrials {
    /// Required precision: half the width of the interval, as a share of the larger of the tax and direct's
    /// figure. Default: 5%.
    pub(crate) within: Option<Placed<Share>>,
    /// Maximum time for all rounds together. Default: 10m.
    pub(crate) at_most: Option<Placed<Time>>,
    /// Minimum number of rounds. Default: 5.
    pub(crate) least: Option<Placed<u32>>,
    /// Maximum number of rounds. Default: 30.
    pub(crate) most: Option<Placed<u32>>,
}

/// A limit on one metric.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "budget")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawBudget {
    /// Label of the gateway that the limit applies to. Default: every gateway.
    pub(crate) gateway: Option<Placed<String>>,
    /// Metric that the limit applies to.
    pub(crate) metric: Placed<Metric>,
    /// Load points that the limit applies to, such as `{ loop: open, connections: 16 }`. Default: all load
    /// points.
    pub(crate) load: Option<Placed<RawLoadSelector>>,
    /// Reference of a relative limit such as +10%: a gateway's label, or `direct`.
    pub(crate) against: Option<Placed<String>>,
    /// Highest allowed value in the metric's unit, or a change with a sign, such as +10%.
    pub(crate) max: Option<Placed<Limit>>,
    /// Lowest allowed value in the metric's unit, or a change with a sign, such as -5%.
    pub(crate) min: Option<Placed<Limit>>,
}

/// The JSON Schema (draft 2020-12) of plans, as `hoptax generate schema` prints it.
pub fn schema() -> serde_json::Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.into_generator().into_root_schema_for::<RawPlan>().to_value()
}
