//! `hoptax agent`.

use super::exit::Exit;
use hoptax_remote::agent;
use std::thread;
use std::time::Duration;

/// Run the roles of this host for a run on another host, which is at the other end of standard input and
/// output (used by `hoptax run`)
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Do nothing for this long, to keep a pod running in which other processes run agents
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    wait: Option<Duration>,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        match self.wait {
            Some(time) => thread::sleep(time),
            None => agent::serve()?,
        }
        Ok(Exit::Success)
    }
}
