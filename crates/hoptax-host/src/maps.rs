//! Maps with the names of generated code: `/tmp/perf-PID.map`. Runtimes write them, perf reads them, and neither removes
//! them. Another process can get the same PID later, and its code would then have wrong names.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The directory in which perf looks for maps.
const DIRECTORY: &str = "/tmp";

/// Inaccuracy of the time at which a process started. The kernel counts it in ticks of 10 ms.
const INACCURACY: Duration = Duration::from_secs(1);

/// Removes the maps of processes that have ended. Errors are ignored, because most processes have no map.
pub(crate) fn remove(pids: impl IntoIterator<Item = u32>) {
    pids.into_iter().for_each(|pid| remove_in(Path::new(DIRECTORY), pid));
}

fn remove_in(directory: &Path, pid: u32) {
    // .NET also lists the libraries that it has loaded.
    for kind in ["perf", "perfinfo"] {
        let _ = std::fs::remove_file(directory.join(format!("{kind}-{pid}.map")));
    }
}

/// Whether the map of this process is older than the process. False if the process has ended or has no map.
pub(crate) fn is_stale(pid: u32) -> bool {
    is_stale_in(Path::new(DIRECTORY), pid).unwrap_or(false)
}

fn is_stale_in(directory: &Path, pid: u32) -> Option<bool> {
    let written = path(directory, pid).metadata().ok()?.modified().ok()?;
    Some(written + INACCURACY < started(pid)?)
}

fn path(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("perf-{pid}.map"))
}

fn started(pid: u32) -> Option<SystemTime> {
    let ticks = procfs::process::Process::new(pid.cast_signed()).ok()?.stat().ok()?.starttime;
    let up = std::fs::read_to_string("/proc/uptime").ok()?;
    let up: f64 = up.split_whitespace().next()?.parse().ok()?;
    let age = up - ticks as f64 / procfs::ticks_per_second() as f64;
    SystemTime::now().checked_sub(Duration::try_from_secs_f64(age.max(0.0)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_is_older_than_its_process_is_stale() {
        let directory = tempfile::tempdir().expect("a directory");
        let pid = std::process::id();
        assert_eq!(is_stale_in(directory.path(), pid), None, "no map");
        let map = std::fs::File::create(path(directory.path(), pid)).expect("written");
        assert_eq!(is_stale_in(directory.path(), pid), Some(false), "just written");
        map.set_modified(SystemTime::now() - Duration::from_secs(1_000_000)).expect("changed");
        assert_eq!(is_stale_in(directory.path(), pid), Some(true));
    }

    #[test]
    fn only_the_maps_of_a_process_are_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let names = ["perf-77.map", "perfinfo-77.map", "perf-770.map", "perf-77.data"];
        names.iter().for_each(|name| std::fs::write(directory.path().join(name), "").expect("written"));
        remove_in(directory.path(), 77);
        let exists = |name: &&str| directory.path().join(name).exists();
        assert_eq!(names.iter().map(exists).collect::<Vec<_>>(), [false, false, true, true]);
    }
}
