//! Which command leads to the agent of a host. If the plan names no program there, hoptax copies its own.
//!
//! Everything runs by words that mean the same with and without a shell on the host ([`is_plain_word`]). So the host needs only
//! `test`, `uname`, `rm`, `mkdir`, `dd` or `cp`, `chmod` and `mv`.

use super::advice;
use anyhow::{Context as _, bail, ensure};
use hoptax_plan::{Host, HostKind, is_plain_word, shown_words};
use hoptax_record::{Digest, printable};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Time limit for a command that has little to do. Logging in to a distant host takes some seconds.
const STEP: Duration = Duration::from_secs(60);
/// Time limit for the copy. The program has some tens of megabytes, and links may be slow.
const COPY: Duration = Duration::from_secs(15 * 60);

/// Number of lines of an error that are quoted. After an error, `dd` prints three more.
const QUOTED: usize = 4;

/// Directory for the copy on machines that are reached by ssh, below the home directory.
const IN_HOME: &str = ".cache/hoptax/agent";
/// Directory for the copy in containers and pods.
const IN_CONTAINER: &str = "/tmp/hoptax-agent-program";

/// The command that writes its standard input into a file.
type Write = fn(&str) -> [String; 3];

/// For machines that are reached by ssh, where standard input may be a socket, which has no path.
fn by_dd(file: &str) -> [String; 3] {
    ["dd".to_owned(), format!("of={file}"), "bs=65536".to_owned()]
}

/// For containers and pods. `dd` closes standard output, and containerd then closes standard input.
fn by_cp(file: &str) -> [String; 3] {
    ["cp".to_owned(), "/dev/stdin".to_owned(), file.to_owned()]
}

/// For each machine of a host, the command that leads to its agent. `exe` is the running program. `report` receives what takes
/// time.
///
/// # Errors
/// If a machine cannot be reached, or the program cannot be copied to it or does not run there. The message names the host and
/// the command, and says what to try.
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
    host.command().into_iter().zip(host.machine_names()).map(agent).collect()
}

/// Our own path. A command such as `ip netns exec` runs on the machine of the runner, and sees the same files.
fn own_path(machine: &Machine, exe: &Path) -> anyhow::Result<String> {
    let path = exe.to_string_lossy().into_owned();
    ensure!(
        is_plain_word(&path),
        "host {}: a shell there could change the path `{path}` of this program. Copy hoptax to a path of letters, digits and \
         `_./:@%+,-`, and name it with `hoptax`",
        machine.name
    );
    Ok(path)
}

/// A machine, and the words that run a command on it.
struct Machine {
    name: String,
    prefix: Vec<String>,
}

impl Machine {
    /// The path of a copy of this program. It is copied unless an earlier run has left the same one.
    fn with_copy(
        &self,
        folder: &str,
        write: Write,
        exe: &Path,
        report: &mut dyn FnMut(&str),
    ) -> anyhow::Result<String> {
        let (digest, bytes) = digest_of(exe).with_context(|| format!("cannot read {}", exe.display()))?;
        let directory = format!("{folder}/{digest}");
        let program = format!("{directory}/hoptax");
        let found = self.run(&["test", "-x", &program], None, STEP)?;
        if found.status.success() {
            return Ok(program);
        }
        if found.status.code() != Some(1) {
            bail!(self.failed(&["test", "-x", &program], &found));
        }
        self.check_architecture()?;
        report(&format!("copying hoptax ({} MB) to host {}", bytes.div_ceil(1_000_000), self.name));
        // An older program is of no use to this one.
        self.must(&["rm", "-rf", folder], None, STEP)?;
        self.must(&["mkdir", "-p", &directory], None, STEP)?;
        // Under its own name, there is only a whole program.
        let part = format!("{program}.{}.part", std::process::id());
        let own = File::open(exe).with_context(|| format!("cannot read {}", exe.display()))?;
        self.must(&write(&part).each_ref().map(String::as_str), Some(own), COPY)?;
        self.must(&["chmod", "755", &part], None, STEP)?;
        self.must(&["mv", &part, &program], None, STEP)?;
        self.check_that_it_runs(&program)?;
        Ok(program)
    }

    fn check_architecture(&self) -> anyhow::Result<()> {
        let there = self.must(&["uname", "-sm"], None, STEP)?;
        let own = rustix::system::uname();
        let here = format!("{} {}", own.sysname().to_string_lossy(), own.machine().to_string_lossy());
        ensure!(
            there == here,
            "host {}: this hoptax is built for {here}, and the host is {there}. Install a hoptax for that architecture there, and \
             name its path with `hoptax`",
            self.name
        );
        Ok(())
    }

    fn check_that_it_runs(&self, program: &str) -> anyhow::Result<()> {
        let words = [program, "--version"];
        let output = self.run(&words, None, STEP)?;
        ensure!(
            output.status.success(),
            "{}. If the C library there is another one or older, copy the static build of hoptax to the host, and name its path \
             with `hoptax`. If programs may not run in that directory, name another one the same way",
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
        let child = Command::new(program)
            .args(all)
            .stdin(stdin.map_or_else(Stdio::null, Stdio::from))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("host {}: cannot start `{program}`", self.name))?;
        let pid = Pid::from_child(&child);
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || sender.send(child.wait_with_output()));
        match ended.recv_timeout(limit) {
            Ok(output) => output.with_context(|| format!("host {}: `{program}`", self.name)),
            Err(_) => {
                let _ = kill_process(pid, Signal::KILL);
                bail!(
                    "host {}: `{}` did not end within {}. {}",
                    self.name,
                    self.shown(words),
                    humantime::format_duration(limit),
                    advice::after(&shown_words(&self.prefix), None)
                )
            }
        }
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

/// Digest and length of a file. Two builds of hoptax have different digests.
fn digest_of(path: &Path) -> std::io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let (mut digest, mut length) = (Digest::default(), 0);
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok((digest.text(), length)),
            some => {
                digest.add(&piece[..some]);
                length += some as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// A machine that is reached by this command.
    fn machine(words: &[&str]) -> Machine {
        let prefix = words.iter().map(|word| (*word).to_owned()).collect();
        Machine { name: "edge".to_owned(), prefix }
    }

    /// A program that prints a version.
    fn program(directory: &Path) -> std::path::PathBuf {
        let path = directory.join("own");
        std::fs::write(&path, "#!/bin/sh\necho hoptax 1\n").expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
        path
    }

    #[test]
    fn the_program_is_copied_once_and_an_older_one_is_replaced() {
        for write in [by_dd as Write, by_cp] {
            let scratch = tempfile::tempdir().expect("a directory");
            let (exe, folder) = (program(scratch.path()), scratch.path().join("there"));
            let folder = folder.to_str().expect("text");
            std::fs::create_dir_all(format!("{folder}/0123")).expect("made");
            let (there, mut said) = (machine(&["env"]), Vec::new());
            let copied = there.with_copy(folder, write, &exe, &mut |what| said.push(what.to_owned()));
            let copied = copied.expect("copied");
            assert_eq!(std::fs::read(&copied).expect("there"), std::fs::read(&exe).expect("here"));
            assert!(!Path::new(&format!("{folder}/0123")).exists(), "the older one");
            assert_eq!(said, ["copying hoptax (1 MB) to host edge"]);
            let again = there.with_copy(folder, write, &exe, &mut |what| panic!("{what}"));
            assert_eq!(again.expect("it is there"), copied);
        }
    }

    #[test]
    fn errors_name_the_host_and_the_command_and_say_what_to_try() {
        let scratch = tempfile::tempdir().expect("a directory");
        let exe = program(scratch.path());
        let error = |there: &Machine, folder: &str| {
            format!(
                "{:#}",
                there.with_copy(folder, by_dd, &exe, &mut |_| {}).expect_err("it cannot be copied")
            )
        };
        let no_directory = error(&machine(&["env"]), "/dev/null/x");
        assert!(no_directory.starts_with("host edge: `env mkdir -p /dev/null/x/"), "{no_directory}");
        assert!(no_directory.contains("name its path with `hoptax`"), "{no_directory}");
        let no_command = error(&machine(&["no-such-command", "edge"]), "x");
        assert!(no_command.starts_with("host edge: cannot start `no-such-command`"), "{no_command}");
        let no_host = error(&machine(&["sh", "-c", "echo no route >&2; exit 255"]), "x");
        assert!(no_host.contains("ended with status 255: no route"), "{no_host}");
        // /dev/full is a disk without space.
        for write in [by_dd as Write, by_cp] {
            let words = write("/dev/full");
            let own = Some(File::open(&exe).expect("there"));
            let full = machine(&["env"]).must(&words.each_ref().map(String::as_str), own, STEP);
            assert!(format!("{:#}", full.expect_err("full")).contains("No space left"), "the disk is full");
        }
    }

    #[test]
    fn a_program_that_does_not_run_there_is_an_error() {
        let scratch = tempfile::tempdir().expect("a directory");
        let exe = scratch.path().join("own");
        std::fs::write(&exe, "#!/no/such/loader\n").expect("written");
        let folder = scratch.path().join("there").display().to_string();
        let error = machine(&["env"]).with_copy(&folder, by_dd, &exe, &mut |_| {}).expect_err("no loader");
        assert!(format!("{error:#}").contains("copy the static build"), "{error:#}");
    }

    #[test]
    fn a_command_that_does_not_end_is_killed() {
        let late = machine(&["env"]).run(&["sleep", "60"], None, Duration::from_millis(100));
        let message = format!("{:#}", late.expect_err("too late"));
        assert!(message.contains("`env sleep 60` did not end within 100ms"), "{message}");
    }
}
