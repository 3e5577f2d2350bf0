//! A service under its guard, seen from hoptax: how it is launched, asked whether it lives, and stopped.

use super::guard::{FINISH_BOUND, StopSignal, finish, wait_for_end};
use super::tree::{descendants, of_session, session_below};
use rustix::event::{Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longer than the guard itself takes to kill what is left after the grace.
const GUARD_BOUND: Duration = Duration::from_secs(40);

/// Longest time for taking secrets out of the logs: some seconds for each gigabyte.
const SCRUB_BOUND: Duration = Duration::from_secs(600);

/// Between two looks for what a killed guard left.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What is launched and how it is stopped.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables set beside those that hoptax itself has.
    pub environment: BTreeMap<String, String>,
    /// Directory it starts in; hoptax's own when absent.
    pub directory: Option<PathBuf>,
    /// CPUs; empty: not pinned.
    pub cpus: Vec<u32>,
    /// Asks it to end.
    pub stop_signal: StopSignal,
    /// Between that signal and SIGKILL.
    pub grace: Duration,
    /// A directory with secrets that goes with it; see [`super::guard::Guard::remove`].
    pub remove: Option<PathBuf>,
    /// A directory with its logs; see [`super::guard::Guard::scrub`].
    pub scrub: Option<PathBuf>,
    /// Run when nothing of it is left; empty: nothing.
    pub finally: Vec<String>,
    /// Where its standard output goes; a pipe to hoptax when absent.
    pub stdout: Option<PathBuf>,
    /// Where its standard error goes.
    pub stderr: PathBuf,
}

/// A running service and its guard. Dropping it stops the service.
#[derive(Debug)]
pub struct Guarded {
    guard: Child,
    lifeline: Option<ChildStdin>,
    grace: Duration,
    /// How long the guard may take beyond that.
    bound: Duration,
    ended: Option<ExitStatus>,
    /// The session that the command leads, once it was seen.
    session: Option<u32>,
    /// What the guard runs at the end; ours to run where the guard cannot.
    finally: Vec<String>,
}

impl Guarded {
    /// Starts `launch` under a guard; `exe` is the `hoptax` binary, which is the guard.
    ///
    /// # Errors
    /// If a log file cannot be created or the guard cannot be started. That the command itself cannot be started
    /// shows as the guard's exit code 127, with the reason in the standard error file.
    pub fn start(exe: &Path, launch: &Launch) -> std::io::Result<Self> {
        // What a killed guard leaves is reparented to us instead of escaping to process 1.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let mut command = Command::new(exe);
        command.arg("guard").arg("--stop-signal").arg(launch.stop_signal.name());
        command.arg("--grace").arg(humantime::format_duration(launch.grace).to_string().replace(' ', ""));
        if !launch.cpus.is_empty() {
            let cpus: Vec<_> = launch.cpus.iter().map(ToString::to_string).collect();
            command.arg("--cpus").arg(cpus.join(","));
        }
        if let Some(directory) = &launch.remove {
            command.arg("--remove").arg(directory);
        }
        if let Some(directory) = &launch.scrub {
            command.arg("--scrub").arg(directory);
        }
        command.args(launch.finally.iter().map(|word| format!("--finally={word}")));
        command.arg("--").arg(&launch.program).args(&launch.arguments).envs(&launch.environment);
        if let Some(directory) = &launch.directory {
            command.current_dir(directory);
        }
        let stdout = match &launch.stdout {
            Some(path) => Stdio::from(log_file(path)?),
            None => Stdio::piped(),
        };
        // Its own group: a Ctrl-C at the terminal is hoptax's to act on.
        command.stdin(Stdio::piped()).stdout(stdout).stderr(log_file(&launch.stderr)?).process_group(0);
        let mut guard = command.spawn()?;
        Ok(Self {
            lifeline: guard.stdin.take(),
            guard,
            grace: launch.grace,
            bound: GUARD_BOUND
                + if launch.finally.is_empty() { Duration::ZERO } else { FINISH_BOUND }
                + if launch.scrub.is_some() { SCRUB_BOUND } else { Duration::ZERO },
            ended: None,
            session: None,
            finally: launch.finally.clone(),
        })
    }

    /// The guard's process id: the root, itself no part of the service, of everything that belongs to it.
    pub fn pid(&self) -> u32 {
        self.guard.id()
    }

    /// What restarts the service, from whatever thread; `None` once it was stopped.
    pub fn reins(&self) -> Option<Reins> {
        let lifeline = self.lifeline.as_ref()?.as_fd().try_clone_to_owned().ok()?;
        Some(Reins { guard: self.guard.id(), lifeline: lifeline.into(), grace: self.grace })
    }

    /// The service's standard output, where it is a pipe and was not taken before.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.guard.stdout.take()
    }

    /// How the service ended, once it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            // One that was restarted leads another session than before.
            self.session = session_below(self.guard.id()).or(self.session);
            // An error means that somebody else reaped the guard: it has ended, how is not known.
            self.ended = self.guard.try_wait().unwrap_or(Some(ExitStatus::default()));
            if self.ended.is_some_and(|status| status.signal().is_some()) {
                self.bury_orphans();
                finish(&self.finally);
            }
        }
        self.ended
    }

    /// Whether the guard did all that it does at the end: false while it runs, and when it was killed.
    pub fn ended_by_itself(&mut self) -> bool {
        self.ended().is_some_and(|status| status.code().is_some())
    }

    /// Asks the service to end, kills what is left after the grace, and returns when nothing is left. Twice is once.
    pub fn stop(&mut self) {
        self.end("stop\n", self.grace);
    }

    /// Kills the service at once and returns when nothing is left.
    pub fn kill(&mut self) {
        self.end("kill\n", Duration::ZERO);
    }

    fn end(&mut self, word: &str, grace: Duration) {
        if self.ended().is_some() {
            return;
        }
        if let Some(mut lifeline) = self.lifeline.take() {
            // A guard that is ending cannot be written to, and need not.
            let _ = lifeline.write_all(word.as_bytes());
            // The lifeline stays open until the guard has ended: its end would cut the grace short.
            self.await_guard(grace + self.bound);
        }
        if self.ended().is_none() {
            self.end_without_guard();
        }
    }

    fn await_guard(&mut self, bound: Duration) {
        if let Ok(pidfd) = rustix::process::pidfd_open(Pid::from_child(&self.guard), PidfdFlags::empty()) {
            wait_for_end(&pidfd, bound);
        }
        self.ended();
    }

    /// A guard that does not end in time is stuck; what it guards is killed without it.
    fn end_without_guard(&mut self) {
        let below = descendants(self.guard.id());
        for pid in below.into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        let _ = self.guard.kill();
        self.ended = self.guard.wait().ok().or(Some(ExitStatus::default()));
        self.bury_orphans();
        finish(&self.finally);
    }

    /// Kills and reaps what a killed guard left: by now it descends from us, and is told from everything else that does
    /// by the session that its command led. The command itself was killed by the kernel.
    fn bury_orphans(&self) {
        let Some(session) = self.session else { return };
        let deadline = Instant::now() + GUARD_BOUND;
        loop {
            let orphans = of_session(session, std::process::id());
            for pid in orphans.iter().filter_map(|&pid| Pid::from_raw(pid.cast_signed())) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                // What is not ours yet will be once its parent has ended.
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
            }
            if orphans.is_empty() || Instant::now() > deadline {
                return;
            }
            let _ =
                poll(&mut [], Some(&Timespec::try_from(LOOK_AGAIN).expect("milliseconds fit a timespec")));
        }
    }
}

/// Restarts a service. Its guard stays, and takes it for gone only when these are let go of as well: they are to be held
/// no longer than a trial.
#[derive(Debug)]
pub struct Reins {
    guard: u32,
    lifeline: File,
    grace: Duration,
}

impl Reins {
    /// The process that the guard has started; `None` between two of them, and when all is over.
    pub fn command(&self) -> Option<u32> {
        session_below(self.guard)
    }

    /// Ends the service as its stop does, starts it again, and returns once it runs; it need not be ready.
    ///
    /// # Errors
    /// If it is not there any more, or did not end in time.
    pub fn restart(&mut self) -> std::io::Result<()> {
        let before = self.command().ok_or_else(|| std::io::Error::other("it has ended"))?;
        self.lifeline.write_all(b"restart\n")?;
        let deadline = Instant::now() + self.grace + GUARD_BOUND;
        while self.command().is_none_or(|now| now == before) {
            if Instant::now() > deadline {
                return Err(std::io::Error::other("it was not started again in time"));
            }
            let _ =
                poll(&mut [], Some(&Timespec::try_from(LOOK_AGAIN).expect("milliseconds fit a timespec")));
        }
        Ok(())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.stop();
    }
}

fn log_file(path: &Path) -> std::io::Result<File> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    // Appending: a service that is started afresh for every trial keeps what its earlier lives said.
    File::options().create(true).append(true).open(path)
}
