//! One slot of a worker. A slot has at most one connection and at most one request.
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
//! A slot can take a request when it is Down or Idle. The slot keeps the request until the request has an
//! outcome. If the peer's backlog is full, the slot goes back to Queued and connects again later, while its
//! connect timeout continues to run. When this timeout expires, the slot goes to Resting. If connecting is
//! found to be hopeless before traffic begins, Queued slots go to Down.
//!
//! A slot has two tokens. After the last response on a connection, the connection is retired: the worker
//! waits for the peer to close it (see `Worker::retire`), and the slot opens its next connection under its
//! other token.

use crate::recorder::{Response, Times};
use crate::redirect;
use crate::scratch::Scratch;
use crate::stamped::Stamped;
use crate::target::Target;
use crate::tls::Session;
use crate::tunnel::{self, TunnelAnswer};
use hoptax_format::record::is_redirect;
use hoptax_wire::http1::{Malformed, ResponseDecoder, Step};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The slot has no connection and needs none.
    Down,
    Queued,
    Connecting,
    Handshaking,
    /// The slot is connected and has no request.
    Idle,
    /// A request was sent; the response is not complete.
    Busy,
    /// The slot waits after a failure before it connects again.
    Resting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A connection is needed.
    Wanted,
    /// The connect may start now.
    Permitted,
    /// The peer's backlog is full. The connect is retried later.
    PutOff,
    /// TCP is connected. A tunnel through a proxy, the TLS handshake, or both follow.
    Reached,
    /// The connection can carry requests.
    Established,
    /// A request was passed to the kernel.
    Sent,
    /// The response is complete, and the connection remains open.
    Ended,
    /// The connection has ended, or is no longer needed. This is not a failure.
    Closed,
    Failed,
    Rested,
}

impl State {
    /// The table of transitions. Returns `None` if the event is impossible in this state.
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

#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    state: State,
    /// The request that the slot is sending or has sent, or that it will send once it is connected.
    pub(crate) request: Option<Times>,
    pub(crate) connect_started: u64,
    /// Number of requests on the current connection, including the current request.
    pub(crate) carried: u32,
    /// True if the current connection uses the slot's second token.
    pub(crate) second: bool,
    /// True while a retired connection, which uses the other token, waits for the peer to close it.
    pub(crate) leaving: bool,
    /// Number of failures in a row. Each failure doubles the time that the slot waits.
    pub(crate) failures: u8,
    /// Number of responses to requests of the measured time, on all connections of the slot.
    pub(crate) answered: u32,
    /// True if a request of the slot got no response in the measured time or after it.
    pub(crate) in_vain: bool,
    pub(crate) session: Option<Box<Session>>,
    reader: Reader,
}

/// State of the reader of one response. Between responses it owns no memory except the counters of the
/// checks.
#[derive(Debug)]
struct Reader {
    decoder: ResponseDecoder,
    status: u16,
    bytes: u64,
    body: u64,
    /// Input that the decoder could not use yet: the beginning of a head or of a chunk size.
    spill: Vec<u8>,
    /// Counters for the checks of the target. Empty if the checks need no counters.
    progress: Box<[u32]>,
    stamped: Stamped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    More,
    /// The response is complete. `keep_alive` is true if the connection can carry another request.
    Whole {
        response: Response,
        keep_alive: bool,
    },
}

/// Why a response is not valid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    reason: Malformed,
    /// The reason, with the line at fault.
    pub(crate) text: String,
}

impl Refused {
    fn new(reason: Malformed, input: &[u8]) -> Box<Self> {
        Box::new(Self { reason, text: reason.describe(input) })
    }
}

impl ConnectionSlot {
    /// `room_for_checks` is the maximum number of counters that the checks of a target need.
    pub(crate) fn new(room_for_checks: usize) -> Self {
        Self {
            state: State::Down,
            request: None,
            connect_started: 0,
            carried: 0,
            second: false,
            leaving: false,
            failures: 0,
            answered: 0,
            in_vain: false,
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

    pub(crate) fn stamped(&self) -> Stamped {
        self.reader.stamped
    }

    /// Whether the slot has a connection to a proxy, but no tunnel yet. Only with a tunnel.
    pub(crate) fn awaits_tunnel(&self) -> bool {
        self.state == State::Handshaking && self.session.is_none()
    }

    /// Adds bytes to the proxy's answer to CONNECT, and reads it.
    pub(crate) fn read_tunnel(&mut self, bytes: &[u8]) -> TunnelAnswer {
        self.reader.spill.extend_from_slice(bytes);
        let answer = tunnel::answer(&self.reader.spill);
        if answer != TunnelAnswer::More {
            self.reader.spill = Vec::new();
        }
        answer
    }

    pub(crate) fn is_free(&self) -> bool {
        matches!(self.state, State::Down | State::Idle) && self.request.is_none()
    }

    /// Changes the state.
    ///
    /// # Panics
    /// If `event` is impossible in this state, which is a bug in the worker.
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

    /// Prepares for the response to a request that was just sent to `target`.
    pub(crate) fn expect_response(&mut self, target: &Target) {
        self.reader.decoder.begin(target.is_head);
        target.checks.begin(&mut self.reader.progress);
        (self.reader.status, self.reader.bytes, self.reader.body) = (0, 0, 0);
    }

    /// Reads the next bytes of the response that `target` sent.
    ///
    /// # Errors
    /// If the bytes are not a valid response.
    pub(crate) fn read(
        &mut self,
        scratch: &mut Scratch,
        target: &Target,
        bytes: &[u8],
    ) -> Result<Read, Box<Refused>> {
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

    /// Called when the connection has ended. Returns the response if the end of the connection completes it.
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

    fn read(
        &mut self,
        scratch: &mut Scratch,
        target: &Target,
        mut input: &[u8],
    ) -> Result<Read, Box<Refused>> {
        loop {
            let step = self.decoder.advance_with(&mut scratch.heads[target.index as usize], input);
            let consumed = match step.map_err(|reason| Refused::new(reason, input))? {
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
                    if is_redirect(head.status) && scratch.redirected_to.is_none() {
                        scratch.redirected_to = redirect::location(&input[..consumed]);
                    }
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
                    // The additional bytes mean a wrong length, an unexpected body, or a second response. It
                    // is impossible to know which of these is true, so the response is not valid (RFC 9112
                    // §6.3).
                    if input.len() > consumed {
                        return Err(Refused::new(Malformed::UnexpectedBytes, input));
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
    fn every_state_is_reachable_from_every_state() {
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
    fn there_are_seventeen_transitions() {
        let legal = STATES.iter().flat_map(|state| EVENTS.iter().filter_map(|event| state.after(*event)));
        assert_eq!(legal.count(), 17);
    }

    fn read_in_pieces(text: &str, piece: usize) -> (Result<Read, Malformed>, ConnectionSlot) {
        let target = Target::of_get();
        let (mut slot, mut scratch) = (ConnectionSlot::new(0), Scratch::new(1, false));
        slot.expect_response(&target);
        let mut last = Ok(Read::More);
        for part in text.as_bytes().chunks(piece) {
            assert_eq!(last, Ok(Read::More), "more input after the end of {text:?}");
            last = slot.read(&mut scratch, &target, part).map_err(|refused| refused.reason);
        }
        (last, slot)
    }

    #[test]
    fn reads_the_same_response_in_any_pieces() {
        let text = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 201 Created\r\ntransfer-encoding: \
                    chunked\r\n\r\n\
                    3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n";
        for piece in 1..=text.len() {
            let (read, slot) = read_in_pieces(text, piece);
            let response = Response { status: 201, bytes: text.len() as u64, body: 7, failed: None };
            assert_eq!(read, Ok(Read::Whole { response, keep_alive: true }), "pieces of {piece}");
            assert_eq!(slot.reader.spill.capacity(), 0, "no memory is kept between responses");
        }
    }

    #[test]
    fn bytes_after_a_response_make_it_malformed() {
        for head in ["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", "HTTP/1.1 204 No Content\r\n\r\n"] {
            let (read, _) = read_in_pieces(&format!("{head}what?"), 1000);
            assert_eq!(read, Err(Malformed::UnexpectedBytes), "{head:?}");
        }
    }

    #[test]
    fn the_end_of_the_connection_completes_only_responses_without_length() {
        let (read, mut slot) = read_in_pieces("HTTP/1.0 200 OK\r\n\r\nabc", 1000);
        assert_eq!(read, Ok(Read::More));
        let response = Response { status: 200, bytes: 22, body: 3, failed: None };
        assert_eq!(slot.read_end(&Target::of_get()), Some(response));
        let (_, mut slot) = read_in_pieces("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc", 1000);
        assert_eq!(slot.read_end(&Target::of_get()), None);
    }

    #[test]
    fn an_idle_slot_stays_small() {
        assert!(size_of::<ConnectionSlot>() <= 256, "{} bytes", size_of::<ConnectionSlot>());
    }
}
