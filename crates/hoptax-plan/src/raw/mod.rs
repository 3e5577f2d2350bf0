//! The YAML of a plan as plain structs. The parser and the JSON Schema are both derived from these structs, so they
//! always agree.
//!
//! Values with units are still text here; [`super::meaning`] parses them. Doc comments of keys become descriptions in
//! the schema, which editors show.

mod event;
mod forms;
mod request;
mod texts;

pub(crate) use event::{RawAction, RawEvent};
pub(crate) use forms::{Ordered, Placed, Short, Sweep};
pub(crate) use request::{RawBodyExpect, RawExpect, RawLength, RawRequestBody, RawTarget, RawTimeouts};
pub(crate) use texts::{
    AddressText, ArrivalsText, AskText, Auto, Bytes, ConnectionCount, CpuList, DelayText, FeatureText,
    FeaturesText, HttpText, JwtText, KeepAliveText, Limit, ObjectiveText, Rate, RequestCount, Share,
    StageText, StatusText, SteadyRate, Text, Time, TrialsText,
};

use super::selector::SelectorKind;
use super::{AccessLog, HopDelayHow, Metric, PathSplit, Profile};
use schemars::JsonSchema;
use serde::Deserialize;

/// What to measure: an upstream, gateways, targets, load, and the number of rounds.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "plan")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPlan {
    /// Name of the run directory: letters, digits, `.`, `_` and `-`. Default: the plan's file name without extension.
    #[schemars(with = "Option<Text>")]
    pub(crate) name: Option<Placed<String>>,
    /// The service behind the gateways. Default: the built-in upstream with its defaults.
    pub(crate) upstream: Option<Placed<RawUpstream>>,
    /// The systems under test: names of packs, or mappings with more settings. Direct is always measured too.
    pub(crate) gateways: Vec<Placed<Short<RawGateway>>>,
    /// The request: one target, or a list of targets as a weighted mix. Default: GET /.
    pub(crate) target: Option<Sweep<RawTarget>>,
    /// How requests are sent. Each entry is one load point, or several if it has lists.
    pub(crate) load: Placed<Vec<Placed<RawLoad>>>,
    /// Rounds: a number, `auto`, or a mapping with settings of `auto`. Each round measures every case once. Default: 5.
    pub(crate) trials: Option<Placed<Short<RawTrials, TrialsText>>>,
    /// Time of unmeasured traffic before each trial. Default: 2s.
    pub(crate) warmup: Option<Placed<Time>>,
    /// Time without traffic between trials. Default: 0s.
    pub(crate) pause: Option<Placed<Time>>,
    /// Timeout of each connect and each request: a time, or a mapping of `connect`, `first_byte`, `total`. Default: 3s.
    pub(crate) timeout: Option<Placed<Short<RawTimeouts, Time>>>,
    /// Local addresses that the generator connects from, in turn. Default: chosen by the kernel.
    pub(crate) sources: Option<Vec<Placed<AddressText>>>,
    /// Settings of gateways: the same for all (equalised) or as shipped (stock). Default: equalised.
    pub(crate) profile: Option<Profile>,
    /// Whether gateways write access logs. Default: off.
    pub(crate) access_log: Option<AccessLog>,
    /// Whether the upstream stamps responses, which splits the added time into request path and response path. Default:
    /// off.
    pub(crate) path_split: Option<PathSplit>,
    /// CPUs of each role, or `auto`. Default: auto.
    pub(crate) cpus: Option<Placed<Short<RawCpus, Auto>>>,
    /// Restart each gateway for each of its trials, instead of starting it once per run. Default: false.
    pub(crate) isolate: Option<bool>,
    /// Seed of the order of trials and of arrivals. Default: random, and recorded.
    pub(crate) seed: Option<u64>,
    /// Events that happen to gateways and upstream during trials. Default: none.
    pub(crate) events: Option<Vec<Placed<RawEvent>>>,
    /// Limits. If one is exceeded, `hoptax run` exits with 3. Default: none.
    pub(crate) budget: Option<Vec<Placed<RawBudget>>>,
}

/// The service behind the gateways: the built-in upstream, or with `url` one that already runs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "upstream")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawUpstream {
    /// URL of an upstream that already runs: http://host:port or https://host:port. Can be combined only with
    /// `server_name`,
    /// `authority`, `client_certificate`, `token_file`, `pid` and `ledger`.
    pub(crate) url: Option<Placed<String>>,
    /// Name in the upstream's certificate. Default: the host of `url`, if it is a name.
    #[schemars(with = "Option<Text>")]
    pub(crate) server_name: Option<Placed<String>>,
    /// PEM file of the authorities that can have issued the upstream's certificate. Required with https.
    #[schemars(with = "Option<Text>")]
    pub(crate) authority: Option<Placed<String>>,
    /// Certificate that gateways present to the upstream; direct's clients too, unless there is a `token_file`. With
    /// https.
    pub(crate) client_certificate: Option<Placed<RawCertificate>>,
    /// File with one line: a bearer token that all requests carry.
    #[schemars(with = "Option<Text>")]
    pub(crate) token_file: Option<Placed<String>>,
    /// Process of the upstream whose CPU and memory are measured, with its descendants.
    pub(crate) pid: Option<Placed<u32>>,
    /// Where to read the upstream's own count of requests. Default: there is no ledger.
    pub(crate) ledger: Option<Placed<RawLedger>>,
    /// Listeners, each with its own port and thread. Default: 1.
    pub(crate) instances: Option<Placed<u32>>,
    /// Status of responses. Default: 200.
    pub(crate) status: Option<Placed<u16>>,
    /// Headers of responses; a list repeats the header. Default: none.
    pub(crate) headers: Option<Ordered<Sweep<Text>>>,
    /// Body of responses: a size, or a mapping with one of `size`, `text`, `file`. Default: 1KiB.
    pub(crate) body: Option<Placed<Short<RawBody, Bytes>>>,
    /// Delay of each response. Default: 0ms.
    pub(crate) delay: Option<Placed<DelayText>>,
    /// Share of requests that get status 500. Default: 0%.
    pub(crate) failures: Option<Placed<Share>>,
    /// Port of the first instance; the others follow. Default: chosen by the kernel.
    pub(crate) port: Option<Placed<u16>>,
}

/// A certificate chain and its private key, as PEM files. Relative paths start from the plan's directory.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "certificate")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCertificate {
    /// File of the chain, the client's certificate first.
    #[schemars(with = "Text")]
    pub(crate) certificate: Placed<String>,
    /// File of the private key.
    #[schemars(with = "Text")]
    pub(crate) key: Placed<String>,
}

/// How to read an upstream's count of requests over HTTP.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "ledger")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLedger {
    /// Place to read from, as http://host:port. Default: the upstream's URL, with direct's TLS and token.
    pub(crate) url: Option<Placed<String>>,
    /// Path to request. Default: /metrics.
    #[schemars(with = "Option<Text>")]
    pub(crate) path: Option<Placed<String>>,
    /// Format of the response. Default: prometheus.
    pub(crate) kind: Option<SelectorKind>,
    /// Selects the count of answered requests. A list is added up. Same syntax as counters of packs.
    pub(crate) select: Sweep<Text>,
}

/// Body of a response; exactly one key.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "body", transform = forms::one_key)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawBody {
    /// This many bytes of a fixed printable pattern.
    pub(crate) size: Option<Placed<Bytes>>,
    /// This text.
    pub(crate) text: Option<Placed<Text>>,
    /// The content of this file. A relative path starts from the plan's directory.
    #[schemars(with = "Option<Text>")]
    pub(crate) file: Option<Placed<String>>,
}

/// One system under test.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "gateway")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawGateway {
    /// A pack's name, `hop-l4`, `hop-l7`, or `external` for a gateway that already runs.
    pub(crate) name: Placed<String>,
    /// Unique name in this plan: letters, digits, `.`, `_` and `-`. Default: `name`.
    #[schemars(with = "Option<Text>")]
    pub(crate) label: Option<Placed<String>>,
    /// Worker threads or processes. Default: 1.
    pub(crate) workers: Option<Placed<u32>>,
    /// Configuration variant of the pack. Default: the pack's first.
    #[schemars(with = "Option<Text>")]
    pub(crate) variant: Option<Placed<String>>,
    /// Features to enable: a list; `each` for the gateway without features and with each one alone; or `all-pairs` for
    /// every two together as well. `hoptax gateways` lists the features of packs. Default: none.
    pub(crate) features: Option<Placed<RawFeatures>>,
    /// Whether a pack's gateway runs as processes or in a container. Default: process.
    pub(crate) driver: Option<Placed<RawDriver>>,
    /// Image of the container. Default: the pack's.
    #[schemars(with = "Option<Text>")]
    pub(crate) image: Option<Placed<String>>,
    /// URL of an `external` gateway: http://host:port or https://host:port.
    pub(crate) url: Option<Placed<String>>,
    /// Name in the certificate of an `external` gateway. Default: the host of `url`, if it is a name.
    #[schemars(with = "Option<Text>")]
    pub(crate) server_name: Option<Placed<String>>,
    /// PEM file of the authorities that can have issued that certificate. Default: the system's.
    #[schemars(with = "Option<Text>")]
    pub(crate) authority: Option<Placed<String>>,
    /// Certificate that clients present to an `external` gateway over https.
    pub(crate) client_certificate: Option<Placed<RawCertificate>>,
    /// Process of an `external` gateway whose CPU and memory are measured, with its descendants.
    pub(crate) pid: Option<Placed<u32>>,
    /// Known delay that `hop-l7` adds, to check that hoptax finds a tax of known size. Default: none.
    pub(crate) delay: Option<Placed<RawHopDelay>>,
}

/// Whether a pack's gateway runs as processes or in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "driver")]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawDriver {
    Process,
    Docker,
}

/// `each`, `all-pairs`, or features one by one.
pub(crate) type RawFeatures = Short<Vec<Placed<Short<RawFeature, FeatureText>>>, FeaturesText>;

/// A feature with its setting: exactly one feature, and optionally `ask` with `routes`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "feature", extend("minProperties" = 1))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RawFeature {
    /// Signature of tokens: HS256 or RS256.
    pub(crate) jwt: Option<Placed<JwtText>>,
    /// Allowed requests, such as 1000/s. Default: 1000000/s, which no gateway reaches.
    pub(crate) rate_limit: Option<Placed<SteadyRate>>,
    /// Number of routes, 1 to 10000.
    pub(crate) routes: Option<Placed<u32>>,
    /// Which of the routes is requested. Default: middle.
    pub(crate) ask: Option<Placed<AskText>>,
    /// Number of consumers, 1 to 10000, each with its own credentials. Adds `key-auth` if there is no other
    /// authentication.
    pub(crate) consumers: Option<Placed<u32>>,
    /// Number of upstream instances to use in turn, at least 2.
    pub(crate) round_robin: Option<Placed<u32>>,
    /// How long token reviews are cached, in whole seconds. Default: not at all.
    pub(crate) token_review: Option<Placed<Time>>,
}

/// A known delay: `in`, `out` or both.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "hop-delay")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawHopDelay {
    /// Delay of requests before they are forwarded. Default: 0ms.
    #[serde(rename = "in")]
    pub(crate) inbound: Option<Placed<Time>>,
    /// Delay of responses before they are sent to the client. Default: 0ms.
    #[serde(rename = "out")]
    pub(crate) outbound: Option<Placed<Time>>,
    /// Share of requests to delay, drawn by the seed. Default: 100%.
    pub(crate) share: Option<Placed<Share>>,
    /// Sleep: wait on a timer. Spin: keep the CPU busy, so that other requests wait. Default: sleep.
    pub(crate) how: Option<HopDelayHow>,
}

/// Closed: each connection sends its next request when the previous response ends. Open: requests are due at scheduled
/// times, even if responses are late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "loop")]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawLoop {
    Closed,
    Open,
}

/// A load point. A list is a sweep; several lists give all combinations, and the first list changes slowest.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "load")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLoad {
    /// When requests are due.
    #[serde(rename = "loop")]
    pub(crate) loops: Sweep<RawLoop>,
    /// Search for the highest rate of each contender under an objective, instead of one rate.
    pub(crate) search: Option<Placed<RawSearch>>,
    /// Number of connections.
    pub(crate) connections: Sweep<ConnectionCount>,
    /// Scheduled requests per second, minute or hour, over all connections. Only for open loops, which need it.
    /// A list of stages (`100/s for 10s`, `ramp to 5000/s over 60s`) is one rate that changes; a list of such lists is
    /// a sweep.
    pub(crate) rate: Option<Sweep<Short<Vec<Placed<StageText>>, Rate>>>,
    /// Spacing of an open loop's scheduled requests. Default: constant.
    pub(crate) arrivals: Option<Sweep<ArrivalsText>>,
    /// Measured time of one trial. Default: 10s, or the length of the stages.
    pub(crate) duration: Option<Sweep<Time>>,
    /// Stop after this many requests. Needs a `duration` as limit.
    pub(crate) requests: Option<Sweep<RequestCount>>,
    /// Whether connections are reused: on, off, or the number of requests per connection. Default: on.
    pub(crate) keepalive: Option<Sweep<KeepAliveText>>,
    /// HTTP version: 1.0 or 1.1. Default: 1.1.
    pub(crate) http: Option<Sweep<HttpText>>,
}

/// A search for the highest rate under an objective, or under several (a frontier).
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "search")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSearch {
    /// Objective, such as `p99 < 10ms and errors < 0.1%`, or a list of objectives. Excludes `bounds`.
    pub(crate) slo: Option<Sweep<ObjectiveText>>,
    /// Bounds on p99: finds the highest rate below each bound, with errors below 0.1%. Default, if there is no `slo`:
    /// 1ms,
    /// 5ms, 10ms, 50ms, 100ms.
    pub(crate) bounds: Option<Sweep<Time>>,
    /// Lowest rate tried.
    pub(crate) from: Placed<SteadyRate>,
    /// Highest rate tried.
    pub(crate) to: Placed<SteadyRate>,
    /// Precision of the rate: half of its interval as a share of the rate. Default: 5%.
    pub(crate) precision: Option<Placed<Share>>,
    /// Measured time of the confirming trials. Default: twice the duration.
    pub(crate) confirm: Option<Placed<Time>>,
}

/// CPUs of each role. A role without CPUs is not pinned.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "cpus")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCpus {
    /// CPUs of the generator.
    pub(crate) generator: Option<Placed<CpuList>>,
    /// CPUs of all gateways; only one is under load at a time.
    pub(crate) gateway: Option<Placed<CpuList>>,
    /// CPUs of the upstream.
    pub(crate) upstream: Option<Placed<CpuList>>,
}

/// Settings of `auto`: rounds continue until every headline tax is precise enough.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "trials")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTrials {
    /// Precision: half of the interval as a share of the tax, or of direct's figure if that is larger. Default: 5%.
    pub(crate) within: Option<Placed<Share>>,
    /// Longest time for all rounds. Default: 10m.
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
    /// Label of the gateway. Default: every gateway.
    #[schemars(with = "Option<Text>")]
    pub(crate) gateway: Option<Placed<String>>,
    /// The limited metric.
    pub(crate) metric: Placed<Metric>,
    /// Selects load points, such as `{ loop: open, connections: 16 }`. Default: all.
    pub(crate) load: Option<Placed<RawLoadSelector>>,
    /// Reference of a change such as +10%: a label, or `direct`.
    #[schemars(with = "Option<Text>")]
    pub(crate) against: Option<Placed<String>>,
    /// Highest allowed value in the metric's unit, or a change with a sign, such as +10%.
    pub(crate) max: Option<Placed<Limit>>,
    /// Lowest allowed value in the metric's unit, or a change with a sign, such as -5%.
    pub(crate) min: Option<Placed<Limit>>,
}

/// Selects load points. All given keys must match.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "load_selector")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLoadSelector {
    /// Kind of loop.
    #[serde(rename = "loop")]
    pub(crate) loops: Option<RawLoop>,
    /// Number of connections.
    pub(crate) connections: Option<ConnectionCount>,
    /// Rate; for stages their mean.
    pub(crate) rate: Option<Placed<Rate>>,
}

/// The JSON Schema (draft 2020-12) of plans, as `hoptax schema` prints it.
pub fn schema() -> serde_json::Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.into_generator().into_root_schema_for::<RawPlan>().to_value()
}
