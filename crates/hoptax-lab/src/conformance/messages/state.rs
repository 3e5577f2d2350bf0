//! The state that the cases share with the scripted upstream: what it has seen of each request, and the steps
//! that it may do.

use super::frames::Frame;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the upstream has seen of one request.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// How often the request arrived.
    pub(super) requests: u32,
    pub(super) path: String,
    /// Names (in lower case) and values of the headers.
    pub(super) head: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// Frames of the WebSocket.
    pub(super) frames: Vec<Frame>,
    /// True if the client has left.
    pub(super) left: bool,
}

#[derive(Debug, Default)]
struct State {
    latest: u64,
    seen: BTreeMap<u64, Seen>,
    releases: BTreeMap<u64, u64>,
}

/// The shared state.
#[derive(Debug, Clone, Default)]
pub(super) struct Shared(Arc<Mutex<State>>);

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for the next request. It is the query of its path, so that late connections of an earlier
    /// request change nothing.
    pub(super) fn next(&self) -> u64 {
        let mut state = self.state();
        state.latest += 1;
        state.latest
    }

    pub(super) fn seen(&self, number: u64) -> Seen {
        self.state().seen.get(&number).cloned().unwrap_or_default()
    }

    pub(super) fn note(&self, number: u64, change: impl FnOnce(&mut Seen)) {
        change(self.state().seen.entry(number).or_default());
    }

    /// Lets the upstream do its next step.
    pub(super) fn release(&self, number: u64) {
        *self.state().releases.entry(number).or_default() += 1;
    }

    /// How often [`Self::release`] was called for this request.
    pub(super) fn releases(&self, number: u64) -> u64 {
        self.state().releases.get(&number).copied().unwrap_or_default()
    }
}
