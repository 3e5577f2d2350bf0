//! Lists the directories below the history's directory. This module reads only the names of directories and
//! the metadata of files. The metadata shows which runs have changed.

use super::{HistoryError, notes};
use hoptax_record::dir::{RUN, STARTS, TRIALS};
use std::fs::{self, Metadata};
#[cfg(unix)]
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// A directory to list.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Name of the directory. Bytes that are not UTF-8 are replaced.
    pub(super) id: String,
    pub(super) path: PathBuf,
    /// Why the directory must not be read. Absent if the directory may be read.
    pub(super) shut: Option<&'static str>,
    /// Metadata of `run.json`.
    pub(super) run: Mark,
    /// Metadata of `trials.jsonl`.
    pub(super) trials: Mark,
    /// Metadata of `starts.jsonl`, which only runs that measure starts have.
    pub(super) starts: Mark,
    /// Metadata of the file with the notes.
    pub(super) notes: Mark,
}

/// The metadata of a file. The metadata changes if the file changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// There is no such file.
    Absent,
    /// The metadata cannot be read. The number identifies the system's error.
    Hidden(i32),
    /// The file exists.
    There {
        /// Whether it is a regular file: not a directory, a link or a pipe.
        is_file: bool,
        /// Length, bytes.
        len: u64,
        /// Time of the last write, Unix nanoseconds.
        written_ns: i64,
        /// Time of the last change of any kind, permissions included.
        changed_ns: i64,
        /// Number of the inode. The number changes if another file replaces this file.
        inode: u64,
    },
}

impl Mark {
    fn of(path: &Path) -> Self {
        match fs::symlink_metadata(path) {
            Ok(found) => Self::from(&found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Absent,
            Err(error) => Self::Hidden(error.raw_os_error().unwrap_or(0)),
        }
    }

    /// True if the file exists and its metadata can be read.
    pub(super) fn is_there(self) -> bool {
        matches!(self, Self::There { .. })
    }

    /// True if this is a regular file.
    pub(super) fn is_file(self) -> bool {
        matches!(self, Self::There { is_file: true, .. })
    }

    /// Time of the last write, Unix nanoseconds.
    pub(super) fn written_ns(self) -> Option<i64> {
        match self {
            Self::There { written_ns, .. } => Some(written_ns),
            _ => None,
        }
    }
}

impl From<&Metadata> for Mark {
    fn from(found: &Metadata) -> Self {
        let (written_ns, changed_ns, inode) = identity(found);
        Self::There { is_file: found.is_file(), len: found.len(), written_ns, changed_ns, inode }
    }
}

/// When the content and when the metadata of a file last changed, Unix nanoseconds, and the file's number.
#[cfg(unix)]
fn identity(found: &Metadata) -> (i64, i64, u64) {
    let ns = |s: i64, ns: i64| s.saturating_mul(1_000_000_000).saturating_add(ns);
    (ns(found.mtime(), found.mtime_nsec()), ns(found.ctime(), found.ctime_nsec()), found.ino())
}

/// Other systems report only when the content last changed.
#[cfg(not(unix))]
fn identity(found: &Metadata) -> (i64, i64, u64) {
    let since = |time: std::time::SystemTime| time.duration_since(std::time::SystemTime::UNIX_EPOCH).ok();
    let written = found.modified().ok().and_then(since).map_or(0, |age| age.as_nanos() as i64);
    (written, written, 0)
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("-"),
            Self::Hidden(error) => write!(f, "!{error}"),
            Self::There { is_file, len, written_ns, changed_ns, inode } => {
                write!(f, "{}{len}.{written_ns}.{changed_ns}.{inode}", if *is_file { "" } else { "?" })
            }
        }
    }
}

impl Found {
    /// Reads the metadata of the files in one run directory.
    pub(super) fn look(id: String, path: PathBuf) -> Self {
        let mark = |name| Mark::of(&path.join(name));
        let (run, trials, starts, notes) = (mark(RUN), mark(TRIALS), mark(STARTS), mark(notes::FILE));
        Self { id, path, shut: None, run, trials, starts, notes }
    }

    fn closed(id: String, path: PathBuf, why: &'static str) -> Self {
        let absent = Mark::Absent;
        Self { id, path, shut: Some(why), run: absent, trials: absent, starts: absent, notes: absent }
    }

    /// True if the directory contains a file that only run directories contain.
    pub(super) fn holds_a_run(&self) -> bool {
        self.run.is_there() || self.trials.is_there()
    }

    /// A text that changes whenever the run's files change. A change to the notes does not change this text.
    pub(super) fn mark(&self) -> String {
        let starts = if self.starts.is_there() { format!(" {}", self.starts) } else { String::new() };
        format!("{} {} {}{starts}", self.run, self.trials, self.shut.unwrap_or(""))
    }
}

/// Returns every directory below `root` that contains a run or has the name of a run directory, in no
/// particular order. Fails if `root` cannot be read.
pub(super) fn scan(root: &Path) -> Result<Vec<Found>, HistoryError> {
    let entries = fs::read_dir(root).map_err(|source| HistoryError::Root { path: root.into(), source })?;
    // Skip entries that cannot be read or have vanished, and list the others.
    Ok(entries.flatten().filter_map(|entry| found(&entry)).collect())
}

/// Returns the newest `most` directories of a plan's runs that have a record, newest first. Directories with
/// another name than hoptax gives are left out. Fails if `root` cannot be read.
pub(super) fn of_plan(root: &Path, plan: &str, most: usize) -> Result<Vec<Found>, HistoryError> {
    let entries = fs::read_dir(root).map_err(|source| HistoryError::Root { path: root.into(), source })?;
    let mut named: Vec<fs::DirEntry> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| is_of_plan(name, plan)))
        .collect();
    named.sort_by_cached_key(|entry| std::cmp::Reverse(entry.file_name()));
    let found = named.iter().filter_map(found);
    Ok(found.filter(|found| found.shut.is_none() && found.run.is_file()).take(most).collect())
}

/// True for `20260930T174501Z-PLAN`, also with `-2` or another number at the end.
fn is_of_plan(name: &str, plan: &str) -> bool {
    let rest = name.split_once('-').and_then(|(_, rest)| rest.strip_prefix(plan));
    let is_number = |rest: &str| {
        rest.strip_prefix('-').is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    started_by_name(name).is_some() && rest.is_some_and(|rest| rest.is_empty() || is_number(rest))
}

fn found(entry: &fs::DirEntry) -> Option<Found> {
    let kind = entry.file_type().ok()?;
    let name = entry.file_name();
    let id = name.to_string_lossy().into_owned();
    if id.starts_with('.') || !(kind.is_dir() || kind.is_symlink()) {
        return None;
    }
    let is_named_so = started_by_name(&id).is_some();
    if kind.is_symlink() {
        // Do not follow links. A link may lead anywhere, and deleting the run must not remove the target of
        // the link.
        return is_named_so
            .then(|| Found::closed(id, entry.path(), "it is a symbolic link, and links are not followed"));
    }
    let found = Found::look(id, entry.path());
    if !is_named_so && !found.holds_a_run() {
        return None;
    }
    Some(match name.to_str() {
        Some(_) => found,
        None => Found::closed(found.id, found.path, "its name is not UTF-8: rename it"),
    })
}

/// Reads the start of a run, Unix seconds, from the name of its directory (`20260930T174501Z-name`). `None`
/// for any other name.
pub(super) fn started_by_name(name: &str) -> Option<i64> {
    let (stamp, _) = name.split_once('-')?;
    let is_stamp = stamp.len() == 16
        && stamp.bytes().enumerate().all(|(at, byte)| match at {
            8 => byte == b'T',
            15 => byte == b'Z',
            _ => byte.is_ascii_digit(),
        });
    if !is_stamp {
        return None;
    }
    let part = |from: usize, to: usize| &stamp[from..to];
    let written = format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(9, 11),
        part(11, 13),
        part(13, 15)
    );
    let at = humantime::parse_rfc3339(&written).ok()?;
    i64::try_from(at.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs()).ok()
}

/// True if `id` is a plain file name. Any other id could lead out of the history's directory when it is part
/// of a path.
pub(super) fn is_name(id: &str) -> bool {
    !id.is_empty() && !id.starts_with('.') && !id.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_read_from_the_name() {
        assert_eq!(started_by_name("20231114T221320Z-quickstart-2"), Some(1_700_000_000));
        for other in ["20231114T221320Z", "20231314T221320Z-x", "2023é114T22132Z-x", "notes", "", "-"] {
            assert_eq!(started_by_name(other), None, "{other}");
        }
    }

    #[test]
    fn runs_of_a_plan_are_found_by_name() {
        for (name, is_of) in [
            ("20231114T221320Z-nightly", true),
            ("20231114T221320Z-nightly-2", true),
            ("20231114T221320Z-nightly-tls", false),
            ("20231114T221320Z-night", false),
            ("backup-nightly", false),
        ] {
            assert_eq!(is_of_plan(name, "nightly"), is_of, "{name}");
        }
    }

    #[test]
    fn ids_cannot_lead_elsewhere() {
        assert!(is_name("20231114T221320Z-quickstart") && is_name("ö"));
        for wrong in ["", ".", "..", "../x", "a/b", "/etc", "a\0b", ".hidden"] {
            assert!(!is_name(wrong), "{wrong:?}");
        }
    }
}
