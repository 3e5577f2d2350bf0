//! Options of the server, and errors when it starts.

use crate::live::Board;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What to serve, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen; port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// Token that every request must contain. It is not needed on loopback.
    pub token: Option<String>,
    /// The directory that contains the run directories.
    pub root: PathBuf,
    /// The run in progress in this process.
    pub live: Option<Board>,
    /// CPUs that the generator's workers are pinned to. The server's threads avoid these CPUs.
    pub keep_off: Vec<u32>,
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen on {address}: {source}; choose another address")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// Other machines can reach the address, and there is no token.
    #[error(
        "other machines can reach {0}, so a token is needed: write a token to a file, and pass the file with \
         --token-file FILE"
    )]
    NoToken(SocketAddr),
    /// The history cannot be read.
    #[error("cannot read the history: {0}")]
    History(#[from] crate::HistoryError),
    /// The system could not create a thread or an event queue.
    #[error("cannot start the server: {0}; stop other programs, or raise this user's limits")]
    Start(io::Error),
}
