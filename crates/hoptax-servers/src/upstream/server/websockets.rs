//! WebSockets over HTTP/1.1, and messages that go to all connections of a path.
//!
//! After the answer to its handshake, the connection is in the state *websocket*. It ends like a connection
//! whose last bytes were chosen: it is *discarding* after the close frames of both sides.

use super::super::sockets::Sockets;
use super::super::websocket::{self, MOST_SPARE, Refusal, WebSocket};
use super::groups::{GROUP, Group, Live, Member};
use super::state::{HIGH_WATER, Reply, Server, State, Timer};
use hoptax_format::clock;
use hoptax_format::messages::Stamp;
use hoptax_load::event_loop::Token;
use hoptax_wire::http1::{Framing, RequestHead};
use std::cmp::Reverse;
use std::mem;

/// Number of messages of a group, and of sends, after which other connections get their turn.
const MOST_PASSES: usize = 16;
const MOST_SENDS: usize = 4096;

impl Server<'_> {
    /// Answers a request that asks for a WebSocket. `input` is the request's head. Returns false if it asks
    /// for something else.
    pub(super) fn upgrade(&mut self, token: Token, head: &RequestHead, input: &[u8]) -> bool {
        let compression = self.websockets.settings.compression;
        let Some(handshake) = websocket::answer(input, compression) else { return false };
        let is_plain =
            input[head.method.clone()] == *b"GET" && head.framing == Framing::None && head.keep_alive;
        let connection = &mut self.connections[token.index()];
        let accepted = match handshake {
            Ok(accepted) if is_plain => accepted,
            Ok(_) | Err(Refusal::Malformed) => {
                connection.state = State::Discarding;
                self.reply(token, Reply::BadRequest, 0);
                return true;
            }
            Err(refusal) => {
                connection.state = State::Discarding;
                self.counts.requests(head.version).add(1);
                let place = self.prepare(refusal.response());
                self.reply(token, Reply::Prepared(place), 0);
                return true;
            }
        };
        let is_stamped = self.answers.are_stamped();
        let received = if is_stamped { clock::now() } else { 0 };
        let answers = &self.answers;
        let push = self.websockets.settings.push(&input[head.target.clone()], || answers.body());
        connection.state = State::WebSocket;
        connection.websocket = Some(Box::new(WebSocket::new(accepted.extension, push)));
        self.counts.requests(head.version).add(1);
        self.counts.websockets.add(1);
        let place = self.prepare(accepted.response(&self.websockets.settings.headers, is_stamped));
        let delay = self.behaviour.delay_ns();
        self.reply(token, Reply::Stamped(place, received), delay);
        true
    }

    /// Handles bytes of a WebSocket.
    pub(super) fn received_websocket(&mut self, io: &mut impl Sockets, token: Token, bytes: &[u8]) {
        let connection = &mut self.connections[token.index()];
        let has_begun = connection.websocket.as_ref().is_some_and(|websocket| websocket.has_begun);
        if has_begun && !connection.blocked {
            self.read_websocket(io, token, bytes);
            return;
        }
        connection.kept.extend_from_slice(bytes);
        if connection.kept.len() > HIGH_WATER && !connection.blocked {
            connection.blocked = true;
            io.pause(token);
        }
    }

    fn read_websocket(&mut self, io: &mut impl Sockets, token: Token, bytes: &[u8]) {
        let connection = &mut self.connections[token.index()];
        let Some(websocket) = connection.websocket.as_deref_mut() else { return };
        let mut output = mem::take(&mut self.batch);
        let passed = websocket.talk.receive(bytes, &mut self.websockets.tools, &mut output);
        self.counts.messages_in.add(passed.received);
        self.counts.messages_out.add(passed.sent);
        let is_over = websocket.talk.is_over();
        if is_over {
            connection.websocket = None;
            connection.state = State::Discarding;
        }
        if !self.send_frames(io, token, output) {
            return;
        }
        if is_over {
            self.settle(io, token);
        } else if io.unsent(token) > HIGH_WATER {
            self.connections[token.index()].blocked = true;
            io.pause(token);
        }
    }

    /// Sends frames. Returns false if the connection failed and is gone.
    fn send_frames(&mut self, io: &mut impl Sockets, token: Token, mut output: Vec<u8>) -> bool {
        // Count the bytes before sending them, as for responses.
        let length = output.len() as u64;
        self.counts.bytes_out.add(length);
        let sent = if length > 0 { io.send(token, &output) } else { Ok(()) };
        if output.capacity() <= MOST_SPARE {
            output.clear();
            self.batch = output;
        }
        if sent.is_err() {
            self.counts.bytes_out.take_back(length);
            self.close(io, token);
        }
        sent.is_ok()
    }

    /// Begins a WebSocket if the answer to its handshake was sent, and continues it: reads what was kept, and
    /// sends the messages that are due. Ends the connection if the client has.
    pub(super) fn settle_websocket(&mut self, io: &mut impl Sockets, token: Token) {
        let connection = &mut self.connections[token.index()];
        let generation = connection.generation;
        let is_next = connection.line.is_empty() && connection.events.is_none();
        let Some(websocket) = connection.websocket.as_deref_mut() else { return };
        if !websocket.has_begun {
            if !is_next {
                return;
            }
            let member = Member { token, generation, exchange: None };
            if let Some((due, place)) = self.websockets.begin(websocket, member) {
                self.timers.push(Reverse(Timer { due, token: GROUP, generation: place }));
            }
        }
        if !connection.kept.is_empty() && !connection.blocked {
            let kept = mem::take(&mut connection.kept);
            self.read_websocket(io, token, &kept);
        }
        if !self.is_websocket(token, generation) || !self.push_due(io, token) {
            return;
        }
        let connection = &self.connections[token.index()];
        if connection.peer_ended && !connection.blocked && io.unsent(token) == 0 {
            self.close(io, token);
        }
    }

    fn is_websocket(&self, token: Token, generation: u32) -> bool {
        let connection = &self.connections[token.index()];
        connection.generation == generation && connection.state == State::WebSocket
    }

    /// Sends the pushed messages that are due. A slow reader gets them later. Returns false if the connection
    /// failed and is gone.
    fn push_due(&mut self, io: &mut impl Sockets, token: Token) -> bool {
        let connection = &mut self.connections[token.index()];
        let generation = connection.generation;
        let Some(websocket) = connection.websocket.as_deref_mut() else { return true };
        if websocket.push.is_none() || connection.peer_ended || io.unsent(token) > HIGH_WATER {
            return true;
        }
        let mut output = mem::take(&mut self.batch);
        if let Some(due) = self.websockets.write_due(websocket, &mut output, self.counts) {
            self.timers.push(Reverse(Timer { due, token, generation }));
        }
        self.send_frames(io, token, output)
    }

    /// Counts the WebSockets of a connection that ends without a close frame.
    pub(super) fn count_cut(&mut self, token: Token) {
        let connection = &mut self.connections[token.index()];
        if connection.peer_ended {
            return;
        }
        self.counts.cut.add(connection.websocket.is_some().into());
        if let Some(http2) = &mut connection.http2 {
            self.counts.cut.add(http2.end_websockets());
        }
    }

    /// Sends the messages of a group that are due.
    pub(super) fn send_to_group(&mut self, io: &mut impl Sockets, place: u32, now: u64) {
        let spec = self.websockets.settings.spec(place);
        let mut members = mem::take(&mut self.websockets.groups[place as usize].members);
        let (mut passes, mut sends) = (0, 0);
        let next = loop {
            let group = &mut self.websockets.groups[place as usize];
            if members.is_empty() {
                break None;
            }
            let Some(stamp) = group.push.next(spec) else {
                self.close_group(io, mem::take(&mut members));
                break None;
            };
            if stamp.due > now {
                break Some(stamp.due);
            }
            if passes == MOST_PASSES || sends >= MOST_SENDS {
                break Some(now + 1);
            }
            (group.push.number, passes) = (group.push.number + 1, passes + 1);
            sends += members.len();
            let deflates = group.deflates;
            self.send_message(io, &mut members, stamp, deflates);
        };
        // Connections can have joined meanwhile.
        let group = &mut self.websockets.groups[place as usize];
        members.append(&mut group.members);
        let has_members = !members.is_empty();
        if next.is_none() && !has_members {
            *group = Group::default();
            return;
        }
        group.members = members;
        let due = next.unwrap_or_else(|| group.start(place, now));
        self.timers.push(Reverse(Timer { due, token: GROUP, generation: place }));
    }

    /// Sends a message to all connections of a group, and removes those that have ended.
    fn send_message(
        &mut self,
        io: &mut impl Sockets,
        members: &mut Vec<Member>,
        stamp: Stamp,
        deflates: bool,
    ) {
        let Live { settings, tools, plain, packed, .. } = &mut self.websockets;
        plain.clear();
        packed.clear();
        settings.write(stamp, false, tools, plain);
        if deflates {
            settings.write(stamp, true, tools, packed);
        }
        let (plain, packed) = (mem::take(plain), mem::take(packed));
        members.retain(|member| match member.exchange {
            None => self.send_to(io, *member, &plain, &packed),
            Some(_) => self.send_to_stream(io, *member, &plain, &packed),
        });
        (self.websockets.plain, self.websockets.packed) = (plain, packed);
        self.send_touched(io);
    }

    /// Sends a frame to a connection, unless it reads too slowly. Returns false if it has ended.
    fn send_to(&mut self, io: &mut impl Sockets, member: Member, plain: &[u8], packed: &[u8]) -> bool {
        let token = member.token;
        let connection = &self.connections[token.index()];
        let websocket = connection.websocket.as_deref().filter(|websocket| websocket.talk.is_open());
        let Some(websocket) = websocket.filter(|_| connection.generation == member.generation) else {
            return false;
        };
        if io.unsent(token) > HIGH_WATER {
            self.counts.left_out.add(1);
            return true;
        }
        let frame = if websocket.talk.deflates() { packed } else { plain };
        self.counts.messages_out.add(1);
        self.counts.bytes_out.add(frame.len() as u64);
        let sent = io.send(token, frame);
        if sent.is_err() {
            self.close(io, token);
        }
        sent.is_ok()
    }

    /// Sends close frames to all connections of a group.
    fn close_group(&mut self, io: &mut impl Sockets, members: Vec<Member>) {
        for member in members {
            if member.exchange.is_some() {
                self.close_stream(member);
                continue;
            }
            let connection = &mut self.connections[member.token.index()];
            if connection.generation != member.generation {
                continue;
            }
            let Some(websocket) = connection.websocket.as_deref_mut() else { continue };
            let mut output = mem::take(&mut self.batch);
            websocket.talk.close(&mut output);
            self.send_frames(io, member.token, output);
        }
        self.send_touched(io);
    }
}
