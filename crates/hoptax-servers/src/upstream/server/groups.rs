//! What all WebSockets of an instance share: their settings, and the groups of connections that get the same
//! messages at the same time.

use super::super::counts::Counts;
use super::super::websocket::{Push, Tools, WebSocket, WebSockets};
use super::streams::Named;
use hoptax_format::clock;
use hoptax_load::event_loop::Token;

/// Token of the timers of groups. No connection has this token. The timer's generation is the index of the
/// group.
pub(super) const GROUP: Token = Token(u32::MAX);
/// Number of bytes of due messages after which other connections get their turn.
pub(super) const TURN: usize = 64 * 1024;

/// A connection of a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub(super) token: Token,
    pub(super) generation: u32,
    /// The exchange, over HTTP/2.
    pub(super) exchange: Option<Named>,
}

/// The connections of a path that get the same messages. The schedule begins with the first connection. If no
/// connection remains, or the last message was sent, the next connection begins a new schedule.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) push: Push,
    pub(super) is_running: bool,
    /// True if a connection gets compressed messages.
    pub(super) deflates: bool,
    pub(super) members: Vec<Member>,
}

impl Group {
    /// Starts the schedule. Returns when its first timer is due.
    pub(super) fn start(&mut self, place: u32, begun: u64) -> u64 {
        self.push = Push { place, begun, ..Push::default() };
        self.is_running = true;
        begun
    }
}

/// The WebSockets of an instance.
pub(super) struct Live {
    pub(super) settings: WebSockets,
    pub(super) tools: Tools,
    /// In the order of the settings.
    pub(super) groups: Vec<Group>,
    /// The frame of the current message of a group, plain and compressed.
    pub(super) plain: Vec<u8>,
    pub(super) packed: Vec<u8>,
    /// HTTP/2 connections on which frames of the current message wait.
    pub(super) touched: Vec<Token>,
}

impl Live {
    pub(super) fn new(settings: WebSockets) -> Self {
        let groups = (0..settings.pushing_paths()).map(|_| Group::default()).collect();
        Self {
            settings,
            tools: Tools::default(),
            groups,
            plain: Vec::new(),
            packed: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// Called when the answer to a handshake is sent. Returns when the first timer of a group is due, and the
    /// place of the group, if the WebSocket begins one.
    pub(super) fn begin(&mut self, websocket: &mut WebSocket, member: Member) -> Option<(u64, u32)> {
        websocket.has_begun = true;
        let push = websocket.push.as_mut()?;
        push.begun = clock::now();
        let Push { place, begun, .. } = *push;
        if !self.settings.spec(place).fan_out {
            return None;
        }
        websocket.push = None;
        let group = &mut self.groups[place as usize];
        group.deflates |= websocket.talk.deflates();
        group.members.push(member);
        (!group.is_running).then(|| (group.start(place, begun), place))
    }

    /// Appends the pushed messages that are due, and a close frame after the last. Returns when a timer must
    /// be due. Nothing is allocated for a message.
    pub(super) fn write_due(
        &mut self,
        websocket: &mut WebSocket,
        output: &mut Vec<u8>,
        counts: &Counts,
    ) -> Option<u64> {
        let mut push = websocket.push.filter(|_| websocket.has_begun && websocket.talk.is_open())?;
        let spec = self.settings.spec(push.place);
        let (now, start) = (clock::now(), output.len());
        let next = loop {
            let Some(stamp) = push.next(spec) else {
                websocket.push = None;
                websocket.talk.close(output);
                return None;
            };
            if stamp.due > now {
                break stamp.due;
            }
            if output.len() - start >= TURN {
                break now + 1;
            }
            self.settings.write(stamp, websocket.talk.deflates(), &mut self.tools, output);
            push.number += 1;
            counts.messages_out.add(1);
        };
        let needs_timer = push.needs_timer(next, now);
        websocket.push = Some(push);
        needs_timer.then_some(next)
    }
}
