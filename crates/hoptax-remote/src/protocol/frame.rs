//! Frames: messages on a stream of bytes. A frame is the length of its message as a `u32` in little-endian
//! order, and then the message, which is JSON. This file does no I/O.

use serde::Serialize;

/// Maximum length of a message, bytes. The longest messages contain the files that a plan names, in base64.
/// Four letters of text, read as a length, are a larger number. So text that another program writes to the
/// stream is recognised at once.
pub const LONGEST: usize = 1 << 27;

/// Length of the number before a message.
const HEAD: usize = size_of::<u32>();

/// A message that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a message of {0} bytes is longer than the limit of {LONGEST} bytes. If the plan names large files, use \
     smaller ones; otherwise something else writes to the same stream"
)]
pub struct TooLong(pub usize);

/// The frame of a message.
///
/// # Errors
/// If the message is too long.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, TooLong> {
    let mut bytes = vec![0; HEAD];
    serde_json::to_writer(&mut bytes, message).expect("messages have only string keys");
    let length = bytes.len() - HEAD;
    if length > LONGEST {
        return Err(TooLong(length));
    }
    bytes[..HEAD].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}

/// Splits a stream of bytes into messages.
#[derive(Debug, Default)]
pub struct Decoder {
    received: Vec<u8>,
}

impl Decoder {
    /// Adds bytes that were received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// The next message; `None` if it has not been received completely.
    ///
    /// # Errors
    /// If the next message is too long. Nothing after it can be read.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        let Some((head, rest)) = self.received.split_first_chunk::<HEAD>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length > LONGEST {
            return Err(TooLong(length));
        }
        if rest.len() < length {
            return Ok(None);
        }
        let after = self.received.split_off(HEAD + length);
        let mut message = std::mem::replace(&mut self.received, after);
        message.drain(..HEAD);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(decoder: &mut Decoder) -> Vec<String> {
        std::iter::from_fn(|| decoder.next_message().expect("short"))
            .map(|message| String::from_utf8(message).expect("text"))
            .collect()
    }

    #[test]
    fn messages_survive_every_split() {
        let texts = ["", "a", "the third"];
        let stream: Vec<u8> = texts.iter().flat_map(|text| encode(text).expect("short")).collect();
        let expected = ["\"\"", "\"a\"", "\"the third\""];
        for size in 1..=stream.len() {
            let mut decoder = Decoder::default();
            let mut found = Vec::new();
            for piece in stream.chunks(size) {
                decoder.push(piece);
                found.extend(messages(&mut decoder));
            }
            assert_eq!(found, expected, "in pieces of {size} bytes");
        }
    }

    #[test]
    fn an_incomplete_message_is_kept_for_later() {
        let stream = encode(&"later").expect("short");
        let mut decoder = Decoder::default();
        decoder.push(&stream[..stream.len() - 1]);
        assert_eq!(decoder.next_message(), Ok(None));
        decoder.push(&stream[stream.len() - 1..]);
        decoder.push(&[7, 0]);
        assert_eq!(messages(&mut decoder), ["\"later\""]);
        assert_eq!(decoder.next_message(), Ok(None), "half of a length");
    }

    #[test]
    fn a_length_above_the_limit_is_refused_before_its_bytes_arrive() {
        let mut decoder = Decoder::default();
        decoder.push(&(LONGEST as u32).to_le_bytes());
        assert_eq!(decoder.next_message(), Ok(None), "just within the limit");
        let mut decoder = Decoder::default();
        decoder.push(&(LONGEST as u32 + 1).to_le_bytes());
        assert_eq!(decoder.next_message(), Err(TooLong(LONGEST + 1)));
    }

    #[test]
    fn text_that_is_no_frame_is_refused() {
        let texts = ["Last login: Mon Nov 23 from 10.0.0.7\n", "GET / HTTP/1.1\r\n", "Hi!\n", "\n\n\n\n"];
        let told = texts.map(|text| {
            let mut decoder = Decoder::default();
            decoder.push(text.as_bytes());
            decoder.next_message().expect_err("the letters are a large number").to_string()
        });
        insta::assert_snapshot!(told.join("\n"));
    }
}
