//! Responses of gRPC-Web ([protocol](https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md)): a body
//! with messages, and then a frame with the trailers, as lines in the form of HTTP/1.

use super::{Fault, Messages, PREFIX, STATUS, Status, Step};

/// Flag of the frame with the trailers. Bit 0 is set too if the trailers are compressed.
pub const TRAILERS: u8 = 0x80;
const COMPRESSED: u8 = 1;

/// Appends a frame with trailers, uncompressed.
pub fn write_trailers<'a>(output: &mut Vec<u8>, fields: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let start = output.len();
    output.extend_from_slice(&[TRAILERS, 0, 0, 0, 0]);
    for (name, value) in fields {
        for part in [name, ": ", value, "\r\n"] {
            output.extend_from_slice(part.as_bytes());
        }
    }
    let length = (output.len() - start - PREFIX) as u32;
    output[start + 1..start + PREFIX].copy_from_slice(&length.to_be_bytes());
}

/// Reads the status in the frame with the trailers of one body. It takes eight bytes of memory, because a
/// load has one for each request in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WebTrailers {
    /// Bytes of the length in the prefix. In the trailers, the number of bytes that are still missing.
    length: [u8; 4],
    /// Number of bytes of the prefix that were read, or [`WHOLE`].
    place: u8,
    line: Line,
    status: Option<Status>,
}

/// Place after the last byte of the frame.
const WHOLE: u8 = PREFIX as u8 + 1;

/// What was read of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// This number of bytes, which are the first ones of [`STATUS`].
    Name(u8),
    /// `grpc-status:`, and perhaps spaces.
    Blank,
    /// The digits of this number too.
    Number(u8),
    /// Spaces after the number too.
    Padded(u8),
    /// The status, which is not a number.
    Wrong,
    /// Another field.
    Other,
    /// The trailers are compressed, so they have no lines.
    Compressed,
}

impl Default for Line {
    fn default() -> Self {
        Self::Name(0)
    }
}

impl Line {
    fn after(self, byte: u8) -> Self {
        let is_space = matches!(byte, b' ' | b'\t' | b'\r');
        match self {
            Self::Name(length) => match STATUS.as_bytes().get(usize::from(length)) {
                Some(expected) if byte.eq_ignore_ascii_case(expected) => Self::Name(length + 1),
                None if byte == b':' => Self::Blank,
                _ => Self::Other,
            },
            Self::Blank | Self::Padded(_) if is_space => self,
            Self::Number(number) if is_space => Self::Padded(number),
            Self::Blank if byte.is_ascii_digit() => Self::Number(byte - b'0'),
            Self::Number(number) if byte.is_ascii_digit() => {
                let longer = number.checked_mul(10).and_then(|tens| tens.checked_add(byte - b'0'));
                longer.map_or(Self::Wrong, Self::Number)
            }
            Self::Blank | Self::Number(_) | Self::Padded(_) => Self::Wrong,
            Self::Wrong | Self::Other | Self::Compressed => self,
        }
    }

    /// The status in the line, if the line has one.
    fn status(self) -> Option<Status> {
        match self {
            Self::Number(number) | Self::Padded(number) => {
                Some(Status::ALL.get(usize::from(number)).copied().unwrap_or(Status::Unknown))
            }
            Self::Blank | Self::Wrong | Self::Compressed => Some(Status::Unknown),
            Self::Name(_) | Self::Other => None,
        }
    }
}

impl WebTrailers {
    /// The status of the call, once the frame is whole. `None` if the frame has no status, or did not arrive.
    /// UNKNOWN if the trailers are compressed.
    #[inline]
    pub fn status(&self) -> Option<Status> {
        self.status.filter(|_| self.place == WHOLE)
    }

    /// Decodes the next event from the front of `input`, with `messages` for the messages before the
    /// trailers. Also returns the number of bytes consumed. `most` is the largest accepted length of a
    /// message, bytes. Bytes after the trailers are a fault: `messages` is not between two messages then.
    ///
    /// # Errors
    /// See [`Messages::advance`].
    pub fn advance(
        &mut self,
        messages: &mut Messages,
        input: &[u8],
        most: u32,
    ) -> Result<(usize, Step), Fault> {
        let begins = input.first().is_some_and(|flag| flag & !COMPRESSED == TRAILERS);
        if !messages.is_between() || (self.place == 0 && !begins) {
            return messages.advance(input, most);
        }
        if self.read(input) < input.len() {
            messages.refuse();
        }
        Ok((input.len(), Step::NeedMore))
    }

    /// Decodes all of `input`, if its messages do not matter.
    ///
    /// # Errors
    /// See [`Messages::advance`].
    pub fn skim(&mut self, messages: &mut Messages, mut input: &[u8], most: u32) -> Result<(), Fault> {
        loop {
            let (consumed, step) = self.advance(messages, input, most)?;
            if step == Step::NeedMore {
                return Ok(());
            }
            input = &input[consumed..];
        }
    }

    /// Reads a part of the frame. Returns the number of bytes that belong to it.
    fn read(&mut self, input: &[u8]) -> usize {
        let mut consumed = 0;
        while let Some(&byte) = input.get(consumed)
            && usize::from(self.place) < PREFIX
        {
            match usize::from(self.place) {
                0 if byte & COMPRESSED != 0 => self.line = Line::Compressed,
                0 => {}
                at => self.length[at - 1] = byte,
            }
            self.place += 1;
            consumed += 1;
        }
        if usize::from(self.place) != PREFIX {
            return consumed;
        }
        let left = u32::from_be_bytes(self.length);
        let rest = &input[consumed..];
        let here = rest.len().min(left as usize);
        for &byte in &rest[..here] {
            if byte == b'\n' && self.line != Line::Compressed {
                self.end_line();
            } else {
                self.line = self.line.after(byte);
            }
        }
        let left = left - here as u32;
        self.length = left.to_be_bytes();
        if left == 0 {
            // The last line may have no end.
            self.end_line();
            self.place = WHOLE;
        }
        consumed + here
    }

    fn end_line(&mut self) {
        self.status = self.status.or(self.line.status());
        self.line = Line::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::write_message;
    use super::*;

    const MOST: u32 = 1000;

    /// Number of whole messages in `pieces`, whether the body ended well, and the status in its trailers.
    fn outcome(pieces: &[&[u8]]) -> (u8, bool, Option<Status>) {
        let (mut messages, mut trailers) = (Messages::default(), WebTrailers::default());
        for piece in pieces {
            // After a fault, the body does not end well.
            let _ = trailers.skim(&mut messages, piece, MOST);
        }
        (messages.whole(), messages.is_between(), trailers.status())
    }

    fn at_every_split(body: &[u8], expected: (u8, bool, Option<Status>)) {
        assert_eq!(outcome(&[body]), expected, "{body:?}");
        for first in 0..=body.len() {
            let (start, rest) = body.split_at(first);
            assert_eq!(outcome(&[start, rest]), expected, "{body:?} at {first}");
        }
        let single: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(outcome(&single), expected, "{body:?} in bytes");
    }

    fn frame(flag: u8, text: &str) -> Vec<u8> {
        let mut frame = vec![flag, 0, 0, 0, text.len() as u8];
        frame.extend_from_slice(text.as_bytes());
        frame
    }

    fn body(messages: &[&[u8]], flag: u8, text: &str) -> Vec<u8> {
        let mut body = Vec::new();
        for message in messages {
            write_message(&mut body, message).expect("short");
        }
        body.extend_from_slice(&frame(flag, text));
        body
    }

    #[test]
    fn the_trailers_end_a_body_at_every_split() {
        for (text, status) in [
            ("grpc-status: 0\r\n", Some(Status::Ok)),
            ("grpc-status:0\r\n", Some(Status::Ok)),
            ("GRPC-Status:\t16 \r\n", Some(Status::Unauthenticated)),
            ("grpc-message: a: b\r\ngrpc-status: 5\r\nx: y\r\n", Some(Status::NotFound)),
            ("grpc-status: 13", Some(Status::Internal)),
            ("grpc-status: 0\ngrpc-status: 5\n", Some(Status::Ok)),
            ("grpc-status: 17\r\n", Some(Status::Unknown)),
            ("grpc-status: 256\r\n", Some(Status::Unknown)),
            ("grpc-status: -1\r\n", Some(Status::Unknown)),
            ("grpc-status: 1 2\r\n", Some(Status::Unknown)),
            ("grpc-status:\r\n", Some(Status::Unknown)),
            ("grpc-status-details-bin: 0\r\n", None),
            ("x-grpc-status: 0\r\n", None),
            ("grpc-s: 0\r\n", None),
            ("grpc-status\r\n", None),
            ("\r\n", None),
            ("", None),
        ] {
            at_every_split(&body(&[b"first", b"", b"third"], TRAILERS, text), (3, true, status));
            at_every_split(&frame(TRAILERS, text), (0, true, status));
        }
    }

    #[test]
    fn compressed_trailers_have_an_unknown_status() {
        let body = body(&[b"a"], TRAILERS | COMPRESSED, "grpc-status: 0\r\n\n");
        at_every_split(&body, (1, true, Some(Status::Unknown)));
    }

    #[test]
    fn a_part_of_the_trailers_has_no_status() {
        let whole = body(&[b"hello"], TRAILERS, "grpc-status: 0\r\n");
        let message = PREFIX + b"hello".len();
        for length in message..whole.len() {
            assert_eq!(outcome(&[&whole[..length]]), (1, true, None), "{length}");
        }
        assert_eq!(outcome(&[&whole]), (1, true, Some(Status::Ok)));
    }

    #[test]
    fn bytes_after_the_trailers_are_a_fault() {
        let whole = body(&[b"hello"], TRAILERS, "grpc-status: 0\r\n");
        for more in [&b"x"[..], &whole] {
            at_every_split(&[&whole[..], more].concat(), (1, false, Some(Status::Ok)));
        }
        let mut twice = frame(TRAILERS, "");
        twice.extend_from_slice(&frame(TRAILERS, "grpc-status: 0\r\n"));
        at_every_split(&twice, (0, false, None));
    }

    #[test]
    fn other_flags_and_cut_messages_are_faults() {
        for flag in [2, 0x40, 0x82, 0xff] {
            at_every_split(&body(&[b"hello"], flag, "grpc-status: 0\r\n"), (1, false, None));
        }
        let mut cut = vec![0, 0, 0, 0, 9, b'x'];
        cut.extend_from_slice(b"\x80");
        assert_eq!(outcome(&[&cut]), (0, false, None), "the byte belongs to the message");
    }

    #[test]
    fn trailers_are_written_as_they_are_read() {
        let mut output = b"before".to_vec();
        write_trailers(&mut output, [("grpc-status", "5"), ("grpc-message", "no%20such")]);
        let text = "grpc-status: 5\r\ngrpc-message: no%20such\r\n";
        assert_eq!(output, [&b"before"[..], &frame(TRAILERS, text)].concat());
        at_every_split(&output[6..], (0, true, Some(Status::NotFound)));
        assert_eq!(size_of::<WebTrailers>(), 8);
    }
}
