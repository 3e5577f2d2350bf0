//! What is served, where, and why it cannot be.

use crate::live::Board;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What is served, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen; port 0 leaves the choice to the kernel.
    pub address: SocketAddr,
    /// What must be shown by whoever asks; none is needed on loopback.
    pub token: Option<String>,
    /// The directory that holds the run directories.
    pub root: PathBuf,
    /// The run under way in this process.
    pub live: Option<Board>,
    /// CPUs that the server's threads stay off: those that the generator's workers are pinned to.
    pub keep_off: Vec<u32>,
}

/// Why nothing can be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is taken, or not this machine's.
    #[error("cannot listen on {address}: {source}; choose another address")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Others could reach it, and nothing would tell them from us.
    #[error(
        "{0} can be reached by others, so a token is needed: name a file that holds one with --token-file"
    )]
    NoToken(SocketAddr),
    /// The history cannot be read.
    #[error("cannot read the history: {0}")]
    History(#[from] crate::HistoryError),
    /// The system gives no thread or no event queue.
    #[error("cannot start the server: {0}; end other programs, or raise the limits of this user")]
    Start(io::Error),
}
