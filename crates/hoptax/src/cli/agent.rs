//! `hoptax agent`.

use super::exit::Exit;
use crate::agent;

/// Run the roles of this host for a run on another host, which is at the other end of standard input and output (used by
/// `hoptax run`)
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

impl Args {
    #[allow(clippy::unused_self, reason = "all verbs have the same signature")]
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        agent::serve()?;
        Ok(Exit::Success)
    }
}
