//! The agent's output: answers, updates and beats. All threads may use it.

use crate::protocol::frame;
use crate::protocol::greeting::Versions;
use crate::protocol::message::{FromAgent, Order, Update};
use crate::protocol::silence::send_frames;
use hoptax_record::{Failure, Stage};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Sends messages to the runner, and knows which requests have no answer yet.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    frames: Sender<Vec<u8>>,
    open: Arc<Mutex<BTreeMap<u64, Open>>>,
}

/// A request without an answer.
#[derive(Debug)]
struct Open {
    interrupted: Arc<AtomicBool>,
    orders: Sender<Order>,
}

impl Answers {
    /// Writes the greeting, and starts a thread that writes all later messages and beats.
    pub(super) fn start(mut output: File) -> Self {
        let (frames, inbox) = mpsc::channel();
        thread::spawn(move || {
            if output.write_all(Versions::own().line().as_bytes()).is_ok() {
                send_frames(&mut output, &inbox, &FromAgent::<()>::Beat);
            }
        });
        Self { frames, open: Arc::default() }
    }

    /// Registers a request. Returns the channel for its orders. An interruption also sets `interrupted`.
    pub(super) fn expect(&self, id: u64, interrupted: Arc<AtomicBool>) -> Receiver<Order> {
        let (orders, inbox) = mpsc::channel();
        self.lock().insert(id, Open { interrupted, orders });
        inbox
    }

    /// Passes on an order. It is ignored if the request has been answered.
    pub(super) fn order(&self, of: u64, order: Order) {
        let open = self.lock();
        let Some(request) = open.get(&of) else { return };
        if order == Order::Interrupt {
            request.interrupted.store(true, Ordering::Relaxed);
        }
        let _ = request.orders.send(order);
    }

    /// Interrupts all requests and closes their channels, so that a request that waits for orders stops
    /// waiting.
    pub(super) fn interrupt_all(&self) {
        for request in std::mem::take(&mut *self.lock()).into_values() {
            request.interrupted.store(true, Ordering::Relaxed);
        }
    }

    /// Answers a request.
    pub(super) fn answer<T: Serialize>(&self, id: u64, answer: Result<T, Failure>) {
        self.lock().remove(&id);
        let encoded = match answer {
            Ok(value) => frame::encode(&FromAgent::Done { id, value }),
            Err(failure) => frame::encode(&FromAgent::<()>::Failed { id, failure }),
        };
        let frame = encoded.unwrap_or_else(|error| {
            let failure = Failure::new(Stage::Trial, error.to_string());
            frame::encode(&FromAgent::<()>::Failed { id, failure }).expect("a short message")
        });
        let _ = self.frames.send(frame);
    }

    /// Sends news about a request.
    pub(super) fn update(&self, id: u64, update: Update) {
        let message = FromAgent::<()>::Update { id, update };
        let _ = self.frames.send(frame::encode(&message).expect("updates are short"));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
