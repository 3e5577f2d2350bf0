//! `hoptax builds`.

use super::exit::{BadInput, Exit};
use super::help;
use super::output::print;
use anyhow::Context as _;
use comfy_table::{ContentArrangement, Table, presets};
use hoptax_lab::builds::{BuildState, Builds, Kept};
use hoptax_plan::units;
use serde::Serialize;
use std::path::Path;
use std::time::SystemTime;

/// Minimum number of digits that name a commit, as in git.
const SHORTEST: usize = 4;

/// Number of digits of a commit that the table shows.
const SHOWN: usize = 10;

/// List or remove the programs that hoptax built from commits
///
/// `git` in a plan builds each commit once. Builds are kept in `$HOPTAX_HOME/builds` or
/// ~/.local/share/hoptax/builds.
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true, args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[arg(long, help = help::JSON)]
    json: bool,

    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Remove builds; a run builds them again if it needs them
    Rm(Rm),
}

#[derive(Debug, clap::Args)]
struct Rm {
    /// Commits whose builds to remove: at least the first 4 digits
    #[arg(value_name = "COMMIT", required_unless_present = "all")]
    commits: Vec<String>,

    /// Remove all builds, also those that were interrupted
    #[arg(long, conflicts_with = "commits")]
    all: bool,
}

/// One build. Part of the stable interface.
#[derive(Debug, Serialize)]
struct Row<'a> {
    repository: &'a Path,
    commit: &'a str,
    #[serde(rename = "ref")]
    reference: &'a str,
    build: &'a str,
    /// `ended`, `running` or `interrupted`.
    state: &'static str,
    bytes: u64,
    /// How long the build took.
    seconds: f64,
    /// When a run last used the build, RFC 3339, UTC. Absent if no run used it.
    used: Option<String>,
    /// How the build failed. Absent if it succeeded.
    failed: Option<&'a str>,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let builds = Builds::of_user().map_err(|failure| BadInput(failure.message))?;
        let kept =
            builds.list().context("cannot read the builds; check the permissions of their directory")?;
        match self.verb {
            Some(Verb::Rm(rm)) => rm.run(&builds, &kept)?,
            None if self.json => {
                let rows: Vec<Row<'_>> = kept.iter().map(row).collect();
                print(&format!("{}\n", serde_json::to_string_pretty(&rows)?))?;
            }
            None => print(&text(&kept))?,
        }
        Ok(Exit::Success)
    }
}

impl Rm {
    fn run(&self, builds: &Builds, kept: &[Kept]) -> anyhow::Result<()> {
        for commit in &self.commits {
            if commit.len() < SHORTEST || !kept.iter().any(|one| one.built.commit.starts_with(commit)) {
                let message =
                    format!("there is no build of the commit `{commit}`; `hoptax builds` lists them");
                return Err(BadInput(message).into());
            }
        }
        let is_named =
            |one: &&Kept| self.all || self.commits.iter().any(|commit| one.built.commit.starts_with(commit));
        let mut running = Vec::new();
        for one in kept.iter().filter(is_named) {
            let is_removed = builds.remove(one).with_context(|| {
                format!("cannot remove the build of {}; check the permissions of its directory", short(one))
            })?;
            match is_removed {
                true => print(&format!("removed {} of {}\n", short(one), one.built.repository.display()))?,
                false => running.push(short(one)),
            }
        }
        anyhow::ensure!(
            running.is_empty(),
            "not removed, because another hoptax builds it: {}. Remove it when that build has ended",
            running.join(", ")
        );
        Ok(())
    }
}

fn row(kept: &Kept) -> Row<'_> {
    let built = &kept.built;
    Row {
        repository: &built.repository,
        commit: &built.commit,
        reference: &built.reference,
        build: &built.build,
        state: name(kept.state),
        bytes: kept.bytes,
        seconds: built.seconds,
        used: kept.used.map(timestamp),
        failed: built.failed.as_deref(),
    }
}

fn text(kept: &[Kept]) -> String {
    if kept.is_empty() {
        return "no builds; `git` in a plan builds commits\n".to_owned();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["COMMIT", "REF", "SIZE", "LAST USED", "BUILD", "REPOSITORY"]);
    for one in kept {
        let built = &one.built;
        let build = match (one.state, &built.failed) {
            (BuildState::Ended, None) => built.build.clone(),
            (BuildState::Ended, Some(how)) => format!("{} ({how})", built.build),
            (state, _) => format!("{} ({})", built.build, name(state)).trim_start().to_owned(),
        };
        table.add_row([
            short(one).to_owned(),
            built.reference.clone(),
            size(one.bytes),
            one.used.map_or_else(|| "never".to_owned(), timestamp),
            build,
            built.repository.display().to_string(),
        ]);
    }
    let total: u64 = kept.iter().map(|one| one.bytes).sum();
    format!("{table}\n\n{} in {} builds\n", size(total), kept.len())
}

fn name(state: BuildState) -> &'static str {
    match state {
        BuildState::Ended => "ended",
        BuildState::Running => "running",
        BuildState::Interrupted => "interrupted",
    }
}

fn short(kept: &Kept) -> &str {
    kept.built.commit.get(..SHOWN).unwrap_or(&kept.built.commit)
}

/// The size in whole KiB or MiB.
fn size(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    match bytes {
        MIB.. => units::show_size(bytes / MIB * MIB),
        _ => units::show_size(bytes.div_ceil(KIB) * KIB),
    }
}

fn timestamp(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}
