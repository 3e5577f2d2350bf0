//! A test server. The test case defines what it does with each connection.

use hoptax_testing::own_listener;
use rustix::net::sockopt::set_socket_linger;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Code that runs for each accepted connection. The connection closes when this code returns.
pub(crate) type Behaviour = Arc<dyn Fn(&mut Peer) + Send + Sync>;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Server {
    pub(crate) fn start(behaviour: &Behaviour) -> Self {
        let listener = own_listener();
        let address = listener.local_addr().expect("bound");
        let stop = Arc::new(AtomicBool::new(false));
        let server = Self { address, stop: Arc::clone(&stop) };
        let behaviour = Arc::clone(behaviour);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                // This call fails only if the connection has already ended.
                let _ = connection.set_nodelay(true);
                let behaviour = Arc::clone(&behaviour);
                let stop = Arc::clone(&stop);
                thread::spawn(move || behaviour(&mut Peer { connection, stop, head: Vec::new() }));
            }
        });
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // This connect wakes the thread that accepts connections, so that it notices the flag. The listener
        // may already be closed.
        let _ = TcpStream::connect(self.address);
    }
}

/// The server's side of a connection. Failures to read or write do not panic here, because the client counts
/// the failures.
pub(crate) struct Peer {
    connection: TcpStream,
    stop: Arc<AtomicBool>,
    pub(crate) head: Vec<u8>,
}

impl Peer {
    /// Reads a request with its body. Returns false if the client sends no further request.
    pub(crate) fn request(&mut self) -> bool {
        self.request_head() && {
            let head = String::from_utf8_lossy(&self.head).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            self.skip(length.unwrap_or(0))
        }
    }

    pub(crate) fn request_head(&mut self) -> bool {
        self.head.clear();
        let mut byte = [0];
        while !self.head.ends_with(b"\r\n\r\n") {
            match self.connection.read(&mut byte) {
                Ok(1) => self.head.push(byte[0]),
                _ => return false,
            }
        }
        true
    }

    fn skip(&mut self, mut length: usize) -> bool {
        let mut buffer = vec![0; 1 << 16];
        while length > 0 {
            let most = length.min(buffer.len());
            match self.connection.read(&mut buffer[..most]) {
                Ok(0) | Err(_) => return false,
                Ok(count) => length -= count,
            }
        }
        true
    }

    /// Writes `bytes`. Returns false if the client has closed the connection.
    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.connection.write_all(bytes.as_ref()).is_ok()
    }

    pub(crate) fn trickle(&mut self, bytes: impl AsRef<[u8]>, pause: Duration) -> bool {
        bytes.as_ref().chunks(1).all(|byte| {
            let written = self.write(byte);
            thread::sleep(pause);
            written
        })
    }

    /// Writes `piece` repeatedly until the client has closed the connection. The rate is limited to tens of
    /// MiB per second, so that the machine is not overloaded.
    pub(crate) fn flood(&mut self, piece: impl AsRef<[u8]>) {
        let many = piece.as_ref().repeat((1 << 16) / piece.as_ref().len() + 1);
        while self.write(&many) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the server's side of the stream. The client's side remains open.
    pub(crate) fn half_close(&mut self) {
        let _ = self.connection.shutdown(Shutdown::Write);
    }

    /// Keeps the connection open without reading, until the server is dropped. While there is unread data,
    /// the server cannot notice that the client has closed the connection.
    pub(crate) fn ignore(&mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn until_gone(&mut self) {
        let mut buffer = [0; 4096];
        while matches!(self.connection.read(&mut buffer), Ok(1..)) {}
    }

    /// Changes the socket so that closing it resets the connection and drops pending data.
    pub(crate) fn reset(&mut self) {
        set_socket_linger(&self.connection, Some(Duration::ZERO)).expect("a socket");
    }
}
