//! `hoptax gateways`.

use super::Exit;

/// List gateway packs: installed or not, version, features.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        anyhow::bail!("`hoptax gateways` is not built yet")
    }
}
