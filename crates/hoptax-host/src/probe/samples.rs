//! Samples ordered by time. All functions are pure.

use super::HostTimes;
use hoptax_format::record::WINDOW_NS;
use serde::{Deserialize, Serialize};

/// One sample of a process tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeSample {
    /// CPU time of the tree so far, nanoseconds.
    pub cpu_ns: u64,
    /// Resident memory (RSS), bytes.
    pub rss_bytes: u64,
    /// Proportional memory (PSS), bytes; only in a detailed sample.
    pub pss_bytes: Option<u64>,
    /// Number of processes.
    pub processes: u32,
    /// Number of threads; 0 unless the sample is detailed.
    pub threads: u32,
    /// Time for which the CPU limits of cgroups have throttled the process tree so far, nanoseconds. Absent
    /// if there is no limit.
    pub throttled_ns: Option<u64>,
    /// True if a process has generated code in its memory; false unless the sample is detailed.
    pub generates_code: bool,
}

/// One sample of the host and of all watched trees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Time of the sample, on the clock [`hoptax_format::clock::now`].
    pub at_ns: u64,
    /// CPU time of the host so far.
    pub host: HostTimes,
    /// Steal of each CPU so far, nanoseconds.
    pub steal_by_cpu: Vec<u64>,
    /// CPU time of the sampling process itself so far, nanoseconds.
    pub own_ns: u64,
    /// The watched trees, in the order given to the sampler.
    pub trees: Vec<TreeSample>,
}

impl Sample {
    /// CPU time of all processes of the run so far.
    pub(super) fn ours(&self) -> u64 {
        self.own_ns + self.trees.iter().map(|tree| tree.cpu_ns).sum::<u64>()
    }
}

/// The samples of a trial, ordered by time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The samples.
    pub samples: Vec<Sample>,
}

impl Timeline {
    /// The samples within `[from, to]`. If there are none, the result is the first sample after `to`. If
    /// there is no sample after `to` either, the result is the last sample of all.
    pub(super) fn around(&self, from: u64, to: u64) -> &[Sample] {
        let first = self.samples.partition_point(|sample| sample.at_ns < from);
        let end = self.samples.partition_point(|sample| sample.at_ns <= to);
        let first = first.min(self.samples.len() - 1);
        &self.samples[first..end.max(first + 1)]
    }

    /// The value of a growing count at the moment `at`. Between two samples the value is interpolated
    /// linearly. Before the first and after the last sample it is constant.
    pub(super) fn value_at(&self, at: u64, value: impl Fn(&Sample) -> u64) -> u64 {
        let next = self.samples.partition_point(|sample| sample.at_ns < at);
        let Some(after) = self.samples.get(next) else {
            return self.samples.last().map_or(0, value);
        };
        let Some(before) = next.checked_sub(1).map(|index| &self.samples[index]) else { return value(after) };
        let (low, high) = (value(before), value(after));
        let share = (at - before.at_ns) as f64 / (after.at_ns - before.at_ns) as f64;
        low + (high.saturating_sub(low) as f64 * share).round() as u64
    }
}

/// The generator's windows in `[from, to)`; the last one may be shorter.
pub(super) fn windows(from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> {
    (from..to).step_by(WINDOW_NS as usize).map(move |start| (start, (start + WINDOW_NS).min(to)))
}
