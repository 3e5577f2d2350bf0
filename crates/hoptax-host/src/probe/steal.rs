//! Steal of each CPU in each window, computed from samples of `/proc/stat`. All functions are pure.

use super::samples::{Timeline, windows};
use hoptax_format::record::WINDOW_NS;
use hoptax_record::Stolen;
use std::collections::BTreeMap;

/// Number of windows reported on each side of the measured time: one second before it and one second after
/// it. The kernel counts stolen time only when the CPU runs again, so stolen time may be counted after the
/// end of its trial. A stall just before the measured time may have delayed responses within the measured
/// time.
const MARGIN: u32 = 10;

/// Steal in `[from, to)`, in the second before it and in the second after it. Where there are no samples,
/// steal is zero.
pub(super) fn stolen(timeline: &Timeline, from: u64, to: u64) -> Stolen {
    let margin = u64::from(MARGIN) * WINDOW_NS;
    let before = (0..u64::from(MARGIN))
        .rev()
        .map(|index| (from.saturating_sub((index + 1) * WINDOW_NS), from.saturating_sub(index * WINDOW_NS)));
    let spans: Vec<(u64, u64)> =
        before.chain(windows(from, to)).chain(windows(to, to.saturating_add(margin))).collect();
    let cpus = timeline.samples.iter().map(|sample| sample.steal_by_cpu.len()).min().unwrap_or(0);
    let of = |cpu: usize| -> Vec<u64> {
        let at = |moment| timeline.value_at(moment, |sample| sample.steal_by_cpu[cpu]);
        // The kernel's counter may decrease (proc_stat(5)).
        spans.iter().map(|&(from, to)| at(to).saturating_sub(at(from))).collect()
    };
    let ns_by_cpu: BTreeMap<u32, Vec<u64>> = (0..cpus)
        .map(|cpu| (cpu as u32, of(cpu)))
        .filter(|(_, taken)| taken.iter().any(|&taken| taken > 0))
        .collect();
    Stolen { before: MARGIN, after: MARGIN, ns_by_cpu }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "whole windows, as many more are. {} second on each side of the measured time" word(MARGIN / 10);
}

#[cfg(test)]
mod tests {
    use super::super::{HostTimes, Sample};
    use super::*;

    const MS: u64 = 1_000_000;

    /// Builds the samples of two CPUs. Each element of `looks` contains the time of one sample, and the total
    /// steal of each CPU until this time. All values are in ms.
    fn timeline(looks: &[(u64, [u64; 2])]) -> Timeline {
        let sample = |&(at_ms, stolen): &(u64, [u64; 2])| Sample {
            at_ns: at_ms * MS,
            host: HostTimes::default(),
            steal_by_cpu: stolen.map(|stolen| stolen * MS).to_vec(),
            own_ns: 0,
            trees: Vec::new(),
        };
        Timeline { samples: looks.iter().map(sample).collect() }
    }

    #[test]
    fn each_cpu_with_steal_has_its_own_list() {
        let timeline = timeline(&[
            (2000, [0, 70]),
            (2100, [0, 70]),
            (2200, [10, 70]),
            (2300, [40, 70]),
            (2400, [40, 70]),
        ]);
        let stolen = stolen(&timeline, 2000 * MS, 2300 * MS);
        assert_eq!((stolen.before, stolen.after), (MARGIN, MARGIN));
        assert_eq!(stolen.ns_by_cpu.keys().copied().collect::<Vec<_>>(), [0]);
        let list = &stolen.ns_by_cpu[&0];
        assert_eq!(list.len(), 2 * MARGIN as usize + 3);
        assert_eq!(list[10..13], [0, 10 * MS, 30 * MS]);
        assert_eq!(list.iter().sum::<u64>(), 40 * MS);
    }

    #[test]
    fn steal_around_the_measured_time_is_reported_too() {
        let looks = [(1800, [0, 0]), (1900, [50, 0]), (2000, [50, 0]), (2150, [50, 0]), (2250, [50, 90])];
        let stolen = stolen(&timeline(&looks), 2000 * MS, 2150 * MS);
        // The measured time contains two windows; the second one is half as long.
        assert_eq!(stolen.ns_by_cpu[&0][8..12], [50 * MS, 0, 0, 0]);
        assert_eq!(stolen.ns_by_cpu[&1][10..14], [0, 0, 90 * MS, 0]);
    }

    #[test]
    fn decreasing_counts_and_vanished_cpus_give_no_steal() {
        let mut timeline = timeline(&[(0, [90, 5]), (100, [20, 5]), (200, [20, 95])]);
        timeline.samples[2].steal_by_cpu.truncate(1);
        assert_eq!(stolen(&timeline, 0, 200 * MS).ns_by_cpu, BTreeMap::new());
    }

    #[test]
    fn agrees_with_the_share_of_all_cpus_on_this_machine() {
        let (total, by_cpu) = HostTimes::now_with_steal();
        assert!(!by_cpu.is_empty(), "a machine has CPUs");
        // The count of each CPU is rounded down to whole ticks. The total is rounded only once.
        let tick = 1_000_000_000 / procfs::ticks_per_second();
        let sum: u64 = by_cpu.iter().sum();
        assert!(
            sum <= total.steal && total.steal - sum <= tick * by_cpu.len() as u64,
            "{total:?} {by_cpu:?}"
        );
    }
}
