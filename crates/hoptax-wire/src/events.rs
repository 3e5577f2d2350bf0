//! Server-sent events: the event stream format of the WHATWG HTML standard, section 9.2.6.
//!
//! A stream is a sequence of lines that end with CR, LF or CRLF. An empty line ends an event. Without a
//! `data` line, there is no event, for example if a comment keeps the connection open.

use memchr::memchr2;
use std::ops::Range;

/// Media type of event streams.
pub const MEDIA_TYPE: &str = "text/event-stream";
/// Header with the last id that a client has seen, in lower case. A client that connects again sends it.
pub const LAST_EVENT_ID: &str = "last-event-id";

/// A part of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The input is used up: call again with the next bytes. No bytes need to be kept.
    NeedMore,
    /// A part of the value of a `data` field, at this position in the input. It can be empty. If `begins` is
    /// true, a new line of data begins. Lines of data are joined by line feeds.
    Data {
        /// The part.
        data: Range<usize>,
        /// True for the first part of a line.
        begins: bool,
    },
    /// A part of the value of an `id` field.
    Id {
        /// The part.
        data: Range<usize>,
        /// True for the first part of a line. The earlier id is then replaced.
        begins: bool,
    },
    /// An event has ended. It has at least one line of data.
    Event,
    /// A comment line has ended.
    Comment,
}

/// Decodes one stream. It takes 8 bytes of memory, because a load has one for each stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Decoder {
    place: Place,
    /// The field's name, while it is read.
    name: Name,
    /// Number of bytes of the name (at the start of a stream, of the byte order mark) that were read.
    read: u8,
    /// True if the byte before was CR: an LF after it belongs to the same line end.
    after_cr: bool,
    /// True if the current event has data.
    has_data: bool,
    /// True if the value of the current line has not begun.
    begins: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// At the beginning of the stream, where a byte order mark is skipped.
    #[default]
    Start,
    /// At the beginning of a line.
    Line,
    /// In the name of a field.
    Name,
    /// After the colon, where one space is skipped.
    Colon,
    /// In the value.
    Value,
}

/// The name of a field, as far as it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Name {
    Data,
    Id,
    Comment,
    #[default]
    Other,
}

const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

impl Decoder {
    /// Decodes the next event from the front of `input`. Also returns the number of bytes consumed.
    pub fn advance(&mut self, input: &[u8]) -> (usize, Step) {
        let mut at = 0;
        while let Some(&byte) = input.get(at) {
            if std::mem::take(&mut self.after_cr) && byte == b'\n' {
                at += 1;
                continue;
            }
            match self.place {
                Place::Start if self.read < 3 && byte == MARK[usize::from(self.read)] => {
                    (self.read, at) = (self.read + 1, at + 1);
                }
                Place::Start => {
                    // An incomplete byte order mark makes the field unknown.
                    let is_broken = self.read > 0 && self.read < 3;
                    self.place = if is_broken { Place::Name } else { Place::Line };
                    self.name = Name::Other;
                }
                Place::Line => match byte {
                    b'\r' | b'\n' => {
                        at += 1;
                        self.after_cr = byte == b'\r';
                        if std::mem::take(&mut self.has_data) {
                            return (at, Step::Event);
                        }
                    }
                    b':' => {
                        (self.place, self.name, at) = (Place::Value, Name::Comment, at + 1);
                    }
                    _ => {
                        self.name = match byte {
                            b'd' => Name::Data,
                            b'i' => Name::Id,
                            _ => Name::Other,
                        };
                        (self.place, self.read, at) = (Place::Name, 1, at + 1);
                    }
                },
                Place::Name => match byte {
                    b'\r' | b'\n' => {
                        // A line without a colon is a field with an empty value.
                        self.finish_name();
                        self.place = Place::Value;
                        self.begins = true;
                    }
                    b':' => {
                        self.finish_name();
                        (self.place, self.begins, at) = (Place::Colon, true, at + 1);
                    }
                    _ => {
                        self.name_byte(byte);
                        at += 1;
                    }
                },
                Place::Colon => {
                    self.place = Place::Value;
                    at += usize::from(byte == b' ');
                }
                Place::Value => {
                    let rest = &input[at..];
                    let length = memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
                    let data = at..at + length;
                    let is_read = matches!(self.name, Name::Data | Name::Id);
                    if is_read && (length > 0 || self.begins) {
                        let begins = std::mem::take(&mut self.begins);
                        self.has_data |= self.name == Name::Data;
                        let step = match self.name {
                            Name::Data => Step::Data { data: data.clone(), begins },
                            _ => Step::Id { data: data.clone(), begins },
                        };
                        return (data.end, step);
                    }
                    at = data.end;
                    if let Some(&end) = input.get(at) {
                        at += 1;
                        (self.place, self.after_cr) = (Place::Line, end == b'\r');
                        if self.name == Name::Comment {
                            return (at, Step::Comment);
                        }
                    }
                }
            }
        }
        (at, Step::NeedMore)
    }

    fn name_byte(&mut self, byte: u8) {
        let name: &[u8] = match self.name {
            Name::Data => b"data",
            Name::Id => b"id",
            Name::Comment | Name::Other => b"",
        };
        if name.get(usize::from(self.read)) != Some(&byte) {
            self.name = Name::Other;
        }
        self.read = self.read.saturating_add(1);
    }

    fn finish_name(&mut self) {
        let length = match self.name {
            Name::Data => 4,
            Name::Id => 2,
            Name::Comment | Name::Other => return,
        };
        if self.read != length {
            self.name = Name::Other;
        }
    }
}

/// Appends an event with this id and these data. Lines of data end with LF.
pub fn write_event(output: &mut Vec<u8>, id: Option<u64>, data: &[u8]) {
    use std::io::Write as _;
    if let Some(id) = id {
        // Writing to memory cannot fail.
        let _ = writeln!(output, "id: {id}");
    }
    for line in data.split(|byte| *byte == b'\n') {
        output.extend_from_slice(b"data: ");
        output.extend_from_slice(line);
        output.push(b'\n');
    }
    output.push(b'\n');
}

/// A comment, which keeps a connection open.
pub const HEARTBEAT: &[u8] = b": \n\n";

#[cfg(test)]
mod tests {
    use super::*;

    /// The data of each event, the ids, and the number of comments.
    fn read(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, u32) {
        let mut decoder = Decoder::default();
        let (mut events, mut ids, mut comments) = (Vec::new(), Vec::<Vec<u8>>::new(), 0);
        let mut current: Option<Vec<u8>> = None;
        for piece in pieces {
            let mut rest = *piece;
            loop {
                let (consumed, step) = decoder.advance(rest);
                match step {
                    Step::NeedMore => {
                        assert_eq!(consumed, rest.len());
                        break;
                    }
                    Step::Data { data, begins } => {
                        match &mut current {
                            Some(current) if begins => current.push(b'\n'),
                            Some(_) => {}
                            None => assert!(begins),
                        }
                        current.get_or_insert_default().extend_from_slice(&rest[data]);
                    }
                    Step::Id { data, begins } => {
                        if begins {
                            ids.push(Vec::new());
                        }
                        ids.last_mut().expect("it has begun").extend_from_slice(&rest[data]);
                    }
                    Step::Event => events.push(current.take().expect("it has data")),
                    Step::Comment => comments += 1,
                }
                rest = &rest[consumed..];
            }
        }
        (events, ids, comments)
    }

    #[test]
    fn every_line_end_and_every_split_give_the_same_events() {
        let text = "\u{feff}: hello\n\nid: 7\ndata: one\ndata:two\ndata\n\nevent: x\nretry: 5\n\n\
                    data:  three\nignored: 1\n\n:\ndate: no\nidx: no\ndata:x\n\n";
        let expected =
            (vec![b"one\ntwo\n".to_vec(), b" three".to_vec(), b"x".to_vec()], vec![b"7".to_vec()], 2);
        for end in ["\n", "\r", "\r\n"] {
            let bytes = text.replace('\n', end).into_bytes();
            for split in 0..=bytes.len() {
                let (start, rest) = bytes.split_at(split);
                assert_eq!(read(&[start, rest]), expected, "{end:?} {split}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(read(&single), expected, "{end:?}");
        }
    }

    #[test]
    fn an_event_without_its_empty_line_has_not_ended() {
        assert_eq!(read(&[b"data: x\n"]), (Vec::new(), Vec::new(), 0));
        assert_eq!(read(&[b"data: x\r\n\r"]).0, [b"x"]);
        assert_eq!(read(&[b"data:\n\n"]).0, [b""]);
        assert_eq!(read(&[b"\n\n\r\r"]).0, Vec::<Vec<u8>>::new());
        assert_eq!(read(&[b"\xef\xbbdata: x\n\ndata: y\n\n"]).0, [b"y"], "a broken byte order mark");
    }

    #[test]
    fn what_is_written_is_read() {
        let mut output = Vec::new();
        write_event(&mut output, Some(3), b"a\nb");
        output.extend_from_slice(HEARTBEAT);
        write_event(&mut output, None, b"");
        assert_eq!(output, b"id: 3\ndata: a\ndata: b\n\n: \n\ndata: \n\n");
        assert_eq!(read(&[&output]), (vec![b"a\nb".to_vec(), Vec::new()], vec![b"3".to_vec()], 1));
    }
}
