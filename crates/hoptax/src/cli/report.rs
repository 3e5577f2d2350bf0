//! `hoptax report`.

use super::Exit;

/// Make a report from a run directory.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        anyhow::bail!("`hoptax report` is not built yet")
    }
}
