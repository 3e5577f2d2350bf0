//! `hoptax run`.

use super::Exit;

/// Measure what a plan names and report the tax of every hop.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        anyhow::bail!("`hoptax run` is not built yet")
    }
}
