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
    /// Who may do what.
    pub access: Access,
    /// The directory that contains the run directories.
    pub root: PathBuf,
    /// The run in progress in this process.
    pub live: Option<Board>,
    /// CPUs that the generator's workers are pinned to. The server's threads avoid these CPUs.
    pub keep_off: Vec<u32>,
    /// The `hoptax` binary, whose verb `draw` draws reports.
    pub exe: PathBuf,
}

/// Who may do what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Clients with this token may read and change everything.
    Token(String),
    /// Nobody may change anything. Clients need the token to read, if there is one.
    ReadOnly(Option<String>),
}

impl Access {
    /// The token that every request must contain.
    pub fn token(&self) -> Option<&str> {
        match self {
            Self::Token(token) => Some(token),
            Self::ReadOnly(token) => token.as_deref(),
        }
    }
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
    /// The history cannot be read.
    #[error("cannot read the history: {0}")]
    History(#[from] crate::HistoryError),
    /// The system could not create a thread or an event queue.
    #[error("cannot start the server: {0}; stop other programs, or raise this user's limits")]
    Start(io::Error),
}
