//! Maps with the names of generated code: `/tmp/perf-PID.map`. Runtimes write them, and do not remove them.
//! Another process can get the same PID later, and its code would then have wrong names.

use hoptax_record::bounded;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The directory in which perf looks for maps.
const DIRECTORY: &str = "/tmp";

/// Inaccuracy of the time at which a process started. The kernel counts it in ticks of 10 ms.
const INACCURACY: Duration = Duration::from_secs(1);

/// Largest map that is read, in bytes. V8's names have 100 bytes on average, so this is enough for more than
/// a million functions.
const LARGEST: u64 = 128 << 20;

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

/// The names of a process's generated code, by address.
///
/// perf can read the same map, but it may report the name of a function that was removed long ago. Runtimes
/// reuse the memory of removed functions. V8 adds a line for each new function, and perf does not know which
/// line is the last one.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// First address → first address after it, and the name. Functions do not overlap.
    functions: BTreeMap<u64, (u64, String)>,
}

impl Names {
    /// Reads the map of a process. Absent if there is no map, or if the map is older than the process. An
    /// older map has the names of another process.
    pub(crate) fn read(pid: u32) -> Option<Self> {
        Self::read_in(Path::new(DIRECTORY), pid)
    }

    fn read_in(directory: &Path, pid: u32) -> Option<Self> {
        if is_stale_in(directory, pid)? {
            return None;
        }
        Some(Self::parse(&bounded::read(&path(directory, pid), LARGEST).ok()?))
    }

    /// Reads lines `ADDRESS LENGTH NAME`, both numbers in hexadecimal. Skips all other lines, for example one
    /// that is still being written.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let mut names = Self::default();
        for line in String::from_utf8_lossy(text).lines() {
            let number = |digits: &str| u64::from_str_radix(digits.trim_start_matches("0x"), 16).ok();
            let mut words = line.splitn(3, ' ');
            let mut next = || words.next();
            let (Some(start), Some(length)) = (next().and_then(number), next().and_then(number)) else {
                continue;
            };
            if let (Some(name), Some(end)) = (next(), start.checked_add(length)) {
                names.insert(start, end, name);
            }
        }
        names
    }

    /// Adds a function in place of all functions that had this memory before.
    fn insert(&mut self, start: u64, end: u64, name: &str) {
        let overlap = |names: &Self| {
            let (before, (until, _)) = names.functions.range(..end).next_back()?;
            (*until > start).then_some(*before)
        };
        while let Some(older) = overlap(self) {
            self.functions.remove(&older);
        }
        if end > start {
            self.functions.insert(start, (end, name.to_owned()));
        }
    }

    /// The function at this address.
    pub(crate) fn at(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.functions.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }
}

/// Whether the map of this process is older than the process. Absent if the process has ended or has no map.
fn is_stale_in(directory: &Path, pid: u32) -> Option<bool> {
    let written = path(directory, pid).metadata().ok()?.modified().ok()?;
    Some(written + INACCURACY < started(pid)?)
}

fn path(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("perf-{pid}.map"))
}

fn started(pid: u32) -> Option<SystemTime> {
    let ticks = procfs::process::Process::new(pid.cast_signed()).ok()?.stat().ok()?.starttime;
    // Containers may show an uptime of their own in /proc/uptime, but the start is counted from the boot.
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let up = up.tv_sec as f64 + up.tv_nsec as f64 / 1e9;
    let age = up - ticks as f64 / procfs::ticks_per_second() as f64;
    SystemTime::now().checked_sub(Duration::try_from_secs_f64(age.max(0.0)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_function_at_an_address_has_its_name() {
        let names = Names::parse(
            b"1000 100 JS:~start.js:1:1\n1100 80 JS:~other\nbroken\n2000 10 a b (c)\n1080 90 JS:*handle\n30",
        );
        assert_eq!(names.at(0x1080), Some("JS:*handle"));
        assert_eq!(names.at(0x110f), Some("JS:*handle"));
        assert_eq!(names.at(0x1110), None, "the functions before it are gone");
        assert_eq!(names.at(0x1000), None, "the same");
        assert_eq!(names.at(0x2005), Some("a b (c)"));
        assert_eq!((names.at(0), names.at(0x2010), names.functions.len()), (None, None, 2));
    }

    #[test]
    fn maps_of_earlier_processes_are_not_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let pid = std::process::id();
        assert!(Names::read_in(directory.path(), pid).is_none(), "no map");
        let map = path(directory.path(), pid);
        std::fs::write(&map, "10 10 f\n").expect("written");
        assert_eq!(Names::read_in(directory.path(), pid).expect("a map").at(0x10), Some("f"));
        let map = std::fs::File::options().append(true).open(map).expect("it is there");
        map.set_modified(SystemTime::now() - Duration::from_secs(1_000_000)).expect("changed");
        assert!(Names::read_in(directory.path(), pid).is_none(), "older than the process");
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
