//! `hoptax lint`.

use super::exit::{BadInput, Exit};
use super::help;
use crate::lint::{self, Answers, Difference, LeftOut, Report, Scope, Settings};
use anyhow::Context as _;
use comfy_table::{ContentArrangement, Table, presets};
use hoptax_format::llm::Api;
use hoptax_format::spec::HttpVersion;
use hoptax_host::private::{self, TempDir};
use hoptax_lab::concurrent::concurrently;
use hoptax_lab::conformance;
use hoptax_lab::legs::Legs;
use hoptax_lab::packs::manifest::TlsUse;
use hoptax_lab::packs::{Pack, PackSet, binary};
use hoptax_plan::{ClientHttp2, units};
use hoptax_record::Failure;
use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time without a message in the cases of silence, unless `--silence` says otherwise.
const USUAL_SILENCE: Duration = Duration::from_secs(2);

/// Maximum number of gateways whose answers are compared at the same time. This mostly waits.
const AT_ONCE: usize = 4;

/// Check that packs use equal settings and answer as direct does
///
/// Observes the settings of each gateway with one worker, with two, and with an access log. Then sends it and
/// direct 22 requests (36 with `--http 2`, 20 calls with `--grpc`, 11 cases with `--events`, 18 with
/// `--websocket`, 31 with `--llm`). The pack must list every difference under `differences`, and each must
/// occur.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 all gateways are equalised and answer as listed; 1 a gateway could not be \
    checked; 2 a pack or the command line is wrong; 3 a gateway is not equalised, or answers in another way."
)]
pub(super) struct Args {
    /// Packs to check [default: all installed that speak these versions of HTTP]
    #[arg(value_name = "PACK")]
    names: Vec<String>,
    /// Check only the settings
    #[arg(long, conflicts_with = "answers")]
    settings: bool,
    /// Compare only the answers
    #[arg(long)]
    answers: bool,
    /// Version of HTTP that clients speak: 1.1 or 2
    #[arg(long, default_value = "1.1", value_parser = version, value_name = "VERSION")]
    http: HttpVersion,
    /// Version of HTTP that gateways speak to the upstream: 1.1 or 2
    #[arg(long, default_value = "1.1", value_parser = version, value_name = "VERSION")]
    upstream_http: HttpVersion,
    /// Compare only answers to gRPC calls
    #[arg(long, conflicts_with_all = ["settings", "http", "upstream_http"])]
    grpc: bool,
    /// Compare only server-sent events
    #[arg(long, conflicts_with_all = ["settings", "http", "upstream_http", "grpc"])]
    events: bool,
    /// Compare only WebSockets
    #[arg(long, conflicts_with_all = ["settings", "http", "upstream_http", "grpc", "events"])]
    websocket: bool,
    /// Compare only requests to language models: openai or anthropic [default if no value: openai]
    #[arg(
        long,
        value_name = "API",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "openai",
        value_parser = api,
        conflicts_with_all = ["settings", "http", "upstream_http", "grpc", "events", "websocket"]
    )]
    llm: Option<Api>,
    /// With --events or --websocket: time in which nothing is sent in the case of silence [default: 2s]
    #[arg(long, value_parser = units::duration, value_name = "TIME")]
    silence: Option<Duration>,
    #[arg(long, help = help::JSON)]
    json: bool,
    #[arg(long, value_name = "DIR", help = help::PACKS)]
    packs: Option<PathBuf>,
    /// Keep rendered configurations and logs in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

fn version(text: &str) -> Result<HttpVersion, String> {
    match text {
        "1.1" => Ok(HttpVersion::Http11),
        "2" => Ok(HttpVersion::Http2),
        _ => Err("use 1.1 or 2".to_owned()),
    }
}

fn api(text: &str) -> Result<Api, String> {
    let known = Api::parse(text).ok().filter(|api| conformance::llm_cases(*api).is_some());
    known.ok_or_else(|| "use openai or anthropic".to_owned())
}

/// The working directory: that of `--keep`, or a temporary one, which is removed when it is dropped.
enum WorkDir {
    Kept(PathBuf),
    Temporary(TempDir),
}

impl WorkDir {
    /// # Errors
    /// If the user chose a directory that is not empty or cannot be read. Gateways append to logs, so an old
    /// error would look current. Also if no temporary directory can be created.
    fn new(keep: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(directory) = keep {
            must_be_empty(directory)?;
            return Ok(Self::Kept(directory.to_owned()));
        }
        let parent = std::env::temp_dir();
        let temporary = private::temporary("hoptax-lint-", &parent);
        temporary.map(Self::Temporary).with_context(|| {
            format!("cannot create a directory in {}; set TMPDIR to one that is writable", parent.display())
        })
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(directory) => directory.path(),
        }
    }
}

fn must_be_empty(directory: &Path) -> Result<(), BadInput> {
    let shown = directory.display();
    match std::fs::read_dir(directory).map(|mut entries| entries.next()) {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(BadInput(format!(
            "--keep: `{shown}` is not empty, and its logs would mix with the new logs. Choose another \
             directory, or remove this one"
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(BadInput(format!("--keep: cannot use `{shown}` as a directory: {error}"))),
    }
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let packs = PackSet::load(self.packs.as_deref()).map_err(BadInput::from)?;
        let chosen = self.chosen(&packs)?;
        if self.silence.is_some() && !self.events && !self.websocket {
            let text = "--silence belongs to the cases of --events and --websocket; add one of them";
            return Err(BadInput(text.to_owned()).into());
        }
        let silence = self.silence.unwrap_or(USUAL_SILENCE);
        let scope = match (self.llm, self.grpc, self.settings, self.answers) {
            (Some(api), ..) => Scope::Llm(api),
            _ if self.events => Scope::Events(silence),
            _ if self.websocket => Scope::WebSockets(silence),
            (_, true, ..) => Scope::Calls,
            (_, _, true, _) => Scope::Settings,
            (.., true) => Scope::Answers,
            _ => Scope::All,
        };
        let work_dir = WorkDir::new(self.keep.as_deref())?;
        let exe = std::env::current_exe()
            .context("cannot find the running hoptax program; was its file moved or removed?")?;
        let at_once = if scope.has_settings() { 1 } else { AT_ONCE };
        let (legs, directory) = (self.legs(), work_dir.path());
        let reports: Vec<Report> = concurrently(at_once, &chosen, |pack| {
            if io::stderr().is_terminal() {
                eprintln!("{}: starting the gateway and sending requests …", pack.name());
            }
            lint::lint(pack, scope, legs, &packs, &exe, directory)
        });
        self.print(&reports)?;
        Ok(match reports.iter().all(Report::is_good) {
            _ if reports.iter().any(|report| report.failure.is_some()) => Exit::Failed,
            true => Exit::Success,
            false => Exit::OverBudget,
        })
    }

    fn legs(&self) -> Legs {
        match self.grpc {
            true => Legs { clients: HttpVersion::Http2, upstream: HttpVersion::Http2 },
            false => Legs { clients: self.http, upstream: self.upstream_http },
        }
    }

    /// Why a gateway cannot be checked as the user requires.
    fn refusal(&self, pack: &Pack) -> Option<String> {
        let (name, manifest) = (pack.name(), pack.manifest());
        if self.grpc
            && let Some(reason) = manifest.unsupported.get("grpc")
        {
            return Some(format!("the pack `{name}` does not pass gRPC calls: {reason}. Omit it"));
        }
        if self.grpc && manifest.intercept.is_some() {
            let text = "is a sidecar, but the upstream for calls is outside of its namespace";
            return Some(format!("the pack `{name}` {text}. Omit it"));
        }
        let has_events = self.events || self.llm.is_some();
        for (is_asked, what, passes) in
            [(has_events, "sse", true), (self.websocket, "websocket", manifest.websocket)]
        {
            let reason = manifest.unsupported.get(what).map(String::as_str);
            let reason = reason.or((!passes).then_some("its gateway.yaml has no `websocket: true`"));
            if is_asked && let Some(reason) = reason {
                return Some(format!("the pack `{name}` does not support `{what}`: {reason}. Omit it"));
            }
            if is_asked && (manifest.intercept.is_some() || manifest.tls == TlsUse::Always) {
                let text = "cannot be reached by the cases of events and WebSockets, which use no TLS";
                return Some(format!("the pack `{name}` {text} and no namespace. Omit it"));
            }
        }
        match (pack.llm(), self.llm) {
            (Some(_), None) => {
                return Some(format!("the pack `{name}` passes only requests to language models. Use --llm"));
            }
            (Some(llm), Some(api)) if !llm.apis.contains(&api) => {
                return Some(format!("the pack `{name}` does not have the API `{}`. Omit it", api.name()));
            }
            _ => {}
        }
        let has_own_way = self.grpc && manifest.grpc;
        let upstream = if has_own_way { HttpVersion::Http11 } else { self.legs().upstream };
        refusal(pack, Legs { upstream, ..self.legs() })
    }

    /// The packs that the user named, each once, or all that are installed.
    fn chosen<'p>(&self, packs: &'p PackSet) -> Result<Vec<&'p Pack>, BadInput> {
        if self.names.is_empty() {
            let is_chosen = |pack: &&Pack| binary::find(pack).is_some() && self.refusal(pack).is_none();
            return Ok(packs.iter().filter(is_chosen).collect());
        }
        let find = |name: &String| match packs.get(name) {
            Some(pack) => match self.refusal(pack) {
                None => Ok(pack),
                Some(refusal) => Err(BadInput(refusal)),
            },
            None => {
                let known = packs.names().join(", ");
                Err(BadInput(format!("there is no pack `{name}`; the packs are {known}")))
            }
        };
        let mut seen = BTreeSet::new();
        self.names.iter().filter(|name| seen.insert(*name)).map(find).collect()
    }

    /// Prints the results. Prints the reasons why something was not checked as errors.
    fn print(&self, reports: &[Report]) -> anyhow::Result<()> {
        let checked = reports.iter().filter(|report| report.settings.is_some() || report.answers.is_some());
        let mut out = io::stdout();
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&checked.collect::<Vec<_>>())?)?;
        } else {
            for report in checked {
                writeln!(out, "{}", text(report))?;
            }
        }
        for report in reports {
            let Some(Failure { message, detail, .. }) = &report.failure else { continue };
            eprintln!("error: {}: {message}", report.pack);
            detail.lines().for_each(|line| eprintln!("    {line}"));
        }
        Ok(())
    }
}

/// Why a gateway cannot speak these versions of HTTP.
fn refusal(pack: &Pack, legs: Legs) -> Option<String> {
    let (name, manifest) = (pack.name(), pack.manifest());
    if legs.clients == HttpVersion::Http2 && manifest.http2 == ClientHttp2::No {
        let text = format!("the pack `{name}` does not speak HTTP/2 with clients. Omit it, or write");
        return Some(format!("{text} `http2` into its gateway.yaml"));
    }
    if legs.upstream == HttpVersion::Http2 && !manifest.upstream_http2 {
        let why = match manifest.unsupported.get("upstream_http2") {
            Some(reason) => format!(": {reason}. Omit it"),
            None => ". Omit it, or write `upstream_http2: true` into its gateway.yaml".to_owned(),
        };
        return Some(format!("the pack `{name}` does not speak HTTP/2 to upstreams{why}"));
    }
    None
}

/// The settings, and then the answers, each with a heading.
fn text(report: &Report) -> String {
    let over = match (report.http == HttpVersion::Http2, report.upstream_http == HttpVersion::Http2) {
        _ if report.grpc => " over gRPC",
        _ if report.messages == Some("WebSocket") => " over ",
        _ if report.messages.is_some() => " with ",
        (true, true) => " over HTTP/2 on both legs",
        (true, false) => " over HTTP/2",
        (false, true) => " with HTTP/2 to the upstream",
        (false, false) => "",
    };
    let version = report.version.as_deref().unwrap_or("version unknown");
    let name = format!("{} {version}{over}{}", report.pack, report.messages.unwrap_or_default());
    let settings = report.settings.as_ref().map(|settings| settings_text(&name, settings));
    let answers = report.answers.as_ref().map(|answers| answers_text(&name, answers));
    settings.into_iter().chain(answers).collect()
}

/// A heading, the table of checks, and the advice.
fn settings_text(name: &str, settings: &Settings) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["CHECK", "", "SEEN"]);
    for item in &settings.checks {
        table.add_row([item.check, item.verdict.words(), &item.evidence]);
    }
    let outcome = if settings.equalised { "equalised" } else { "not equalised" };
    let mut text = format!("{name}: {outcome}\n{table}\n");
    settings.log.lines().for_each(|line| text += &format!("    {line}\n"));
    for item in settings.checks.iter().filter(|item| !item.advice.is_empty()) {
        text += &format!("help: {}: {}\n", item.check, item.advice);
    }
    text
}

/// A heading, the differences, and what contradicts the pack.
fn answers_text(name: &str, answers: &Answers) -> String {
    let Answers { cases, differences, mismatches, left_out, .. } = answers;
    let mut text = format!("{name}: {cases} cases, {} same as direct\n", cases - differences.len());
    for Difference { case, what, reason } in differences {
        let reason = reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
        text += &format!("  {case}: {what}{reason}\n");
    }
    for mismatch in mismatches {
        text += &format!("  not as listed in the pack: {mismatch}\n");
    }
    for LeftOut { case, reason } in left_out {
        text += &format!("  {case}: left out, because {reason}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_new_or_empty_directory_is_kept() {
        let scratch = tempfile::tempdir().expect("a directory");
        let new = scratch.path().join("new");
        assert!(WorkDir::new(Some(scratch.path())).is_ok() && WorkDir::new(Some(&new)).is_ok());
        let old = scratch.path().join("stderr.log");
        std::fs::write(&old, "an old error").expect("written");
        let refused = |path: &Path| WorkDir::new(Some(path)).err().expect("refused").to_string();
        let error = refused(scratch.path());
        let shown = scratch.path().display().to_string();
        assert!(error.contains(&shown) && error.contains("is not empty"), "{error}");
        let error = refused(&old);
        assert!(error.contains("cannot use") && error.contains("stderr.log"), "{error}");
        assert!(old.is_file(), "nothing is removed");
    }

    #[test]
    fn the_number_of_cases_in_the_help_is_right() {
        use hoptax_lab::conformance::{
            CASES, EVENTS_CASES, GRPC_CASES, HTTP2_CASES, OPENAI_CASES, WEBSOCKET_CASES, left_out,
        };
        assert_eq!(CASES.len(), 22);
        assert_eq!(CASES.len() - left_out(HttpVersion::Http2).count() + HTTP2_CASES.len(), 36);
        assert_eq!((GRPC_CASES.len(), EVENTS_CASES.len(), WEBSOCKET_CASES.len()), (20, 11, 18));
        assert_eq!(OPENAI_CASES.len(), 31);
    }
}
