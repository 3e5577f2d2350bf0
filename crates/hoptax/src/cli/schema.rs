//! `hoptax schema`.

use super::Exit;

/// Print the JSON Schema of plans.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        anyhow::bail!("`hoptax schema` is not built yet")
    }
}
