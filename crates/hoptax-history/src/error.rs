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
        /// Id of the run that the caller probably meant.
        nearest: Option<String>,
    },
    /// A tag or a note is not valid; the message says what is allowed.
    #[error("{0}")]
    Invalid(String),
    /// The run is still in progress.
    #[error(
        "{id} is still in progress, or ended less than a minute ago: stop the run first, or wait a minute"
    )]
    Running {
        /// Id of the run.
        id: String,
    },
    /// The directory does not contain a run, so hoptax does not change the directory.
    #[error("{id} is not a run of hoptax ({problem}), so hoptax does not change it")]
    NotOurs {
        /// Name of the directory.
        id: String,
        /// Why hoptax does not consider the directory a run.
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
        /// The operation: `write` or `remove`.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process locks the index for too long, or the index cannot be created.
    #[error("cannot use the index of the history: {0}; `hoptax history rebuild` builds it again")]
    Index(#[from] rusqlite::Error),
}

fn near(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |id| format!("; did you mean {id}?"))
}
