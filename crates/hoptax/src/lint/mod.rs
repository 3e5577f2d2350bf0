//! `hoptax lint`: checks by experiment that a pack configures its gateway in the same way as all other packs.
//!
//! The module starts the real gateway (profile `equalised`) with one worker and with two workers, with and
//! without an access log. It sends the gateway a short load. The CPU time that the gateway uses under full
//! load shows whether the gateway has the right number of workers.

mod cpu_use;
mod observe;
mod open;
mod rules;

pub use cpu_use::CpuUse;
pub use observe::{Observation, Setup};
pub use open::Writing;
pub use rules::{Item, Verdict};

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
    /// True if no check found a fault.
    pub equalised: bool,
    /// One entry per check.
    pub checks: Vec<Item>,
    /// Last log lines of a gateway that did not start; empty if it started.
    pub log: String,
}

/// Lints one pack. Rendered files and logs of its gateway are written below `directory`.
///
/// # Errors
/// If the gateway is not installed, or if the upstream or the generator fails.
pub fn lint(name: &str, packs: &PackSet, exe: &Path, directory: &Path) -> Result<Report, Failure> {
    let pack = packs.get(name).ok_or_else(|| Failure {
        stage: Stage::Missing,
        message: format!("there is no pack `{name}`; available: {}", packs.names().join(", ")),
        detail: String::new(),
    })?;
    let Some(program) = binary::find(pack) else {
        let ways = binary::how_to_install(pack).join("; ");
        let message = format!("{name} is not installed. Install it ({ways}) or omit it");
        return Err(Failure { stage: Stage::Missing, message, detail: String::new() });
    };
    let (mut observations, mut cpu_uses, mut failed) = (Vec::new(), Vec::new(), None);
    let mut version = None;
    for setup in setups(pack) {
        match observe::observe(name, &setup, packs, exe, directory) {
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
        match cpu_use::measure(pack, workers, packs, exe, directory) {
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
    let version = version.or_else(|| binary::version(pack, &program).ok().flatten());
    let log = failed.map_or_else(String::new, |(_, failure)| failure.detail);
    Ok(Report { pack: name.to_owned(), version, equalised, checks, log })
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
