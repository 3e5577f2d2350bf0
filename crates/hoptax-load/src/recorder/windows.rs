//! One worker's windows: the one that runs, and those that have ended.

use crate::histogram::{self, Encoder, WINDOW_DIGITS};
use crate::record::Window;
use hdrhistogram::Histogram;

/// The windows that have ended, and the one that runs.
#[derive(Debug)]
pub(super) struct Windows {
    /// Those that have ended, but for those that were told and not kept.
    ended: Vec<Window>,
    /// Number of the one that runs.
    index: u64,
    /// How many were told.
    told: u64,
    /// The one that runs, but for its response times.
    pub(super) running: Window,
    pub(super) response_time: Histogram<u64>,
    encoder: Encoder,
}

impl Windows {
    pub(super) fn new() -> Self {
        Self {
            ended: Vec::new(),
            index: 0,
            told: 0,
            running: Window::default(),
            response_time: histogram::empty(WINDOW_DIGITS),
            encoder: Encoder::new(),
        }
    }

    /// Ends windows until number `index` runs.
    pub(super) fn run_until(&mut self, index: u64) {
        while self.index < index {
            let mut window = std::mem::take(&mut self.running);
            if !self.response_time.is_empty() {
                window.response_time = Some(self.encoder.encode(&self.response_time));
                self.response_time.reset();
            }
            self.ended.push(window);
            self.index += 1;
        }
    }

    /// Ends windows until number `index` runs, and tells those that have ended and were not told, with their numbers;
    /// `keep`: they are needed again.
    pub(super) fn tell_until(&mut self, index: u64, keep: bool, mut tell: impl FnMut(u64, Window)) {
        self.run_until(index);
        let untold = self.ended.len() - (self.index - self.told) as usize;
        if keep {
            for (number, window) in (self.told..).zip(&self.ended[untold..]) {
                tell(number, window.clone());
            }
        } else {
            for (number, window) in (self.told..).zip(self.ended.drain(untold..)) {
                tell(number, window);
            }
        }
        self.told = self.index;
    }

    /// Those that have ended and are kept.
    pub(super) fn into_ended(self) -> Vec<Window> {
        self.ended
    }
}
