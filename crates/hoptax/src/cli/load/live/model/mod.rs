//! State of the live view. It receives phases and windows from the generator, and computes the numbers to
//! show. It does not read a clock, and does not draw.

use hdrhistogram::Histogram;
use hoptax_format::histogram::{WINDOW_DIGITS, empty};
use hoptax_format::record::{Cause, Phase, WINDOW_NS, Window};
use hoptax_format::spec::{LoadSpec, Rate, Shape};
use hoptax_load::Progress;
use std::collections::{BTreeMap, VecDeque};

const SECOND: f64 = 1e9;
/// Number of windows that the current figures cover: one second.
const RECENT: usize = 10;

#[derive(Debug)]
pub(super) struct Model {
    pub(super) url: String,
    pub(super) connections: u32,
    rate: Option<Rate>,
    duration: Option<u64>,
    pub(super) requests: Option<u64>,
    workers: u32,
    phase: Option<(Phase, u64)>,
    /// Start of the measured time.
    start: Option<u64>,
    /// Sum of the counts of all workers for each window. The index is the number of the window.
    windows: Vec<Cell>,
    /// Response times of the last windows, newest last.
    recent: VecDeque<(usize, Histogram<u64>)>,
    overall: Histogram<u64>,
    totals: Totals,
}

/// One window. Its counts are the sum over all workers that have reported this window.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    reported: u32,
    completed: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) sent: u64,
    pub(super) completed: u64,
    pub(super) ok: u64,
    pub(super) timeouts: u64,
    pub(super) errors: u64,
    pub(super) causes: BTreeMap<Cause, u64>,
}

impl Totals {
    /// Failures, and responses that are not successes.
    pub(super) fn bad(&self) -> u64 {
        self.timeouts + self.errors + self.completed.saturating_sub(self.ok)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LoadProgress {
    pub(super) phase: Option<Phase>,
    /// Nanoseconds since the measured time began. Before that time, nanoseconds since the phase began.
    pub(super) elapsed: u64,
    /// Nanoseconds until the end. Absent if the end is not known.
    pub(super) left: Option<u64>,
    /// Share of the load that is done, 0 to 1. Absent if the end is not known.
    pub(super) share: Option<f64>,
}

/// Percentiles of response times, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) p50: u64,
    pub(super) p90: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
}

impl Model {
    pub(super) fn new(url: &str, spec: &LoadSpec) -> Self {
        Self {
            url: url.to_owned(),
            connections: spec.connections,
            rate: match &spec.shape {
                Shape::Closed => None,
                Shape::Open { rate, .. } => Some(rate.clone()),
            },
            duration: (spec.duration_ns < super::super::to_spec::UNBOUNDED.as_nanos() as u64)
                .then_some(spec.duration_ns),
            requests: spec.requests,
            workers: spec.workers.min(spec.connections).max(1),
            phase: None,
            start: None,
            windows: Vec::new(),
            recent: VecDeque::new(),
            overall: empty(WINDOW_DIGITS),
            totals: Totals::default(),
        }
    }

    /// Adds a report of the generator.
    pub(super) fn update(&mut self, progress: Progress) {
        match progress {
            Progress::Phase(line) => {
                self.phase = Some((line.phase, line.at_ns));
                if line.phase == Phase::Measuring {
                    self.start = Some(line.at_ns);
                }
            }
            Progress::Window { index, window } => self.add(index as usize, window),
        }
    }

    fn add(&mut self, index: usize, window: Window) {
        if self.windows.len() <= index {
            self.windows.resize(index + 1, Cell::default());
        }
        let cell = &mut self.windows[index];
        cell.reported += 1;
        cell.completed += window.completed;
        let totals = &mut self.totals;
        totals.sent += window.sent;
        totals.completed += window.completed;
        totals.ok += window.ok;
        totals.timeouts += window.timeouts;
        totals.errors += window.errors;
        for (cause, count) in window.causes {
            *totals.causes.entry(cause).or_default() += count;
        }
        // Leave out a histogram that cannot be decoded. The error is reported later, when the record is read.
        let Some(Ok(times)) = window.response_time.map(|encoded| encoded.decode()) else { return };
        let _ = self.overall.add(&times);
        if let Some((_, sum)) = self.recent.iter_mut().find(|(known, _)| *known == index) {
            let _ = sum.add(&times);
            return;
        }
        self.recent.push_back((index, times));
        let newest = self.windows.len();
        self.recent.retain(|(known, _)| known + RECENT >= newest);
    }

    /// Number of windows that are complete because every worker has reported them.
    fn complete(&self) -> usize {
        let lagging = self.windows.iter().rev().take_while(|cell| cell.reported < self.workers).count();
        self.windows.len() - lagging
    }

    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(super) fn overall(&self) -> &Histogram<u64> {
        &self.overall
    }

    pub(super) fn times_overall(&self) -> Option<Times> {
        Times::of(&self.overall)
    }

    /// Percentiles of the response times in the last second.
    pub(super) fn times_now(&self) -> Option<Times> {
        let mut sum = empty(WINDOW_DIGITS);
        for (_, histogram) in &self.recent {
            let _ = sum.add(histogram);
        }
        Times::of(&sum)
    }

    /// Completed requests per second over the last second.
    pub(super) fn throughput_now(&self) -> f64 {
        let complete = self.complete();
        mean(&self.windows[complete.saturating_sub(RECENT)..complete])
    }

    /// Completed requests per second since the measured time began.
    pub(super) fn throughput(&self) -> f64 {
        mean(&self.windows[..self.complete()])
    }

    /// Requests due per second at the time `now`; `None` in a closed loop.
    pub(super) fn rate(&self, now: u64) -> Option<f64> {
        let at = now.saturating_sub(self.start.unwrap_or(now));
        self.rate.as_ref().map(|rate| rate.at(at))
    }

    /// Completed requests per second over time, in at most `columns` intervals of equal length. In an open
    /// loop, also returns the rate that was due in each interval.
    pub(super) fn history(&self, columns: usize) -> (Vec<f64>, Option<Vec<f64>>) {
        let cells = &self.windows[..self.complete()];
        if columns == 0 || cells.is_empty() {
            return (Vec::new(), self.rate.as_ref().map(|_| Vec::new()));
        }
        let per_column = cells.len().div_ceil(columns);
        let throughput: Vec<f64> = cells.chunks(per_column).map(mean).collect();
        let due = self.rate.as_ref().map(|rate| {
            let middle = |column: usize| ((2 * column + 1) * per_column) as u64 * WINDOW_NS / 2;
            (0..throughput.len()).map(|column| rate.at(middle(column))).collect()
        });
        (throughput, due)
    }

    pub(super) fn progress(&self, now: u64) -> LoadProgress {
        let Some((phase, at)) = self.phase else {
            return LoadProgress { phase: None, elapsed: 0, left: None, share: None };
        };
        let elapsed = now.saturating_sub(self.start.unwrap_or(at));
        let progress = LoadProgress { phase: Some(phase), elapsed, left: None, share: None };
        if phase != Phase::Measuring {
            return progress;
        }
        let by_time = self.duration.map(|duration| {
            (duration.saturating_sub(elapsed), (elapsed as f64 / duration.max(1) as f64).min(1.0))
        });
        let by_count = self.requests.map(|requests| {
            let done = self.totals.completed + self.totals.timeouts + self.totals.errors;
            let missing = requests.saturating_sub(done) as f64;
            let throughput = self.throughput();
            let left = if throughput > 0.0 { missing / throughput * SECOND } else { f64::INFINITY };
            (left as u64, (done as f64 / requests.max(1) as f64).min(1.0))
        });
        // If both the time and the number of requests are limited, show the limit that is reached first.
        let end = match (by_time, by_count) {
            (Some(time), Some(count)) => Some(if count.0 < time.0 { count } else { time }),
            (time, count) => time.or(count),
        };
        let left = end.map(|end| end.0).filter(|left| *left < u64::MAX);
        LoadProgress { left, share: end.map(|end| end.1), ..progress }
    }
}

impl Times {
    fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile);
        (!histogram.is_empty()).then(|| Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: histogram.max(),
        })
    }
}

/// Completed requests per second.
fn mean(cells: &[Cell]) -> f64 {
    let completed: u64 = cells.iter().map(|cell| cell.completed).sum();
    completed as f64 * SECOND / (cells.len().max(1) as f64 * WINDOW_NS as f64)
}

#[cfg(test)]
pub(super) mod tests;
