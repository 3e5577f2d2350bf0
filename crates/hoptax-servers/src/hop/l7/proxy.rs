//! The state of one worker of `hop-l7`, which the other files of this folder act on.

use super::holds::Holds;
use super::rewrite::{self, Last};
use super::state::Slots;
use crate::hop::turns::Turns;
use crate::net::Tokens;
use hoptax_load::event_loop::Token;
use hoptax_wire::http1::{HeadCache, ParsedResponse, RequestHead};

pub(super) struct Proxy {
    pub(super) turns: Turns,
    pub(super) tokens: Tokens,
    pub(super) slots: Slots,
    /// Idle connections by upstream; the one used last is taken first, so that superfluous ones grow old and close.
    pub(super) idle: Vec<Vec<Token>>,
    pub(super) request_heads: HeadCache<RequestHead>,
    pub(super) response_heads: HeadCache<ParsedResponse>,
    /// By upstream: its address may stand in the head.
    pub(super) requests: Last<usize>,
    pub(super) responses: Last<(rewrite::Client, bool)>,
    /// Where what is sent next is put together; empty in between.
    pub(super) out: Vec<u8>,
    pub(super) holds: Holds,
}
