//! What `hop-l7` remembers of its connections.

use super::rewrite::Coding;
use hoptax_load::event_loop::Token;
use hoptax_wire::http1::{RequestDecoder, RequestHead, ResponseDecoder, Version};

/// A request with its response.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) version: Version,
    pub(super) is_head: bool,
    /// Whether the client lets its connection live on.
    pub(super) keep_alive: bool,
    /// Whether the request may be sent a second time, and its head is all of it.
    pub(super) repeatable: bool,
    /// Absent once the response is over or the upstream is lost: what is left of the request is then thrown away.
    pub(super) upstream: Option<Token>,
    pub(super) to_upstream: Coding,
    /// The whole request was read.
    pub(super) request_done: bool,
    /// Set when the response's head was passed on.
    pub(super) to_client: Option<Coding>,
    /// Whether the client's connection lives on after this exchange.
    pub(super) stays: bool,
    /// The whole response was passed on.
    pub(super) response_done: bool,
}

impl Exchange {
    pub(super) fn write_to_client(&self, out: &mut Vec<u8>, data: &[u8]) {
        if let Some(coding) = self.to_client {
            coding.write(out, data);
        }
    }

    pub(super) fn end_to_client(&self, out: &mut Vec<u8>) {
        if let Some(coding) = self.to_client {
            coding.end(out);
        }
    }
}

/// The head of a request that waits before it goes upstream.
#[derive(Debug)]
pub(super) struct HeldRequest {
    /// Of its timer.
    pub(super) id: u64,
    pub(super) raw: Vec<u8>,
    pub(super) head: RequestHead,
}

/// A client's connection.
#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) decoder: RequestDecoder,
    /// Received and not read yet. Unallocated nearly always.
    pub(super) kept: Vec<u8>,
    pub(super) exchange: Option<Exchange>,
    /// The current request's head as it was passed on, for sending it again.
    pub(super) head: Vec<u8>,
    /// A request that waits before its exchange begins.
    pub(super) held: Option<Box<HeldRequest>>,
    /// The answer of this exchange is to be held back when it comes.
    pub(super) hold_answer: bool,
    /// Held back.
    pub(super) paused: bool,
    /// It sends no more.
    pub(super) ended: bool,
    /// It has been sent its last answer.
    pub(super) last: bool,
    /// What it still sends is thrown away, and it is left to close: closing first could reset the connection before it
    /// has read the answer.
    pub(super) deaf: bool,
}

/// A connection to an upstream.
#[derive(Debug)]
pub(super) struct Upstream {
    /// Which upstream.
    pub(super) index: usize,
    pub(super) decoder: ResponseDecoder,
    /// Received and not read yet.
    pub(super) kept: Vec<u8>,
    /// Whose exchange it serves; idle in the pool if none's.
    pub(super) client: Option<Token>,
    pub(super) connected: bool,
    /// What is sent once it is connected.
    pub(super) waiting: Vec<u8>,
    /// Held back.
    pub(super) paused: bool,
    /// What has come of an answer waits for the timer of this id, and nothing more is read meanwhile.
    pub(super) held: Option<u64>,
    /// It has served an exchange before.
    pub(super) reused: bool,
    /// It has sent something in this exchange.
    pub(super) heard: bool,
}

impl Upstream {
    pub(super) fn new(index: usize) -> Self {
        Self {
            index,
            decoder: ResponseDecoder::new(),
            kept: Vec::new(),
            client: None,
            connected: false,
            waiting: Vec::new(),
            paused: false,
            held: None,
            reused: false,
            heard: false,
        }
    }
}

/// What a token stands for.
#[derive(Debug, Default)]
pub(super) enum Slot {
    /// Nothing, or a listener.
    #[default]
    Free,
    Client(Box<Client>),
    Upstream(Box<Upstream>),
}

/// Slots by token.
#[derive(Debug, Default)]
pub(super) struct Slots(Vec<Slot>);

impl Slots {
    pub(super) fn put(&mut self, token: Token, slot: Slot) {
        if self.0.len() <= token.index() {
            self.0.resize_with(token.index() + 1, Slot::default);
        }
        self.0[token.index()] = slot;
    }

    /// The token's slot; it must have been put before.
    pub(super) fn get(&mut self, token: Token) -> &mut Slot {
        &mut self.0[token.index()]
    }

    pub(super) fn take(&mut self, token: Token) -> Slot {
        std::mem::take(self.get(token))
    }

    pub(super) fn client(&mut self, token: Token) -> Option<&mut Client> {
        match self.get(token) {
            Slot::Client(client) => Some(client),
            _ => None,
        }
    }

    pub(super) fn exchange(&mut self, token: Token) -> Option<&mut Exchange> {
        self.client(token)?.exchange.as_mut()
    }

    pub(super) fn upstream(&mut self, token: Token) -> Option<&mut Upstream> {
        match self.get(token) {
            Slot::Upstream(upstream) => Some(upstream),
            _ => None,
        }
    }
}
