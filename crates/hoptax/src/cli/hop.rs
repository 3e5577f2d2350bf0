//! `hoptax hop`.

use super::Exit;

/// Run a built-in reference proxy.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        anyhow::bail!("`hoptax hop` is not built yet")
    }
}
