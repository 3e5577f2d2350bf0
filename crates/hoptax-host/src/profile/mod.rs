//! Records stacks of processes with `perf`, which must be installed.
//!
//! CPU time comes from perf's software clock (`cpu-clock`), because virtual machines often have no hardware
//! counters. Waiting comes from perf's software event for context switches. Both need no tracing file system.

mod fold;
mod folded;
mod script;

pub use folded::{Folded, Span};
pub(crate) use script::nanoseconds;

use crate::guarded::{Guarded, Launch};
use crate::private::{self, TempDir};
use crate::probe::{Processes, Tree};
use crate::{Watched, programs};
use fold::Fold;
use hoptax_format::clock;
use hoptax_record::profile::{Callers, PassKind};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Samples per second of CPU time. It is a prime number, so that samples do not keep step with timers.
const FREQUENCY: u64 = 499;

/// Bytes that perf copies of a thread's stack for each sample, to find callers from unwind tables. Stacks of
/// gateways are rarely deeper.
const STACK_BYTES: u32 = 8192;

/// Size of perf's buffers, for root only. Other users may lock only a little memory.
const BUFFER: &str = "4M";

/// Maximum time until perf has begun to record, and until it has written its last samples.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time that perf needs after it has begun to write, until it records the first thread.
const SETTLE: Duration = Duration::from_millis(100);

/// Path of the file that is a process's standard input, even if it was removed.
const STDIN: &str = "/proc/self/fd/0";

/// Interval at which hoptax checks whether perf records or has ended.
const POLL: Duration = Duration::from_millis(10);

/// Maximum time for printing the samples of a pass.
const PRINTING: Duration = Duration::from_secs(600);

/// Maximum time that printing the version may take.
const VERSION_TIME: Duration = Duration::from_secs(10);

/// Highest value of `kernel.perf_event_paranoid` at which all users may see the kernel's part of their
/// processes.
const SEES_KERNEL: i64 = 1;

/// Highest value of `kernel.perf_event_paranoid` at which all users may profile their processes. Debian and
/// Ubuntu also have higher values.
const SEES_PROGRAM: i64 = 2;

/// Maximum time that writing the names of a process's generated code may take.
const MAP_TIME: Duration = Duration::from_secs(20);

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";
const HIGHEST_FREQUENCY: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

/// Why stacks cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The program is not installed.
    #[error(
        "`perf` is not installed; install it (Debian: apt-get install linux-perf; Ubuntu: apt-get install \
         linux-tools-generic; Fedora: dnf install perf), or leave out profiles"
    )]
    Missing,
    /// The kernel does not allow it.
    #[error(
        "this user may not profile its processes, because kernel.perf_event_paranoid is {0}; run as root, \
         or: sysctl -w kernel.perf_event_paranoid=1"
    )]
    Forbidden(i64),
    /// The kernel does not let this user see why threads wait.
    #[error(
        "this user may not see why threads wait, because kernel.perf_event_paranoid is {0}; run as root, \
         or: sysctl -w kernel.perf_event_paranoid=1"
    )]
    NoSwitches(i64),
    /// The kernel does not let this user record switches of all CPUs.
    #[error(
        "this user may not record the switches of all CPUs ({0}); run as root, with access to \
         /sys/kernel/tracing"
    )]
    NoTracepoints(String),
    /// The gateway has no processes.
    #[error("the gateway has no process on this machine")]
    NoProcess,
    /// perf ended early, or printed nothing.
    #[error("`perf {verb}` failed: {why}")]
    Failed {
        /// The command of perf.
        verb: &'static str,
        /// The end of its messages.
        why: String,
    },
    /// A file or a process of perf cannot be used.
    #[error("cannot record stacks: {0}")]
    Io(#[from] io::Error),
}

/// An installed perf that this user may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profiler {
    pub(crate) program: PathBuf,
    pub(crate) version: String,
    /// Value of `kernel.perf_event_paranoid`. Absent for root, whom it does not restrict.
    pub(crate) paranoid: Option<i64>,
}

impl Profiler {
    /// Finds perf, and finds out what this user may do with it.
    ///
    /// # Errors
    /// If perf is not installed, does not run, or this user may not profile.
    pub fn find() -> Result<Self, ProfileError> {
        let program = programs::find_in("perf", &programs::search_path()).ok_or(ProfileError::Missing)?;
        let command = [program.to_string_lossy().into_owned(), "--version".to_owned()];
        // Ubuntu's `perf` is a script that fails if the tools of the running kernel are missing.
        let version = programs::output_of(&command, VERSION_TIME).unwrap_or_default();
        let version = version.lines().next().unwrap_or_default().trim().to_owned();
        if !version.starts_with("perf version") {
            return Err(ProfileError::Failed { verb: "--version", why: version });
        }
        let paranoid = (!geteuid().is_root()).then(|| number_in(PARANOID).unwrap_or(SEES_PROGRAM));
        match paranoid {
            Some(level) if level > SEES_PROGRAM => Err(ProfileError::Forbidden(level)),
            _ => Ok(Self { program, version, paranoid }),
        }
    }

    /// Name and version: `perf version 6.1.187`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether the stacks of a pass contain the kernel's part.
    pub fn sees_kernel(&self) -> bool {
        self.paranoid.is_none_or(|level| level <= SEES_KERNEL)
    }

    /// Starts recording the threads that a service has now, and all that they start. Returns when perf
    /// records. perf runs under a guard, for which `exe` is the `hoptax` binary.
    ///
    /// # Errors
    /// If the service has no processes, perf does not start, or this user may not record this.
    pub fn record(
        &self,
        exe: &Path,
        watched: Watched,
        kind: PassKind,
        callers: Callers,
    ) -> Result<Recording, ProfileError> {
        if let (PassKind::Waiting, false, Some(level)) = (kind, self.sees_kernel(), self.paranoid) {
            return Err(ProfileError::NoSwitches(level));
        }
        let processes = Tree::new(watched, &Processes::now()).pids();
        if processes.is_empty() {
            return Err(ProfileError::NoProcess);
        }
        let perf = self.start(exe, self.arguments(kind, callers, &processes))?;
        Ok(Recording { kind, callers, processes, perf })
    }

    /// Starts `perf record` with these arguments under a guard, for which `exe` is the `hoptax` binary.
    /// Returns when perf records.
    pub(crate) fn start(&self, exe: &Path, mut arguments: Vec<String>) -> Result<Perf, ProfileError> {
        let directory = Files::new()?;
        let messages = directory.messages()?;
        arguments.extend(["--output".to_owned(), directory.data().to_string_lossy().into_owned()]);
        let launch = Launch {
            program: self.program.clone().into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: BTreeMap::from([("DEBUGINFOD_URLS".to_owned(), String::new())]),
            stop_signal: "INT".parse().expect("a signal"),
            grace: PATIENCE,
            // However hoptax and perf end, the guard removes what was recorded.
            remove: Some(directory.inner()),
            stdout: Some("/dev/null".into()),
            stderr: directory.messages_path(),
            ..Launch::default()
        };
        let guarded = Guarded::start(exe, &launch)?;
        let mut perf = Perf { program: self.program.clone(), guarded, data: None, messages, directory };
        perf.data = Some(perf.await_begin()?);
        Ok(perf)
    }

    /// Arguments of `perf record`.
    fn arguments(&self, kind: PassKind, callers: Callers, processes: &[u32]) -> Vec<String> {
        let mut arguments: Vec<String> = ["record", "--no-buildid", "--no-buildid-cache"]
            .into_iter()
            .chain(["--clockid", "CLOCK_MONOTONIC"])
            .map(str::to_owned)
            .collect();
        let mut add = |more: &[&str]| arguments.extend(more.iter().map(|text| (*text).to_owned()));
        match kind {
            PassKind::Cpu => {
                let event = if self.sees_kernel() { "cpu-clock" } else { "cpu-clock:u" };
                let callers = match callers {
                    Callers::Dwarf => format!("dwarf,{STACK_BYTES}"),
                    Callers::FramePointers => "fp".to_owned(),
                };
                let frequency = frequency().to_string();
                add(&["--event", event, "--freq", frequency.as_str(), "--call-graph", callers.as_str()]);
            }
            // A copy of the stack at each switch would be too much data, so callers come from frame pointers.
            PassKind::Waiting => {
                add(&["--event", "context-switches", "--count", "1", "--call-graph", "fp"]);
                add(&["--switch-events"]);
            }
        }
        if self.paranoid.is_none() {
            add(&["--mmap-pages", BUFFER]);
        }
        let processes: Vec<String> = processes.iter().map(u32::to_string).collect();
        add(&["--pid", processes.join(",").as_str()]);
        arguments
    }
}

fn number_in(path: &str) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Samples per second. The kernel lowers its limit if samples take too long.
fn frequency() -> u64 {
    let limit = number_in(HIGHEST_FREQUENCY).and_then(|limit| u64::try_from(limit).ok());
    limit.filter(|limit| *limit > 0).map_or(FREQUENCY, |limit| limit.min(FREQUENCY))
}

/// Stacks that perf records. Dropping this value ends the recording.
#[derive(Debug)]
pub struct Recording {
    kind: PassKind,
    callers: Callers,
    /// The processes that were recorded from the beginning.
    processes: Vec<u32>,
    perf: Perf,
}

/// perf while it records, under a guard. Dropping this value kills perf and removes its data.
#[derive(Debug)]
pub(crate) struct Perf {
    program: PathBuf,
    guarded: Guarded,
    /// perf's data; absent until perf records. The guard removes the file when perf ends, but hoptax can
    /// still read it through this open file.
    data: Option<File>,
    /// perf's messages.
    messages: File,
    directory: Files,
}

impl Recording {
    /// Runs a command for each recorded process, with `{{ pid }}` replaced by its id. The command writes the
    /// names of generated code to `/tmp/perf-PID.map`, where perf looks for them. If it fails, frames have no
    /// names.
    pub fn write_maps(&self, command: &[String]) {
        if command.is_empty() {
            return;
        }
        for pid in &self.processes {
            let words: Vec<String> =
                command.iter().map(|word| word.replace("{{ pid }}", &pid.to_string())).collect();
            let _ = programs::output_of(&words, MAP_TIME);
        }
    }

    /// Stops recording, and adds up the stacks in these slices of time, which are in order. The processes
    /// must still run, because the names of generated code may be in files that they remove at their end.
    ///
    /// # Errors
    /// If perf has ended early, or its data cannot be read.
    pub fn finish(mut self, spans: &[Span]) -> Result<Folded, ProfileError> {
        self.perf.check()?;
        let mut arguments = vec!["--no-inline", "--fields", "comm,pid,tid,time,event,ip,sym,dso"];
        if self.kind == PassKind::Waiting {
            arguments.extend(["--show-switch-events", "--show-task-events"]);
        }
        let mut fold = Fold::new(self.kind, self.callers, spans, clock::SECOND / frequency());
        let unreadable = self.perf.print(&arguments, |text| script::read(text, |entry| fold.add(entry)))?;
        Ok(Folded { unreadable, ..fold.finish() })
    }
}

impl Perf {
    /// Waits until perf has written the head of its file, which it does right before it begins to record.
    /// Returns the file.
    fn await_begin(&mut self) -> Result<File, ProfileError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let file = File::open(self.directory.data()).ok();
            if let Some(file) = file.filter(|file| file.metadata().is_ok_and(|file| file.len() > 0)) {
                std::thread::sleep(SETTLE);
                return Ok(file);
            }
            self.check()?;
            if Instant::now() > deadline {
                let why = format!("it did not begin to record within {} s", PATIENCE.as_secs());
                return Err(ProfileError::Failed { verb: "record", why });
            }
            std::thread::sleep(POLL);
        }
    }

    /// Fails if perf has ended early.
    pub(crate) fn check(&mut self) -> Result<(), ProfileError> {
        if self.guarded.ended().is_some() { Err(self.failed("record")) } else { Ok(()) }
    }

    /// Stops perf. Lets `read` read what `perf script` with these arguments prints about the recording. Fails
    /// if perf's data cannot be read.
    pub(crate) fn print<T>(
        &mut self,
        arguments: &[&str],
        read: impl FnOnce(BufReader<ChildStdout>) -> io::Result<T>,
    ) -> Result<T, ProfileError> {
        // Asks perf to stop, and waits until it has written everything.
        self.guarded.stop();
        let data = self.data.take().ok_or_else(|| self.failed("record"))?;
        let mut printing = Command::new(&self.program)
            .args(["script", "--force", "--ns", "--show-lost-events", "--input", STDIN])
            .args(arguments)
            .env("DEBUGINFOD_URLS", "")
            .stdin(data)
            .stdout(Stdio::piped())
            .stderr(self.messages.try_clone()?)
            // Ctrl-C on the terminal must not reach perf, because hoptax decides when it stops.
            .process_group(0)
            .spawn()?;
        let limit = Limit::start(&printing, PRINTING);
        let stdout = printing.stdout.take().expect("piped");
        let read = read(BufReader::new(stdout));
        if read.is_err() {
            let _ = printing.kill();
        }
        let status = printing.wait()?;
        drop(limit);
        let read = read?;
        if status.success() { Ok(read) } else { Err(self.failed("script")) }
    }

    /// The failure of a command of perf, with the end of its messages.
    fn failed(&self, verb: &'static str) -> ProfileError {
        ProfileError::Failed { verb, why: last_lines(&self.messages) }
    }
}

/// Kills a process after a time, unless this value is dropped before.
struct Limit {
    _ended: mpsc::Sender<()>,
}

impl Limit {
    fn start(child: &Child, time: Duration) -> Self {
        let (_ended, ends) = mpsc::channel::<()>();
        let pid = Pid::from_child(child);
        thread::spawn(move || {
            if ends.recv_timeout(time) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        Self { _ended }
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        // Does nothing if perf has ended.
        self.guarded.kill();
    }
}

/// A private directory, because copies of stacks may contain keys and passwords.
#[derive(Debug)]
struct Files(TempDir);

impl Files {
    fn new() -> io::Result<Self> {
        let files = Self(private::temporary("hoptax-profile-", &std::env::temp_dir())?);
        fs::create_dir(files.inner())?;
        Ok(files)
    }

    /// The directory for all files. The guard removes it, and then the private directory, which is empty
    /// then.
    fn inner(&self) -> PathBuf {
        self.0.path().join("perf")
    }

    fn data(&self) -> PathBuf {
        self.inner().join("perf.data")
    }

    fn messages_path(&self) -> PathBuf {
        self.inner().join("messages")
    }

    /// Opens the file for perf's messages. It can be read after the guard has removed it.
    fn messages(&self) -> io::Result<File> {
        File::options().create(true).read(true).append(true).open(self.messages_path())
    }
}

/// The last lines of a file, as one line.
fn last_lines(mut file: &File) -> String {
    const LINES: usize = 4;
    let mut text = Vec::new();
    let _ = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.as_slice() {
        [] => "it printed no reason".to_owned(),
        some => some[some.len().saturating_sub(LINES)..].join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profiler(paranoid: Option<i64>) -> Profiler {
        Profiler { program: "/usr/bin/perf".into(), version: "perf version 6.1".into(), paranoid }
    }

    #[test]
    fn users_without_rights_see_only_their_program() {
        for (paranoid, sees) in [(None, true), (Some(-1), true), (Some(1), true), (Some(2), false)] {
            let profiler = profiler(paranoid);
            assert_eq!(profiler.sees_kernel(), sees, "{paranoid:?}");
            let arguments = profiler.arguments(PassKind::Cpu, Callers::Dwarf, &[7, 8]).join(" ");
            assert_eq!(arguments.contains("--event cpu-clock:u "), !sees, "{arguments}");
            assert_eq!(arguments.contains("--mmap-pages"), paranoid.is_none(), "{arguments}");
            assert!(arguments.ends_with("--pid 7,8"), "{arguments}");
        }
        let waiting = profiler(Some(2)).record(
            Path::new("/nowhere"),
            Watched { pid: std::process::id(), include_root: true },
            PassKind::Waiting,
            Callers::Dwarf,
        );
        assert!(matches!(waiting, Err(ProfileError::NoSwitches(2))), "{waiting:?}");
    }

    #[test]
    fn callers_are_found_as_the_pack_says() {
        let of = |kind, callers| profiler(None).arguments(kind, callers, &[1]).join(" ");
        assert!(of(PassKind::Cpu, Callers::Dwarf).contains("--call-graph dwarf,8192"));
        assert!(of(PassKind::Cpu, Callers::FramePointers).contains("--call-graph fp"));
        let waiting = of(PassKind::Waiting, Callers::Dwarf);
        assert!(waiting.contains("--event context-switches --count 1 --call-graph fp"), "{waiting}");
    }

    #[test]
    fn files_are_private_and_removed() {
        use std::io::Write as _;
        use std::os::unix::fs::PermissionsExt as _;
        let directory = Files::new().expect("made");
        let path = directory.0.path().to_owned();
        assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o700);
        let mut messages = directory.messages().expect("opened");
        messages.write_all(b"\n first\n\n event syntax error\n").expect("written");
        drop(directory);
        assert!(!path.exists());
        assert_eq!(last_lines(&messages), "first event syntax error", "they can still be read");
    }
}
