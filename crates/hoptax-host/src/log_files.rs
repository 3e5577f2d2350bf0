//! How much processes write to logs that hoptax did not open for them.
//!
//! A log is a file that a process has open for appending. `/proc/<pid>/io` does not help: its `wchar` also
//! counts what a process writes to its clients.

use crate::tree::descendants;
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

/// Flag of an open file in `/proc/<pid>/fdinfo`, octal there (open(2)).
const O_APPEND: u32 = 0o2000;
/// Standard output and standard error.
const OUTPUTS: [&str; 2] = ["1", "2"];

/// The logs of a process tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Logs {
    /// Size of all log files together, bytes.
    pub bytes: u64,
    /// True if a process also writes to something whose size is unknown, such as a pipe or a terminal, or if
    /// its open files cannot be read.
    pub elsewhere: bool,
}

/// The logs that the process `root` and its descendants have open.
pub fn of_tree(root: u32) -> Logs {
    let mut files: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut elsewhere = false;
    for pid in descendants(root).into_iter().chain([root]) {
        let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
            elsewhere = true;
            continue;
        };
        for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
            // Following the link gives the file itself, also if it was removed or belongs to another
            // namespace.
            let Ok(file) = std::fs::metadata(format!("/proc/{pid}/fd/{name}")) else { continue };
            if !appends(pid, &name) && !OUTPUTS.contains(&name.as_str()) {
                continue;
            }
            if file.is_file() {
                files.insert((file.dev(), file.ino()), file.len());
            } else {
                elsewhere |= !is_null(&file);
            }
        }
    }
    Logs { bytes: files.values().sum(), elsewhere }
}

fn appends(pid: u32, descriptor: &str) -> bool {
    let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags
        .and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok())
        .is_some_and(|flags| flags & O_APPEND != 0)
}

/// True for `/dev/null`, which has the same device number everywhere (null(4)).
fn is_null(file: &Metadata) -> bool {
    const NULL: u64 = (1 << 8) | 3;
    file.file_type().is_char_device() && file.rdev() == NULL
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};

    /// Starts a shell that appends a line to `log`. `errors` is its standard error. Returns once the shell
    /// has printed that it is ready.
    fn shell(log: &std::path::Path, errors: Stdio) -> std::process::Child {
        let script =
            format!("exec 3>>{}; echo line >&3; echo ready; exec >/dev/null; read stop", log.display());
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut shell = shell.spawn().expect("sh starts");
        let mut line = String::new();
        BufReader::new(shell.stdout.take().expect("piped")).read_line(&mut line).expect("ready");
        shell
    }

    #[test]
    fn files_that_are_appended_to_are_logs() {
        let directory = tempfile::tempdir().expect("a directory");
        let log = directory.path().join("access.log");
        let read = directory.path().join("data");
        std::fs::write(&read, [0; 500]).expect("written");
        let mut quiet = shell(&log, Stdio::from(File::open("/dev/null").expect("there")));
        let logs = loop {
            // The shell redirects its output right after it has said that it is ready.
            let logs = of_tree(quiet.id());
            if !logs.elsewhere {
                break logs;
            }
        };
        assert_eq!(logs, Logs { bytes: 5, elsewhere: false });
        File::options().append(true).open(&log).expect("there").write_all(b"more\n").expect("written");
        assert_eq!(of_tree(quiet.id()).bytes, 10);
        drop(quiet.stdin.take());
        quiet.wait().expect("ours");

        let mut piped = shell(&log, Stdio::piped());
        assert!(of_tree(piped.id()).elsewhere, "its errors go to a pipe");
        drop(piped.stdin.take());
        piped.wait().expect("ours");
        assert!(of_tree(piped.id()).elsewhere, "it has ended");
    }
}
