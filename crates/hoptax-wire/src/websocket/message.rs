//! Decodes the frames of one side of a connection.

use super::close;
use super::frame::{Frame, LONGEST_CONTROL, LONGEST_HEAD, Opcode, mask};
use super::utf8::Utf8;
use std::ops::Range;

/// Side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Masks all frames that it sends.
    Client,
    /// Masks none.
    Server,
}

/// Why a frame violates the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A reserved bit is set, and no extension gives it a meaning.
    #[error("a frame has a reserved bit set")]
    ReservedBit,
    /// The type of the frame is not defined.
    #[error("a frame has the undefined type {0}")]
    Opcode(u8),
    /// A client's frame without a mask, or a server's frame with one.
    #[error("{}", if *.0 { "the client did not mask a frame" } else { "the server masked a frame" })]
    Mask(bool),
    /// A control frame is longer than 125 bytes, or is one of several parts.
    #[error("a control frame is too long, or is only a part")]
    Control,
    /// A further part without a first part, or a first part inside a message.
    #[error("a frame does not continue the message before it")]
    Order,
    /// The length has a set first bit, or is written in more bytes than needed.
    #[error("the length of a frame is not written in its shortest form")]
    Length,
    /// A close frame has one byte, or a status code that no endpoint may send.
    #[error("a close frame has an invalid status code")]
    CloseCode,
    /// A text, or the reason of a close frame, is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
}

impl Fault {
    /// The status code of the close frame that answers the fault.
    pub fn code(self) -> u16 {
        match self {
            Self::Text => close::INVALID_DATA,
            _ => close::PROTOCOL_ERROR,
        }
    }
}

/// A part of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The input is used up: call again with the next bytes. No bytes need to be kept.
    NeedMore,
    /// A frame of a message begins.
    Begin {
        /// `Text` or `Binary` for the first frame, otherwise `Continuation`.
        opcode: Opcode,
        /// True for the last frame of the message.
        fin: bool,
        /// True if the message is compressed. Only in the first frame.
        compressed: bool,
        /// Length of the payload, bytes. If it is 0 and `fin` is true, the message has also ended.
        length: u64,
    },
    /// A part of the payload of a message, at this position in the input.
    Data {
        /// The part. It is masked if [`Decoder::unmask`] says how.
        data: Range<usize>,
        /// True if the message has ended.
        end: bool,
    },
    /// A control frame has ended. [`Decoder::control`] has its payload.
    Control(Opcode),
}

/// Decodes what one side sends. Checks text only if it is neither masked nor compressed.
#[derive(Debug, Clone)]
pub struct Decoder {
    /// The side that sends.
    from: Side,
    /// True if compressed messages are accepted.
    deflate: bool,
    /// Bytes of the head, or the payload of a control frame.
    kept: [u8; LONGEST_CONTROL],
    kept_length: u8,
    frame: Option<Frame>,
    /// Number of bytes of the payload that were read.
    read: u64,
    /// Key and position of the latest data.
    latest: Option<([u8; 4], u64)>,
    /// True between the first and the last frame of a message.
    in_message: bool,
    /// Present in a message whose text is checked.
    text: Option<Utf8>,
}

impl Decoder {
    /// Decodes what `from` sends. `deflate` is true if both sides have agreed on compression.
    pub fn new(from: Side, deflate: bool) -> Self {
        Self {
            from,
            deflate,
            kept: [0; LONGEST_CONTROL],
            kept_length: 0,
            frame: None,
            read: 0,
            latest: None,
            in_message: false,
            text: None,
        }
    }

    /// True if no frame has begun that has not ended, and no message.
    pub fn is_between(&self) -> bool {
        !self.in_message && self.frame.is_none() && (self.kept_length == 0 || self.read == DONE)
    }

    /// Key and position for [`mask`] of the latest [`Step::Data`]. `None` if the data are not masked.
    pub fn unmask(&self) -> Option<([u8; 4], u64)> {
        self.latest
    }

    /// The payload of the latest control frame, unmasked.
    pub fn control(&self) -> &[u8] {
        &self.kept[..usize::from(self.kept_length)]
    }

    /// The status code of the latest close frame. `None` if it has none.
    pub fn close_code(&self) -> Option<u16> {
        self.control().first_chunk().map(|code| u16::from_be_bytes(*code))
    }

    /// Decodes the next event from the front of `input`. Returns the number of bytes consumed too.
    ///
    /// # Errors
    /// If the bytes violate the protocol. The connection must then be closed.
    pub fn advance(&mut self, input: &[u8]) -> Result<(usize, Step), Fault> {
        let mut at = 0;
        let frame = match self.frame {
            Some(frame) => frame,
            None => {
                if self.read == DONE {
                    (self.kept_length, self.read) = (0, 0);
                }
                let Some(frame) = self.head(input, &mut at)? else { return Ok((at, Step::NeedMore)) };
                (self.read, self.kept_length) = (0, 0);
                if !frame.opcode.is_control() {
                    let Frame { opcode, fin, compressed, length, mask } = frame;
                    self.in_message = !fin || length > 0;
                    if opcode != Opcode::Continuation {
                        let is_checked = opcode == Opcode::Text && !compressed && mask.is_none();
                        self.text = is_checked.then(Utf8::default);
                    }
                    if length > 0 {
                        self.frame = Some(frame);
                    } else {
                        self.check_text(&[], fin)?;
                    }
                    return Ok((at, Step::Begin { opcode, fin, compressed, length }));
                }
                self.frame = Some(frame);
                frame
            }
        };
        let left = frame.length - self.read;
        let taken = left.min((input.len() - at) as u64);
        let data = at..at + taken as usize;
        if taken == 0 && left > 0 {
            return Ok((at, Step::NeedMore));
        }
        if frame.opcode.is_control() {
            return self.control_part(frame, input, data);
        }
        self.latest = frame.mask.map(|key| (key, self.read));
        self.read += taken;
        let is_whole = taken == left;
        if is_whole {
            (self.frame, self.read) = (None, 0);
            self.in_message = !frame.fin;
        }
        let end = is_whole && frame.fin;
        self.check_text(&input[data.clone()], end)?;
        Ok((data.end, Step::Data { data, end }))
    }

    /// Checks the next part of a text. `end` is true for the last part.
    fn check_text(&mut self, part: &[u8], end: bool) -> Result<(), Fault> {
        let Some(text) = &mut self.text else { return Ok(()) };
        if text.read(part) && (text.is_whole() || !end) { Ok(()) } else { Err(Fault::Text) }
    }

    fn control_part(
        &mut self,
        frame: Frame,
        input: &[u8],
        data: Range<usize>,
    ) -> Result<(usize, Step), Fault> {
        let from = usize::from(self.kept_length);
        let to = from + data.len();
        self.kept[from..to].copy_from_slice(&input[data.clone()]);
        self.kept_length = to as u8;
        self.read += data.len() as u64;
        if self.read < frame.length {
            return Ok((data.end, Step::NeedMore));
        }
        if let Some(key) = frame.mask {
            mask(&mut self.kept[..to], key, 0);
        }
        // The payload stays until the next frame begins.
        (self.frame, self.read) = (None, DONE);
        if frame.opcode == Opcode::Close {
            check_close(self.control())?;
        }
        Ok((data.end, Step::Control(frame.opcode)))
    }

    /// Reads the head of a frame. `None` if it is incomplete.
    fn head(&mut self, input: &[u8], at: &mut usize) -> Result<Option<Frame>, Fault> {
        loop {
            let kept = usize::from(self.kept_length);
            if let Some(needed) = head_length(&self.kept[..kept])
                && kept == needed
            {
                return self.frame_of(needed).map(Some);
            }
            let Some(&byte) = input.get(*at) else { return Ok(None) };
            debug_assert!(kept < LONGEST_HEAD, "a head has at most 14 bytes");
            self.kept[kept] = byte;
            self.kept_length += 1;
            *at += 1;
        }
    }

    fn frame_of(&self, length: usize) -> Result<Frame, Fault> {
        let head = &self.kept[..length];
        let (first, second) = (head[0], head[1]);
        let opcode = Opcode::of(first & 0xf).ok_or(Fault::Opcode(first & 0xf))?;
        let (fin, compressed, masked) = (first & 0x80 != 0, first & 0x40 != 0, second & 0x80 != 0);
        let may_be_compressed = self.deflate && matches!(opcode, Opcode::Text | Opcode::Binary);
        if first & 0x30 != 0 || (compressed && !may_be_compressed) {
            return Err(Fault::ReservedBit);
        }
        if masked != (self.from == Side::Client) {
            return Err(Fault::Mask(self.from == Side::Client));
        }
        let (length, shortest) = match second & 0x7f {
            126 => (u64::from(u16::from_be_bytes([head[2], head[3]])), 126),
            127 => {
                let bytes = head[2..10].try_into().expect("eight bytes");
                (u64::from_be_bytes(bytes), u64::from(u16::MAX) + 1)
            }
            length => (u64::from(length), 0),
        };
        if length < shortest || length > i64::MAX as u64 {
            return Err(Fault::Length);
        }
        if opcode.is_control() && (!fin || length > LONGEST_CONTROL as u64) {
            return Err(Fault::Control);
        }
        if !opcode.is_control() && (opcode == Opcode::Continuation) != self.in_message {
            return Err(Fault::Order);
        }
        let mask = masked.then(|| head[head.len() - 4..].try_into().expect("four bytes"));
        Ok(Frame { fin, compressed, opcode, mask, length })
    }
}

/// Value of [`Decoder::read`] after a control frame, whose payload is still kept.
const DONE: u64 = u64::MAX;

/// Length of the head that begins with these bytes. `None` if it is not known yet.
fn head_length(start: &[u8]) -> Option<usize> {
    let second = start.get(1)?;
    let length = match second & 0x7f {
        126 => 4,
        127 => 10,
        _ => 2,
    };
    Some(length + if second & 0x80 != 0 { 4 } else { 0 })
}

/// Checks that an endpoint may send a close frame with this payload (RFC 6455, sections 5.5.1 and 7.4).
fn check_close(payload: &[u8]) -> Result<(), Fault> {
    let (code, reason) = match payload.split_first_chunk() {
        Some((code, reason)) => (u16::from_be_bytes(*code), reason),
        None if payload.is_empty() => return Ok(()),
        None => return Err(Fault::CloseCode),
    };
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(Fault::CloseCode);
    }
    if std::str::from_utf8(reason).is_ok() { Ok(()) } else { Err(Fault::Text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket::write_frame;

    /// What a decoder reads: each message, and each control frame with its payload.
    fn read(from: Side, pieces: &[&[u8]]) -> Result<Vec<(Opcode, Vec<u8>)>, Fault> {
        let mut decoder = Decoder::new(from, false);
        let (mut found, mut message) = (Vec::new(), (Opcode::Binary, Vec::new()));
        for piece in pieces {
            let mut rest = *piece;
            loop {
                let (consumed, step) = decoder.advance(rest)?;
                match step {
                    Step::NeedMore => {
                        assert_eq!(consumed, rest.len());
                        break;
                    }
                    Step::Begin { opcode, fin, length, .. } => {
                        if opcode != Opcode::Continuation {
                            message = (opcode, Vec::new());
                        }
                        if fin && length == 0 {
                            found.push(message.clone());
                        }
                    }
                    Step::Data { data, end } => {
                        let start = message.1.len();
                        message.1.extend_from_slice(&rest[data]);
                        if let Some((key, offset)) = decoder.unmask() {
                            mask(&mut message.1[start..], key, offset);
                        }
                        if end {
                            found.push(message.clone());
                        }
                    }
                    Step::Control(opcode) => found.push((opcode, decoder.control().to_vec())),
                }
                rest = &rest[consumed..];
            }
        }
        assert!(decoder.is_between());
        Ok(found)
    }

    #[test]
    fn every_split_gives_the_same_messages() {
        for (from, key) in [(Side::Client, Some([1, 2, 3, 4])), (Side::Server, None)] {
            let mut bytes = Vec::new();
            write_frame(&mut bytes, Opcode::Text, key, "grüße".as_bytes());
            let part = |fin, opcode, length| Frame { fin, compressed: false, opcode, mask: None, length };
            if from == Side::Server {
                part(false, Opcode::Binary, 3).write(&mut bytes);
                bytes.extend_from_slice(b"abc");
                write_frame(&mut bytes, Opcode::Ping, key, b"in between");
                part(false, Opcode::Continuation, 0).write(&mut bytes);
                part(true, Opcode::Continuation, 2).write(&mut bytes);
                bytes.extend_from_slice(b"de");
            }
            write_frame(&mut bytes, Opcode::Binary, key, &[7; 300]);
            write_frame(&mut bytes, Opcode::Binary, key, b"");
            write_frame(&mut bytes, Opcode::Pong, key, b"");
            write_frame(&mut bytes, Opcode::Close, key, &1000_u16.to_be_bytes());
            let whole = read(from, &[&bytes]).expect("well-formed");
            assert_eq!(whole.len(), if from == Side::Server { 7 } else { 5 });
            assert_eq!(whole[0], (Opcode::Text, "grüße".as_bytes().to_vec()));
            if from == Side::Server {
                assert_eq!(whole[1], (Opcode::Ping, b"in between".to_vec()));
                assert_eq!(whole[2], (Opcode::Binary, b"abcde".to_vec()));
            }
            for split in 0..=bytes.len() {
                let (start, rest) = bytes.split_at(split);
                assert_eq!(read(from, &[start, rest]).as_ref(), Ok(&whole), "{split}");
            }
            assert_eq!(read(from, &bytes.chunks(1).collect::<Vec<_>>()), Ok(whole));
        }
    }

    #[test]
    fn violations_are_faults() {
        for (bytes, fault) in [
            (&[0x91, 0x00][..], Fault::ReservedBit),
            (&[0xc1, 0x00], Fault::ReservedBit),
            (&[0x83, 0x00], Fault::Opcode(3)),
            (&[0x81, 0x80, 0, 0, 0, 0], Fault::Mask(false)),
            (&[0x09, 0x00], Fault::Control),
            (&[0x89, 126, 0, 126], Fault::Control),
            (&[0x80, 0x00], Fault::Order),
            (&[0x01, 0x01, b'a', 0x81, 0x00], Fault::Order),
            (&[0x82, 126, 0, 125], Fault::Length),
            (&[0x82, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff], Fault::Length),
            (&[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0], Fault::Length),
            (&[0x88, 1, 3], Fault::CloseCode),
            (&[0x88, 2, 0x03, 0xed], Fault::CloseCode),
            (&[0x88, 2, 0x13, 0x88], Fault::CloseCode),
            (&[0x88, 3, 0x03, 0xe8, 0xff], Fault::Text),
            (&[0x81, 1, 0xff], Fault::Text),
            (&[0x81, 1, 0xc3], Fault::Text),
            (&[0x01, 1, 0xc3, 0x80, 0x00], Fault::Text),
            (&[0x01, 1, 0xc3, 0x00, 1, b'a'], Fault::Text),
        ] {
            assert_eq!(read(Side::Server, &[bytes]), Err(fault), "{bytes:x?}");
        }
        assert_eq!(read(Side::Client, &[&[0x81, 0x00]]), Err(Fault::Mask(true)));
    }

    #[test]
    fn compression_needs_an_agreement() {
        let mut decoder = Decoder::new(Side::Server, true);
        let begin = Step::Begin { opcode: Opcode::Text, fin: true, compressed: true, length: 1 };
        assert_eq!(decoder.advance(&[0xc1, 0x01]), Ok((2, begin)));
        let data = Step::Data { data: 0..1, end: true };
        assert_eq!(decoder.advance(&[0xff]), Ok((1, data)), "compressed text is not checked");
        let mut decoder = Decoder::new(Side::Server, true);
        assert_eq!(decoder.advance(&[0xc9, 0x00]), Err(Fault::ReservedBit), "a control frame");
    }
}
