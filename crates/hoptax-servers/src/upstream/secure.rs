//! TLS between the event loop and the server: the server sees an event loop that accepts and delivers plain
//! bytes.
//!
//! Each socket has one of rustls's buffered connections. Received bytes are decrypted before the server sees
//! them, and bytes from the server are encrypted before the loop sends them. Each flush of the server is
//! still a single send.

use super::sockets::Sockets;
use anyhow::Context as _;
use hoptax_format::Address;
use hoptax_load::event_loop::{AfterEnd, Epoll, EventLoop, Handler, ListeningSocket, Token};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Maximum number of plain bytes to read at once: a few full records.
const PIECE: usize = 64 * 1024;

/// HTTP/2 as ALPN names it.
const HTTP2: &[u8] = b"h2";

/// Builds the configuration from `identity`: the certificate chain and the key as PEM, in any order. The only
/// cipher is AES-128-GCM, in TLS 1.3 and in TLS 1.2, as on the client side, so that all gateways use the same
/// cipher.
///
/// # Errors
/// If the certificate or the key is missing, or they do not match.
pub(super) fn config(identity: &str) -> anyhow::Result<Arc<ServerConfig>> {
    let chain = CertificateDer::pem_slice_iter(identity.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .context("the certificate for TLS")?;
    anyhow::ensure!(!chain.is_empty(), "the TLS certificate is missing");
    let key = PrivateKeyDer::from_pem_slice(identity.as_bytes()).context("the private key for TLS")?;
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites = vec![
        rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256,
        rustls::crypto::ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        rustls::crypto::ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ];
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("certificate and key for TLS")?;
    config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
    config.ticketer = rustls::crypto::ring::Ticketer::new().context("a key for session tickets")?;
    Ok(Arc::new(config))
}

/// The TLS side of all connections of one thread.
pub(super) struct Sessions {
    config: Arc<ServerConfig>,
    all: Vec<Option<Box<ServerConnection>>>,
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

impl Sessions {
    pub(super) fn new(config: Arc<ServerConfig>) -> Self {
        Self { config, all: Vec::new(), plain: vec![0; PIECE], sealed: Vec::new() }
    }

    /// Returns the handler for the event loop. This handler decrypts received data and passes all events to
    /// `server`.
    pub(super) fn serving<'a, H>(&'a mut self, server: &'a mut H) -> Between<'a, H> {
        Between { sessions: self, server }
    }

    fn of(&mut self, token: Token) -> Option<&mut ServerConnection> {
        self.all.get_mut(token.index())?.as_deref_mut()
    }

    fn begin(&mut self, token: Token) -> Result<(), rustls::Error> {
        let mut session = ServerConnection::new(Arc::clone(&self.config))?;
        // rustls needs no limit, because the loop reports the unsent bytes and the server limits them.
        session.set_buffer_limit(None);
        if self.all.len() <= token.index() {
            self.all.resize_with(token.index() + 1, || None);
        }
        self.all[token.index()] = Some(Box::new(session));
        Ok(())
    }

    fn end(&mut self, token: Token) {
        if let Some(place) = self.all.get_mut(token.index()) {
            *place = None;
        }
    }
}

/// The event loop as the server sees it. The server sends and receives plain bytes.
pub(super) struct SecureLoop<'a> {
    io: &'a mut Epoll,
    sessions: &'a mut Sessions,
}

impl<'a> SecureLoop<'a> {
    pub(super) fn new(io: &'a mut Epoll, sessions: &'a mut Sessions) -> Self {
        Self { io, sessions }
    }

    /// Gives the event loop the encrypted bytes that TLS has to send.
    fn flush(&mut self, token: Token) -> io::Result<()> {
        let mut sealed = std::mem::take(&mut self.sessions.sealed);
        let outcome = self.seal(token, &mut sealed);
        sealed.clear();
        self.sessions.sealed = sealed;
        outcome
    }

    fn seal(&mut self, token: Token, sealed: &mut Vec<u8>) -> io::Result<()> {
        let Some(session) = self.sessions.of(token) else { return Ok(()) };
        while session.wants_write() {
            session.write_tls(sealed)?;
        }
        if sealed.is_empty() { Ok(()) } else { self.io.send(token, sealed) }
    }

    /// Sends TLS's closing alert, so that the peer can distinguish a regular end from a broken connection.
    fn say_goodbye(&mut self, token: Token) -> io::Result<()> {
        if let Some(session) = self.sessions.of(token) {
            session.send_close_notify();
        }
        self.flush(token)
    }
}

impl EventLoop for SecureLoop<'_> {
    fn connect(&mut self, _: Token, _: &Address, _: Option<IpAddr>) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "an upstream opens no connections"))
    }

    fn listen(&mut self, token: Token, listener: impl Into<ListeningSocket>) -> io::Result<()> {
        self.io.listen(token, listener)
    }

    fn send(&mut self, token: Token, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(PIECE) {
            let Some(session) = self.sessions.of(token) else {
                return Err(io::ErrorKind::NotConnected.into());
            };
            session.writer().write_all(piece)?;
            self.flush(token)?;
        }
        Ok(())
    }

    fn is_connected(&self, token: Token) -> bool {
        self.io.is_connected(token)
    }

    fn unsent(&self, token: Token) -> usize {
        self.io.unsent(token)
    }

    fn pause(&mut self, token: Token) {
        self.io.pause(token);
    }

    fn resume(&mut self, token: Token) {
        self.io.resume(token);
    }

    fn finish(&mut self, token: Token) -> io::Result<()> {
        self.say_goodbye(token)?;
        self.io.finish(token)
    }

    fn close(&mut self, token: Token) {
        // A failure does not matter here, because the peer may already be gone.
        let _ = self.say_goodbye(token);
        self.sessions.end(token);
        self.io.close(token);
    }

    fn turn(&mut self, _: &mut impl Handler<Self>, _: Option<u64>) -> io::Result<()> {
        // The inner loop delivers events to `Between`, which creates a `SecureLoop` for each event.
        Err(io::Error::new(io::ErrorKind::Unsupported, "call `turn` on the inner loop"))
    }
}

impl Sockets for SecureLoop<'_> {
    fn tls(&self, token: Token) -> Option<(String, String)> {
        let session = self.sessions.all.get(token.index())?.as_deref()?;
        let version = match session.protocol_version()? {
            rustls::ProtocolVersion::TLSv1_3 => "TLSv1.3".to_owned(),
            rustls::ProtocolVersion::TLSv1_2 => "TLSv1.2".to_owned(),
            other => format!("{other:?}"),
        };
        Some((version, format!("{:?}", session.negotiated_cipher_suite()?.suite())))
    }

    fn is_http2(&self, token: Token) -> Option<bool> {
        let session = self.sessions.all.get(token.index())?.as_deref()?;
        Some(session.alpn_protocol() == Some(HTTP2))
    }
}

/// Receives the loop's events and passes them to the server, with decrypted data.
pub(super) struct Between<'a, H> {
    sessions: &'a mut Sessions,
    server: &'a mut H,
}

impl<H: for<'b> Handler<SecureLoop<'b>>> Between<'_, H> {
    /// Decrypts bytes and delivers them to the server. Any error is a TLS error, and the connection must then
    /// be closed.
    fn decrypt(&mut self, io: &mut Epoll, token: Token, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            // The server may have closed the connection after the previous piece.
            let Some(session) = self.sessions.of(token) else { return Ok(()) };
            session.read_tls(&mut bytes)?;
            let processed = session.process_new_packets();
            SecureLoop::new(io, self.sessions).flush(token)?;
            processed.map_err(io::Error::other)?;
            self.deliver(io, token)?;
        }
        Ok(())
    }

    fn deliver(&mut self, io: &mut Epoll, token: Token) -> io::Result<()> {
        let mut plain = std::mem::take(&mut self.sessions.plain);
        let outcome = loop {
            let Some(session) = self.sessions.of(token) else { break Ok(()) };
            match session.reader().read(&mut plain) {
                Ok(0) => break Ok(()),
                Ok(count) => {
                    let mut secure = SecureLoop::new(io, self.sessions);
                    self.server.received(&mut secure, token, &plain[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.sessions.plain = plain;
        outcome
    }
}

impl<H: for<'b> Handler<SecureLoop<'b>>> Handler<Epoll> for Between<'_, H> {
    fn connected(&mut self, _: &mut Epoll, _: Token, _: io::Result<()>) {}

    fn accepted(&mut self, io: &mut Epoll, listener: Token, peer: SocketAddr) -> Option<Token> {
        let token = self.server.accepted(&mut SecureLoop::new(io, self.sessions), listener, peer)?;
        match self.sessions.begin(token) {
            Ok(()) => Some(token),
            Err(error) => {
                let mut secure = SecureLoop::new(io, self.sessions);
                self.server.closed(&mut secure, token, Err(io::Error::other(error)));
                None
            }
        }
    }

    fn received(&mut self, io: &mut Epoll, token: Token, bytes: &[u8]) {
        if let Err(error) = self.decrypt(io, token, bytes) {
            self.sessions.end(token);
            io.close(token);
            self.server.closed(&mut SecureLoop::new(io, self.sessions), token, Err(error));
        }
    }

    fn closed(&mut self, io: &mut Epoll, token: Token, result: io::Result<()>) -> AfterEnd {
        let after = self.server.closed(&mut SecureLoop::new(io, self.sessions), token, result);
        if after == AfterEnd::Close {
            self.sessions.end(token);
        }
        after
    }

    fn drained(&mut self, io: &mut Epoll, token: Token) {
        self.server.drained(&mut SecureLoop::new(io, self.sessions), token);
    }
}
