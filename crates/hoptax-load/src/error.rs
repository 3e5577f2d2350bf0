//! Why a load cannot be made at all.

use std::io;

/// Why no load could be made. Requests that fail are outcomes, not errors.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The spec contradicts itself or asks for what cannot be.
    #[error("the load spec is wrong: {0}")]
    Spec(String),
    /// Not enough descriptors for the connections asked for.
    #[error(
        "{asked} connections need more descriptors than this process may hold: {fits} connections fit; raise \
         `ulimit -n` or ask for fewer"
    )]
    Descriptors {
        /// Connections asked for.
        asked: u32,
        /// Connections that fit.
        fits: u64,
    },
    /// No connection could be made at all.
    #[error("none of {asked} connections to {addresses} could be made: {cause}")]
    NoConnection {
        /// Connections asked for.
        asked: u32,
        /// Where to.
        addresses: String,
        /// What the last attempt met with.
        cause: String,
    },
    /// A worker could not be pinned.
    #[error("cannot pin a worker to CPU {cpu}: {source}; `nproc` and `taskset -p $$` tell which there are")]
    Pin {
        /// The CPU.
        cpu: u32,
        /// Why not.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a worker thread: {0}")]
    Thread(io::Error),
    /// The event loop could not be made, or broke.
    #[error("the event loop broke: {0}")]
    EventLoop(io::Error),
}
