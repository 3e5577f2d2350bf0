//! An instance that goes away and comes back: asked for on the control socket, done by the instance's own thread, which then
//! has neither listener nor connections, as if it had been killed. Its port stays its own.

use hoptax_host::threads::Stop;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for the instance's thread to do as it was told: it does so after its next turn.
const PATIENCE: Duration = Duration::from_secs(4);
/// How often a thread that is away looks whether everything is being stopped.
const LOOK: Duration = Duration::from_millis(20);

/// What an instance is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Close everything.
    Close,
    /// Listen again.
    Open,
}

impl Order {
    /// As paths on the control socket call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Close => "close",
            Self::Open => "open",
        }
    }
}

/// Shared by the instance and who tells it.
#[derive(Debug)]
pub(super) struct Switch {
    address: SocketAddr,
    wanted_closed: AtomicBool,
    closed: Mutex<bool>,
    changed: Condvar,
}

impl Switch {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            wanted_closed: AtomicBool::new(false),
            closed: Mutex::new(false),
            changed: Condvar::new(),
        }
    }

    /// Tells the instance, and returns whether it has done so in time.
    pub(super) fn tell(&self, order: Order) -> bool {
        let close = order == Order::Close;
        self.wanted_closed.store(close, Ordering::Relaxed);
        if close {
            // It waits in its event loop; a connection wakes it.
            let _ = TcpStream::connect_timeout(&self.address, PATIENCE);
        }
        self.changed.notify_all();
        let deadline = Instant::now() + PATIENCE;
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

    /// Whether the instance is to go away.
    pub(super) fn asked(&self) -> bool {
        self.wanted_closed.load(Ordering::Relaxed)
    }

    /// For the instance's thread, once it has closed everything: returns when it is to listen again, or to stop.
    pub(super) fn rest(&self, stop: &Stop) {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        *closed = true;
        self.changed.notify_all();
        while self.asked() && !stop.asked() {
            closed = self.changed.wait_timeout(closed, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// For the instance's thread, once it listens again.
    pub(super) fn back(&self) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.changed.notify_all();
    }
}
