//! `hoptax guard`.

use super::exit::Exit;
use hoptax_host::guard::{Guard, GuardError, StopSignal, exec_command};
use std::path::PathBuf;
use std::time::Duration;

/// Start a command, and stop it and all its descendants when standard input ends (used by `hoptax run`)
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// CPUs for the command and its descendants: 0,1 [default: all]
    #[arg(long, value_name = "CPUS", value_delimiter = ',')]
    cpus: Vec<u32>,
    /// Signal that asks the command to stop
    #[arg(long, default_value = "TERM")]
    stop_signal: StopSignal,
    /// Time between that signal and SIGKILL
    #[arg(long, default_value = "5s", value_parser = humantime::parse_duration)]
    grace: Duration,
    /// When all processes have ended, remove this directory, and its parent if that is empty
    #[arg(long, value_name = "DIR")]
    remove: Option<PathBuf>,
    /// Remove secrets from the logs in this directory; the directory of --remove lists them
    #[arg(long, value_name = "DIR", requires = "remove")]
    scrub: Option<PathBuf>,
    /// Run a command when all processes have ended. Give the option once for each word of the command
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    finally: Vec<String>,
    /// Write the monotonic time at which the command starts to this file, in nanoseconds
    #[arg(long, value_name = "FILE")]
    started: Option<PathBuf>,
    /// Replace this process with the command; it is killed when the guard with this PID dies (used by the
    /// guard itself)
    #[arg(long, value_name = "PID", hide = true)]
    under: Option<u32>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Exit code that shells return if a command cannot be started.
const CANNOT_START: u8 = 127;

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let outcome = match self.under {
            Some(guard) => Err(exec_command(guard, &self.command, self.started.as_deref())),
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
        // Exit with the code of the command. This code is not an [`Exit`]. No destructor needs to run.
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
            started: self.started,
        }
    }
}
