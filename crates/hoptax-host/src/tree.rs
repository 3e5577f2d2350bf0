//! Process trees, from `/proc`.

use procfs::process::{Stat, all_processes};
use std::collections::{BTreeMap, BTreeSet};

/// Every living descendant of `root`, without `root` itself. Zombies are left out.
///
/// Reading `/proc` is not atomic: if a process forks meanwhile, its child may only appear in the next call.
/// To stop all descendants, repeat the call until none is left.
pub fn descendants(root: u32) -> BTreeSet<u32> {
    // If the first thread of a process has ended, the process looks like a zombie, although other threads may
    // still run.
    let alive = |stat: &Stat| !matches!(stat.state, 'Z' | 'X') || stat.num_threads > 1;
    below(root).iter().filter(|stat| alive(stat)).map(|stat| stat.pid.cast_unsigned()).collect()
}

/// Whether this process still runs. A zombie does not.
pub fn is_alive(pid: u32) -> bool {
    let stat = procfs::process::Process::new(pid.cast_signed()).and_then(|process| process.stat());
    stat.is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X') || stat.num_threads > 1)
}

/// Whether both processes run the same program file. True if this cannot be found out, because they belong to
/// another user.
pub fn same_program(one: u32, other: u32) -> bool {
    let program = |pid: u32| procfs::process::Process::new(pid.cast_signed())?.exe();
    match (program(one), program(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => true,
    }
}

/// The session that the oldest child of `parent` leads; `None` if this child does not lead a session.
pub fn session_below(parent: u32) -> Option<u32> {
    let below = below(parent);
    let children = below.iter().filter(|stat| stat.ppid.cast_unsigned() == parent);
    let oldest = children.min_by_key(|stat| (stat.starttime, stat.pid))?;
    (oldest.session == oldest.pid).then_some(oldest.pid.cast_unsigned())
}

/// The descendants of `root` that belong to `session`, including zombies.
pub fn of_session(session: u32, root: u32) -> BTreeSet<u32> {
    let below = below(root);
    let members = below.iter().filter(|stat| stat.session.cast_unsigned() == session);
    members.map(|stat| stat.pid.cast_unsigned()).collect()
}

/// All descendants of `root`, without `root` itself.
fn below(root: u32) -> Vec<Stat> {
    let mut children: BTreeMap<u32, Vec<Stat>> = BTreeMap::new();
    for process in all_processes().into_iter().flatten().flatten() {
        // Processes that end meanwhile are skipped.
        if let Ok(stat) = process.stat() {
            children.entry(stat.ppid.cast_unsigned()).or_default().push(stat);
        }
    }
    let mut found = Vec::new();
    let mut pending = vec![root];
    while let Some(parent) = pending.pop() {
        let of_parent = children.remove(&parent).unwrap_or_default();
        pending.extend(of_parent.iter().map(|stat| stat.pid.cast_unsigned()));
        found.extend(of_parent);
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

        let same = [shell.id(), std::process::id()].map(|other| same_program(shell.id(), other));

        for &pid in &found {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a pid above zero");
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        shell.kill().expect("ours to kill");
        shell.wait().expect("ours to reap");
        assert!(found.contains(&sleeper), "{sleeper} in {found:?}");
        assert_eq!(same, [true, false]);
        assert_eq!(found.len(), 2, "the inner shell and its sleep");
        assert!(!found.contains(&shell.id()));
        assert!(of_this_process.is_superset(&found));
    }
}
