//! TLS state that all connections of one worker share.

use crate::event_loop::{EventLoop, Token};
use crate::tls::{Buffers, Client, Session};
use std::io;

#[derive(Debug)]
pub(super) struct TlsShared {
    pub(super) client: Client,
    pub(super) buffers: Buffers,
}

impl TlsShared {
    pub(super) fn new(client: &Client, connections: usize) -> Box<Self> {
        Box::new(Self { client: client.for_one_worker(connections), buffers: Buffers::default() })
    }

    /// Encrypts and sends `bytes`. If the kernel does not accept all encrypted data at once, the event loop
    /// queues the remaining data.
    pub(super) fn send<L: EventLoop>(
        &mut self,
        io: &mut L,
        token: Token,
        session: Option<&mut Session>,
        bytes: &[u8],
    ) -> io::Result<()> {
        let session = session.expect("with TLS, each connection has a session");
        let encrypted = session.send(bytes, &mut self.buffers);
        encrypted.map_err(|failure| io::Error::other(failure.text().to_owned()))?;
        io.send(token, &self.buffers.out)
    }
}
