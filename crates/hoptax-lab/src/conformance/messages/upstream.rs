//! The scripted upstream on a socket.

use super::script::Script;
use super::state::Shared;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Longest wait of a read, and pause between two looks for new connections.
const PAUSE: Duration = Duration::from_millis(2);

/// An upstream on 127.0.0.1 that answers requests for events and WebSockets as
/// [`observe_messages`](super::super::observe_messages) needs. It stops when it is dropped.
#[derive(Debug)]
pub struct MessagesUpstream {
    address: SocketAddr,
    pub(super) shared: Shared,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MessagesUpstream {
    /// Starts the upstream on a port that the kernel chooses.
    ///
    /// # Errors
    /// If it cannot listen, or no thread can be started.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (shared, stop) = (Shared::default(), Arc::new(AtomicBool::new(false)));
        let (of_thread, must_stop) = (shared.clone(), Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("messages-upstream".to_owned())
            .spawn(move || listen(&listener, &of_thread, &must_stop))?;
        Ok(Self { address, shared, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MessagesUpstream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves each connection with a thread of its own, until all have ended.
fn listen(listener: &TcpListener, shared: &Shared, must_stop: &AtomicBool) {
    thread::scope(|scope| {
        while !must_stop.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => {
                    scope.spawn(move || serve(stream, shared, must_stop));
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
    });
}

fn serve(stream: TcpStream, shared: &Shared, must_stop: &AtomicBool) {
    let is_ready = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_nodelay(true))
        .and_then(|()| stream.set_read_timeout(Some(PAUSE)))
        // A client that does not read must not hold the upstream when it stops.
        .and_then(|()| stream.set_write_timeout(Some(Duration::from_secs(20))));
    if is_ready.is_ok() {
        // The connection always ends with an error: the client leaves, or the script breaks it off.
        let _ = Script { stream, shared, must_stop, input: Vec::new() }.serve();
    }
}
