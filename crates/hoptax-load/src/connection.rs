//! One connection of a worker, and the connections that follow it in the same place.
//!
//! ```text
//!          wanted          permitted             established
//!   Down ──────────► Queued ────────► Connecting ───────────► Open
//!    ▲ ▲                               │      │               ▲ │ │
//!    │ │                       reached │      │   established │ │ │
//!    │ │                               ▼      │   ┌───────────┘ │ │
//!    │ │                            Handshaking ──┘             │ │
//!    │ │ rested                               │ failed          │ │
//!    │ └────────────── Resting ◄──────────────┴─────────────────┘ │
//!    └────────────────────────────────────────────────────────────┘
//!                                closed
//! ```
//!
//! A request can be given to an exchange of a connection that is Down or Open. The exchange keeps the request
//! until it has an outcome. If the peer's backlog is full, the connection goes back to Queued and connects
//! again later, while its connect timeout continues to run. When this timeout expires, it goes to Resting. If
//! connecting is found to be hopeless before traffic begins, Queued connections go to Down.
//!
//! With HTTP/2, a connection that is established stays in Handshaking until the server's settings have
//! arrived, so that the first requests respect the server's limit of streams.
//!
//! A connection has two tokens. After the last response, it is retired: the worker waits for the peer to
//! close it (see `Worker::retire`), and opens the next connection under the other token. With HTTP/2,
//! responses can still arrive on the retired connection (see [`Former`]).

use crate::codec::Codec;
use crate::tls::Session;
use crate::tunnel::{self, TunnelAnswer};

/// Number of a connection in its worker, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub(crate) u32);

impl ConnectionId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// There is no connection, and none is needed.
    #[default]
    Down,
    Queued,
    Connecting,
    Handshaking,
    /// The connection can carry requests.
    Open,
    /// A failure was a moment ago. The worker waits before it connects again.
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
            (State::Connecting | State::Handshaking, Event::Established) => State::Open,
            (State::Queued | State::Open, Event::Closed) => State::Down,
            (State::Queued | State::Connecting | State::Handshaking | State::Open, Event::Failed) => {
                State::Resting
            }
            (State::Resting, Event::Rested) => State::Down,
            _ => return None,
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Connection<C> {
    state: State,
    pub(crate) connect_started: u64,
    /// Number of requests on the current connection, including those in flight.
    pub(crate) carried: u32,
    /// True if the current connection uses the second token.
    pub(crate) second: bool,
    /// True while a retired connection, which uses the other token, waits for the peer to close it.
    pub(crate) leaving: bool,
    /// Number of failures in a row. Each failure doubles the time until the next connect.
    pub(crate) failures: u8,
    /// Number of responses to requests of the measured time, on this connection and those before it.
    pub(crate) answered: u32,
    /// True if a request got no response in the measured time or after it.
    pub(crate) in_vain: bool,
    pub(crate) session: Option<Box<Session>>,
    pub(crate) codec: C,
    /// The retired connection, if it can still receive responses.
    pub(crate) former: Option<Box<Former<C>>>,
}

/// A retired connection that still receives responses. It gets no new requests. Only with HTTP/2.
#[derive(Debug)]
pub(crate) struct Former<C> {
    pub(crate) session: Option<Box<Session>>,
    pub(crate) codec: C,
}

impl<C: Codec> Connection<C> {
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// True if the connection waits for the proxy to open the tunnel. Call it only for loads with a tunnel.
    pub(crate) fn awaits_tunnel(&self) -> bool {
        self.state == State::Handshaking && self.session.is_none() && !self.codec.is_greeting()
    }

    /// True if TCP, the tunnel and TLS are ready, and the server's HTTP/2 settings have not arrived.
    pub(crate) fn is_greeting(&self) -> bool {
        self.state == State::Handshaking && self.codec.is_greeting()
    }

    /// Adds bytes to the proxy's answer to CONNECT, and reads it.
    pub(crate) fn read_tunnel(&mut self, bytes: &[u8]) -> TunnelAnswer {
        let kept = self.codec.kept();
        kept.extend_from_slice(bytes);
        let answer = tunnel::answer(kept);
        if answer != TunnelAnswer::More {
            *kept = Vec::new();
        }
        answer
    }

    /// Changes the state.
    ///
    /// # Panics
    /// If `event` is impossible in this state, which is a bug in the worker.
    pub(crate) fn step(&mut self, event: Event) {
        let next = self.state.after(event);
        self.state = next
            .unwrap_or_else(|| panic!("{event:?} cannot happen to a connection that is {:?}", self.state));
        match event {
            Event::Established => self.carried = 0,
            Event::Closed | Event::Failed => {
                self.session = None;
                self.codec = C::default();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Http1;
    use crate::exchange::Exchange;

    const STATES: [State; 6] =
        [State::Down, State::Queued, State::Connecting, State::Handshaking, State::Open, State::Resting];
    const EVENTS: [Event; 8] = [
        Event::Wanted,
        Event::Permitted,
        Event::PutOff,
        Event::Reached,
        Event::Established,
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
    fn there_are_thirteen_transitions() {
        let legal = STATES.iter().flat_map(|state| EVENTS.iter().filter_map(|event| state.after(*event)));
        assert_eq!(legal.count(), 13);
    }

    #[test]
    fn an_idle_connection_stays_small() {
        let size = size_of::<Connection<Http1>>() + size_of::<Exchange>();
        assert!(size <= 256, "{size} bytes");
    }
}
