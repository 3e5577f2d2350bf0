//! The scripted upstream on a socket.

use super::script::Script;
use super::state::Shared;
use crate::conformance::listening::Listening;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Longest wait of a read, and pause between two looks for new connections.
const PAUSE: Duration = Duration::from_millis(2);

/// An upstream on 127.0.0.1 that answers requests for events and WebSockets as
/// [`observe_messages`](super::super::observe_messages) needs. It stops when it is dropped.
#[derive(Debug)]
pub struct MessagesUpstream {
    pub(super) shared: Shared,
    listening: Listening,
}

impl MessagesUpstream {
    /// Starts the upstream on a port that the kernel chooses.
    ///
    /// # Errors
    /// If it cannot listen, or no thread can be started.
    pub fn start() -> io::Result<Self> {
        let shared = Shared::default();
        let of_thread = shared.clone();
        let listening = Listening::start("messages-upstream", move |listener, must_stop| {
            listen(listener, &of_thread, must_stop);
        })?;
        Ok(Self { shared, listening })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listening.address
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
