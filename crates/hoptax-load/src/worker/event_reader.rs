//! Reads the events of a response, and the stamps in their data.

use hoptax_format::messages::{Stamp, TextStamps};
use hoptax_wire::events::{Decoder, Step};

/// Maximum number of stamps of an event that are read, so that no server can fill the memory. No gateway
/// merges this many events into one.
const MOST_STAMPS: usize = 4096;

/// The reader of one response.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    decoder: Decoder,
    text: TextStamps,
    /// The stamps of the current event, in order. If a gateway has merged events, there are several.
    pub(super) stamps: Vec<Stamp>,
    /// True if the body is compressed, and cannot be read.
    pub(super) is_encoded: bool,
}

/// Result of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// All input was used.
    More,
    /// A whole event. The caller takes its stamps.
    Event,
    /// A comment.
    Comment,
}

impl EventReader {
    /// Prepares for the next response. The list of stamps keeps its memory.
    pub(super) fn begin(&mut self) {
        self.stamps.clear();
        *self = Self { stamps: std::mem::take(&mut self.stamps), ..Self::default() };
    }

    /// Reads up to the end of the next event or comment. Also returns the number of bytes that were used.
    pub(super) fn advance(&mut self, data: &[u8]) -> (usize, Read) {
        self.advance_with(data, |_| {})
    }

    /// Like [`Self::advance`]. Passes each part of the data of events to `pass`, with a line feed before each
    /// line.
    pub(super) fn advance_with(&mut self, data: &[u8], mut pass: impl FnMut(&[u8])) -> (usize, Read) {
        let mut at = 0;
        loop {
            let rest = &data[at..];
            let (consumed, step) = self.decoder.advance(rest);
            at += consumed;
            match step {
                Step::NeedMore => return (data.len(), Read::More),
                Step::Data { data: part, begins } => {
                    if begins {
                        self.text.end();
                        pass(b"\n");
                    }
                    pass(&rest[part.clone()]);
                    let stamps = &mut self.stamps;
                    self.text.read(&rest[part], |stamp| {
                        if stamps.len() < MOST_STAMPS {
                            stamps.push(stamp);
                        }
                    });
                }
                Step::Id { .. } => {}
                Step::Event => {
                    self.text.end();
                    return (at, Read::Event);
                }
                Step::Comment => return (at, Read::Comment),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: u64) -> String {
        let mut stamp = [0; Stamp::TEXT_LENGTH];
        Stamp { number, due: 7 }.write_text(&mut stamp);
        String::from_utf8(stamp.to_vec()).expect("ASCII")
    }

    /// The numbers in each event, and the number of comments.
    fn read(reader: &mut EventReader, pieces: &[&[u8]]) -> (Vec<Vec<u64>>, u32) {
        let (mut events, mut comments) = (Vec::new(), 0);
        for piece in pieces {
            let mut rest = *piece;
            loop {
                let (consumed, read) = reader.advance(rest);
                rest = &rest[consumed..];
                match read {
                    Read::More => break,
                    Read::Event => events.push(reader.stamps.drain(..).map(|stamp| stamp.number).collect()),
                    Read::Comment => comments += 1,
                }
            }
            assert!(rest.is_empty(), "all input is used");
        }
        (events, comments)
    }

    #[test]
    fn events_have_the_stamps_in_their_data_in_any_split() {
        let (one, two, three) = (text(1), text(2), text(3));
        let (start, end) = three.split_at(10);
        let body = format!(
            "id: {three}\ndata: {{\"text\":\"{one}xxx\"}}\n\n: {three}\n\ndata: {one}{two}\ndata: {three}\n\n\
             data: {start}\ndata: {end}\n\ndata: no stamp\n\ndata: {start}\n\ndata: {end}\n\ndata: {two}\n"
        );
        let expected = (vec![vec![1], vec![1, 2, 3], vec![], vec![], vec![], vec![]], 1);
        for ends in ["\n", "\r\n", "\r"] {
            let bytes = body.replace('\n', ends).into_bytes();
            for split in 0..=bytes.len() {
                let (start, rest) = bytes.split_at(split);
                let mut reader = EventReader::default();
                assert_eq!(read(&mut reader, &[start, rest]), expected, "{ends:?} {split}");
                reader.begin();
                assert_eq!(read(&mut reader, &[&bytes]), expected, "the end of the last event is missing");
            }
        }
    }

    #[test]
    fn the_stamps_of_an_event_are_limited() {
        let body = format!("data: {}\n\n", text(5).repeat(MOST_STAMPS + 10));
        let mut reader = EventReader::default();
        assert_eq!(reader.advance(body.as_bytes()), (body.len(), Read::Event));
        assert_eq!(reader.stamps.len(), MOST_STAMPS);
    }
}
