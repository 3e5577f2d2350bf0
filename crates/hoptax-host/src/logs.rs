//! Reads the last lines of a service's logs for error messages, and removes secrets from the logs.

use hoptax_record::printable;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// Number of lines of each log that an error message quotes.
pub const LINES: usize = 20;

/// Number of bytes at the end of a log in which to look for its last [`LINES`] lines. This is enough unless
/// the lines are longer than 800 bytes on average.
const TAIL_BYTES: u64 = 16 * 1024;

/// Name of a gateway's access log in the directory of its logs.
pub const ACCESS_LOG: &str = "access.log";

/// Text that replaces each secret.
pub const REDACTED: &str = "[secret]";

const PIECE_BYTES: usize = 1 << 20;

/// The last lines of every log file in `directory`. The path of each file precedes its lines. Empty if all
/// logs are empty.
///
/// Access logs are left out, because they show requests and not errors.
pub fn tails(directory: &Path) -> String {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .filter(|path| path.file_name().is_some_and(|name| name != ACCESS_LOG))
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

/// The last `lines` lines of a file, made [`printable`]; none if it cannot be read.
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
        // Reading began in the middle of the file, so the first line may be incomplete.
        all.remove(0);
    }
    all[all.len().saturating_sub(lines)..].iter().map(|line| printable(line)).collect()
}

/// Total size of all files in `directory`, including access logs; 0 if the directory cannot be read.
pub fn bytes(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = files.filter_map(|entry| entry.metadata().ok()).filter(std::fs::Metadata::is_file);
    sizes.map(|metadata| metadata.len()).sum()
}

/// Removes `secrets` from the log files of a service that has ended. A file that cannot be rewritten is
/// deleted, because no log is better than a log that contains a key.
pub fn scrub(directory: &Path, secrets: &[String]) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        // Skip links, because a link may lead to a file that does not belong to the service.
        if entry.file_type().is_ok_and(|kind| kind.is_file()) && scrub_file(&path, secrets).is_err() {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Rewrites a file if it contains one of `secrets`. The file is processed in pieces, because access logs may
/// be larger than memory. Each piece ends at the end of a line. This splits no secret, because no secret
/// spans several lines.
fn scrub_file(path: &Path, secrets: &[String]) -> std::io::Result<()> {
    let mut lines = BufReader::with_capacity(PIECE_BYTES, File::open(path)?);
    let finder = Finder::new(secrets);
    let mut piece = Vec::new();
    let mut found = false;
    while !found && next_piece(&mut lines, &mut piece)? {
        found = finder.is_in(&piece);
    }
    if !found {
        return Ok(());
    }
    let beside = path.with_extension("scrubbed");
    // A temporary file may be left from a process that was killed while it wrote the file.
    let _ = std::fs::remove_file(&beside);
    let mut lines = BufReader::with_capacity(PIECE_BYTES, File::open(path)?);
    let mut clean = BufWriter::new(File::options().write(true).create_new(true).open(&beside)?);
    while next_piece(&mut lines, &mut piece)? {
        clean.write_all(&finder.without(&piece))?;
    }
    clean.flush()?;
    std::fs::rename(&beside, path)
}

/// Fills `piece` with whole lines, until it has [`PIECE_BYTES`] or more. Returns `false` at the end of the
/// file.
fn next_piece(lines: &mut impl BufRead, piece: &mut Vec<u8>) -> std::io::Result<bool> {
    piece.clear();
    while piece.len() < PIECE_BYTES {
        if lines.read_until(b'\n', piece)? == 0 {
            break;
        }
    }
    Ok(!piece.is_empty())
}

/// Searches for many secrets at once, using their first bytes. This is fast enough for 60,000 secrets and a
/// gigabyte of logs.
pub struct Finder<'a> {
    /// Indexed by [`place`] of four bytes. True if a secret may start with these four bytes. One lookup is
    /// enough to skip most bytes of a log.
    starts: Vec<bool>,
    by_start: HashMap<[u8; START], Vec<&'a [u8]>>,
}

/// Number of bytes at the start of a secret that are used to look it up. No secret is shorter than this
/// number.
const START: usize = 8;

/// Number of bits of an index into [`Finder::starts`].
const PLACE_BITS: u32 = 20;

/// Computes the index of four bytes in [`Finder::starts`], by multiplicative hashing with Knuth's constant.
fn place(start: [u8; 4]) -> usize {
    (u32::from_le_bytes(start).wrapping_mul(2_654_435_769) >> (32 - PLACE_BITS)) as usize
}

impl<'a> Finder<'a> {
    /// Creates a finder for these secrets.
    pub fn new(secrets: &'a [String]) -> Self {
        let mut starts = vec![false; 1 << PLACE_BITS];
        let mut by_start: HashMap<[u8; START], Vec<&[u8]>> = HashMap::new();
        for secret in secrets.iter().map(String::as_bytes) {
            if let (Some(start), Some(first)) = (secret.first_chunk(), secret.first_chunk()) {
                starts[place(*first)] = true;
                by_start.entry(*start).or_default().push(secret);
            }
        }
        Self { starts, by_start }
    }

    fn at(&self, text: &[u8]) -> Option<&'a [u8]> {
        if !self.starts[place(*text.first_chunk()?)] {
            return None;
        }
        let candidates = self.by_start.get(text.first_chunk::<START>()?)?;
        candidates.iter().filter(|secret| text.starts_with(secret)).max_by_key(|secret| secret.len()).copied()
    }

    fn is_in(&self, text: &[u8]) -> bool {
        (0..text.len()).any(|at| self.at(&text[at..]).is_some())
    }

    /// `text` with every secret replaced by [`REDACTED`].
    pub fn without(&self, text: &[u8]) -> Vec<u8> {
        let mut clean = Vec::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            match self.at(&text[at..]) {
                Some(secret) => {
                    clean.extend_from_slice(REDACTED.as_bytes());
                    at += secret.len();
                }
                None => {
                    clean.push(text[at]);
                    at += 1;
                }
            }
        }
        clean
    }
}

/// Whether a service's logs report that its port is taken. If so, the caller may start the service on other
/// ports.
pub fn reports_taken_port(tails: &str) -> bool {
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
        write("error.log", "one\n\n\u{1b}[1mtwo  \n");
        write("stdout.log", "");
        write("access.log", "GET /\n");
        write("notes.txt", "no log\n");

        assert_eq!(bytes(directory.path()), many.len() as u64 + 15 + 6 + 7, "all files, access logs too");
        let text = tails(directory.path());

        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("error.log:"), "{text}");
        assert_eq!(&lines[1..3], ["  one", "  \\u{1b}[1mtwo"]);
        assert!(lines[3].ends_with("stderr.log:"), "{text}");
        assert_eq!(lines[4], "  line 4980 of a long log");
        assert_eq!(lines.last(), Some(&"  line 4999 of a long log"));
        assert_eq!(lines.len(), 4 + LINES);
    }

    #[test]
    fn scrubbing_takes_secrets_out_and_leaves_the_rest() {
        let secrets =
            ["key-of-one-consumer", "key-of-another-consumer", "token.of.the.third"].map(str::to_owned);
        let directory = tempfile::tempdir().expect("a directory");
        let (log, clean) = (directory.path().join("access.log"), directory.path().join("error.log"));
        let key = &secrets[1];
        let line = format!("GET / x-api-key={key} {key}\u{fffd} {}\n", secrets[2]);
        let filler = "nothing to see on this line, which is one of very many\n".repeat(20_000);
        std::fs::write(&log, format!("{filler}{line}{filler}{key}")).expect("written");
        std::fs::write(&clean, &filler).expect("written");

        scrub(directory.path(), &secrets);

        let text = std::fs::read_to_string(&log).expect("still there");
        let expected = format!("GET / x-api-key={REDACTED} {REDACTED}\u{fffd} {REDACTED}\n");
        assert!(
            text == format!("{filler}{expected}{filler}{REDACTED}"),
            "everything except the secrets is unchanged"
        );
        assert!(std::fs::read_to_string(&clean).expect("there") == filler);
        assert_eq!(std::fs::read_dir(directory.path()).expect("there").count(), 2);
    }

    #[test]
    fn taken_ports_are_recognised_in_various_messages() {
        let nginx = "bind() to 127.0.0.1:80 failed (98: Address already in use)";
        let haproxy = "Starting frontend main: cannot bind socket (Address already in use) [127.0.0.1:80]";
        assert!(reports_taken_port(nginx));
        assert!(reports_taken_port(haproxy));
        assert!(!reports_taken_port("unknown directive \"foo\""));
    }
}
