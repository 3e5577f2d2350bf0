//! Whether a pack configures its gateway like every other one, by what happens and not by what the pack says: the real gateway
//! is started, equalised, with one worker and with two, with and without an access log, and sent a short load.

mod look;
mod open;
mod rules;

pub use look::{Look, Setup};
pub use open::{Listening, Writing};
pub use rules::{Item, Verdict};

use crate::lab::packs::{Pack, PackSet, binary};
use crate::record::{Failure, Stage};
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
    let (mut looks, mut failed) = (Vec::new(), None);
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
    // The upstream and the generator are ours: what goes wrong with them says nothing of the pack.
    let failed = match failed {
        Some((_, failure)) if failure.stage != Stage::Start => return Err(failure),
        other => other,
    };
    let checks = rules::judge(pack, &looks, failed.as_ref());
    let equalised = checks.iter().all(|item| matches!(item.verdict, Verdict::Ok | Verdict::NotLookedAt));
    Ok(Report { pack: name.to_owned(), version, equalised, checks })
}

/// How the gateway is started, one after the other: as far as the pack says that it can be.
fn setups(pack: &Pack) -> Vec<Setup> {
    let can = |what: &str| !pack.manifest().unsupported.contains_key(what);
    let mut setups = vec![Setup { workers: 1, access_log: false }];
    if can("workers") {
        setups.push(Setup { workers: 2, access_log: false });
    }
    if can("access_log") {
        setups.push(Setup { workers: 1, access_log: true });
    }
    setups
}

#[cfg(test)]
mod tests;
