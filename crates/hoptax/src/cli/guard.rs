//! `hoptax guard`.

use super::Exit;

/// Start a command, stop it with all its descendants when standard input ends (used by run).
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        anyhow::bail!("`hoptax guard` is not built yet")
    }
}
