//! `hoptax render`.

use super::Exit;

/// Print the configuration a plan gives a gateway.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        anyhow::bail!("`hoptax render` is not built yet")
    }
}
