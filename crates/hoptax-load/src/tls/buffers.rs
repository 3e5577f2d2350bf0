//! Memory that the sessions of one worker share.

/// Partial records whose memory is kept for the next ones.
const SPARES: usize = 64;

/// What the connections of one worker share.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// To be sent.
    pub(crate) out: Vec<u8>,
    /// Decrypted.
    pub(crate) plain: Vec<u8>,
    /// Memory of partial records, for the next ones.
    spares: Vec<Vec<u8>>,
}

impl Buffers {
    /// Empty, with the room of an earlier partial record if there is one.
    pub(super) fn spare(&mut self) -> Vec<u8> {
        self.spares.pop().unwrap_or_default()
    }

    /// Keeps the room of `memory` for the next partial record.
    pub(super) fn keep_spare(&mut self, mut memory: Vec<u8>) {
        if memory.capacity() > 0 && self.spares.len() < SPARES {
            memory.clear();
            self.spares.push(memory);
        }
    }
}
