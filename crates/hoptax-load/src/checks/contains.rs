//! Searches for a text in data that arrives in pieces, without storing the pieces.
//!
//! Between two pieces, only the length of the current partial match is stored (Knuth, Morris, Pratt: "Fast
//! pattern matching in strings", 1977). If there is no partial match, the rest of the piece is searched with
//! vector instructions.

use memchr::memmem::Finder;

#[derive(Debug, Clone)]
pub(super) struct Needle {
    finder: Finder<'static>,
    /// Element `i` describes the first `i + 1` bytes of the text. It is the length of the longest text that
    /// is both a beginning and an end of these bytes, but not all of them.
    shorter: Box<[u32]>,
}

impl Needle {
    /// Prepares the search. `text` must not be empty, and must be shorter than 4 GiB.
    pub(super) fn new(text: &[u8]) -> Self {
        let mut shorter = vec![0u32; text.len()];
        let mut length = 0;
        for at in 1..text.len() {
            while length > 0 && text[at] != text[length] {
                length = shorter[length - 1] as usize;
            }
            length += usize::from(text[at] == text[length]);
            shorter[at] = length as u32;
        }
        Self { finder: Finder::new(text).into_owned(), shorter: shorter.into() }
    }

    fn text(&self) -> &[u8] {
        self.finder.needle()
    }

    /// True if the text was found. `seen` is the state after the last piece.
    pub(super) fn is_found(&self, seen: u32) -> bool {
        seen as usize == self.text().len()
    }

    /// Processes the next piece and returns the new state. `seen` is the old state: 0 for the first piece,
    /// and otherwise the result of the previous call.
    pub(super) fn advance(&self, seen: u32, piece: &[u8]) -> u32 {
        if self.is_found(seen) {
            return seen;
        }
        let (seen, rest) = self.step(seen as usize, piece, |seen| seen == 0);
        if seen > 0 || rest.is_empty() {
            return seen as u32;
        }
        if self.finder.find(rest).is_some() {
            return self.text().len() as u32;
        }
        // An occurrence that continues in the next piece can begin only in these last bytes.
        let tail = &rest[rest.len() - rest.len().min(self.text().len() - 1)..];
        self.step(0, tail, |_| false).0 as u32
    }

    /// Compares byte by byte until the text is found or `enough` returns true. Returns the state and the part
    /// of the piece that was not compared.
    fn step<'p>(
        &self,
        mut seen: usize,
        piece: &'p [u8],
        enough: impl Fn(usize) -> bool,
    ) -> (usize, &'p [u8]) {
        let text = self.text();
        for (at, &byte) in piece.iter().enumerate() {
            if seen == text.len() || enough(seen) {
                return (seen, &piece[at..]);
            }
            while seen > 0 && text[seen] != byte {
                seen = self.shorter[seen - 1] as usize;
            }
            seen += usize::from(text[seen] == byte);
        }
        (seen, &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::random::Random;

    fn found(needle: &Needle, pieces: &[&[u8]]) -> bool {
        needle.is_found(pieces.iter().fold(0, |seen, piece| needle.advance(seen, piece)))
    }

    #[test]
    fn finds_texts_across_any_split() {
        for (text, body) in [
            ("abab", "xabaabab"),
            ("aab", "aaaaab"),
            ("a", "xxa"),
            ("abcabd", "abcabcabdx"),
            ("issip", "mississippi"),
            ("\"ok\":true", "{\"o\"ok\":\"ok\":true}"),
        ] {
            let needle = Needle::new(text.as_bytes());
            let body = body.as_bytes();
            for first in 0..=body.len() {
                for second in first..=body.len() {
                    let pieces = [&body[..first], &body[first..second], &body[second..]];
                    assert!(found(&needle, &pieces), "{text:?} at {first}, {second}");
                }
            }
            let bytes: Vec<&[u8]> = body.chunks(1).collect();
            assert!(found(&needle, &bytes), "{text:?} byte by byte");
            assert!(
                !found(&needle, &bytes[..bytes.len() - 2])
                    || body[..body.len() - 2].windows(text.len()).any(|window| window == text.as_bytes())
            );
        }
    }

    /// Compares the results with the results of a plain search. The texts use only two letters, so that many
    /// partial matches overlap.
    #[test]
    fn agrees_with_the_definition_on_random_texts() {
        let mut random = Random::new(11);
        let mut letters = |most: u64| -> Vec<u8> {
            let length = 1 + random.below(most);
            (0..length).map(|_| b'a' + random.below(2) as u8).collect()
        };
        let mut hits = 0;
        for round in 0..20_000u64 {
            let (text, body) = (letters(7), letters(40));
            let needle = Needle::new(&text);
            let size = 1 + round as usize % 9;
            let expected = body.windows(text.len()).any(|window| window == text);
            let pieces: Vec<&[u8]> = body.chunks(size).collect();
            assert_eq!(found(&needle, &pieces), expected, "{text:?} in {body:?} by {size}");
            hits += u32::from(expected);
        }
        assert!((4_000..16_000).contains(&hits), "{hits} hits: the texts test both answers");
    }
}
