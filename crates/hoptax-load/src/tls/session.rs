//! The TLS session of one connection.
//!
//! ```text
//!                 the server's Finished
//!   Handshaking ────────────────────────► Established ──► peer closed (close_notify)
//!        │                                    │
//!        └──────────────── failed ◄───────────┘
//! ```
//!
//! When the handshake is complete, [`records`] receives the keys from rustls and reads all further records.

use super::buffers::Buffers;
use super::config::Client;
use super::established::{Established, RESERVE};
use super::failure::Failure;
use super::handshake::drive;
use super::records::{self, APPLICATION_DATA, HEADER, Half};
use rustls::client::UnbufferedClientConnection;
use rustls::{HandshakeKind, ProtocolVersion, SupportedCipherSuite};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agreed<'a> {
    /// TLS version, for example `TLSv1.3`.
    pub(crate) version: &'static str,
    /// Cipher suite, for example `TLS13_AES_256_GCM_SHA384`.
    pub(crate) suite: &'static str,
    /// The protocol that ALPN selected.
    pub(crate) alpn: Option<&'a [u8]>,
    pub(crate) resumed: bool,
}

/// Result of receiving bytes. [`Buffers::plain`] contains decrypted data, and [`Buffers::out`] contains data
/// to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    Handshaking,
    /// The handshake is complete. There may also be decrypted data that followed it.
    Established,
    Records,
}

#[derive(Debug)]
pub(crate) struct Session {
    phase: Phase,
    pub(crate) began: u64,
    /// An incomplete record. During the handshake, also any other data that rustls has not consumed.
    partial: Vec<u8>,
    resumes: bool,
    peer_closed: bool,
    failed: bool,
    answered: bool,
}

enum Phase {
    Handshaking(Box<UnbufferedClientConnection>),
    Established(Box<Established>),
    /// Temporary state between the other two. The session remains in this state if it cannot be established.
    Over,
}

impl std::fmt::Debug for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Handshaking(_) => f.write_str("Handshaking"),
            Self::Established(established) => established.fmt(f),
            Self::Over => f.write_str("Over"),
        }
    }
}

impl Session {
    /// Starts a handshake and writes its first message to `buffers.out`.
    ///
    /// # Errors
    /// If the system provides no random numbers.
    pub(crate) fn start(client: &Client, now: u64, buffers: &mut Buffers) -> Result<Self, Failure> {
        buffers.out.clear();
        let mut connection = client.connection().map_err(|error| Failure::of_handshake(&error, b""))?;
        let mut partial = buffers.spare();
        let (_, driven) = drive(&mut connection, &mut partial, buffers);
        driven.map_err(|error| Failure::of_handshake(&error, b""))?;
        Ok(Self {
            phase: Phase::Handshaking(Box::new(connection)),
            began: now,
            partial,
            resumes: client.resumes(),
            peer_closed: false,
            failed: false,
            answered: false,
        })
    }

    /// True if the peer has announced that it sends no more data (`close_notify`).
    pub(crate) fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    pub(crate) fn answered(&self) -> bool {
        self.answered
    }

    /// True if the session cannot carry another request. Either the session has ended, or it uses TLS 1.2 and
    /// its key is near the encryption limit. TLS 1.2 cannot change keys.
    pub(crate) fn is_spent(&self) -> bool {
        let worn = |established: &Established| {
            !established.transmit.layout().is_tls13()
                && established.transmit.sequence() + RESERVE >= established.limit
        };
        self.peer_closed
            || self.failed
            || matches!(&self.phase, Phase::Established(established) if worn(established))
    }

    /// Encrypts `plain` into `buffers.out`. The former content of `buffers.out` is dropped.
    ///
    /// # Panics
    /// If the handshake is not complete.
    pub(crate) fn send(&mut self, plain: &[u8], buffers: &mut Buffers) -> Result<(), Failure> {
        let Phase::Established(established) = &mut self.phase else {
            panic!("sent before the handshake was complete")
        };
        buffers.out.clear();
        let records = Half::records(plain.len());
        if established.transmit.sequence().saturating_add(records) >= established.limit {
            established.renew_transmit(&mut buffers.out)?;
        }
        established.transmit.seal(APPLICATION_DATA, plain, &mut buffers.out);
        Ok(())
    }

    /// Processes bytes from the socket. Calls `agreed` with the negotiated parameters when the handshake is
    /// complete.
    ///
    /// # Errors
    /// If the session cannot continue. `buffers.out` can still contain an alert for the peer, and
    /// `buffers.plain` can contain data that was received earlier.
    pub(crate) fn receive(
        &mut self,
        input: &[u8],
        buffers: &mut Buffers,
        agreed: impl FnOnce(Agreed<'_>),
    ) -> Result<Received, Failure> {
        buffers.out.clear();
        buffers.plain.clear();
        let received = match &self.phase {
            Phase::Established(_) => self.read(input, buffers).map(|()| Received::Records),
            Phase::Handshaking(_) => self.shake(input, buffers, agreed),
            Phase::Over => Err(Failure::malformed("the session is over")),
        };
        self.failed |= received.is_err();
        received
    }

    fn shake(
        &mut self,
        input: &[u8],
        buffers: &mut Buffers,
        agreed: impl FnOnce(Agreed<'_>),
    ) -> Result<Received, Failure> {
        let Phase::Handshaking(connection) = &mut self.phase else {
            unreachable!("called only in this phase")
        };
        self.partial.extend_from_slice(input);
        let (done_with, driven) = drive(connection, &mut self.partial, buffers);
        self.peer_closed = driven.map_err(|error| Failure::of_handshake(&error, &self.partial))?;
        self.partial.drain(..done_with);
        if connection.is_handshaking() {
            return Ok(Received::Handshaking);
        }
        self.establish(buffers, agreed)?;
        Ok(Received::Established)
    }

    /// Called when the handshake is complete. Gets the keys from rustls, and reads the data that followed the
    /// handshake.
    fn establish(&mut self, buffers: &mut Buffers, agreed: impl FnOnce(Agreed<'_>)) -> Result<(), Failure> {
        let Phase::Handshaking(connection) = std::mem::replace(&mut self.phase, Phase::Over) else {
            unreachable!("called only in this phase")
        };
        let suite = connection.negotiated_cipher_suite();
        let tls13 = connection.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        agreed(Agreed {
            version: if tls13 { "TLSv1.3" } else { "TLSv1.2" },
            suite: suite.and_then(|suite| suite.suite().as_str()).unwrap_or("unknown"),
            alpn: connection.alpn_protocol(),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        });
        let limit = suite.map_or(0, |suite| match suite {
            SupportedCipherSuite::Tls13(suite) => suite.common.confidentiality_limit,
            SupportedCipherSuite::Tls12(suite) => suite.common.confidentiality_limit,
        });
        let taken = connection.dangerous_into_kernel_connection();
        let (secrets, keys) = taken.map_err(|error| Failure::of_handshake(&error, b""))?;
        let halves = (Half::new(tls13, &secrets.tx), Half::new(tls13, &secrets.rx));
        let (Some(transmit), Some(receive)) = halves else {
            return Err(Failure::malformed("the negotiated cipher is not supported"));
        };
        let (message, resumes) = (Vec::new(), self.resumes);
        self.phase =
            Phase::Established(Box::new(Established { keys, transmit, receive, limit, message, resumes }));
        let behind = std::mem::take(&mut self.partial);
        let read = self.read(&behind, buffers);
        buffers.keep_spare(behind);
        read
    }

    /// Reads records, first from `partial` and then from `input`. `partial` holds the end of the previous
    /// input.
    fn read(&mut self, mut input: &[u8], buffers: &mut Buffers) -> Result<(), Failure> {
        let Phase::Established(established) = &mut self.phase else {
            unreachable!("called only in this phase")
        };
        let layout = established.receive.layout();
        if !self.partial.is_empty() {
            let whole = fill(&mut self.partial, &mut input, layout)?;
            if !whole {
                return Ok(());
            }
            let record = std::mem::take(&mut self.partial);
            let (header, body) = record.split_first_chunk::<HEADER>().expect("a complete record");
            let taken = established.take(*header, body, &mut self.answered, buffers);
            buffers.keep_spare(record);
            self.peer_closed |= taken?;
        }
        // Data after a close_notify is ignored (RFC 8446, section 6.1).
        while !self.peer_closed {
            let Some((header, rest)) = input.split_first_chunk::<HEADER>() else { break };
            let length = records::body_length(*header, layout)?;
            let Some((body, rest)) = rest.split_at_checked(length) else { break };
            self.peer_closed = established.take(*header, body, &mut self.answered, buffers)?;
            input = rest;
        }
        if !self.peer_closed && !input.is_empty() {
            self.partial = buffers.spare();
            self.partial.extend_from_slice(input);
        }
        Ok(())
    }
}

/// Moves bytes from `input` to `partial` until `partial` is one complete record. Returns false if `input` is
/// too short.
fn fill(partial: &mut Vec<u8>, input: &mut &[u8], layout: records::Layout) -> Result<bool, Failure> {
    loop {
        let needed = match partial.first_chunk::<HEADER>() {
            None => HEADER,
            Some(header) => HEADER + records::body_length(*header, layout)?,
        };
        let missing = needed.saturating_sub(partial.len());
        if missing == 0 && partial.len() >= HEADER {
            return Ok(true);
        }
        let (now, later) = input.split_at(missing.min(input.len()));
        partial.reserve(missing);
        partial.extend_from_slice(now);
        *input = later;
        if now.len() < missing {
            return Ok(false);
        }
    }
}

#[cfg(test)]
impl Session {
    pub(super) fn limit_records(&mut self, limit: u64) {
        let Phase::Established(established) = &mut self.phase else { panic!("not established") };
        established.limit = limit;
    }

    /// Capacity of the buffers for partial records and for messages, in bytes.
    pub(super) fn kept(&self) -> usize {
        let Phase::Established(established) = &self.phase else { panic!("not established") };
        self.partial.capacity() + established.message.capacity()
    }
}
