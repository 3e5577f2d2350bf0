//! The threads of a process tree: the CPU time of each thread, and the CPUs that busy threads may use.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// A thread that used less than this share of the busiest thread's CPU time is a helper, not a worker.
/// Helpers wait for timers, write logs or start other threads. Workers of one gateway rarely differ by more
/// than a factor of two.
const HELPER: f64 = 0.25;
/// A thread that ran for less than this share of the time is not a worker, even if all other threads were
/// idle.
const IDLE: f64 = 0.02;

/// If a tree has at most this number of threads, its threads are included in every sample. This is needed for
/// threads that end as soon as the measured time ends, such as the generator's threads. A sample takes about
/// 5 µs per thread, so this costs at most 0.1 % of a CPU.
const FEW: usize = 16;

/// Activity of a tree's threads between two samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Threads {
    /// Number of threads that were busy.
    pub busy: u32,
    /// CPUs that the busy threads may use. If no thread was busy, these are the CPUs that any thread may use.
    pub cpus_allowed: Vec<u32>,
    /// How long threads were ready to run but waited for a CPU, nanoseconds. This is the sum over all
    /// threads.
    pub waiting_ns: u64,
}

/// Times of one thread so far, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Times {
    on_cpu: u64,
    waiting: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ThreadTimes {
    at_ns: u64,
    by_thread: BTreeMap<i32, Times>,
}

impl ThreadTimes {
    pub(super) fn now(at_ns: u64, processes: &BTreeSet<i32>) -> Self {
        let threads = processes.iter().flat_map(|&pid| threads_of(pid));
        Self { at_ns, by_thread: threads.filter_map(|(pid, tid)| Some((tid, times_of(pid, tid)?))).collect() }
    }

    /// Whether the tree has so few threads that every sample includes them.
    pub(super) fn are_few(&self) -> bool {
        self.by_thread.len() <= FEW
    }

    /// Adds a later sample. Threads that have ended meanwhile keep their times.
    pub(super) fn update(&mut self, later: Self) {
        self.at_ns = later.at_ns;
        self.by_thread.extend(later.by_thread);
    }

    pub(super) fn affinities(&self) -> BTreeMap<i32, Vec<u32>> {
        self.by_thread.keys().map(|&tid| (tid, affinity(tid))).collect()
    }

    /// Times of each thread since `before`. If a thread started after `before`, these are all of its times.
    fn since(&self, before: &Self) -> BTreeMap<i32, Times> {
        let used = |(&tid, now): (&i32, &Times)| {
            let then = before.by_thread.get(&tid).copied().unwrap_or_default();
            let times = Times {
                on_cpu: now.on_cpu.saturating_sub(then.on_cpu),
                waiting: now.waiting.saturating_sub(then.waiting),
            };
            (tid, times)
        };
        self.by_thread.iter().map(used).collect()
    }
}

/// Counts the threads that were busy between two samples, and finds the CPUs that they may use. `affinity`
/// returns the CPUs of a thread.
pub(super) fn between(
    before: &ThreadTimes,
    after: &ThreadTimes,
    affinity: impl Fn(i32) -> Vec<u32>,
) -> Threads {
    let used = after.since(before);
    let elapsed = after.at_ns.saturating_sub(before.at_ns);
    let busiest = used.values().map(|times| times.on_cpu).max().unwrap_or(0);
    let least = (busiest as f64 * HELPER).max(elapsed as f64 * IDLE);
    let works = |times: &Times| times.on_cpu > 0 && times.on_cpu as f64 >= least;
    let worked: Vec<i32> = used.iter().filter(|(_, times)| works(times)).map(|(&tid, _)| tid).collect();
    let waiting_ns = used.values().map(|times| times.waiting).sum();
    let looked_at: Vec<i32> = if worked.is_empty() { used.keys().copied().collect() } else { worked.clone() };
    let cpus: BTreeSet<u32> = looked_at.into_iter().flat_map(affinity).collect();
    Threads { busy: worked.len() as u32, cpus_allowed: cpus.into_iter().collect(), waiting_ns }
}

/// CPUs that a thread may use; empty if the thread has ended.
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

/// Reads the first two fields of `schedstat`: nanoseconds on a CPU, and nanoseconds in a CPU's queue
/// (Documentation/scheduler/sched-stats.rst).
fn times_of(pid: i32, tid: i32) -> Option<Times> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let mut fields = text.split(' ').map(|field| field.parse().ok());
    Some(Times { on_cpu: fields.next()??, waiting: fields.next()?? })
}

#[cfg(test)]
hoptax_pages::stated! {
    FINDINGS "on a CPU for at least {} of the measured time" percent(IDLE);
    FINDINGS "at least {} of the time of the role's busiest thread" fraction(HELPER);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(at_ns: u64, threads: &[(i32, u64)]) -> ThreadTimes {
        // Each thread waited for a tenth of the time for which it ran.
        let times = |&(tid, ns): &(i32, u64)| (tid, Times { on_cpu: ns, waiting: ns / 10 });
        ThreadTimes { at_ns, by_thread: threads.iter().map(times).collect() }
    }

    #[test]
    fn helpers_are_not_counted_as_workers() {
        let before = times(0, &[(1, 500), (2, 0), (3, 0)]);
        // The first thread was busy earlier, but has hardly run since `before`. The fourth thread is new.
        let after = times(10_000, &[(1, 600), (2, 8_000), (3, 2_100), (4, 1_900)]);
        let threads = between(&before, &after, |tid| vec![tid as u32, 9]);
        assert_eq!(
            threads,
            Threads { busy: 2, cpus_allowed: vec![2, 3, 9], waiting_ns: 10 + 800 + 210 + 190 }
        );
    }

    #[test]
    fn threads_that_have_ended_keep_their_times() {
        let mut latest = times(0, &[(1, 0), (2, 0)]);
        latest.update(times(5_000, &[(1, 100), (2, 4_000)]));
        latest.update(times(10_000, &[(1, 200)]));
        let threads = between(&times(0, &[(1, 0), (2, 0)]), &latest, |tid| vec![tid as u32]);
        assert_eq!(threads, Threads { busy: 1, cpus_allowed: vec![2], waiting_ns: 420 });
    }

    #[test]
    fn if_no_thread_was_busy_the_cpus_of_all_count() {
        let after = times(10_000, &[(1, 100), (2, 0)]);
        let threads = between(&times(0, &[]), &after, |tid| vec![tid as u32]);
        assert_eq!(threads, Threads { busy: 0, cpus_allowed: vec![1, 2], waiting_ns: 10 });
    }

    #[test]
    fn this_process_has_threads_and_cpus() {
        let pid = std::process::id() as i32;
        let times = ThreadTimes::now(1, &BTreeSet::from([pid]));
        assert!(times.by_thread.contains_key(&pid), "{times:?}");
        assert_eq!(affinity(pid), crate::cpus::allowed().expect("known"));
        assert!(affinity(i32::MAX).is_empty(), "nobody has that number");
    }
}
