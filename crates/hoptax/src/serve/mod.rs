//! The web page over the history of all runs, and over the one under way.
//!
//! Listens on loopback unless told, then with a token. Every change is a request that another site's page cannot make.

mod api;
mod app;
mod ask;
mod assets;
mod connections;
mod guard;
mod metrics;
mod openapi;
mod pages;
mod problem;
mod routes;
mod runs;

pub use openapi::document as openapi;

use crate::host::cpus;
use crate::live::Board;
use app::App;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// Threads that read run directories and draw reports, at most.
const DRAWING: usize = 4;

/// How long what is drawn when the server ends is waited for.
const PARTING: Duration = Duration::from_secs(1);

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

/// A server; it ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
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
    History(#[from] crate::history::HistoryError),
    /// The system gives no thread or no event queue.
    #[error("cannot start the server: {0}; end other programs, or raise the limits of this user")]
    Start(io::Error),
}

impl Server {
    /// Begins to listen, and serves on threads of its own.
    ///
    /// # Errors
    /// If it cannot listen there, or cannot read the history.
    pub fn start(options: Options) -> Result<Self, ServeError> {
        if !options.address.ip().is_loopback() && options.token.is_none() {
            return Err(ServeError::NoToken(options.address));
        }
        let refused = |source| ServeError::Listen { address: options.address, source };
        let listener = TcpListener::bind(options.address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let (stop, stopped) = watch::channel(());
        let app = Arc::new(App::open(&options, address)?);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(DRAWING)
            .thread_name("serve-draw")
            .build()
            .map_err(ServeError::Start)?;
        let keep_off = options.keep_off;
        let body = move || {
            // Those that it will start, too.
            cpus::keep_off(&keep_off);
            app.analyse_in_the_background();
            runtime.block_on(connections::serve(listener, routes::router(&app), stopped));
            runtime.shutdown_timeout(PARTING);
        };
        let thread =
            std::thread::Builder::new().name("serve".into()).spawn(body).map_err(ServeError::Start)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
