//! The types of `gateway.yaml`, a pack's description of its gateway, before any value is interpreted.
//!
//! `docs/reference/packs.md` describes every key, and a test checks this. A string that is called *template*
//! below may use the variables of [`crate::render::Variables`].

use crate::legs::Legs;
use hoptax_format::spec::HttpVersion;
use hoptax_plan::selector::SelectorKind;
use hoptax_plan::{ClientHttp2, Feature, LlmGateway, ProxyForm};
use hoptax_record::profile::Callers;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// Key under `unsupported` for all features that the pack does not name.
const OTHER_FEATURES: &str = "*";

/// The content of a `gateway.yaml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Name of the gateway in plans; the same as the folder's name.
    pub name: String,
    /// Description of the gateway in one line.
    pub summary: String,
    /// The gateway's web site.
    #[serde(default)]
    pub homepage: Option<String>,
    /// Name of the gateway's program.
    pub binary: String,
    /// Files that the gateway requires. Each has a name for templates, and a list of its possible paths.
    #[serde(default)]
    pub needs: BTreeMap<String, Vec<String>>,
    /// How to get the gateway's version.
    pub version: VersionCommand,
    /// Installation commands by distribution or package manager. The key `note` is free text.
    #[serde(default)]
    pub install: BTreeMap<String, String>,
    /// A project in the pack's folder that builds the gateway, for gateways that have no package.
    #[serde(default)]
    pub build: Option<Build>,
    /// The last time that this pack was tested with its gateway. Absent if the pack was written from
    /// documentation and never tested.
    #[serde(default)]
    pub last_run_for_real: Option<LastRun>,
    /// Files to render before the gateway starts.
    #[serde(default)]
    pub files: Vec<FileTemplate>,
    /// Command and arguments. Each is a template. An argument that renders to an empty text is left out.
    pub start: Vec<String>,
    /// Environment variables; values are templates.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// How to start the gateway in a container; absent if no image is known.
    #[serde(default)]
    pub docker: Option<DockerStart>,
    /// How to stop the gateway.
    #[serde(default)]
    pub stop: Stop,
    /// How a running gateway reloads its configuration. Absent if the gateway cannot reload;
    /// `unsupported.reload` can then give the reason.
    #[serde(default)]
    pub reload: Option<Reload>,
    /// How to check that the gateway is ready.
    pub ready: Ready,
    /// Where the gateway writes its access log. Absent if it writes no access log; `unsupported` then gives
    /// the reason.
    #[serde(default)]
    pub access_log: Option<AccessLogTo>,
    /// How many descriptors the gateway needs, and which processes share one descriptor limit.
    #[serde(default)]
    pub limits: Limits,
    /// Whether the gateway has no setting for its parallelism. In the profile `equalised`, hoptax limits such
    /// a gateway to n CPUs if other gateways have n workers.
    #[serde(default)]
    pub held_to_cpus: bool,
    /// Path of the page on the admin port that monitoring reads. Events can read it during trials.
    #[serde(default)]
    pub metrics: Option<String>,
    /// The gateway's own counters, read before and after each trial.
    #[serde(default)]
    pub counters: Vec<CounterSpec>,
    /// Features that the gateway supports.
    #[serde(default)]
    pub features: Vec<String>,
    /// When clients use TLS.
    #[serde(default)]
    pub tls: TlsUse,
    /// Whether the gateway speaks HTTP/2 with clients. Its templates then use `http2`.
    #[serde(default)]
    pub http2: ClientHttp2,
    /// Whether the gateway can speak HTTP/2 to upstreams. Its templates then use `upstream_http2`. Otherwise,
    /// `unsupported.upstream_http2` can give the reason.
    #[serde(default)]
    pub upstream_http2: bool,
    /// Alternative configurations of the gateway. A plan selects one; the default is the first. Empty if
    /// there is only one configuration.
    #[serde(default)]
    pub variants: Vec<String>,
    /// The variants in which the gateway is a forward proxy, and how requests ask it.
    #[serde(default)]
    pub proxy: BTreeMap<String, ProxyForm>,
    /// Ports of a sidecar, which intercepts traffic without any change to the application or the client.
    #[serde(default)]
    pub intercept: Option<Intercept>,
    /// Whether the gateway passes gRPC calls to the upstream over HTTP/2, although it speaks HTTP/1 there
    /// otherwise. Its templates then use `grpc`. A gateway with `upstream_http2` passes calls without this
    /// key, unless `unsupported.grpc` gives a reason why not.
    #[serde(default)]
    pub grpc: bool,
    /// Whether the gateway passes WebSockets. Its templates then use `websocket`.
    #[serde(default)]
    pub websocket: bool,
    /// Whether the gateway passes each server-sent event as soon as it arrives. Its templates then use `sse`.
    #[serde(default)]
    pub sse: bool,
    /// What the gateway needs, if it passes only requests to language models. Absent if it passes all
    /// requests.
    #[serde(default)]
    pub llm: Option<LlmGateway>,
    /// The same for single variants, by name. It replaces `llm`.
    #[serde(default)]
    pub llm_variants: BTreeMap<String, LlmGateway>,
    /// Answers to requests that a feature refuses, by the name of the feature. Without an entry, the status
    /// is 401.
    #[serde(default)]
    pub refusals: BTreeMap<String, Refusal>,
    /// Whether the gateway can forward to a Unix socket. Its templates then use `upstream.socket`.
    #[serde(default)]
    pub unix_upstream: bool,
    /// Reasons why features, `workers`, `access_log`, `upstream_http2`, `grpc`, `websocket` or `sse` are
    /// unsupported, by the name of the feature or setting. `*` is replaced when the pack is loaded: all
    /// features that the pack does not name get its reason.
    #[serde(default)]
    pub unsupported: BTreeMap<String, String>,
    /// Known differences between the gateway's responses and direct's responses, in the words of `hoptax
    /// lint`.
    #[serde(default)]
    pub differences: Vec<Difference>,
    /// How to profile the gateway.
    #[serde(default)]
    pub profiling: Profiling,
    /// Settings that differ from the gateway's shipped defaults.
    #[serde(default)]
    pub settings: Settings,
}

impl Manifest {
    /// Gives the reason `*` under `unsupported` to each feature that the pack does not name.
    pub(crate) fn spread_reason(&mut self) {
        let Some(reason) = self.unsupported.remove(OTHER_FEATURES) else { return };
        for name in Feature::NAMES {
            if !self.features.iter().any(|feature| feature == name) {
                self.unsupported.entry(name.to_owned()).or_insert_with(|| reason.clone());
            }
        }
    }

    /// What this variant needs, if it passes only requests to language models.
    pub fn llm_of(&self, variant: Option<&str>) -> Option<&LlmGateway> {
        variant.and_then(|variant| self.llm_variants.get(variant)).or(self.llm.as_ref())
    }

    /// Names of the response headers that the gateway changes, in lower case, with the reasons.
    pub fn changed_headers(&self) -> BTreeMap<String, String> {
        let named = |one: &Difference| Some((one.header.as_ref()?.to_ascii_lowercase(), one.reason.clone()));
        self.differences.iter().filter_map(named).collect()
    }
}

/// A known difference from direct: in a case of `hoptax lint`, or in a header.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Name of the conformance case; empty if `header` is set. [`crate::conformance::names`] lists all cases.
    #[serde(default)]
    pub case: String,
    /// The difference in the words of `hoptax lint`; empty if `header` is set.
    #[serde(default)]
    pub what: String,
    /// The version of HTTP in which the difference occurs. Absent if it occurs in each version that has the
    /// case.
    #[serde(default, deserialize_with = "version")]
    pub http: Option<HttpVersion>,
    /// The version of HTTP that the gateway speaks to the upstream when the difference occurs. Absent if it
    /// occurs with each version.
    #[serde(default, deserialize_with = "version")]
    pub upstream_http: Option<HttpVersion>,
    /// Name of a response header that the gateway changes. It is not compared with direct's header. The
    /// difference need not occur, because it can depend on the upstream.
    #[serde(default)]
    pub header: Option<String>,
    /// The reason.
    pub reason: String,
    /// True if the difference occurs only sometimes, for example because it depends on a race within the
    /// gateway.
    #[serde(default)]
    pub sometimes: bool,
}

impl Difference {
    /// Whether the difference occurs with these versions of HTTP.
    pub fn is_over(&self, legs: Legs) -> bool {
        self.http.is_none_or(|only| only == legs.clients)
            && self.upstream_http.is_none_or(|only| only == legs.upstream)
    }
}

/// Reads `1.1` or `2`, as a number or a text.
fn version<'de, D: Deserializer<'de>>(from: D) -> Result<Option<HttpVersion>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Typed {
        Whole(u64),
        Decimal(f64),
        Text(String),
    }
    let text = match Typed::deserialize(from)? {
        Typed::Whole(number) => number.to_string(),
        Typed::Decimal(number) => number.to_string(),
        Typed::Text(text) => text,
    };
    match text.as_str() {
        "1.1" => Ok(Some(HttpVersion::Http11)),
        "2" => Ok(Some(HttpVersion::Http2)),
        other => Err(D::Error::custom(format!("`{other}` is not a version of HTTP; write 1.1 or 2"))),
    }
}

/// How to profile the gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Profiling {
    /// How the profiler finds the callers of a function. With unwind tables, the profiler copies a part of
    /// each stack. Frame pointers cost less, but most compilers leave them out.
    pub callers: Callers,
    /// Environment variables for passes under a profiler only. They make a runtime name the code that it
    /// generates. They replace variables of the same name; values are templates.
    pub environment: BTreeMap<String, String>,
    /// Command that writes the names of generated code to `/tmp/perf-PID.map` after a pass. It is not a
    /// template, but `{{ pid }}` is replaced by the id of each process.
    pub map: Vec<String>,
    /// What a user needs so that all frames have names.
    pub symbols: Option<String>,
}

/// How to get the gateway's version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionCommand {
    /// Command and arguments. Each is a template that can use only the variable `binary`.
    pub command: Vec<String>,
    /// Regular expression for the command's output. Its first group is the version.
    pub pattern: String,
}

/// A project in the pack's folder that builds the gateway. `scripts/gateways-extra.sh` builds it once and
/// installs the result in the tools directory.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// Folder of the project within the pack; it contains [`super::BUILD_SCRIPT`].
    pub folder: String,
    /// Programs that are needed to build and run the gateway.
    #[serde(default)]
    pub needs: Vec<String>,
}

/// The last time that a pack was tested with its gateway.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct LastRun {
    /// Version of the gateway in this test.
    pub version: String,
    /// Day of the test, `YYYY-MM-DD`.
    pub date: String,
    /// Features of the pack that this test did not prove, with the reasons. The test proved all other
    /// features.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unproved: BTreeMap<String, String>,
}

/// How a gateway answers requests that a feature refuses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// Status for a request without a credential. The default is 401.
    #[serde(default)]
    pub without: Option<u16>,
    /// Status for a request with a wrong credential. The default is 401.
    #[serde(default)]
    pub wrong: Option<u16>,
    /// Whether the gateway passes on requests without a credential, so that the upstream refuses them.
    #[serde(default)]
    pub passes_anonymous: bool,
    /// Why the gateway does not answer 401.
    pub reason: String,
}

/// A file to render before the gateway starts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileTemplate {
    /// Name of the template in the pack's folder.
    pub template: String,
    /// Path of the rendered file in the gateway's working directory.
    pub to: String,
}

/// How to start the gateway in a container. The container uses the host's network, and its directories have
/// the same paths as on the host. So the same configuration works with and without a container.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DockerStart {
    /// The image, with its tag.
    pub image: String,
    /// The program in the image, used as the variable `binary`. The default is the manifest's `binary`.
    #[serde(default)]
    pub program: Option<String>,
    /// Command and arguments; each is a template. The default is the manifest's `start`.
    #[serde(default)]
    pub start: Option<Vec<String>>,
    /// Environment variables. They replace variables of the same name in the manifest. Values are templates.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Dockerfile in the pack's folder, for gateways without a published image.
    #[serde(default)]
    pub dockerfile: Option<String>,
}

/// How to stop the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stop {
    /// Name of the signal that asks the gateway to stop.
    pub signal: String,
    /// Time that the gateway has to stop after the signal. After this time it is killed.
    pub grace: String,
}

impl Default for Stop {
    fn default() -> Self {
        Self { signal: "TERM".into(), grace: "5s".into() }
    }
}

/// How the gateway reloads its configuration after its files were replaced. Exactly one key is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reload {
    /// Name of a signal to send to the gateway's first process.
    pub signal: Option<String>,
    /// Command and arguments; each is a template. The command runs in the gateway's directory.
    pub command: Option<Vec<String>>,
    /// A request to the admin port.
    pub request: Option<ReloadRequest>,
    /// `true` if the gateway watches its files and reloads them by itself.
    pub watched: Option<bool>,
}

/// A request to the admin port that reloads the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReloadRequest {
    /// HTTP method.
    pub method: String,
    /// Path. It is a template.
    pub path: String,
}

/// Defines when the gateway is ready: it must answer this request with this status, and accept connections on
/// its main port.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// Path. It is a template.
    pub path: String,
    /// Port that receives the request.
    #[serde(default)]
    pub port: ReadyPort,
    /// Status that means ready.
    #[serde(default = "ok")]
    pub status: u16,
    /// Whether to send the request over TLS if the port uses TLS. The main port uses TLS with the feature
    /// `tls`; the request then has the credentials of the plan's clients. The admin port must always use TLS;
    /// its certificate is not verified. The header Host is [`crate::features::SERVER_NAME`].
    #[serde(default)]
    pub tls: bool,
    /// Whether a child of the started process may listen in its place, even if the child runs another
    /// program.
    #[serde(default)]
    pub by_child: bool,
    /// Maximum time to wait until the gateway is ready.
    #[serde(default = "ten_seconds")]
    pub timeout: String,
}

fn ok() -> u16 {
    200
}

fn ten_seconds() -> String {
    "10s".into()
}

/// Port that receives the readiness request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadyPort {
    /// The port for traffic.
    #[default]
    Main,
    /// The admin port.
    Admin,
}

/// When the clients of a gateway use TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TlsUse {
    /// If the plan has the feature `tls`.
    #[default]
    Feature,
    /// Always, because the gateway accepts requests over TLS only. Plans get the feature `tls` without asking
    /// for it.
    Always,
}

/// Destination of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessLogTo {
    /// The gateway opens the file named by the variable `access_log`.
    File,
    /// The gateway writes to its standard output, which is redirected to the file named by `access_log`.
    Stdout,
}

/// How many descriptors the gateway needs, and which processes share one limit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Descriptors that each proxied connection needs: 2 for most gateways (client and upstream).
    pub descriptors_per_connection: u32,
    /// Which processes share one limit.
    pub per: LimitPer,
}

impl Default for Limits {
    fn default() -> Self {
        Self { descriptors_per_connection: 2, per: LimitPer::Process }
    }
}

/// Which processes share one descriptor limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitPer {
    /// One process has all connections, so the limit applies to all connections together.
    Process,
    /// Each worker is a process and has its own limit.
    Worker,
}

/// Ports of a sidecar in the run's network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intercept {
    /// Port that receives the traffic redirected from the application's port.
    pub inbound_port: u16,
    /// Port for readiness and statistics.
    pub admin_port: u16,
}

/// One of the gateway's own counters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CounterSpec {
    /// Name in records and findings; unique within the pack.
    pub name: String,
    /// Where to read the counter.
    #[serde(default)]
    pub from: CounterFrom,
    /// Path on the admin port, or file name in the log directory.
    pub path: String,
    /// Format of the source.
    pub kind: SelectorKind,
    /// Selects the number in the source; the syntax depends on `kind`.
    pub select: String,
    /// Selects a number to subtract, with the same syntax as `select`.
    #[serde(default)]
    pub minus: Option<String>,
    /// Whether growth of the counter means that the gateway reached a limit.
    #[serde(default)]
    pub overflow: bool,
    /// What the counter counts. The text must fit after a number: `requests refused by …`.
    pub meaning: String,
    /// How to raise the limit that was reached.
    #[serde(default)]
    pub advice: Option<String>,
}

/// Where a counter is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CounterFrom {
    /// In a response on the admin port.
    #[default]
    Admin,
    /// In a log file. The counter is the number of matching lines.
    Log,
}

/// Settings that differ from the gateway's shipped defaults, by profile and feature.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// In the stock profile.
    pub stock: Vec<SettingText>,
    /// In the equalised profile.
    pub equalised: Vec<SettingText>,
    /// Settings for each feature, in both profiles.
    pub features: BTreeMap<String, Vec<SettingText>>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingText {
    /// The setting as written in the gateway's configuration. It is a template, and is left out if it renders
    /// to an empty text.
    pub setting: String,
    /// Why the setting differs.
    pub reason: String,
}
