//! Whether a pack configures its gateway like every other one, by what happens and not by what the pack says: the real gateway
//! is started, equalised, with one worker and with two, with and without an access log, and sent a short load. Whether it works
//! with as many workers as it is asked for is told by the CPU time that it uses when it is kept as busy as can be.

mod look;
mod open;
mod rules;
mod strain;

pub use look::{Look, Setup};
pub use open::{Listening, Writing};
pub use rules::{Item, Verdict};
pub use strain::Strain;

use hoptax_lab::packs::{Pack, PackSet, binary};
use hoptax_record::{Failure, Stage};
use serde::Serialize;
use std::path::Path;

/// What was found of one pack.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The pack.
    pub pack: String,
    /// The gateway's version, as it told it.
    pub version: Option<String>,
    /// Whether nothing was found.
    pub equalised: bool,
    /// What was looked at.
    pub checks: Vec<Item>,
}

/// Looks at one pack. What its gateway renders and logs stays below `directory`.
///
/// # Errors
/// If the gateway is not installed, or it cannot be looked at for a reason that is not the pack's.
pub fn lint(name: &str, packs: &PackSet, exe: &Path, directory: &Path) -> Result<Report, Failure> {
    let pack = packs.get(name).ok_or_else(|| Failure {
        stage: Stage::Missing,
        message: format!("there is no pack `{name}`; there are {}", packs.names().join(", ")),
        detail: String::new(),
    })?;
    if binary::find(pack).is_none() {
        let ways = binary::how_to_install(pack).join("; ");
        let message = format!("{name} is not installed. Install it ({ways}) or leave it out");
        return Err(Failure { stage: Stage::Missing, message, detail: String::new() });
    }
    let (mut looks, mut strains, mut failed) = (Vec::new(), Vec::new(), None);
    let mut version = None;
    for setup in setups(pack) {
        match look::look(name, &setup, packs, exe, directory) {
            Ok((look, told)) => {
                version = version.or(told);
                looks.push(look);
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
        match strain::strain(pack, workers, packs, exe, directory) {
            Ok(strain) => strains.push(strain),
            Err(failure) => failed = Some((Setup { workers, access_log: false }, failure)),
        }
    }
    // The upstream and the generator are ours: what goes wrong with them says nothing of the pack.
    let failed = match failed {
        Some((_, failure)) if failure.stage != Stage::Start => return Err(failure),
        other => other,
    };
    let checks = rules::judge(pack, &looks, &strains, failed.as_ref());
    let equalised = checks.iter().all(|item| matches!(item.verdict, Verdict::Ok | Verdict::NotLookedAt));
    Ok(Report { pack: name.to_owned(), version, equalised, checks })
}

/// How the gateway is started, one after the other: as far as the pack says that it can be.
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
