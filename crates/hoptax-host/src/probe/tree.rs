//! CPU time and memory of a process and all its descendants.

use super::generated_code::has_generated_code;
use super::threads::ThreadTimes;
use super::{Limited, Mounts, Processes, TreeSample};
use crate::Watched;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use procfs::process::Process;
use std::collections::{BTreeMap, BTreeSet};

/// A process tree that is sampled repeatedly.
///
/// CPU time comes from each process's own CPU clock (`clock_getcpuclockid(3)`). This clock counts
/// nanoseconds, includes threads that have ended, and needs no parsing. A process that has ended keeps the
/// CPU time of its last sample.
#[derive(Debug)]
pub struct Tree {
    watched: Watched,
    /// CPU time of every process that was ever a member of the tree.
    cpu_ns: BTreeMap<i32, u64>,
    alive: BTreeSet<i32>,
    mounts: Mounts,
    /// The cgroups with a CPU limit that contain processes of the tree.
    limits: BTreeSet<Limited>,
    /// True once a process had generated code.
    generates_code: bool,
}

impl Tree {
    /// Finds the members of the tree.
    pub fn new(watched: Watched, processes: &Processes) -> Self {
        let mut tree = Self {
            watched,
            cpu_ns: BTreeMap::new(),
            alive: BTreeSet::new(),
            mounts: Mounts::find(),
            limits: BTreeSet::new(),
            generates_code: false,
        };
        tree.rescan(processes);
        tree
    }

    /// Searches for new members of the tree.
    pub fn rescan(&mut self, processes: &Processes) {
        let root = self.watched.pid as i32;
        self.alive = processes.descendants(root);
        if self.watched.include_root {
            self.alive.insert(root);
        }
        // Most processes of a service share a cgroup, so this set remains small. A limit remains in the set
        // after its processes have ended. This is harmless, because the throttled time of such a limit no
        // longer grows.
        self.limits.extend(self.alive.iter().flat_map(|&pid| self.mounts.limits_of(pid)));
    }

    /// Every process that was ever a member. Members that have ended are included, because a process can end
    /// while a sample is taken, and its CPU time must not count as another program's.
    pub(super) fn members(&self) -> impl Iterator<Item = i32> {
        self.cpu_ns.keys().chain(&self.alive).copied()
    }

    /// The process ids of the members that were alive in the last sample.
    pub fn pids(&self) -> Vec<u32> {
        self.alive.iter().map(|pid| pid.cast_unsigned()).collect()
    }

    pub(super) fn threads(&self, at_ns: u64) -> ThreadTimes {
        ThreadTimes::now(at_ns, &self.alive)
    }

    /// CPU time and resident memory of the tree now.
    pub fn look(&mut self) -> TreeSample {
        let mut sample = TreeSample::default();
        self.alive.retain(|&pid| {
            let Some(cpu_ns) = cpu_time(pid) else { return false };
            self.cpu_ns.insert(pid, cpu_ns);
            sample.rss_bytes += resident(pid).unwrap_or(0);
            true
        });
        sample.cpu_ns = self.cpu_ns.values().sum();
        sample.processes = self.alive.len() as u32;
        // If limits are nested, the tightest limit throttles the processes. A sum over all limits would count
        // the same time twice.
        sample.throttled_ns = self.limits.iter().filter_map(Limited::throttled_ns).max();
        sample
    }

    /// Like [`look`](Self::look), but also reads what is expensive to read: the number of threads, the
    /// proportional memory, and whether there is generated code.
    pub fn look_closely(&mut self) -> TreeSample {
        let mut sample = self.look();
        for process in self.alive.iter().filter_map(|&pid| Process::new(pid).ok()) {
            sample.threads += process.stat().map_or(0, |stat| stat.num_threads as u32);
            if let Some(bytes) = proportional(&process) {
                *sample.pss_bytes.get_or_insert(0) += bytes;
            }
        }
        self.generates_code = self.generates_code || self.alive.iter().any(|&pid| has_generated_code(pid));
        sample.generates_code = self.generates_code;
        sample
    }
}

fn cpu_time(pid: i32) -> Option<u64> {
    let time = clock_gettime(clock_getcpuclockid(Pid::from_raw(pid)).ok()?).ok()?;
    Some(time.tv_sec() as u64 * hoptax_format::clock::SECOND + time.tv_nsec() as u64)
}

fn resident(pid: i32) -> Option<u64> {
    Some(Process::new(pid).ok()?.statm().ok()?.resident * procfs::page_size())
}

fn proportional(process: &Process) -> Option<u64> {
    let rollup = process.smaps_rollup().ok()?;
    rollup.memory_map_rollup.0.first()?.extension.map.get("Pss").copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn cpu_time_of_a_busy_child_is_counted() {
        // The command loops until its standard input closes, so that the test decides when it ends.
        let mut child = Command::new("sh")
            .args(["-c", "while :; do :; done & busy=$!; read line; kill $busy; wait"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("sh runs");
        let mut tree = Tree::new(Watched { pid: child.id(), include_root: true }, &Processes::now());
        let enough = 30 * hoptax_format::clock::MILLISECOND;
        let mut sample = TreeSample::default();
        for _ in 0..2_000 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            tree.rescan(&Processes::now());
            sample = tree.look_closely();
            if sample.cpu_ns > enough {
                break;
            }
        }
        drop(child.stdin.take());
        child.wait().expect("it ends");
        assert!(sample.cpu_ns > enough, "the loop's time belongs to the tree: {sample:?}");
        assert!(sample.rss_bytes > 100_000, "{sample:?}");
        assert!(sample.processes == 2 && sample.threads == 2, "{sample:?}");
        assert!(sample.pss_bytes.is_none_or(|pss| pss > 0 && pss <= sample.rss_bytes), "{sample:?}");
        let after = tree.look();
        assert!(after.cpu_ns >= sample.cpu_ns, "what has gone keeps what it used");
        assert_eq!(after.processes, 0);
        assert!(tree.members().any(|pid| pid == child.id() as i32), "what has gone was a member");
    }
}
