//! What was typed, as plain structs: the parser and the JSON Schema both come from these, so they cannot drift apart.
//!
//! Values with units are still text here; [`super::meaning`] understands them, and reports every one that is wrong.

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

/// What to measure: one upstream, any number of gateways, one target, how to load it, how often.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "plan")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPlan {
    /// Names the run directory: letters, digits, `.`, `_` and `-`. Default: the plan's file name.
    #[schemars(with = "Option<Text>")]
    pub(crate) name: Option<Placed<String>>,
    /// The service behind the gateways. Default: the built-in one with its defaults.
    pub(crate) upstream: Option<Placed<RawUpstream>>,
    /// The systems under test: a pack's name, or a mapping that says more. Direct is always measured, too.
    pub(crate) gateways: Vec<Placed<Short<RawGateway>>>,
    /// What is requested: one target, or a list of them that the requests are shared among. Default: GET /.
    pub(crate) target: Option<Sweep<RawTarget>>,
    /// How it is requested. Each entry is one load point, or several where it sweeps over lists.
    pub(crate) load: Placed<Vec<Placed<RawLoad>>>,
    /// Rounds: every case is measured once in each. A number, `auto`, or a mapping that says how exactly. Default: 5.
    pub(crate) trials: Option<Placed<Short<RawTrials, TrialsText>>>,
    /// Traffic before the measured time of each trial, thrown away. Default: 2s.
    pub(crate) warmup: Option<Placed<Time>>,
    /// Quiet between trials. Default: 0s.
    pub(crate) pause: Option<Placed<Time>>,
    /// Given to each connect and to each request: a time, or a mapping of `connect`, `first_byte`, `total`. Default: 3s.
    pub(crate) timeout: Option<Placed<Short<RawTimeouts, Time>>>,
    /// Addresses of this machine that the generator connects from, in turn. Default: the kernel chooses.
    pub(crate) sources: Option<Vec<Placed<AddressText>>>,
    /// Which settings gateways get. Default: equalised.
    pub(crate) profile: Option<Profile>,
    /// Whether gateways write access logs. Default: off.
    pub(crate) access_log: Option<AccessLog>,
    /// Whether the upstream stamps its answers, which splits response times into request path and response path. Default: off.
    pub(crate) path_split: Option<PathSplit>,
    /// `auto`, or CPUs by role. Default: auto.
    pub(crate) cpus: Option<Placed<Short<RawCpus, Auto>>>,
    /// Start each gateway afresh for each of its trials, instead of once for the run. Default: false.
    pub(crate) isolate: Option<bool>,
    /// Decides the order of trials and the arrivals. Default: drawn, and recorded.
    pub(crate) seed: Option<u64>,
    /// What happens to gateways and upstream while trials are measured, at given times. Default: nothing.
    pub(crate) events: Option<Vec<Placed<RawEvent>>>,
    /// Limits whose breach makes `hoptax run` exit 3. Default: none.
    pub(crate) budget: Option<Vec<Placed<RawBudget>>>,
}

/// The service behind the gateways: the built-in one, or with `url` one that already runs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "upstream")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawUpstream {
    /// One that already runs, as http://host:port or https://host:port. Goes with `server_name` to `ledger` alone.
    pub(crate) url: Option<Placed<String>>,
    /// Name that its certificate is for. Default: the host of `url`, where that is a name.
    #[schemars(with = "Option<Text>")]
    pub(crate) server_name: Option<Placed<String>>,
    /// File of the certificates of those who may have signed its own, PEM; with https.
    #[schemars(with = "Option<Text>")]
    pub(crate) authority: Option<Placed<String>>,
    /// What gateways show to it, and direct's clients too unless there is a `token_file`; with https.
    pub(crate) client_certificate: Option<Placed<RawCertificate>>,
    /// File of one line, a bearer token that every request carries.
    #[schemars(with = "Option<Text>")]
    pub(crate) token_file: Option<Placed<String>>,
    /// A process of it whose CPU and memory are watched, with its descendants'.
    pub(crate) pid: Option<Placed<u32>>,
    /// Where it tells how many requests it has answered. Default: nowhere, so that there is no ledger.
    pub(crate) ledger: Option<Placed<RawLedger>>,
    /// Listeners, each with its own port and thread. Default: 1.
    pub(crate) instances: Option<Placed<u32>>,
    /// Status answered. Default: 200.
    pub(crate) status: Option<Placed<u16>>,
    /// Headers added to every answer; a list repeats the header. Default: none.
    pub(crate) headers: Option<Ordered<Sweep<Text>>>,
    /// Body answered: a size, or a mapping with one of `size`, `text`, `file`. Default: 1KiB.
    pub(crate) body: Option<Placed<Short<RawBody, Bytes>>>,
    /// How long each answer is held back. Default: 0ms.
    pub(crate) delay: Option<Placed<DelayText>>,
    /// Share of requests answered with 500 instead. Default: 0%.
    pub(crate) failures: Option<Placed<Share>>,
    /// First instance's port, the others' follow. Default: asked of the kernel.
    pub(crate) port: Option<Placed<u16>>,
}

/// A certificate chain and its private key, PEM; a relative path starts at the plan's directory.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "certificate")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCertificate {
    /// File of the chain, the client's own certificate first.
    #[schemars(with = "Text")]
    pub(crate) certificate: Placed<String>,
    /// File of its private key.
    #[schemars(with = "Text")]
    pub(crate) key: Placed<String>,
}

/// Counts that an upstream tells over HTTP.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "ledger")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLedger {
    /// Where it tells them, as http://host:port. Default: where it answers, asked as direct asks.
    pub(crate) url: Option<Placed<String>>,
    /// Path. Default: /metrics.
    #[schemars(with = "Option<Text>")]
    pub(crate) path: Option<Placed<String>>,
    /// What the answer is. Default: prometheus.
    pub(crate) kind: Option<SelectorKind>,
    /// What of it is a count of requests answered, one or a list to be added up, written as a pack's counters are.
    pub(crate) select: Sweep<Text>,
}

/// Bytes of an answer; exactly one key.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "body", transform = forms::one_key)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawBody {
    /// This many bytes of a fixed printable pattern.
    pub(crate) size: Option<Placed<Bytes>>,
    /// This text.
    pub(crate) text: Option<Placed<Text>>,
    /// The content of this file; a relative path starts at the plan's directory.
    #[schemars(with = "Option<Text>")]
    pub(crate) file: Option<Placed<String>>,
}

/// One system under test.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "gateway")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawGateway {
    /// A pack's name, `hop-l4`, `hop-l7`, or `external` for one that already runs.
    pub(crate) name: Placed<String>,
    /// Distinct name in this plan: letters, digits, `.`, `_` and `-`. Default: its name.
    #[schemars(with = "Option<Text>")]
    pub(crate) label: Option<Placed<String>>,
    /// Worker threads or processes. Default: 1.
    pub(crate) workers: Option<Placed<u32>>,
    /// One of the ways in which its pack configures it. Default: the first that the pack names.
    #[schemars(with = "Option<Text>")]
    pub(crate) variant: Option<Placed<String>>,
    /// Features switched on: a list; or `each`, which measures the gateway bare and with every feature of its pack alone;
    /// or `all-pairs`, which adds every two of them together. `hoptax gateways` lists what each pack offers. Default: none.
    pub(crate) features: Option<Placed<RawFeatures>>,
    /// What a pack's gateway runs in: processes of this machine, or a container. Default: process.
    pub(crate) driver: Option<Placed<RawDriver>>,
    /// The image of the container, instead of the pack's.
    #[schemars(with = "Option<Text>")]
    pub(crate) image: Option<Placed<String>>,
    /// Where an `external` one answers, as http://host:port or https://host:port.
    pub(crate) url: Option<Placed<String>>,
    /// Name that an `external` one's certificate is for. Default: the host of `url`, where that is a name.
    #[schemars(with = "Option<Text>")]
    pub(crate) server_name: Option<Placed<String>>,
    /// File of the certificates of those who may have signed it, PEM. Default: those that the system trusts.
    #[schemars(with = "Option<Text>")]
    pub(crate) authority: Option<Placed<String>>,
    /// What clients show to an `external` one over https.
    pub(crate) client_certificate: Option<Placed<RawCertificate>>,
    /// A process of an `external` one whose CPU and memory are watched, with its descendants'.
    pub(crate) pid: Option<Placed<u32>>,
    /// What `hop-l7` adds on purpose, so that a tax can be looked for whose size is known. Default: nothing.
    pub(crate) delay: Option<Placed<RawHopDelay>>,
}

/// What a pack's gateway runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "driver")]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawDriver {
    Process,
    Docker,
}

/// `each`, `all-pairs`, or features one by one.
pub(crate) type RawFeatures = Short<Vec<Placed<Short<RawFeature, FeatureText>>>, FeaturesText>;

/// A feature with its settings: exactly one of the features, and `ask` beside `routes`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "feature", extend("minProperties" = 1))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RawFeature {
    /// Tokens signed so: HS256 or RS256.
    pub(crate) jwt: Option<Placed<JwtText>>,
    /// Requests allowed per second: 1000/s. Default where only the name is given: more than any gateway carries.
    pub(crate) rate_limit: Option<Placed<SteadyRate>>,
    /// Routes, 1 to 10000.
    pub(crate) routes: Option<Placed<u32>>,
    /// Which of the routes is asked for. Default: middle.
    pub(crate) ask: Option<Placed<AskText>>,
    /// Consumers, 1 to 10000, each with credentials of its own; means `key-auth` where no other authentication is asked for.
    pub(crate) consumers: Option<Placed<u32>>,
    /// Instances of the upstream that requests go to in turn, at least 2.
    pub(crate) round_robin: Option<Placed<u32>>,
    /// How long the answer of a token review is remembered. Default where only the name is given: not at all.
    pub(crate) token_review: Option<Placed<Time>>,
}

/// A known delay. At least one of `in` and `out`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "hop-delay")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawHopDelay {
    /// How long a request is held back before it goes upstream. Default: 0ms.
    #[serde(rename = "in")]
    pub(crate) inbound: Option<Placed<Time>>,
    /// How long an answer is held back before it goes to the client. Default: 0ms.
    #[serde(rename = "out")]
    pub(crate) outbound: Option<Placed<Time>>,
    /// Share of the requests to which both happen, drawn by the seed. Default: 100%.
    pub(crate) share: Option<Placed<Share>>,
    /// Sleep: on a timer. Spin: by a busy CPU, for which other requests wait. Default: sleep.
    pub(crate) how: Option<HopDelayHow>,
}

/// Closed: each connection sends its next request when the previous response ends. Open: requests are due at scheduled
/// times whatever the responses do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "loop")]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawLoop {
    Closed,
    Open,
}

/// One way of loading. A list is a sweep; several lists give every combination, the first typed changing slowest.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "load")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLoad {
    /// When requests are due.
    #[serde(rename = "loop")]
    pub(crate) loops: Sweep<RawLoop>,
    /// Searches for the highest rate that each contender holds under an objective, instead of sending at one rate.
    pub(crate) search: Option<Placed<RawSearch>>,
    /// Connections.
    pub(crate) connections: Sweep<ConnectionCount>,
    /// Requests asked for per second, minute or hour over all connections: open loops need it, closed ones have none.
    /// A list of stages (`100/s for 10s`, `ramp to 5000/s over 60s`) is one rate that changes; a list of such lists is a
    /// sweep.
    pub(crate) rate: Option<Sweep<Short<Vec<Placed<StageText>>, Rate>>>,
    /// How the scheduled times of an open loop are spread. Default: constant.
    pub(crate) arrivals: Option<Sweep<ArrivalsText>>,
    /// Measured time of one trial; with stages, theirs. Default: 10s.
    pub(crate) duration: Option<Sweep<Time>>,
    /// Stop after this many requests, if that comes before the duration, which must then be given.
    pub(crate) requests: Option<Sweep<RequestCount>>,
    /// Whether connections are used again: on, off, or how many requests each carries. Default: on.
    pub(crate) keepalive: Option<Sweep<KeepAliveText>>,
    /// Version of HTTP: 1.0 or 1.1. Default: 1.1.
    pub(crate) http: Option<Sweep<HttpText>>,
}

/// A search for the highest rate that holds an objective, or of a frontier: the rates that hold several.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "search")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSearch {
    /// What must hold: `p99 < 10ms and errors < 0.1%`. A list is searched at once. Excludes `bounds`.
    pub(crate) slo: Option<Sweep<ObjectiveText>>,
    /// The frontier: the highest rates at which p99 stays below each of these, with fewer errors than 0.1%. Default, where
    /// there is no `slo`: 1ms, 5ms, 10ms, 50ms, 100ms.
    pub(crate) bounds: Option<Sweep<Time>>,
    /// Lowest rate tried.
    pub(crate) from: Placed<SteadyRate>,
    /// Highest rate tried.
    pub(crate) to: Placed<SteadyRate>,
    /// How well the rate is to be known: half of its interval over itself. Default: 5%.
    pub(crate) precision: Option<Placed<Share>>,
    /// Measured time of the longer trials that confirm. Default: twice the duration.
    pub(crate) confirm: Option<Placed<Time>>,
}

/// CPUs by role; a role that is left out is not pinned.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "cpus")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCpus {
    /// The generator's.
    pub(crate) generator: Option<Placed<CpuList>>,
    /// The gateways', all of them: only one is under load at a time.
    pub(crate) gateway: Option<Placed<CpuList>>,
    /// The upstream's.
    pub(crate) upstream: Option<Placed<CpuList>>,
}

/// Rounds go on until every headline tax is known well enough.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "trials")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTrials {
    /// Well enough: the half-width of the interval over the tax, or over direct's own figure where that is larger. Default: 5%.
    pub(crate) within: Option<Placed<Share>>,
    /// Longest time for all rounds. Default: 10m.
    pub(crate) at_most: Option<Placed<Time>>,
    /// Fewest rounds. Default: 5.
    pub(crate) least: Option<Placed<u32>>,
    /// Most rounds. Default: 30.
    pub(crate) most: Option<Placed<u32>>,
}

/// A limit on one metric.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "budget")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawBudget {
    /// A gateway's label. Default: every gateway.
    #[schemars(with = "Option<Text>")]
    pub(crate) gateway: Option<Placed<String>>,
    /// What is limited.
    pub(crate) metric: Placed<Metric>,
    /// At which load points: `{ loop: open, connections: 16 }`. Default: at all of them.
    pub(crate) load: Option<Placed<RawLoadSelector>>,
    /// The label, or `direct`, that a change such as +10% is relative to.
    #[schemars(with = "Option<Text>")]
    pub(crate) against: Option<Placed<String>>,
    /// Above this is a breach: a value, or with a sign a change, +10%.
    pub(crate) max: Option<Placed<Limit>>,
    /// Below this is a breach: a value, or with a sign a change, -5%.
    pub(crate) min: Option<Placed<Limit>>,
}

/// Selects load points: what is given must be so.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "load_selector")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLoadSelector {
    /// The loop.
    #[serde(rename = "loop")]
    pub(crate) loops: Option<RawLoop>,
    /// Connections.
    pub(crate) connections: Option<ConnectionCount>,
    /// Requests asked for per second, minute or hour; of stages their mean.
    pub(crate) rate: Option<Placed<Rate>>,
}

/// The JSON Schema (draft 2020-12) of plans, as `hoptax schema` prints it.
pub fn schema() -> serde_json::Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.into_generator().into_root_schema_for::<RawPlan>().to_value()
}
