//! Finds programs on this machine and reads their output.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Directories for daemons. They are not on every user's PATH.
const SYSTEM: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Directories to search for gateways, in this order: PATH, the tools directory, the system's directories for
/// daemons.
pub fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    directories.extend(tools_directory());
    directories.extend(SYSTEM.map(PathBuf::from));
    directories
}

/// Directory of tools: `$HOPTAX_HOME/tools/bin`.
pub fn tools_directory() -> Option<PathBuf> {
    Some(data_directory()?.join("tools/bin"))
}

/// Directory for everything that hoptax keeps for this user: `$HOPTAX_HOME`. It defaults to
/// `$XDG_DATA_HOME/hoptax` or `~/.local/share/hoptax`.
pub fn data_directory() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("HOPTAX_HOME")
        .or_else(|| set("XDG_DATA_HOME").map(|data| data.join("hoptax")))
        .or_else(|| set("HOME").map(|home| home.join(".local/share/hoptax")))
}

/// Absolute path of a program. A name is looked up in these directories, in order. A path is used as it is.
pub fn find_in(binary: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    if binary.contains('/') {
        let path = std::path::absolute(binary).ok()?;
        return is_program(&path).then_some(path);
    }
    let found = directories.iter().map(|directory| directory.join(binary)).find(|path| is_program(path))?;
    std::path::absolute(found).ok()
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Runs a command and returns its standard output and standard error together, even if the command fails.
/// Returns `None` if the command takes longer than `bound`.
pub fn output_of(command: &[String], bound: Duration) -> Option<String> {
    output_until(command, bound, bound, |_| false)
}

/// Runs a command to its end, and returns its status and its output. `command` determines its standard input.
///
/// # Errors
/// If it cannot be started. If it has not ended after `bound`, it is killed, and the error's kind is
/// [`ErrorKind::TimedOut`].
pub fn output_within(command: &mut Command, bound: Duration) -> std::io::Result<Output> {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let pid = Pid::from_child(&child);
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match ended.recv_timeout(bound) {
        Ok(output) => output,
        Err(_) => {
            // If the command does not lead a process group, there is no group of this number.
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = kill_process(pid, Signal::KILL);
            let limit = humantime::format_duration(bound);
            Err(std::io::Error::new(ErrorKind::TimedOut, format!("it did not end within {limit}")))
        }
    }
}

/// Kills a command that leads a process group, and all other processes of this group. Does not wait for their
/// end.
pub fn kill_group(child: &Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

/// Like [`output_of`], but also returns once `is_enough` accepts the output and the command has printed
/// nothing more for `quiet`. Some programs print and then do not end.
pub fn output_until(
    command: &[String],
    bound: Duration,
    quiet: Duration,
    is_enough: impl Fn(&str) -> bool,
) -> Option<String> {
    let (program, arguments) = command.split_first()?;
    let (mut read, write) = std::io::pipe().ok()?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(write.try_clone().ok()?)
        .stderr(write)
        .spawn()
        .ok()?;
    let (said, heard) = std::sync::mpsc::channel();
    // This thread ends when the command ends, because only the command has the write end of the pipe.
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        loop {
            match read.read(&mut piece) {
                Ok(count) if count > 0 && said.send(piece[..count].to_vec()).is_ok() => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    });
    let deadline = Instant::now() + bound;
    let mut bytes = Vec::new();
    let text = loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let enough = is_enough(&text);
        let left = deadline.saturating_duration_since(Instant::now());
        match heard.recv_timeout(if enough { left.min(quiet) } else { left }) {
            Ok(piece) => bytes.extend(piece),
            Err(RecvTimeoutError::Disconnected) => break Some(text),
            Err(RecvTimeoutError::Timeout) => break enough.then_some(text),
        }
    };
    // Only the output matters, so a command that still runs is not waited for.
    let _ = child.kill();
    let _ = child.wait();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(directory: &Path, name: &str, mode: u32) -> PathBuf {
        let path = directory.join(name);
        std::fs::write(&path, "#!/bin/sh\necho hello\n").expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
        path
    }

    #[test]
    fn the_first_directory_with_a_program_of_that_name_wins() {
        let [first, second] = [tempfile::tempdir().expect("made"), tempfile::tempdir().expect("made")];
        let directories = [first.path().to_owned(), second.path().to_owned()];
        script(first.path(), "gateway", 0o644);
        assert_eq!(find_in("gateway", &directories), None, "not executable");
        let later = script(second.path(), "gateway", 0o755);
        assert_eq!(find_in("gateway", &directories), Some(later.clone()));
        let earlier = script(first.path(), "gateway", 0o755);
        assert_eq!(find_in("gateway", &directories), Some(earlier));
        assert_eq!(find_in(later.to_str().expect("text"), &[]), Some(later));
        assert_eq!(find_in("/nowhere/gateway", &directories), None);
    }

    #[test]
    fn output_of_both_streams_is_read_within_the_time_limit() {
        let shell = |script: &str| ["sh", "-c", script].map(str::to_owned).to_vec();
        let bound = Duration::from_secs(20);
        assert_eq!(output_of(&shell("echo one; echo two >&2; exit 3"), bound).as_deref(), Some("one\ntwo\n"));
        assert_eq!(output_of(&shell("exec sleep 60"), Duration::from_millis(50)), None);
        assert_eq!(output_of(&["/nowhere/at-all".to_owned()], bound), None);
    }

    #[test]
    fn output_of_a_command_that_does_not_end_is_kept_if_it_is_enough() {
        let shell = |script: &str| ["sh", "-c", script].map(str::to_owned).to_vec();
        let hangs = shell("echo version 1.2; exec sleep 600");
        let (bound, quiet) = (Duration::from_secs(60), Duration::from_millis(50));
        let printed = output_until(&hangs, bound, quiet, |text| text.contains("version"));
        assert_eq!(printed.as_deref(), Some("version 1.2\n"));
        let never = output_until(&hangs, Duration::from_millis(50), quiet, |text| text.contains("none"));
        assert_eq!(never, None);
        let in_parts = shell("printf 1.; sleep 0.2; printf 24; exec sleep 600");
        let quiet = Duration::from_secs(2);
        let whole = output_until(&in_parts, bound, quiet, |text| text.starts_with('1'));
        assert_eq!(whole.as_deref(), Some("1.24"), "the rest of the output is waited for");
    }
}
