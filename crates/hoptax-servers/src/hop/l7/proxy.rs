//! The state of one worker of `hop-l7`.

use super::rewrite::{self, Last};
use super::state::Peers;
use crate::hop::forward::ForwardProxy;
use crate::hop::holds::Holds;
use crate::hop::pairs::Pairs;
use crate::hop::turns::Turns;
use crate::net::Tokens;
use hoptax_load::event_loop::Token;
use hoptax_wire::http1::{HeadCache, ParsedResponse, RequestHead};

pub(super) struct Proxy {
    pub(super) turns: Turns,
    pub(super) tokens: Tokens,
    pub(super) peers: Peers,
    /// Idle connections, indexed by upstream. The most recently used connection is taken first, so that
    /// surplus connections stay idle and time out.
    pub(super) idle: Vec<Vec<Token>>,
    pub(super) request_heads: HeadCache<RequestHead>,
    pub(super) response_heads: HeadCache<ParsedResponse>,
    /// Cache of the last rewritten request head. The key is the upstream, because the head may contain the
    /// upstream's address.
    pub(super) requests: Last<usize>,
    pub(super) responses: Last<(rewrite::Client, bool)>,
    /// Buffer for the next send; empty between sends.
    pub(super) out: Vec<u8>,
    pub(super) holds: Holds,
    /// Present if the hop is a forward proxy.
    pub(super) forward: Option<ForwardProxy>,
    pub(super) tunnels: Pairs,
}
