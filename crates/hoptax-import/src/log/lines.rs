//! Input that may be compressed with gzip, as rotated logs are.

use flate2::read::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Read};

/// A buffered input whose first bytes can be read in advance.
pub(crate) struct Input<'a>(BufReader<Box<dyn Read + 'a>>);

/// Size of the buffer, bytes.
const BUFFER: usize = 256 * 1024;

/// Decompresses gzip, and leaves everything else as it is.
pub(crate) fn unpacked<'a>(input: impl Read + 'a) -> io::Result<Input<'a>> {
    let mut buffered = BufReader::with_capacity(BUFFER, input);
    let is_gzip = buffered.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    let whole: Box<dyn Read + 'a> =
        if is_gzip { Box::new(MultiGzDecoder::new(buffered)) } else { Box::new(buffered) };
    Ok(Input(BufReader::with_capacity(BUFFER, whole)))
}

impl Input<'_> {
    /// Up to `most` bytes from the beginning. They stay in the input.
    pub(crate) fn peek(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let bytes = self.0.fill_buf()?;
        Ok(bytes[..most.min(bytes.len())].to_vec())
    }
}

impl Read for Input<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl BufRead for Input<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.0.consume(bytes);
    }
}
