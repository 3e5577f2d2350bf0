//! The commits that a plan asks for.

use super::git::commit_of;
use super::store::{BuildError, Builds};
use hoptax_plan::{Gateway, GatewayKind, GitBuild, PackDriver, Plan};
use hoptax_record::Failure;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Looks up the refs of the plan, and builds each of their commits once. `report` receives a message about
/// each build. Returns the labels of the gateways that cannot be built, with the reasons.
///
/// # Errors
/// If git is not installed, or a repository or a ref does not exist. The message says what to do.
pub fn prepare(
    plan: &mut Plan,
    report: &mut dyn FnMut(&str),
    interrupted: &AtomicBool,
) -> Result<Vec<(String, Failure)>, String> {
    for gateway in &mut plan.gateways {
        if let Some(git) = driver(gateway).and_then(PackDriver::git_mut) {
            git.commit = Some(commit_of(&git.repository, &git.reference)?);
        }
    }
    let refs: Vec<(String, GitBuild)> =
        refs_of(plan).into_iter().map(|(label, git)| (label.to_owned(), git.clone())).collect();
    if refs.is_empty() {
        return Ok(Vec::new());
    }
    let builds = Builds::of_user().map_err(|failure| failure.message)?;
    // Variants with different features have the same commit.
    let mut outcomes: BTreeMap<(String, String), Option<Failure>> = BTreeMap::new();
    let mut failed = Vec::new();
    for (label, git) in refs {
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        let commit = (git.commit.clone().unwrap_or_default(), format!("{:?}", (&git.repository, &git.build)));
        let outcome = outcomes.entry(commit).or_insert_with(|| {
            if !builds.has(&git) {
                report(&format!("building {git}"));
            }
            builds.build(&git, interrupted).err().map(BuildError::failure)
        });
        failed.extend(outcome.clone().map(|failure| (label, failure)));
    }
    Ok(failed)
}

/// The gateways of the plan that are built from commits, by label.
pub fn refs_of(plan: &Plan) -> Vec<(&str, &GitBuild)> {
    let git = plan.gateways.iter().filter_map(|gateway| match &gateway.kind {
        GatewayKind::Pack { driver, .. } => Some((gateway.label.as_str(), driver.git()?)),
        _ => None,
    });
    git.collect()
}

fn driver(gateway: &mut Gateway) -> Option<&mut PackDriver> {
    match &mut gateway.kind {
        GatewayKind::Pack { driver, .. } => Some(driver),
        _ => None,
    }
}
