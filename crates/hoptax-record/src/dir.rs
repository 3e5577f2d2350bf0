//! Writes the run directory during a run, one trial at a time, and reads run directories.

use super::profile::PassRecord;
use super::start::StartRecord;
use super::tail::TailPass;
use super::{AsideRules, RunRecord, SCHEMA, TrialRecord, bounded, mark_aside};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

/// File with the record of the run.
pub const RUN: &str = "run.json";
/// File with the records of trials, one per line.
pub const TRIALS: &str = "trials.jsonl";
/// File with the records of starts, one per line. Only runs that measure starts have it.
pub const STARTS: &str = "starts.jsonl";
/// File with the records of profiling passes, one per line. Only runs with `cpu_profile` have it.
pub const PROFILES: &str = "profiles.jsonl";
/// File with the records of passes that explain slow requests, one per line. Only runs with `tail` have it.
pub const TAILS: &str = "tails.jsonl";

/// A run directory that is being written.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    trials: File,
    /// Opened for the first start.
    starts: Option<File>,
    /// Opened for the first profiling pass.
    profiles: Option<File>,
    /// Opened for the first pass that explains slow requests.
    tails: Option<File>,
}

/// A run directory that was read.
#[derive(Debug)]
pub struct Run {
    /// Path of the directory.
    pub path: PathBuf,
    /// Content of `run.json`.
    pub record: RunRecord,
    /// Content of `trials.jsonl`, in the order in which the trials were measured.
    pub trials: Vec<TrialRecord>,
    /// Content of `starts.jsonl`, in the order in which the starts were measured. Empty without that file.
    pub starts: Vec<StartRecord>,
    /// Content of `profiles.jsonl`, in the order in which the passes were recorded. Empty without that file.
    pub profiles: Vec<PassRecord>,
    /// Content of `tails.jsonl`, in the order in which the passes were recorded. Empty without that file.
    pub tails: Vec<TailPass>,
    /// A message for each line of `trials.jsonl` and its siblings that cannot be read. If the run was killed,
    /// the last line may be truncated.
    pub unreadable: Vec<String>,
}

/// Why a run directory cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// The results directory cannot be written.
    #[error("cannot write results below {}: {source}; choose another place with --out DIR", .path.display())]
    Create {
        /// The requested directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of the run cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of the run cannot be read.
    #[error("{}", unreadable(.path, source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// `run.json` is not a run record.
    #[error("{} is not a run record: {source}", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// A newer hoptax wrote the run.
    #[error("{} has schema {found}, but this hoptax reads only schemas up to {SCHEMA}: use a newer version", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Schema of the file.
        found: u64,
    },
}

impl RunDir {
    /// Creates the run directory `<UTC timestamp>-<name>` below `out`, with an empty `trials.jsonl`.
    ///
    /// # Errors
    /// If `out` cannot be created or written to.
    pub fn create(out: &Path, name: &str) -> Result<Self, DirError> {
        let failed = |source| DirError::Create { path: out.to_path_buf(), source };
        fs::create_dir_all(out).map_err(failed)?;
        let path = fresh(out, &format!("{}-{name}", stamp(SystemTime::now()))).map_err(failed)?;
        let trials = OpenOptions::new()
            .create_new(true)
            .write(true)
            .open(path.join(TRIALS))
            .map_err(|source| DirError::Write { path: path.join(TRIALS), source })?;
        // The path must be absolute. A relative path would be wrong for services, because they start in
        // directories below the run directory and may change their working directory.
        let path = path.canonicalize().map_err(failed)?;
        Ok(Self { path, trials, starts: None, profiles: None, tails: None })
    }

    /// Removes the directory of a run that recorded no trial. A directory that contains other files is kept.
    pub fn abandon(&self) {
        let trials = self.path.join(TRIALS);
        let has_more = [STARTS, PROFILES, TAILS].iter().any(|file| self.path.join(file).exists());
        if !has_more && fs::metadata(&trials).is_ok_and(|file| file.len() == 0) {
            // If this fails, an empty directory remains, which does no harm.
            let _ = fs::remove_file(&trials).and_then(|()| fs::remove_dir(&self.path));
        }
    }

    /// Absolute path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `run.json`, completely or not at all.
    ///
    /// # Errors
    /// If the file cannot be written. An earlier `run.json` is then unchanged.
    pub fn write_run(&self, record: &RunRecord) -> Result<(), DirError> {
        let mut text = serde_json::to_string_pretty(record).expect("a record has only string keys");
        text.push('\n');
        self.write_file(RUN, text.as_bytes())
    }

    /// Writes a file of the run, completely or not at all.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_file(&self, name: &str, content: &[u8]) -> Result<(), DirError> {
        let (path, partial) = (self.path.join(name), self.path.join(format!(".{name}.partial")));
        let write = || {
            let mut file = File::create(&partial)?;
            file.write_all(content)?;
            file.sync_data()?;
            fs::rename(&partial, &path)
        };
        write().map_err(|source| {
            let _ = fs::remove_file(&partial);
            DirError::Write { path, source }
        })
    }

    /// Appends a trial to `trials.jsonl` and syncs the file to the disk, so that a crash cannot lose the
    /// trial.
    ///
    /// # Errors
    /// If the trial cannot be written. A partial line is then removed, so that earlier trials remain
    /// readable.
    pub fn append(&mut self, trial: &TrialRecord) -> Result<(), DirError> {
        append_line(&mut self.trials, trial)
            .map_err(|source| DirError::Write { path: self.path.join(TRIALS), source })
    }

    /// Appends a start to `starts.jsonl`, as [`Self::append`] does with trials.
    ///
    /// # Errors
    /// If the start cannot be written.
    pub fn append_start(&mut self, start: &StartRecord) -> Result<(), DirError> {
        append_to(&mut self.starts, self.path.join(STARTS), start)
    }

    /// Appends a profiling pass to `profiles.jsonl`, as [`Self::append`] does with trials.
    ///
    /// # Errors
    /// If the pass cannot be written.
    pub fn append_profile(&mut self, pass: &PassRecord) -> Result<(), DirError> {
        append_to(&mut self.profiles, self.path.join(PROFILES), pass)
    }

    /// Appends a pass to `tails.jsonl`, as [`Self::append`] does with trials.
    ///
    /// # Errors
    /// If the pass cannot be written.
    pub fn append_tail(&mut self, pass: &TailPass) -> Result<(), DirError> {
        append_to(&mut self.tails, self.path.join(TAILS), pass)
    }
}

/// Appends a record to a file that is created for the first record.
fn append_to(open: &mut Option<File>, path: PathBuf, record: &impl Serialize) -> Result<(), DirError> {
    let mut write = || {
        let mut file = match open.take() {
            Some(file) => file,
            None => OpenOptions::new().create_new(true).write(true).open(&path)?,
        };
        let written = append_line(&mut file, record);
        *open = Some(file);
        written
    };
    write().map_err(|source| DirError::Write { path, source })
}

fn append_line(file: &mut File, record: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(record).expect("a record has only string keys");
    line.push('\n');
    let whole = file.stream_position();
    let written = file.write_all(line.as_bytes()).and_then(|()| file.sync_data());
    if written.is_err()
        && let Ok(whole) = whole
    {
        let _ = file.set_len(whole);
        let _ = file.seek(SeekFrom::Start(whole));
    }
    written
}

impl Run {
    /// Reads the directory of a run, even if the run was killed.
    ///
    /// # Errors
    /// If `run.json` is missing, is not a run record, or was written by a newer hoptax.
    pub fn read(path: &Path) -> Result<Self, DirError> {
        let record = read_record(&path.join(RUN))?;
        let (mut trials, mut unreadable) = read_lines(path, TRIALS)?;
        let (starts, more) = read_lines(path, STARTS)?;
        unreadable.extend(more);
        let (profiles, more) = read_lines(path, PROFILES)?;
        unreadable.extend(more);
        let (tails, more) = read_lines(path, TAILS)?;
        unreadable.extend(more);
        mark_aside(&mut trials, &AsideRules::of(&record));
        Ok(Self { path: path.to_path_buf(), record, trials, starts, profiles, tails, unreadable })
    }
}

/// Reads only `run.json` of a run directory.
///
/// # Errors
/// If the file is missing, is not a run record, or was written by a newer hoptax.
pub fn read_run(path: &Path) -> Result<RunRecord, DirError> {
    read_record(&path.join(RUN))
}

/// Maximum number of bytes to read from a rendered file. If a file contains a thousand similar routes, the
/// first ones are enough to see how they are configured.
const MOST_RENDERED: usize = 16 << 10;

/// A rendered configuration file that a gateway used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedFile {
    /// Label of the gateway.
    pub gateway: String,
    /// Name of the file, relative to the gateway's directory.
    pub name: String,
    /// Content of the file. If the file is long, only the beginning.
    pub text: String,
    /// Number of bytes at the end of the file that `text` leaves out.
    pub left_out: usize,
}

impl Run {
    /// The rendered files that the record lists and that still exist in the run directory.
    pub fn rendered(&self) -> Vec<RenderedFile> {
        let named = self.record.contenders.iter();
        let named =
            named.flat_map(|one| one.rendered.keys().map(move |name| (one.label.as_str(), name.as_str())));
        named.filter_map(|(gateway, name)| self.rendered_file(gateway, name)).collect()
    }

    fn rendered_file(&self, gateway: &str, name: &str) -> Option<RenderedFile> {
        // The record may come from someone else, so read only files inside the run directory.
        let inside = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
        let below = Path::new(gateway).join(name);
        let path = self.path.join("rendered").join(&below);
        if !inside(&below) || fs::symlink_metadata(&path).ok()?.is_symlink() {
            return None;
        }
        let (bytes, length) = bounded::read_beginning(&path, MOST_RENDERED as u64).ok()?;
        let left_out = usize::try_from(length).unwrap_or(usize::MAX).saturating_sub(bytes.len());
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Some(RenderedFile { gateway: gateway.into(), name: name.into(), text, left_out })
    }
}

/// Says why a file of a run cannot be read. Without a `run.json`, the directory is not a run.
fn unreadable(path: &Path, source: &io::Error) -> String {
    let named = path.parent().unwrap_or(path);
    let what = if path.file_name().is_none_or(|name| name != RUN) {
        return format!("cannot read {}: {source}", path.display());
    } else if named.is_file() {
        format!("{} is a file, not a run directory", named.display())
    } else if source.kind() != io::ErrorKind::NotFound {
        return format!("cannot read {}: {source}", path.display());
    } else if named.is_dir() {
        format!("{} is not a run directory: it has no {RUN}", named.display())
    } else {
        format!("there is no run {}: neither a directory nor the name of a measured plan", named.display())
    };
    format!("{what}. Name a run directory, a plan's name, or `latest`; `hoptax history list` shows all")
}

fn read_record(path: &Path) -> Result<RunRecord, DirError> {
    let text = read_file(path, bounded::RUN)
        .map_err(|source| DirError::Read { path: path.to_path_buf(), source })?;
    let foreign = |source| DirError::Foreign { path: path.to_path_buf(), source };
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(foreign)?;
    match value.get("schema").and_then(serde_json::Value::as_u64) {
        Some(found) if found > u64::from(SCHEMA) => Err(DirError::Newer { path: path.to_path_buf(), found }),
        _ => parse(value).map_err(foreign),
    }
}

/// Reads a regular file. Rejects pipes, because reading from a pipe may never end.
fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    bounded::read(path, most)
}

fn parse<T: DeserializeOwned>(value: serde_json::Value) -> serde_json::Result<T> {
    serde_json::from_value(value)
}

/// The records in a file with one JSON document per line, and a message for each line that cannot be read.
/// Both lists are empty if the file is missing.
fn read_lines<T: DeserializeOwned>(directory: &Path, name: &str) -> Result<(Vec<T>, Vec<String>), DirError> {
    let path = directory.join(name);
    let bytes = match read_file(&path, bounded::TRIALS) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
        Err(source) => return Err(DirError::Read { path, source }),
    };
    let (mut records, mut unreadable) = (Vec::new(), Vec::new());
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(record) => records.push(record),
            Err(error) => unreadable.push(format!("{name} line {}: {error}", index + 1)),
        }
    }
    Ok((records, unreadable))
}

/// Number of characters of [`stamp`].
const STAMP: usize = 16;

/// The newest run directly below `below`, by the time in the name that `hoptax run` gave its directory. With
/// `plan`, the newest run of the plan with this name. `None` if there is none.
pub fn newest(below: &Path, plan: Option<&str>) -> Option<PathBuf> {
    // Runs that started in the same second have a number after the name.
    let parts = |name: &str| {
        let (stamp, rest) = name.split_at_checked(STAMP)?;
        let rest = rest.strip_prefix('-').filter(|_| stamp.ends_with('Z') && stamp.contains('T'))?;
        let number = match plan {
            None => rest.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or(1),
            Some(plan) => match rest.strip_prefix(plan)? {
                "" => 1,
                number => number.strip_prefix('-')?.parse::<u32>().ok()?,
            },
        };
        Some((stamp.to_owned(), number))
    };
    let mut found: Vec<((String, u32), PathBuf)> = fs::read_dir(below)
        .ok()?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((parts(entry.file_name().to_str()?)?, entry.path()))
        })
        .collect();
    found.sort_unstable();
    let is_of_plan =
        |path: &Path| plan.is_none_or(|plan| name_of_plan(path).is_some_and(|name| name == plan));
    found.into_iter().rev().map(|(_, path)| path).find(|path| path.join(RUN).is_file() && is_of_plan(path))
}

/// The name of the plan of a run.
fn name_of_plan(run: &Path) -> Option<String> {
    let text = bounded::read(&run.join(RUN), bounded::RUN).ok()?;
    let record: serde_json::Value = serde_json::from_slice(&text).ok()?;
    Some(record.get("plan")?.get("name")?.as_str()?.to_owned())
}

/// Creates a directory with this name. If the name is already used, appends the first free number.
fn fresh(below: &Path, name: &str) -> io::Result<PathBuf> {
    for number in 1u32.. {
        let path = below.join(if number == 1 { name.to_owned() } else { format!("{name}-{number}") });
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("there are fewer directories than numbers")
}

/// A timestamp such as `20260930T174501Z`. Names that begin with it sort by time and need no quoting in a
/// shell.
fn stamp(now: SystemTime) -> String {
    humantime::format_rfc3339_seconds(now).to_string().replace(['-', ':'], "")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::time::Duration;

    pub(crate) fn trial(sequence: u32) -> TrialRecord {
        TrialRecord { schema: SCHEMA, sequence, contender: "direct".into(), ..TrialRecord::default() }
    }

    #[test]
    fn only_rendered_files_are_read_back() {
        let out = tempfile::tempdir().expect("a directory");
        let dir = RunDir::create(out.path(), "rendered").expect("made");
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../records/runs/schema-1");
        let mut record = read_run(&kept).expect("kept");
        record.contenders[1].rendered = ["nginx.conf", "gone.conf", "../../run.json", "/etc/hostname"]
            .map(|name| (name.to_owned(), "digest".to_owned()))
            .into();
        dir.write_run(&record).expect("written");
        fs::create_dir_all(dir.path().join("rendered/nginx")).expect("made");
        let long = "a".repeat(MOST_RENDERED + 5);
        fs::write(dir.path().join("rendered/nginx/nginx.conf"), long).expect("written");
        let found = Run::read(dir.path()).expect("read").rendered();
        let told: Vec<_> = found.iter().map(|file| (&*file.gateway, &*file.name, file.left_out)).collect();
        assert_eq!(told, [("nginx", "nginx.conf", 5)]);
        assert_eq!(found[0].text.len(), MOST_RENDERED);
    }

    #[test]
    fn two_runs_in_one_second_get_separate_directories() {
        let out = tempfile::tempdir().expect("a directory");
        let first = RunDir::create(out.path(), "twice").expect("made");
        let second = RunDir::create(out.path(), "twice").expect("made");
        assert_ne!(first.path(), second.path());
    }

    #[test]
    fn trials_are_read_in_order_and_a_truncated_line_is_reported() {
        let out = tempfile::tempdir().expect("a directory");
        let mut dir = RunDir::create(out.path(), "cut").expect("made");
        for sequence in 0..3 {
            dir.append(&trial(sequence)).expect("appended");
        }
        let mut bytes = fs::read(dir.path().join(TRIALS)).expect("there");
        let read = || read_lines::<TrialRecord>(dir.path(), TRIALS).expect("read");
        let (trials, unreadable) = read();
        assert_eq!((trials.len(), unreadable.len()), (3, 0));
        assert_eq!(trials.iter().map(|trial| trial.sequence).collect::<Vec<_>>(), [0, 1, 2]);
        bytes.truncate(bytes.len() - 20);
        fs::write(dir.path().join(TRIALS), bytes).expect("written");
        let (trials, unreadable) = read();
        assert_eq!(trials.len(), 2);
        assert!(unreadable[0].starts_with("trials.jsonl line 3"), "{unreadable:?}");
    }

    #[test]
    fn an_unwritable_directory_is_named() {
        let error = RunDir::create(Path::new("/proc/nowhere"), "x").expect_err("not writable");
        assert!(error.to_string().contains("/proc/nowhere"), "{error}");
        assert!(error.to_string().contains("--out"), "{error}");
    }

    #[test]
    fn a_later_schema_and_a_foreign_file_are_refused() {
        let out = tempfile::tempdir().expect("a directory");
        let error = Run::read(out.path()).expect_err("empty");
        assert!(error.to_string().contains("run.json"), "{error}");
        fs::write(out.path().join(RUN), r#"{"schema": 99}"#).expect("written");
        assert!(matches!(Run::read(out.path()), Err(DirError::Newer { found: 99, .. })));
        fs::write(out.path().join(RUN), "{}").expect("written");
        assert!(matches!(Run::read(out.path()), Err(DirError::Foreign { .. })));
    }

    #[test]
    fn a_plan_with_a_feature_of_a_newer_version_is_refused() {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../records/runs/schema-1");
        let mut record = serde_json::to_value(read_run(&kept).expect("kept")).expect("JSON");
        let kind =
            serde_json::json!({"pack": {"pack": "nginx", "workers": 1, "features": ["routes=9:last"]}});
        let out = tempfile::tempdir().expect("a directory");
        for (feature, expected) in [("routes=9:last", None), ("teleport", Some("unknown feature `teleport`"))]
        {
            record["plan"]["gateways"][0]["kind"] = kind.clone();
            record["plan"]["gateways"][0]["kind"]["pack"]["features"][0] = feature.into();
            fs::write(out.path().join(RUN), record.to_string()).expect("written");
            let error = read_run(out.path()).err().map(|error| error.to_string());
            match expected {
                None => assert_eq!(error, None),
                Some(expected) => {
                    assert!(error.as_ref().is_some_and(|text| text.contains(expected)), "{error:?}");
                }
            }
        }
    }

    #[test]
    fn the_newest_run_of_a_plan_is_found_by_its_name() {
        let below = tempfile::tempdir().expect("a directory");
        for (directory, name) in [
            ("20260930T174501Z-ci", "ci"),
            ("20261030T174501Z-ci", "ci"),
            ("20261030T174501Z-ci-10", "ci"),
            ("20261030T174501Z-ci-9", "ci"),
            ("20261030T174502Z-ci-2", "ci-2"),
            ("20261101T000000Z-other", "other"),
            ("last-release", "ci"),
        ] {
            let path = below.path().join(directory);
            fs::create_dir(&path).expect("made");
            fs::write(path.join(RUN), format!(r#"{{"plan":{{"name":"{name}"}}}}"#)).expect("written");
        }
        // A run that has not started yet has no `run.json`.
        fs::create_dir(below.path().join("20261231T000000Z-ci")).expect("made");
        let named = |plan| newest(below.path(), plan).map(|path| path.file_name().unwrap().to_owned());
        assert_eq!(named(Some("ci")).expect("found"), "20261030T174501Z-ci-10");
        assert_eq!(named(Some("ci-2")).expect("found"), "20261030T174502Z-ci-2");
        assert_eq!(named(None).expect("found"), "20261101T000000Z-other");
        assert_eq!((named(Some("c")), newest(Path::new("/nowhere"), None)), (None, None));
    }

    #[test]
    fn stamps_need_no_quoting() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(stamp(at), "20231114T221320Z");
    }
}
