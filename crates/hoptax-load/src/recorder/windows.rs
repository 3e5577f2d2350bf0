//! The windows of one worker.

use hdrhistogram::Histogram;
use hoptax_format::histogram::{self, Encoder, WINDOW_DIGITS};
use hoptax_format::record::Window;

#[derive(Debug)]
pub(super) struct Windows {
    /// Windows that have ended. Once a window is reported, it is removed if the record does not need it.
    ended: Vec<Window>,
    index: u64,
    reported: u64,
    /// The current window. Its response times are in `response_time`.
    pub(super) running: Window,
    pub(super) response_time: Histogram<u64>,
    encoder: Encoder,
}

impl Windows {
    pub(super) fn new() -> Self {
        Self {
            ended: Vec::new(),
            index: 0,
            reported: 0,
            running: Window::default(),
            response_time: histogram::empty(WINDOW_DIGITS),
            encoder: Encoder::new(),
        }
    }

    /// Ends windows until the current window is window `index`.
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

    /// Ends windows until the current window is window `index`. Then calls `report` for each ended window
    /// that was not reported before, with the window's number and its results. If `keep` is true,
    /// [`Self::into_ended`] returns these windows too.
    pub(super) fn report_until(&mut self, index: u64, keep: bool, mut report: impl FnMut(u64, Window)) {
        self.run_until(index);
        let first_new = self.ended.len() - (self.index - self.reported) as usize;
        if keep {
            for (number, window) in (self.reported..).zip(&self.ended[first_new..]) {
                report(number, window.clone());
            }
        } else {
            for (number, window) in (self.reported..).zip(self.ended.drain(first_new..)) {
                report(number, window);
            }
        }
        self.reported = self.index;
    }

    pub(super) fn into_ended(self) -> Vec<Window> {
        self.ended
    }
}
