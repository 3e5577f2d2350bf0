//! `hoptax draw`.

use super::exit::Exit;
use std::io;

/// Draw one report or comparison for the server that started this process (used by `hoptax serve`)
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        // If the server dies, nobody reads the response.
        #[cfg(target_os = "linux")]
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        hoptax_history::serve::draw(&mut io::stdin().lock(), &mut io::stdout().lock())?;
        Ok(Exit::Success)
    }
}
