//! An established TLS session. It reads records and handles the TLS messages in them.

use super::buffers::Buffers;
use super::failure::Failure;
use super::records::{ALERT, APPLICATION_DATA, HANDSHAKE, HEADER, Half};
use rustls::AlertDescription;
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;

/// Maximum length of a message after the handshake. A ticket can be slightly longer than 64 KiB (RFC 8446,
/// section 4.6.1).
const LONGEST_MESSAGE: usize = 0x1_0400;
/// Length of the header of a handshake message, which contains type and length (RFC 8446, section 4).
const MESSAGE_HEADER: usize = 4;
/// Types of messages that a server can send after the handshake.
const HELLO_REQUEST: u8 = 0;
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;
/// Level of alerts that are warnings (RFC 5246, section 7.2).
const WARNING: u8 = 1;

/// Number of records that are reserved for the last request on a TLS 1.2 connection. If fewer records can
/// still be sent with the connection's key, the connection gets no further request. The last request can then
/// be up to 64 MiB long.
pub(super) const RESERVE: u64 = 1 << 12;

pub(super) struct Established {
    /// rustls's part of the session. It handles tickets and derives new keys.
    pub(super) keys: KernelConnection<ClientConnectionData>,
    pub(super) transmit: Half,
    pub(super) receive: Half,
    /// Maximum number of records that may be sent with one key. It follows from the encryption limit of the
    /// cipher.
    pub(super) limit: u64,
    /// The beginning of a handshake message that is not complete yet.
    pub(super) message: Vec<u8>,
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
    /// Processes one record. Returns true if the record announces that the peer sends no more data.
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
            _ => Err(Failure::malformed("unexpected type of record")),
        };
        plain.truncate(opened.start);
        last
    }

    /// Processes an alert (RFC 8446, section 6; RFC 5246, section 7.2). Returns true if the alert is a
    /// close_notify.
    fn alert(&self, content: &[u8]) -> Result<bool, Failure> {
        let &[level, description] = content else { return Err(Failure::malformed("an alert is malformed")) };
        match AlertDescription::from(description) {
            AlertDescription::CloseNotify => Ok(true),
            AlertDescription::UserCanceled => Ok(false),
            _ if level == WARNING && !self.receive.layout().is_tls13() => Ok(false),
            alert => Err(Failure::alert(alert)),
        }
    }

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
                // In this record, no data may follow the key update, because it would be encrypted with the
                // old key (RFC 8446, section 5.1).
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
                _ => return Err(Failure::malformed("unexpected handshake message")),
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

    /// Announces a new key to the peer, and then uses the new key for sending.
    pub(super) fn renew_transmit(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        if !self.transmit.layout().is_tls13() {
            return Err(Failure::malformed("the key of this connection has reached its encryption limit"));
        }
        self.transmit.seal(HANDSHAKE, &[KEY_UPDATE, 0, 0, 1, 0], out);
        let secrets = self.keys.update_tx_secret().map_err(|error| Failure::of_handshake(&error, b""))?;
        self.transmit = Half::new(true, &secrets).expect("the cipher is the same");
        Ok(())
    }
}
