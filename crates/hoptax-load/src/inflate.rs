//! Inflates compressed messages of WebSockets (RFC 7692), each by itself.

use flate2::{Decompress, FlushDecompress, Status};

/// Maximum length of a compressed message, bytes. hoptax's servers send shorter ones. The limit keeps a
/// faulty server from filling the memory.
pub(crate) const LONGEST_COMPRESSED: usize = 16 << 20;
/// Maximum length of an inflated message, bytes. One compressed byte inflates to 1,032 bytes at most.
const LONGEST: u64 = 256 << 20;
/// The end of each compressed message, which senders leave out (RFC 7692, section 7.2.1).
const END: [u8; 4] = [0x00, 0x00, 0xff, 0xff];
/// Length of the parts of a message, bytes.
const PART: usize = 16 << 10;

/// Memory for inflating, which all connections of a worker share.
#[derive(Debug)]
pub(crate) struct Inflater {
    state: Decompress,
    part: Box<[u8]>,
}

impl Inflater {
    pub(crate) fn new() -> Self {
        Self { state: Decompress::new(false), part: vec![0; PART].into() }
    }

    /// Inflates a whole message. Calls `read` with each part of it. Appends the end to `message`.
    ///
    /// # Errors
    /// If the message is not compressed by itself, or if it is too long.
    pub(crate) fn inflate(
        &mut self,
        message: &mut Vec<u8>,
        mut read: impl FnMut(&[u8]),
    ) -> Result<(), &'static str> {
        const INVALID: &str = "a compressed message is not valid";
        message.extend_from_slice(&END);
        self.state.reset(false);
        let (mut input, mut total) = (message.as_slice(), 0);
        loop {
            let before = (self.state.total_in(), self.state.total_out());
            let status = self.state.decompress(input, &mut self.part, FlushDecompress::Sync);
            let status = status.map_err(|_| INVALID)?;
            let consumed = (self.state.total_in() - before.0) as usize;
            let length = (self.state.total_out() - before.1) as usize;
            read(&self.part[..length]);
            input = &input[consumed..];
            total += length as u64;
            if total > LONGEST {
                return Err("a compressed message is too long");
            }
            match status {
                Status::StreamEnd if input.len() <= END.len() => return Ok(()),
                // More blocks can follow a final one (RFC 7692, section 7.2.1).
                Status::StreamEnd => self.state.reset(false),
                _ if input.is_empty() && length < PART => return Ok(()),
                _ if consumed == 0 && length == 0 => return Err(INVALID),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compress, Compression, FlushCompress};

    /// A message as servers compress it: without its end.
    fn deflated(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() + 1000);
        let mut state = Compress::new(Compression::default(), false);
        state.compress_vec(text, &mut out, FlushCompress::Sync).expect("there is room");
        assert_eq!(state.total_in(), text.len() as u64);
        out.strip_suffix(&END).expect("a flush ends so").to_vec()
    }

    fn inflated(inflater: &mut Inflater, mut message: Vec<u8>) -> Result<Vec<u8>, &'static str> {
        let mut found = Vec::new();
        inflater.inflate(&mut message, |part| found.extend_from_slice(part)).map(|()| found)
    }

    #[test]
    fn messages_are_inflated_one_by_one() {
        let mut inflater = Inflater::new();
        // RFC 7692, section 7.2.3.1.
        let hello = vec![0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
        assert_eq!(inflated(&mut inflater, hello.clone()).as_deref(), Ok(&b"Hello"[..]));
        assert_eq!(inflated(&mut inflater, vec![0]).as_deref(), Ok(&b""[..]));
        for length in [1, 19, PART - 1, PART, PART + 1, 10 * PART] {
            let text: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            assert_eq!(inflated(&mut inflater, deflated(&text)).as_ref(), Ok(&text), "{length}");
        }
        assert_eq!(inflated(&mut inflater, hello).as_deref(), Ok(&b"Hello"[..]));
    }

    #[test]
    fn blocks_after_a_final_block_belong_to_the_message() {
        let mut whole = Vec::with_capacity(1000);
        let mut state = Compress::new(Compression::default(), false);
        state.compress_vec(b"first, ", &mut whole, FlushCompress::Finish).expect("there is room");
        let message = [whole.as_slice(), &deflated(b"second")].concat();
        let mut inflater = Inflater::new();
        assert_eq!(inflated(&mut inflater, message).as_deref(), Ok(&b"first, second"[..]));
        for end in [&[][..], &[0]] {
            let message = [whole.as_slice(), end].concat();
            assert_eq!(inflated(&mut inflater, message).as_deref(), Ok(&b"first, "[..]));
        }
    }

    #[test]
    fn a_message_that_is_not_compressed_is_refused() {
        let mut inflater = Inflater::new();
        let error = inflated(&mut inflater, b"no deflate at all".to_vec()).expect_err("plain text");
        assert!(error.contains("not valid"), "{error}");
        assert_eq!(inflated(&mut inflater, deflated(b"text")).as_deref(), Ok(&b"text"[..]), "the next one");
    }
}
