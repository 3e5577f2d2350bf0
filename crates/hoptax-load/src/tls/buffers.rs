//! Buffers that all TLS sessions of one worker share.

/// Maximum number of unused buffers for partial records. They are kept for reuse.
const SPARES: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub(crate) out: Vec<u8>,
    /// Decrypted bytes.
    pub(crate) plain: Vec<u8>,
    spares: Vec<Vec<u8>>,
}

impl Buffers {
    /// Returns an empty buffer. If there is an unused buffer, this one is returned, with its capacity.
    pub(super) fn spare(&mut self) -> Vec<u8> {
        self.spares.pop().unwrap_or_default()
    }

    pub(super) fn keep_spare(&mut self, mut memory: Vec<u8>) {
        if memory.capacity() > 0 && self.spares.len() < SPARES {
            memory.clear();
            self.spares.push(memory);
        }
    }
}
