//! `hoptax load`.

use super::Exit;

/// Load one URL and print what it did.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        anyhow::bail!("`hoptax load` is not built yet")
    }
}
