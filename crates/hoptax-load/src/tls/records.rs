//! The record layer after the handshake: TLS 1.3 (RFC 8446, section 5) and TLS 1.2 with AEAD ciphers (RFC
//! 5246, section 6.2; RFC 5288; RFC 7905).
//!
//! rustls negotiates the keys and derives new keys. Its record layer is not used, because it allocates twice
//! per request and copies decrypted data. This module encrypts records directly into the send buffer, and
//! decrypts them in the read buffer.

use super::failure::Failure;
use ring::aead::{self, AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::ConnectionTrafficSecrets;

/// Content types of records (RFC 8446, section 5.1).
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const APPLICATION_DATA: u8 = 23;

/// The version in every record's header. It does not depend on the negotiated version (RFC 8446, section
/// 5.1).
const VERSION: [u8; 2] = [3, 3];
pub(super) const HEADER: usize = 5;
/// Maximum number of bytes of plaintext in a record (RFC 8446, section 5.1).
const LONGEST_PLAINTEXT: usize = 1 << 14;
/// Maximum number of bytes that encryption adds to a record: RFC 8446, section 5.2; RFC 5246, section 6.2.3.
const LONGEST_EXPANSION_13: usize = 256;
const LONGEST_EXPANSION_12: usize = 2048;
/// Length of the authentication tag. It is the same for all ciphers in this module.
const TAG: usize = 16;
/// In TLS 1.2, the nonce of AES-GCM has two parts. The explicit part is sent with each record (RFC 5288,
/// section 3). The part with the length `SALT` is not sent.
const EXPLICIT_NONCE: usize = 8;
const SALT: usize = 4;

/// Layout of records. It depends on the TLS version and, in TLS 1.2, on the cipher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// TLS 1.3. The content type is encrypted, and padding may follow it.
    Tls13,
    /// TLS 1.2 with AES-GCM. A part of the nonce precedes the ciphertext.
    Tls12Explicit,
    /// TLS 1.2 with ChaCha20-Poly1305.
    Tls12,
}

impl Layout {
    pub(super) fn is_tls13(self) -> bool {
        self == Self::Tls13
    }

    fn explicit_nonce(self) -> usize {
        if self == Self::Tls12Explicit { EXPLICIT_NONCE } else { 0 }
    }
}

/// Encryption state of one direction of a connection.
pub(super) struct Half {
    key: LessSafeKey,
    iv: [u8; aead::NONCE_LEN],
    /// Number of records that have used this key so far.
    sequence: u64,
    layout: Layout,
}

impl std::fmt::Debug for Half {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Half")
            .field("sequence", &self.sequence)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) content: u8,
    /// Offset of the plaintext in its buffer. The plaintext ends at the end of the buffer.
    pub(super) start: usize,
}

/// Returns the length of a record's body, which the record's header contains.
///
/// # Errors
/// If the header is invalid.
pub(super) fn body_length(header: [u8; HEADER], layout: Layout) -> Result<usize, Failure> {
    let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
    let expansion = if layout.is_tls13() { LONGEST_EXPANSION_13 } else { LONGEST_EXPANSION_12 };
    if header[1..3] != VERSION || length > LONGEST_PLAINTEXT + expansion {
        return Err(Failure::malformed("invalid record header"));
    }
    Ok(length)
}

impl Half {
    /// Creates the state for `secrets` after `sequence` records. Returns `None` if the cipher is not
    /// supported.
    pub(super) fn new(tls13: bool, (sequence, secrets): &(u64, ConnectionTrafficSecrets)) -> Option<Self> {
        use ConnectionTrafficSecrets as S;
        let (algorithm, key, iv, explicit) = match secrets {
            S::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv, true),
            S::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv, true),
            S::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv, false),
            _ => return None,
        };
        let layout = match (tls13, explicit) {
            (true, _) => Layout::Tls13,
            (false, true) => Layout::Tls12Explicit,
            (false, false) => Layout::Tls12,
        };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).ok()?);
        Some(Self { key, iv: iv.as_ref().try_into().ok()?, sequence: *sequence, layout })
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(super) fn records(length: usize) -> u64 {
        length.div_ceil(LONGEST_PLAINTEXT) as u64
    }

    /// Returns the nonce of the next record (RFC 8446, section 5.3; RFC 7905, section 2). In TLS 1.2, AES-GCM
    /// accepts any unique nonce. rustls uses the same nonces as this function.
    fn nonce(&self) -> [u8; aead::NONCE_LEN] {
        let mut nonce = self.iv;
        for (byte, sequence) in nonce[SALT..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= sequence;
        }
        nonce
    }

    /// The additional authenticated data of a TLS 1.2 record (RFC 5246, section 6.2.3.3).
    fn tls12_data(&self, content: u8, length: usize) -> [u8; 13] {
        let mut data = [0; 13];
        data[..8].copy_from_slice(&self.sequence.to_be_bytes());
        data[8..11].copy_from_slice(&[content, 3, 3]);
        data[11..].copy_from_slice(&(length as u16).to_be_bytes());
        data
    }

    /// Encrypts `plain` and appends the records to `out`. `content` is the content type of `plain`.
    pub(super) fn seal(&mut self, content: u8, plain: &[u8], out: &mut Vec<u8>) {
        for part in plain.chunks(LONGEST_PLAINTEXT) {
            self.seal_record(content, part, out);
        }
    }

    fn seal_record(&mut self, content: u8, plain: &[u8], out: &mut Vec<u8>) {
        let tls13 = self.layout.is_tls13();
        let length = self.layout.explicit_nonce() + plain.len() + usize::from(tls13) + TAG;
        let [high, low] = (length as u16).to_be_bytes();
        let header = [if tls13 { APPLICATION_DATA } else { content }, 3, 3, high, low];
        let nonce = self.nonce();
        out.extend_from_slice(&header);
        if self.layout == Layout::Tls12Explicit {
            out.extend_from_slice(&nonce[SALT..]);
        }
        let start = out.len();
        out.extend_from_slice(plain);
        if tls13 {
            out.push(content);
        }
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = if tls13 {
            self.key.seal_in_place_separate_tag(nonce, Aad::from(header), &mut out[start..])
        } else {
            let data = Aad::from(self.tls12_data(content, plain.len()));
            self.key.seal_in_place_separate_tag(nonce, data, &mut out[start..])
        };
        let tag = sealed.expect("16 KiB are below the limit of every cipher");
        out.extend_from_slice(tag.as_ref());
        self.sequence += 1;
    }

    /// Decrypts a record and appends its plaintext to `plain`.
    ///
    /// # Errors
    /// If the record is invalid, or if it was not encrypted with this key. `plain` is then unchanged.
    pub(super) fn open(
        &mut self,
        header: [u8; HEADER],
        body: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<Opened, Failure> {
        let start = plain.len();
        let content = self.open_at(start, header, body, plain);
        if content.is_err() {
            plain.truncate(start);
        }
        Ok(Opened { content: content?, start })
    }

    fn open_at(
        &mut self,
        start: usize,
        header: [u8; HEADER],
        body: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<u8, Failure> {
        let explicit = self.layout.explicit_nonce();
        if body.len() < explicit + TAG {
            return Err(Failure::malformed("a record is too short"));
        }
        let mut nonce = self.nonce();
        nonce[aead::NONCE_LEN - explicit..].copy_from_slice(&body[..explicit]);
        let nonce = Nonce::assume_unique_for_key(nonce);
        plain.extend_from_slice(&body[explicit..]);
        let opened = if self.layout.is_tls13() {
            self.key.open_in_place(nonce, Aad::from(header), &mut plain[start..])
        } else {
            let data = self.tls12_data(header[0], body.len() - explicit - TAG);
            self.key.open_in_place(nonce, Aad::from(data), &mut plain[start..])
        };
        let length = opened.map_err(|_| Failure::malformed("a record cannot be decrypted"))?.len();
        plain.truncate(start + length);
        self.sequence += 1;
        let content = if self.layout.is_tls13() { content_type(header[0], plain, start)? } else { header[0] };
        if plain.len() - start > LONGEST_PLAINTEXT {
            return Err(Failure::malformed("a record is too long"));
        }
        Ok(content)
    }
}

/// Removes the padding and the content type from the plaintext of a TLS 1.3 record. The plaintext begins at
/// `start`. Returns the content type.
fn content_type(outer: u8, plain: &mut Vec<u8>, start: usize) -> Result<u8, Failure> {
    let last = plain[start..].iter().rposition(|&byte| byte != 0);
    match last {
        Some(last) if outer == APPLICATION_DATA => {
            let content = plain[start + last];
            plain.truncate(start + last);
            Ok(content)
        }
        _ => Err(Failure::malformed("a record has no content")),
    }
}
