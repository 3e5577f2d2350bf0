//! Frames (RFC 9113, sections 4 and 6): their headers, and the small frames that a connection writes.

use super::Code;

/// Length of a frame's header.
pub(super) const HEADER: usize = 9;
/// Maximum length of a payload that we accept, and send. It is the initial value of SETTINGS_MAX_FRAME_SIZE,
/// which all peers accept.
pub(super) const MAX_PAYLOAD: usize = 16_384;

/// What a client sends first (RFC 9113, section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) mod kind {
    pub(in super::super) const DATA: u8 = 0x0;
    pub(in super::super) const HEADERS: u8 = 0x1;
    pub(in super::super) const PRIORITY: u8 = 0x2;
    pub(in super::super) const RST_STREAM: u8 = 0x3;
    pub(in super::super) const SETTINGS: u8 = 0x4;
    pub(in super::super) const PUSH_PROMISE: u8 = 0x5;
    pub(in super::super) const PING: u8 = 0x6;
    pub(in super::super) const GOAWAY: u8 = 0x7;
    pub(in super::super) const WINDOW_UPDATE: u8 = 0x8;
    pub(in super::super) const CONTINUATION: u8 = 0x9;
}

pub(super) mod flag {
    pub(in super::super) const END_STREAM: u8 = 0x1;
    pub(in super::super) const ACK: u8 = 0x1;
    pub(in super::super) const END_HEADERS: u8 = 0x4;
    pub(in super::super) const PADDED: u8 = 0x8;
    pub(in super::super) const PRIORITY: u8 = 0x20;
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHeader {
    /// Reads the header at the start of `input`. Returns `None` if it is incomplete.
    #[inline]
    pub(super) fn read(input: &[u8]) -> Option<Self> {
        let &[a, b, c, kind, flags, s0, s1, s2, s3] = input.first_chunk::<HEADER>()?;
        Some(Self {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            // The highest bit has no meaning.
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & 0x7fff_ffff,
        })
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(super) fn bytes(self) -> [u8; HEADER] {
        let [_, a, b, c] = (self.length as u32).to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s0, s1, s2, s3]
    }
}

/// Appends a frame without padding.
pub(super) fn write(output: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    output.extend_from_slice(&FrameHeader { length: payload.len(), kind, flags, stream }.bytes());
    output.extend_from_slice(payload);
}

pub(super) fn write_reset(output: &mut Vec<u8>, stream: u32, code: Code) {
    write(output, kind::RST_STREAM, 0, stream, &code.0.to_be_bytes());
}

pub(super) fn write_window_update(output: &mut Vec<u8>, stream: u32, increment: u32) {
    write(output, kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
}

pub(super) fn write_go_away(output: &mut Vec<u8>, last: u32, code: Code) {
    let mut payload = [0; 8];
    payload[..4].copy_from_slice(&last.to_be_bytes());
    payload[4..].copy_from_slice(&code.0.to_be_bytes());
    write(output, kind::GOAWAY, 0, 0, &payload);
}

/// If a header block is too long for one frame, moves its rest into CONTINUATION frames. The block is the
/// content of `output` from `start` on. The header of its HEADERS frame precedes it.
pub(super) fn split_block(output: &mut Vec<u8>, start: usize, flags: u8, stream: u32) {
    let length = output.len() - start - HEADER;
    let fits = length <= MAX_PAYLOAD;
    let header = |kind, length, flags| FrameHeader { length, kind, flags, stream }.bytes();
    let end = if fits { flag::END_HEADERS } else { 0 };
    let first = header(kind::HEADERS, length.min(MAX_PAYLOAD), flags | end);
    output[start..start + HEADER].copy_from_slice(&first);
    // Split from the back, so that earlier positions stay valid.
    for place in (1..length.div_ceil(MAX_PAYLOAD)).rev() {
        let from = place * MAX_PAYLOAD;
        let is_last = length - from <= MAX_PAYLOAD;
        let flags = if is_last { flag::END_HEADERS } else { 0 };
        let header = header(kind::CONTINUATION, (length - from).min(MAX_PAYLOAD), flags);
        let at = start + HEADER + from;
        output.splice(at..at, header);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_can_be_read_again() {
        let header = FrameHeader { length: 0x01_0203, kind: 9, flags: 0x2d, stream: 0x7fff_fffe };
        let mut bytes = header.bytes().to_vec();
        assert_eq!(FrameHeader::read(&bytes), Some(header));
        assert_eq!(FrameHeader::read(&bytes[..8]), None);
        bytes[5] |= 0x80;
        assert_eq!(FrameHeader::read(&bytes), Some(header));
    }

    #[test]
    fn long_blocks_are_split() {
        for length in [0, 1, MAX_PAYLOAD, MAX_PAYLOAD + 1, 2 * MAX_PAYLOAD, 3 * MAX_PAYLOAD + 5] {
            let block: Vec<u8> = (0..length).map(|place| place as u8).collect();
            let mut output = b"before".to_vec();
            output.extend_from_slice(&[0; HEADER]);
            output.extend_from_slice(&block);
            split_block(&mut output, 6, flag::END_STREAM, 3);
            let (mut rest, mut joined, mut frames) = (&output[6..], Vec::new(), 0);
            while let Some(header) = FrameHeader::read(rest) {
                let is_last = rest.len() == HEADER + header.length;
                let (first, ends) = (frames == 0, if is_last { flag::END_HEADERS } else { 0 });
                let expected = if first { (kind::HEADERS, 1 | ends) } else { (kind::CONTINUATION, ends) };
                assert_eq!((header.kind, header.flags), expected);
                assert!(header.length <= MAX_PAYLOAD && header.stream == 3);
                joined.extend_from_slice(&rest[HEADER..HEADER + header.length]);
                rest = &rest[HEADER + header.length..];
                frames += 1;
            }
            assert_eq!((rest.len(), frames), (0, length.div_ceil(MAX_PAYLOAD).max(1)));
            assert!(joined == block);
        }
    }
}
