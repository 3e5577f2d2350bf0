//! Messages in a body: each has a prefix of five bytes, a flag and its length.

use std::ops::Range;

/// Length of the prefix, bytes.
pub const PREFIX: usize = 5;

/// Why a body is not a sequence of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The flag of a message is neither 0 nor 1.
    #[error("the flag of a message is {0}; only 0 and 1 are defined")]
    Flag(u8),
    /// A message is too long.
    #[error("a message has {length} bytes, but at most {most} are accepted")]
    TooLong {
        /// Length of the message, bytes.
        length: u64,
        /// The limit, bytes.
        most: u32,
    },
}

/// Appends a message, uncompressed, with its prefix.
///
/// # Errors
/// If the message is 4 GiB long or longer.
pub fn write_message(output: &mut Vec<u8>, message: &[u8]) -> Result<(), Fault> {
    let too_long = |_| Fault::TooLong { length: message.len() as u64, most: u32::MAX };
    let length = u32::try_from(message.len()).map_err(too_long)?;
    output.push(0);
    output.extend_from_slice(&length.to_be_bytes());
    output.extend_from_slice(message);
    Ok(())
}

/// A part of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The input is used up: call again with the next bytes. No bytes need to be kept.
    NeedMore,
    /// A message begins.
    Begin {
        /// True if the message is compressed.
        compressed: bool,
        /// Length of the message, bytes. If it is 0, the message has also ended.
        length: u32,
    },
    /// A part of a message, at this position in the input.
    Data {
        /// The part.
        data: Range<usize>,
        /// True if the message has ended.
        end: bool,
    },
}

/// Decodes the messages of one body. It takes five bytes of memory, because a load has one for each stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Messages {
    /// Bytes of the length in the prefix. In a message, the number of bytes that are still missing.
    length: [u8; 4],
    /// Bits 0 to 2: number of bytes of the prefix that were read, or [`BROKEN`]. Bit 3: the message is
    /// compressed. Bits 4 to 7: number of whole messages.
    state: u8,
}

const AT: u8 = 0b111;
/// Place after a fault.
const BROKEN: u8 = 7;
const COMPRESSED: u8 = 0b1000;
/// Position of the number of whole messages.
const WHOLE: u32 = 4;

impl Messages {
    /// Largest number of whole messages that are counted.
    pub const MOST_COUNTED: u8 = u8::MAX >> WHOLE;

    /// Number of whole messages so far, at most [`Messages::MOST_COUNTED`].
    #[inline]
    pub fn whole(&self) -> u8 {
        self.state >> WHOLE
    }

    /// True if the body can end here: no message is incomplete, and there was no fault.
    #[inline]
    pub fn is_between(&self) -> bool {
        self.state & AT == 0
    }

    /// Ignores all further input, as after a fault.
    pub(super) fn refuse(&mut self) {
        self.state |= BROKEN;
    }

    /// Decodes the next event from the front of `input`. Also returns the number of bytes consumed. `most` is
    /// the largest accepted length of a message, bytes.
    ///
    /// # Errors
    /// If the bytes are not a message, or if it is too long. All further input is ignored then.
    pub fn advance(&mut self, input: &[u8], most: u32) -> Result<(usize, Step), Fault> {
        let step = self.step(input, most);
        if step.is_err() {
            self.refuse();
        }
        step
    }

    fn step(&mut self, input: &[u8], most: u32) -> Result<(usize, Step), Fault> {
        if self.state & AT == BROKEN {
            return Ok((input.len(), Step::NeedMore));
        }
        if usize::from(self.state & AT) == PREFIX {
            return Ok(self.data(input));
        }
        for (place, &byte) in input.iter().enumerate() {
            match usize::from(self.state & AT) {
                0 if byte > 1 => return Err(Fault::Flag(byte)),
                0 => self.state |= byte * COMPRESSED,
                at => self.length[at - 1] = byte,
            }
            self.state += 1;
            if usize::from(self.state & AT) == PREFIX {
                return self.begin(most).map(|step| (place + 1, step));
            }
        }
        Ok((input.len(), Step::NeedMore))
    }

    /// Decodes all of `input`, if only [`Messages::whole`] matters.
    ///
    /// # Errors
    /// See [`Messages::advance`].
    #[inline]
    pub fn skim(&mut self, mut input: &[u8], most: u32) -> Result<(), Fault> {
        loop {
            let (consumed, step) = self.advance(input, most)?;
            if step == Step::NeedMore {
                return Ok(());
            }
            input = &input[consumed..];
        }
    }

    fn begin(&mut self, most: u32) -> Result<Step, Fault> {
        let (length, compressed) = (u32::from_be_bytes(self.length), self.state & COMPRESSED != 0);
        if length > most {
            return Err(Fault::TooLong { length: length.into(), most });
        }
        if length == 0 {
            self.end();
        }
        Ok(Step::Begin { compressed, length })
    }

    fn data(&mut self, input: &[u8]) -> (usize, Step) {
        if input.is_empty() {
            return (0, Step::NeedMore);
        }
        let left = u32::from_be_bytes(self.length);
        let here = input.len().min(left as usize);
        let left = left - here as u32;
        self.length = left.to_be_bytes();
        if left == 0 {
            self.end();
        }
        (here, Step::Data { data: 0..here, end: left == 0 })
    }

    fn end(&mut self) {
        let whole = self.whole().saturating_add(1).min(Self::MOST_COUNTED);
        self.state = whole << WHOLE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u32 = 1000;

    /// The messages in `pieces`, each with whether it is compressed.
    fn messages(pieces: &[&[u8]]) -> Result<Vec<(bool, Vec<u8>)>, Fault> {
        let (mut decoder, mut skimmed) = (Messages::default(), Messages::default());
        let (mut found, mut ended) = (Vec::new(), 0);
        for piece in pieces {
            let mut rest = *piece;
            loop {
                let (consumed, step) = decoder.advance(rest, MOST)?;
                match step {
                    Step::NeedMore => {
                        assert_eq!(consumed, rest.len());
                        break;
                    }
                    Step::Begin { compressed, length } => {
                        found.push((compressed, Vec::new()));
                        ended += u8::from(length == 0);
                    }
                    Step::Data { data, end } => {
                        assert_eq!(data, 0..consumed);
                        found.last_mut().expect("it has begun").1.extend_from_slice(&rest[data]);
                        ended += u8::from(end);
                    }
                }
                rest = &rest[consumed..];
            }
            skimmed.skim(piece, MOST)?;
            assert_eq!((decoder.whole(), skimmed), (ended.min(Messages::MOST_COUNTED), decoder));
        }
        assert_eq!(decoder.is_between(), found.len() == usize::from(ended));
        Ok(found)
    }

    fn body() -> Vec<u8> {
        let mut body = Vec::new();
        write_message(&mut body, b"first").expect("short");
        write_message(&mut body, b"").expect("short");
        body.extend_from_slice(&[1, 0, 0, 1, 2]);
        body.extend_from_slice(&[b'z'; 0x102]);
        body
    }

    #[test]
    fn every_split_of_a_body_has_the_same_messages() {
        let body = body();
        let expected = vec![(false, b"first".to_vec()), (false, Vec::new()), (true, vec![b'z'; 0x102])];
        assert_eq!(messages(&[&body]), Ok(expected.clone()));
        for first in 0..=body.len() {
            let (start, rest) = body.split_at(first);
            assert_eq!(messages(&[start, rest]), Ok(expected.clone()), "{first}");
            for second in 0..rest.len().min(20) {
                let (middle, end) = rest.split_at(second);
                assert_eq!(messages(&[start, middle, end]), Ok(expected.clone()), "{first} and {second}");
            }
        }
        let single: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(messages(&single), Ok(expected));
    }

    #[test]
    fn a_message_has_its_prefix() {
        assert_eq!(body()[..15], *b"\0\0\0\0\x05first\0\0\0\0\0");
    }

    #[test]
    fn a_part_of_a_message_is_not_whole() {
        let body = body();
        for length in 1..10 {
            let mut decoder = Messages::default();
            decoder.skim(&body[..length], MOST).expect("valid so far");
            assert_eq!((decoder.whole(), decoder.is_between()), (0, false), "{length}");
        }
    }

    #[test]
    fn wrong_prefixes_are_refused_at_every_split() {
        for (wrong, fault) in [
            (&b"\x02\0\0\0\0"[..], Fault::Flag(2)),
            (b"\0\0\0\x03\xe9", Fault::TooLong { length: 1001, most: MOST }),
            (b"\x01\xff\xff\xff\xff", Fault::TooLong { length: u32::MAX.into(), most: MOST }),
        ] {
            for split in 0..=wrong.len() {
                let (start, rest) = wrong.split_at(split);
                assert_eq!(messages(&[start, rest]), Err(fault), "{wrong:?} at {split}");
            }
            let mut decoder = Messages::default();
            assert_eq!(decoder.skim(wrong, MOST), Err(fault));
            assert_eq!(decoder.skim(&[0; 3 * PREFIX], MOST), Ok(()), "further input is ignored");
            assert_eq!((decoder.whole(), decoder.is_between()), (0, false));
        }
    }

    #[test]
    fn many_messages_are_counted_up_to_a_limit() {
        let mut decoder = Messages::default();
        decoder.skim(&[0; 100 * PREFIX], MOST).expect("empty messages");
        assert_eq!(decoder.whole(), Messages::MOST_COUNTED);
        assert!(decoder.is_between());
        assert_eq!(size_of::<Messages>(), 5);
    }
}
