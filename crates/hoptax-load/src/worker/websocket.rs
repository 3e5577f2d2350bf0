//! WebSockets: handshakes, messages, pings and ends.
//!
//! An exchange is the handshake, the messages, and a close frame of each side. The schedule of the client's
//! messages begins when the server has accepted the handshake. The client closes when all its messages have
//! an answer; if only the server sends messages, the server closes.

use super::sockets::{answer, is_good};
use super::streams::codec_of;
use super::talks::{after_turn, due, is_awaited};
use super::{Source, Worker};
use crate::codec::Codec;
use crate::event_loop::EventLoop;
use crate::exchange::ExchangeId;
use crate::target::Answered;
use hoptax_format::messages::{Stamp, StreamKind};
use hoptax_format::record::Cause;
use hoptax_wire::websocket::{EXTENSIONS, Opcode, Step, close};
use std::io::{self, ErrorKind};

const CUT: &str = "the WebSocket ended without a close frame";
/// HTTP/2: status of a response that accepts a handshake (RFC 8441, section 5).
const ACCEPTED: u16 = 200;

/// Why a WebSocket has ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The server has sent a close frame with this status code, if it has one.
    Closed(Option<u16>),
    /// The server violated the protocol.
    Fault {
        text: String,
        /// Status code of the client's close frame.
        code: u16,
    },
}

impl<C: Codec> Worker<'_, C> {
    /// Called when a request was sent, which can be the handshake of a WebSocket. Its answer decides what
    /// follows.
    pub(super) fn begin_socket(&mut self, id: ExchangeId) {
        let (Some(messages), Some(sockets)) = (&mut self.messages, &mut self.sockets) else { return };
        sockets.of(id).begin();
        messages.talks[id.index()].begin(0, None);
    }

    /// True if the exchange is a WebSocket whose handshake the server has accepted.
    #[inline]
    pub(super) fn is_socket(&self, id: ExchangeId) -> bool {
        self.sockets.as_ref().is_some_and(|sockets| sockets.is_accepted(id))
    }

    /// HTTP/1: called when the server has switched to WebSocket.
    pub(super) fn switched<L: EventLoop>(
        &mut self,
        io: &mut L,
        id: ExchangeId,
        now: u64,
        answered: Answered,
    ) {
        let mut frames = std::mem::take(&mut self.scratch.frames);
        if let Some(times) = self.exchanges[id.index()].request {
            self.recorder.head_arrived(times, now);
        }
        self.messages_read();
        if self.shook_hands(io, id, now, answered) {
            self.hear_frames(io, id, now, true, &frames);
        }
        frames.clear();
        self.scratch.frames = frames;
    }

    /// HTTP/2: true if the head of the response accepts the handshake of a WebSocket.
    pub(super) fn is_accepting(&self, id: ExchangeId) -> bool {
        let exchange = &self.exchanges[id.index()];
        let target = exchange.request.map(|times| self.setup.mix.target(times.target));
        exchange.answer.status == ACCEPTED && target.is_some_and(|target| target.handshake.is_some())
    }

    /// HTTP/2: called when a head has arrived that accepts the handshake of a WebSocket. `end` is true if the
    /// server sends nothing else.
    pub(super) fn accepted_on_stream<L: EventLoop>(
        &mut self,
        io: &mut L,
        id: ExchangeId,
        now: u64,
        present: bool,
        end: bool,
    ) {
        let Some(times) = self.exchanges[id.index()].request else { return };
        let Some(handshake) = &self.setup.mix.target(times.target).handshake else { return };
        let extensions = self.scratch.sections.head.fields().get(EXTENSIONS);
        let answered = handshake.read_extensions(extensions);
        if !self.shook_hands(io, id, now, answered) {
            return;
        }
        if end {
            self.socket_cut(io, id, now, Ok(()));
        } else {
            self.hear_frames(io, id, now, present, &[]);
        }
    }

    /// Called when the server has answered a handshake with the right status. Returns true if frames follow.
    pub(super) fn shook_hands<L: EventLoop>(
        &mut self,
        io: &mut L,
        id: ExchangeId,
        now: u64,
        answered: Answered,
    ) -> bool {
        let Some(times) = self.exchanges[id.index()].request else { return false };
        let text = match answered {
            Answered::Accepted { deflate } => {
                self.pace.proved();
                self.timeouts.heard(id, now);
                let (Some(messages), Some(sockets)) = (&mut self.messages, &mut self.sockets) else {
                    return false;
                };
                sockets.of(id).open(now, deflate);
                let stream = self.setup.mix.target(times.target).stream.as_ref();
                let sends = stream.is_some_and(|stream| stream.spec.to_send() > 0);
                messages.talks[id.index()].due = sends.then_some(now);
                return true;
            }
            Answered::WrongKey => "WebSocket: the server did not answer the key correctly",
            Answered::WrongExtension => "WebSocket: the server chose an extension that was not offered",
        };
        self.recorder.handshake_refused(times.scheduled);
        self.fail_socket(io, id, now, Cause::MalformedResponse, text);
        false
    }

    /// Handles bytes of the server, and sends what follows from them. `present` is false on a retired
    /// connection.
    pub(super) fn hear_frames<L: EventLoop>(
        &mut self,
        io: &mut L,
        id: ExchangeId,
        now: u64,
        present: bool,
        bytes: &[u8],
    ) {
        let end = self.read_frames(id, now, bytes);
        match &end {
            None => self.write_messages(id, now),
            Some(End::Closed(code)) => self.write_close(id, answer(*code)),
            Some(End::Fault { code, .. }) => self.write_close(id, *code),
        }
        let sent = self.send_frames(io, id, present, end.is_some());
        match (end, sent) {
            (None, Ok(())) => {}
            (None, Err(error)) => self.socket_cut(io, id, now, Err(error)),
            (Some(End::Fault { text, .. }), _) => {
                self.tunnel_ended(id, now, false);
                self.fail_socket(io, id, now, Cause::MalformedResponse, &format!("WebSocket: {text}"));
            }
            (Some(End::Closed(code)), _) if is_good(code) => self.socket_closed(io, id, now, present),
            (Some(End::Closed(code)), _) => {
                self.tunnel_ended(id, now, false);
                let text = format!("the server closed the WebSocket with the code {}", answer(code));
                self.fail_socket(io, id, now, Cause::TunnelClosed, &text);
            }
        }
    }

    /// Reads the server's frames. Returns how the WebSocket has ended, if it has.
    fn read_frames(&mut self, id: ExchangeId, now: u64, bytes: &[u8]) -> Option<End> {
        let exchange = &mut self.exchanges[id.index()];
        let (messages, sockets) = (self.messages.as_mut()?, self.sockets.as_mut()?);
        let times = exchange.request?;
        let target = self.setup.mix.target(times.target);
        let (spec, read) = (target.stream.as_ref()?.spec, messages.reads);
        let (answer_so_far, talk) = (&mut exchange.answer, &mut messages.talks[id.index()]);
        let (mut rest, mut heard) = (bytes, false);
        let had_message = talk.received.latest.is_some();
        let end = loop {
            let (consumed, step) = match sockets.of(id).decoder.advance(rest) {
                Ok(decoded) => decoded,
                Err(fault) => break Some(End::Fault { text: fault.to_string(), code: fault.code() }),
            };
            let part = match step {
                Step::NeedMore => break None,
                Step::Begin { opcode, fin, compressed, length } => {
                    if opcode != Opcode::Continuation {
                        sockets.of(id).message_begins(compressed);
                    }
                    (fin && length == 0).then_some((0..0, true))
                }
                Step::Data { data, end } => Some((data, end)),
                Step::Control(Opcode::Ping) => {
                    sockets.write_pong(id);
                    self.recorder.ping_answered(now);
                    heard = true;
                    None
                }
                Step::Control(Opcode::Close) => break Some(End::Closed(sockets.of(id).decoder.close_code())),
                Step::Control(_) => None,
            };
            if let Some((data, is_whole)) = part {
                let inflated =
                    sockets.part(id, (&rest[data], is_whole), &mut self.scratch.pieces, |content| {
                        answer_so_far.body += content.len() as u64;
                        target.checks.body(content, &mut answer_so_far.progress);
                        talk.received.part(content);
                    });
                if let Err(text) = inflated {
                    break Some(End::Fault { text: text.to_owned(), code: close::INVALID_DATA });
                }
                if is_whole {
                    heard = true;
                    let stamp = talk.received.stamp();
                    let (place, arrival) = talk.received.message(stamp, (now, read), spec);
                    self.recorder.message_arrived(times, arrival);
                    if is_awaited(spec, place) && talk.sent < spec.to_send() {
                        talk.due = Some(now);
                    }
                }
            }
            rest = &rest[consumed..];
        };
        let is_first = !had_message && talk.received.latest.is_some();
        if heard {
            self.timeouts.heard(id, now);
        }
        if is_first {
            self.first_message(id);
        }
        end
    }

    /// Writes the messages that are due at `now`, and the close frame after the last answer.
    fn write_messages(&mut self, id: ExchangeId, now: u64) {
        let exchange = &self.exchanges[id.index()];
        let (Some(messages), Some(sockets)) = (&mut self.messages, &mut self.sockets) else { return };
        let Some(times) = exchange.request else { return };
        let Some(stream) = &self.setup.mix.target(times.target).stream else { return };
        let spec = stream.spec;
        let talk = &mut messages.talks[id.index()];
        if !sockets.of(id).is_open() {
            talk.due = None;
            return;
        }
        let (opened, before, due_before) = (sockets.of(id).opened, sockets.out.len(), talk.due);
        // If the server owes answers, more messages do not extend its time limit.
        let extends = talk.received.different() >= u64::from(talk.sent);
        let mut has_sent = false;
        while talk.rest.is_empty()
            && let Some(at) = talk.due.take_if(|due| *due <= now)
        {
            let message_due = due(spec, opened, talk.sent).unwrap_or(at);
            sockets.write_message(times.target, Stamp { number: talk.sent.into(), due: message_due });
            talk.sent += 1;
            has_sent = true;
            self.recorder.message_sent(message_due);
            if talk.sent < spec.to_send() {
                talk.due = after_turn(due(spec, opened, talk.sent), now, sockets.out.len() - before);
            }
        }
        if has_sent && extends {
            self.timeouts.heard(id, now);
        }
        let is_answered = talk.received.different() >= u64::from(talk.sent);
        if spec.kind == StreamKind::BothWays && talk.has_sent_all(spec) && is_answered {
            sockets.write_close(id, close::NORMAL);
        }
        messages.queue(id, now, due_before);
    }

    /// Writes a close frame, unless there was one. No message follows it.
    fn write_close(&mut self, id: ExchangeId, code: u16) {
        if let (Some(messages), Some(sockets)) = (&mut self.messages, &mut self.sockets) {
            messages.talks[id.index()].due = None;
            sockets.write_close(id, code);
        }
    }

    /// Sends the frames that were written. `ends` is true if no frame follows.
    ///
    /// # Errors
    /// HTTP/1: if the frames cannot be sent, and nothing more from the server can be read.
    fn send_frames<L: EventLoop>(
        &mut self,
        io: &mut L,
        id: ExchangeId,
        present: bool,
        ends: bool,
    ) -> io::Result<()> {
        if C::STREAMS {
            self.send_frames_on_stream(id, present, ends);
            return Ok(());
        }
        let connection = self.connection_of(id);
        let token = self.token(connection);
        let (Some(sockets), Some(times)) = (&mut self.sockets, &mut self.exchanges[id.index()].request)
        else {
            return Ok(());
        };
        if sockets.out.is_empty() {
            return Ok(());
        }
        times.length += sockets.out.len() as u64;
        let session = self.connections[connection.index()].session.as_deref_mut();
        let sent = match &mut self.tls {
            None => io.send(token, &sockets.out),
            Some(tls) => tls.send(io, token, session, &sockets.out),
        };
        sockets.out.clear();
        match sent {
            // The server may have sent a close frame before it closed the connection. That frame, or the end
            // of the connection, is read next.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                Ok(())
            }
            sent => sent,
        }
    }

    /// HTTP/2: passes the frames that were written to the stream, as far as the windows allow.
    fn send_frames_on_stream(&mut self, id: ExchangeId, present: bool, ends: bool) {
        let connection = self.connection_of(id);
        let exchange = &mut self.exchanges[id.index()];
        let (Some(messages), Some(sockets)) = (&mut self.messages, &mut self.sockets) else { return };
        let Some(times) = &mut exchange.request else { return };
        let Some(codec) = codec_of(&mut self.connections, connection, present) else { return };
        codec.prepare(&mut self.scratch.pieces);
        let Some((wire, out)) = codec.parts() else { return };
        let (rest, stream, before) = (&mut messages.talks[id.index()].rest, exchange.stream.id, out.len());
        // If the stream takes no data any longer, the frames are dropped.
        if rest.is_empty() {
            let frames = &sockets.out;
            let sent = match frames.is_empty() && !ends {
                true => 0,
                false => wire.send_data(stream, frames, ends, out).unwrap_or(frames.len()),
            };
            rest.extend_from_slice(&frames[sent..]);
        } else {
            rest.extend_from_slice(&sockets.out);
            let sent = wire.send_data(stream, rest, ends, out).unwrap_or(rest.len());
            rest.drain(..sent);
        }
        sockets.out.clear();
        let length = out.len() - before;
        times.length += length as u64;
        // The caller sends the output of a retired connection.
        if present && length > 0 {
            self.list(connection);
        }
    }

    /// HTTP/2: sends more frames, because a window has opened.
    pub(super) fn send_waiting_frames(&mut self, id: ExchangeId, now: u64, present: bool) {
        self.send_frames_on_stream(id, present, false);
        self.write_messages(id, now);
        self.send_frames_on_stream(id, present, false);
    }

    /// Sends the messages of a WebSocket that are due at `now`.
    pub(super) fn send_due_frames<L: EventLoop>(&mut self, io: &mut L, id: ExchangeId, now: u64) {
        let present = !C::STREAMS || self.is_present(id);
        self.write_messages(id, now);
        self.send_now(io, id, now, present);
    }

    /// Closes a WebSocket, because the client sends nothing else. The server answers with a close frame.
    pub(super) fn close_socket<L: EventLoop>(&mut self, io: &mut L, id: ExchangeId, now: u64) {
        let present = !C::STREAMS || self.is_present(id);
        self.write_close(id, close::NORMAL);
        // The server has the whole time limit to answer.
        self.timeouts.heard(id, now);
        self.send_now(io, id, now, present);
    }

    fn send_now<L: EventLoop>(&mut self, io: &mut L, id: ExchangeId, now: u64, present: bool) {
        if let Err(error) = self.send_frames(io, id, present, false) {
            return self.socket_cut(io, id, now, Err(error));
        }
        if !present {
            self.finish_former(io, self.connection_of(id), now);
        }
    }

    /// Called when the stream or the connection of a WebSocket has ended without a close frame of the server.
    pub(super) fn socket_cut<L: EventLoop>(
        &mut self,
        io: &mut L,
        id: ExchangeId,
        now: u64,
        result: io::Result<()>,
    ) {
        self.tunnel_ended(id, now, true);
        if !C::STREAMS {
            self.recorder.closed_by_peer(now);
        }
        let text = match result {
            Ok(()) => CUT.to_owned(),
            Err(error) => format!("{CUT}: {error}"),
        };
        self.fail_socket(io, id, now, Cause::TunnelCut, &text);
    }

    /// HTTP/2: the cause and the description of a failure. `found` is the cause for which the stream has
    /// ended.
    pub(super) fn cause_of_end(
        &mut self,
        id: ExchangeId,
        now: u64,
        found: (Cause, String),
    ) -> (Cause, String) {
        if !self.is_socket(id) {
            return found;
        }
        self.tunnel_ended(id, now, true);
        (Cause::TunnelCut, format!("{CUT}: {}", found.1))
    }

    /// Records that a WebSocket has ended. `is_cut` is true if there was no close frame of the server.
    pub(super) fn tunnel_ended(&mut self, id: ExchangeId, now: u64, is_cut: bool) {
        let Some(times) = self.exchanges[id.index()].request else { return };
        if let Some(sockets) = &mut self.sockets {
            let is_compressed = sockets.of(id).deflate;
            self.recorder.tunnel_ended(times.scheduled, now, is_compressed, is_cut);
        }
    }

    /// Called when the exchange of a WebSocket has a response: a refusal, or a close frame. Returns true if
    /// some frames were not sent.
    pub(super) fn end_socket(&mut self, id: ExchangeId, now: u64) -> bool {
        let Some(times) = self.exchanges[id.index()].request else { return false };
        if self.is_socket(id) {
            self.tunnel_ended(id, now, false);
        } else {
            self.recorder.handshake_refused(times.scheduled);
            if C::STREAMS {
                // No frame follows, so the client's side of the stream ends too.
                self.send_frames_on_stream(id, self.is_present(id), true);
            }
        }
        self.messages.as_ref().is_some_and(|messages| !messages.talks[id.index()].rest.is_empty())
    }

    /// Called when the close handshake of a WebSocket is complete. Its connection carries no other request.
    fn socket_closed<L: EventLoop>(&mut self, io: &mut L, id: ExchangeId, now: u64, present: bool) {
        let exchange = &self.exchanges[id.index()];
        let Some(times) = exchange.request else { return };
        let target = self.setup.mix.target(times.target);
        if target.is_endless() && matches!(self.source, Source::Quiet) {
            return self.complete_endless(io, id, now, true);
        }
        if C::STREAMS {
            return self.response_complete(io, id, now, present);
        }
        let response = exchange.answer.response(target);
        self.complete(io, id, now, response, false);
    }

    /// Ends an exchange that has failed. The connection is closed; HTTP/2 resets the stream instead, as after
    /// a timeout.
    fn fail_socket<L: EventLoop>(&mut self, io: &mut L, id: ExchangeId, now: u64, cause: Cause, text: &str) {
        if C::STREAMS {
            return self.stream_timed_out(io, id, now, cause, text);
        }
        self.fail(io, self.connection_of(id), now, cause, text);
    }

    /// True if an exchange with streams waits for nothing but its own next message. The message may be due
    /// already, because the worker checks time limits before it sends messages.
    pub(super) fn waits_for_itself(&self, id: ExchangeId) -> bool {
        let exchange = &self.exchanges[id.index()];
        let (Some(messages), Some(times)) = (&self.messages, exchange.request) else { return false };
        let Some(stream) = &self.setup.mix.target(times.target).stream else { return false };
        let talk = &messages.talks[id.index()];
        let is_answered = talk.received.different() >= u64::from(talk.sent);
        let is_our_turn = stream.spec.kind == StreamKind::ClientStream || is_answered;
        // A client that will leave a stream of tokens waits for the server.
        let is_our_turn = is_our_turn && stream.spec.tokens.is_none();
        exchange.in_flight && is_our_turn && talk.due.is_some() && talk.rest.is_empty()
    }
}
