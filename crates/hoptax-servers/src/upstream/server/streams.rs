//! The exchanges of HTTP/2 connections. [`http2`](super::http2) advances them.
//!
//! Each stream has an *exchange*, which the client can reset at any time:
//!
//! ```text
//!   head ─► reading ─ end of the request ─► delayed ─ timer ─► ready ─ all is sent ─► free
//!                             └────────── no delay ─────────────▲ │
//!                                        the window opens blocked ┘ a window is empty
//! ```
//!
//! Responses are sent when they are due, in any order. Ready exchanges take turns, so that a large response
//! does not hold up the others.
//!
//! Answers with many messages ([`messages`](super::messages)) return to *delayed* until the next message
//! is due, or to *reading* until the client sends more.

use super::super::answer::StreamAnswerTo;
use super::super::calls::{Call, Flow};
use super::super::conversation::{Abort, Conversation};
use super::super::counts::{Counts, MOST_STREAMS};
use super::super::llm::Incoming;
use super::super::rules::Chosen;
use super::super::special::Special;
use super::super::stream::EventStream;
use super::super::websocket::OnStream;
use hoptax_format::stamp::{self, Stamp};
use hoptax_load::event_loop::Token;
use hoptax_wire::http2::hpack::write_literal;
use hoptax_wire::http2::{Block, Config, Connection, PREFACE, Sections, StreamRef, response_fields};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The parts of an instance that all HTTP/2 connections use.
pub(super) struct Shared {
    pub(super) sections: Sections,
    /// Frames that are sent together on the current connection. Empty between two events.
    pub(super) output: Vec<u8>,
    pub(super) timers: BinaryHeap<Reverse<StreamTimer>>,
    /// The header of the stamp. Its value is the end of the vector.
    pub(super) stamp: Vec<u8>,
    /// The fields of a head that differ from call to call.
    pub(super) varying: Vec<u8>,
    /// The head of 100 Continue.
    pub(super) interim: Block,
}

impl Default for Shared {
    fn default() -> Self {
        let mut field = Vec::new();
        write_literal(&mut field, stamp::HEADER, stamp::BLANK.as_bytes());
        let interim = response_fields(100, [], None).expect("a status");
        Self {
            sections: Sections::new(),
            output: Vec::new(),
            timers: BinaryHeap::new(),
            stamp: field,
            varying: Vec::new(),
            interim: Block::plain(&interim),
        }
    }
}

impl Shared {
    pub(super) fn next_timer(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse(timer)| timer.due)
    }

    pub(super) fn write_stamp(&mut self, stamp: Stamp) {
        let at = self.stamp.len() - stamp::LENGTH;
        let value = &mut self.stamp[at..];
        stamp.write(value.try_into().expect("as long as a stamp"));
    }
}

/// Timers are ordered by time first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StreamTimer {
    pub(super) due: u64,
    pub(super) token: Token,
    pub(super) generation: u32,
    pub(super) exchange: Named,
    /// True if the timer looks whether the deadline of a call has passed, and false if a response or a
    /// message is due.
    pub(super) watches_deadline: bool,
}

/// Name of an exchange in queues. If the client resets the stream meanwhile, another exchange can have the
/// same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    pub(super) place: u32,
    pub(super) stream: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// The next event comes from the client.
    #[default]
    Reading,
    Delayed,
    Ready,
    Blocked,
}

/// A request and its response.
#[derive(Default)]
pub(super) struct Exchange {
    /// Number of the stream; 0 if the place is free.
    pub(super) stream: u32,
    pub(super) stage: Stage,
    pub(super) to: StreamAnswerTo,
    /// The answer of a particular path.
    pub(super) chosen: Option<Chosen>,
    /// Present if the request is a gRPC call.
    pub(super) call: Option<Call>,
    /// True if the call uses gRPC-Web.
    pub(super) is_web: bool,
    /// Present if the answer has many messages.
    pub(super) flow: Option<Box<Flow>>,
    /// Present if the exchange is a WebSocket.
    pub(super) websocket: Option<Box<OnStream>>,
    /// When the call must have ended; 0 if the client has no deadline.
    pub(super) deadline: u64,
    /// Present if the call must end at once, before its next message.
    pub(super) abort: Option<Abort>,
    /// True if the response does not wait for the request's end.
    pub(super) is_early: bool,
    /// The request, if its path is a verification path.
    pub(super) special: Option<Box<Special>>,
    /// The request, if it is for the language model.
    pub(super) llm: Option<Box<Incoming>>,
    /// The response to `special` or `llm`, unless it is a stream.
    pub(super) prepared: Option<Box<Prepared>>,
    /// Time when the request had been read; 0 without stamps.
    pub(super) received: u64,
    pub(super) has_sent_head: bool,
    /// Number of bytes of the body that were sent.
    pub(super) sent: usize,
}

impl Exchange {
    /// True if the response to a verification path is not due yet.
    pub(super) fn is_delayed_special(&self) -> bool {
        self.stage == Stage::Delayed && self.prepared.as_ref().is_some_and(|prepared| !prepared.is_of_model)
    }

    /// The events of the response.
    pub(super) fn events(&self) -> Option<&EventStream> {
        match self.flow.as_deref() {
            Some(Flow::Events(stream)) => Some(stream),
            _ => None,
        }
    }

    /// True if the exchange is a WebSocket without a close frame of the client.
    pub(super) fn has_open_websocket(&self) -> bool {
        self.websocket.as_ref().is_some_and(|on_stream| !on_stream.is_over())
    }

    /// The messages of a call in which both sides send a stream.
    pub(super) fn conversation(&mut self) -> Option<&mut Conversation> {
        match self.flow.as_deref_mut() {
            Some(Flow::BothWays(conversation)) => Some(conversation),
            _ => None,
        }
    }
}

/// The response to a verification path, or a whole response of the language model.
#[derive(Default)]
pub(super) struct Prepared {
    /// The head of 103 Early Hints.
    pub(super) interim: Option<Block>,
    /// If absent, the stream is reset without a response.
    pub(super) block: Option<Block>,
    pub(super) body: Vec<u8>,
    pub(super) trailers: Option<Block>,
    /// True if the stream is reset after the body.
    pub(super) is_cut: bool,
    /// True if the response is the language model's. It has a stamp if others have.
    pub(super) is_of_model: bool,
}

/// An HTTP/2 connection.
pub(super) struct Http2 {
    pub(super) connection: Connection,
    /// The tags of streams are indices of this vector.
    pub(super) exchanges: Vec<Exchange>,
    pub(super) free: Vec<u32>,
    /// Exchanges whose next bytes can be sent, in the order of their turns.
    pub(super) ready: VecDeque<Named>,
    /// Input that is incomplete, or that is not read because the connection is blocked.
    pub(super) kept: Vec<u8>,
    /// Number of requests; only counted if the connection has a limit.
    pub(super) requests: u64,
    pub(super) going_away: bool,
}

impl Http2 {
    /// Begins a connection whose first bytes are `kept`.
    pub(super) fn new(kept: Vec<u8>, output: &mut Vec<u8>) -> Self {
        Self {
            connection: Connection::server(
                Config { streams: MOST_STREAMS, connect_protocol: true, ..Config::default() },
                output,
            ),
            exchanges: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            kept,
            requests: 0,
            going_away: false,
        }
    }

    /// True if no exchange is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.free.len() == self.exchanges.len() && self.kept.is_empty()
    }

    /// True if some response can be sent without further input.
    pub(super) fn will_send(&self) -> bool {
        let stages = self.exchanges.iter().filter(|exchange| exchange.stream != 0);
        stages.map(|exchange| exchange.stage).any(|stage| matches!(stage, Stage::Delayed | Stage::Ready))
    }

    /// Counts the responses with events that have not ended, because the client leaves.
    pub(super) fn count_left(&self, counts: &Counts) {
        self.exchanges.iter().filter_map(Exchange::events).for_each(|stream| counts.left_by_client(stream));
    }

    /// Ends the responses with events.
    pub(super) fn end_events(&mut self) {
        for place in 0..self.exchanges.len() {
            let exchange = &self.exchanges[place];
            if exchange.events().is_some() {
                self.end(Named { place: place as u32, stream: exchange.stream });
            }
        }
    }

    pub(super) fn begin(&mut self, stream: u32) -> Named {
        let place = self.free.pop().unwrap_or_else(|| {
            self.exchanges.push(Exchange::default());
            self.exchanges.len() as u32 - 1
        });
        self.exchanges[place as usize].stream = stream;
        self.connection.set_tag(stream, place);
        Named { place, stream }
    }

    pub(super) fn end(&mut self, exchange: Named) {
        if self.get(exchange).is_some() {
            self.exchanges[exchange.place as usize] = Exchange::default();
            self.free.push(exchange.place);
        }
    }

    pub(super) fn get(&mut self, exchange: Named) -> Option<&mut Exchange> {
        let found = self.exchanges.get_mut(exchange.place as usize)?;
        (found.stream == exchange.stream).then_some(found)
    }

    /// The WebSocket of an exchange.
    pub(super) fn websocket(&mut self, exchange: Named) -> Option<&mut OnStream> {
        self.get(exchange)?.websocket.as_deref_mut()
    }

    /// Ends all WebSockets, because their connection ends. Returns how many had no close frame.
    pub(super) fn end_websockets(&mut self) -> u64 {
        let mut cut = 0;
        for place in 0..self.exchanges.len() {
            let exchange = &self.exchanges[place];
            cut += u64::from(exchange.has_open_websocket());
            if exchange.websocket.is_some() {
                self.end(Named { place: place as u32, stream: exchange.stream });
            }
        }
        cut
    }

    /// Queues the exchange of a WebSocket that has something to send. Has no effect before the answer to the
    /// handshake is due, or while a window is empty.
    pub(super) fn wake(&mut self, exchange: Named) {
        let found = self.get(exchange).filter(|found| found.has_sent_head);
        if found.is_some_and(|found| matches!(found.stage, Stage::Reading | Stage::Delayed)) {
            self.queue(exchange);
        }
    }

    /// Queues an exchange whose next bytes can be sent.
    pub(super) fn queue(&mut self, exchange: Named) {
        if let Some(found) = self.get(exchange) {
            found.stage = Stage::Ready;
            self.ready.push_back(exchange);
        }
    }
}

pub(super) fn named(stream: StreamRef) -> Named {
    Named { place: stream.tag, stream: stream.id }
}

/// Whether a connection begins with the preface of HTTP/2. `None` if more bytes are needed.
pub(super) fn begins_with_preface(kept: &[u8], bytes: &[u8]) -> Option<bool> {
    let mut pairs = kept.iter().chain(bytes).zip(PREFACE);
    if pairs.any(|(byte, expected)| byte != expected) {
        return Some(false);
    }
    (kept.len() + bytes.len() >= PREFACE.len()).then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preface_is_recognised_in_any_pieces() {
        let (start, end) = PREFACE.split_at(5);
        assert_eq!(begins_with_preface(b"", PREFACE), Some(true));
        assert_eq!(begins_with_preface(b"", &[&PREFACE[..], b"more"].concat()), Some(true));
        assert_eq!(begins_with_preface(start, end), Some(true));
        for length in 0..PREFACE.len() {
            assert_eq!(begins_with_preface(b"", &PREFACE[..length]), None, "{length}");
        }
        for other in ["GET / HTTP/1.1\r\n", "POST", "PRI / HTTP/1.1\r\n", "x"] {
            assert_eq!(begins_with_preface(b"", other.as_bytes()), Some(false), "{other}");
        }
        assert_eq!(begins_with_preface(b"P", b"OST"), Some(false));
    }
}
