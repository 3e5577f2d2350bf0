//! The agent itself: `hoptax agent`. On its host, it uses the same driver, generator and probes that a run
//! without other hosts uses on the runner's host.
//!
//! The main thread owns the services and handles requests in order. Requests that take as long as a load have
//! threads of their own, so that the main thread can handle other requests meanwhile. One more thread reads
//! the input, and another one writes the output.
//!
//! When the input ends, or the runner is silent for too long, the agent stops everything that it has started.
//! If the agent is killed, the guards of its services notice this and stop the services.

mod answers;
mod input;
mod jobs;
mod place;
mod services;
mod session;

use answers::Answers;
use anyhow::Context as _;
use input::Input;
use rustix::fs::{Mode, OFlags};
use session::Session;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::thread;
use std::time::Duration;

/// Time for stopping services in the ordinary way after the runner has gone. After that, this process exits,
/// and the guards stop what remains within a second.
const FAREWELL: Duration = Duration::from_secs(5);

/// Serves the runner at the other end of standard input and output. Returns when the input has ended and
/// everything that the agent started has been stopped.
///
/// # Errors
/// If standard input and output cannot be used.
pub fn serve() -> anyhow::Result<()> {
    let (stdin, stdout) = take_standard_streams().context("cannot use standard input and output")?;
    let answers = Answers::start(stdout);
    let input = Input::start(stdin, answers.clone()).context("cannot read standard input")?;
    let mut session = Session::new(answers, input.starting());
    for job in input.jobs() {
        session.handle(job);
    }
    if let Some(why) = input.why_ended() {
        eprintln!("error: {why}");
    }
    thread::spawn(|| {
        thread::sleep(FAREWELL);
        std::process::exit(1);
    });
    drop(session);
    Ok(())
}

/// Takes standard input and output away from everything else in this process, and from its children.
/// Otherwise a child could read the runner's messages, or write its own text between the agent's messages.
fn take_standard_streams() -> std::io::Result<(File, File)> {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned()?;
    let stdout = std::io::stdout().as_fd().try_clone_to_owned()?;
    let nothing = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(nothing)?;
    rustix::stdio::dup2_stdout(std::io::stderr())?;
    Ok((stdin.into(), stdout.into()))
}
