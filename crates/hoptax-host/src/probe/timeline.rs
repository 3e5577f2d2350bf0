//! Computes results for exactly the measured time from samples. All functions are pure.

use super::samples::{Sample, Timeline, windows};
use super::steal;
use hoptax_format::clock::SECOND;
use hoptax_record::{HostUsage, RoleUsage};
use serde::{Deserialize, Serialize};

/// Usage of CPU and memory over the last second.
#[derive(Debug, Clone, PartialEq)]
pub struct Recent {
    /// The watched trees, in the order given to the sampler.
    pub trees: Vec<RecentTree>,
    /// Share of the host's CPU time that the hypervisor took, 0 to 1.
    pub steal: f64,
}

/// Usage of one tree over the last second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RecentTree {
    /// CPU usage as a number of CPUs: 0.5 is half of one CPU.
    pub cpus: f64,
    /// Resident memory at the end of the second, bytes.
    pub rss_bytes: u64,
}

impl Timeline {
    /// Usage over the last second, or since the first sample; `None` if no time has passed.
    pub fn recent(&self) -> Option<Recent> {
        let last = self.samples.last()?;
        let first = self.samples.iter().rev().find(|sample| last.at_ns - sample.at_ns >= SECOND);
        let first = first.or(self.samples.first()).filter(|first| first.at_ns < last.at_ns)?;
        let passed = (last.at_ns - first.at_ns) as f64;
        let trees = first.trees.iter().zip(&last.trees).map(|(before, now)| RecentTree {
            cpus: now.cpu_ns.saturating_sub(before.cpu_ns) as f64 / passed,
            rss_bytes: now.rss_bytes,
        });
        let stolen = last.host.steal.saturating_sub(first.host.steal) as f64;
        let total = last.host.total().saturating_sub(first.host.total());
        let steal = if total == 0 { 0.0 } else { stolen / total as f64 };
        Some(Recent { trees: trees.collect(), steal })
    }

    /// Usage of tree `index` in `[from, to)`; `None` if there are fewer than two samples.
    pub fn usage(&self, index: usize, from: u64, to: u64) -> Option<RoleUsage> {
        if self.samples.len() < 2 {
            return None;
        }
        let cpu = |at| self.value_at(at, |sample| sample.trees[index].cpu_ns);
        let inside = self.around(from, to).iter().map(|sample| &sample.trees[index]);
        let last = self.around(from, to).iter().rev().map(|sample| &sample.trees[index]);
        Some(RoleUsage {
            cpu_ns: cpu(to).saturating_sub(cpu(from)),
            processes: last.clone().next()?.processes,
            threads: last.clone().map(|tree| tree.threads).find(|&threads| threads > 0).unwrap_or(0),
            rss_bytes_max: inside.clone().map(|tree| tree.rss_bytes).max().unwrap_or(0),
            pss_bytes_max: inside.filter_map(|tree| tree.pss_bytes).max(),
            cpu_ns_by_window: windows(from, to).map(|(from, to)| cpu(to).saturating_sub(cpu(from))).collect(),
            rss_bytes_by_window: self.rss_by_window(index, from, to),
            // Sampling begins before the generator knows its load.
            rss_bytes_before: self.samples.first().map(|sample| sample.trees[index].rss_bytes),
            throttled_ns: self.throttled(index, from, to),
            cpus_allowed: Vec::new(),
            busy_threads: None,
            waiting_ns: None,
            generates_code: self.samples.iter().any(|sample| sample.trees[index].generates_code),
        })
    }

    /// How long a CPU limit throttled tree `index` in `[from, to)`; `None` if there is no limit.
    fn throttled(&self, index: usize, from: u64, to: u64) -> Option<u64> {
        self.around(from, to).iter().rev().find_map(|sample| sample.trees[index].throttled_ns)?;
        // Throttled time is unknown before the first sample that contains it. So counting starts at that
        // sample.
        let first = self.samples.iter().find_map(|sample| sample.trees[index].throttled_ns)?;
        let at = |moment| self.value_at(moment, |sample| sample.trees[index].throttled_ns.unwrap_or(first));
        Some(at(to).saturating_sub(at(from)))
    }

    /// Resident memory of tree `index` at the end of each window in `[from, to)`. If the tree's processes
    /// ended before a sample, the sample contains 0, and the previous value is used instead. This can happen
    /// to the generator.
    fn rss_by_window(&self, index: usize, from: u64, to: u64) -> Vec<u64> {
        let mut before = 0;
        let ends = windows(from, to).map(|(_, end)| self.nearest(end).trees[index].rss_bytes);
        ends.map(|bytes| {
            before = if bytes > 0 { bytes } else { before };
            before
        })
        .collect()
    }

    fn nearest(&self, at: u64) -> &Sample {
        let next = self.samples.partition_point(|sample| sample.at_ns < at).min(self.samples.len() - 1);
        let before = next.saturating_sub(1);
        let distance = |index: usize| self.samples[index].at_ns.abs_diff(at);
        &self.samples[if distance(before) < distance(next) { before } else { next }]
    }

    /// Activity of the host in `[from, to)`. Foreign time is the busy time that neither the watched trees nor
    /// the sampling process used. It is at most `others_ns`, the CPU time of all other processes. This limit
    /// is needed because the kernel counts busy time in ticks of 10 ms. If requests are due every
    /// millisecond, one may be in progress at each tick, and the CPU then seems to be always busy.
    pub fn host(&self, from: u64, to: u64, others_ns: Option<u64>) -> HostUsage {
        if self.samples.len() < 2 {
            return HostUsage::default();
        }
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let between = |from, to| {
            // The kernel's counters of iowait and of steal may decrease (proc_stat(5)).
            let spent =
                |kind: fn(&Sample) -> u64| self.value_at(to, kind).saturating_sub(self.value_at(from, kind));
            let total = spent(|sample| sample.host.total());
            let foreign = spent(|sample| sample.host.busy).saturating_sub(spent(Sample::ours));
            (
                share(spent(|sample| sample.host.steal), total),
                share(foreign, total),
                share(spent(|sample| sample.host.idle), total),
            )
        };
        let (steal, foreign, idle) = between(from, to);
        let total = self
            .value_at(to, |sample| sample.host.total())
            .saturating_sub(self.value_at(from, |sample| sample.host.total()));
        let foreign = others_ns.map_or(foreign, |others| foreign.min(share(others, total)));
        let (steal_by_window, foreign_by_window) = windows(from, to)
            .map(|(from, to)| between(from, to))
            .map(|(steal, foreign, _)| (steal, foreign))
            .unzip();
        let stolen = Some(steal::stolen(self, from, to));
        HostUsage { steal, foreign, idle, steal_by_window, foreign_by_window, stolen, ..HostUsage::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HostTimes, TreeSample};
    use super::*;

    const MS: u64 = 1_000_000;

    fn sample(at_ms: u64, cpu_ms: u64, busy_ms: u64, steal_ms: u64) -> Sample {
        let tree =
            TreeSample { cpu_ns: cpu_ms * MS, rss_bytes: at_ms, processes: 1, ..TreeSample::default() };
        let host = HostTimes {
            busy: busy_ms * MS,
            steal: steal_ms * MS,
            idle: (2 * at_ms).saturating_sub(busy_ms + steal_ms) * MS,
        };
        Sample { at_ns: at_ms * MS, host, own_ns: 0, steal_by_cpu: Vec::new(), trees: vec![tree] }
    }

    #[test]
    fn usage_is_cut_to_the_measured_time() {
        let timeline = Timeline {
            samples: vec![
                sample(0, 0, 0, 0),
                sample(100, 40, 60, 0),
                sample(200, 60, 90, 20),
                sample(300, 60, 90, 20),
            ],
        };
        // From the middle of the first window to the middle of the second: half of 40 ms plus half of 20 ms.
        let usage = timeline.usage(0, 50 * MS, 150 * MS).expect("enough samples");
        assert_eq!(usage.cpu_ns, 30 * MS);
        assert_eq!(usage.cpu_ns_by_window, [30 * MS]);
        assert_eq!(usage.rss_bytes_max, 100, "the sample inside");
        let usage = timeline.usage(0, 0, 250 * MS).expect("enough samples");
        assert_eq!(usage.cpu_ns_by_window, [40 * MS, 20 * MS, 0]);
        assert_eq!(usage.cpu_ns, 60 * MS);
    }

    #[test]
    fn recent_usage_covers_the_last_second_or_less() {
        let mut timeline = Timeline { samples: vec![sample(0, 0, 0, 0)] };
        assert_eq!(timeline.recent(), None, "no time has passed");
        timeline.samples.push(sample(400, 100, 100, 80));
        let recent = timeline.recent().expect("two looks");
        assert_eq!(recent.trees, [RecentTree { cpus: 0.25, rss_bytes: 400 }]);
        assert!((recent.steal - 0.1).abs() < 1e-9, "80 of 800 ms: {recent:?}");
        timeline.samples.extend([sample(500, 100, 100, 80), sample(1_400, 1_000, 1_000, 80)]);
        let recent = timeline.recent().expect("four looks");
        assert_eq!((recent.trees[0].cpus, recent.steal), (0.9, 0.0), "since 400 ms");
    }

    #[test]
    fn memory_is_given_at_the_end_of_each_window_and_throttling_within_the_measured_time() {
        let mut timeline =
            Timeline { samples: vec![sample(0, 0, 0, 0), sample(101, 0, 0, 0), sample(199, 0, 0, 0)] };
        assert_eq!(timeline.usage(0, 0, 200 * MS).expect("samples").throttled_ns, None, "there is no limit");
        // The limit was first found at the second sample.
        timeline.samples[1].trees[0].throttled_ns = Some(500);
        timeline.samples[2].trees[0].throttled_ns = Some(1_480);
        let usage = timeline.usage(0, 0, 150 * MS).expect("samples");
        assert_eq!(usage.throttled_ns, Some(490), "half of what came between the second and the third");
        let usage = timeline.usage(0, 0, 200 * MS).expect("samples");
        assert_eq!(usage.rss_bytes_by_window, [101, 199], "the looks nearest to the ends");
        assert_eq!(usage.rss_bytes_before, Some(0), "the first look");
        assert_eq!(usage.throttled_ns, Some(980));
        timeline.samples[2].trees[0].rss_bytes = 0;
        let usage = timeline.usage(0, 0, 200 * MS).expect("samples");
        assert_eq!(usage.rss_bytes_by_window, [101, 101], "it had ended by then");
    }

    #[test]
    fn foreign_time_is_busy_time_of_other_processes() {
        let timeline =
            Timeline { samples: vec![sample(0, 0, 0, 0), sample(100, 40, 60, 0), sample(200, 60, 90, 20)] };
        let host = timeline.host(0, 200 * MS, None);
        assert!((host.foreign - 30.0 / 400.0).abs() < 1e-9, "{host:?}");
        assert!((host.steal - 20.0 / 400.0).abs() < 1e-9, "{host:?}");
        assert_eq!(host.steal_by_window.len(), 2);
        assert!((host.steal_by_window[1] - 0.1).abs() < 1e-9, "{host:?}");
        assert!((host.foreign_by_window[0] - 0.1).abs() < 1e-9, "{host:?}");
        let less = timeline.host(0, 200 * MS, Some(20 * MS)).foreign;
        assert!((less - 20.0 / 400.0).abs() < 1e-9, "no more than other processes used: {less}");
        assert_eq!(
            timeline.host(0, 200 * MS, Some(900 * MS)).foreign,
            host.foreign,
            "the time outside of the trial"
        );
    }

    #[test]
    fn decreasing_counts_give_no_time() {
        let timeline =
            Timeline { samples: vec![sample(0, 0, 0, 20), sample(100, 40, 60, 10), sample(200, 30, 90, 10)] };
        let host = timeline.host(0, 200 * MS, None);
        assert!((0.0..=1.0).contains(&host.idle) && host.steal.abs() < 1e-9, "{host:?}");
        let usage = timeline.usage(0, 100 * MS, 200 * MS).expect("enough samples");
        assert_eq!((usage.cpu_ns, usage.cpu_ns_by_window), (0, vec![0]));
    }

    #[test]
    fn too_few_samples_say_nothing() {
        assert_eq!(Timeline::default().usage(0, 0, 100), None);
        assert_eq!(Timeline::default().host(0, 100, None), HostUsage::default());
    }
}
