//! Process trees, as `/proc` tells them.

use procfs::process::all_processes;
use std::collections::{BTreeMap, BTreeSet};

/// Every living descendant of `root`, without `root` itself; processes that have ended but were not reaped (zombies)
/// are left out, as nothing can be done to them.
///
/// A look at `/proc` is not atomic: a process that forks meanwhile may show its child only at the next look. Who
/// must be sure asks again until nothing is left.
pub fn descendants(root: u32) -> BTreeSet<u32> {
    let mut children: BTreeMap<u32, Vec<(u32, bool)>> = BTreeMap::new();
    for process in all_processes().into_iter().flatten().flatten() {
        // A process that ends while it is looked at is simply not there.
        if let Ok(stat) = process.stat() {
            // Of a process whose first thread has ended while others run, that thread shows as a zombie.
            let alive = !matches!(stat.state, 'Z' | 'X') || stat.num_threads > 1;
            children.entry(stat.ppid.cast_unsigned()).or_default().push((stat.pid.cast_unsigned(), alive));
        }
    }
    let mut found = BTreeSet::new();
    let mut pending = vec![root];
    while let Some(parent) = pending.pop() {
        for &(pid, alive) in children.get(&parent).into_iter().flatten() {
            pending.push(pid);
            if alive {
                found.insert(pid);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn finds_children_and_grandchildren_and_not_itself() {
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'sleep 60 & echo $!; wait' & wait"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let mut line = String::new();
        BufReader::new(shell.stdout.take().expect("piped")).read_line(&mut line).expect("a pid is printed");
        let sleeper: u32 = line.trim().parse().expect("a pid");

        let found = descendants(shell.id());
        let of_this_process = descendants(std::process::id());

        for &pid in &found {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a pid above zero");
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        shell.kill().expect("ours to kill");
        shell.wait().expect("ours to reap");
        assert!(found.contains(&sleeper), "{sleeper} in {found:?}");
        assert_eq!(found.len(), 2, "the inner shell and its sleep");
        assert!(!found.contains(&shell.id()));
        assert!(of_this_process.is_superset(&found));
    }
}
