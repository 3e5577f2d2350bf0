//! HTTP/1 on the connections of an instance. Responses are sent in the order of the requests.

use super::super::answer::{AnswerTo, BAD_REQUEST, CONTINUE, INLINE_BODY};
use super::super::llm::{Incoming, Outcome};
use super::super::rules::Chosen;
use super::super::sockets::Sockets;
use super::super::special::{Special, is_special};
use super::super::websocket::Accepted;
use super::groups::GROUP;
use super::state::{HIGH_WATER, MOST_DELAYED, Reply, Server, State, Timer};
use hoptax_format::clock;
use hoptax_format::stamp::Stamp;
use hoptax_load::event_loop::Token;
use hoptax_wire::grpc;
use hoptax_wire::http1::{Framing, RequestHead, RequestStep, Version, fields};
use memchr::memmem::Finder;
use std::cmp::Reverse;
use std::io;
use std::mem;
use std::sync::LazyLock;

/// Finds the beginning of the content types of gRPC-Web, as clients write it.
static OF_WEB: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"application/grpc-web"));

impl Server<'_> {
    pub(super) fn received_http1(&mut self, io: &mut impl Sockets, token: Token, bytes: &[u8]) {
        let connection = &mut self.connections[token.index()];
        connection.heard = if self.counts.open.get() > self.room / 2 { clock::now() } else { 0 };
        if connection.blocked {
            connection.kept.extend_from_slice(bytes);
            return;
        }
        let generation = connection.generation;
        let mut kept = mem::take(&mut connection.kept);
        let input = if kept.is_empty() {
            bytes
        } else {
            kept.extend_from_slice(bytes);
            &kept
        };
        let consumed = self.read(io, token, input);
        let connection = &mut self.connections[token.index()];
        if connection.generation != generation {
            return;
        }
        if consumed < input.len() && matches!(connection.state, State::Open | State::WebSocket) {
            connection.kept = input[consumed..].to_vec();
        }
        if connection.state != State::Open {
            self.settle(io, token);
        }
    }

    /// Reads requests from the front of `input`, chooses their responses and sends the responses that are
    /// due. Returns the number of bytes consumed.
    fn read(&mut self, io: &mut impl Sockets, token: Token, input: &[u8]) -> usize {
        let mut at = 0;
        let now = if self.answers.are_stamped() { clock::now() } else { 0 };
        while self.connections[token.index()].state == State::Open {
            let connection = &mut self.connections[token.index()];
            match connection.decoder.advance_with(&mut self.cache, &input[at..]) {
                Ok(RequestStep::NeedMore) => break,
                Ok(RequestStep::Head { consumed, head }) => {
                    let body_is_missing = at + consumed == input.len();
                    if is_special(&input[at..][head.target.clone()]) {
                        let special = Box::new(Special::new(&head, &input[at..at + consumed]));
                        if special.is_early() {
                            let tls = io.tls(token);
                            self.answer_special(token, &special, tls);
                        } else {
                            connection.special = Some(special);
                            self.send_continue(token, &head, body_is_missing);
                        }
                    } else {
                        self.head(token, &head, &input[at..at + consumed], body_is_missing);
                    }
                    at += consumed;
                }
                Ok(RequestStep::Body { consumed, data }) => {
                    if let Some(special) = &mut connection.special {
                        special.body(&input[at..][data]);
                    } else if let Some(incoming) = &mut connection.llm {
                        incoming.body(&input[at..][data]);
                    }
                    at += consumed;
                }
                Ok(RequestStep::End { consumed, keep_alive }) => {
                    at += consumed;
                    if !keep_alive {
                        connection.state = State::Last;
                        self.counts.closing.add(1);
                    }
                    if let Some((answer, chosen)) = connection.answer.take() {
                        if keep_alive && !answer.keep_alive {
                            // The client may have sent further requests.
                            connection.state = State::Discarding;
                        }
                        self.answer_request(token, (answer, chosen), now);
                    } else if let Some(mut special) = connection.special.take() {
                        special.http1_trailers(&input[at - consumed..at]);
                        let tls = io.tls(token);
                        self.answer_special(token, &special, tls);
                    }
                }
                Err(_) => {
                    connection.state = State::Discarding;
                    self.reply(token, Reply::BadRequest, 0);
                }
            }
            if self.ready_bytes > HIGH_WATER && !self.flush(io, token) {
                return at;
            }
            let connection = &mut self.connections[token.index()];
            if io.unsent(token) > HIGH_WATER || connection.line.len() >= MOST_DELAYED {
                connection.blocked = true;
                io.pause(token);
                break;
            }
        }
        self.flush(io, token);
        at
    }

    /// Answers a request that was read to its end. It is counted on arrival, so that the count includes
    /// requests whose response is delayed or whose client gives up.
    fn answer_request(&mut self, token: Token, (answer, chosen): (AnswerTo, Option<Chosen>), now: u64) {
        self.counts.requests(answer.version).add(1);
        let connection = &mut self.connections[token.index()];
        let (web, events_from) = (connection.web.take(), connection.events_from.take());
        let incoming = connection.llm.take();
        let mut delay = match chosen {
            Some(chosen) => chosen.delay_ns,
            None => self.behaviour.delay_ns(),
        };
        let reply = if let Some((incoming, llm)) = incoming.zip(self.sources.llm.as_mut()) {
            match llm.answer(&incoming, &self.counts.llm) {
                Outcome::Stream(completion) => Reply::Tokens(answer, now, completion),
                Outcome::Whole(whole, later) => {
                    delay = delay.saturating_add(later);
                    let response = whole.http1(answer, llm.headers());
                    Reply::Stamped(self.prepare(response), now)
                }
            }
        } else {
            match (web, events_from, chosen) {
                (Some(place), ..) => Reply::Web(AnswerTo { failed: false, ..answer }, now, place),
                (None, Some(from), _) => Reply::Events(answer, now, from),
                (None, None, Some(Chosen { place, .. })) => Reply::Ruled(answer, now, place),
                (None, None, None) => Reply::Answer(answer, now),
            }
        };
        self.reply(token, reply, delay);
    }

    /// Chooses the answer. `input` is the request's head.
    fn head(&mut self, token: Token, head: &RequestHead, input: &[u8], body_is_missing: bool) {
        let mut answer = AnswerTo {
            version: head.version,
            keep_alive: head.keep_alive && !self.is_last(token),
            head: head.is_head,
            failed: self.behaviour.fails(),
        };
        let rules = self.rules.as_mut();
        let chosen =
            rules.and_then(|rules| rules.choose(&input[head.method.clone()], &input[head.target.clone()]));
        // Paths with an answer of their own get it.
        if head.upgrade && !answer.failed && chosen.is_none() && self.upgrade(token, head, input) {
            return;
        }
        let web = self.web_call(head, input, chosen, answer.failed);
        let gets_answer = answer.failed || web.is_some();
        let is_free = !gets_answer && chosen.is_none();
        let incoming = if is_free { self.request_to_model(head, input) } else { None };
        let events_from = if gets_answer || incoming.is_some() { None } else { self.requested_events(input) };
        // HTTP/1.0 has no chunks.
        let can_stream = events_from.is_some() || incoming.is_some();
        answer.keep_alive &= !can_stream || head.version == Version::Http11;
        let connection = &mut self.connections[token.index()];
        (connection.answer, connection.web) = (Some((answer, chosen)), web);
        (connection.events_from, connection.llm) = (events_from, incoming);
        self.send_continue(token, head, body_is_missing);
    }

    /// Begins to read a request to the language model. `input` is the request's head.
    fn request_to_model(&self, head: &RequestHead, input: &[u8]) -> Option<Box<Incoming>> {
        self.sources.llm.as_ref()?;
        let mut incoming = Incoming::new(&input[head.method.clone()], &input[head.target.clone()])?;
        // The decoder has already accepted this head.
        let _ = fields(input, |field| incoming.field(field.name.as_bytes()));
        Some(Box::new(incoming))
    }

    /// Prepares the answer if a request is a gRPC-Web call. `input` is the request's head. Returns the place
    /// of the answer.
    fn web_call(
        &mut self,
        head: &RequestHead,
        input: &[u8],
        chosen: Option<Chosen>,
        fails: bool,
    ) -> Option<u32> {
        // Most requests are no calls, and this search takes less time than parsing the head.
        if input[head.method.clone()] != *b"POST" || OF_WEB.find(input).is_none() {
            return None;
        }
        let (mut is_web, mut limit) = (false, None);
        // The decoder has already accepted this head.
        let _ = fields(input, |field| {
            if field.name.eq_ignore_ascii_case("content-type") {
                is_web |= grpc::is_grpc_web(field.value);
            } else if field.name.eq_ignore_ascii_case(grpc::TIMEOUT) {
                limit = grpc::read_timeout(field.value);
            }
        });
        if !is_web {
            return None;
        }
        if let Some(limit) = limit {
            self.counts.deadlines.add(limit);
        }
        let place = chosen.map(|chosen| chosen.place);
        let rules = self.rules.as_ref();
        let ruled = place.and_then(|place| Some(rules?.get(place)));
        let calls = self.calls.of_mut(true);
        let call = calls.prepare(&input[head.target.clone()], place, ruled.unwrap_or(&self.answers));
        calls.prepare_http1(call, fails, self.answers.are_stamped())
    }

    /// Counts a request. Returns true if the connection is closed after it.
    fn is_last(&mut self, token: Token) -> bool {
        let Some(limit) = self.close_after else { return false };
        let connection = &mut self.connections[token.index()];
        connection.requests += 1;
        connection.requests >= limit
    }

    /// Sends 100 Continue to a client that waits for it.
    fn send_continue(&mut self, token: Token, head: &RequestHead, body_is_missing: bool) {
        // A client that has already sent its body does not wait (RFC 9110 §10.1.1).
        if head.expect_continue && body_is_missing && head.framing != Framing::None {
            self.reply(token, Reply::Continue, 0);
        }
    }

    fn answer_special(&mut self, token: Token, special: &Special, tls: Option<(String, String)>) {
        let outcome = self.special_outcome(special, tls);
        let is_last =
            outcome.response.as_ref().is_none_or(|response| response.is_cut || response.ends_connection);
        if is_last || !special.keep_alive() {
            // The client may still be sending the body of a request that was answered early.
            let state = if special.is_early() { State::Discarding } else { State::Last };
            self.connections[token.index()].state = state;
        }
        if let Some(response) = outcome.response {
            let place = self.prepare(special.http1(&response));
            self.reply(token, Reply::Prepared(place), outcome.delay_ns);
        }
    }

    /// Stores a response until it is sent. Returns its place.
    pub(super) fn prepare(&mut self, response: Vec<u8>) -> u32 {
        if let Some(place) = self.free_places.pop() {
            self.prepared[place as usize] = response;
            return place;
        }
        self.prepared.push(response);
        (self.prepared.len() - 1) as u32
    }

    /// Queues a response after the earlier responses of the connection.
    pub(super) fn reply(&mut self, token: Token, reply: Reply, delay: u64) {
        let connection = &mut self.connections[token.index()];
        let generation = connection.generation;
        let is_next = delay == 0 && connection.line.is_empty() && connection.events.is_none();
        let stream = reply.stream();
        if is_next && stream.is_none() {
            return self.make_ready(reply);
        }
        let due = clock::now().saturating_add(delay);
        match stream {
            Some((to, stream)) if is_next => {
                self.make_ready(reply);
                self.begin_events(token, to, stream, due);
            }
            _ => connection.line.push_back((due, reply)),
        }
        self.timers.push(Reverse(Timer { due, token, generation }));
    }

    pub(super) fn make_ready(&mut self, reply: Reply) {
        self.ready_bytes += self.length(reply);
        self.ready.push(reply);
    }

    /// Sends every delayed response that is due. A response waits for all earlier responses on its
    /// connection, even if they are due later.
    pub(super) fn send_due_in_order(&mut self, io: &mut impl Sockets, now: u64) {
        while let Some(&Reverse(Timer { due, token, generation })) = self.timers.peek() {
            if due > now {
                break;
            }
            self.timers.pop();
            if token == GROUP {
                self.send_to_group(io, generation, now);
                continue;
            }
            if self.connections[token.index()].generation != generation {
                continue;
            }
            if self.send_line(io, token, now) && self.unblock(io, token) {
                self.settle(io, token);
            }
        }
    }

    fn bytes(&self, reply: Reply) -> (&[u8], &[u8]) {
        match reply {
            Reply::Answer(to, _) => self.answers.get(to),
            Reply::Ruled(to, _, place) => {
                self.rules.as_ref().map_or((&[], &[]), |rules| rules.get(place).get(to))
            }
            Reply::Web(to, _, place) => self.calls.http1(place).map_or((&[], &[]), |answers| answers.get(to)),
            Reply::Events(to, ..) | Reply::Tokens(to, ..) => {
                let answers = self.sources.answers(matches!(reply, Reply::Tokens(..)));
                answers.map_or((&[], &[]), |answers| answers.get(to))
            }
            Reply::Prepared(place) | Reply::Stamped(place, _) => (&self.prepared[place as usize], &[]),
            Reply::Continue => (CONTINUE, &[]),
            Reply::BadRequest => (BAD_REQUEST, &[]),
        }
    }

    fn length(&self, reply: Reply) -> usize {
        let (head, body) = self.bytes(reply);
        head.len() + body.len()
    }

    /// Sends all ready responses in as few sends as possible. Returns false if the connection failed and is
    /// gone.
    pub(super) fn flush(&mut self, io: &mut impl Sockets, token: Token) -> bool {
        if self.ready.is_empty() {
            return true;
        }
        let ready = mem::take(&mut self.ready);
        let now = if self.answers.are_stamped() { clock::now() } else { 0 };
        // Count the bytes before sending them. So when a client has received a response, the ledger already
        // includes its bytes.
        let length = self.ready_bytes as u64;
        self.counts.bytes_out.add(length);
        let mut batch = mem::take(&mut self.batch);
        let sent = match ready.as_slice() {
            [reply] if !matches!(reply, Reply::Ruled(..) | Reply::Web(..)) => {
                self.stamp(*reply, now);
                let (head, body) = self.bytes(*reply);
                send_both(io, token, head, body)
            }
            several => self.send_batched(io, token, (several, now), &mut batch),
        };
        batch.clear();
        self.batch = batch;
        if sent.is_err() {
            self.counts.bytes_out.take_back(length);
        }
        ready.iter().for_each(|reply| self.free(*reply));
        self.ready = ready;
        self.ready.clear();
        self.ready_bytes = 0;
        if sent.is_err() {
            self.close(io, token);
        }
        sent.is_ok()
    }

    fn stamp(&mut self, reply: Reply, now: u64) {
        if !self.answers.are_stamped() {
            return;
        }
        match reply {
            Reply::Answer(to, received) => self.answers.stamp(to, Stamp { received, replied: now }),
            Reply::Ruled(to, received, place) => {
                if let Some(rules) = &mut self.rules {
                    rules.get_mut(place).stamp(to, Stamp { received, replied: now });
                }
            }
            Reply::Web(to, received, place) => {
                if let Some(answers) = self.calls.http1_mut(place) {
                    answers.stamp(to, Stamp { received, replied: now });
                }
            }
            Reply::Events(to, received, _) | Reply::Tokens(to, received, _) => {
                let is_of_model = matches!(reply, Reply::Tokens(..));
                if let Some(answers) = self.sources.answers_of(is_of_model) {
                    answers.stamp(to, Stamp { received, replied: now });
                }
            }
            Reply::Stamped(place, received) => {
                if let Some(space) = Accepted::stamp_in(&mut self.prepared[place as usize]) {
                    Stamp { received, replied: now }.write(space);
                }
            }
            _ => {}
        }
    }

    fn send_batched(
        &mut self,
        io: &mut impl Sockets,
        token: Token,
        (replies, now): (&[Reply], u64),
        batch: &mut Vec<u8>,
    ) -> io::Result<()> {
        for &reply in replies {
            self.stamp(reply, now);
            let (head, body) = self.bytes(reply);
            batch.extend_from_slice(head);
            // Copying a short body costs less than a second send.
            if body.len() <= INLINE_BODY {
                batch.extend_from_slice(body);
            } else {
                send_both(io, token, batch, body)?;
                batch.clear();
            }
        }
        send_both(io, token, batch, &[])
    }

    /// Reads the pending input of a blocked connection once its peer has caught up. Returns false if the
    /// connection failed and is gone.
    pub(super) fn unblock(&mut self, io: &mut impl Sockets, token: Token) -> bool {
        let connection = &mut self.connections[token.index()];
        if !connection.blocked || io.unsent(token) > 0 || connection.line.len() > MOST_DELAYED / 2 {
            return true;
        }
        connection.blocked = false;
        let kept = mem::take(&mut connection.kept);
        let generation = connection.generation;
        let consumed = self.read(io, token, &kept);
        let connection = &mut self.connections[token.index()];
        if connection.generation != generation {
            return false;
        }
        connection.kept = kept[consumed..].to_vec();
        if !connection.blocked {
            io.resume(token);
        }
        true
    }
}

fn send_both(io: &mut impl Sockets, token: Token, head: &[u8], body: &[u8]) -> io::Result<()> {
    if !head.is_empty() {
        io.send(token, head)?;
    }
    if !body.is_empty() {
        io.send(token, body)?;
    }
    Ok(())
}
