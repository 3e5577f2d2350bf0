//! All processes of the host, from one reading of `/proc`.

use std::collections::{BTreeMap, BTreeSet};

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
}

impl Processes {
    /// Reads the processes now. The reading takes some milliseconds if there are hundreds of processes.
    pub fn now() -> Self {
        let all = procfs::process::all_processes().into_iter().flatten().flatten();
        let listed = all.filter_map(|process| process.stat().ok()).map(|stat| {
            let ticks = stat.utime + stat.stime;
            (stat.pid, Listed { parent: stat.ppid, name: stat.comm, ticks })
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

    /// The process that used the most CPU time since `before`, without those in `ours`: its name and its CPU time in
    /// nanoseconds. `None` if no other process used a whole tick.
    pub(super) fn busiest_since(&self, before: &Self, ours: &BTreeSet<i32>) -> Option<(String, u64)> {
        let used = |(pid, listed): (&i32, &Listed)| {
            let earlier = before.0.get(pid).map_or(0, |listed| listed.ticks);
            (listed.ticks.saturating_sub(earlier), *pid)
        };
        let (ticks, pid) = self.0.iter().filter(|(pid, _)| !ours.contains(pid)).map(used).max()?;
        let ns = ticks * (hoptax_load::clock::SECOND / procfs::ticks_per_second());
        (ticks > 0).then(|| (self.0[&pid].name.clone(), ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes(listed: &[(i32, i32, &str, u64)]) -> Processes {
        let one = |&(pid, parent, name, ticks): &(i32, i32, &str, u64)| {
            (pid, Listed { parent, name: name.into(), ticks })
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
        assert_eq!(after.busiest_since(&before, &ours), Some(("rustc".into(), 300_000_000)));
        assert_eq!(before.busiest_since(&before, &ours), None);
    }

    #[test]
    fn lists_this_process() {
        let own = std::process::id() as i32;
        assert!(Processes::now().0.contains_key(&own));
    }
}
