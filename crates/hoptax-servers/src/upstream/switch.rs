//! Closes and opens an instance. The control socket receives the order, and the instance's own thread carries
//! it out. A closed instance has no listener and no connections, as if it had been killed, but keeps its
//! address.

use hoptax_format::Address;
use hoptax_host::threads::{Stop, wake};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time limit for the instance's thread to carry out an order. The thread reacts after the next turn of its
/// event loop.
const TIMEOUT: Duration = Duration::from_secs(4);
/// How often the thread of a closed instance checks whether the upstream is being stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// An order to an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Close everything.
    Close,
    /// Listen again.
    Open,
}

impl Order {
    /// Name of the order in paths on the control socket.
    pub fn name(self) -> &'static str {
        match self {
            Self::Close => "close",
            Self::Open => "open",
        }
    }
}

/// Passes orders from the control thread to the instance's thread.
#[derive(Debug)]
pub(super) struct Switch {
    address: Address,
    wanted_closed: AtomicBool,
    closed: Mutex<bool>,
    changed: Condvar,
}

impl Switch {
    pub(super) fn new(address: Address) -> Self {
        Self {
            address,
            wanted_closed: AtomicBool::new(false),
            closed: Mutex::new(false),
            changed: Condvar::new(),
        }
    }

    /// Sends the order to the instance. Returns whether it was carried out in time.
    pub(super) fn send(&self, order: Order) -> bool {
        let close = order == Order::Close;
        self.wanted_closed.store(close, Ordering::Relaxed);
        if close {
            // A new connection wakes the instance's event loop.
            wake(&self.address, TIMEOUT);
        }
        self.changed.notify_all();
        let deadline = Instant::now() + TIMEOUT;
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        while *closed != close {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            closed = self.changed.wait_timeout(closed, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    pub(super) fn asked(&self) -> bool {
        self.wanted_closed.load(Ordering::Relaxed)
    }

    /// Called by the instance's thread once it has closed everything. Returns when the instance must listen
    /// again or stop.
    pub(super) fn rest(&self, stop: &Stop) {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        *closed = true;
        self.changed.notify_all();
        while self.asked() && !stop.asked() {
            closed =
                self.changed.wait_timeout(closed, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn back(&self) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.changed.notify_all();
    }
}
