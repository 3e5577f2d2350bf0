//! What a token stands for.

use super::ring::{GENERATIONS, Socket};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::mem;
use std::net::TcpListener;

/// What a token stands for. `generation` changes whenever it is freed, so that a completion for a former connection is
/// told from one for its successor.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) generation: u32,
    /// The ring's epoch when something was queued last: until it has changed, the kernel may not have taken that.
    pub(super) queued: u64,
    pub(super) kind: Kind,
}

#[derive(Debug, Default)]
pub(super) enum Kind {
    #[default]
    Free,
    Listener(TcpListener),
    Connecting(Descriptor),
    Open(Connection),
}

impl Slot {
    /// Frees it and gives what it was.
    pub(super) fn free(&mut self) -> Kind {
        self.generation = (self.generation + 1) % GENERATIONS;
        mem::take(&mut self.kind)
    }
}

/// A socket and its place among the registered ones.
#[derive(Debug)]
pub(super) struct Descriptor {
    pub(super) socket: OwnedFd,
    pub(super) registered: Option<u32>,
}

impl Descriptor {
    /// As the ring wants it.
    pub(super) fn named(&self) -> Socket<'_> {
        Socket { descriptor: self.socket.as_fd(), registered: self.registered }
    }
}

/// A connection that stands.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) descriptor: Descriptor,
    /// What was handed over and has not left, in the flight and in `pending`.
    pub(super) unsent: usize,
    /// Waits for the flight before it. Unallocated nearly always.
    pub(super) pending: Vec<u8>,
    pub(super) paused: bool,
    /// The kernel was asked for what arrives.
    pub(super) receiving: bool,
    /// The end of the peer's stream was delivered; only sending goes on.
    pub(super) ended: bool,
    /// Shut down for writing once nothing is unsent.
    pub(super) finishing: bool,
    /// What arrived and could not be delivered, because it was paused.
    pub(super) held_back: Option<Box<HeldBack>>,
}

/// What arrived while a connection was paused.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    pub(super) bytes: Vec<u8>,
    /// The end, if that came too.
    pub(super) end: Option<io::Result<()>>,
}

impl Connection {
    pub(super) fn new(descriptor: Descriptor) -> Self {
        Self {
            descriptor,
            unsent: 0,
            pending: Vec::new(),
            paused: false,
            receiving: false,
            ended: false,
            finishing: false,
            held_back: None,
        }
    }

    /// Where to put what cannot be delivered now; `None` if it can.
    pub(super) fn hold_back(&mut self) -> Option<&mut HeldBack> {
        if self.paused {
            self.held_back.get_or_insert_default();
        }
        self.held_back.as_deref_mut()
    }
}
