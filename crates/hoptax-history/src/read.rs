//! Reads the data about a run directory that the list of runs shows: the record and the number of trials.
//! Does not analyse the run.

use super::basis::Basis;
use super::notes::Notes;
use super::scan::{Found, Mark, started_by_name};
use super::{Contender, Entry, State};
use hoptax_analysis::Load;
use hoptax_plan::Plan;
use hoptax_record::dir::{DirError, RUN, STARTS, TRIALS, read_run};
use hoptax_record::{RunRecord, bounded};
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

/// A run counts as in progress until this time has passed since its last write. The duration of the run's
/// longest trial is added to this time.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum size of a record, in bytes. Records that hoptax writes are smaller.
const LONGEST_RECORD: u64 = 64 << 20;

/// A run in the index.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// The run's entry in the list, without the verdict and the answer.
    pub(super) entry: Entry,
    /// Time at which the run stops counting as in progress, Unix seconds. Absent if the run does not count as
    /// in progress.
    pub(super) until: Option<i64>,
    /// Key for sorting, Unix seconds: the start of the run, or an estimate of the start.
    pub(super) sorted: i64,
    /// Whether the run has to be analysed.
    pub(super) pending: bool,
    /// Properties that may explain why the run's figures differ from those of another run.
    pub(super) basis: Basis,
    /// Description of the problem with the notes. Absent if there is no problem.
    pub(super) notes_problem: Option<String>,
}

/// Reads a directory. `now_ns` is the current time, Unix nanoseconds. It decides whether an unfinished run is
/// in progress or was killed.
pub(super) fn row(found: &Found, now_ns: i64) -> Row {
    let mut row = match (found.shut, found.run) {
        (Some(why), _) => without_record(found, State::Foreign, why.into()),
        (None, Mark::Absent) => unrecorded(found, now_ns),
        (None, Mark::Hidden(error)) => {
            let error = io::Error::from_raw_os_error(error);
            without_record(found, State::Broken, format!("{RUN} cannot be accessed: {error}"))
        }
        (None, Mark::There { is_file: false, .. }) => {
            without_record(found, State::Broken, format!("{RUN} is not a file"))
        }
        (None, Mark::There { len, .. }) if len > LONGEST_RECORD => {
            without_record(found, State::Broken, format!("{RUN} is too long for a run record"))
        }
        (None, Mark::There { .. }) => match read_run(&found.path) {
            Ok(record) => recorded(found, &record, now_ns),
            Err(error) => unreadable(found, &error),
        },
    };
    let (notes, problem) = notes(found);
    (row.entry.tags, row.entry.note, row.notes_problem) = (notes.tags, notes.note, problem);
    row
}

/// The notes of a directory, and a description of the problem if they cannot be read.
pub(super) fn notes(found: &Found) -> (Notes, Option<String>) {
    let notes = if found.shut.is_some() { Ok(Notes::default()) } else { Notes::read(&found.path) };
    let problem = notes.as_ref().err().map(|why| format!("its notes cannot be read: {why}"));
    (notes.unwrap_or_default(), problem)
}

/// The row for a directory without a readable record.
fn without_record(found: &Found, state: State, problem: String) -> Row {
    let written = || found.run.written_ns().or(found.trials.written_ns()).map(seconds);
    Row {
        entry: Entry { id: found.id.clone(), state, problem: Some(problem), ..Entry::default() },
        until: None,
        sorted: started_by_name(&found.id).or_else(written).unwrap_or(0),
        pending: false,
        basis: Basis::default(),
        notes_problem: None,
    }
}

/// The row for a directory without `run.json`. Either the run is just starting, or the file was deleted.
fn unrecorded(found: &Found, now_ns: i64) -> Row {
    let until = found.trials.written_ns().and_then(|written| running_until(written, now_ns, PATIENCE));
    let (state, problem) = match found.trials {
        Mark::Absent => {
            (State::Foreign, format!("it is named like a run but has neither {RUN} nor {TRIALS}"))
        }
        Mark::Hidden(error) => {
            (State::Broken, format!("it cannot be opened: {}", io::Error::from_raw_os_error(error)))
        }
        Mark::There { .. } => (State::Broken, format!("{RUN} is missing")),
    };
    let state = if until.is_some() { State::Running } else { state };
    let mut row = without_record(found, state, problem);
    if state == State::Running {
        row.entry.problem = None;
    }
    row.until = until;
    row
}

fn unreadable(found: &Found, error: &DirError) -> Row {
    let message = error.to_string();
    let (state, problem) = match error {
        DirError::Newer { found, .. } => {
            (State::Newer, format!("{RUN} has schema {found}, written by a newer hoptax"))
        }
        DirError::Foreign { source, .. } if source.is_data() && !claims_to_be_ours(&found.path) => {
            (State::Foreign, format!("{RUN} is not a record of hoptax"))
        }
        DirError::Foreign { source, .. } => (State::Broken, format!("{RUN} cannot be read: {source}")),
        DirError::Read { source, .. } => (State::Broken, format!("{RUN} cannot be read: {source}")),
        DirError::Create { .. } | DirError::Write { .. } => (State::Broken, message),
    };
    without_record(found, state, problem)
}

/// True if `run.json` is JSON and names a version of hoptax.
fn claims_to_be_ours(path: &Path) -> bool {
    #[derive(Deserialize)]
    struct Claim {
        #[serde(rename = "hoptax")]
        _hoptax: String,
    }
    bounded::read(&path.join(RUN), bounded::RUN)
        .is_ok_and(|text| serde_json::from_slice::<Claim>(&text).is_ok())
}

fn recorded(found: &Found, record: &RunRecord, now_ns: i64) -> Row {
    // A run has either trials or starts.
    let (records, name) = match found.starts {
        Mark::Absent => (found.trials, TRIALS),
        starts => (starts, STARTS),
    };
    let counted = if records.is_file() {
        count_lines(&found.path.join(name)).map_err(|error| format!("{name} cannot be read: {error}"))
    } else if records.is_there() {
        Err(format!("{name} is not a file"))
    } else {
        Err(format!("{name} is missing"))
    };
    let written = found.run.written_ns().max(records.written_ns()).unwrap_or(0);
    let until = match (&record.ended, &counted) {
        (None, Ok(_)) => running_until(written, now_ns, PATIENCE.saturating_add(longest_trial(&record.plan))),
        _ => None,
    };
    let (state, problem) = state(record, &counted, name, until.is_some());
    let started = i64::try_from(record.started_unix_ns / 1_000_000_000).unwrap_or(0);
    let lines = counted.as_ref().copied().unwrap_or_default();
    let entry = Entry {
        state,
        problem,
        name: record.plan.name.clone(),
        started_unix: Some(started),
        took_s: took(record, written),
        hoptax: record.hoptax.clone(),
        contenders: record.contenders.iter().map(contender).collect(),
        loads: Load::all(&record.load).into_iter().map(|load| load.label).collect(),
        trials: lines.whole,
        trials_planned: record.trials_planned,
        starts: record.plan.start.is_some() || name == STARTS,
        ..without_record(found, state, String::new()).entry
    };
    Row {
        entry,
        until,
        sorted: started,
        pending: state != State::Running && records.is_file(),
        basis: Basis::of(record),
        notes_problem: None,
    }
}

/// The state of a run with a readable record, and a description of the problem with the run.
/// `name` is the file of its trials or starts.
fn state(
    record: &RunRecord,
    counted: &Result<Lines, String>,
    name: &str,
    is_running: bool,
) -> (State, Option<String>) {
    let lines = match counted {
        Ok(_) if is_running => return (State::Running, None),
        Ok(lines) => lines,
        Err(problem) => return (State::Damaged, Some(problem.clone())),
    };
    let what = if name == STARTS { "starts" } else { "trials" };
    let of = match record.trials_planned {
        0 => format!("{} {what}", lines.whole),
        planned => format!("{} of {planned} {what}", lines.whole),
    };
    let cut = lines.is_cut.then(|| format!("the last line of {name} is truncated"));
    let (state, why) = match &record.ended {
        None => (State::Interrupted, Some(format!("it was killed after {of}"))),
        Some(ended) => match &ended.failed {
            Some(failure) => (State::Interrupted, Some(format!("it ended after {of}: {}", failure.message))),
            None if ended.interrupted => (State::Interrupted, Some(format!("it was interrupted after {of}"))),
            None if lines.is_cut => (State::Damaged, None),
            None => (State::Whole, None),
        },
    };
    let problems: Vec<String> = why.into_iter().chain(cut).collect();
    (state, (!problems.is_empty()).then(|| problems.join("; ")))
}

fn contender(one: &hoptax_record::Contender) -> Contender {
    Contender { label: one.label.clone(), kind: one.kind.clone(), version: one.version.clone() }
}

/// Duration of the run, seconds. If the run has no recorded end, this is the time from its start to its last
/// write.
fn took(record: &RunRecord, written_ns: i64) -> Option<f64> {
    let end = record.ended.as_ref().map_or(u64::try_from(written_ns).ok(), |ended| Some(ended.unix_ns))?;
    Some(end.checked_sub(record.started_unix_ns)? as f64 / 1e9)
}

/// The longest time that a healthy run can take between two writes.
fn longest_trial(plan: &Plan) -> Duration {
    let measured = plan.load.iter().map(|point| {
        let confirm = point.search.as_ref().map(|search| search.confirm);
        point.duration.max(confirm.unwrap_or_default())
    });
    let around = [plan.warmup, plan.pause, plan.timeout.total];
    around.iter().fold(measured.max().unwrap_or_default(), |sum, part| sum.saturating_add(*part))
}

/// Returns the time from which a run no longer counts as in progress, Unix seconds. `written_ns` is the time
/// of the run's last write. Returns `None` if the returned time would be in the past. Also returns `None` if
/// the last write is far in the future, because then a clock is wrong.
fn running_until(written_ns: i64, now_ns: i64, patience: Duration) -> Option<i64> {
    let patience = i64::try_from(patience.as_nanos()).unwrap_or(i64::MAX);
    let is_recent = now_ns.saturating_sub(written_ns).saturating_abs() <= patience;
    is_recent.then(|| seconds(written_ns.saturating_add(patience)))
}

fn seconds(ns: i64) -> i64 {
    ns.div_euclid(1_000_000_000)
}

/// Number of lines in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Lines {
    /// Number of lines that end with a newline.
    whole: u32,
    /// True if the last line does not end with a newline.
    is_cut: bool,
}

fn count_lines(path: &Path) -> io::Result<Lines> {
    let mut file = File::open(path)?;
    let mut part = vec![0; 256 << 10];
    let mut lines = Lines::default();
    loop {
        match file.read(&mut part)? {
            0 => return Ok(lines),
            read => {
                let part = &part[..read];
                let ends = memchr::memchr_iter(b'\n', part).count();
                lines.whole = lines.whole.saturating_add(u32::try_from(ends).unwrap_or(u32::MAX));
                lines.is_cut = part.last() != Some(&b'\n');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recent_write_means_in_progress() {
        let second = 1_000_000_000;
        let minute = Duration::from_secs(60);
        assert_eq!(running_until(100 * second, 130 * second, minute), Some(160));
        assert_eq!(running_until(100 * second, 160 * second, minute), Some(160));
        assert_eq!(running_until(100 * second, 161 * second, minute), None);
        assert_eq!(
            running_until(200 * second, 150 * second, minute),
            Some(260),
            "clocks of files are coarse"
        );
        assert_eq!(running_until(9000 * second, 150 * second, minute), None);
        assert_eq!(running_until(i64::MAX, 0, Duration::MAX), Some(i64::MAX / second));
    }

    #[test]
    fn whole_and_truncated_lines_are_counted() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("lines");
        for (text, whole, is_cut) in
            [("", 0, false), ("a\n", 1, false), ("a\nb", 1, true), (&"x\n".repeat(300_000), 300_000, false)]
        {
            std::fs::write(&path, text).expect("written");
            assert_eq!(count_lines(&path).expect("read"), Lines { whole, is_cut });
        }
    }
}
