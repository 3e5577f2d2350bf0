//! Answers with many messages over HTTP/2: server-sent events, and gRPC calls with their deadlines and the
//! streams of messages that they send and receive.

use super::super::answer::StreamAnswerTo;
use super::super::calls::{Ending, Flow};
use super::super::conversation::Abort;
use super::super::events::Requested;
use super::super::llm::{Incoming, Outcome};
use super::super::stream::{EventStream, Next};
use super::http2::TURN;
use super::state::Server;
use super::streams::{Exchange, Http2, Named, Prepared, Shared, Stage, StreamTimer};
use hoptax_format::clock;
use hoptax_format::messages::{self, StreamKind};
use hoptax_format::stamp::Stamp;
use hoptax_load::event_loop::Token;
use hoptax_wire::grpc;
use hoptax_wire::http2::hpack::write_literal;
use hoptax_wire::http2::{Code, Connection};
use std::cmp::Reverse;

const ENCODING: &str = "grpc-encoding";
/// Maximum time until a timer checks a deadline, nanoseconds. Most calls end long before their deadline, but
/// their timers need memory until they are due.
const LONGEST_LOOK: u64 = clock::SECOND;

impl Server<'_> {
    /// Prepares the answer to a call. The head of the request is in the sections.
    pub(super) fn begin_call(&mut self, token: Token, http2: &mut Http2, named: Named) {
        let Some(exchange) = http2.get(named) else { return };
        let head = &self.shared.sections.head;
        let path = head.path().unwrap_or_default();
        let place = exchange.chosen.map(|chosen| chosen.place);
        let rules = self.rules.as_ref();
        let ruled = place.and_then(|place| Some(rules?.get(place)));
        let calls = self.calls.of_mut(exchange.is_web);
        let call = calls.prepare(path, place, ruled.unwrap_or(&self.answers));
        exchange.call = Some(call);
        let kind = calls.stream_kind(path);
        exchange.is_early = kind == Some(StreamKind::BothWays);
        // A call that fails has no message.
        if !calls.get(call, exchange.to.failed).body.is_empty() {
            exchange.flow = calls.flow(path).map(Box::new);
        }
        if let Some(conversation) = exchange.conversation()
            && let Some(encoding) = head.fields().get(ENCODING)
        {
            conversation.encoding = encoding.to_vec();
        }
        if let Some(limit) = head.fields().get(grpc::TIMEOUT).and_then(grpc::read_timeout) {
            self.counts.deadlines.add(limit);
            exchange.deadline = clock::now().saturating_add(limit).max(1);
            // The answer to a unary call is due at a known time. Only other calls can outlast their deadline
            // unnoticed.
            if kind.is_some() {
                let deadline = exchange.deadline;
                let timer = self.timer(token, named, deadline);
                self.shared.watch_deadline(timer, deadline, clock::now());
            }
        }
    }

    /// If a request gets events, prepares them. If it is for the language model, begins to read it. The head
    /// of the request is in the sections.
    pub(super) fn prepare_events(&mut self, http2: &mut Http2, named: Named) {
        let Some(exchange) = http2.get(named) else { return };
        if exchange.call.is_some() || exchange.to.failed {
            return;
        }
        let head = &self.shared.sections.head;
        if self.sources.llm.is_some()
            && exchange.chosen.is_none()
            && let Some(mut incoming) = Incoming::new(head.method(), head.path().unwrap_or_default())
        {
            head.fields().iter().for_each(|(name, _)| incoming.field(name));
            exchange.llm = Some(Box::new(incoming));
            return;
        }
        if self.sources.events.is_none() {
            return;
        }
        let mut requested = Requested::default();
        for (name, value) in self.shared.sections.head.fields().iter() {
            requested.field(name, value);
        }
        if let Some(from) = requested.from() {
            let stream = if exchange.to.head { EventStream::empty() } else { EventStream::new(from) };
            exchange.flow = Some(Box::new(Flow::Events(stream)));
        }
    }

    /// Chooses the answer if a request is for the language model. Returns its delay, nanoseconds.
    pub(super) fn answer_of_model(&mut self, exchange: &mut Exchange) -> u64 {
        let incoming = exchange.llm.take();
        let Some((incoming, llm)) = incoming.zip(self.sources.llm.as_mut()) else { return 0 };
        match llm.answer(&incoming, &self.counts.llm) {
            Outcome::Stream(completion) => {
                exchange.flow = Some(Box::new(Flow::Events(EventStream::of_model(completion))));
                0
            }
            Outcome::Whole(whole, later) => {
                let (head, body) = whole.http2(llm.headers().0);
                let (block, is_of_model) = (Some(head), true);
                let prepared = Prepared { block, body, is_of_model, ..Prepared::default() };
                exchange.prepared = Some(Box::new(prepared));
                later
            }
        }
    }

    pub(super) fn set_timer(&mut self, token: Token, exchange: Named, due: u64) {
        let timer = self.timer(token, exchange, due);
        self.shared.timers.push(Reverse(timer));
    }

    fn timer(&self, token: Token, exchange: Named, due: u64) -> StreamTimer {
        let generation = self.connections[token.index()].generation;
        StreamTimer { due, token, generation, exchange, watches_deadline: false }
    }

    /// Sends the next messages of an answer, or its end. `now` is the time with stamps, and otherwise 0.
    pub(super) fn send_messages(&mut self, token: Token, http2: &mut Http2, named: Named, now: u64) {
        let Some(exchange) = http2.get(named) else { return };
        if let Some(abort) = exchange.abort {
            return self.abort(http2, named, abort, now);
        }
        let is_paced = matches!(exchange.flow.as_deref(), Some(Flow::Paced(_) | Flow::Events(_)));
        if !exchange.has_sent_head {
            self.send_first_head(http2, named, None, now);
        }
        if is_paced {
            self.send_due_messages(token, http2, named);
        } else {
            self.send_replies(http2, named, now);
        }
    }

    /// Sends the head of an answer with messages, or that of an answer without one because of an abort.
    fn send_first_head(&mut self, http2: &mut Http2, named: Named, abort: Option<Abort>, now: u64) {
        let is_stamped = self.answers.are_stamped();
        let Some(exchange) = http2.get(named) else { return };
        exchange.has_sent_head = true;
        let calls = self.calls.of(exchange.is_web);
        if is_stamped {
            self.shared.write_stamp(Stamp { received: exchange.received, replied: now });
        }
        let Shared { stamp, varying, output, .. } = &mut self.shared;
        varying.clear();
        if is_stamped {
            varying.extend_from_slice(stamp);
        }
        if let Some(conversation) = exchange.conversation()
            && !conversation.encoding.is_empty()
        {
            write_literal(varying, ENCODING, &conversation.encoding);
        }
        let events = exchange.events();
        let answers = events.and_then(|stream| self.sources.answers(stream.completion.is_some()));
        let (block, end) = match answers.zip(events) {
            Some((answers, stream)) => {
                let is_over = self.sources.next(stream, 0) == Next::End;
                (answers.of_stream(StreamAnswerTo::default()).0, is_over)
            }
            None => {
                let block = abort.map_or(calls.head_and_ending().0, |abort| calls.aborted(abort).0);
                (block, abort.is_some())
            }
        };
        http2.connection.send_head(named.stream, block, varying, end, output);
        if end && abort.is_none() {
            http2.end(named);
        }
    }

    /// Ends a call with the status of an abort.
    fn abort(&mut self, http2: &mut Http2, named: Named, abort: Abort, now: u64) {
        let Some(exchange) = http2.get(named) else { return };
        if exchange.has_sent_head {
            let (_, ending) = self.calls.of(exchange.is_web).aborted(abort);
            // Without a window for the frame, the client only sees that the stream is reset.
            send_ending(&mut http2.connection, named.stream, (ending, 0), &mut self.shared.output);
        } else {
            self.send_first_head(http2, named, Some(abort), now);
        }
        self.end_call(http2, named);
    }

    /// Frees the exchange of a call whose answer has ended. If the request has not ended, the client need not
    /// send the rest (RFC 9113, section 8.1).
    pub(super) fn end_call(&mut self, http2: &mut Http2, named: Named) {
        http2.connection.reset(named.stream, Code::NO_ERROR, &mut self.shared.output);
        http2.end(named);
    }

    /// Sends the messages or events that are due. Nothing is allocated for a message.
    fn send_due_messages(&mut self, token: Token, http2: &mut Http2, named: Named) {
        let Some(exchange) = http2.exchanges.get_mut(named.place as usize) else { return };
        let (call, is_web) = (exchange.call, exchange.is_web);
        let Some(flow) = exchange.flow.as_deref_mut() else { return };
        let now = clock::now();
        let mut room = TURN;
        loop {
            let next = match &*flow {
                Flow::Paced(paced) => paced.next(now),
                Flow::Events(stream) => self.sources.next(stream, now),
                Flow::BothWays(_) => return,
            };
            match next {
                Next::End => break,
                Next::Wait(due) => {
                    exchange.stage = Stage::Delayed;
                    if due < u64::MAX {
                        self.set_timer(token, named, due);
                    }
                    return;
                }
                Next::Cut => {
                    let output = &mut self.shared.output;
                    http2.connection.reset(named.stream, Code::INTERNAL_ERROR, output);
                    return http2.end(named);
                }
                Next::Send | Next::Comment if room == 0 => return http2.ready.push_back(named),
                Next::Send | Next::Comment => {}
            }
            let (rest, is_last) = match (&mut *flow, call) {
                (Flow::Paced(paced), Some(call)) => {
                    let stamp = messages::Stamp { number: paced.number.into(), due: paced.due() };
                    (&self.calls.of_mut(is_web).paced(call, stamp)[paced.sent..], false)
                }
                (Flow::Events(stream), _) => self.sources.part(stream, next),
                _ => return,
            };
            let part = &rest[..rest.len().min(room)];
            let end = is_last && part.len() == rest.len();
            let output = &mut self.shared.output;
            let Some(sent) = http2.connection.send_data(named.stream, part, end, output) else {
                return http2.end(named);
            };
            let (is_blocked, length) = (sent < part.len(), rest.len());
            match &mut *flow {
                Flow::Paced(paced) => paced.sent(sent, paced.sent + length),
                Flow::Events(stream) => self.counts.sent(self.sources.sent(stream, sent, next, now)),
                Flow::BothWays(_) => {}
            }
            room -= sent;
            if is_blocked {
                exchange.stage = Stage::Blocked;
                return;
            }
            if end {
                return http2.end(named);
            }
        }
        // The last event has ended its stream.
        let Flow::Paced(paced) = flow else { return };
        let (_, ending) = self.calls.of(is_web).head_and_ending();
        let output = &mut self.shared.output;
        let sent = send_ending(&mut http2.connection, named.stream, (ending, paced.sent), output);
        if let Some(sent) = sent {
            paced.sent += sent;
            exchange.stage = Stage::Blocked;
            return;
        }
        http2.end(named);
    }

    /// Sends the replies of a call in which both sides send a stream.
    fn send_replies(&mut self, http2: &mut Http2, named: Named, now: u64) {
        let Some(exchange) = http2.exchanges.get_mut(named.place as usize) else { return };
        let Some(Flow::BothWays(conversation)) = exchange.flow.as_deref_mut() else { return };
        let unsent = conversation.unsent();
        let part = &unsent[..unsent.len().min(TURN)];
        let (length, is_all) = (part.len(), part.len() == unsent.len());
        let output = &mut self.shared.output;
        let Some(sent) = http2.connection.send_data(named.stream, part, false, output) else {
            return http2.end(named);
        };
        conversation.sent(sent);
        if sent < length {
            exchange.stage = Stage::Blocked;
            return;
        }
        if !is_all {
            return http2.ready.push_back(named);
        }
        match conversation.outcome() {
            None => exchange.stage = Stage::Reading,
            Some(Ok(())) => {
                // With gRPC-Web, only the server sends a stream.
                let (_, ending) = self.calls.head_and_ending();
                http2.connection.send_head(named.stream, &ending.trailers, &[], true, output);
                http2.end(named);
            }
            Some(Err(abort)) => self.abort(http2, named, abort, now),
        }
    }
}

/// Ends an answer that had messages. `from` is the number of bytes of the gRPC-Web frame that were sent
/// before. If the window is too small for the rest, returns the number of further bytes that were sent.
fn send_ending(
    connection: &mut Connection,
    stream: u32,
    (ending, from): (&Ending, usize),
    output: &mut Vec<u8>,
) -> Option<usize> {
    if ending.frame.is_empty() {
        connection.send_head(stream, &ending.trailers, &[], true, output);
        return None;
    }
    let rest = &ending.frame[from..];
    connection.send_data(stream, rest, true, output).filter(|sent| *sent < rest.len())
}

impl Shared {
    /// Sets a timer for the deadline of a call, or for an earlier check. `timer` names the call.
    pub(super) fn watch_deadline(&mut self, timer: StreamTimer, deadline: u64, now: u64) {
        let due = deadline.min(now.saturating_add(LONGEST_LOOK));
        self.timers.push(Reverse(StreamTimer { due, watches_deadline: true, ..timer }));
    }
}

impl Http2 {
    /// Receives a part of a request's body.
    pub(super) fn body(&mut self, named: Named, data: &[u8]) {
        let Some(exchange) = self.get(named) else { return };
        if let Some(special) = &mut exchange.special {
            return special.body(data);
        }
        if let Some(incoming) = &mut exchange.llm {
            return incoming.body(data);
        }
        let Some(conversation) = exchange.conversation() else { return };
        let received = conversation.receive(data);
        let replies = !conversation.unsent().is_empty();
        match received {
            Ok(()) if replies => self.continue_call(named, false),
            Ok(()) => {}
            Err(abort) => {
                exchange.abort = exchange.abort.or(Some(abort));
                self.continue_call(named, true);
            }
        }
    }

    /// Called when the client has ended its side. Returns false unless this is a call in which both sides
    /// send a stream.
    pub(super) fn ended_conversation(&mut self, named: Named) -> bool {
        let Some(exchange) = self.get(named) else { return false };
        let Some(conversation) = exchange.conversation() else { return false };
        conversation.end();
        self.continue_call(named, false);
        true
    }

    /// Ends a call at its deadline.
    pub(super) fn end_too_late(&mut self, named: Named) {
        if let Some(exchange) = self.get(named) {
            exchange.abort = exchange.abort.or(Some(Abort::TooLate));
            self.continue_call(named, true);
        }
    }

    /// Queues the exchange of a call that waits for the client. An abort needs no window and waits for
    /// nothing.
    fn continue_call(&mut self, named: Named, aborts: bool) {
        let stage = self.get(named).map(|exchange| exchange.stage);
        if stage.is_some_and(|stage| stage == Stage::Reading || (aborts && stage != Stage::Ready)) {
            self.queue(named);
        }
    }
}
