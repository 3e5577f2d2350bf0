//! The events of a response that the hop changes or delays.

use crate::hop::holds::Holds;
use hoptax_load::event_loop::Token;
use hoptax_plan::{HopDelayHow, HopFaults};
use hoptax_wire::events::{Decoder, MEDIA_TYPE, Step};
use hoptax_wire::http1::{Framing, ResponseHead, fields};

/// The events of one response. They are forwarded only when they are complete. A merged event has the lines
/// of both events. Lines must end with LF.
#[derive(Debug)]
pub(super) struct Altered {
    faults: HopFaults,
    decoder: Decoder,
    /// An incomplete event, and the event that it will be merged with.
    part: Vec<u8>,
    is_merged: bool,
    /// Whole events that wait for the timer, or for others.
    waiting: Vec<u8>,
    /// Number of events that wait.
    count: u32,
    /// True until the first event has passed, which does not wait for others.
    is_first: bool,
    timer: Option<u64>,
}

/// True if a response is an event stream whose length can change.
pub(super) fn can_change(raw: &[u8], head: &ResponseHead) -> bool {
    let mut is_stream = false;
    let read = fields(raw, |field| {
        let start = field.value.get(..MEDIA_TYPE.len());
        let has_type = start.is_some_and(|start| start.eq_ignore_ascii_case(MEDIA_TYPE.as_bytes()));
        is_stream |= has_type && field.name.eq_ignore_ascii_case("content-type");
    });
    read.is_ok() && is_stream && matches!(head.framing, Framing::Chunked | Framing::UntilClose)
}

impl Altered {
    pub(super) fn new(faults: HopFaults) -> Self {
        Self {
            faults,
            decoder: Decoder::default(),
            part: Vec::new(),
            is_merged: false,
            waiting: Vec::new(),
            count: 0,
            is_first: true,
            timer: None,
        }
    }

    /// Reads a part of the body. Appends the events that need not wait to `to`.
    pub(super) fn read(&mut self, mut input: &[u8], client: Token, holds: &mut Holds, to: &mut Vec<u8>) {
        while !input.is_empty() {
            let (consumed, step) = self.decoder.advance(input);
            let (read, rest) = input.split_at(consumed);
            self.part.extend_from_slice(read);
            input = rest;
            match step {
                Step::Event => self.pass(client, holds, to),
                Step::Comment if self.drops_comment() => self.part.clear(),
                Step::Comment if self.has_only_a_comment() => to.append(&mut self.part),
                _ => {}
            }
        }
    }

    /// True if no event has begun, and comments are dropped.
    fn drops_comment(&self) -> bool {
        self.faults.llm.is_some_and(|llm| llm.drop_comments) && self.begins_with_a_comment()
    }

    fn begins_with_a_comment(&self) -> bool {
        self.part.trim_ascii_start().starts_with(b":")
    }

    /// True if no event has begun and none waits. A comment is then forwarded at once, because clients might
    /// give up a silent connection.
    fn has_only_a_comment(&self) -> bool {
        !self.is_merged && self.waiting.is_empty() && self.begins_with_a_comment()
    }

    /// Handles a whole event.
    fn pass(&mut self, client: Token, holds: &mut Holds, to: &mut Vec<u8>) {
        let HopFaults { drop, repeat, mut hold, merge, bunch, llm, .. } = self.faults;
        if self.is_first {
            hold = hold.max(llm.unwrap_or_default().hold_first);
        }
        if !self.is_merged && holds.happens(merge) {
            // Without the empty line at its end, the event continues in the next one.
            self.part.pop();
            self.is_merged = true;
            return;
        }
        self.is_merged = false;
        let copies = match (holds.happens(drop), holds.happens(repeat)) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => 2,
        };
        for _ in 0..copies {
            self.waiting.extend_from_slice(&self.part);
        }
        self.part.clear();
        self.count += 1;
        if self.timer.is_none() {
            self.timer = holds.spend(client, HopDelayHow::Sleep, hold);
        }
        let is_bunched = self.count < bunch && !self.is_first;
        self.is_first = false;
        if self.timer.is_none() && !is_bunched {
            self.pass_waiting(to);
        }
    }

    fn pass_waiting(&mut self, to: &mut Vec<u8>) {
        to.append(&mut self.waiting);
        (self.count, self.timer) = (0, None);
    }

    /// True if events wait for this timer.
    pub(super) fn waits_for(&self, timer: u64) -> bool {
        self.timer == Some(timer)
    }

    /// Appends the events that wait, and the end of a stream of OpenAI's tokens. If the hop does not end
    /// streams that were cut, appends nothing and returns false.
    pub(super) fn end_falsely(&mut self, to: &mut Vec<u8>) -> bool {
        let ends = self.faults.llm.is_some_and(|llm| llm.false_end);
        if ends {
            self.pass_waiting(to);
            to.extend_from_slice(b"data: [DONE]\n\n");
        }
        ends
    }

    /// Appends the events that wait to `to`. If the response has ended, also appends an incomplete event.
    pub(super) fn release(&mut self, is_end: bool, to: &mut Vec<u8>) {
        self.pass_waiting(to);
        if is_end {
            to.append(&mut self.part);
            if self.is_merged {
                to.push(b'\n');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_plan::{HopDelay, HopLlm};
    use hoptax_wire::events::write_event;
    use std::time::Duration;

    const CLIENT: Token = Token(7);

    fn events(all: &[&str]) -> Vec<u8> {
        let mut body = Vec::new();
        (0..).zip(all).for_each(|(id, data)| write_event(&mut body, Some(id), data.as_bytes()));
        body
    }

    fn altered(faults: HopFaults) -> (Altered, Holds) {
        let delay = HopDelay { faults: Some(faults), ..HopDelay::default() };
        (Altered::new(faults), Holds::new(Some(delay), None, 1, 0, false))
    }

    /// The bytes that are forwarded before the end and at the end, if the body arrives in pieces of this
    /// length.
    fn passed(faults: HopFaults, body: &[u8], piece: usize) -> [String; 2] {
        let (mut altered, mut holds) = altered(faults);
        let [mut before, mut at_end] = [Vec::new(), Vec::new()];
        body.chunks(piece).for_each(|piece| altered.read(piece, CLIENT, &mut holds, &mut before));
        altered.release(true, &mut at_end);
        [before, at_end].map(|bytes| String::from_utf8(bytes).expect("text"))
    }

    #[test]
    fn events_are_dropped_repeated_merged_and_bunched_at_every_split() {
        let body = events(&["a", "b", "c"]);
        let none = HopFaults::default();
        let [a, b, c] = ["id: 0\ndata: a\n", "id: 1\ndata: b\n", "id: 2\ndata: c\n"];
        let twice = format!("{a}\n{a}\n{b}\n{b}\n{c}\n{c}\n");
        let table = [
            (none, format!("{a}\n{b}\n{c}\n"), String::new()),
            (HopFaults { drop: 1.0, ..none }, String::new(), String::new()),
            (HopFaults { repeat: 1.0, ..none }, twice, String::new()),
            (HopFaults { merge: 1.0, ..none }, format!("{a}{b}\n"), format!("{c}\n")),
            (HopFaults { bunch: 2, ..none }, format!("{a}\n{b}\n{c}\n"), String::new()),
            (HopFaults { bunch: 3, ..none }, format!("{a}\n"), format!("{b}\n{c}\n")),
        ];
        for (faults, before, at_end) in &table {
            for piece in 1..=body.len() {
                let expected = [before.clone(), at_end.clone()];
                assert_eq!(passed(*faults, &body, piece), expected, "{faults:?} {piece}");
            }
        }
    }

    #[test]
    fn comments_pass_between_events() {
        let faults = HopFaults { drop: 1.0, ..HopFaults::default() };
        let body = b": one\n\n: two\n\ndata: a\n: in an event\n\n: three\n\n";
        for piece in 1..=body.len() {
            let expected = [": one\n\n: two\n: three\n".to_owned(), "\n".to_owned()];
            assert_eq!(passed(faults, body, piece), expected, "{piece}");
            let llm = HopLlm { drop_comments: true, ..HopLlm::default() };
            let expected = ["\ndata: a\n: in an event\n\n".to_owned(), "\n".to_owned()];
            let faults = HopFaults { llm: Some(llm), ..HopFaults::default() };
            assert_eq!(passed(faults, body, piece), expected, "{piece}");
        }
    }

    #[test]
    fn held_events_wait_for_the_timer_or_the_end() {
        let faults = HopFaults { hold: Duration::from_secs(1), ..HopFaults::default() };
        let (mut altered, mut holds) = altered(faults);
        let (body, mut to) = (events(&["a", "b"]), Vec::new());
        altered.read(&body, CLIENT, &mut holds, &mut to);
        let timer = holds.over(u64::MAX).expect("one timer");
        assert!(to.is_empty() && altered.waits_for(timer.id) && holds.next().is_none());
        assert_eq!(timer.token, CLIENT);
        altered.release(false, &mut to);
        assert_eq!(to, body);
        assert!(!altered.waits_for(timer.id));
        assert_eq!(passed(faults, &body, 3), [String::new(), String::from_utf8(body).expect("text")]);
    }

    #[test]
    fn only_the_first_event_is_held_and_streams_can_get_an_end() {
        let llm = HopLlm { hold_first: Duration::from_secs(1), false_end: true, ..HopLlm::default() };
        let faults = HopFaults { llm: Some(llm), ..HopFaults::default() };
        let (mut altered, mut holds) = altered(faults);
        let (body, mut to) = (events(&["a", "b"]), Vec::new());
        altered.read(&body, CLIENT, &mut holds, &mut to);
        assert!(to.is_empty(), "the second waits behind the first");
        let timer = holds.over(u64::MAX).expect("one timer");
        assert!(altered.waits_for(timer.id) && holds.next().is_none());
        altered.release(false, &mut to);
        assert_eq!(to, body);
        altered.read(&body, CLIENT, &mut holds, &mut to);
        assert_eq!((to.len(), holds.next()), (2 * body.len(), None), "later events do not wait");
        altered.read(b"data: hal", CLIENT, &mut holds, &mut to);
        to.clear();
        assert!(altered.end_falsely(&mut to));
        assert_eq!(to, b"data: [DONE]\n\n");
        assert!(!Altered::new(HopFaults::default()).end_falsely(&mut to));
    }

    #[test]
    fn only_event_streams_without_a_length_can_change() {
        use hoptax_wire::http1::{ResponseDecoder, Step};
        for (rest, expected) in [
            ("content-type: text/event-stream\r\ntransfer-encoding: chunked", true),
            ("Content-Type: Text/Event-Stream; charset=utf-8", true),
            ("content-type: text/event-stream\r\ncontent-length: 3", false),
            ("content-type: text/html\r\ntransfer-encoding: chunked", false),
        ] {
            let raw = format!("HTTP/1.1 200 OK\r\n{rest}\r\n\r\n");
            let mut decoder = ResponseDecoder::new();
            decoder.begin(false);
            let step = decoder.advance(raw.as_bytes());
            let Ok(Step::Head { head, .. }) = step else { panic!("a head: {raw}") };
            assert_eq!(can_change(raw.as_bytes(), &head), expected, "{rest}");
        }
    }
}
