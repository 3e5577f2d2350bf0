//! Adds up the windows of all workers into seconds, for live views. This module does no I/O and reads no
//! clock.

use crate::clock::SECOND;
use crate::histogram::{Encoded, WINDOW_DIGITS, empty};
use crate::record::{SecondLine, WINDOW_NS, Window};
use hdrhistogram::Histogram;
use std::collections::VecDeque;

/// Maximum number of incomplete seconds that are kept, so that the memory is bounded. If a worker is further
/// behind, or has ended early, a second is returned without the windows of this worker.
const PENDING: usize = 2;

/// Collects the seconds that are still incomplete.
#[derive(Debug)]
pub struct Seconds {
    workers: u64,
    /// Number of windows in a second.
    windows: u64,
    /// Number of the first second that has not been returned yet.
    next: u64,
    pending: VecDeque<Second>,
    /// True if the returned seconds also contain response times.
    with_times: bool,
}

#[derive(Debug)]
struct Second {
    windows: u64,
    sent: u64,
    completed: u64,
    ok: u64,
    failed: u64,
    response_time: Histogram<u64>,
}

impl Seconds {
    /// Creates an empty collection for a load with `workers` workers.
    pub fn new(workers: u32) -> Self {
        let windows = SECOND / WINDOW_NS;
        let workers = u64::from(workers.max(1));
        Self { workers, windows, next: 0, pending: VecDeque::new(), with_times: false }
    }

    /// Sets whether seconds contain their response times, so that they can be merged with those of other
    /// generators.
    #[must_use]
    pub fn with_times(self, with_times: bool) -> Self {
        Self { with_times, ..self }
    }

    /// Sets the length of the windows, nanoseconds, instead of [`WINDOW_NS`].
    #[must_use]
    pub fn with_window_length(self, ns: u64) -> Self {
        Self { windows: (SECOND / ns.max(1)).max(1), ..self }
    }

    /// Adds a window of one worker. Returns the second that this window completes, if any. Ignores the window
    /// if its second was already returned.
    pub fn add(&mut self, index: u64, window: &Window) -> Option<SecondLine> {
        let place = usize::try_from((index / self.windows).checked_sub(self.next)?).ok()?;
        if place > PENDING {
            // Workers report their windows in order. A window this far ahead must be an error.
            return None;
        }
        while self.pending.len() <= place {
            self.pending.push_back(Second::empty());
        }
        self.pending[place].add(window);
        let complete = self.pending[0].windows >= self.workers * self.windows;
        (complete || self.pending.len() > PENDING).then(|| self.pop(SECOND)).flatten()
    }

    /// Returns all incomplete seconds. Called when the measured time has ended after `measured_ns`.
    pub fn end(&mut self, measured_ns: u64) -> Vec<SecondLine> {
        let mut rest = Vec::new();
        while !self.pending.is_empty() {
            let length = measured_ns.saturating_sub(self.next * SECOND).min(SECOND);
            rest.extend(self.pop(length).filter(|line| line.length_ns > 0));
        }
        rest
    }

    fn pop(&mut self, length_ns: u64) -> Option<SecondLine> {
        let second = self.pending.pop_front()?;
        let times = &second.response_time;
        let at = |quantile| (!times.is_empty()).then(|| times.value_at_quantile(quantile));
        self.next += 1;
        Some(SecondLine {
            second: self.next - 1,
            length_ns,
            sent: second.sent,
            completed: second.completed,
            ok: second.ok,
            failed: second.failed,
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            response_time: (self.with_times && !times.is_empty()).then(|| Encoded::new(times)),
        })
    }
}

/// Adds up the same second of several generators. The percentiles are computed from the response times of all
/// lines. A line without response times adds only its counts. `None` if there are no lines.
pub fn together(lines: &[SecondLine]) -> Option<SecondLine> {
    let mut times = empty(WINDOW_DIGITS);
    for part in lines.iter().filter_map(|line| line.response_time.as_ref()?.decode().ok()) {
        let _ = times.add(&part);
    }
    let at = |quantile| (!times.is_empty()).then(|| times.value_at_quantile(quantile));
    let sum = |of: fn(&SecondLine) -> u64| lines.iter().map(of).sum();
    Some(SecondLine {
        second: lines.first()?.second,
        length_ns: lines.iter().map(|line| line.length_ns).max()?,
        sent: sum(|line| line.sent),
        completed: sum(|line| line.completed),
        ok: sum(|line| line.ok),
        failed: sum(|line| line.failed),
        p50_ns: at(0.5),
        p99_ns: at(0.99),
        response_time: None,
    })
}

impl Second {
    fn empty() -> Self {
        Self { windows: 0, sent: 0, completed: 0, ok: 0, failed: 0, response_time: empty(WINDOW_DIGITS) }
    }

    fn add(&mut self, window: &Window) {
        self.windows += 1;
        self.sent += window.sent;
        self.completed += window.completed;
        self.ok += window.ok;
        self.failed += window.timeouts + window.errors + window.completed.saturating_sub(window.ok);
        // If the histogram cannot be decoded, only its response times are missing here. The error is reported
        // when the record is read.
        if let Some(Ok(times)) = window.response_time.as_ref().map(Encoded::decode) {
            let _ = self.response_time.add(&times);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a window with one completed request, with this response time in µs, and one failed request.
    fn window(time: u64) -> Window {
        let mut histogram = empty(WINDOW_DIGITS);
        histogram.record(time * 1000).expect("in range");
        let response_time = Some(Encoded::new(&histogram));
        Window { sent: 2, completed: 1, ok: 1, errors: 1, response_time, ..Window::default() }
    }

    #[test]
    fn a_second_is_returned_when_every_worker_has_reported_it() {
        let mut seconds = Seconds::new(2);
        let add = |seconds: &mut Seconds, from: u64, to: u64| -> Vec<u64> {
            let lines = (from..to).filter_map(|index| seconds.add(index, &window(100)));
            lines.map(|line| line.second).collect()
        };
        assert_eq!(add(&mut seconds, 0, 15), [0; 0], "one worker alone");
        assert_eq!(add(&mut seconds, 0, 9), [0; 0]);
        let line = seconds.add(9, &window(900)).expect("whole");
        assert_eq!((line.second, line.length_ns), (0, SECOND));
        assert_eq!((line.sent, line.completed, line.ok, line.failed), (40, 20, 20, 20));
        let near = |found: Option<u64>, time: u64| found.is_some_and(|ns| ns.abs_diff(time) < time / 50);
        assert!(near(line.p50_ns, 100_000) && near(line.p99_ns, 900_000), "{line:?}");
        assert_eq!(add(&mut seconds, 10, 20), [0; 0]);
        assert_eq!(add(&mut seconds, 15, 25), [1]);
    }

    #[test]
    fn workers_that_have_ended_are_not_waited_for() {
        let mut seconds = Seconds::new(2);
        let lines: Vec<SecondLine> = (0..45).filter_map(|index| seconds.add(index, &window(100))).collect();
        assert_eq!(
            lines.iter().map(|line| (line.second, line.sent)).collect::<Vec<_>>(),
            [(0, 20), (1, 20), (2, 20)]
        );
        assert_eq!(seconds.add(3, &window(100)), None, "too late");
        let rest: Vec<u64> = seconds.end(4 * SECOND + SECOND / 2).iter().map(|line| line.length_ns).collect();
        assert_eq!(rest, [SECOND, SECOND / 2]);
        assert_eq!(seconds.end(5 * SECOND), []);
    }

    #[test]
    fn percentiles_of_several_generators_come_from_all_response_times() {
        let second = |times: &[u64]| {
            let mut seconds = Seconds::new(1).with_times(true);
            let each = |(index, time): (usize, &u64)| seconds.add(index as u64, &window(*time));
            assert!(times.iter().enumerate().filter_map(each).next().is_none());
            seconds.end(SECOND).remove(0)
        };
        let lines = [second(&[100; 9]), second(&[900; 3])];
        let line = together(&lines).expect("two lines");
        assert_eq!((line.second, line.length_ns), (0, SECOND));
        assert_eq!((line.sent, line.completed, line.ok, line.failed), (24, 12, 12, 12));
        let near = |found: Option<u64>, time: u64| found.is_some_and(|ns| ns.abs_diff(time) < time / 50);
        assert!(near(line.p50_ns, 100_000) && near(line.p99_ns, 900_000), "{line:?}");
        assert_eq!(line.response_time, None);
        assert_eq!(together(&[]), None);
    }

    #[test]
    fn windows_can_have_another_length() {
        let mut seconds = Seconds::new(1).with_window_length(WINDOW_NS / 10);
        let lines: Vec<SecondLine> = (0..200).filter_map(|index| seconds.add(index, &window(100))).collect();
        let sent: Vec<_> = lines.iter().map(|line| (line.second, line.sent)).collect();
        assert_eq!(sent, [(0, 200), (1, 200)]);
    }

    #[test]
    fn seconds_without_responses_are_returned_too() {
        let mut seconds = Seconds::new(1);
        let lines: Vec<_> = (0..10).filter_map(|index| seconds.add(index, &Window::default())).collect();
        assert_eq!(lines.len(), 1);
        assert_eq!((lines[0].sent, lines[0].p50_ns, lines[0].p99_ns), (0, None, None));
        // A histogram that cannot be decoded does not affect the counts.
        let broken = Window { response_time: Some(Encoded("no".into())), ..window(100) };
        seconds.add(10, &broken);
        let rest = seconds.end(SECOND + WINDOW_NS);
        assert_eq!((rest[0].second, rest[0].completed, rest[0].p50_ns), (1, 1, None));
    }
}
