//! Which command leads to the agent of a host. If the plan names no program there, hoptax copies its own.
//!
//! The agent receives the run's secrets, and other users of the host may plant files. So a copy is in a
//! directory with a random name that only its owner may enter, and a copy of an earlier run is used only if
//! its owner, mode and SHA-256 are right. Otherwise, hoptax copies itself again.
//!
//! Every command consists of words that mean the same with and without a shell on the host
//! ([`is_plain_word`]). The host needs only `uname`, `rm`, `mkdir`, `dd` or `cp`, `chmod` and `mv`. With
//! `ls`, `id` and `sha256sum`, the program is copied only once.

use super::advice;
use anyhow::{Context as _, anyhow, bail, ensure};
use hoptax_format::random;
use hoptax_host::programs::output_within;
use hoptax_plan::{Host, HostKind, commands, is_plain_word, shown_words};
use hoptax_record::printable;
use ring::digest::{Context as Sha256, SHA256};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Time limit for a command that has little to do. Logging in to a distant host takes some seconds.
const STEP: Duration = Duration::from_secs(60);
/// Time limit for the copy. The program has some tens of megabytes, and links may be slow.
const COPY: Duration = Duration::from_secs(15 * 60);

/// Number of lines of an error that are quoted. After an error, `dd` prints three more.
const QUOTED: usize = 4;

/// Directory for copies on machines that are reached by ssh, below the home directory.
const IN_HOME: &str = ".cache/hoptax/agent";
/// Directory for copies in containers and pods.
const IN_CONTAINER: &str = "/tmp";
/// The name of a copy's directory begins with this word, and 32 hexadecimal digits follow.
const PREFIX: &str = "hoptax-program-";
/// Number of directories that are looked at. Another user can create any number of them.
const MOST_DIRECTORIES: usize = 8;

/// The command that writes its standard input into a file.
type Write = fn(&str) -> [String; 3];

/// For machines that are reached by ssh, where standard input may be a socket, which has no path.
fn by_dd(file: &str) -> [String; 3] {
    ["dd".to_owned(), format!("of={file}"), "bs=65536".to_owned()]
}

/// For containers and pods, where `dd` fails: it closes its standard output, and containerd then closes its
/// standard input.
fn by_cp(file: &str) -> [String; 3] {
    ["cp".to_owned(), "/dev/stdin".to_owned(), file.to_owned()]
}

/// For each machine of a host, the command that leads to its agent. `exe` is the running program. `report`
/// receives a message about each step that takes time. Fails if a machine cannot be reached, or the program
/// cannot be copied to it or does not run there. The message names the host and the command, and says what to
/// try.
pub(super) fn agents(
    host: &Host,
    exe: &Path,
    report: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<Vec<String>>> {
    let agent = |(prefix, name): (Vec<String>, String)| {
        let machine = Machine { name, prefix };
        let program = match (&host.hoptax, &host.kind) {
            (Some(path), _) => path.clone(),
            (None, HostKind::Ssh(_)) => machine.with_copy(IN_HOME, by_dd, exe, report)?,
            (None, HostKind::Docker(_) | HostKind::Kubernetes(_)) => {
                machine.with_copy(IN_CONTAINER, by_cp, exe, report)?
            }
            // Hosts of Terraform and created pods have other kinds by now.
            (None, _) => own_path(&machine, exe)?,
        };
        Ok([machine.prefix, vec![program, "agent".to_owned()]].concat())
    };
    commands(&host.kind).into_iter().zip(host.machine_names()).map(agent).collect()
}

/// Our own path. A command such as `ip netns exec` runs on the machine of the runner, and sees the same
/// files.
fn own_path(machine: &Machine, exe: &Path) -> anyhow::Result<String> {
    let path = exe.to_string_lossy().into_owned();
    ensure!(
        is_plain_word(&path),
        "host {}: a shell there could change the path `{path}` of this program. Copy hoptax to a path of \
         letters, digits and `_./:@%+,-`, and name it with `hoptax`",
        machine.name
    );
    Ok(path)
}

/// A machine, and the words to put before a command to run it there.
struct Machine {
    name: String,
    prefix: Vec<String>,
}

impl Machine {
    /// Returns the path of a copy of this program below `base`. Copies the program unless an earlier run has
    /// left the same one.
    fn with_copy(
        &self,
        base: &str,
        write: Write,
        exe: &Path,
        report: &mut dyn FnMut(&str),
    ) -> anyhow::Result<String> {
        let (digest, bytes) = digest_of(exe).with_context(|| format!("cannot read {}", exe.display()))?;
        let own = self.own_directories(base)?;
        for directory in &own {
            let program = format!("{directory}/hoptax");
            if self.sha256(&program)?.is_some_and(|there| there == digest) {
                return Ok(program);
            }
        }
        self.check_architecture()?;
        report(&format!("copying hoptax ({} MB) to host {}", bytes.div_ceil(1_000_000), self.name));
        // Copies of other versions are useless, because runner and agent need the same version.
        for directory in &own {
            self.must(&["rm", "-rf", directory], None, STEP)?;
        }
        self.must(&["mkdir", "-p", base], None, STEP)?;
        if base == IN_HOME {
            // Fails if the directory is another user's.
            self.must(&["chmod", "700", base], None, STEP)?;
        }
        let directory =
            format!("{base}/{PREFIX}{:016x}{:016x}", random::from_system(), random::from_system());
        // Without `-p`, this fails if somebody else has created the directory.
        self.must(&["mkdir", "-m", "700", &directory], None, STEP)?;
        let copied = self.copy_into(&directory, write, exe, &digest);
        if copied.is_err() {
            let _ = self.run(&["rm", "-rf", &directory], None, STEP);
        }
        copied
    }

    /// Copies this program into a directory that only its owner may enter. Returns the path of the copy.
    fn copy_into(&self, directory: &str, write: Write, exe: &Path, digest: &str) -> anyhow::Result<String> {
        let program = format!("{directory}/hoptax");
        // Only a complete copy gets the program's final name.
        let part = format!("{program}.part");
        let own = File::open(exe).with_context(|| format!("cannot read {}", exe.display()))?;
        self.must(&write(&part).each_ref().map(String::as_str), Some(own), COPY)?;
        self.must(&["chmod", "700", &part], None, STEP)?;
        self.must(&["mv", &part, &program], None, STEP)?;
        ensure!(
            self.sha256(&program)?.is_none_or(|there| there == digest),
            "host {}: the copy of hoptax there has another SHA-256 than the program here. Try again, or \
             copy it yourself, and name its path with `hoptax`",
            self.name
        );
        self.check_that_it_runs(&program)?;
        Ok(program)
    }

    /// Directories of earlier runs that contain a complete program that only this user can have written.
    /// Empty if that cannot be found out.
    fn own_directories(&self, base: &str) -> anyhow::Result<Vec<String>> {
        let Some(names) = self.answer(&["ls", base])? else { return Ok(Vec::new()) };
        let names: Vec<&str> = names.lines().filter(|name| is_name(name)).take(MOST_DIRECTORIES).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let Some(user) = self.answer(&["id", "-u"])? else { return Ok(Vec::new()) };
        let mut own = Vec::new();
        for name in names {
            let directory = format!("{base}/{name}");
            let program = format!("{directory}/hoptax");
            let words = ["ls", "-ldn", base, &directory, &program];
            if self.answer(&words)?.is_some_and(|list| is_private(&list, &words[2..], user.trim())) {
                own.push(directory);
            }
        }
        Ok(own)
    }

    /// The SHA-256 of a file, in hexadecimal digits. `None` if the machine has no `sha256sum`.
    fn sha256(&self, file: &str) -> anyhow::Result<Option<String>> {
        let list = self.answer(&["sha256sum", file])?;
        Ok(list.and_then(|list| list.split_whitespace().next().map(str::to_owned)))
    }

    /// The output of a command. `None` if the command fails or does not exist there.
    fn answer(&self, words: &[&str]) -> anyhow::Result<Option<String>> {
        let output = self.run(words, None, STEP)?;
        match output.status.code() {
            Some(0) => Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned())),
            // ssh itself failed, or was killed.
            Some(255) | None => bail!(self.failed(words, &output)),
            Some(_) => Ok(None),
        }
    }

    fn check_architecture(&self) -> anyhow::Result<()> {
        let there = self.must(&["uname", "-sm"], None, STEP)?;
        let own = rustix::system::uname();
        let here = format!("{} {}", own.sysname().to_string_lossy(), own.machine().to_string_lossy());
        ensure!(
            there == here,
            "host {}: this hoptax is built for {here}, and the host is {there}. Install a hoptax for that \
             architecture there, and name its path with `hoptax`",
            self.name
        );
        Ok(())
    }

    fn check_that_it_runs(&self, program: &str) -> anyhow::Result<()> {
        let words = [program, "--version"];
        let output = self.run(&words, None, STEP)?;
        ensure!(
            output.status.success(),
            "{}. If the C library there is another one or older, copy the static build of hoptax to the \
             host, and name its path with `hoptax`. If programs may not run in that directory, name another \
             one the same way",
            self.what_failed(&words, &output)
        );
        Ok(())
    }

    /// Runs a command that must succeed. Returns its output.
    fn must(&self, words: &[&str], stdin: Option<File>, limit: Duration) -> anyhow::Result<String> {
        let output = self.run(words, stdin, limit)?;
        if !output.status.success() {
            bail!(self.failed(words, &output));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Runs a command on the machine.
    fn run(&self, words: &[&str], stdin: Option<File>, limit: Duration) -> anyhow::Result<Output> {
        let mut all = self.prefix.iter().map(String::as_str).chain(words.iter().copied());
        let program = all.next().expect("the words of a command");
        let mut command = Command::new(program);
        command.args(all).stdin(stdin.map_or_else(Stdio::null, Stdio::from));
        output_within(&mut command, limit).map_err(|error| match error.kind() {
            ErrorKind::TimedOut => anyhow!(
                "host {}: `{}` did not end within {}. {}",
                self.name,
                self.shown(words),
                humantime::format_duration(limit),
                advice::after(&shown_words(&self.prefix), None)
            ),
            _ => anyhow::Error::new(error).context(format!("host {}: cannot start `{program}`", self.name)),
        })
    }

    fn shown(&self, words: &[&str]) -> String {
        let words = words.iter().map(|word| (*word).to_owned());
        shown_words(&self.prefix.iter().cloned().chain(words).collect::<Vec<_>>()).join(" ")
    }

    /// What failed, and what to try.
    fn failed(&self, words: &[&str], output: &Output) -> String {
        let advice = match output.status.code() {
            // ssh itself failed.
            Some(255) => advice::after(&shown_words(&self.prefix), Some(255)),
            _ => "Correct that, or copy hoptax to the host yourself, and name its path with `hoptax`"
                .to_owned(),
        };
        let what = self.what_failed(words, output);
        let stop = if what.ends_with('?') { "" } else { "." };
        format!("{what}{stop} {advice}")
    }

    /// Names the host and the command, and quotes the end of its standard error.
    fn what_failed(&self, words: &[&str], output: &Output) -> String {
        let complaints = printable(&String::from_utf8_lossy(&output.stderr).replace('\r', ""));
        let lines: Vec<&str> = complaints.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines[lines.len().saturating_sub(QUOTED)..].join("; ");
        let last = if last.is_empty() { last } else { format!(": {}", last.trim_end_matches('.')) };
        let how = match output.status.code() {
            Some(code) => format!("ended with status {code}"),
            None => "was killed".to_owned(),
        };
        format!("host {}: `{}` {how}{last}", self.name, self.shown(words))
    }
}

/// True for the name of a copy's directory. The list may contain files of other users, with any names.
fn is_name(name: &str) -> bool {
    let is_digit = |letter: u8| letter.is_ascii_digit() || (b'a'..=b'f').contains(&letter);
    name.strip_prefix(PREFIX).is_some_and(|digits| digits.len() == 32 && digits.bytes().all(is_digit))
}

/// Whether the output of `ls -ldn BASE DIRECTORY PROGRAM` shows a program that only `user` can have written.
/// Nobody else may replace the directory in its base, enter the directory, or write the program. The target
/// of a link may hold line breaks, so the list must have exactly three lines.
fn is_private(list: &str, paths: &[&str], user: &str) -> bool {
    let lines: Vec<&str> = list.lines().collect();
    let [base, directory, program] = lines[..] else { return false };
    // `drwx------ 2 1000 1000 4096 Jan 1 00:00 PATH`
    let owner = |line: &str| line.split_whitespace().nth(2).map(str::to_owned);
    let is_own = |line: &str| owner(line).is_some_and(|owner| owner == user);
    let writes = |line: &str, at: usize| line.as_bytes().get(at) == Some(&b'w');
    let is_sticky = matches!(base.as_bytes().get(9), Some(b't' | b'T'));
    let is_safe_base = base.starts_with('d')
        && (is_own(base) || owner(base).is_some_and(|owner| owner == "0"))
        && (is_sticky || !writes(base, 5) && !writes(base, 8));
    is_safe_base
        && directory.starts_with("drwx------")
        && program.starts_with("-rwx------")
        && is_own(directory)
        && is_own(program)
        && lines.iter().zip(paths).all(|(line, path)| line.ends_with(&format!(" {path}")))
}

/// SHA-256 in hexadecimal digits, and length of a file.
fn digest_of(path: &Path) -> std::io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let (mut digest, mut length) = (Sha256::new(&SHA256), 0);
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            some => {
                digest.update(&piece[..some]);
                length += some as u64;
            }
        }
    }
    Ok((digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect(), length))
}

#[cfg(test)]
mod tests;
