//! What a worker's connections share for TLS.

use crate::event_loop::{EventLoop, Token};
use crate::tls::{Buffers, Client, Session};
use std::io;

/// TLS of one worker's connections.
#[derive(Debug)]
pub(super) struct TlsShared {
    pub(super) client: Client,
    pub(super) buffers: Buffers,
}

impl TlsShared {
    /// For a worker with so many connections.
    pub(super) fn new(client: &Client, connections: usize) -> Box<Self> {
        Box::new(Self { client: client.for_one_worker(connections), buffers: Buffers::default() })
    }

    /// Sends `bytes`, encrypted. What the kernel does not take at once waits encrypted.
    pub(super) fn send<L: EventLoop>(
        &mut self,
        io: &mut L,
        token: Token,
        session: Option<&mut Session>,
        bytes: &[u8],
    ) -> io::Result<()> {
        let session = session.expect("where there is TLS, each connection has its own");
        let encrypted = session.send(bytes, &mut self.buffers);
        encrypted.map_err(|failure| io::Error::other(failure.text().to_owned()))?;
        io.send(token, &self.buffers.out)
    }
}
