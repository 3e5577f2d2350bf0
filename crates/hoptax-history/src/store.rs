//! The history of a directory: queries and changes.

use super::figures::Analysed;
use super::notes::{self, Notes};
use super::read::{self, Row};
use super::scan::{self, Found};
use super::table::Known;
use super::{
    CaseChange, Entry, HistoryError, Listing, Query, State, Trend, TrendChoice, TrendQuery, index, table,
    trend,
};
use hoptax_plan::Metric;
use hoptax_plan::units::nearest;
use rusqlite::{Connection, TransactionBehavior};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Number of directories to read before writing them to the index in one transaction.
const AT_ONCE: usize = 200;

/// The history of the runs below one directory. All queries and changes fail if another process locks the
/// index for too long, and [`Self::refresh`] and [`Self::rebuild`] also if the directory cannot be read.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    /// A `RefCell`, because even a query may replace an unusable index.
    index: RefCell<Connection>,
}

impl Store {
    /// Opens the history of a directory. An unusable index is replaced. If the directory cannot be written,
    /// the index is kept in memory. A new index is empty until [`Self::refresh`].
    ///
    /// # Errors
    /// If there is no such directory, or another process locks the index for too long.
    pub fn open(root: &Path) -> Result<Self, HistoryError> {
        let failed = |source| HistoryError::Root { path: root.to_path_buf(), source };
        let root = root.canonicalize().map_err(failed)?;
        fs::read_dir(&root).map_err(failed)?;
        Ok(Self { index: RefCell::new(index::open(&root)?), root })
    }

    /// Looks only at these directories, and reads those that changed. Fails if another process locks the
    /// index for too long.
    pub(super) fn refresh_some(&self, some: &[Found]) -> Result<(), HistoryError> {
        self.attempt(|index| {
            let mut known = table::known(index)?;
            read_changed(index, some.iter().cloned(), &mut known, now_ns())
        })
    }

    /// Looks for new, changed and removed directories.
    pub fn refresh(&mut self) -> Result<(), HistoryError> {
        self.attempt(|index| refresh(index, &self.root, now_ns()))
    }

    /// Builds the index again, so that all runs have to be analysed again. Other processes see the old index
    /// until the new index is complete.
    pub fn rebuild(&mut self) -> Result<(), HistoryError> {
        let is_sound = index::is_sound(&self.index.borrow());
        if !is_sound {
            // Close the old index before the file is replaced.
            drop(self.index.replace(Connection::open_in_memory()?));
            self.index.replace(index::empty(&self.root)?);
        }
        self.attempt(|index| rebuild(index, &self.root, now_ns()))
    }

    /// Analyses the newest pending run. Returns false if no run is pending.
    pub fn analyse_next(&mut self) -> Result<bool, HistoryError> {
        match self.attempt(|index| Ok(table::next_pending(index)?))? {
            Some(id) => self.analyse(&id).map(|()| true),
            None => Ok(false),
        }
    }

    /// Analyses a run if the run is pending.
    pub fn analyse(&mut self, id: &str) -> Result<(), HistoryError> {
        // Count the attempt before the analysis starts. Otherwise a record that crashes the process, perhaps
        // on purpose, could crash every later process too.
        let Some(begun) = self.attempt(|index| Ok(table::begin_analysis(index, id)?))? else { return Ok(()) };
        let analysed = Analysed::read(&self.root.join(id)).map_err(|error| error.to_string());
        self.attempt(|index| Ok(table::end_analysis(index, &begun, &analysed)?))
    }

    /// The runs that match a query, newest first.
    pub fn list(&self, query: &Query) -> Result<Listing, HistoryError> {
        self.attempt(|index| Ok(table::list(index, query)?))
    }

    /// Returns a run. Absent if the index does not contain the run.
    pub fn get(&self, id: &str) -> Result<Option<Entry>, HistoryError> {
        self.attempt(|index| Ok(table::get(index, id)?))
    }

    /// Returns the path of a run's directory. Absent if there is no such run. The directory is directly below
    /// the history's directory and is not a link.
    pub fn path(&self, id: &str) -> Result<Option<PathBuf>, HistoryError> {
        let path = self.root.join(id);
        let is_listed =
            || Found::look(id.to_owned(), path.clone()).holds_a_run() || scan::started_by_name(id).is_some();
        Ok((scan::is_name(id) && is_directory(&path) && is_listed()).then_some(path))
    }

    /// Every tag in use, sorted.
    pub fn tags(&self) -> Result<Vec<String>, HistoryError> {
        self.attempt(|index| Ok(table::tags(index)?))
    }

    /// The cases with trends.
    pub fn trend_choices(&self) -> Result<Vec<TrendChoice>, HistoryError> {
        self.attempt(|index| Ok(trend::choices(index)?))
    }

    /// The trend of a metric over the analysed runs. The trend has no points if there is no such case.
    pub fn trend(&self, query: &TrendQuery) -> Result<Trend, HistoryError> {
        self.attempt(|index| Ok(trend::trend(index, query)?))
    }

    /// The changes of these metrics of a case, by metric, oldest first.
    pub fn changes(&self, case: &TrendChoice, metrics: &[Metric]) -> Result<Vec<CaseChange>, HistoryError> {
        self.attempt(|index| Ok(trend::changes(index, case, metrics)?))
    }

    /// Replaces a run's tags, its note or both, and returns the run.
    ///
    /// # Errors
    /// If there is no such run, if tags or note are not valid, if the notes cannot be read, or if the
    /// directory cannot be written.
    pub fn annotate(
        &mut self,
        id: &str,
        tags: Option<&[String]>,
        note: Option<&str>,
    ) -> Result<Entry, HistoryError> {
        let tags = tags.map(notes::checked_tags).transpose().map_err(HistoryError::Invalid)?;
        note.map(notes::checked_note).transpose().map_err(HistoryError::Invalid)?;
        let found = self.find(id)?;
        let mut written = Notes::read(&found.path)
            .map_err(|problem| HistoryError::Notes { path: found.path.join(notes::FILE), problem })?;
        let before = written.clone();
        written.tags = tags.unwrap_or(written.tags);
        written.note = note.map_or(written.note, str::to_owned);
        if written != before {
            written.write(&found.path)?;
        }
        self.refresh()?;
        self.get(id)?.ok_or_else(|| self.unknown(id))
    }

    /// Removes a run's directory with all its files.
    ///
    /// # Errors
    /// If there is no such run, if the run is in progress, if the directory does not contain a run, or if the
    /// directory cannot be removed.
    pub fn delete(&mut self, id: &str) -> Result<(), HistoryError> {
        let found = self.find(id)?;
        if read::row(&found, now_ns()).entry.state == State::Running {
            return Err(HistoryError::Running { id: id.into() });
        }
        // Rename the directory first, so that a partly removed directory never looks like a run.
        let hidden = self.root.join(format!(".removed-{}-{id}", std::process::id()));
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            |source| HistoryError::Change { what: "remove", path, source }
        };
        fs::rename(&found.path, &hidden).map_err(failed(&found.path))?;
        let removed = fs::remove_dir_all(&hidden).map_err(failed(&hidden));
        self.refresh()?;
        removed
    }

    /// Finds the directory of a run that is about to be changed, and checks that the directory contains a
    /// run.
    fn find(&self, id: &str) -> Result<Found, HistoryError> {
        let path = self.root.join(id);
        if !scan::is_name(id) || fs::symlink_metadata(&path).is_err() {
            return Err(self.unknown(id));
        }
        let not_ours = |problem: &str| HistoryError::NotOurs { id: id.into(), problem: problem.into() };
        if !is_directory(&path) {
            return Err(not_ours("it is not a directory"));
        }
        let found = Found::look(id.into(), path);
        match found.holds_a_run() {
            true => Ok(found),
            false => Err(not_ours("it has neither run.json nor trials.jsonl")),
        }
    }

    /// The error for an unknown id. It suggests the run that the caller probably meant.
    pub fn unknown(&self, id: &str) -> HistoryError {
        let ids = self.attempt(|index| Ok(table::ids(index)?)).unwrap_or_default();
        // If `id` is a part of a known id, such as the name without the time, suggest the newest run whose id
        // contains it.
        let named = ids.iter().find(|known| !id.is_empty() && known.contains(id)).map(String::as_str);
        let nearest = named.or_else(|| nearest(id, ids.iter().map(String::as_str))).map(str::to_owned);
        HistoryError::NoRun { id: id.into(), nearest }
    }

    /// Runs an operation on the index. If the index is unusable, replaces and fills it again, and then
    /// retries the operation once.
    pub(super) fn attempt<T>(
        &self,
        work: impl Fn(&mut Connection) -> Result<T, HistoryError>,
    ) -> Result<T, HistoryError> {
        let first = work(&mut self.index.borrow_mut());
        let Err(HistoryError::Index(error)) = first else { return first };
        // Close the old index before the file is replaced.
        drop(self.index.replace(Connection::open_in_memory()?));
        let mut other = index::in_place_of(&self.root, error)?;
        refresh(&mut other, &self.root, now_ns())?;
        let second = work(&mut other);
        self.index.replace(other);
        second
    }
}

fn refresh(index: &mut Connection, root: &Path, now_ns: i64) -> Result<(), HistoryError> {
    let mut known = table::known(index)?;
    read_changed(index, by_id(scan::scan(root)?), &mut known, now_ns)?;
    if known.is_empty() {
        return Ok(());
    }
    let change = index.transaction_with_behavior(TransactionBehavior::Immediate)?;
    known.values().try_for_each(|was| table::remove(&change, was.run))?;
    Ok(change.commit()?)
}

/// Reads these directories if they changed. Removes them from `known`.
fn read_changed(
    index: &mut Connection,
    all: impl Iterator<Item = Found>,
    known: &mut HashMap<String, Known>,
    now_ns: i64,
) -> Result<(), HistoryError> {
    let mut changed: Vec<Found> = Vec::new();
    let mut noted: Vec<Found> = Vec::new();
    for found in all {
        match known.remove(&found.id) {
            Some(was)
                if was.mark != found.mark()
                    || was.until.is_some_and(|until| until < now_ns / 1_000_000_000) =>
            {
                changed.push(found);
            }
            Some(was) if was.noted != found.notes.to_string() => noted.push(found),
            Some(_) => {}
            None => changed.push(found),
        }
    }
    for part in changed.chunks(AT_ONCE) {
        let rows: Vec<(&Found, Row)> = part.iter().map(|found| (found, read::row(found, now_ns))).collect();
        let change = index.transaction_with_behavior(TransactionBehavior::Immediate)?;
        rows.iter().try_for_each(|(found, row)| table::put(&change, found, row))?;
        change.commit()?;
    }
    if noted.is_empty() {
        return Ok(());
    }
    let change = index.transaction_with_behavior(TransactionBehavior::Immediate)?;
    noted.iter().try_for_each(|found| table::put_notes(&change, found))?;
    Ok(change.commit()?)
}

/// Reads every directory and replaces the content of the index.
fn rebuild(index: &mut Connection, root: &Path, now_ns: i64) -> Result<(), HistoryError> {
    let all = by_id(scan::scan(root)?);
    let rows: Vec<(Found, Row)> = all
        .map(|found| {
            let row = read::row(&found, now_ns);
            (found, row)
        })
        .collect();
    let change = index.transaction_with_behavior(TransactionBehavior::Immediate)?;
    table::clear(&change)?;
    rows.iter().try_for_each(|(found, row)| table::put(&change, found, row))?;
    Ok(change.commit()?)
}

/// Keeps one directory for each id. Two directories whose names are not UTF-8 can have the same id. Only one
/// of these two directories is then listed.
fn by_id(found: Vec<Found>) -> impl Iterator<Item = Found> {
    let by_id: HashMap<String, Found> = found.into_iter().map(|found| (found.id.clone(), found)).collect();
    by_id.into_values()
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
