//! Server-sent events over HTTP/1: chunks that are sent when their events are due. An HTTP/1.0 client gets no
//! chunks, and the connection ends the response.
//!
//! Later responses of the connection wait until the stream has ended.

use super::super::answer::AnswerTo;
use super::super::events::Requested;
use super::super::sockets::Sockets;
use super::super::stream::{EventStream, Next};
use super::state::{HIGH_WATER, Server, Timer};
use hoptax_format::clock;
use hoptax_load::event_loop::Token;
use hoptax_wire::events::MEDIA_TYPE;
use hoptax_wire::http1::{Version, chunk_size_line, fields};
use memchr::memmem::Finder;
use std::cmp::Reverse;
use std::io;
use std::mem;
use std::sync::LazyLock;

/// Finds the media type of events, as clients write it.
static OF_EVENTS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(MEDIA_TYPE));
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
/// Number of bytes that are collected for a send.
const BATCH: usize = 64 * 1024;
/// Number of bytes after which other connections get their turn.
const TURN: usize = 4 * BATCH;

/// The state of a stream after its turn.
enum Turn {
    /// It waits for its timer or for the client.
    Waits,
    Ended,
    /// The connection is gone: it has failed, or the plan has cut it.
    Gone,
}

impl Server<'_> {
    /// Number of the first event if a request gets events. `input` is the request's head.
    pub(super) fn requested_events(&self, input: &[u8]) -> Option<u64> {
        self.sources.events.as_ref()?;
        // Other requests need only this search.
        OF_EVENTS.find(input)?;
        let mut requested = Requested::default();
        // The decoder has already accepted this head.
        let _ = fields(input, |field| requested.field(field.name.as_bytes(), field.value));
        requested.from()
    }

    /// Begins a stream. Its head is the next response of the connection, and was due at `due`. The caller
    /// then calls [`Server::send_line`], or sets a timer.
    pub(super) fn begin_events(&mut self, token: Token, to: AnswerTo, mut stream: EventStream, due: u64) {
        // The response to HEAD has no body.
        if to.head {
            return;
        }
        stream.begin(due);
        stream.is_chunked = to.version == Version::Http11;
        self.connections[token.index()].events = Some(Box::new(stream));
    }

    /// Ends the event streams of a client that has ended its side of the connection. Such a client has left,
    /// because clients that wait for events keep their side open. Returns true if the connection has ended
    /// too.
    pub(super) fn end_events(&mut self, token: Token) -> bool {
        let connection = &mut self.connections[token.index()];
        if let Some(http2) = &mut connection.http2 {
            http2.count_left(self.counts);
            http2.end_events();
            return false;
        }
        let has_left = connection.event_streams().next().is_some();
        if has_left {
            self.forget(token);
        }
        has_left
    }

    /// Sends the delayed responses of a connection that are due. Returns false if the connection failed and
    /// is gone.
    pub(super) fn send_line(&mut self, io: &mut impl Sockets, token: Token, now: u64) -> bool {
        // Time when the previous response ended.
        let mut free = 0;
        loop {
            if self.connections[token.index()].events.is_some() {
                if !self.flush(io, token) {
                    return false;
                }
                match self.send_events(io, token, now) {
                    Turn::Waits => return true,
                    Turn::Ended => free = now,
                    Turn::Gone => return false,
                }
                continue;
            }
            let Some(&(due, reply)) = self.connections[token.index()].line.front() else { break };
            if due > now {
                break;
            }
            self.connections[token.index()].line.pop_front();
            self.make_ready(reply);
            free = free.max(due);
            if let Some((to, stream)) = reply.stream() {
                self.begin_events(token, to, stream, free);
            }
        }
        self.flush(io, token)
    }

    /// Continues a stream that had to wait until the kernel accepted earlier bytes. Returns false if the
    /// connection failed and is gone.
    pub(super) fn resume_events(&mut self, io: &mut impl Sockets, token: Token) -> bool {
        self.connections[token.index()].events.is_none() || self.send_line(io, token, clock::now())
    }

    /// Sends the events of a connection that are due. Nothing is allocated for an event.
    fn send_events(&mut self, io: &mut impl Sockets, token: Token, now: u64) -> Turn {
        let Some(mut stream) = self.connections[token.index()].events.take() else { return Turn::Ended };
        let mut batch = mem::take(&mut self.batch);
        let outcome = self.write_events(io, token, (&mut stream, &mut batch), now);
        batch.clear();
        self.batch = batch;
        let connection = &mut self.connections[token.index()];
        match outcome {
            Ok(Next::End) => return Turn::Ended,
            Ok(Next::Cut) if io.unsent(token) == 0 => {
                self.close(io, token);
                return Turn::Gone;
            }
            Ok(Next::Wait(due)) if due != stream.timer && due < u64::MAX => {
                let generation = connection.generation;
                stream.timer = due;
                self.timers.push(Reverse(Timer { due, token, generation }));
            }
            // Without a timer, the stream continues when the kernel has accepted all bytes.
            Ok(_) | Err(_) => {}
        }
        connection.events = Some(stream);
        if outcome.is_err() {
            self.close(io, token);
            return Turn::Gone;
        }
        Turn::Waits
    }

    /// Returns [`Next::End`], [`Next::Cut`] or [`Next::Wait`], or [`Next::Send`] if the client reads too
    /// slowly.
    fn write_events(
        &mut self,
        io: &mut impl Sockets,
        token: Token,
        (stream, batch): (&mut EventStream, &mut Vec<u8>),
        now: u64,
    ) -> io::Result<Next> {
        let mut room = TURN;
        let next = loop {
            let next = self.sources.next(stream, now);
            if let Next::End | Next::Wait(_) | Next::Cut = next {
                break next;
            }
            if io.unsent(token) > HIGH_WATER {
                break Next::Send;
            }
            if room == 0 {
                break Next::Wait(clock::now().max(stream.timer.saturating_add(1)));
            }
            let (part, _) = self.sources.part(stream, next);
            let length = part.len();
            if stream.is_chunked {
                chunk_size_line(batch, length);
                batch.extend_from_slice(part);
                batch.extend_from_slice(b"\r\n");
            } else {
                batch.extend_from_slice(part);
            }
            room = room.saturating_sub(length);
            // Count the events before sending them, as the bytes.
            self.counts.sent(self.sources.sent(stream, length, next, now));
            if self.sources.are_split(stream) || batch.len() >= BATCH {
                self.send_batch(io, token, batch)?;
            }
        };
        if next == Next::End && stream.is_chunked {
            batch.extend_from_slice(LAST_CHUNK);
        }
        self.send_batch(io, token, batch)?;
        Ok(next)
    }

    fn send_batch(&mut self, io: &mut impl Sockets, token: Token, batch: &mut Vec<u8>) -> io::Result<()> {
        let length = batch.len() as u64;
        if length == 0 {
            return Ok(());
        }
        self.counts.bytes_out.add(length);
        let sent = io.send(token, batch);
        batch.clear();
        if sent.is_err() {
            self.counts.bytes_out.take_back(length);
        }
        sent
    }
}
