//! `gateway.yaml`: a pack's description of its gateway, as typed.
//!
//! `docs/reference/packs.md` describes every key; a test compares the two. Strings marked *template* may use the
//! variables of [`crate::render::Variables`].

use hoptax_plan::selector::SelectorKind;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A whole `gateway.yaml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Name in plans; same as the folder's.
    pub name: String,
    /// One line of description.
    pub summary: String,
    /// The gateway's web site.
    #[serde(default)]
    pub homepage: Option<String>,
    /// Name of its program.
    pub binary: String,
    /// Files that it requires, by name for templates: each with its possible paths.
    #[serde(default)]
    pub needs: BTreeMap<String, Vec<String>>,
    /// How to get its version.
    pub version: VersionCommand,
    /// Installation commands by distribution or package manager; `note`: free text.
    #[serde(default)]
    pub install: BTreeMap<String, String>,
    /// A project in the pack's folder that builds the gateway, if there is no package.
    #[serde(default)]
    pub build: Option<Build>,
    /// Version and date of the last real run of this pack; absent for a pack written from documentation alone.
    #[serde(default)]
    pub last_run_for_real: Option<LastRun>,
    /// Files to render before the start.
    #[serde(default)]
    pub files: Vec<FileTemplate>,
    /// Command and arguments, templates; an argument that renders to nothing is left out.
    pub start: Vec<String>,
    /// Environment variables; values are templates.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// How to start it in a container; absent if no image is known.
    #[serde(default)]
    pub docker: Option<DockerStart>,
    /// How to stop it.
    #[serde(default)]
    pub stop: Stop,
    /// How a running gateway reloads its configuration; absent if it cannot, then `unsupported.reload` may say why.
    #[serde(default)]
    pub reload: Option<Reload>,
    /// When it is ready.
    pub ready: Ready,
    /// How it writes an access log; absent if it cannot, then `unsupported` says why.
    #[serde(default)]
    pub access_log: Option<AccessLogTo>,
    /// Its descriptor limits.
    #[serde(default)]
    pub limits: Limits,
    /// Whether it has no setting for its parallelism. In the profile `equalised` it is then limited to as many CPUs
    /// as other gateways have workers.
    #[serde(default)]
    pub held_to_cpus: bool,
    /// The gateway's own counters, read before and after each trial.
    #[serde(default)]
    pub counters: Vec<CounterSpec>,
    /// Features that it supports.
    #[serde(default)]
    pub features: Vec<String>,
    /// Alternative configurations of the gateway; a plan selects one, by default the first. Empty: no variants.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Ports of a sidecar that intercepts traffic without any change to application or client.
    #[serde(default)]
    pub intercept: Option<Intercept>,
    /// Unsupported features, `workers` or `access_log`, each with the reason.
    #[serde(default)]
    pub unsupported: BTreeMap<String, String>,
    /// Known differences of its responses from direct's, in the words of `hoptax conform`.
    #[serde(default)]
    pub differences: Vec<Difference>,
    /// Settings that differ from the shipped ones.
    #[serde(default)]
    pub settings: Settings,
}

/// A known difference from direct.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Name of a case of [`crate::conformance::CASES`].
    pub case: String,
    /// The difference in the words of `hoptax conform`.
    pub what: String,
    /// The reason.
    pub reason: String,
    /// Whether it does not always occur, such as after a race within the gateway.
    #[serde(default)]
    pub sometimes: bool,
}

/// How to get the version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionCommand {
    /// Command and arguments, templates with the variable `binary` only.
    pub command: Vec<String>,
    /// Regular expression for its output; the first group is the version.
    pub pattern: String,
}

/// A project in the pack's folder. `scripts/gateways-extra.sh` builds it once, into the tools directory.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// Its folder within the pack; contains [`super::BUILD_SCRIPT`].
    pub folder: String,
    /// Programs needed to build and run it.
    #[serde(default)]
    pub needs: Vec<String>,
}

/// The last real run of a pack.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct LastRun {
    /// The gateway's version.
    pub version: String,
    /// Day, `YYYY-MM-DD`.
    pub date: String,
}

/// A file to render before the start.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileTemplate {
    /// File in the pack's folder.
    pub template: String,
    /// Path in the gateway's working directory.
    pub to: String,
}

/// How to start the gateway in a container. It uses the host's network, and its directories have the same paths as on
/// the host, so the same configuration serves both drivers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DockerStart {
    /// The image, with its tag.
    pub image: String,
    /// The program in the image, for the variable `binary`; by default the manifest's `binary`.
    #[serde(default)]
    pub program: Option<String>,
    /// Command and arguments, templates; by default the manifest's `start`.
    #[serde(default)]
    pub start: Option<Vec<String>>,
    /// Environment variables that replace the manifest's of the same name; values are templates.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Dockerfile in the pack's folder, if nobody publishes an image.
    #[serde(default)]
    pub dockerfile: Option<String>,
}

/// How to stop the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stop {
    /// Name of the signal.
    pub signal: String,
    /// Time until it is killed.
    pub grace: String,
}

impl Default for Stop {
    fn default() -> Self {
        Self { signal: "TERM".into(), grace: "5s".into() }
    }
}

/// How the gateway reloads its configuration after its files were replaced; exactly one key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reload {
    /// Name of a signal to send to the started process.
    pub signal: Option<String>,
    /// Command and arguments, templates; runs in the gateway's directory.
    pub command: Option<Vec<String>>,
    /// A request to the admin port.
    pub request: Option<ReloadRequest>,
    /// `true`: the gateway watches its files and reloads by itself.
    pub watched: Option<bool>,
}

/// A request to the admin port that reloads the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReloadRequest {
    /// Method.
    pub method: String,
    /// Path, template.
    pub path: String,
}

/// When the gateway is ready: it answers this request with this status, and accepts connections on its main port.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// Path, template.
    pub path: String,
    /// Port for the request.
    #[serde(default)]
    pub port: ReadyPort,
    /// Status that means ready.
    #[serde(default = "ok")]
    pub status: u16,
    /// Status that means ready if that port uses TLS: the response to a request without TLS.
    #[serde(default)]
    pub tls_status: Option<u16>,
    /// Longest wait.
    #[serde(default = "ten_seconds")]
    pub timeout: String,
}

fn ok() -> u16 {
    200
}

fn ten_seconds() -> String {
    "10s".into()
}

/// Port for the readiness request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadyPort {
    /// The port for traffic.
    #[default]
    Main,
    /// The admin port.
    Admin,
}

/// Destination of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessLogTo {
    /// The gateway opens the file named by the variable `access_log`.
    File,
    /// It writes to its standard output, which is redirected to that file.
    Stdout,
}

/// Descriptor limits of the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Descriptors per proxied connection: 2 for most gateways (client and upstream).
    pub descriptors_per_connection: u32,
    /// Scope of the limit.
    pub per: LimitPer,
}

impl Default for Limits {
    fn default() -> Self {
        Self { descriptors_per_connection: 2, per: LimitPer::Process }
    }
}

/// Scope of a descriptor limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitPer {
    /// One process has all connections.
    Process,
    /// Each worker is a process with its own limit.
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
    /// Name in records and findings; once per pack.
    pub name: String,
    /// Where to read it.
    #[serde(default)]
    pub from: CounterFrom,
    /// Path on the admin port, or file name in the log directory.
    pub path: String,
    /// Format of the source.
    pub kind: SelectorKind,
    /// Position of the number; the syntax depends on `kind`.
    pub select: String,
    /// A number to subtract, same syntax.
    #[serde(default)]
    pub minus: Option<String>,
    /// Whether growth means that a limit was hit.
    #[serde(default)]
    pub overflow: bool,
    /// What it counts, in words that follow a number: `requests refused by …`.
    pub meaning: String,
    /// How to lift the limit.
    #[serde(default)]
    pub advice: Option<String>,
}

/// Source of a counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CounterFrom {
    /// On the admin port.
    #[default]
    Admin,
    /// In a log: counts lines.
    Log,
}

/// Settings that differ from the shipped ones, by profile and feature.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// In the stock profile.
    pub stock: Vec<SettingText>,
    /// In the equalised profile.
    pub equalised: Vec<SettingText>,
    /// Settings of a feature, in both profiles.
    pub features: BTreeMap<String, Vec<SettingText>>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingText {
    /// As written in the gateway's configuration; template. Left out if it renders to nothing.
    pub setting: String,
    /// Reason for the difference.
    pub reason: String,
}
