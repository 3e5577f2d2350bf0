//! Closes idle connections when there are too many.

use super::super::sockets::Sockets;
use super::state::{Connection, Server, State};
use hoptax_format::clock;
use hoptax_load::event_loop::Token;

/// If there are too many connections, a connection that has been silent for longer than this may be closed.
const SILENT_NS: u64 = clock::SECOND / 10;
/// Additional time for which a new connection is allowed to be silent. It is needed because a generator opens
/// all its connections before it uses the first.
pub(super) const FRESH_NS: u64 = 5 * clock::SECOND;
/// Pause after a search that found no silent connections, because each search visits all connections.
const SEARCH_PAUSE_NS: u64 = clock::SECOND / 20;

impl Server<'_> {
    /// Closes the connections that have been silent longest, a tenth of the limit at a time. Such connections
    /// are idle in the pools of gateways that are not being measured. Gateways run during the whole run, and
    /// some keep thousands of connections in their pools.
    pub(super) fn make_room(&mut self, io: &mut impl Sockets) {
        let now = clock::now();
        if now - self.last_search < SEARCH_PAUSE_NS {
            return;
        }
        let silent = |(index, connection): (usize, &Connection)| {
            let token = Token(index as u32);
            let idle = matches!(connection.state, State::New | State::Open | State::Http2)
                && now.saturating_sub(connection.heard) > SILENT_NS
                && connection.decoder.is_between()
                && connection.kept.is_empty()
                && connection.line.is_empty()
                && connection.events.is_none()
                && connection.http2.as_ref().is_none_or(|http2| http2.is_idle())
                && !connection.peer_ended
                && io.is_connected(token)
                && io.unsent(token) == 0;
            idle.then_some((connection.heard, token))
        };
        let mut silent: Vec<(u64, Token)> = self.connections.iter().enumerate().filter_map(silent).collect();
        if silent.is_empty() {
            self.last_search = now;
            return;
        }
        silent.sort_unstable();
        for &(_, token) in silent.iter().take((self.room / 10).max(1) as usize) {
            self.say_goodbye(io, token);
            self.close(io, token);
        }
    }
}
