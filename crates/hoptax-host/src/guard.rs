//! The guard: a process that stands between hoptax and one service, so that nothing outlives the run.
//!
//! A killed hoptax (`kill -9`) cannot stop anything, so the guard holds a *lifeline*: its standard input is a pipe of
//! which hoptax holds the other end. The kernel closes that end whatever hoptax dies of. The guard is also the
//! subreaper of all its descendants: a service that daemonises, or whose master is killed, is reparented to the guard
//! instead of escaping to process 1, and is found by walking `/proc` from the guard.
//!
//! Somebody may kill the guard itself. So the command does not start at once: the guard starts this program once more,
//! which asks the kernel to be killed when the guard dies, and then becomes the command ([`become_command`]). The
//! command leads a session of its own, by which hoptax recognises what a killed guard left (`guarded`).
//!
//! | happens | the guard |
//! | --- | --- |
//! | line `stop`, SIGTERM, SIGINT, SIGHUP | sends the stop signal, waits up to the grace, kills what is left |
//! | line `kill` | kills at once |
//! | line `restart` | ends the command as for `stop`, kills what it left behind, and starts it again |
//! | the lifeline ends | as `stop`, with a grace of at most [`ORPHAN_GRACE`] |
//! | the command exits | kills what it left behind and exits with its code |
//!
//! At the end, whatever came of it, secrets are taken out of the service's logs, and the directory that held them is removed.

use super::logs;
use super::tree::descendants;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};
use std::ffi::CString;
use std::io::{ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The longest grace when hoptax itself is gone: nobody waits for a graceful end any more.
pub const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// How long processes that were sent SIGKILL may take to end. Only ones stuck in the kernel take longer, and they
/// cannot be helped.
const KILL_BOUND: Duration = Duration::from_secs(10);

/// Longest time for what is run at the end: a busy engine takes seconds to remove a container.
pub const FINISH_BOUND: Duration = Duration::from_secs(30);

/// Between two looks for what is left.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// File in a service's directory with secrets: each text that its logs may not keep, one a line.
pub const SECRETS: &str = ".hoptax-secrets";

/// What the guard's command line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// CPUs for the command and its descendants; empty: not pinned.
    pub cpus: Vec<u32>,
    /// Asks the command to end.
    pub stop_signal: StopSignal,
    /// Between the stop signal and SIGKILL.
    pub grace: Duration,
    /// A directory with secrets, removed once nothing of the command is left, however it ended; the one that it lies in goes
    /// with it when it is empty then.
    pub remove: Option<PathBuf>,
    /// A directory with logs, out of which the secrets are taken that are listed in the one to be removed.
    pub scrub: Option<PathBuf>,
    /// The command and its arguments; at least the command.
    pub command: Vec<String>,
    /// What is run at the end, when nothing of the command is left; empty: nothing. It removes what is no descendant of the
    /// guard: a container.
    pub finally: Vec<String>,
}

/// A signal that asks a service to end, by its name with or without `SIG`.
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

    /// Sends it.
    ///
    /// # Errors
    /// If there is no such process, or it belongs to somebody else.
    pub fn send(self, pid: u32) -> std::io::Result<()> {
        let pid = Pid::from_raw(pid.cast_signed()).ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(rustix::process::kill_process(pid, self.0)?)
    }

    /// Its name without `SIG`.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, signal)| *signal == self.0).map_or("TERM", |(name, _)| *name)
    }
}

impl std::str::FromStr for StopSignal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.strip_prefix("SIG").unwrap_or(text);
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, signal)| Self(*signal)).ok_or_else(|| {
            let known: Vec<_> = Self::NAMES.iter().map(|(name, _)| *name).collect();
            format!("unknown stop signal `{text}`; one of {}", known.join(", "))
        })
    }
}

/// Why the guard could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The command could not be started.
    #[error("cannot start `{command}`: {error}")]
    Spawn {
        /// The program.
        command: String,
        /// Why.
        error: std::io::Error,
    },
    /// A system call failed.
    #[error("{doing}: {error}")]
    System {
        /// What was attempted.
        doing: &'static str,
        /// Why it failed.
        error: std::io::Error,
    },
    /// SIGKILL was not enough.
    #[error("processes {0:?} could not be killed within {KILL_BOUND:?}")]
    Unkillable(Vec<u32>),
}

impl GuardError {
    /// Maps an error of a system call.
    fn at<E: Into<std::io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System { doing, error: error.into() }
    }
}

/// What woke the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// Asked to stop.
    Stop,
    /// Asked to kill at once.
    Kill,
    /// Asked to stop, and to start again.
    Restart,
    /// hoptax is gone.
    LifelineEnded,
    /// The command has exited.
    Exited,
    /// The grace is over.
    GraceOver,
}

impl Guard {
    /// Runs the command until it exits or is to stop; returns the exit code for the guard: the command's own where it
    /// exited by itself (128 + signal where a signal ended it), 0 where it was asked to stop.
    ///
    /// # Errors
    /// If the command cannot be started, or something of it cannot be killed.
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
        let mut watch = Watch { signals, pidfd: watched(command)?, lifeline: true };

        let mut stop_by = None;
        let mut again = false;
        let asked = loop {
            let event = watch.next(stop_by)?;
            if again && matches!(event, Event::Exited | Event::GraceOver) {
                kill_everything(command)?;
                command = self.start()?;
                watch.pidfd = watched(command)?;
                (stop_by, again) = (None, false);
                continue;
            }
            // Who is ending does not begin again; and whatever else comes while it is being restarted ends it.
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
                        // It may have exited this moment; then the next event says so.
                        let _ = rustix::process::kill_process(command, self.stop_signal.0);
                    }
                    let by = Instant::now() + grace;
                    stop_by = Some(stop_by.map_or(by, |earlier: Instant| earlier.min(by)));
                }
            }
        };
        let code = kill_everything(command);
        finish(&self.finally);
        let code = code?;
        Ok(if asked { 0 } else { code })
    }

    fn start(&self) -> Result<Pid, GuardError> {
        // By this path it is the running program even where its file was replaced meanwhile.
        let child = Command::new("/proc/self/exe")
            .arg0("hoptax")
            .args(["guard", "--under", &std::process::id().to_string(), "--"])
            .args(&self.command)
            .stdin(Stdio::null())
            .spawn()
            .map_err(GuardError::at("starting the command"))?;
        // Reaped by `kill_everything`, together with everything that is reparented to the guard.
        Ok(Pid::from_child(&child))
    }
}

/// Runs what is to be run at the end, within bounds. What it says and whether it succeeds matters to nobody: mostly there
/// is nothing left to remove.
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

/// Waits until a process has ended, for `bound` at most. A signal to us ends a wait early, and is no reason to leave a container
/// behind, or to kill a guard that is about to take secrets out of logs.
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

/// What the guard waits on.
struct Watch {
    signals: UnixStream,
    pidfd: OwnedFd,
    /// Whether standard input is still open.
    lifeline: bool,
}

impl Watch {
    /// Waits for the next event, until `deadline` where there is one.
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
                && let Some(event) = self.read_lifeline()?
            {
                return Ok(event);
            }
        }
    }

    /// Reads what hoptax wrote. Words come whole: each is one small write into a pipe.
    fn read_lifeline(&mut self) -> Result<Option<Event>, GuardError> {
        let mut buffer = [0; 64];
        let read = match rustix::io::read(std::io::stdin(), &mut buffer) {
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {
                return Ok(None);
            }
            // A terminal or socket that broke is a lifeline that ended.
            Err(_) => 0,
        };
        let words = String::from_utf8_lossy(&buffer[..read]);
        if read == 0 {
            self.lifeline = false;
            Ok(Some(Event::LifelineEnded))
        } else if words.lines().any(|line| line == "kill") {
            Ok(Some(Event::Kill))
        } else if words.lines().any(|line| line == "stop") {
            Ok(Some(Event::Stop))
        } else if words.lines().any(|line| line == "restart") {
            Ok(Some(Event::Restart))
        } else {
            Ok(None)
        }
    }
}

/// Takes the secrets that are listed in a file out of all logs; where they cannot be read, nobody knows what may be kept.
fn scrub(directory: &Path, secrets: &Path) {
    match std::fs::read_to_string(secrets) {
        Ok(text) => logs::scrub(directory, &text.lines().map(str::to_owned).collect::<Vec<_>>()),
        Err(_) => {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// Removes a directory with all that is in it, and its parent if that is empty then. Where it cannot be, whoever made it tries
/// again; who is not there any more cannot be told.
fn remove(directory: &Path) {
    let _ = std::fs::remove_dir_all(directory);
    if let Some(parent) = directory.parent() {
        let _ = std::fs::remove_dir(parent);
    }
}

/// Turns this process, a child of the guard `guard`, into `command`: in a session of its own, and to be killed by the
/// kernel when the guard dies of whatever. That holds until the command changes its user or is a set-uid program, and
/// not for what it starts in its turn.
///
/// The kernel means the *thread* that started this process: the guard's first, which lives as long as the guard.
///
/// Returns only if that cannot be.
///
/// # Panics
/// If `command` is empty.
pub fn become_command(guard: u32, command: &[String]) -> GuardError {
    let (program, arguments) = command.split_first().expect("the command line requires a command");
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return GuardError::at("asking to die with the guard")(error);
    }
    // Whoever died before we asked sends nothing any more.
    if rustix::process::getppid().is_none_or(|parent| parent.as_raw_pid().cast_unsigned() != guard) {
        return GuardError::at("starting the command")(std::io::Error::other("its guard is gone"));
    }
    // Fails only for who leads a group already, which has a group of its own.
    let _ = rustix::process::setsid();
    if let Err(error) = unignore_signals() {
        return GuardError::at("resetting signals")(error);
    }
    let error = Command::new(program).args(arguments).exec();
    GuardError::Spawn { command: program.clone(), error }
}

/// Whoever starts hoptax in the background of a script or by `nohup` ignores some signals, and that is inherited: a shell
/// cannot even trap them then, and would be killed in the end. What has a handler is reset to its default by `exec`; until
/// then the handler does what the default would.
fn unignore_signals() -> std::io::Result<()> {
    for (_, signal) in StopSignal::NAMES.iter().filter(|(_, signal)| *signal != Signal::KILL) {
        let always = Arc::new(AtomicBool::new(true));
        signal_hook::flag::register_conditional_default(signal.as_raw(), always)?;
    }
    Ok(())
}

/// Named after its command, which is what `ps` shows. So `pkill hoptax` leaves the guards to clean up.
fn take_name(command: &[String]) {
    let program = command.first().map_or("", |program| program.rsplit('/').next().unwrap_or(program));
    if let Ok(name) = CString::new(format!("guard:{program}")) {
        let _ = rustix::thread::set_name(&name);
    }
}

/// Everything that the command and its descendants inherit.
fn prepare(cpus: &[u32]) -> Result<(), GuardError> {
    // Any pid switches it on for this process; rustix asks for one to say "on".
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

/// Kills and reaps until the guard has no descendant left; returns the command's exit code.
fn kill_everything(command: Pid) -> Result<u8, GuardError> {
    let own = std::process::id();
    let deadline = Instant::now() + KILL_BOUND;
    let mut code = 0;
    loop {
        // Whatever loses its parent becomes a child of the guard, so no child and no descendant left means: all gone.
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
        let left = descendants(own);
        for pid in left.iter().filter_map(|&pid| Pid::from_raw(pid.cast_signed())) {
            // One that ended meanwhile is what is wanted.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        if Instant::now() > deadline {
            return Err(GuardError::Unkillable(left.into_iter().collect()));
        }
        let _ = poll(&mut [], Some(&Timespec::try_from(LOOK_AGAIN).expect("milliseconds fit a timespec")));
    }
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
        assert!(refused.starts_with("unknown stop signal `quit`; one of TERM, QUIT"), "{refused}");
    }
}
