//! Errors that prevent a load from running.

use std::io;

/// Why a load could not run. Failed requests are outcomes, not errors.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The spec is contradictory or impossible.
    #[error("the load spec is invalid: {0}")]
    Spec(String),
    /// Not enough file descriptors for the connections.
    #[error(
        "{asked} connections need more file descriptors than this process may open; at most {fits} connections \
         fit. Raise `ulimit -n` or use fewer connections"
    )]
    Descriptors {
        /// Connections requested.
        asked: u32,
        /// Number of connections that fit.
        fits: u64,
    },
    /// No connection could be opened.
    #[error("cannot open any of {asked} connections to {addresses}: {cause}")]
    NoConnection {
        /// Connections requested.
        asked: u32,
        /// Addresses tried.
        addresses: String,
        /// Error of the last attempt.
        cause: String,
    },
    /// A worker could not be pinned.
    #[error(
        "cannot pin a worker to CPU {cpu}: {source}; `nproc` and `taskset -p $$` show which CPUs are available"
    )]
    Pin {
        /// The CPU.
        cpu: u32,
        /// The kernel's error.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a worker thread: {0}")]
    Thread(io::Error),
    /// The event loop could not be created, or failed.
    #[error("the event loop failed: {0}")]
    EventLoop(io::Error),
}
