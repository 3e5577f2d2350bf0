//! The thread and the socket of a scripted upstream.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// A thread that listens on 127.0.0.1. It stops when this value is dropped.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    /// Listens on a port that the kernel chooses. `serve` gets the listener, which never blocks, and must
    /// return soon after the flag is set.
    ///
    /// # Errors
    /// If it cannot listen, or no thread can be started.
    pub(super) fn start(
        name: &str,
        serve: impl FnOnce(&TcpListener, &AtomicBool) + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let must_stop = Arc::clone(&stop);
        let thread =
            thread::Builder::new().name(name.to_owned()).spawn(move || serve(&listener, &must_stop))?;
        Ok(Self { address, stop, thread: Some(thread) })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
