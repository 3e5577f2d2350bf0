//! HTTP/2 on the connections of an instance. Responses are sent when they are due, in any order. Ready
//! exchanges take turns, so that a large response does not hold up the others.

use super::super::answer::StreamAnswerTo;
use super::super::calls::Flow;
use super::super::conversation::Abort;
use super::super::sockets::Sockets;
use super::super::special::{Special, StreamResponse, is_special};
use super::state::{HIGH_WATER, Server, State};
use super::streams::{Http2, Named, Prepared, Shared, Stage, StreamTimer, named};
use hoptax_format::clock;
use hoptax_format::stamp::Stamp;
use hoptax_load::event_loop::Token;
use hoptax_wire::grpc;
use hoptax_wire::http2::{Code, Step};
use std::cmp::Reverse;
use std::mem;

/// Maximum number of bytes of a body that are sent before other responses get their turn. Four frames.
pub(super) const TURN: usize = 64 * 1024;
/// Number of bytes that are collected for a send.
const BATCH: usize = 64 * 1024;

impl Server<'_> {
    /// Starts HTTP/2 on a connection.
    pub(super) fn begin_http2(&mut self, token: Token) {
        let connection = &mut self.connections[token.index()];
        let kept = mem::take(&mut connection.kept);
        connection.state = State::Http2;
        connection.http2 = Some(Box::new(Http2::new(kept, &mut self.shared.output)));
    }

    pub(super) fn received_http2(&mut self, io: &mut impl Sockets, token: Token, bytes: &[u8]) {
        let is_crowded = self.counts.open.get() > self.room / 2;
        let connection = &mut self.connections[token.index()];
        connection.heard = if is_crowded { clock::now() } else { 0 };
        match &mut connection.http2 {
            Some(http2) if connection.blocked => http2.kept.extend_from_slice(bytes),
            Some(_) => self.read_http2(io, token, bytes),
            None => {}
        }
    }

    /// Reads the kept input and then `bytes`, and sends the responses that are ready.
    fn read_http2(&mut self, io: &mut impl Sockets, token: Token, bytes: &[u8]) {
        let Some(mut http2) = self.connections[token.index()].http2.take() else { return };
        // The vector keeps its memory, because requests that arrive together often end within a frame.
        let mut kept = mem::take(&mut http2.kept);
        if kept.is_empty() {
            let consumed = self.read_frames(io, token, &mut http2, bytes);
            kept.extend_from_slice(&bytes[consumed..]);
        } else {
            kept.extend_from_slice(bytes);
            let consumed = self.read_frames(io, token, &mut http2, &kept);
            kept.drain(..consumed);
        }
        http2.kept = kept;
        self.send_ready(io, token, http2);
    }

    /// Reads frames from the front of `input`. Returns the number of bytes consumed.
    fn read_frames(&mut self, io: &mut impl Sockets, token: Token, http2: &mut Http2, input: &[u8]) -> usize {
        let now = if self.answers.are_stamped() { clock::now() } else { 0 };
        let mut at = 0;
        loop {
            let Shared { sections, output, .. } = &mut self.shared;
            let Ok((consumed, step)) = http2.connection.advance(&input[at..], sections, output) else {
                // The output ends with GOAWAY.
                self.connections[token.index()].state = State::Discarding;
                return input.len();
            };
            match step {
                Step::NeedMore => return at + consumed,
                Step::Head { stream, end } => {
                    let exchange = self.stream_head(token, http2, stream.id);
                    let is_early = http2.get(exchange).is_some_and(|found| found.is_early);
                    if is_early {
                        self.begin_answer(io, token, http2, exchange, now);
                    }
                    if end {
                        self.request_ended(io, token, http2, exchange, now);
                    } else if !is_early && at + consumed == input.len() {
                        self.send_continue_on(http2, stream.id);
                    }
                }
                Step::Body { stream, data, end } => {
                    if !self.websocket_body(http2, named(stream), &input[at..][data.clone()]) {
                        http2.body(named(stream), &input[at..][data]);
                    }
                    if end {
                        self.request_ended(io, token, http2, named(stream), now);
                    }
                }
                Step::Trailers { stream } => {
                    if let Some(special) = http2.get(named(stream)).and_then(|found| found.special.as_mut()) {
                        special.stream_trailers(self.shared.sections.trailers.fields());
                    }
                    self.request_ended(io, token, http2, named(stream), now);
                }
                Step::Writable { stream } => http2.queue(named(stream)),
                Step::Reset { stream, .. } => {
                    self.counts.cancels.add(1);
                    if let Some(exchange) = http2.get(named(stream)) {
                        self.counts.abandoned.add(exchange.is_delayed_special().into());
                        exchange.events().into_iter().for_each(|stream| self.counts.left_by_client(stream));
                        self.counts.cut.add(exchange.has_open_websocket().into());
                    }
                    http2.end(named(stream));
                }
                Step::Failed { stream, .. } => http2.end(named(stream)),
                Step::Interim { .. } | Step::Settings | Step::GoAway { .. } | Step::Pong(_) => {}
            }
            at += consumed;
        }
    }

    /// Chooses the answer to the request whose head is in the sections.
    fn stream_head(&mut self, token: Token, http2: &mut Http2, stream: u32) -> Named {
        let open = http2.connection.open_streams();
        self.counts.streams.opened(open);
        let named = http2.begin(stream);
        let exchange = &mut http2.exchanges[named.place as usize];
        let head = &self.shared.sections.head;
        // CONNECT has no path.
        let target = head.path().or(head.authority()).unwrap_or_default();
        if is_special(target) {
            let special = Special::of_stream(head);
            exchange.is_early = special.is_early();
            exchange.special = Some(Box::new(special));
        } else {
            exchange.to = StreamAnswerTo { head: head.method() == b"HEAD", failed: self.behaviour.fails() };
            exchange.chosen = self.rules.as_mut().and_then(|rules| rules.choose(head.method(), target));
            if head.protocol().is_some() {
                self.open_websocket(http2, named);
            } else if head.method() == b"POST"
                && let Some(content_type) = head.fields().get("content-type")
            {
                exchange.is_web = grpc::is_grpc_web(content_type);
                if exchange.is_web || grpc::is_grpc(content_type) {
                    self.begin_call(token, http2, named);
                }
            }
            if self.sources.events.is_some() || self.sources.llm.is_some() {
                self.prepare_events(http2, named);
            }
        }
        if let Some(limit) = self.close_after {
            http2.requests += 1;
            // As in nginx, this stream is the last, and later ones are ignored.
            if http2.requests >= limit && !http2.going_away {
                http2.going_away = true;
                http2.connection.go_away(Code::NO_ERROR, &mut self.shared.output);
            }
        }
        named
    }

    /// Sends 100 Continue to a client that waits for it. The request's head is in the sections.
    fn send_continue_on(&mut self, http2: &mut Http2, stream: u32) {
        let Shared { sections, output, interim, .. } = &mut self.shared;
        let expect = sections.head.fields().get("expect");
        if expect.is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue")) {
            http2.connection.send_head(stream, interim, &[], false, output);
        }
    }

    /// Called when the whole request has been read.
    fn request_ended(&mut self, io: &impl Sockets, token: Token, http2: &mut Http2, named: Named, now: u64) {
        if !http2.ended_conversation(named) && !self.ended_websocket(http2, named) {
            self.begin_answer(io, token, http2, named, now);
        }
    }

    /// Called when the response no longer depends on the request: usually, when the whole request has been
    /// read. Requests are counted now, so that the count includes requests whose response is delayed or whose
    /// client gives up.
    fn begin_answer(&mut self, io: &impl Sockets, token: Token, http2: &mut Http2, named: Named, now: u64) {
        // A request that was answered early ends later.
        let Some(exchange) = http2.get(named).filter(|found| found.stage == Stage::Reading) else { return };
        exchange.received = now;
        let delay = if let Some(special) = exchange.special.take() {
            let outcome = self.special_outcome(&special, io.tls(token));
            let mut goes_away = false;
            exchange.prepared = Some(Box::new(match outcome.response {
                Some(response) => {
                    goes_away = response.ends_connection;
                    let is_cut = response.is_cut;
                    let StreamResponse { interim, head, body, trailers } = special.http2(response);
                    Prepared { interim, block: Some(head), body, trailers, is_cut, is_of_model: false }
                }
                None => Prepared { is_cut: true, ..Prepared::default() },
            }));
            if goes_away && !http2.going_away {
                http2.going_away = true;
                http2.connection.go_away(Code::NO_ERROR, &mut self.shared.output);
            }
            outcome.delay_ns
        } else {
            self.counts.http2.add(1);
            let later = self.answer_of_model(exchange);
            let delay = match exchange.conversation() {
                Some(_) => 0,
                None => exchange.chosen.map_or_else(|| self.behaviour.delay_ns(), |chosen| chosen.delay_ns),
            };
            delay.saturating_add(later)
        };
        let Some(exchange) = http2.get(named) else { return };
        let needs_time = delay > 0 || exchange.deadline > 0 || exchange.flow.is_some();
        let mut due = if needs_time { clock::now().saturating_add(delay) } else { 0 };
        if exchange.deadline > 0 && due >= exchange.deadline {
            exchange.abort = Some(Abort::TooLate);
            due = exchange.deadline;
        }
        match exchange.flow.as_deref_mut() {
            Some(Flow::Paced(paced)) => paced.begun = due,
            Some(Flow::Events(stream)) => stream.begin(due),
            Some(Flow::BothWays(_)) | None => {}
        }
        if delay == 0 {
            return http2.queue(named);
        }
        exchange.stage = Stage::Delayed;
        self.set_timer(token, named, due);
    }

    /// Sends every delayed response that is due.
    pub(super) fn send_due_on_streams(&mut self, io: &mut impl Sockets, now: u64) {
        while let Some(&Reverse(timer)) = self.shared.timers.peek() {
            if timer.due > now {
                break;
            }
            self.shared.timers.pop();
            let StreamTimer { token, generation, exchange, watches_deadline, .. } = timer;
            let connection = &mut self.connections[token.index()];
            if connection.generation != generation {
                continue;
            }
            if let Some(http2) = &mut connection.http2 {
                match http2.get(exchange).map(|found| (found.deadline, found.stage)) {
                    Some((deadline, _)) if watches_deadline && deadline > now => {
                        self.shared.watch_deadline(timer, deadline, now);
                    }
                    Some(_) if watches_deadline => http2.end_too_late(exchange),
                    Some((_, Stage::Delayed)) => http2.queue(exchange),
                    _ => {}
                }
            }
            // The responses of one connection are sent together.
            let next = self.shared.timers.peek().filter(|Reverse(next)| next.due <= now);
            let is_last =
                next.is_none_or(|Reverse(next)| (next.token, next.generation) != (token, generation));
            if is_last
                && !connection.blocked
                && let Some(http2) = connection.http2.take()
            {
                self.send_ready(io, token, http2);
            }
        }
    }

    /// Sends the responses that are ready, and returns `http2` to its connection unless that has ended.
    pub(super) fn send_ready(&mut self, io: &mut impl Sockets, token: Token, mut http2: Box<Http2>) {
        if self.connections[token.index()].state != State::Http2 {
            // The client violated the protocol.
            self.count_left(&mut http2);
            if self.flush_frames(io, token) {
                self.settle(io, token);
            }
            return;
        }
        let is_stamped = self.answers.are_stamped() && !http2.ready.is_empty();
        let now = if is_stamped { clock::now() } else { 0 };
        loop {
            while self.shared.output.len() < BATCH
                && let Some(exchange) = http2.ready.pop_front()
            {
                self.respond(token, &mut http2, exchange, now);
            }
            if !self.flush_frames(io, token) {
                return self.count_left(&mut http2);
            }
            let is_slow = io.unsent(token) > HIGH_WATER;
            if is_slow {
                self.connections[token.index()].blocked = true;
                io.pause(token);
            }
            if is_slow || http2.ready.is_empty() {
                break;
            }
        }
        self.connections[token.index()].http2 = Some(http2);
        self.settle_http2(io, token);
    }

    /// Counts the streams of events and the WebSockets of a connection that fails.
    fn count_left(&self, http2: &mut Http2) {
        http2.count_left(self.counts);
        self.counts.cut.add(http2.end_websockets());
    }

    /// Appends the next part of a response to the output.
    fn respond(&mut self, token: Token, http2: &mut Http2, named: Named, now: u64) {
        let Some(exchange) = http2.exchanges.get_mut(named.place as usize) else { return };
        let stream = named.stream;
        if exchange.stream != stream {
            return;
        }
        if exchange.websocket.is_some() {
            return self.send_websocket(token, http2, named, now);
        }
        if exchange.flow.is_some() || exchange.abort.is_some() {
            return self.send_messages(token, http2, named, now);
        }
        let is_call = exchange.call.is_some();
        let mut trailers = None;
        let (block, body, is_cut) = match (&exchange.prepared, exchange.call) {
            (Some(prepared), _) => (prepared.block.as_ref(), prepared.body.as_slice(), prepared.is_cut),
            (None, Some(call)) => {
                let answer = self.calls.of(exchange.is_web).get(call, exchange.to.failed);
                trailers = answer.trailers;
                (Some(answer.head), answer.body, false)
            }
            (None, None) => {
                let rules = self.rules.as_ref();
                let ruled = exchange.chosen.and_then(|chosen| Some(rules?.get(chosen.place)));
                let (block, body) = ruled.unwrap_or(&self.answers).of_stream(exchange.to);
                (Some(block), body, false)
            }
        };
        let prepared = exchange.prepared.as_ref();
        let trailers = prepared.and_then(|prepared| prepared.trailers.as_ref()).or(trailers);
        let is_stamped = self.answers.are_stamped() && prepared.is_none_or(|prepared| prepared.is_of_model);
        if !mem::replace(&mut exchange.has_sent_head, true)
            && let Some(block) = block
        {
            if is_stamped {
                self.shared.write_stamp(Stamp { received: exchange.received, replied: now });
            }
            let Shared { stamp, output, .. } = &mut self.shared;
            let varying = if is_stamped { stamp.as_slice() } else { &[] };
            let end = body.is_empty() && !is_cut && trailers.is_none();
            if let Some(interim) = prepared.and_then(|prepared| prepared.interim.as_ref()) {
                http2.connection.send_head(stream, interim, &[], false, output);
            }
            http2.connection.send_head(stream, block, varying, end, output);
            if end {
                return if is_call { self.end_call(http2, named) } else { http2.end(named) };
            }
        }
        let rest = &body[exchange.sent..];
        let part = &rest[..rest.len().min(TURN)];
        let is_last = part.len() == rest.len();
        let output = &mut self.shared.output;
        let end = is_last && !is_cut && trailers.is_none();
        match http2.connection.send_data(stream, part, end, output) {
            Some(sent) if sent < part.len() => {
                exchange.sent += sent;
                exchange.stage = Stage::Blocked;
            }
            Some(sent) if !is_last => {
                exchange.sent += sent;
                http2.ready.push_back(named);
            }
            sent => {
                if sent.is_some()
                    && let Some(trailers) = trailers
                {
                    http2.connection.send_head(stream, trailers, &[], true, output);
                }
                if is_cut {
                    http2.connection.reset(stream, Code::INTERNAL_ERROR, output);
                }
                http2.end(named);
            }
        }
    }

    /// Sends the output. Returns false if the connection failed and is gone.
    fn flush_frames(&mut self, io: &mut impl Sockets, token: Token) -> bool {
        let length = self.shared.output.len() as u64;
        if length == 0 {
            return true;
        }
        // Count the bytes before sending them, as for HTTP/1.
        self.counts.bytes_out.add(length);
        let sent = io.send(token, &self.shared.output);
        self.shared.output.clear();
        if sent.is_err() {
            self.counts.bytes_out.take_back(length);
            self.close(io, token);
        }
        sent.is_ok()
    }

    /// Called when the kernel has accepted all bytes of a connection.
    pub(super) fn drained_http2(&mut self, io: &mut impl Sockets, token: Token) {
        let connection = &mut self.connections[token.index()];
        if !mem::take(&mut connection.blocked) {
            return self.settle_http2(io, token);
        }
        self.read_http2(io, token, &[]);
        if !self.connections[token.index()].blocked {
            io.resume(token);
        }
    }

    /// Closes the connection if nothing more will be sent: after our GOAWAY, or after the client has ended
    /// its side.
    pub(super) fn settle_http2(&mut self, io: &mut impl Sockets, token: Token) {
        let connection = &mut self.connections[token.index()];
        let Some(http2) = &connection.http2 else { return };
        let is_over = match (connection.peer_ended, http2.going_away) {
            (true, _) => !http2.will_send() && !connection.blocked,
            (false, true) => http2.free.len() == http2.exchanges.len(),
            (false, false) => false,
        };
        if is_over && io.unsent(token) == 0 {
            connection.http2 = None;
            connection.state = State::Discarding;
            self.settle(io, token);
        }
    }

    /// Sends GOAWAY before an idle connection is closed, so that the client can send its next request again.
    pub(super) fn say_goodbye(&mut self, io: &mut impl Sockets, token: Token) {
        let output = &mut self.shared.output;
        if let Some(http2) = &mut self.connections[token.index()].http2 {
            http2.connection.go_away(Code::NO_ERROR, output);
            // A failure does not matter, because the connection is closed anyway.
            let _ = io.send(token, output);
            output.clear();
        }
    }
}
