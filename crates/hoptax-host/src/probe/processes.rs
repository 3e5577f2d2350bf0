//! All processes of the host, from one reading of `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

/// Number of processes that are read at once. Then the reading thread sleeps. Without pauses, it would keep a
/// role from its CPU for some milliseconds, and recorded switches showed it among the causes of slow
/// requests.
const AT_ONCE: usize = 16;

/// Time that the reading sleeps.
const REST: Duration = Duration::from_micros(100);

/// All processes of the host at one moment, by process id.
#[derive(Debug, Clone, Default)]
pub struct Processes(BTreeMap<i32, Listed>);

#[derive(Debug, Clone, Default)]
struct Listed {
    parent: i32,
    /// Name of the command, at most 15 bytes (proc_pid_comm(5)).
    name: String,
    /// CPU time so far, in ticks of the kernel.
    ticks: u64,
    /// CPU time of the process's children that have ended, in ticks.
    of_ended: u64,
}

/// CPU time that other processes used between two readings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Others {
    /// CPU time of all these processes together, nanoseconds.
    pub cpu_ns: u64,
    /// Name and CPU time, in nanoseconds, of the process that used most. `None` if no process used a whole
    /// tick.
    pub busiest: Option<(String, u64)>,
}

impl Processes {
    /// Reads the processes now. The reading takes some milliseconds if there are hundreds of processes.
    pub fn now() -> Self {
        let all = procfs::process::all_processes().into_iter().flatten().flatten();
        let rested = all.enumerate().map(|(index, process)| {
            if index % AT_ONCE == AT_ONCE - 1 {
                thread::sleep(REST);
            }
            process
        });
        let listed = rested.filter_map(|process| process.stat().ok()).map(|stat| {
            let ticks = stat.utime + stat.stime;
            let of_ended = u64::try_from(stat.cutime + stat.cstime).unwrap_or(0);
            (stat.pid, Listed { parent: stat.ppid, name: stat.comm, ticks, of_ended })
        });
        Self(listed.collect())
    }

    /// All descendants of `root`, without `root` itself.
    pub(super) fn descendants(&self, root: i32) -> BTreeSet<i32> {
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for (pid, listed) in &self.0 {
            children.entry(listed.parent).or_default().push(*pid);
        }
        let mut found = BTreeSet::new();
        let mut to_visit = vec![root];
        while let Some(parent) = to_visit.pop() {
            to_visit
                .extend(children.get(&parent).into_iter().flatten().filter(|&&child| found.insert(child)));
        }
        found
    }

    /// CPU time that all processes except `ours` used since `before`. The time of a process that began and
    /// ended in between is included, because the kernel adds it to the time of its parent's ended children.
    pub(super) fn others_since(&self, before: &Self, ours: &BTreeSet<i32>) -> Others {
        let tick_ns = hoptax_format::clock::SECOND / procfs::ticks_per_second();
        let none = Listed::default();
        let mut ticks = 0;
        let mut most = (0, None);
        for (pid, listed) in self.0.iter().filter(|(pid, _)| !ours.contains(pid)) {
            let earlier = before.0.get(pid).unwrap_or(&none);
            let used = listed.ticks.saturating_sub(earlier.ticks);
            ticks += used + listed.of_ended.saturating_sub(earlier.of_ended);
            if used > most.0 {
                most = (used, Some(&listed.name));
            }
        }
        Others { cpu_ns: ticks * tick_ns, busiest: most.1.map(|name| (name.clone(), most.0 * tick_ns)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes(listed: &[(i32, i32, &str, u64)]) -> Processes {
        let one = |&(pid, parent, name, ticks): &(i32, i32, &str, u64)| {
            (pid, Listed { parent, name: name.into(), ticks, of_ended: 0 })
        };
        Processes(listed.iter().map(one).collect())
    }

    #[test]
    fn descendants_exclude_the_root_and_other_processes() {
        let all = [(2, 1, "a", 0), (9, 1, "b", 0), (3, 2, "c", 0), (4, 2, "d", 0), (5, 4, "e", 0)];
        assert_eq!(processes(&all).descendants(2), BTreeSet::from([3, 4, 5]));
    }

    #[test]
    fn names_the_busiest_process_outside_of_the_run() {
        let before = processes(&[(2, 1, "nginx", 10), (3, 1, "cargo", 100)]);
        let after = processes(&[(2, 1, "nginx", 90), (3, 1, "cargo", 120), (4, 3, "rustc", 30)]);
        let ours = BTreeSet::from([2]);
        let others = after.others_since(&before, &ours);
        assert_eq!(others, Others { cpu_ns: 500_000_000, busiest: Some(("rustc".into(), 300_000_000)) });
        assert_eq!(before.others_since(&before, &ours), Others::default());
    }

    #[test]
    fn a_process_that_began_and_ended_in_between_counts_through_its_parent() {
        let before = processes(&[(3, 1, "make", 5)]);
        let mut after = before.clone();
        after.0.get_mut(&3).expect("listed").of_ended = 40;
        let others = after.others_since(&before, &BTreeSet::new());
        assert_eq!(others, Others { cpu_ns: 400_000_000, busiest: None });
    }

    #[test]
    fn lists_this_process() {
        let own = std::process::id() as i32;
        assert!(Processes::now().0.contains_key(&own));
    }
}
