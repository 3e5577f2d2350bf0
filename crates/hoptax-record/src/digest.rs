//! Non-cryptographic digests, which show whether two configurations, plans or bodies differ. They do not
//! protect against forgery.

/// FNV-1a with 64 bits (offset basis and prime of draft-eastlake-fnv).
#[derive(Debug, Clone, Copy)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Adds bytes of the text.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The digest of all bytes added so far, as 16 hexadecimal digits.
    pub fn text(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// The digest of a whole text.
pub fn digest(text: &str) -> String {
    let mut digest = Digest::default();
    digest.add(text.as_bytes());
    digest.text()
}
