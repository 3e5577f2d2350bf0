//! `hoptax lint`: checks by experiment that a pack configures its gateway in the same way as all other packs,
//! and that the gateway answers as direct does.
//!
//! The module starts the real gateway (profile `equalised`) with one worker and with two workers, with and
//! without an access log. It sends the gateway a short load. The CPU time that the gateway uses under full
//! load shows whether the gateway has the right number of workers.

mod answers;
mod cpu_use;
mod observe;
mod open;
mod rules;
mod scope;

pub use answers::{Answers, Difference, LeftOut};
pub use cpu_use::CpuUse;
pub use observe::{Observation, Setup};
pub use open::Writing;
pub use rules::{Item, Verdict};
pub use scope::Scope;

use hoptax_format::spec::HttpVersion;
use hoptax_lab::legs::Legs;
use hoptax_lab::packs::{Pack, PackSet, binary};
use hoptax_record::{Failure, Stage};
use serde::Serialize;
use std::path::Path;

/// Result of linting one pack.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The pack.
    pub pack: String,
    /// The version that the gateway's program reported.
    pub version: Option<String>,
    /// The version of HTTP that clients spoke.
    pub http: HttpVersion,
    /// The version of HTTP that the gateway had to speak to the upstream.
    pub upstream_http: HttpVersion,
    /// True if clients made gRPC calls.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub grpc: bool,
    /// `server-sent events`, `WebSocket`, `OpenAI's chat completions` or `Anthropic's messages`, if these
    /// were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<&'static str>,
    /// Result for the settings; absent if they were not checked.
    #[serde(flatten)]
    pub settings: Option<Settings>,
    /// Result for the answers; absent if they were not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<Answers>,
    /// Why something was not checked.
    #[serde(skip)]
    pub failure: Option<Failure>,
}

impl Report {
    /// True if no check found a fault.
    pub fn is_good(&self) -> bool {
        self.settings.as_ref().is_none_or(|settings| settings.equalised)
            && self.answers.as_ref().is_none_or(|answers| answers.as_listed)
    }
}

/// How the settings of a pack compare with those that all packs must use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// True if no check found a fault.
    pub equalised: bool,
    /// One entry per check.
    pub checks: Vec<Item>,
    /// Last log lines of a gateway that did not start; empty if it started.
    pub log: String,
    /// True if the gateway started each time.
    #[serde(skip)]
    pub started: bool,
}

/// Lints one pack with these versions of HTTP. For gRPC, both must be 2. Rendered files and logs of its
/// gateway are written below `directory`.
pub fn lint(pack: &Pack, scope: Scope, legs: Legs, packs: &PackSet, exe: &Path, directory: &Path) -> Report {
    let name = pack.name();
    let mut report = Report {
        pack: name.to_owned(),
        version: None,
        http: legs.clients,
        upstream_http: legs.upstream,
        grpc: scope == Scope::Calls,
        messages: scope.messages(),
        settings: None,
        answers: None,
        failure: None,
    };
    let Some(program) = binary::find(pack) else {
        let ways = binary::how_to_install(pack).join("; ");
        let message = format!("{name} is not installed. Install it ({ways}) or omit it");
        report.failure = Some(Failure { stage: Stage::Missing, message, detail: String::new() });
        return report;
    };
    if scope.has_settings() {
        match settings(pack, legs, packs, exe, directory) {
            Ok((settings, version)) => (report.settings, report.version) = (Some(settings), version),
            Err(failure) => report.failure = Some(failure),
        }
    }
    let has_started = report.settings.as_ref().is_none_or(|settings| settings.started);
    if scope != Scope::Settings && has_started && report.failure.is_none() {
        let compared = match scope {
            Scope::Calls => answers::compare_calls(pack, packs, exe, directory),
            Scope::Events(_) | Scope::WebSockets(_) | Scope::Llm(_) => {
                answers::compare_messages(pack, scope, packs, exe, directory)
            }
            _ => answers::compare(pack, legs, packs, exe, directory),
        };
        match compared {
            Ok((answers, version)) => {
                report.answers = Some(answers);
                report.version = report.version.or(version);
            }
            Err(failure) => report.failure = Some(failure),
        }
    }
    report.version = report.version.or_else(|| binary::version(pack, &program).ok().flatten());
    report
}

/// Checks the settings of an installed pack. Also returns the version that its gateway reported.
///
/// # Errors
/// If the upstream or the generator fails.
fn settings(
    pack: &Pack,
    legs: Legs,
    packs: &PackSet,
    exe: &Path,
    directory: &Path,
) -> Result<(Settings, Option<String>), Failure> {
    let name = pack.name();
    let (mut observations, mut cpu_uses, mut failed) = (Vec::new(), Vec::new(), None);
    let mut version = None;
    for setup in setups(pack) {
        match observe::observe(name, &setup, legs, packs, exe, directory) {
            Ok((observation, reported)) => {
                version = version.or(reported);
                observations.push(observation);
            }
            Err(failure) => {
                failed = Some((setup, failure));
                break;
            }
        }
    }
    for workers in worker_counts(pack) {
        if failed.is_some() {
            break;
        }
        match cpu_use::measure(pack, workers, legs, packs, exe, directory) {
            Ok(cpu_use) => cpu_uses.push(cpu_use),
            Err(failure) => failed = Some((Setup { workers, access_log: false }, failure)),
        }
    }
    // Failures of the upstream or the generator (our own programs) are not faults of the pack.
    let failed = match failed {
        Some((_, failure)) if failure.stage != Stage::Start => return Err(failure),
        other => other,
    };
    let checks = rules::judge(pack, &observations, &cpu_uses, failed.as_ref());
    let equalised = checks.iter().all(|item| matches!(item.verdict, Verdict::Ok | Verdict::NotLookedAt));
    let started = failed.is_none();
    let log = failed.map_or_else(String::new, |(_, failure)| failure.detail);
    Ok((Settings { equalised, checks, log, started }, version))
}

/// The set-ups in which the gateway is started, in order. Set-ups that the pack lists as `unsupported` are
/// left out.
fn setups(pack: &Pack) -> Vec<Setup> {
    let can = |what: &str| !pack.manifest().unsupported.contains_key(what);
    let counts = worker_counts(pack).into_iter();
    let mut setups: Vec<_> = counts.map(|workers| Setup { workers, access_log: false }).collect();
    if can("access_log") {
        setups.push(Setup { workers: 1, access_log: true });
    }
    setups
}

fn worker_counts(pack: &Pack) -> Vec<u32> {
    if pack.manifest().unsupported.contains_key("workers") { vec![1] } else { vec![1, 2] }
}

#[cfg(test)]
mod tests;
