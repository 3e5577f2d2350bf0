//! The last lines of a service's logs, for the failure that quotes them.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// How many lines a failure quotes of each log.
pub const LINES: usize = 20;

/// Enough for [`LINES`] lines of any log worth quoting.
const TAIL_BYTES: u64 = 16 * 1024;

/// The last lines of every log file in `directory`, each under its path; empty when all are empty.
///
/// Access logs are left out: they tell what was requested, not what went wrong.
pub fn tails(directory: &Path) -> String {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .filter(|path| path.file_name().is_some_and(|name| name != super::render::ACCESS_LOG))
        .collect();
    files.sort();
    let mut text = String::new();
    for path in files {
        let tail = tail(&path, LINES);
        if !tail.is_empty() {
            text += &format!("{}:\n", path.display());
            for line in tail {
                text += &format!("  {line}\n");
            }
        }
    }
    text
}

/// The last `lines` lines of a file; none when it cannot be read.
pub fn tail(path: &Path, lines: usize) -> Vec<String> {
    let Ok(mut file) = File::open(path) else { return Vec::new() };
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let from = length.saturating_sub(TAIL_BYTES);
    let mut bytes = Vec::new();
    if file.seek(SeekFrom::Start(from)).is_err() || file.read_to_end(&mut bytes).is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut all: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    if from > 0 && all.len() > 1 {
        // The first may have been cut.
        all.remove(0);
    }
    all[all.len().saturating_sub(lines)..].iter().map(ToString::to_string).collect()
}

/// Bytes of all files in `directory`, access logs included; none where it cannot be read.
pub fn bytes(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = files.filter_map(|entry| entry.metadata().ok()).filter(std::fs::Metadata::is_file);
    sizes.map(|metadata| metadata.len()).sum()
}

/// Whether a service said that its port is taken: then other ports are worth a try.
pub fn tells_of_taken_port(tails: &str) -> bool {
    let tails = tails.to_ascii_lowercase();
    ["address already in use", "address in use", "eaddrinuse", "cannot bind socket"]
        .iter()
        .any(|words| tails.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_quote_the_last_lines_of_each_log_and_no_access_log() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            std::fs::write(directory.path().join(name), text).expect("written");
        };
        let many: String = (0..5000).map(|line| format!("line {line} of a long log\n")).collect();
        write("stderr.log", &many);
        write("error.log", "one\n\ntwo  \n");
        write("stdout.log", "");
        write("access.log", "GET /\n");
        write("notes.txt", "no log\n");

        assert_eq!(bytes(directory.path()), many.len() as u64 + 11 + 6 + 7, "all files, access logs too");
        let text = tails(directory.path());

        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("error.log:"), "{text}");
        assert_eq!(&lines[1..3], ["  one", "  two"]);
        assert!(lines[3].ends_with("stderr.log:"), "{text}");
        assert_eq!(lines[4], "  line 4980 of a long log");
        assert_eq!(lines.last(), Some(&"  line 4999 of a long log"));
        assert_eq!(lines.len(), 4 + LINES);
    }

    #[test]
    fn taken_ports_are_told_in_many_ways() {
        let nginx = "bind() to 127.0.0.1:80 failed (98: Address already in use)";
        let haproxy = "Starting frontend main: cannot bind socket (Address already in use) [127.0.0.1:80]";
        assert!(tells_of_taken_port(nginx));
        assert!(tells_of_taken_port(haproxy));
        assert!(!tells_of_taken_port("unknown directive \"foo\""));
    }
}
