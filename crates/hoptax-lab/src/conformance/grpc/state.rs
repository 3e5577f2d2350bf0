//! The state of the scripted upstream: what it has seen, and the steps that it waits for. Its connections and
//! the cases share this state.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names and values of fields, in order.
pub(super) type Fields = Vec<(String, String)>;

/// Numbers of calls of all connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Calls whose end arrived.
    pub(super) ended: u64,
    /// Calls that the client cancelled, or whose connection closed before their answer was sent.
    pub(super) cancelled: u64,
    /// Calls whose whole answer was sent.
    pub(super) answered: u64,
    /// Connections on which the upstream sent GOAWAY.
    pub(super) goaways: u64,
}

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    head: Fields,
    releases: u64,
    requested_goaways: u64,
}

/// The shared state.
#[derive(Debug, Clone, Default)]
pub(super) struct Shared(Arc<Mutex<State>>);

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Changes the counts.
    pub(super) fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.state().counts);
    }

    /// The fields of the last call's head.
    pub(super) fn head(&self) -> Fields {
        self.state().head.clone()
    }

    pub(super) fn set_head(&self, head: Fields) {
        self.state().head = head;
    }

    /// Lets the upstream finish all calls that it holds now.
    pub(super) fn release(&self) {
        self.state().releases += 1;
    }

    /// Number of calls of [`Self::release`].
    pub(super) fn releases(&self) -> u64 {
        self.state().releases
    }

    /// Makes the upstream send GOAWAY on all connections that are open now.
    pub(super) fn go_away(&self) {
        self.state().requested_goaways += 1;
    }

    /// Number of calls of [`Self::go_away`].
    pub(super) fn requested_goaways(&self) -> u64 {
        self.state().requested_goaways
    }
}
