//! Checks that text is UTF-8.

/// Checks a text that comes in parts. A character can begin in one part and end in another.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Utf8 {
    /// The first bytes of a character whose other bytes have not arrived.
    start: [u8; 3],
    length: u8,
}

impl Utf8 {
    /// Reads the next part. Returns false as soon as the text cannot be UTF-8.
    pub(super) fn read(&mut self, mut part: &[u8]) -> bool {
        while self.length > 0
            && let Some((byte, rest)) = part.split_first()
        {
            let length = usize::from(self.length);
            let mut character = [0; 4];
            character[..length].copy_from_slice(&self.start[..length]);
            character[length] = *byte;
            match std::str::from_utf8(&character[..=length]) {
                Ok(_) => self.length = 0,
                Err(error) if error.error_len().is_some() => return false,
                // Four bytes are a whole character, or none.
                Err(_) => {
                    self.start[length] = *byte;
                    self.length += 1;
                }
            }
            part = rest;
        }
        match std::str::from_utf8(part) {
            Ok(_) => true,
            Err(error) if error.error_len().is_some() => false,
            Err(error) => {
                let start = &part[error.valid_up_to()..];
                self.start[..start.len()].copy_from_slice(start);
                self.length = start.len() as u8;
                true
            }
        }
    }

    /// True if the text can end here.
    pub(super) fn is_whole(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// True if a text in these parts is UTF-8.
    fn is_text(parts: &[&[u8]]) -> bool {
        let mut text = Utf8::default();
        parts.iter().all(|part| text.read(part)) && text.is_whole()
    }

    #[test]
    fn every_split_gives_the_same_result() {
        for (text, expected) in [
            ("aß€😀".as_bytes(), true),
            (b"a\xc3", false),
            (b"\xf0\x9f\x98", false),
            (b"\xc3(", false),
            (b"\xc0\x80", false),
            (b"\xed\xa0\x80", false),
            (b"\xf4\x90\x80\x80", false),
            (b"\x80", false),
            (b"a\xff", false),
        ] {
            for split in 0..=text.len() {
                let (start, rest) = text.split_at(split);
                assert_eq!(is_text(&[start, rest]), expected, "{text:x?} {split}");
            }
            assert_eq!(is_text(&text.chunks(1).collect::<Vec<_>>()), expected, "{text:x?}");
        }
    }

    #[test]
    fn a_fault_is_found_before_its_character_ends() {
        let mut text = Utf8::default();
        assert!(text.read(b"\xf4"));
        assert!(!text.read(b"\x90"));
    }
}
