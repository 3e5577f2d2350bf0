//! Errors of the history.

use std::io;
use std::path::PathBuf;

/// Why an operation on the history failed.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The history's directory cannot be read.
    #[error("cannot read {}: {source}; use --root DIR to name the directory that contains your runs", .path.display())]
    Root {
        /// The requested directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// No run has this id.
    #[error("there is no run `{id}`{}", near(.nearest.as_deref()))]
    NoRun {
        /// The requested id.
        id: String,
        /// The run that was most likely meant.
        nearest: Option<String>,
    },
    /// A tag or a note is not valid; the message says what is allowed.
    #[error("{0}")]
    Invalid(String),
    /// The run is still in progress.
    #[error("{id} is still in progress, or was in the last minute: stop the run first, or wait")]
    Running {
        /// The run.
        id: String,
    },
    /// The directory has no run, so it is not changed.
    #[error("{id} is not a run of hoptax ({problem}), so hoptax does not change it")]
    NotOurs {
        /// The directory.
        id: String,
        /// Why it is not a run.
        problem: String,
    },
    /// The notes of a run cannot be read.
    #[error("cannot read {}: {problem}; fix the file or remove it", .path.display())]
    Notes {
        /// The file.
        path: PathBuf,
        /// What is wrong with the file.
        problem: String,
    },
    /// A file or directory could not be written or removed.
    #[error("cannot {what} {}: {source}", .path.display())]
    Change {
        /// `write` or `remove`.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process holds the index for too long, or the index cannot be created.
    #[error("cannot use the index of the history: {0}; `hoptax history rebuild` builds it again")]
    Index(#[from] rusqlite::Error),
}

fn near(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |id| format!("; did you mean {id}?"))
}
