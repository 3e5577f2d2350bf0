//! The server: runs on its own threads until it is dropped.

use super::app::App;
use super::options::{Options, ServeError};
use super::places::DRAWING;
use super::{connections, routes};
#[cfg(target_os = "linux")]
use hoptax_host::cpus;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// Maximum number of threads that read the index.
const READING: usize = 4;

/// How long shutdown waits for the threads that read.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(1);

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts to listen, and serves on its own threads.
    ///
    /// # Errors
    /// If it cannot listen on the address, or cannot read the history.
    pub fn start(options: Options) -> Result<Self, ServeError> {
        let refused = |source| ServeError::Listen { address: options.address, source };
        let listener = TcpListener::bind(options.address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let (stop, stopped) = watch::channel(());
        let app = Arc::new(App::open(&options, address)?);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            // A process that draws keeps one thread waiting.
            .max_blocking_threads(READING + DRAWING)
            .thread_name("serve-read")
            .build()
            .map_err(ServeError::Start)?;
        let keep_off = options.keep_off;
        let body = move || {
            // Threads that this thread starts later avoid the same CPUs. Only on Linux there can be a
            // generator.
            #[cfg(target_os = "linux")]
            cpus::keep_off(&keep_off);
            #[cfg(not(target_os = "linux"))]
            drop(keep_off);
            app.analyse_in_the_background();
            runtime.block_on(connections::serve(listener, routes::router(&app), stopped));
            runtime.shutdown_timeout(SHUTDOWN_WAIT);
        };
        let thread =
            std::thread::Builder::new().name("serve".into()).spawn(body).map_err(ServeError::Start)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address that the server listens on.
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
