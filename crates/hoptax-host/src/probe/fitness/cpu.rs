//! CPUs: how many, whether they can be given away, how fast they run, and what they share.

use super::host::Host;
use super::item::{doubt, good, unknown};
use crate::cpus;
use hoptax_record::{Fitness, FitnessStatus};
use std::collections::BTreeSet;

/// With fewer, `cpus: auto` pins nothing: the roles cannot be kept apart.
const APART: usize = 4;
/// With fewer, generator and gateway never run at the same moment.
const BOTH: usize = 2;

/// CPUs that may be used, and whether a thread may be given some of them.
pub(super) fn ask() -> (Vec<u32>, bool) {
    let set = rustix::thread::sched_getaffinity(None).ok();
    // The same CPUs as before: whether it is permitted is all that is asked.
    let can_pin = set.is_some_and(|set| rustix::thread::sched_setaffinity(None, &set).is_ok());
    (cpus::allowed().unwrap_or_default(), can_pin)
}

pub(super) fn cpus(host: &Host) -> Fitness {
    let count = host.allowed.len();
    let online = host.text("sys/devices/system/cpu/online").and_then(|list| cpus::parse_list(&list));
    let seen = match online.map(|online| online.len()) {
        Some(online) if online > count => format!("{count} of {online}"),
        _ => count.to_string(),
    };
    let (status, what) = match count {
        0 => return unknown("cpus", "The kernel does not tell which CPUs may be used."),
        _ if count < BOTH => (FitnessStatus::Bad, "Generator, gateway and upstream take turns on one CPU."),
        _ if count < APART => {
            (FitnessStatus::Warning, "Generator, gateway and upstream cannot each have CPUs of their own.")
        }
        _ => return good("cpus", seen),
    };
    let message =
        format!("{what} What one of them uses the others lack, and tax shows up as more than it is.");
    doubt("cpus", status, seen, message, "Use a machine with 4 CPUs or more, or stay well below saturation.")
}

pub(super) fn pinning(host: &Host) -> Fitness {
    if host.can_pin {
        return good("pinning", "possible");
    }
    let message = "Threads cannot be given CPUs of their own, so that the kernel moves them about.";
    let advice = "Allow the system call sched_setaffinity: it is a container's profile that forbids it.";
    doubt("pinning", FitnessStatus::Warning, "forbidden", message, advice)
}

/// The least of the CPU limits of this process's control groups.
pub(super) fn limit(host: &Host) -> Fitness {
    const NAME: &str = "cpu-limit";
    let Some(limit) = limit_of(host) else { return good(NAME, "none") };
    let seen = format!("{} CPUs", (limit * 100.0).round() / 100.0);
    let count = host.allowed.len() as f64;
    if limit >= count {
        return good(NAME, seen);
    }
    // Below the two that one generator and one gateway keep busy, it strikes in every trial that has load.
    let status = if limit < BOTH as f64 { FitnessStatus::Bad } else { FitnessStatus::Warning };
    let message =
        "Whoever has used up its share stands still for the rest of each 100 ms, and requests with it.";
    doubt(
        NAME,
        status,
        seen,
        message,
        "Run without a CPU limit, or with as many CPUs as the limit has (cpuset).",
    )
}

fn limit_of(host: &Host) -> Option<f64> {
    let groups = host.text("proc/self/cgroup")?;
    let limits = groups.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next().unwrap_or(""), fields.next().unwrap_or("/"));
        let old = controllers.split(',').any(|name| name == "cpu");
        let root = match (old, controllers.is_empty()) {
            (true, _) => Some("sys/fs/cgroup/cpu"),
            (false, true) => Some("sys/fs/cgroup"),
            (false, false) => None,
        };
        root.into_iter().flat_map(move |root| above(path).map(move |path| (old, format!("{root}{path}"))))
    });
    limits.filter_map(|(old, directory)| group_limit(host, old, &directory)).min_by(f64::total_cmp)
}

/// `/a/b`, `/a` and the root: a limit holds for everything below it.
fn above(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path.trim_end_matches('/')), |path| path.rfind('/').map(|end| &path[..end]))
}

/// CPUs of one group: version 1 has quota and period in files of their own, version 2 in one.
fn group_limit(host: &Host, old: bool, directory: &str) -> Option<f64> {
    if old {
        // -1 is no limit.
        let quota = host.number(&format!("{directory}/cpu.cfs_quota_us"))?;
        return Some(quota as f64 / host.number(&format!("{directory}/cpu.cfs_period_us"))? as f64);
    }
    let text = host.text(&format!("{directory}/cpu.max"))?;
    let (quota, period) = text.split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

pub(super) fn governor(host: &Host) -> Fitness {
    let path = |cpu: &u32| format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
    let found: BTreeSet<String> = host.allowed.iter().filter_map(|cpu| host.text(&path(cpu))).collect();
    if found.is_empty() {
        return unknown(
            "governor",
            "No governor of the CPUs' frequency is shown here; a virtual machine's is set by its hypervisor.",
        );
    }
    let seen = found.iter().cloned().collect::<Vec<_>>().join(", ");
    if found.iter().all(|governor| governor == "performance") {
        return good("governor", seen);
    }
    let message =
        "CPUs slow down where there is little to do, so that a gateway looks worse under little load.";
    let advice = "sudo cpupower frequency-set -g performance";
    doubt("governor", FitnessStatus::Warning, seen, message, advice)
}

pub(super) fn turbo(host: &Host) -> Fitness {
    let intel =
        host.number("sys/devices/system/cpu/intel_pstate/no_turbo").map(|off| (off == 0, "no_turbo", 1));
    let others = host.number("sys/devices/system/cpu/cpufreq/boost").map(|on| (on == 1, "boost", 0));
    let Some((on, file, off)) = intel.or(others) else {
        return unknown("turbo", "Whether CPUs speed up beyond their rated frequency is not shown here.");
    };
    if !on {
        return good("turbo", "off");
    }
    let folder = if file == "boost" { "cpufreq" } else { "intel_pstate" };
    let message =
        "How fast a CPU runs hangs on its warmth and on what the others do, which differs between trials.";
    let advice = format!("echo {off} | sudo tee /sys/devices/system/cpu/{folder}/{file}");
    doubt("turbo", FitnessStatus::Warning, "on", message, advice)
}

pub(super) fn smt(host: &Host) -> Fitness {
    let siblings = |cpu: &u32| {
        let list = host.text(&format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))?;
        cpus::parse_list(&list)
    };
    let pairs: Option<Vec<Vec<u32>>> = host.allowed.iter().map(siblings).collect();
    let Some(groups) = pairs.filter(|groups| !groups.is_empty()) else {
        return unknown("smt", "Which CPUs share a core is not shown here.");
    };
    let usable = |group: &Vec<u32>| group.iter().filter(|cpu| host.allowed.contains(cpu)).count();
    let shared = groups.iter().filter(|group| usable(group) > 1).count();
    if shared == 0 {
        return good("smt", "each CPU a core of its own");
    }
    let message = "Two CPUs of one core slow each other down: a busy generator then costs the gateway speed.";
    let advice = "Pin roles so that none share a core (`cpus` in the plan), or echo off | sudo tee \
                  /sys/devices/system/cpu/smt/control";
    doubt("smt", FitnessStatus::Warning, format!("{shared} CPUs share cores"), message, advice)
}
