//! Server-sent events: which requests get them, when each event is due, and its text.
//!
//! A *write* has the events that are due at the same time, or a part of one event. The schedule counts from
//! the head of the response and does not depend on when earlier events were sent.

use super::answer::{Answers, pattern};
use super::stream::{EventStream, Next, end_of_part, nanoseconds};
use hoptax_format::messages::{ENDLESS, Stamp};
use hoptax_plan::{UpstreamEvents, event_streams};
use hoptax_wire::events::{HEARTBEAT, LAST_EVENT_ID, MEDIA_TYPE, write_event};

/// The events of an instance. Its streams share the memory for the text of a write.
#[derive(Debug, Clone)]
pub(super) struct Events {
    /// Number of events; [`u64::MAX`] if they do not end. Times are in nanoseconds.
    count: u64,
    first: u64,
    gap: u64,
    per_write: u64,
    split: usize,
    /// [`u64::MAX`] if there are no comments.
    heartbeat: u64,
    /// The heads of the responses.
    answers: Answers,
    /// The data of an event, which begin with a stamp.
    data: Vec<u8>,
    /// The text of the current write.
    text: Vec<u8>,
    /// The write that `text` belongs to: when the head of its stream was due, the first event of the stream,
    /// and the first event of the write.
    text_of: Option<(u64, u64, u64)>,
}

impl Events {
    /// Prepares the events. `headers` are sent with all responses. If `stamps` is true, heads have space for
    /// stamps.
    pub(super) fn new(
        settings: &UpstreamEvents,
        headers: &[(String, String)],
        stamps: bool,
    ) -> anyhow::Result<Self> {
        event_streams::check(settings)?;
        let mut data = pattern(settings.bytes as usize);
        // A line feed would begin another line of data.
        data.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'-');
        Ok(Self {
            count: if settings.count == ENDLESS { u64::MAX } else { settings.count.into() },
            first: nanoseconds(settings.first),
            gap: nanoseconds(settings.gap),
            per_write: settings.per_write.into(),
            split: settings.split as usize,
            heartbeat: settings.heartbeat.map_or(u64::MAX, nanoseconds),
            answers: Answers::of_events(MEDIA_TYPE, true, (headers, stamps))?,
            data,
            text: Vec::new(),
            text_of: None,
        })
    }

    pub(super) fn answers(&self) -> &Answers {
        &self.answers
    }

    pub(super) fn answers_mut(&mut self) -> &mut Answers {
        &mut self.answers
    }

    /// True if the parts of an event are sent one by one.
    pub(super) fn is_split(&self) -> bool {
        self.split > 1
    }

    /// True if nothing remains to be sent.
    pub(super) fn is_over(&self, stream: &EventStream) -> bool {
        stream.number >= self.count
    }

    /// When an event is due.
    fn due(&self, stream: &EventStream, number: u64) -> u64 {
        let after = ((number - stream.from) / self.per_write).saturating_mul(self.gap);
        stream.begun.saturating_add(self.first).saturating_add(after)
    }

    /// What a stream does at the time `now`.
    pub(super) fn next(&self, stream: &EventStream, now: u64) -> Next {
        if stream.is_comment {
            return Next::Comment;
        }
        if self.is_over(stream) {
            return Next::End;
        }
        let due = self.due(stream, stream.number);
        let comment = stream.last.saturating_add(self.heartbeat);
        if due <= now {
            Next::Send
        } else if comment <= now {
            Next::Comment
        } else {
            Next::Wait(due.min(comment))
        }
    }

    /// The unsent bytes of the next part, and whether this part ends the stream. `next` is [`Next::Send`] or
    /// [`Next::Comment`].
    pub(super) fn part(&mut self, stream: &EventStream, next: Next) -> (&[u8], bool) {
        if next == Next::Comment {
            return (&HEARTBEAT[stream.sent..], false);
        }
        let after = self.end_of_write(stream);
        // The parts of a long text are sent one by one. Writing the text again for each part would take long.
        let text_of = Some((stream.begun, stream.from, stream.number));
        if self.text_of != text_of {
            self.text_of = text_of;
            self.write_text(stream, after);
        }
        let end = end_of_part(self.text.len(), self.split, stream.sent);
        (&self.text[stream.sent..end], after >= self.count && end == self.text.len())
    }

    /// Writes the text of the next write, which ends before the event `after`.
    fn write_text(&mut self, stream: &EventStream, after: u64) {
        self.text.clear();
        for number in stream.number..after {
            let stamp = Stamp { number, due: self.due(stream, number) };
            if let Some(room) = self.data.first_chunk_mut() {
                stamp.write_text(room);
            }
            write_event(&mut self.text, Some(number), &self.data);
        }
    }

    /// Number of the first event after the next write.
    fn end_of_write(&self, stream: &EventStream) -> u64 {
        stream.number.saturating_add(self.per_write).min(self.count)
    }

    /// Called when the next bytes of the part that [`Events::part`] has returned were sent. Returns the
    /// number of events that are now complete.
    pub(super) fn sent(&self, stream: &mut EventStream, bytes: usize, next: Next, now: u64) -> u64 {
        stream.last = now;
        stream.sent += bytes;
        if next == Next::Comment {
            stream.is_comment = stream.sent < HEARTBEAT.len();
            stream.sent *= usize::from(stream.is_comment);
            return 0;
        }
        if stream.sent < self.text.len() {
            return 0;
        }
        let events = self.end_of_write(stream) - stream.number;
        (stream.number, stream.sent) = (stream.number + events, 0);
        events
    }
}

/// Reads the header fields of a request that can get events.
#[derive(Debug, Default)]
pub(super) struct Requested {
    accepts: bool,
    from: u64,
}

impl Requested {
    /// Reads a field. Names can have upper-case letters.
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) {
        if name.eq_ignore_ascii_case(b"accept") {
            self.accepts |= accepts_events(value);
        } else if name.eq_ignore_ascii_case(LAST_EVENT_ID.as_bytes()) {
            let last = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse::<u64>().ok());
            self.from = last.map_or(0, |last| last.saturating_add(1));
        }
    }

    /// Number of the first event. `None` if the client does not accept events.
    pub(super) fn from(&self) -> Option<u64> {
        self.accepts.then_some(self.from)
    }
}

/// True if a value of `accept` has the media type of event streams.
fn accepts_events(value: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|range| {
        let media_type = range.split(|byte| *byte == b';').next().unwrap_or_default();
        media_type.trim_ascii().eq_ignore_ascii_case(MEDIA_TYPE.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::messages::TextStamps;
    use std::time::Duration;

    const MS: u64 = 1_000_000;
    const USUAL: UpstreamEvents = UpstreamEvents {
        count: 5,
        gap: Duration::from_millis(20),
        bytes: 64,
        first: Duration::from_millis(5),
        per_write: 1,
        split: 1,
        heartbeat: None,
    };

    fn events(settings: &UpstreamEvents) -> Events {
        Events::new(settings, &[], false).expect("good settings")
    }

    fn begun(from: u64, at: u64) -> EventStream {
        let mut stream = EventStream::new(from);
        stream.begin(at);
        stream
    }

    /// Sends everything at the times when it is due. Returns the time and the text of each part.
    fn all(events: &mut Events, mut stream: EventStream) -> Vec<(u64, String)> {
        let (mut now, mut parts) = (0, Vec::new());
        loop {
            match events.next(&stream, now) {
                Next::End => return parts,
                Next::Wait(due) => {
                    assert!(due > now);
                    now = due;
                }
                next => {
                    let (part, is_last) = events.part(&stream, next);
                    let (text, length) = (String::from_utf8(part.to_vec()).expect("text"), part.len());
                    parts.push((now, text));
                    events.sent(&mut stream, length, next, now);
                    assert_eq!(events.is_over(&stream), is_last);
                }
            }
        }
    }

    fn stamps(text: &str) -> Vec<Stamp> {
        let mut stamps = Vec::new();
        TextStamps::default().read(text.as_bytes(), |stamp| stamps.push(stamp));
        stamps
    }

    #[test]
    fn events_are_due_by_a_schedule() {
        let mut events = events(&USUAL);
        let parts = all(&mut events, begun(0, 100 * MS));
        assert_eq!(parts.len(), 5);
        for (number, (now, text)) in (0..).zip(&parts) {
            let due = (105 + 20 * number) * MS;
            assert_eq!((*now, stamps(text)), (due, vec![Stamp { number, due }]));
            let data = text.strip_prefix(&format!("id: {number}\ndata: ~hx")).expect("one line of data");
            assert_eq!(data.len(), 64 - 3 + 2, "the data, and an empty line");
            assert_eq!(data.find('\n'), Some(61));
        }
        // A late stream sends all events that are due, with the times when they were due.
        let late = begun(0, 0);
        assert_eq!(events.next(&late, 4 * MS), Next::Wait(5 * MS));
        assert_eq!(events.next(&late, 50 * MS), Next::Send);
    }

    #[test]
    fn comments_fill_silence() {
        let heartbeat = Some(Duration::from_millis(8));
        let mut events = events(&UpstreamEvents { heartbeat, count: 2, ..USUAL });
        let parts = all(&mut events, begun(0, 0));
        let found: Vec<(u64, bool)> =
            parts.iter().map(|(now, text)| (*now / MS, text.as_bytes() == HEARTBEAT)).collect();
        assert_eq!(found, [(5, false), (13, true), (21, true), (25, false)]);
        // A comment that was sent in part is finished first, even if an event is due.
        let mut stream = begun(0, 0);
        events.sent(&mut stream, 1, Next::Comment, 3 * MS);
        assert_eq!(events.next(&stream, 90 * MS), Next::Comment);
        assert_eq!(events.part(&stream, Next::Comment).0, &HEARTBEAT[1..]);
        events.sent(&mut stream, 3, Next::Comment, 3 * MS);
        assert_eq!(events.next(&stream, 90 * MS), Next::Send);
    }

    #[test]
    fn the_text_of_a_write_is_made_once() {
        let mut events = events(&UpstreamEvents { split: 4, ..USUAL });
        let (mut stream, other) = (begun(0, 0), begun(0, 7));
        let length = events.part(&stream, Next::Send).0.len();
        events.sent(&mut stream, length, Next::Send, 5 * MS);
        events.text[length] = b'!';
        assert_eq!(events.part(&stream, Next::Send).0[0], b'!', "the same text");
        assert_ne!(events.part(&other, Next::Send).0, b"", "another stream had its turn");
        assert_ne!(events.part(&stream, Next::Send).0[0], b'!', "the text is made again");
    }

    #[test]
    fn clients_that_accept_events_are_recognised() {
        for (accept, accepts) in [
            ("text/event-stream", true),
            ("Text/Event-Stream", true),
            ("text/event-stream;q=0.9, */*", true),
            ("text/html, text/event-stream ; charset=utf-8", true),
            ("text/event-streams", false),
            ("*/*", false),
            ("text/html;a=\"text/event-stream\"", false),
            ("", false),
        ] {
            assert_eq!(accepts_events(accept.as_bytes()), accepts, "{accept}");
        }
        let from = |last: &str| {
            let mut requested = Requested::default();
            requested.field(b"Accept", b"text/html");
            requested.field(b"accept", b"text/event-stream");
            requested.field(b"Last-Event-ID", last.as_bytes());
            requested.from()
        };
        let found = ["0", "17", "", "x", "18446744073709551615"].map(from);
        assert_eq!(found, [1, 18, 0, 0, u64::MAX].map(Some));
        assert_eq!(Requested::default().from(), None);
    }
}
