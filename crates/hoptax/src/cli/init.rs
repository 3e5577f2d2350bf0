//! `hoptax init`.

use super::Exit;

/// Write a commented plan to start from.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        anyhow::bail!("`hoptax init` is not built yet")
    }
}
