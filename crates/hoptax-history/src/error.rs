//! Why something cannot be done with the history.

use std::io;
use std::path::PathBuf;

/// Why something cannot be done with the history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// There is no directory to keep a history of.
    #[error("cannot read {}: {source}; name the directory that holds your run directories with --root DIR", .path.display())]
    Root {
        /// The directory asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No run has this id.
    #[error("there is no run `{id}`{}", near(.nearest.as_deref()))]
    NoRun {
        /// What was asked for.
        id: String,
        /// What was most likely meant.
        nearest: Option<String>,
    },
    /// A tag or a note that is none; the words say what is allowed.
    #[error("{0}")]
    Invalid(String),
    /// It is still going on.
    #[error("{id} is still going on, or was a minute ago: end it first, or wait")]
    Running {
        /// The run.
        id: String,
    },
    /// What is no run is left alone.
    #[error("{id} holds no run of hoptax ({problem}): it is left alone")]
    NotOurs {
        /// The directory.
        id: String,
        /// Why.
        problem: String,
    },
    /// The notes of a run cannot be read.
    #[error("cannot read {}: {problem}; mend it or remove it", .path.display())]
    Notes {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Something could not be written or removed.
    #[error("cannot {what} {}: {source}", .path.display())]
    Change {
        /// `write`, `remove`.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The index is held by another process for too long, or cannot be made at all.
    #[error("cannot use the index of the history: {0}; `hoptax history rebuild` makes it anew")]
    Index(#[from] rusqlite::Error),
}

fn near(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |id| format!("; did you mean {id}?"))
}
