//! A service that runs under a guard, as hoptax sees it: how to start it, check that it runs, and stop it.

use super::guard::{FINISH_BOUND, StopSignal, finish, pause, wait_for_end};
use super::tree::{descendants, of_session, session_below};
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

/// Time limit for the guard to kill the remaining processes after the grace period. Usually the guard needs
/// less time.
const GUARD_BOUND: Duration = Duration::from_secs(40);

/// Time limit for removing secrets from the logs. A gigabyte of logs takes some seconds.
const SCRUB_BOUND: Duration = Duration::from_secs(600);

/// The program to start, its environment, and how to stop it.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// The program.
    pub program: OsString,
    /// The program's arguments.
    pub arguments: Vec<OsString>,
    /// Environment variables, in addition to hoptax's own.
    pub environment: BTreeMap<String, String>,
    /// Working directory; absent means hoptax's own.
    pub directory: Option<PathBuf>,
    /// CPUs to pin the service to; empty means that it is not pinned.
    pub cpus: Vec<u32>,
    /// Signal that asks the service to end.
    pub stop_signal: StopSignal,
    /// Time between the stop signal and SIGKILL.
    pub grace: Duration,
    /// A directory with secrets, which is removed at the end; see [`super::guard::Guard::remove`].
    pub remove: Option<PathBuf>,
    /// A directory with the service's logs; see [`super::guard::Guard::scrub`].
    pub scrub: Option<PathBuf>,
    /// Command to run when all processes have ended; empty means none.
    pub finally: Vec<String>,
    /// File for the time at which the service starts, in nanoseconds of [`hoptax_format::clock::now`]; see
    /// [`super::guard::Guard::started`].
    pub started: Option<PathBuf>,
    /// File for the service's standard output; absent means a pipe to hoptax.
    pub stdout: Option<PathBuf>,
    /// File for the service's standard error.
    pub stderr: PathBuf,
}

/// A running service and its guard. Dropping this value stops the service.
#[derive(Debug)]
pub struct Guarded {
    guard: Child,
    lifeline: Option<ChildStdin>,
    grace: Duration,
    /// Time limit for the guard's own work after the grace period.
    bound: Duration,
    ended: Option<ExitStatus>,
    /// The session that the command leads; `None` while the session is not known yet.
    session: Option<u32>,
    /// The guard's final command. hoptax runs this command if the guard was killed.
    finally: Vec<String>,
}

impl Guarded {
    /// Starts `launch` under a guard. `exe` is the `hoptax` binary, which acts as the guard.
    ///
    /// # Errors
    /// If a log file cannot be created, or the guard cannot be started. A command that cannot be started is
    /// not an error here: the guard then exits with code 127 and writes the reason to the standard error
    /// file.
    pub fn start(exe: &Path, launch: &Launch) -> std::io::Result<Self> {
        // Processes that a killed guard leaves behind are reparented to this process instead of to process 1.
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
        if let Some(file) = &launch.started {
            command.arg("--started").arg(file);
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
        // The guard gets a process group of its own, so that Ctrl-C in the terminal reaches only hoptax,
        // which then decides what to stop.
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

    /// The guard's process id. All processes of the service are descendants of the guard. The guard itself
    /// does not belong to the service.
    pub fn pid(&self) -> u32 {
        self.guard.id()
    }

    /// A handle that restarts the service from any thread; `None` if the service was stopped.
    pub fn restart_handle(&self) -> Option<RestartHandle> {
        let lifeline = self.lifeline.as_ref()?.as_fd().try_clone_to_owned().ok()?;
        Some(RestartHandle { guard: self.guard.id(), lifeline: lifeline.into(), grace: self.grace })
    }

    /// The service's standard output, if it is a pipe and has not been taken yet.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.guard.stdout.take()
    }

    /// The exit status of the guard; `None` while the service runs. If the service ended by itself, the guard
    /// exits with the status of the service.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            // After a restart the command leads a new session.
            self.session = session_below(self.guard.id()).or(self.session);
            // An error means that another thread has reaped the guard. The guard has then ended, but its
            // status is unknown.
            self.ended = self.guard.try_wait().unwrap_or(Some(ExitStatus::default()));
            if self.ended.is_some_and(|status| status.signal().is_some()) {
                self.kill_orphans();
                finish(&self.finally);
            }
        }
        self.ended
    }

    /// Whether the guard finished its final work. False while the guard runs, and false if the guard was
    /// killed.
    pub fn ended_by_itself(&mut self) -> bool {
        self.ended().is_some_and(|status| status.code().is_some())
    }

    /// Stops the service and kills the remaining processes after the grace period. Returns when all processes
    /// have ended. Can be called twice.
    pub fn stop(&mut self) {
        self.end("stop\n", self.grace);
    }

    /// Kills the service at once and returns when all processes have ended.
    pub fn kill(&mut self) {
        self.end("kill\n", Duration::ZERO);
    }

    fn end(&mut self, word: &str, grace: Duration) {
        if self.ended().is_some() {
            return;
        }
        if let Some(mut lifeline) = self.lifeline.take() {
            // Writing fails if the guard is already ending, which does no harm.
            let _ = lifeline.write_all(word.as_bytes());
            // Keep the lifeline open until the guard has ended, because closing it would shorten the grace
            // period.
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

    /// Kills the guard and its descendants. Used if the guard does not end in time.
    fn end_without_guard(&mut self) {
        let below = descendants(self.guard.id());
        for pid in below.into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        let _ = self.guard.kill();
        self.ended = self.guard.wait().ok().or(Some(ExitStatus::default()));
        self.kill_orphans();
        finish(&self.finally);
    }

    /// Kills and reaps the processes that a killed guard left running. By now they are descendants of this
    /// process. They are identified by the session of the command. The kernel has already killed the command
    /// itself.
    fn kill_orphans(&self) {
        let Some(session) = self.session else { return };
        let deadline = Instant::now() + GUARD_BOUND;
        loop {
            let orphans = of_session(session, std::process::id());
            for pid in orphans.iter().filter_map(|&pid| Pid::from_raw(pid.cast_signed())) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                // A process that is not yet a child of this process becomes one when its parent ends.
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
            }
            if orphans.is_empty() || Instant::now() > deadline {
                return;
            }
            pause();
        }
    }
}

/// Restarts a service from any thread. The handle keeps the lifeline open, and the guard notices the death of
/// hoptax only when the lifeline is closed. So drop the handle at the end of a trial.
#[derive(Debug)]
pub struct RestartHandle {
    guard: u32,
    lifeline: File,
    grace: Duration,
}

impl RestartHandle {
    /// Process id of the command that the guard has started; `None` during a restart and after the end.
    pub fn command(&self) -> Option<u32> {
        session_below(self.guard)
    }

    /// Stops the service as [`Guarded::stop`] does and starts it again. Returns once the service runs, even
    /// if the service is not ready yet.
    ///
    /// # Errors
    /// If the service has ended, or did not stop in time.
    pub fn restart(&mut self) -> std::io::Result<()> {
        let before = self.command().ok_or_else(|| std::io::Error::other("it has ended"))?;
        self.lifeline.write_all(b"restart\n")?;
        let deadline = Instant::now() + self.grace + GUARD_BOUND;
        while self.command().is_none_or(|now| now == before) {
            if Instant::now() > deadline {
                return Err(std::io::Error::other("it was not started again in time"));
            }
            pause();
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
    // Append to the file, so that a service that is restarted for every trial keeps its earlier logs.
    File::options().create(true).append(true).open(path)
}
