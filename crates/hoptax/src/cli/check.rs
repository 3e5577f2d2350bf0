//! `hoptax check`.

use super::Exit;

/// Say what a plan would run and how long it takes, without running it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        anyhow::bail!("`hoptax check` is not built yet")
    }
}
