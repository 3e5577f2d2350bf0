//! The state of one worker of `hop-l7`.

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
    /// Idle connections by upstream. The last one used is taken first, so that surplus ones time out.
    pub(super) idle: Vec<Vec<Token>>,
    pub(super) request_heads: HeadCache<RequestHead>,
    pub(super) response_heads: HeadCache<ParsedResponse>,
    /// By upstream, because its address may be part of the head.
    pub(super) requests: Last<usize>,
    pub(super) responses: Last<(rewrite::Client, bool)>,
    /// Buffer for the next send; empty in between.
    pub(super) out: Vec<u8>,
    pub(super) holds: Holds,
}
