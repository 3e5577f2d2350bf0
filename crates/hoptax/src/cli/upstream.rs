//! `hoptax upstream`.

use super::Exit;

/// Run the built-in upstream.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        anyhow::bail!("`hoptax upstream` is not built yet")
    }
}
