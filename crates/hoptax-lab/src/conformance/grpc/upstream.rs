//! The scripted upstream on a socket.

use super::script::Script;
use super::state::Shared;
use crate::conformance::listening::Listening;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Pause after a round in which no connection moved a byte.
const PAUSE: Duration = Duration::from_millis(1);

/// An upstream on 127.0.0.1 that answers gRPC calls as [`observe_calls`](super::super::observe_calls) needs.
/// It also answers health checks. It stops when it is dropped.
#[derive(Debug)]
pub struct GrpcUpstream {
    pub(super) shared: Shared,
    listening: Listening,
}

impl GrpcUpstream {
    /// Starts the upstream on a port that the kernel chooses.
    ///
    /// # Errors
    /// If it cannot listen, or no thread can be started.
    pub fn start() -> io::Result<Self> {
        let shared = Shared::default();
        let of_thread = shared.clone();
        let listening = Listening::start("grpc-upstream", move |listener, must_stop| {
            serve(listener, &of_thread, must_stop);
        })?;
        Ok(Self { shared, listening })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listening.address
    }
}

/// Serves all connections. No write waits, so a client that does not read cannot stop the others.
fn serve(listener: &TcpListener, shared: &Shared, must_stop: &AtomicBool) {
    let mut connections: Vec<Served> = Vec::new();
    while !must_stop.load(Ordering::Relaxed) {
        let mut has_moved = false;
        while let Ok((stream, _)) = listener.accept() {
            // A small answer must not wait for the acknowledgement of the last one.
            if stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_ok() {
                connections.push(Served { stream, script: Script::new(shared.clone()) });
                has_moved = true;
            }
        }
        connections.retain_mut(|connection| match connection.advance() {
            Ok(moved) => {
                has_moved |= moved;
                true
            }
            Err(_) => {
                connection.script.close();
                false
            }
        });
        if !has_moved {
            thread::sleep(PAUSE);
        }
    }
}

struct Served {
    stream: TcpStream,
    script: Script,
}

impl Served {
    /// Reads and writes what is possible now. Returns whether a byte moved. The upstream never closes a
    /// connection that works: unread bytes could then destroy its last answers.
    ///
    /// # Errors
    /// If the client has closed the connection, or does not speak HTTP/2.
    fn advance(&mut self) -> io::Result<bool> {
        let mut has_moved = false;
        let mut piece = [0; 16 * 1024];
        match self.stream.read(&mut piece) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.script.receive(&piece[..count]).map_err(|fault| io::Error::other(fault.to_string()))?;
                has_moved = true;
            }
            Err(error) if is_temporary(&error) => {}
            Err(error) => return Err(error),
        }
        self.script.poll();
        while !self.script.output.is_empty() {
            match self.stream.write(&self.script.output) {
                Ok(count) => {
                    self.script.output.drain(..count);
                    has_moved = true;
                }
                Err(error) if is_temporary(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(has_moved)
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
