//! A session that stands: its records, and what of TLS still goes on in them.

use super::buffers::Buffers;
use super::failure::Failure;
use super::records::{ALERT, APPLICATION_DATA, HANDSHAKE, HEADER, Half};
use rustls::AlertDescription;
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;

/// Longest message that may come after the handshake: tickets have at most 64 KiB and a little (RFC 8446, section 4.6.1).
const LONGEST_MESSAGE: usize = 0x1_0400;
/// Type and length of a message of the handshake protocol (RFC 8446, section 4).
const MESSAGE_HEADER: usize = 4;
/// Types of the messages that may come after it.
const HELLO_REQUEST: u8 = 0;
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;
/// Level of an alert (RFC 5246, section 7.2).
const WARNING: u8 = 1;

/// Records of TLS 1.2 kept for what is still to be sent when a key is nearly worn out: 64 MiB of a request.
pub(super) const RESERVE: u64 = 1 << 12;

/// A session that stands.
pub(super) struct Established {
    /// rustls's part, which makes sessions of tickets and new keys of old ones.
    pub(super) keys: KernelConnection<ClientConnectionData>,
    pub(super) transmit: Half,
    pub(super) receive: Half,
    /// Records that may be sent under one key.
    pub(super) limit: u64,
    /// The front part of a message of the handshake protocol.
    pub(super) message: Vec<u8>,
    /// Whether tickets are of use.
    pub(super) resumes: bool,
}

impl std::fmt::Debug for Established {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Established")
            .field("transmit", &self.transmit)
            .field("receive", &self.receive)
            .finish_non_exhaustive()
    }
}

impl Established {
    /// Takes one record. `true`: the peer says that it is the last.
    pub(super) fn take(
        &mut self,
        header: [u8; HEADER],
        body: &[u8],
        answered: &mut bool,
        buffers: &mut Buffers,
    ) -> Result<bool, Failure> {
        let plain = &mut buffers.plain;
        let opened = self.receive.open(header, body, plain)?;
        if opened.content == APPLICATION_DATA && self.message.is_empty() {
            *answered |= plain.len() > opened.start;
            return Ok(false);
        }
        let last = match opened.content {
            ALERT => self.alert(&plain[opened.start..]),
            HANDSHAKE => {
                self.message.extend_from_slice(&plain[opened.start..]);
                self.messages(&mut buffers.out).map(|()| false)
            }
            _ => Err(Failure::malformed("a record has content that cannot come now")),
        };
        plain.truncate(opened.start);
        last
    }

    /// RFC 8446, section 6; RFC 5246, section 7.2. `true`: a close_notify.
    fn alert(&self, content: &[u8]) -> Result<bool, Failure> {
        let &[level, description] = content else { return Err(Failure::malformed("an alert is malformed")) };
        match AlertDescription::from(description) {
            AlertDescription::CloseNotify => Ok(true),
            AlertDescription::UserCanceled => Ok(false),
            _ if level == WARNING && !self.receive.layout().is_tls13() => Ok(false),
            alert => Err(Failure::alert(alert)),
        }
    }

    /// Does what the whole messages say that have come since the handshake.
    fn messages(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        let tls13 = self.receive.layout().is_tls13();
        while let Some((&[kind, high, middle, low], rest)) =
            self.message.split_first_chunk::<MESSAGE_HEADER>()
        {
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            if length > LONGEST_MESSAGE {
                return Err(Failure::malformed("a message is too long"));
            }
            let Some(body) = rest.get(..length) else { return Ok(()) };
            match (tls13, kind, body) {
                (true, NEW_SESSION_TICKET, ticket) => {
                    if self.resumes {
                        let taken = self.keys.handle_new_session_ticket(ticket);
                        taken.map_err(|error| Failure::of_handshake(&error, b""))?;
                    }
                }
                // RFC 8446, section 5.1: nothing of the old key may stand behind it.
                (true, KEY_UPDATE, &[answer @ (0 | 1)]) if rest.len() == length => {
                    self.renew_receive()?;
                    if answer == 1 {
                        self.renew_transmit(out)?;
                    }
                }
                (false, HELLO_REQUEST, []) => {
                    let refusal = [WARNING, AlertDescription::NoRenegotiation.into()];
                    self.transmit.seal(ALERT, &refusal, out);
                }
                _ => return Err(Failure::malformed("a message came that cannot come now")),
            }
            self.message.drain(..MESSAGE_HEADER + length);
        }
        if self.message.is_empty() {
            self.message = Vec::new();
        }
        Ok(())
    }

    fn renew_receive(&mut self) -> Result<(), Failure> {
        let secrets = self.keys.update_rx_secret().map_err(|error| Failure::of_handshake(&error, b""))?;
        self.receive = Half::new(true, &secrets).expect("the cipher is the same");
        Ok(())
    }

    /// Announces a new key, and takes it.
    pub(super) fn renew_transmit(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        if !self.transmit.layout().is_tls13() {
            return Err(Failure::malformed("the key of this connection has encrypted as much as it may"));
        }
        self.transmit.seal(HANDSHAKE, &[KEY_UPDATE, 0, 0, 1, 0], out);
        let secrets = self.keys.update_tx_secret().map_err(|error| Failure::of_handshake(&error, b""))?;
        self.transmit = Half::new(true, &secrets).expect("the cipher is the same");
        Ok(())
    }
}
