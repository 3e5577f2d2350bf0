//! One slot of a worker: a connection that comes and goes, and the request that it carries.
//!
//! ```text
//!          wanted          permitted             established         sent
//!   Down ──────────► Queued ────────► Connecting ───────────► Idle ───────► Busy
//!    ▲ ▲                               │      │               ▲ │ │          │ │
//!    │ │                       reached │      │   established │ │ │          │ │
//!    │ │                               ▼      │   ┌───────────┤ │ │          │ │
//!    │ │                            Handshaking ──┘     ended │ │ │ failed   │ │
//!    │ │ rested                               │ failed        │ │ │          │ │
//!    │ └────────────── Resting ◄──────────────┴───────────────┼─┼─┴──────────┤ │
//!    │                                                        └─┼────────────┘ │
//!    └──────────────────────────────────────────────────────────┴──────────────┘
//!                                        closed                   ended, and the connection with it
//! ```
//!
//! A request is given to a slot that is Down or Idle. It stays with the slot until it has an outcome. A connect for which the
//! other side has no room just now is put off: back to Queued. Its timeout goes on, and takes it from there to Resting. If
//! connects are without hope before traffic begins, Queued slots go Down.
//!
//! A slot has two tokens. A connection that has carried its last response is left to the other side to close (see
//! `Worker::part`), and the slot goes on under its other token.

use crate::recorder::{Response, Times};
use crate::scratch::Scratch;
use crate::stamp::Stamped;
use crate::target::Target;
use crate::tls::Session;
use hoptax_wire::http1::{Malformed, ResponseDecoder, Step};

/// Where a slot stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No connection, and none wanted.
    Down,
    /// A connection is wanted, but too many others are being made.
    Queued,
    /// A connection is being made.
    Connecting,
    /// It stands, and TLS shakes hands on it.
    Handshaking,
    /// A connection without a request on it.
    Idle,
    /// A request was sent; its response is awaited.
    Busy,
    /// Something failed: no new attempt for a while.
    Resting,
}

/// What can happen to a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A connection is wanted.
    Wanted,
    /// It may be made now.
    Permitted,
    /// The other side has no room for it: another attempt soon.
    PutOff,
    /// The peer was reached; TLS is next.
    Reached,
    /// It was made, and may carry a request.
    Established,
    /// A request was handed to the kernel.
    Sent,
    /// The response ended, and the connection lives on.
    Ended,
    /// The connection is over, or no longer wanted, and nothing failed.
    Closed,
    /// A connect, a handshake or a request failed.
    Failed,
    /// Enough rest after a failure.
    Rested,
}

impl State {
    /// The table of transitions; `None`: this cannot happen here.
    fn after(self, event: Event) -> Option<State> {
        Some(match (self, event) {
            (State::Down, Event::Wanted) => State::Queued,
            (State::Queued, Event::Permitted) => State::Connecting,
            (State::Connecting, Event::PutOff) => State::Queued,
            (State::Connecting, Event::Reached) => State::Handshaking,
            (State::Connecting | State::Handshaking, Event::Established) => State::Idle,
            (State::Idle, Event::Sent) => State::Busy,
            (State::Busy, Event::Ended) => State::Idle,
            (State::Queued | State::Idle | State::Busy, Event::Closed) => State::Down,
            (
                State::Queued | State::Connecting | State::Handshaking | State::Idle | State::Busy,
                Event::Failed,
            ) => State::Resting,
            (State::Resting, Event::Rested) => State::Down,
            _ => return None,
        })
    }
}

/// A slot.
#[derive(Debug)]
pub(crate) struct Slot {
    state: State,
    /// The request it carries, or is to carry once its connection stands.
    pub(crate) request: Option<Times>,
    /// When the present connect was started.
    pub(crate) connect_started: u64,
    /// Requests that the present connection has carried, the one under way included.
    pub(crate) carried: u32,
    /// Which of its two tokens the present connection has.
    pub(crate) second: bool,
    /// Whether there is a former connection, under the other token, that the other side is to close.
    pub(crate) leaving: bool,
    /// Failures in a row: each doubles the rest.
    pub(crate) failures: u8,
    /// TLS of the present connection, where it has any.
    pub(crate) session: Option<Box<Session>>,
    reader: Reader,
}

/// What a slot has read of its response. Between responses it holds no memory of its own but what checks need.
#[derive(Debug)]
struct Reader {
    decoder: ResponseDecoder,
    status: u16,
    bytes: u64,
    body: u64,
    /// What the decoder could not use yet: part of a head or of a chunk's size.
    spill: Vec<u8>,
    /// How far the checks of its target have come; empty where none of them has to be told more than status and length.
    progress: Box<[u32]>,
    /// What its head says of stamps, where they are looked for.
    stamped: Stamped,
}

/// What bytes meant to a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// The response goes on.
    More,
    /// The response is whole. `keep_alive`: the connection may carry another request.
    Whole { response: Response, keep_alive: bool },
}

impl Slot {
    /// `room_for_checks` is what the checks need, of whichever target it may carry a request to.
    pub(crate) fn new(room_for_checks: usize) -> Self {
        Self {
            state: State::Down,
            request: None,
            connect_started: 0,
            carried: 0,
            second: false,
            leaving: false,
            failures: 0,
            session: None,
            reader: Reader {
                decoder: ResponseDecoder::new(),
                status: 0,
                bytes: 0,
                body: 0,
                spill: Vec::new(),
                progress: vec![0; room_for_checks].into(),
                stamped: Stamped::No,
            },
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// What the head of the last response says of stamps, where they are looked for.
    pub(crate) fn stamped(&self) -> Stamped {
        self.reader.stamped
    }

    /// Whether a request may be given to it.
    pub(crate) fn is_free(&self) -> bool {
        matches!(self.state, State::Down | State::Idle) && self.request.is_none()
    }

    /// Moves on.
    ///
    /// # Panics
    /// If `event` cannot happen in this state: the worker has lost track.
    pub(crate) fn step(&mut self, event: Event) {
        let next = self.state.after(event);
        self.state =
            next.unwrap_or_else(|| panic!("{event:?} cannot happen to a slot that is {:?}", self.state));
        match event {
            Event::Established => self.carried = 0,
            Event::Closed | Event::Failed => {
                self.session = None;
                self.reader.forget();
            }
            _ => {}
        }
    }

    /// A request to `target` was sent: its response is due.
    pub(crate) fn expect_response(&mut self, target: &Target) {
        self.reader.decoder.begin(target.is_head);
        target.checks.begin(&mut self.reader.progress);
        (self.reader.status, self.reader.bytes, self.reader.body) = (0, 0, 0);
    }

    /// Reads what arrived. The response is one from `target`.
    ///
    /// # Errors
    /// If it is not a response.
    pub(crate) fn read(
        &mut self,
        scratch: &mut Scratch,
        target: &Target,
        bytes: &[u8],
    ) -> Result<Read, Malformed> {
        self.reader.bytes += bytes.len() as u64;
        if self.reader.spill.is_empty() {
            return self.reader.read(scratch, target, bytes);
        }
        let mut input = std::mem::take(&mut self.reader.spill);
        input.extend_from_slice(bytes);
        let read = self.reader.read(scratch, target, &input);
        scratch.pieces.give_back(input);
        read
    }

    /// The connection ended. `Some`: that made the response whole.
    pub(crate) fn read_end(&mut self, target: &Target) -> Option<Response> {
        matches!(self.reader.decoder.end_of_input(), Ok(true)).then(|| self.reader.response(target))
    }
}

impl Reader {
    fn response(&self, target: &Target) -> Response {
        let failed = target.checks.verdict(self.status, self.body, &self.progress);
        Response { status: self.status, bytes: self.bytes, body: self.body, failed }
    }

    fn forget(&mut self) {
        self.decoder = ResponseDecoder::new();
        self.spill = Vec::new();
    }

    fn read(&mut self, scratch: &mut Scratch, target: &Target, mut input: &[u8]) -> Result<Read, Malformed> {
        loop {
            let consumed =
                match self.decoder.advance_with(&mut scratch.heads[target.index as usize], input)? {
                    Step::NeedMore => {
                        if !input.is_empty() {
                            self.spill = scratch.pieces.take();
                            self.spill.extend_from_slice(input);
                        }
                        return Ok(Read::More);
                    }
                    Step::Interim { consumed } => consumed,
                    Step::Head { consumed, head } => {
                        self.status = head.status;
                        target.checks.head(&input[..consumed], &mut self.progress);
                        if let Some(place) = scratch.stamps.get_mut(target.index as usize) {
                            self.stamped = place.find(&input[..consumed]);
                        }
                        consumed
                    }
                    Step::Body { consumed, data } => {
                        self.body += data.len() as u64;
                        target.checks.body(&input[data], &mut self.progress);
                        consumed
                    }
                    Step::End { consumed, keep_alive } => {
                        // A wrong length, a body where there is none, or a second response: which of them, and so what
                        // the response is, cannot be told (RFC 9112 §6.3).
                        if input.len() > consumed {
                            return Err(Malformed::Unasked);
                        }
                        return Ok(Read::Whole { response: self.response(target), keep_alive });
                    }
                };
            input = &input[consumed..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 7] = [
        State::Down,
        State::Queued,
        State::Connecting,
        State::Handshaking,
        State::Idle,
        State::Busy,
        State::Resting,
    ];
    const EVENTS: [Event; 10] = [
        Event::Wanted,
        Event::Permitted,
        Event::PutOff,
        Event::Reached,
        Event::Established,
        Event::Sent,
        Event::Ended,
        Event::Closed,
        Event::Failed,
        Event::Rested,
    ];

    #[test]
    fn every_state_can_be_left_and_reached_again() {
        for from in STATES {
            let mut seen = vec![from];
            let mut look = vec![from];
            while let Some(state) = look.pop() {
                for next in EVENTS.iter().filter_map(|event| state.after(*event)) {
                    if !seen.contains(&next) {
                        seen.push(next);
                        look.push(next);
                    }
                }
            }
            assert_eq!(seen.len(), STATES.len(), "from {from:?}");
        }
    }

    #[test]
    fn only_seventeen_things_can_happen() {
        let legal = STATES.iter().flat_map(|state| EVENTS.iter().filter_map(|event| state.after(*event)));
        assert_eq!(legal.count(), 17);
    }

    fn read_in_pieces(text: &str, piece: usize) -> (Result<Read, Malformed>, Slot) {
        let target = Target::of_get();
        let (mut slot, mut scratch) = (Slot::new(0), Scratch::new(1, false));
        slot.expect_response(&target);
        let mut last = Ok(Read::More);
        for part in text.as_bytes().chunks(piece) {
            assert_eq!(last, Ok(Read::More), "more input after the end of {text:?}");
            last = slot.read(&mut scratch, &target, part);
        }
        (last, slot)
    }

    #[test]
    fn reads_the_same_in_any_pieces() {
        let text = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n\
                    3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n";
        for piece in 1..=text.len() {
            let (read, slot) = read_in_pieces(text, piece);
            let response = Response { status: 201, bytes: text.len() as u64, body: 7, failed: None };
            assert_eq!(read, Ok(Read::Whole { response, keep_alive: true }), "pieces of {piece}");
            assert_eq!(slot.reader.spill.capacity(), 0, "nothing is kept between responses");
        }
    }

    #[test]
    fn bytes_behind_a_response_make_it_malformed() {
        for head in ["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", "HTTP/1.1 204 No Content\r\n\r\n"] {
            let (read, _) = read_in_pieces(&format!("{head}what?"), 1000);
            assert_eq!(read, Err(Malformed::Unasked), "{head:?}");
        }
    }

    #[test]
    fn the_end_completes_only_what_lasts_until_then() {
        let (read, mut slot) = read_in_pieces("HTTP/1.0 200 OK\r\n\r\nabc", 1000);
        assert_eq!(read, Ok(Read::More));
        let response = Response { status: 200, bytes: 22, body: 3, failed: None };
        assert_eq!(slot.read_end(&Target::of_get()), Some(response));
        let (_, mut slot) = read_in_pieces("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc", 1000);
        assert_eq!(slot.read_end(&Target::of_get()), None);
    }

    #[test]
    fn an_idle_slot_stays_small() {
        assert!(size_of::<Slot>() <= 256, "{} bytes", size_of::<Slot>());
    }
}
