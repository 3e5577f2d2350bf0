//! WebSockets over HTTP/2 (RFC 8441): each is a stream that an extended CONNECT opens, and whose DATA frames
//! carry the frames of both sides.

use super::super::sockets::Sockets;
use super::super::websocket::{OnStream, WebSocket, accept_stream};
use super::groups::{GROUP, Member, TURN};
use super::state::{HIGH_WATER, Server, Timer};
use super::streams::{Http2, Named, Prepared, Shared, Stage};
use hoptax_format::stamp::Stamp;
use hoptax_load::event_loop::Token;
use hoptax_wire::http2::hpack::write_literal;
use hoptax_wire::http2::{Block, Code, response_fields};
use hoptax_wire::websocket::EXTENSIONS;
use std::cmp::Reverse;
use std::mem;

/// Limit for the frames of a stream that the client does not read: two of the largest messages. The client's
/// windows are returned at once, so nothing else limits them.
const MOST_WAITING: usize = 33 << 20;

impl Server<'_> {
    /// Prepares the answer to an extended CONNECT. The head of the request is in the sections.
    pub(super) fn open_websocket(&mut self, http2: &mut Http2, named: Named) {
        let Some(exchange) = http2.get(named) else { return };
        // The client ends its side last.
        exchange.is_early = true;
        if exchange.chosen.is_some() || exchange.to.failed {
            return;
        }
        let head = &self.shared.sections.head;
        let settings = &mut self.websockets.settings;
        match accept_stream(head.protocol().unwrap_or_default(), head.fields(), settings.compression) {
            Ok(extension) => {
                let answers = &self.answers;
                let push = settings.push(head.path().unwrap_or_default(), || answers.body());
                exchange.websocket = Some(Box::new(OnStream::new(WebSocket::new(extension, push))));
                self.counts.websockets.add(1);
            }
            Err(refusal) => {
                let fields = response_fields(refusal.status(), [], Some(0)).expect("a status and a length");
                let block = Some(Block::plain(&fields));
                exchange.prepared = Some(Box::new(Prepared { block, ..Prepared::default() }));
            }
        }
    }

    /// Receives a part of a request's body. Returns false if the exchange is no WebSocket.
    pub(super) fn websocket_body(&mut self, http2: &mut Http2, named: Named, data: &[u8]) -> bool {
        let Some(on_stream) = http2.websocket(named) else { return false };
        let OnStream { websocket, unsent, .. } = &mut *on_stream;
        let passed = websocket.talk.receive(data, &mut self.websockets.tools, unsent);
        self.counts.messages_in.add(passed.received);
        self.counts.messages_out.add(passed.sent);
        if on_stream.waiting().len() > MOST_WAITING {
            http2.connection.reset(named.stream, Code::ENHANCE_YOUR_CALM, &mut self.shared.output);
            http2.end(named);
        } else if !on_stream.waiting().is_empty() || on_stream.is_over() {
            http2.wake(named);
        }
        true
    }

    /// The client has ended its side of a stream. Returns false if the exchange is no WebSocket.
    pub(super) fn ended_websocket(&mut self, http2: &mut Http2, named: Named) -> bool {
        let Some(on_stream) = http2.websocket(named) else { return false };
        self.counts.cut.add((!on_stream.is_over()).into());
        on_stream.has_ended = true;
        http2.wake(named);
        true
    }

    /// Appends the next part of a WebSocket to the output: the head of the answer, and then frames. `now` is
    /// the time with stamps, and otherwise 0.
    pub(super) fn send_websocket(&mut self, token: Token, http2: &mut Http2, named: Named, now: u64) {
        let generation = self.connections[token.index()].generation;
        let Some(exchange) = http2.exchanges.get_mut(named.place as usize) else { return };
        let Some(on_stream) = exchange.websocket.as_deref_mut() else { return };
        if !mem::replace(&mut exchange.has_sent_head, true) {
            let is_stamped = self.answers.are_stamped();
            if is_stamped {
                self.shared.write_stamp(Stamp { received: exchange.received, replied: now });
            }
            let Shared { stamp, varying, output, .. } = &mut self.shared;
            varying.clear();
            if is_stamped {
                varying.extend_from_slice(stamp);
            }
            if let Some(extension) = on_stream.websocket.extension {
                write_literal(varying, EXTENSIONS, extension.as_bytes());
            }
            let head = &self.websockets.settings.head;
            http2.connection.send_head(named.stream, head, varying, false, output);
            let member = Member { token, generation, exchange: Some(named) };
            if let Some((due, place)) = self.websockets.begin(&mut on_stream.websocket, member) {
                self.timers.push(Reverse(Timer { due, token: GROUP, generation: place }));
            }
        }
        // A slow reader gets pushed messages later.
        let writes = on_stream.waiting().is_empty() && !on_stream.is_over();
        if writes {
            let OnStream { websocket, unsent, .. } = &mut *on_stream;
            if let Some(due) = self.websockets.write_due(websocket, unsent, self.counts) {
                self.set_timer(token, named, due);
            }
        }
        let rest = on_stream.waiting();
        let part = &rest[..rest.len().min(TURN)];
        let (length, is_all) = (part.len(), part.len() == rest.len());
        let end = is_all && on_stream.is_over();
        let output = &mut self.shared.output;
        let Some(sent) = http2.connection.send_data(named.stream, part, end, output) else {
            return http2.end(named);
        };
        on_stream.sent(sent);
        if sent < length {
            exchange.stage = Stage::Blocked;
        } else if end {
            http2.end(named);
        } else if !is_all || (!writes && on_stream.websocket.push.is_some()) {
            http2.ready.push_back(named);
        } else {
            let is_pushed = on_stream.websocket.push.is_some();
            exchange.stage = if is_pushed { Stage::Delayed } else { Stage::Reading };
        }
    }

    /// Queues a frame of a group for a stream, unless it reads too slowly. Returns false if it has ended.
    pub(super) fn send_to_stream(
        &mut self,
        io: &mut impl Sockets,
        member: Member,
        plain: &[u8],
        packed: &[u8],
    ) -> bool {
        let Member { token, generation, exchange: Some(named) } = member else { return false };
        let connection = &mut self.connections[token.index()];
        let Some(http2) = connection.http2.as_deref_mut().filter(|_| connection.generation == generation)
        else {
            return false;
        };
        let Some(on_stream) = http2.websocket(named).filter(|on_stream| on_stream.is_open()) else {
            return false;
        };
        if io.unsent(token) > HIGH_WATER || on_stream.waiting().len() > HIGH_WATER {
            self.counts.left_out.add(1);
            return true;
        }
        let frame = if on_stream.websocket.talk.deflates() { packed } else { plain };
        on_stream.unsent.extend_from_slice(frame);
        self.counts.messages_out.add(1);
        http2.wake(named);
        self.touch(token);
        true
    }

    /// Queues the close frame of a stream of a group.
    pub(super) fn close_stream(&mut self, member: Member) {
        let Member { token, generation, exchange: Some(named) } = member else { return };
        let connection = &mut self.connections[token.index()];
        let Some(http2) = connection.http2.as_deref_mut().filter(|_| connection.generation == generation)
        else {
            return;
        };
        let Some(OnStream { websocket, unsent, .. }) = http2.websocket(named) else { return };
        websocket.talk.close(unsent);
        http2.wake(named);
        self.touch(token);
    }

    fn touch(&mut self, token: Token) {
        let touched = &mut self.websockets.touched;
        if touched.last() != Some(&token) {
            touched.push(token);
        }
    }

    /// Sends what was queued for the streams of a group.
    pub(super) fn send_touched(&mut self, io: &mut impl Sockets) {
        let mut touched = mem::take(&mut self.websockets.touched);
        for token in touched.drain(..) {
            let connection = &mut self.connections[token.index()];
            if !connection.blocked
                && let Some(http2) = connection.http2.take()
            {
                self.send_ready(io, token, http2);
            }
        }
        self.websockets.touched = touched;
    }
}
