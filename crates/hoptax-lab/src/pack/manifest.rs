//! `gateway.yaml`: what a pack says about its gateway, as it is typed.
//!
//! `docs/reference/packs.md` describes every key; a test holds the two together. Strings marked *template* may use
//! the variables of [`crate::render::Variables`].

use hoptax_plan::selector::SelectorKind;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A whole `gateway.yaml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Name in plans; the folder's.
    pub name: String,
    /// One line for people.
    pub summary: String,
    /// Where the gateway comes from.
    #[serde(default)]
    pub homepage: Option<String>,
    /// Program that is looked for.
    pub binary: String,
    /// Files that it cannot do without, by a name for templates: each with the places where it may be.
    #[serde(default)]
    pub needs: BTreeMap<String, Vec<String>>,
    /// How its version is told.
    pub version: VersionCommand,
    /// How to install it, by distribution or package manager; `note` for words.
    #[serde(default)]
    pub install: BTreeMap<String, String>,
    /// How it comes into being where nothing can be installed: a project in the pack's folder.
    #[serde(default)]
    pub build: Option<Build>,
    /// Which version this pack was last run with, and when; absent for one written from documentation alone.
    #[serde(default)]
    pub last_run_for_real: Option<LastRun>,
    /// Files rendered before the start.
    #[serde(default)]
    pub files: Vec<FileTemplate>,
    /// Command and arguments, templates; an argument that renders to nothing is left out.
    pub start: Vec<String>,
    /// Environment variables, values are templates.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// How it is started in a container; absent where no image is known.
    #[serde(default)]
    pub docker: Option<DockerStart>,
    /// How it is asked to end.
    #[serde(default)]
    pub stop: Stop,
    /// How it reads its configuration again while it goes on; absent where it cannot, and `unsupported.reload` may say why.
    #[serde(default)]
    pub reload: Option<Reload>,
    /// When it is ready.
    pub ready: Ready,
    /// How it writes an access log; absent where it cannot, and `unsupported` says why.
    #[serde(default)]
    pub access_log: Option<AccessLogTo>,
    /// What limits it.
    #[serde(default)]
    pub limits: Limits,
    /// Whether it has no setting for how much of it works at once, so that in the profile `equalised` it is held to as many
    /// CPUs as other gateways have workers.
    #[serde(default)]
    pub held_to_cpus: bool,
    /// The gateway's own counters, read before and after each trial.
    #[serde(default)]
    pub counters: Vec<CounterSpec>,
    /// Features that plans may switch on.
    #[serde(default)]
    pub features: Vec<String>,
    /// Ways in which the same gateway is configured, of which plans choose one; the first unless they say. Empty: one way only.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Where it listens when it stands in front of the application without the application's or the client's doing.
    #[serde(default)]
    pub intercept: Option<Intercept>,
    /// Features, `workers` or `access_log` that it lacks, each with the reason.
    #[serde(default)]
    pub unsupported: BTreeMap<String, String>,
    /// Where its answers differ from direct's, as `hoptax conform` sees them.
    #[serde(default)]
    pub differences: Vec<Difference>,
    /// Settings that differ from what it ships.
    #[serde(default)]
    pub settings: Settings,
}

/// A difference from direct that is this gateway's own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Which of [`crate::conformance::CASES`].
    pub case: String,
    /// The difference in the words of `hoptax conform`.
    pub what: String,
    /// Why it is so.
    pub reason: String,
    /// Whether it is seen at some times and not at others: where two things of the gateway's race.
    #[serde(default)]
    pub sometimes: bool,
}

/// How the version is told.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionCommand {
    /// Command and arguments, templates that may use `binary` alone.
    pub command: Vec<String>,
    /// Regular expression on what it prints; its first group is the version.
    pub pattern: String,
}

/// A project in the pack's folder that `scripts/gateways-extra.sh` builds, once, into the tools directory.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// Its folder, in the pack's; holds [`super::BUILD_SCRIPT`].
    pub folder: String,
    /// Programs that building and running it take.
    #[serde(default)]
    pub needs: Vec<String>,
}

/// When a pack was last run for real.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct LastRun {
    /// The gateway's version.
    pub version: String,
    /// Day, `YYYY-MM-DD`.
    pub date: String,
}

/// A file rendered before the start.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileTemplate {
    /// File in the pack's folder.
    pub template: String,
    /// Path in the gateway's working directory.
    pub to: String,
}

/// How the gateway is started in a container: on the host's network, with its directories at the paths they have on the
/// host, so that the same configuration serves both.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DockerStart {
    /// The image, with its tag.
    pub image: String,
    /// The program in the image, the variable `binary` there; the manifest's `binary` when absent.
    #[serde(default)]
    pub program: Option<String>,
    /// Command and arguments instead of the manifest's `start`, templates.
    #[serde(default)]
    pub start: Option<Vec<String>>,
    /// Environment variables instead of the manifest's of the same name, values are templates.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// File in the pack's folder that the image is built from, where nobody publishes one.
    #[serde(default)]
    pub dockerfile: Option<String>,
}

/// How the gateway is asked to end.
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

/// How the gateway reads its configuration again, after its files were replaced; exactly one key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reload {
    /// Name of the signal that the started process is sent.
    pub signal: Option<String>,
    /// Command and arguments, templates, run to its end in the gateway's directory.
    pub command: Option<Vec<String>>,
    /// A request to the admin port.
    pub request: Option<ReloadRequest>,
    /// `true`: the gateway watches its files, and does it by itself.
    pub watched: Option<bool>,
}

/// A request to the admin port after which the gateway has read its configuration again.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReloadRequest {
    /// Method.
    pub method: String,
    /// Path, template.
    pub path: String,
}

/// When the gateway is ready: when it answers this request so, and accepts connections on its main port.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// Path, template.
    pub path: String,
    /// Which of its ports is asked.
    #[serde(default)]
    pub port: ReadyPort,
    /// Status that means ready.
    #[serde(default = "ok")]
    pub status: u16,
    /// Status that means ready where that port speaks TLS: what it answers to a request without.
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

/// Which port is asked for readiness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadyPort {
    /// The one that traffic goes to.
    #[default]
    Main,
    /// The one of its own.
    Admin,
}

/// Where the access log goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessLogTo {
    /// The gateway opens the file named by the variable `access_log`.
    File,
    /// It writes to its standard output, which is that file.
    Stdout,
}

/// What limits the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Descriptors that one proxied connection takes: 2 for most, the client's and the upstream's.
    pub descriptors_per_connection: u32,
    /// What has a descriptor limit of its own.
    pub per: LimitPer,
}

impl Default for Limits {
    fn default() -> Self {
        Self { descriptors_per_connection: 2, per: LimitPer::Process }
    }
}

/// What has a descriptor limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitPer {
    /// The gateway is one process.
    Process,
    /// Every worker is one.
    Worker,
}

/// Ports of a sidecar in the run's network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intercept {
    /// Port to which what comes for the application's port is redirected.
    pub inbound_port: u16,
    /// Its port for readiness and statistics.
    pub admin_port: u16,
}

/// One of the gateway's own counters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CounterSpec {
    /// Name in records and findings; once per pack.
    pub name: String,
    /// Where it is read.
    #[serde(default)]
    pub from: CounterFrom,
    /// Path on the admin port, or name of a file in the directory of logs.
    pub path: String,
    /// What is read there.
    pub kind: SelectorKind,
    /// Where the number stands; how that is written depends on `kind`.
    pub select: String,
    /// A number that is taken away from it, written in the same way.
    #[serde(default)]
    pub minus: Option<String>,
    /// Whether it grows when a limit was hit.
    #[serde(default)]
    pub overflow: bool,
    /// What it counts, in words that follow a number: `requests refused by …`.
    pub meaning: String,
    /// What lifts the limit.
    #[serde(default)]
    pub advice: Option<String>,
}

/// Where a counter is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CounterFrom {
    /// On the admin port.
    #[default]
    Admin,
    /// In a log: lines are counted.
    Log,
}

/// Settings that differ from what the gateway ships, by profile and by feature.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// In the stock profile.
    pub stock: Vec<SettingText>,
    /// In the equalised profile.
    pub equalised: Vec<SettingText>,
    /// What a feature brings where it is switched on, in both profiles.
    pub features: BTreeMap<String, Vec<SettingText>>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingText {
    /// As it is written in the gateway's configuration; template. One that renders to nothing is left out.
    pub setting: String,
    /// Why it differs.
    pub reason: String,
}
