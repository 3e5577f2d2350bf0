//! Errors that prevent a load from running.

use std::io;

/// Reason why a load could not run. Failed requests are outcomes of a load, not errors.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The spec is contradictory or impossible.
    #[error("the load spec is invalid: {0}")]
    Spec(String),
    /// The limit of file descriptors is too low for the connections.
    #[error(
        "{asked} connections need more file descriptors than this process may open; at most {fits} \
         connections fit. Raise `ulimit -n` or use fewer connections"
    )]
    Descriptors {
        /// Number of connections requested.
        asked: u32,
        /// Number of connections for which there are enough descriptors.
        fits: u64,
    },
    /// No connection could be opened.
    #[error("cannot open any of {asked} connections to {addresses}: {cause}")]
    NoConnection {
        /// Number of connections requested.
        asked: u32,
        /// The addresses that were tried.
        addresses: String,
        /// The error of the last attempt.
        cause: String,
    },
    /// A worker could not be pinned to its CPU.
    #[error(
        "cannot pin a worker to CPU {cpu}: {source}; `nproc` and `taskset -p $$` show which CPUs are \
        available"
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
    /// The start time of all parts of a load had already passed when this part received it.
    #[error(
        "the order to begin arrived {} ms after all generators should have begun; check that this machine \
         is not overloaded, and that the link to it is fast",
        late_ns.div_ceil(1_000_000)
    )]
    Late {
        /// Time from the start time until this part received it, nanoseconds.
        late_ns: u64,
    },
    /// The input ended before the start time of the parts arrived.
    #[error("standard input ended before it said when this part of the load begins")]
    Alone,
    /// The event loop could not be created, or failed.
    #[error("the event loop failed: {0}")]
    EventLoop(io::Error),
}
