//! Compresses and inflates messages (RFC 7692). Each message is compressed by itself, so that all connections
//! can use one window.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use hoptax_wire::websocket::close;

/// What the sender of a message removes from its end, and the receiver adds (RFC 7692, section 7.2).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];
/// Number of bytes that the output grows at a time.
const PIECE: usize = 16 * 1024;

#[derive(Debug)]
pub(super) struct Deflate {
    compress: Compress,
    decompress: Decompress,
}

impl Default for Deflate {
    fn default() -> Self {
        Self { compress: Compress::new(Compression::fast(), false), decompress: Decompress::new(false) }
    }
}

impl Deflate {
    /// Appends a compressed message.
    pub(super) fn compress(&mut self, message: &[u8], output: &mut Vec<u8>) {
        if message.is_empty() {
            // RFC 7692, section 7.2.3.6.
            return output.push(0);
        }
        self.compress.reset();
        let mut rest = message;
        loop {
            output.reserve(PIECE);
            let before = self.compress.total_in();
            let compressed = self.compress.compress_vec(rest, output, FlushCompress::Sync);
            compressed.expect("a compressor accepts all bytes");
            rest = &rest[(self.compress.total_in() - before) as usize..];
            // Without any room left, a part of the output may be missing.
            if rest.is_empty() && output.len() < output.capacity() {
                break;
            }
        }
        debug_assert!(output.ends_with(&TAIL), "a flush ends with an empty block");
        output.truncate(output.len() - TAIL.len());
    }

    /// Appends an inflated message, and adds the tail to `packed`. Returns the status code of the close frame
    /// if the message is not compressed, or has more than `most` bytes.
    pub(super) fn inflate(
        &mut self,
        packed: &mut Vec<u8>,
        output: &mut Vec<u8>,
        most: usize,
    ) -> Result<(), u16> {
        packed.extend_from_slice(&TAIL);
        self.decompress.reset(false);
        let mut rest = packed.as_slice();
        loop {
            output.reserve(PIECE);
            let (read, written) = (self.decompress.total_in(), output.len());
            let status = self.decompress.decompress_vec(rest, output, FlushDecompress::Sync);
            let status = status.map_err(|_| close::INVALID_DATA)?;
            let consumed = (self.decompress.total_in() - read) as usize;
            rest = &rest[consumed..];
            if output.len() > most {
                return Err(close::TOO_LONG);
            }
            if rest.is_empty() && output.len() < output.capacity() {
                return Ok(());
            }
            match status {
                // A block can be the last of its compressor, but not of the message (RFC 7692, section
                // 7.2.3.4).
                Status::StreamEnd => self.decompress.reset(false),
                _ if consumed == 0 && output.len() == written => return Err(close::INVALID_DATA),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inflated(packed: &[u8]) -> Result<Vec<u8>, u16> {
        let mut output = Vec::new();
        Deflate::default().inflate(&mut packed.to_vec(), &mut output, 1 << 20).map(|()| output)
    }

    #[test]
    fn the_examples_of_the_standard_are_read() {
        // RFC 7692, sections 7.2.3.1, 7.2.3.3 and 7.2.3.4: compressed, stored, and with a last block.
        let examples: [&[u8]; 3] = [
            &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00],
            &[0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00],
            &[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00],
        ];
        for example in examples {
            assert_eq!(inflated(example).as_deref(), Ok(&b"Hello"[..]), "{example:x?}");
        }
        assert_eq!(inflated(&[0x00]).as_deref(), Ok(&b""[..]));
    }

    #[test]
    fn messages_of_any_length_return() {
        let mut deflate = Deflate::default();
        let noise = |length: u32| (0..length).map(|place| (place.wrapping_mul(2_654_435_761) >> 24) as u8);
        for length in [0, 1, 5, 100, 16_000, 16_384, 40_000, 300_000] {
            for message in [vec![b'x'; length as usize], noise(length).collect::<Vec<u8>>()] {
                let (mut packed, mut output) = (Vec::new(), Vec::new());
                deflate.compress(&message, &mut packed);
                deflate.inflate(&mut packed, &mut output, 1 << 20).expect("compressed");
                assert_eq!(output, message, "{length}");
            }
        }
    }

    #[test]
    fn other_bytes_and_large_messages_are_refused() {
        assert_eq!(inflated(&[0xff; 20]), Err(close::INVALID_DATA));
        let mut packed = Vec::new();
        Deflate::default().compress(&vec![0; (1 << 20) + 1], &mut packed);
        assert!(packed.len() < 10_000);
        assert_eq!(inflated(&packed), Err(close::TOO_LONG));
    }
}
