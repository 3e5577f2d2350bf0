//! What all WebSockets of an instance use in turn.

use super::deflate::Deflate;
use hoptax_wire::websocket::{Frame, Opcode, write_frame};
use std::mem;

/// Largest message that is accepted, bytes.
pub(super) const MOST_MESSAGE: usize = 16 << 20;
/// Largest buffer that is kept for the next message, bytes.
pub(in crate::upstream) const MOST_SPARE: usize = 1 << 20;

/// What all WebSockets of an instance use in turn, so that a connection between two messages needs no memory
/// for them.
#[derive(Debug, Default)]
pub(in crate::upstream) struct Tools {
    /// Memory for a message.
    pub(super) spare: Vec<u8>,
    /// Present after the first compressed message.
    deflate: Option<Box<Deflate>>,
    /// A compressed message.
    packed: Vec<u8>,
}

impl Tools {
    /// Appends the frame of a whole message.
    pub(super) fn write(&mut self, deflates: bool, opcode: Opcode, message: &[u8], output: &mut Vec<u8>) {
        if !deflates {
            return write_frame(output, opcode, None, message);
        }
        self.packed.clear();
        self.deflate.get_or_insert_default().compress(message, &mut self.packed);
        let length = self.packed.len() as u64;
        Frame { fin: true, compressed: true, opcode, mask: None, length }.write(output);
        output.extend_from_slice(&self.packed);
    }

    /// Inflates a message. Returns the status code of the close frame if that is not possible.
    pub(super) fn inflate(&mut self, message: &mut Vec<u8>) -> Result<(), u16> {
        mem::swap(message, &mut self.packed);
        message.clear();
        self.deflate.get_or_insert_default().inflate(&mut self.packed, message, MOST_MESSAGE)
    }
}
