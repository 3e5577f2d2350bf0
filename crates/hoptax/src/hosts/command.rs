//! Runs the user's `terraform` and `kubectl`.
//!
//! Each program has a process group of its own, so Ctrl-C on the terminal reaches only hoptax. hoptax passes it on if the program may
//! be interrupted.

use anyhow::{Context as _, anyhow};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which hoptax looks after a program.
const POLL: Duration = Duration::from_millis(50);
/// Time for a program to end after it was asked to.
const GRACE: Duration = Duration::from_secs(20);
/// Number of lines of a program's output that an error quotes.
const QUOTED: usize = 12;
/// Length of the output that is read, bytes. Objects of a thousand pods are shorter.
const MOST: u64 = 64 << 20;

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

    /// Runs the program, and returns its standard output. `input` is its standard input.
    ///
    /// # Errors
    /// If it cannot be started, fails, or takes longer than `limit`. The error names the command and quotes the end of its
    /// standard error.
    pub(super) fn output(&self, input: Option<String>, limit: Duration) -> anyhow::Result<String> {
        let mut child = self.spawn(Stdio::piped(), Stdio::piped(), input.is_some())?;
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            // If the program ends early, its exit code says why.
            thread::spawn(move || stdin.write_all(input.as_bytes()));
        }
        let stdout = read(child.stdout.take().expect("piped"));
        let stderr = read(child.stderr.take().expect("piped"));
        let ended = wait(&mut child, limit, None);
        let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
        self.check(ended, limit, &stderr)?;
        Ok(stdout)
    }

    /// Runs the program with a log. If `interrupted` becomes true, the program is asked to end.
    ///
    /// # Errors
    /// If it cannot be started, fails, is interrupted, or takes longer than `limit`. The error names the command and quotes the
    /// end of the log.
    pub(super) fn run(
        &self,
        log: &Log<'_>,
        limit: Duration,
        interrupted: Option<&AtomicBool>,
    ) -> anyhow::Result<()> {
        let file = File::options().create(true).append(true).open(log.path);
        let mut file = file.with_context(|| format!("cannot write {}", log.path.display()))?;
        writeln!(file, "$ {}", self.shown())?;
        let from = file.seek(SeekFrom::End(0))?;
        let mut reader = File::open(log.path)?;
        reader.seek(SeekFrom::Start(from))?;
        let (mut text, mut reported) = (Vec::new(), 0);
        let mut child = self.spawn(file.try_clone()?.into(), file.into(), false)?;
        let mut follow = || {
            let _ = reader.read_to_end(&mut text);
            let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            for line in String::from_utf8_lossy(&text[reported.min(complete)..complete]).lines() {
                (log.progress)(line.trim_end());
            }
            reported = reported.max(complete);
        };
        let ended = wait_with(&mut child, limit, interrupted, &mut follow);
        follow();
        self.check(ended, limit, &String::from_utf8_lossy(&text))
    }

    fn spawn(&self, stdout: Stdio, stderr: Stdio, has_input: bool) -> anyhow::Result<Child> {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).envs(self.variables.iter().copied()).process_group(0);
        command.stdin(if has_input { Stdio::piped() } else { Stdio::null() }).stdout(stdout).stderr(stderr);
        command.spawn().map_err(|error| {
            anyhow!("cannot start `{}`: {error}. Install it, or add its directory to PATH", self.words[0])
        })
    }

    fn check(&self, ended: End, limit: Duration, complaints: &str) -> anyhow::Result<()> {
        let what = match ended {
            End::Exit(status) if status.success() => return Ok(()),
            End::Exit(status) => match status.code() {
                Some(code) => format!("failed with exit code {code}"),
                None => format!("was ended by a signal ({status})"),
            },
            End::TooLong => format!("took longer than {}", humantime::format_duration(limit)),
            End::Interrupted => "was interrupted".to_owned(),
            End::Lost(error) => format!("cannot be waited for: {error}"),
        };
        let quoted = last_lines(complaints);
        let quoted = if quoted.is_empty() { String::new() } else { format!(":\n{quoted}\n") };
        let stop = if quoted.is_empty() { ". " } else { "" };
        Err(anyhow!("`{}` {what}{quoted}{stop}{}", self.shown(), self.advice))
    }
}

/// How a program ended.
enum End {
    Exit(ExitStatus),
    TooLong,
    Interrupted,
    Lost(std::io::Error),
}

fn wait(child: &mut Child, limit: Duration, interrupted: Option<&AtomicBool>) -> End {
    wait_with(child, limit, interrupted, &mut || {})
}

fn wait_with(
    child: &mut Child,
    limit: Duration,
    interrupted: Option<&AtomicBool>,
    meanwhile: &mut dyn FnMut(),
) -> End {
    let started = Instant::now();
    // Why the program was asked to end, and when.
    let mut asked: Option<(End, Instant)> = None;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return asked.map_or(End::Exit(status), |(why, _)| why),
            Ok(None) => {}
            Err(error) => return End::Lost(error),
        }
        meanwhile();
        let is_interrupted = interrupted.is_some_and(|flag| flag.load(Ordering::Relaxed));
        match asked.take() {
            None if is_interrupted => asked = Some((End::Interrupted, signal(child, Signal::INT))),
            None if started.elapsed() > limit => asked = Some((End::TooLong, signal(child, Signal::TERM))),
            // An interrupted `terraform` finishes the requests that it has begun. Killing it would lose their results.
            Some((why, at)) if matches!(why, End::TooLong) && at.elapsed() > GRACE => {
                asked = Some((why, signal(child, Signal::KILL)));
            }
            other => asked = other,
        }
        thread::sleep(POLL);
    }
}

/// Sends a signal to the program and to what it has started. Returns the time.
fn signal(child: &Child, signal: Signal) -> Instant {
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        let _ = kill_process_group(group, signal);
    }
    Instant::now()
}

fn read(from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.take(MOST).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The last lines of a program's output, without empty ones, indented.
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

/// The directory for files of hosts that hoptax has created. Makes it if it does not exist.
///
/// # Errors
/// If it cannot be made.
pub(super) fn directory(home: &Path) -> anyhow::Result<PathBuf> {
    let directory = home.join("hosts");
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn shell(script: &str) -> Program {
        let words = ["sh", "-c", script].map(str::to_owned).to_vec();
        Program { words, variables: Vec::new(), advice: "Try it yourself".to_owned() }
    }

    #[test]
    fn errors_quote_the_last_lines_of_the_command() {
        let error = shell("seq 20 >&2; echo ignored; exit 3").output(None, GRACE).expect_err("fails");
        let shown = error.to_string();
        assert!(
            shown.starts_with(
                "`sh -c 'seq 20 >&2; echo ignored; exit 3'` failed with exit code 3:\n  9\n  10\n"
            ),
            "{shown}"
        );
        assert!(shown.ends_with("  20\nTry it yourself"), "{shown}");
        let error = shell("exit 1").output(None, GRACE).expect_err("fails");
        assert_eq!(error.to_string(), "`sh -c 'exit 1'` failed with exit code 1. Try it yourself");
        let missing = Program { words: vec!["/nowhere/kubectl".into()], ..shell("") };
        let shown = missing.output(None, GRACE).expect_err("missing").to_string();
        assert!(shown.starts_with("cannot start `/nowhere/kubectl`: No such file"), "{shown}");
    }

    #[test]
    fn input_and_output_are_passed_on() {
        assert_eq!(shell("cat; echo b").output(Some("a\n".into()), GRACE).expect("runs"), "a\nb\n");
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended() {
        let shown = shell("sleep 60").output(None, Duration::from_millis(100)).expect_err("ends").to_string();
        assert_eq!(shown, "`sh -c 'sleep 60'` took longer than 100ms. Try it yourself");
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
        assert!(shown.contains("was interrupted:\n  two\n  stopping\n"), "{shown}");
        assert_eq!(*lines.borrow(), ["one", "two", "stopping"]);
        let text = std::fs::read_to_string(&path).expect("a log");
        assert!(text.starts_with("$ sh -c 'echo one'\none\n$ sh -c "), "{text}");
    }
}
