//! `hoptax guard`.

use super::exit::Exit;
use hoptax_host::guard::{Guard, GuardError, StopSignal, exec_command};
use std::path::PathBuf;
use std::time::Duration;

/// Start a command, stop it with all its descendants when standard input ends (used by run).
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// CPUs for the command and its descendants, e.g. `0,1`; all when absent
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<u32>,
    /// Signal that asks the command to end
    #[arg(long, default_value = "TERM")]
    stop_signal: StopSignal,
    /// Time between that signal and SIGKILL
    #[arg(long, default_value = "5s", value_parser = humantime::parse_duration)]
    grace: Duration,
    /// Remove this directory when nothing of the command is left, and its parent if that is empty then
    #[arg(long, value_name = "DIR")]
    remove: Option<PathBuf>,
    /// Take the secrets that are listed in the directory to be removed out of the logs in this one
    #[arg(long, value_name = "DIR", requires = "remove")]
    scrub: Option<PathBuf>,
    /// A command, one word per use, that is run at the end, when nothing of the first one is left
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    finally: Vec<String>,
    /// Become the command, killed when this guard dies, which started us (used by the guard itself)
    #[arg(long, value_name = "PID", hide = true)]
    under: Option<u32>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// As shells tell a command that could not be started.
const CANNOT_START: u8 = 127;

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let outcome = match self.under {
            Some(guard) => Err(exec_command(guard, &self.command)),
            None => self.guard().run(),
        };
        let code = match outcome {
            Ok(code) => code,
            Err(error @ GuardError::Spawn { .. }) => {
                eprintln!("error: {error}");
                CANNOT_START
            }
            Err(error) => return Err(error.into()),
        };
        // The code is the command's, not one of hoptax's own; nothing is left to be dropped.
        std::process::exit(code.into())
    }

    fn guard(self) -> Guard {
        Guard {
            cpus: self.cpus,
            stop_signal: self.stop_signal,
            grace: self.grace,
            remove: self.remove,
            scrub: self.scrub,
            command: self.command,
            finally: self.finally,
        }
    }
}
