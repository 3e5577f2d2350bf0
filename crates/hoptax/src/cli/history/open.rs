//! An opened history, and how its errors are reported.

use crate::cli::exit::BadInput;
use hoptax_history::{Entry, HistoryError, Store};
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A store, and where it lies.
pub(super) struct History {
    pub(super) root: PathBuf,
    pub(super) store: Store,
}

impl History {
    pub(super) fn open(root: &Path) -> anyhow::Result<Self> {
        let mut store = Store::open(root).map_err(told)?;
        store.refresh().map_err(told)?;
        Ok(Self { root: root.to_path_buf(), store })
    }

    /// The id that was meant by what was typed, which may be the path of the run directory.
    fn id(&self, typed: &str) -> String {
        let path = Path::new(typed.trim_end_matches('/'));
        let lies_here =
            || path.parent()?.canonicalize().ok()?.eq(&self.root.canonicalize().ok()?).then_some(());
        match path.file_name().and_then(|name| name.to_str()) {
            Some(name) if typed.contains('/') && lies_here().is_some() => name.to_owned(),
            _ => typed.to_owned(),
        }
    }

    /// One run, which is there.
    pub(super) fn get(&self, typed: &str) -> anyhow::Result<Entry> {
        let id = self.id(typed);
        self.store.get(&id).map_err(told)?.ok_or_else(|| told(self.store.unknown(&id)))
    }

    /// Analyses these runs, as far as they were not.
    pub(super) fn analyse<'e>(&mut self, runs: impl Iterator<Item = &'e Entry>) -> anyhow::Result<()> {
        let new: Vec<&Entry> = runs.filter(|run| run.verdict.is_none()).collect();
        let begun = Instant::now();
        let mut is_shown = false;
        for (done, run) in new.iter().enumerate() {
            // Who has waited for a second wants to know for what.
            if io::stderr().is_terminal() && begun.elapsed().as_secs() >= 1 {
                eprint!("\ranalysing run {} of {} …", done + 1, new.len());
                is_shown = true;
            }
            self.store.analyse(&run.id).map_err(told)?;
        }
        if is_shown {
            eprint!("\r\u{1b}[K");
        }
        Ok(())
    }
}

/// An error of the history: whoever typed can mend most of them.
pub(super) fn told(error: HistoryError) -> anyhow::Error {
    match error {
        HistoryError::Change { .. } | HistoryError::Index(_) => error.into(),
        _ => BadInput(error.to_string()).into(),
    }
}

/// A document as indented JSON, with a newline at its end.
pub(super) fn json<T: serde::Serialize>(value: &T) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}
