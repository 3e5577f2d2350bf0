//! Frames (RFC 6455, section 5.2).

/// Maximum length of the payload of a control frame, bytes (RFC 6455, section 5.5).
pub const LONGEST_CONTROL: usize = 125;

/// Type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// A further part of a message.
    Continuation,
    /// The first part of a message with text.
    Text,
    /// The first part of a message with any bytes.
    Binary,
    /// The end of the connection.
    Close,
    /// The receiver answers with the same payload.
    Ping,
    /// The answer.
    Pong,
}

impl Opcode {
    /// The number in a frame.
    pub fn number(self) -> u8 {
        match self {
            Self::Continuation => 0x0,
            Self::Text => 0x1,
            Self::Binary => 0x2,
            Self::Close => 0x8,
            Self::Ping => 0x9,
            Self::Pong => 0xa,
        }
    }

    /// The type with this number. `None` if it is not defined.
    pub fn of(number: u8) -> Option<Self> {
        let all = [Self::Continuation, Self::Text, Self::Binary, Self::Close, Self::Ping, Self::Pong];
        all.into_iter().find(|opcode| opcode.number() == number)
    }

    /// True if frames of this type do not belong to messages.
    pub fn is_control(self) -> bool {
        self.number() >= 0x8
    }
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// True for the last frame of a message.
    pub fin: bool,
    /// True if the message is compressed (RFC 7692, section 6). Only in the first frame.
    pub compressed: bool,
    /// The type.
    pub opcode: Opcode,
    /// The key that masks the payload. Clients mask all frames, and servers mask none.
    pub mask: Option<[u8; 4]>,
    /// Length of the payload, bytes.
    pub length: u64,
}

/// Length of the longest head, bytes.
pub(super) const LONGEST_HEAD: usize = 14;

impl Frame {
    /// Appends the head.
    pub fn write(self, output: &mut Vec<u8>) {
        let first = u8::from(self.fin) << 7 | u8::from(self.compressed) << 6 | self.opcode.number();
        output.push(first);
        let masked = u8::from(self.mask.is_some()) << 7;
        match (u16::try_from(self.length), self.length) {
            (_, length @ 0..=125) => output.push(masked | length as u8),
            (Ok(length), _) => {
                output.push(masked | 126);
                output.extend_from_slice(&length.to_be_bytes());
            }
            (Err(_), length) => {
                output.push(masked | 127);
                output.extend_from_slice(&length.to_be_bytes());
            }
        }
        if let Some(key) = self.mask {
            output.extend_from_slice(&key);
        }
    }
}

/// Masks or unmasks a part of a payload. `offset` is the position of the part in the payload.
pub fn mask(data: &mut [u8], key: [u8; 4], offset: u64) {
    let mut turned = key;
    turned.rotate_left((offset % 4) as usize);
    let (words, rest) = data.as_chunks_mut::<4>();
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ u32::from_ne_bytes(turned)).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(turned) {
        *byte ^= key;
    }
}

/// Appends a whole frame of one message, or a control frame.
pub fn write_frame(output: &mut Vec<u8>, opcode: Opcode, key: Option<[u8; 4]>, payload: &[u8]) {
    let length = payload.len() as u64;
    Frame { fin: true, compressed: false, opcode, mask: key, length }.write(output);
    let start = output.len();
    output.extend_from_slice(payload);
    if let Some(key) = key {
        mask(&mut output[start..], key, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_one_three_or_nine_bytes() {
        for (length, expected) in [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10), (u64::MAX, 10)] {
            let mut output = Vec::new();
            let frame = Frame { fin: true, compressed: false, opcode: Opcode::Binary, mask: None, length };
            frame.write(&mut output);
            assert_eq!(output.len(), expected, "{length}");
            let mut masked = Vec::new();
            Frame { mask: Some([1, 2, 3, 4]), ..frame }.write(&mut masked);
            assert_eq!(masked.len(), expected + 4, "{length}");
        }
    }

    #[test]
    fn the_examples_of_the_standard_are_written() {
        // RFC 6455, section 5.7.
        let mut output = Vec::new();
        write_frame(&mut output, Opcode::Text, None, b"Hello");
        assert_eq!(output, [0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f]);
        output.clear();
        write_frame(&mut output, Opcode::Text, Some([0x37, 0xfa, 0x21, 0x3d]), b"Hello");
        assert_eq!(output, [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]);
    }

    #[test]
    fn a_payload_can_be_unmasked_in_any_parts() {
        let (key, text) = ([9, 8, 7, 6], *b"a payload of some length");
        let mut whole = text;
        mask(&mut whole, key, 0);
        for split in 0..whole.len() {
            let mut parts = whole;
            let (start, rest) = parts.split_at_mut(split);
            mask(start, key, 0);
            mask(rest, key, split as u64);
            assert_eq!(parts, text, "{split}");
        }
    }
}
