//! Runs the user's `terraform` and `kubectl`.
//!
//! Each program has a process group of its own, so Ctrl-C on the terminal reaches only hoptax. hoptax passes
//! the interruption on to a program that may be interrupted.

use anyhow::{Context as _, anyhow};
use hoptax_host::signals;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which hoptax checks a program.
const POLL: Duration = Duration::from_millis(50);
/// Time for a program to end after a signal.
const GRACE: Duration = Duration::from_secs(20);
/// Time to wait for output after a program has ended. Later output is from a process that the program has
/// left behind.
const SILENCE: Duration = Duration::from_secs(2);
/// Signals that end a program that takes too long, each with the time until the next one.
const TOO_LONG: [(Signal, Duration); 2] = [(Signal::TERM, GRACE), (Signal::KILL, GRACE)];
/// Signals that interrupt a program, each with the time until the next one. An interrupted `terraform`
/// finishes the requests that it has begun, which may take minutes. A second signal ends it at once, and the
/// results of those requests are lost.
const INTERRUPT: [(Signal, Duration); 3] =
    [(Signal::INT, Duration::from_secs(300)), (Signal::TERM, Duration::from_secs(60)), (Signal::KILL, GRACE)];
/// Number of lines of a program's output that an error quotes.
const QUOTED: usize = 12;
/// Length of the output that is read, bytes. Objects of a thousand pods are shorter.
const MOST: usize = 64 << 20;

/// A program with its arguments.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) words: Vec<String>,
    /// Variables for its environment.
    pub(super) variables: Vec<(&'static str, &'static str)>,
    /// What to try if the program fails: a sentence without a full stop.
    pub(super) advice: String,
}

/// Where the output of a long command goes. A program whose output is a file survives the death of hoptax.
pub(super) struct Log<'a> {
    pub(super) path: &'a Path,
    /// Receives each line.
    pub(super) progress: &'a dyn Fn(&str),
}

impl Program {
    /// The command as a user types it.
    pub(super) fn shown(&self) -> String {
        self.words.iter().map(|word| shown_word(word)).collect::<Vec<_>>().join(" ")
    }

    /// Runs the program, and returns its standard output. `input` is its standard input. Fails if it cannot
    /// be started, fails, or takes longer than `limit`. The error names the command and quotes the end of its
    /// standard error.
    pub(super) fn output(&self, input: Option<String>, limit: Duration) -> anyhow::Result<String> {
        let mut child = self.spawn(Stdio::piped(), Stdio::piped(), input.is_some())?;
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            // If the program ends early, its exit code says why.
            thread::spawn(move || stdin.write_all(input.as_bytes()));
        }
        let stdout = Reading::start(child.stdout.take().expect("piped"));
        let stderr = Reading::start(child.stderr.take().expect("piped"));
        let ended = wait_with(&mut child, limit, None, &INTERRUPT, &mut |_| {});
        let (stdout, stderr) = (stdout.text(), stderr.text());
        self.check(ended, limit, &stderr)?;
        Ok(stdout)
    }

    /// Runs the program with a log. If `interrupted` becomes true, the program is asked to end. Fails if it
    /// cannot be started, fails, is interrupted, or takes longer than `limit`. The error names the command
    /// and quotes the end of the log.
    pub(super) fn run(
        &self,
        log: &Log<'_>,
        limit: Duration,
        interrupted: Option<&AtomicBool>,
    ) -> anyhow::Result<()> {
        self.run_with(log, limit, interrupted, &INTERRUPT)
    }

    fn run_with(
        &self,
        log: &Log<'_>,
        limit: Duration,
        interrupted: Option<&AtomicBool>,
        interrupt: &[(Signal, Duration)],
    ) -> anyhow::Result<()> {
        let file = File::options().create(true).append(true).open(log.path);
        let mut file = file.with_context(|| format!("cannot write {}", log.path.display()))?;
        writeln!(file, "$ {}", self.shown())?;
        let from = file.seek(SeekFrom::End(0))?;
        let mut reader = File::open(log.path)?;
        reader.seek(SeekFrom::Start(from))?;
        let (mut text, mut reported) = (Vec::new(), 0);
        let mut child = self.spawn(file.try_clone()?.into(), file.into(), false)?;
        let mut follow = |sent: Option<&str>| {
            let _ = reader.read_to_end(&mut text);
            let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            for line in String::from_utf8_lossy(&text[reported.min(complete)..complete]).lines() {
                (log.progress)(line.trim_end());
            }
            reported = reported.max(complete);
            if let Some(sent) = sent {
                (log.progress)(&format!("`{}` {sent}", self.words[0]));
            }
        };
        let ended = wait_with(&mut child, limit, interrupted, interrupt, &mut follow);
        follow(None);
        self.check(ended, limit, &String::from_utf8_lossy(&text))
    }

    fn spawn(&self, stdout: Stdio, stderr: Stdio, has_input: bool) -> anyhow::Result<Child> {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).envs(self.variables.iter().copied()).process_group(0);
        signals::unignore_for_children()?;
        command.stdin(if has_input { Stdio::piped() } else { Stdio::null() }).stdout(stdout).stderr(stderr);
        command.spawn().map_err(|error| {
            anyhow!("cannot start `{}`: {error}. Install it, or add its directory to PATH", self.words[0])
        })
    }

    fn check(&self, ended: End, limit: Duration, complaints: &str) -> anyhow::Result<()> {
        let why = |why: Why| match why {
            Why::TooLong => format!("took longer than {}", humantime::format_duration(limit)),
            Why::Interrupted => "was interrupted".to_owned(),
        };
        let remains = match ended {
            End::Asked(_, Some(_)) | End::Running(_) => "What it was creating or removing may remain. ",
            _ => "",
        };
        let what = match ended {
            End::Exit(status) if status.success() => return Ok(()),
            End::Exit(status) => match status.code() {
                Some(code) => format!("failed with exit code {code}"),
                None => format!("was ended by a signal ({status})"),
            },
            End::Asked(reason, None) => why(reason),
            End::Asked(reason, Some(last)) => format!("{}, and ended only after {last}", why(reason)),
            End::Running(reason) => format!("{}, and still runs after SIGKILL", why(reason)),
            End::Lost(error) => format!("cannot be waited for: {error}"),
        };
        let quoted = last_lines(complaints);
        let quoted = if quoted.is_empty() { String::new() } else { format!(":\n{quoted}\n") };
        let stop = if quoted.is_empty() { ". " } else { "" };
        Err(anyhow!("`{}` {what}{quoted}{stop}{remains}{}", self.shown(), self.advice))
    }
}

/// Why a program was asked to end.
#[derive(Debug, Clone, Copy)]
enum Why {
    TooLong,
    Interrupted,
}

/// How a program ended.
enum End {
    Exit(ExitStatus),
    /// It was asked to end. If the first signal did not suffice, this names the last one.
    Asked(Why, Option<&'static str>),
    /// It was killed, and did not end.
    Running(Why),
    Lost(std::io::Error),
}

/// The signals that ask a program to end, from the last one that was sent.
struct Ending<'a> {
    why: Why,
    signals: &'a [(Signal, Duration)],
    sent: usize,
    at: Instant,
}

impl<'a> Ending<'a> {
    fn begin(child: &Child, why: Why, signals: &'a [(Signal, Duration)]) -> Self {
        signal(child, signals[0].0);
        Self { why, signals, sent: 0, at: Instant::now() }
    }

    /// The name of the last signal, if it was not the first one.
    fn later_signal(&self) -> Option<&'static str> {
        (self.sent > 0).then(|| name(self.signals[self.sent].0))
    }

    /// Sends the next signal if the time after the last one is over. Returns false if there is no next
    /// signal.
    fn go_on(&mut self, child: &Child, report: &mut dyn FnMut(Option<&str>)) -> bool {
        let (last, time) = self.signals[self.sent];
        if self.at.elapsed() <= time {
            return true;
        }
        let Some(&(next, _)) = self.signals.get(self.sent + 1) else { return false };
        let (time, last, next_name) = (humantime::format_duration(time), name(last), name(next));
        report(Some(&format!("has not ended within {time} after {last}. hoptax sends {next_name}")));
        signal(child, next);
        (self.sent, self.at) = (self.sent + 1, Instant::now());
        true
    }
}

/// Waits until a program ends. Calls `meanwhile` repeatedly, with a message if a signal was not enough.
/// `interrupt` lists the signals that interrupt the program.
fn wait_with(
    child: &mut Child,
    limit: Duration,
    interrupted: Option<&AtomicBool>,
    interrupt: &[(Signal, Duration)],
    meanwhile: &mut dyn FnMut(Option<&str>),
) -> End {
    let started = Instant::now();
    let mut ending: Option<Ending<'_>> = None;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                return ending.map_or(End::Exit(status), |one| End::Asked(one.why, one.later_signal()));
            }
            Ok(None) => {}
            Err(error) => return End::Lost(error),
        }
        meanwhile(None);
        let was_interrupted = || interrupted.is_some_and(|flag| flag.load(Ordering::Relaxed));
        if let Some(one) = &mut ending {
            if !one.go_on(child, meanwhile) {
                return End::Running(one.why);
            }
        } else if was_interrupted() {
            ending = Some(Ending::begin(child, Why::Interrupted, interrupt));
        } else if started.elapsed() > limit {
            ending = Some(Ending::begin(child, Why::TooLong, &TOO_LONG));
        }
        thread::sleep(POLL);
    }
}

fn name(signal: Signal) -> &'static str {
    match signal {
        Signal::INT => "SIGINT",
        Signal::TERM => "SIGTERM",
        _ => "SIGKILL",
    }
}

/// Sends a signal to the program and to the processes that it has started.
fn signal(child: &Child, signal: Signal) {
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        let _ = kill_process_group(group, signal);
    }
}

/// Reads the output of a program on a thread.
struct Reading {
    thread: thread::JoinHandle<()>,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Reading {
    fn start(mut from: impl Read + Send + 'static) -> Self {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let into = Arc::clone(&bytes);
        let body = move || {
            let mut piece = vec![0; 64 << 10];
            while let Ok(count @ 1..) = from.read(&mut piece) {
                let mut into = locked(&into);
                if into.len() + count > MOST {
                    return;
                }
                into.extend_from_slice(&piece[..count]);
            }
        };
        Self { thread: thread::spawn(body), bytes }
    }

    /// The output, after the program has ended. A process that the program has left behind may hold the pipe
    /// open, so the wait for the end of the output stops after [`SILENCE`] without new output.
    fn text(self) -> String {
        let (mut length, mut grown) = (0, Instant::now());
        while !self.thread.is_finished() && grown.elapsed() < SILENCE {
            thread::sleep(Duration::from_millis(1));
            let now = locked(&self.bytes).len();
            if now > length {
                (length, grown) = (now, Instant::now());
            }
        }
        String::from_utf8_lossy(&locked(&self.bytes)).into_owned()
    }
}

fn locked(bytes: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last lines of a program's output, indented. Empty lines are left out.
pub(super) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(QUOTED)..];
    last.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// A word as a user types it in a shell.
fn shown_word(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_./:@%+,-=".contains(letter);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The directory for files of hosts that hoptax has created. Makes it if it does not exist. Fails if it
/// cannot be made.
pub(super) fn directory(home: &Path) -> anyhow::Result<PathBuf> {
    let directory = home.join("hosts");
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_host::programs;
    use std::cell::RefCell;

    fn shell(script: &str) -> Program {
        let words = ["sh", "-c", script].map(str::to_owned).to_vec();
        Program { words, variables: Vec::new(), advice: "Try it yourself".to_owned() }
    }

    #[test]
    fn errors_quote_the_last_lines_of_the_command() {
        let missing = Program { words: vec!["/nowhere/kubectl".into()], ..shell("") };
        let told = [shell("seq 20 >&2; echo ignored; exit 3"), shell("exit 1"), missing]
            .map(|program| program.output(None, GRACE).expect_err("fails").to_string());
        insta::assert_snapshot!(told.join("\n\n"));
    }

    #[test]
    fn input_and_output_are_passed_on() {
        assert_eq!(shell("cat; echo b").output(Some("a\n".into()), GRACE).expect("runs"), "a\nb\n");
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended() {
        let shown = shell("sleep 60").output(None, Duration::from_millis(100)).expect_err("ends").to_string();
        insta::assert_snapshot!(shown);
    }

    #[test]
    fn a_long_command_reports_lines_and_can_be_interrupted() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let (lines, interrupted) = (RefCell::new(Vec::new()), AtomicBool::new(false));
        let progress = |line: &str| {
            lines.borrow_mut().push(line.to_owned());
            interrupted.store(line == "two", Ordering::Relaxed);
        };
        let log = Log { path: &path, progress: &progress };
        shell("echo one").run(&log, GRACE, Some(&interrupted)).expect("runs");
        let script = "trap 'echo stopping; exit 1' INT; echo two; while :; do sleep 0.1; done";
        let shown = shell(script).run(&log, GRACE, Some(&interrupted)).expect_err("ends").to_string();
        assert_eq!(*lines.borrow(), ["one", "two", "stopping"]);
        let text = std::fs::read_to_string(&path).expect("a log");
        insta::assert_snapshot!(format!("{shown}\n\n{text}"));
    }

    #[test]
    fn a_command_ends_also_if_sigint_was_ignored_when_hoptax_started() {
        const ITSELF: &str = "machines::command::tests::a_long_command_reports_lines_and_can_be_interrupted";
        let mut again = Command::new("sh");
        again.args(["-c", "trap '' INT HUP; exec \"$0\" --exact \"$1\""]);
        again.arg(std::env::current_exe().expect("this program")).arg(ITSELF).process_group(0);
        let output = programs::output_within(&mut again, Duration::from_secs(120)).expect("it ends");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && shown.contains("1 passed"), "{shown}");
    }

    #[test]
    fn a_command_that_ignores_signals_is_killed_and_the_error_says_what_may_remain() {
        let directory = tempfile::tempdir().expect("a directory");
        let (lines, interrupted) = (RefCell::new(Vec::new()), AtomicBool::new(false));
        let progress = |line: &str| {
            lines.borrow_mut().push(line.to_owned());
            interrupted.fetch_or(line == "ready", Ordering::Relaxed);
        };
        let log = Log { path: &directory.path().join("log"), progress: &progress };
        let moment = Duration::from_millis(20);
        let interrupt = [(Signal::INT, moment), (Signal::TERM, moment), (Signal::KILL, GRACE)];
        // `exec` keeps ignored signals ignored. The inner shell is a process that the program started.
        let stubborn = shell("trap '' INT TERM; echo ready; sh -c 'exec sleep 600'; exit 3");
        let shown = stubborn.run_with(&log, GRACE, Some(&interrupted), &interrupt).expect_err("killed");
        insta::assert_snapshot!(shown.to_string());
        let said = ["after SIGINT. hoptax sends SIGTERM", "after SIGTERM. hoptax sends SIGKILL"];
        for what in said {
            assert!(lines.borrow().iter().any(|line| line.contains(what)), "{what}: {:?}", lines.borrow());
        }
    }

    #[test]
    fn a_process_that_is_left_behind_does_not_hold_the_output() {
        let left = shell("echo a; setsid sleep 600 & echo b; echo $! >&2; exit 4");
        let error = left.output(None, GRACE).expect_err("it fails").to_string();
        let pid = error.lines().nth(1).and_then(|line| line.trim().parse().ok()).and_then(Pid::from_raw);
        kill_process_group(pid.expect("its id"), Signal::KILL).expect("it still ran");
    }
}
