//! The threads of a process tree: how much CPU time each used, and on which CPUs those that work may run.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// A thread that used less than this share of what the busiest one of its role did is a helper: it waits for timers, writes
/// logs, starts others. Workers of one gateway rarely differ by more than a factor of two.
const HELPER: f64 = 0.25;
/// A thread that was on a CPU for less than this share of the time is no worker, however idle the others are.
const IDLE: f64 = 0.02;

/// Trees with at most so many threads are looked at every time, as their threads may end with the measured time (the
/// generator's do). A look costs some 5 µs per thread, so this is at most 0.1 % of a CPU.
const FEW: usize = 16;

/// What the threads of a tree did between two looks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Threads {
    /// Threads that worked.
    pub busy: u32,
    /// CPUs that those may run on; where none worked, those of all.
    pub cpus_allowed: Vec<u32>,
}

/// CPU time by thread at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ThreadTimes {
    at_ns: u64,
    on_cpu_ns: BTreeMap<i32, u64>,
}

impl ThreadTimes {
    /// The threads of these processes now.
    pub(super) fn now(at_ns: u64, processes: &BTreeSet<i32>) -> Self {
        let threads = processes.iter().flat_map(|&pid| threads_of(pid));
        Self { at_ns, on_cpu_ns: threads.filter_map(|(pid, tid)| Some((tid, on_cpu(pid, tid)?))).collect() }
    }

    /// Whether there are so few that they can be looked at every time.
    pub(super) fn are_few(&self) -> bool {
        self.on_cpu_ns.len() <= FEW
    }

    /// Takes over what a later look saw; threads that have ended since keep what they had.
    pub(super) fn update(&mut self, later: Self) {
        self.at_ns = later.at_ns;
        self.on_cpu_ns.extend(later.on_cpu_ns);
    }

    /// CPUs that each may run on now.
    pub(super) fn affinities(&self) -> BTreeMap<i32, Vec<u32>> {
        self.on_cpu_ns.keys().map(|&tid| (tid, affinity(tid))).collect()
    }

    /// What was used since `before`, by thread; a thread that is new used all that it has.
    fn since(&self, before: &Self) -> BTreeMap<i32, u64> {
        let used = |(&tid, &now): (&i32, &u64)| {
            (tid, now.saturating_sub(before.on_cpu_ns.get(&tid).copied().unwrap_or(0)))
        };
        self.on_cpu_ns.iter().map(used).collect()
    }
}

/// Which threads worked between two looks, and where they may run. `affinity` tells the CPUs of a thread.
pub(super) fn between(
    before: &ThreadTimes,
    after: &ThreadTimes,
    affinity: impl Fn(i32) -> Vec<u32>,
) -> Threads {
    let used = after.since(before);
    let elapsed = after.at_ns.saturating_sub(before.at_ns);
    let busiest = used.values().copied().max().unwrap_or(0);
    let least = (busiest as f64 * HELPER).max(elapsed as f64 * IDLE);
    let worked: Vec<i32> =
        used.iter().filter(|&(_, &ns)| ns > 0 && ns as f64 >= least).map(|(&tid, _)| tid).collect();
    let looked_at: Vec<i32> = if worked.is_empty() { used.keys().copied().collect() } else { worked.clone() };
    let cpus: BTreeSet<u32> = looked_at.into_iter().flat_map(affinity).collect();
    Threads { busy: worked.len() as u32, cpus_allowed: cpus.into_iter().collect() }
}

/// CPUs that a thread may run on; none where it has gone.
pub(super) fn affinity(tid: i32) -> Vec<u32> {
    let Some(set) = Pid::from_raw(tid).and_then(|tid| sched_getaffinity(Some(tid)).ok()) else {
        return Vec::new();
    };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect()
}

fn threads_of(pid: i32) -> Vec<(i32, i32)> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((pid, entry.file_name().to_str()?.parse().ok()?))).collect()
}

/// The first field of `schedstat`: time on a CPU, nanoseconds (Documentation/scheduler/sched-stats.rst).
fn on_cpu(pid: i32, tid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(at_ns: u64, threads: &[(i32, u64)]) -> ThreadTimes {
        ThreadTimes { at_ns, on_cpu_ns: threads.iter().copied().collect() }
    }

    #[test]
    fn helpers_are_no_workers() {
        let before = times(0, &[(1, 500), (2, 0), (3, 0)]);
        // The first did much before, but hardly anything since; the fourth is new.
        let after = times(10_000, &[(1, 600), (2, 8_000), (3, 2_100), (4, 1_900)]);
        let threads = between(&before, &after, |tid| vec![tid as u32, 9]);
        assert_eq!(threads, Threads { busy: 2, cpus_allowed: vec![2, 3, 9] });
    }

    #[test]
    fn threads_that_have_ended_keep_what_they_had() {
        let mut latest = times(0, &[(1, 0), (2, 0)]);
        latest.update(times(5_000, &[(1, 100), (2, 4_000)]));
        latest.update(times(10_000, &[(1, 200)]));
        let threads = between(&times(0, &[(1, 0), (2, 0)]), &latest, |tid| vec![tid as u32]);
        assert_eq!(threads, Threads { busy: 1, cpus_allowed: vec![2] });
    }

    #[test]
    fn where_none_worked_all_tell_where_they_may_run() {
        let after = times(10_000, &[(1, 100), (2, 0)]);
        let threads = between(&times(0, &[]), &after, |tid| vec![tid as u32]);
        assert_eq!(threads, Threads { busy: 0, cpus_allowed: vec![1, 2] });
    }

    #[test]
    fn this_process_has_threads_and_cpus() {
        let pid = std::process::id() as i32;
        let times = ThreadTimes::now(1, &BTreeSet::from([pid]));
        assert!(times.on_cpu_ns.contains_key(&pid), "{times:?}");
        assert_eq!(affinity(pid), crate::lab::cpus::allowed().expect("told"));
        assert!(affinity(i32::MAX).is_empty(), "nobody has that number");
    }
}
