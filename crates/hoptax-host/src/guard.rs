//! The guard: a process between hoptax and one service. It ensures that no process of the service outlives
//! the run.
//!
//! If hoptax is killed (`kill -9`), it can no longer stop its services. Each guard therefore has a
//! *lifeline*: a pipe from hoptax to the guard's standard input. When hoptax dies for any reason, the kernel
//! closes hoptax's end of the pipe, and the guard notices this. The guard is also the subreaper of its
//! descendants. If a service becomes a daemon or outlives its parent, the kernel makes it a child of the
//! guard instead of a child of process 1. The guard finds such a service by walking `/proc`.
//!
//! The guard itself may be killed too. For this case, the guard does not start the command directly, but
//! starts this program once more. The new process asks the kernel to kill it when the guard dies, and then
//! executes the command ([`exec_command`]). The command runs in a session of its own. If a guard was killed,
//! hoptax uses the session to find the processes that still run (`guarded`).
//!
//! | event | the guard |
//! | --- | --- |
//! | line `stop`, SIGTERM, SIGINT, SIGHUP | sends the stop signal, waits up to the grace period, kills what remains |
//! | line `kill` | kills at once |
//! | line `restart` | stops the command as for `stop`, and starts the command again |
//! | the lifeline ends | as for `stop`, with a grace period of at most [`ORPHAN_GRACE`] |
//! | the command exits | kills the command's remaining processes and exits with the command's code |
//!
//! At the end the guard always removes secrets from the service's logs, and deletes the directory that held
//! the secrets. It also deletes maps for perf that the service wrote to `/tmp`.

use super::tree::descendants;
use super::{logs, maps};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::io::{ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Maximum grace period after hoptax itself has died. It is short, because nobody waits for a graceful end
/// any more.
pub const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// Time for processes to end after SIGKILL. Only a process stuck in the kernel takes longer, and nothing can
/// stop such a process.
const KILL_BOUND: Duration = Duration::from_secs(10);

/// Time limit for the final command. A busy Docker engine takes seconds to remove a container.
pub const FINISH_BOUND: Duration = Duration::from_secs(30);

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Name of the file in a service's directory that lists secrets, one per line. None of these secrets may
/// remain in the logs.
pub const SECRETS: &str = ".hoptax-secrets";

/// Arguments of the guard's command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// CPUs to pin the command and its descendants to; empty means that they are not pinned.
    pub cpus: Vec<u32>,
    /// Signal that asks the command to end.
    pub stop_signal: StopSignal,
    /// Time between the stop signal and SIGKILL.
    pub grace: Duration,
    /// A directory with secrets. When all processes of the command have ended, the guard removes this
    /// directory, and then the parent directory if that is empty.
    pub remove: Option<PathBuf>,
    /// A directory with logs. The guard removes secrets from these logs. The directory `remove` contains the
    /// list of these secrets.
    pub scrub: Option<PathBuf>,
    /// The command and its arguments; never empty.
    pub command: Vec<String>,
    /// Command to run when all processes of the command have ended; empty means none. For example, it removes
    /// a container, because a container is not a descendant of the guard.
    pub finally: Vec<String>,
    /// File for the time at which the command starts; see [`exec_command`]. A restart replaces it. The guard
    /// removes it when it stops the command.
    pub started: Option<PathBuf>,
}

/// A signal that asks a service to end. It is parsed from the signal's name, with or without `SIG`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopSignal(Signal);

impl StopSignal {
    const NAMES: [(&str, Signal); 8] = [
        ("TERM", Signal::TERM),
        ("QUIT", Signal::QUIT),
        ("INT", Signal::INT),
        ("HUP", Signal::HUP),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
        ("WINCH", Signal::WINCH),
        ("KILL", Signal::KILL),
    ];

    /// SIGTERM.
    pub const TERM: Self = Self(Signal::TERM);

    /// Sends the signal to process `pid`.
    ///
    /// # Errors
    /// If there is no such process, or it belongs to another user.
    pub fn send(self, pid: u32) -> std::io::Result<()> {
        let pid = Pid::from_raw(pid.cast_signed()).ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(rustix::process::kill_process(pid, self.0)?)
    }

    /// The signal's name without `SIG`.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, signal)| *signal == self.0).map_or("TERM", |(name, _)| *name)
    }
}

impl Default for StopSignal {
    fn default() -> Self {
        Self::TERM
    }
}

impl std::str::FromStr for StopSignal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.strip_prefix("SIG").unwrap_or(text);
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, signal)| Self(*signal)).ok_or_else(|| {
            let known: Vec<_> = Self::NAMES.iter().map(|(name, _)| *name).collect();
            format!("unknown stop signal `{text}`; use one of {}", known.join(", "))
        })
    }
}

/// Reason why the guard failed.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The command could not be started.
    #[error("cannot start `{command}`: {error}")]
    Spawn {
        /// The program.
        command: String,
        /// The cause.
        error: std::io::Error,
    },
    /// A system call failed.
    #[error("{doing}: {error}")]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The cause.
        error: std::io::Error,
    },
    /// Ids of processes that survived SIGKILL.
    #[error("processes {0:?} could not be killed within {KILL_BOUND:?}")]
    Unkillable(Vec<u32>),
}

impl GuardError {
    /// Converts an error of a system call. `doing` is the operation that failed.
    fn at<E: Into<std::io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System { doing, error: error.into() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// hoptax or a signal asked the guard to stop the command.
    Stop,
    /// hoptax asked the guard to kill the command at once.
    Kill,
    /// hoptax asked the guard to stop the command and start it again.
    Restart,
    /// hoptax is gone.
    LifelineEnded,
    /// The command has exited.
    Exited,
    /// The grace period has ended.
    GraceOver,
}

impl Guard {
    /// Runs the command until it exits or must stop. Returns the guard's exit code. If the guard was asked to
    /// stop the command, the exit code is 0. Otherwise it is the command's own code (128 + signal if a signal
    /// ended the command).
    ///
    /// # Errors
    /// If the command cannot be started, or one of its processes cannot be killed.
    pub fn run(&self) -> Result<u8, GuardError> {
        let code = self.guard();
        if let Some(directory) = &self.remove {
            if let Some(logs) = &self.scrub {
                scrub(logs, &directory.join(SECRETS));
            }
            remove(directory);
        }
        code
    }

    fn guard(&self) -> Result<u8, GuardError> {
        take_name(&self.command);
        prepare(&self.cpus)?;
        let signals = signal_pipe()?;
        let mut command = self.start()?;
        let mut pids = BTreeSet::from([id(command)]);
        let mut watch = Watch { signals, pidfd: watched(command)?, lifeline: true };

        let mut stop_by = None;
        let mut again = false;
        let asked = loop {
            let event = watch.next(stop_by)?;
            if again && matches!(event, Event::Exited | Event::GraceOver) {
                kill_everything(command, &mut pids)?;
                command = self.start()?;
                pids.insert(id(command));
                watch.pidfd = watched(command)?;
                (stop_by, again) = (None, false);
                continue;
            }
            // A restart is ignored if the command is already being stopped. If any other event arrives during
            // a restart, the command is not started again.
            again = event == Event::Restart && (again || stop_by.is_none());
            match event {
                Event::Restart if stop_by.is_some() => {}
                Event::Exited => break stop_by.is_some(),
                Event::Kill | Event::GraceOver => break true,
                event => {
                    let grace = match event {
                        Event::LifelineEnded => self.grace.min(ORPHAN_GRACE),
                        _ => self.grace,
                    };
                    if stop_by.is_none() {
                        pids.extend(running().map(id));
                        // This fails if the command has just exited. The next event then reports the exit.
                        let _ = rustix::process::kill_process(command, self.stop_signal.0);
                    }
                    let by = Instant::now() + grace;
                    stop_by = Some(stop_by.map_or(by, |earlier: Instant| earlier.min(by)));
                }
            }
        };
        let code = kill_everything(command, &mut pids);
        maps::remove(pids);
        finish(&self.finally);
        // If the command ended by itself, hoptax may still read the time of its start.
        if asked && let Some(file) = &self.started {
            remove_started(file);
        }
        let code = code?;
        Ok(if asked { 0 } else { code })
    }

    fn start(&self) -> Result<Pid, GuardError> {
        // This path refers to the running program, even if the program's file has been replaced since.
        let mut child = Command::new("/proc/self/exe");
        child.arg0("hoptax").args(["guard", "--under", &std::process::id().to_string()]);
        if let Some(file) = &self.started {
            child.arg("--started").arg(file);
        }
        let child = child
            .arg("--")
            .args(&self.command)
            .stdin(Stdio::null())
            .spawn()
            .map_err(GuardError::at("starting the command"))?;
        // `kill_everything` reaps this child, together with all processes that are reparented to the guard.
        Ok(Pid::from_child(&child))
    }
}

/// Runs the final command, for at most [`FINISH_BOUND`]. The output and the exit code are ignored, because
/// usually there is nothing to remove and the command then fails.
pub fn finish(command: &[String]) {
    let Some((program, arguments)) = command.split_first() else { return };
    let quiet = || Stdio::null();
    let started =
        Command::new(program).args(arguments).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
    let Ok(mut child) = started else { return };
    if let Ok(pidfd) = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
        wait_for_end(&pidfd, FINISH_BOUND);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Waits until a process has ended, for at most `bound`. A signal to this process does not interrupt the
/// wait. If it did, a container could remain, or a guard could be killed before it has removed secrets from
/// logs.
pub fn wait_for_end(pidfd: &OwnedFd, bound: Duration) {
    let deadline = Instant::now() + bound;
    while Instant::now() < deadline {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).expect("a bound fits a timespec");
        if poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout)) == Ok(1) {
            break;
        }
    }
}

fn watched(command: Pid) -> Result<OwnedFd, GuardError> {
    rustix::process::pidfd_open(command, PidfdFlags::empty()).map_err(GuardError::at("watching the command"))
}

/// The sources of the guard's events.
struct Watch {
    signals: UnixStream,
    pidfd: OwnedFd,
    lifeline: bool,
}

impl Watch {
    fn next(&mut self, deadline: Option<Instant>) -> Result<Event, GuardError> {
        loop {
            let stdin = std::io::stdin();
            let mut fds = vec![
                PollFd::new(&self.pidfd, PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
                PollFd::new(&stdin, PollFlags::IN),
            ];
            if !self.lifeline {
                fds.pop();
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let timeout = left.map(|left| Timespec::try_from(left).expect("a grace fits a timespec"));
            match poll(&mut fds, timeout.as_ref()) {
                Ok(0) => return Ok(Event::GraceOver),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(GuardError::at("waiting")(error)),
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            if ready[0] {
                return Ok(Event::Exited);
            }
            if ready[1] {
                let _ = self.signals.read(&mut [0; 64]);
                return Ok(Event::Stop);
            }
            if ready.get(2) == Some(&true)
                && let Some(event) = self.read_lifeline()
            {
                return Ok(event);
            }
        }
    }

    /// Reads hoptax's commands. Each command is one small write into a pipe, so it arrives in one piece.
    fn read_lifeline(&mut self) -> Option<Event> {
        let mut buffer = [0; 64];
        let read = match rustix::io::read(std::io::stdin(), &mut buffer) {
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {
                return None;
            }
            // Reading can fail if the lifeline is a terminal or a socket. This counts as the end of the
            // lifeline.
            Err(_) => 0,
        };
        let words = String::from_utf8_lossy(&buffer[..read]);
        if read == 0 {
            self.lifeline = false;
            return Some(Event::LifelineEnded);
        }
        let commands = [("kill", Event::Kill), ("stop", Event::Stop), ("restart", Event::Restart)];
        let asked = commands.into_iter().find(|(word, _)| words.lines().any(|line| line == *word));
        asked.map(|(_, event)| event)
    }
}

/// Removes the secrets listed in a file from all logs. If the list cannot be read, the logs themselves are
/// deleted, because they may contain secrets.
fn scrub(directory: &Path, secrets: &Path) {
    match std::fs::read_to_string(secrets) {
        Ok(text) => logs::scrub(directory, &text.lines().map(str::to_owned).collect::<Vec<_>>()),
        Err(_) => {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// Removes a directory and everything in it, and then its parent directory if that is empty. Errors are
/// ignored, because hoptax tries again if it is still running.
fn remove(directory: &Path) {
    let _ = std::fs::remove_dir_all(directory);
    if let Some(parent) = directory.parent() {
        let _ = std::fs::remove_dir(parent);
    }
}

/// Replaces this process with `command`, which leads a new session. The parent of this process is the guard,
/// with the process id `guard`. When the guard dies, the kernel kills this process, but not its children. The
/// kernel no longer does this after the command has changed its user or run a set-uid program.
///
/// More exactly, the kernel kills this process when the *thread* that started it ends. This is the guard's
/// first thread, which lives as long as the guard.
///
/// If `started` is given, writes the time of [`hoptax_format::clock::now`] to this file, in nanoseconds,
/// right before it executes the command. The time that this program needs to start is therefore no part of
/// the command's start.
///
/// Returns only if it fails.
///
/// # Panics
/// If `command` is empty.
pub fn exec_command(guard: u32, command: &[String], started: Option<&Path>) -> GuardError {
    let (program, arguments) = command.split_first().expect("the command line requires a command");
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return GuardError::at("asking to die with the guard")(error);
    }
    // The kernel sends no signal if the guard died before the call above. So check that the guard is still
    // the parent.
    if rustix::process::getppid().is_none_or(|parent| parent.as_raw_pid().cast_unsigned() != guard) {
        return GuardError::at("starting the command")(std::io::Error::other("its guard is gone"));
    }
    // This fails only if the process already leads a process group. A new session is then not needed.
    let _ = rustix::process::setsid();
    if let Err(error) = unignore_signals() {
        return GuardError::at("resetting signals")(error);
    }
    if let Some(file) = started
        && let Err(error) = note_now(file)
    {
        return GuardError::at("noting the time of the start")(error);
    }
    let error = Command::new(program).args(arguments).exec();
    GuardError::Spawn { command: program.clone(), error }
}

/// Extension of the file with the time of a start, until it is complete.
const UNFINISHED: &str = "new";

/// Writes the time to a file. The file appears with its whole content, so that no reader sees a part of it.
fn note_now(file: &Path) -> std::io::Result<()> {
    let unfinished = file.with_extension(UNFINISHED);
    std::fs::write(&unfinished, hoptax_format::clock::now().to_string())?;
    std::fs::rename(&unfinished, file)
}

/// Removes the file with the time of a start, even if it is not complete. Errors are ignored, because the
/// file does not exist if the command never started, or if the guard or hoptax has removed it before.
pub fn remove_started(file: &Path) {
    for file in [file, file.with_extension(UNFINISHED).as_path()] {
        let _ = std::fs::remove_file(file);
    }
}

/// Makes sure that the command does not ignore its stop signal. Background jobs of a script, and programs
/// under `nohup`, ignore some signals, and their children inherit this. A shell cannot trap a signal that was
/// ignored when the shell started, so it would be killed after the grace period. This function installs a
/// handler for each signal, because `exec` resets a signal with a handler to the default action. Until then,
/// the handler does the same as the default action.
fn unignore_signals() -> std::io::Result<()> {
    for (_, signal) in StopSignal::NAMES.iter().filter(|(_, signal)| *signal != Signal::KILL) {
        let always = Arc::new(AtomicBool::new(true));
        signal_hook::flag::register_conditional_default(signal.as_raw(), always)?;
    }
    Ok(())
}

/// Names this process (the guard) after its command. `ps` shows this name. `pkill hoptax` therefore does not
/// kill guards, and they can clean up.
fn take_name(command: &[String]) {
    let program = command.first().map_or("", |program| program.rsplit('/').next().unwrap_or(program));
    if let Ok(name) = CString::new(format!("guard:{program}")) {
        let _ = rustix::thread::set_name(&name);
    }
}

/// Sets up the properties that the command and its descendants inherit.
fn prepare(cpus: &[u32]) -> Result<(), GuardError> {
    // Any process id enables the subreaper for this process, because rustix uses the argument as a boolean.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(GuardError::at("becoming the reaper of descendants"))?;
    let mut files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    files.current = files.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, files)
        .map_err(GuardError::at("raising the descriptor limit"))?;
    if !cpus.is_empty() {
        let mut set = rustix::thread::CpuSet::new();
        for &cpu in cpus {
            set.set(cpu as usize);
        }
        rustix::thread::sched_setaffinity(None, &set).map_err(GuardError::at("pinning to CPUs"))?;
    }
    Ok(())
}

/// A stream that becomes readable when a signal asks the guard to stop.
fn signal_pipe() -> Result<UnixStream, GuardError> {
    let (read, write) = UnixStream::pair().map_err(GuardError::at("making a pipe for signals"))?;
    read.set_nonblocking(true).map_err(GuardError::at("making a pipe for signals"))?;
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let write = write.try_clone().map_err(GuardError::at("making a pipe for signals"))?;
        signal_hook::low_level::pipe::register(signal.as_raw(), write)
            .map_err(GuardError::at("listening for signals"))?;
    }
    Ok(read)
}

fn id(pid: Pid) -> u32 {
    pid.as_raw_pid().cast_unsigned()
}

/// The guard's descendants that run now.
fn running() -> impl Iterator<Item = Pid> {
    descendants(std::process::id()).into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed()))
}

/// Kills and reaps processes until the guard has no descendants left, and adds their ids to `pids`. Returns
/// the command's exit code.
fn kill_everything(command: Pid, pids: &mut BTreeSet<u32>) -> Result<u8, GuardError> {
    let deadline = Instant::now() + KILL_BOUND;
    let mut code = 0;
    loop {
        // A process that loses its parent becomes a child of the guard. So if the guard has no children, it
        // has no other descendants either, and all processes have ended.
        let children_left = loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == command => code = exit_code(status),
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        if !children_left {
            return Ok(code);
        }
        let left: Vec<Pid> = running().collect();
        for &pid in &left {
            // An error means that the process has already ended.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        pids.extend(left.iter().copied().map(id));
        if Instant::now() > deadline {
            return Err(GuardError::Unkillable(left.into_iter().map(id).collect()));
        }
        pause();
    }
}

/// Waits for [`POLL_INTERVAL`], or until a signal arrives.
pub(crate) fn pause() {
    let _ = poll(&mut [], Some(&Timespec::try_from(POLL_INTERVAL).expect("milliseconds fit a timespec")));
}

fn exit_code(status: WaitStatus) -> u8 {
    let code = status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_signals_are_known_with_and_without_their_prefix() {
        assert_eq!("QUIT".parse(), Ok(StopSignal(Signal::QUIT)));
        assert_eq!("SIGUSR1".parse(), Ok(StopSignal(Signal::USR1)));
        assert_eq!("SIGUSR1".parse::<StopSignal>().map(StopSignal::name), Ok("USR1"));
        let refused = "quit".parse::<StopSignal>().unwrap_err();
        assert!(refused.contains("`quit`"), "{refused}");
    }
}
