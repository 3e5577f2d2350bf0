//! The opened history of a results directory, and the conversion of errors of the history.

use super::draw::plain;
use crate::cli::exit::BadInput;
use crate::cli::run_ref;
use hoptax_history::{Entry, HistoryError, Query, Store, TrendChoice};
use hoptax_plan::units::nearest;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(super) struct History {
    pub(super) root: PathBuf,
    pub(super) store: Store,
}

impl History {
    pub(super) fn open(root: &Path) -> anyhow::Result<Self> {
        let mut store = Store::open(root).map_err(as_error)?;
        store.refresh().map_err(as_error)?;
        Ok(Self { root: root.to_path_buf(), store })
    }

    /// The ID of a run. `typed` is either the ID itself or the path of the run directory.
    fn id(&self, typed: &str) -> String {
        let path = Path::new(typed.trim_end_matches('/'));
        let is_below_root =
            || path.parent()?.canonicalize().ok()?.eq(&self.root.canonicalize().ok()?).then_some(());
        match path.file_name().and_then(|name| name.to_str()) {
            Some(name) if typed.contains('/') && is_below_root().is_some() => name.to_owned(),
            _ => typed.to_owned(),
        }
    }

    /// Reads the run with the ID or path `typed`. Fails if there is no such run.
    pub(super) fn get(&self, typed: &str) -> anyhow::Result<Entry> {
        let mut id = self.id(typed);
        if self.store.get(&id).map_err(as_error)?.is_none()
            && let Some(newest) = run_ref::named(&self.root, typed)
            && let Some(name) = newest.file_name().and_then(|name| name.to_str())
        {
            id = name.to_owned();
        }
        self.store.get(&id).map_err(as_error)?.ok_or_else(|| as_error(self.store.unknown(&id)))
    }

    /// The measured cases of the runs of the plan `name`, or of all runs. Analyses these runs first. Fails
    /// with [`BadInput`] if no run has this plan.
    pub(super) fn cases(&mut self, name: Option<&str>) -> anyhow::Result<Vec<TrendChoice>> {
        let runs = self.store.list(&Query { limit: u32::MAX, ..Query::default() }).map_err(as_error)?.runs;
        let is_asked = |of: &str| name.is_none_or(|name| of == name);
        let named: Vec<&Entry> = runs.iter().filter(|run| is_asked(&run.name)).collect();
        if let Some(name) = name.filter(|_| named.is_empty()) {
            let names = runs.iter().map(|run| &*run.name);
            return Err(unknown("no run has a plan named", name, names).into());
        }
        self.analyse(named.into_iter())?;
        let mut cases = self.store.trend_choices().map_err(as_error)?;
        cases.retain(|case| is_asked(&case.name));
        Ok(cases)
    }

    /// Analyses the `runs` that have not been analysed yet.
    pub(super) fn analyse<'e>(&mut self, runs: impl Iterator<Item = &'e Entry>) -> anyhow::Result<()> {
        let new: Vec<&Entry> = runs.filter(|run| run.verdict.is_none()).collect();
        let begun = Instant::now();
        let mut is_shown = false;
        for (done, run) in new.iter().enumerate() {
            // Show progress if this takes longer than a second.
            if io::stderr().is_terminal() && begun.elapsed().as_secs() >= 1 {
                eprint!("\ranalysing run {} of {} …", done + 1, new.len());
                is_shown = true;
            }
            self.store.analyse(&run.id).map_err(as_error)?;
        }
        if is_shown {
            eprint!("\r\u{1b}[K");
        }
        Ok(())
    }
}

/// Converts an error of the history. Most of these errors become [`BadInput`], because the user can correct
/// them.
pub(super) fn as_error(error: HistoryError) -> anyhow::Error {
    match error {
        HistoryError::Change { .. } | HistoryError::Index(_) => error.into(),
        _ => BadInput(error.to_string()).into(),
    }
}

/// Indented JSON with a final newline.
pub(super) fn json<T: serde::Serialize>(value: &T) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// The error for a name that does not exist. It suggests the most similar known name, or lists all known
/// names.
pub(super) fn unknown<'n>(what: &str, typed: &str, known: impl Iterator<Item = &'n str>) -> BadInput {
    let mut known: Vec<&str> = known.filter(|name| !name.is_empty()).collect();
    let help = match nearest(typed, known.iter().copied()) {
        Some(near) => format!("did you mean `{}`?", plain(near)),
        None => {
            known.sort_unstable();
            known.dedup();
            match known[..] {
                [] => "there are no runs yet; to create one: hoptax run PLAN".to_owned(),
                _ => format!("choose one of {}", plain(&known.join(", "))),
            }
        }
    };
    BadInput(format!("{what} `{}`; {help}", plain(typed)))
}
