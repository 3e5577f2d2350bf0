//! Reads how long the CPU limits of cgroups have throttled processes, from `cpu.stat` of cgroup versions 1
//! and 2.
//!
//! A process's own cgroup can have a limit. Every cgroup above it can also have a limit, such as the cgroup
//! of a container or of a slice. All visible cgroups are read. Version 2 reports `throttled_usec`, version 1
//! reports `throttled_time` in nanoseconds. Both values are sums over all CPUs
//! (Documentation/admin-guide/cgroup-v2.rst and Documentation/scheduler/sched-bwc.rst in the kernel's
//! sources).

use std::fs;
use std::path::{Path, PathBuf};

/// The directories where the cgroups that control CPU time are mounted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mounts {
    list: Vec<Mount>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    /// The cgroup that is mounted here. This is `/`, or another cgroup if that was bind-mounted into a
    /// container.
    root: String,
    place: PathBuf,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A cgroup with a CPU limit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limited {
    stat: PathBuf,
}

impl Mounts {
    /// Finds the mounts of this process; none if they cannot be read.
    pub fn find() -> Self {
        fs::read_to_string("/proc/self/mountinfo").map_or_else(|_| Self::default(), |text| Self::parse(&text))
    }

    /// Parses the text of `/proc/self/mountinfo`. Before ` - `, each line has the fields id, parent, device,
    /// root, mount point, and more. After ` - ` it has the fields type, source and options
    /// (proc_pid_mountinfo(5)).
    fn parse(mountinfo: &str) -> Self {
        let mount = |line: &str| {
            let (front, back) = line.split_once(" - ")?;
            let mut front = front.split(' ').skip(3);
            let (root, place) = (front.next()?.to_owned(), PathBuf::from(front.next()?));
            let mut back = back.split(' ');
            let version = match (back.next()?, back.nth(1)?) {
                ("cgroup2", _) => Version::Two,
                ("cgroup", options) if options.split(',').any(|option| option == "cpu") => Version::One,
                _ => return None,
            };
            Some(Mount { root, place, version })
        };
        Self { list: mountinfo.lines().filter_map(mount).collect() }
    }

    /// Returns all cgroups that contain process `pid` and have a CPU limit. A process belongs to its own
    /// cgroup and to every cgroup above this one.
    pub fn limits_of(&self, pid: i32) -> Vec<Limited> {
        let Ok(text) = fs::read_to_string(format!("/proc/{pid}/cgroup")) else { return Vec::new() };
        self.list.iter().flat_map(|mount| mount.limits(&text)).collect()
    }
}

impl Mount {
    fn limits(&self, cgroups: &str) -> Vec<Limited> {
        let Some(folder) = self.folder(cgroups) else { return Vec::new() };
        let visible = folder.ancestors().take_while(|above| above.starts_with(&self.place));
        visible
            .filter(|above| self.has_limit(above))
            .map(|above| Limited { stat: above.join("cpu.stat") })
            .collect()
    }

    /// The directory of a process's cgroup. `cgroups` is the text of `/proc/<pid>/cgroup`. Each of its lines
    /// has the form `number:controllers:path`.
    fn folder(&self, cgroups: &str) -> Option<PathBuf> {
        let mine = |line: &str| {
            let mut parts = line.splitn(3, ':');
            let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let fits = match self.version {
                Version::One => controllers.split(',').any(|name| name == "cpu"),
                Version::Two => number == "0" && controllers.is_empty(),
            };
            fits.then(|| path.to_owned())
        };
        let path = cgroups.lines().find_map(mine)?;
        let below = path.strip_prefix(self.root.trim_end_matches('/')).unwrap_or(&path);
        // A path outside the cgroup namespace (`/../…`) is not visible from here.
        let hidden = below.split('/').any(|part| part == "..");
        (!hidden).then(|| self.place.join(below.trim_start_matches('/')))
    }

    fn has_limit(&self, folder: &Path) -> bool {
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        match self.version {
            Version::One => read("cpu.cfs_quota_us").trim().parse::<i64>().is_ok_and(|quota| quota > 0),
            Version::Two => read("cpu.max").split_whitespace().next().is_some_and(|limit| limit != "max"),
        }
    }
}

impl Limited {
    /// Time for which the cgroup's processes have been throttled so far, in nanoseconds. This is the sum over
    /// all CPUs.
    pub fn throttled_ns(&self) -> Option<u64> {
        throttled_in(&fs::read_to_string(&self.stat).ok()?)
    }
}

fn throttled_in(stat: &str) -> Option<u64> {
    let value = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse::<u64>().ok()
    };
    value("throttled_time").or_else(|| Some(value("throttled_usec")? * 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                       32 31 0:29 / /cg/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                       33 31 0:30 / /cg/memory rw,relatime - cgroup cgroup rw,memory\n";

    #[test]
    fn only_the_cpu_controller_is_read() {
        let mounts = Mounts::parse(ONE);
        assert_eq!(mounts.list.len(), 1);
        let cgroups = "4:memory:/other\n1:cpu,cpuacct:/docker/abc\n0::/unified\n";
        assert_eq!(mounts.list[0].folder(cgroups), Some("/cg/cpu/docker/abc".into()));
        let two = Mounts::parse("40 31 0:40 / /cg2 rw - cgroup2 cgroup2 rw\n");
        assert_eq!(two.list[0].folder(cgroups), Some("/cg2/unified".into()));
        assert_eq!(two.list[0].folder("0::/../elsewhere\n"), None, "it lies outside of our namespace");
        let bound = Mounts::parse("40 31 0:40 /docker/abc /cg rw - cgroup cgroup rw,cpu\n");
        assert_eq!(bound.list[0].folder(cgroups), Some("/cg/".into()), "a container's own view");
    }

    #[test]
    fn limits_of_parent_groups_count() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().expect("below")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("pod/cpu.max", "50000 100000\n");
        write("pod/cpu.stat", "usage_usec 9\nnr_throttled 2\nthrottled_usec 1500\n");
        write("pod/container/cpu.max", "max 100000\n");
        let mounts =
            Mounts::parse(&format!("40 31 0:40 / {} rw - cgroup2 cgroup2 rw\n", directory.path().display()));
        let limits = mounts.list[0].limits("0::/pod/container\n");
        assert_eq!(limits.len(), 1, "the container has none, the pod has one: {limits:?}");
        assert_eq!(limits[0].throttled_ns(), Some(1_500_000));
        assert_eq!(mounts.list[0].limits("0::/elsewhere\n"), []);
    }

    #[test]
    fn both_units_are_converted_to_nanoseconds() {
        assert_eq!(throttled_in("nr_throttled 15\nthrottled_time 1154188420\n"), Some(1_154_188_420));
        assert_eq!(throttled_in("throttled_usec 7\n"), Some(7_000));
        assert_eq!(throttled_in("usage_usec 7\n"), None);
    }
}
