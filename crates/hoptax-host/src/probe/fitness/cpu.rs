//! Checks of CPUs: how many there are, whether threads can be pinned, how fast the CPUs run, and what they
//! share.

use super::host::Host;
use super::item::{doubt, good, unknown};
use crate::cpus;
use hoptax_record::{Fitness, FitnessStatus};
use std::collections::BTreeSet;

/// Name of the check of the number of CPUs. The check assumes that all roles are on one machine.
pub const CPUS: &str = "cpus";
/// Minimum number of CPUs for `cpus: auto` to pin the roles. With fewer CPUs the roles cannot be separated.
const APART: usize = 4;
/// Minimum number of CPUs for generator and gateway to run at the same moment.
const BOTH: usize = 2;

/// CPUs that this process may use, and whether it may pin threads.
pub(super) fn ask() -> (Vec<u32>, bool) {
    let set = rustix::thread::sched_getaffinity(None).ok();
    // Set the same CPUs again, only to test whether this process may pin threads.
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
        0 => return unknown(CPUS, "The kernel does not report which CPUs this process may use."),
        _ if count < BOTH => (FitnessStatus::Bad, "Generator, gateway and upstream share one CPU."),
        _ if count < APART => (
            FitnessStatus::Warning,
            "There are too few CPUs to give generator, gateway and upstream their own CPUs.",
        ),
        _ => return good(CPUS, seen),
    };
    let message = format!("{what} They take CPU time from each other, so the measured tax is too high.");
    doubt(CPUS, status, seen, message, "Use a machine with 4 CPUs or more, or stay well below saturation.")
}

pub(super) fn pinning(host: &Host) -> Fitness {
    if host.can_pin {
        return good("pinning", "possible");
    }
    let message = "Threads cannot be pinned to CPUs, so the kernel moves them between CPUs.";
    let advice = "Allow the system call sched_setaffinity. A container's security profile may forbid it.";
    doubt("pinning", FitnessStatus::Warning, "forbidden", message, advice)
}

pub(super) fn idle(host: &Host) -> Fitness {
    const NAME: &str = "idle-cpus";
    let Err(reason) = &host.can_poll else { return good(NAME, "can poll") };
    let message = format!(
        "Idle CPUs sleep during runs, because {reason}. Waking a CPU takes up to 150 µs on a virtual \
         machine, and trials differ in how often a request waits for it."
    );
    let advice = "Run hoptax as root on the machine itself, or let this user write /dev/cpu_dma_latency.";
    doubt(NAME, FitnessStatus::Warning, "sleep", message, advice)
}

/// Checks the lowest CPU limit among the control groups of this process.
pub(super) fn limit(host: &Host) -> Fitness {
    const NAME: &str = "cpu-limit";
    let Some(limit) = limit_of(host) else { return good(NAME, "none") };
    let seen = format!("{} CPUs", (limit * 100.0).round() / 100.0);
    let count = host.allowed.len() as f64;
    if limit >= count {
        return good(NAME, seen);
    }
    // A generator and a gateway keep two CPUs busy. A limit below two CPUs throttles every trial under load.
    let status = if limit < BOTH as f64 { FitnessStatus::Bad } else { FitnessStatus::Warning };
    let message = "A process that has used up its share is paused until the current period of 100 ms ends, \
                   and its requests wait.";
    doubt(
        NAME,
        status,
        seen,
        message,
        "Remove the CPU limit, or use a cpuset with the same number of CPUs instead.",
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

/// Yields the path and all paths above it: `/a/b`, `/a` and the root. All of them matter, because the limit
/// of a group applies to everything below the group.
fn above(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path.trim_end_matches('/')), |path| path.rfind('/').map(|end| &path[..end]))
}

/// CPU limit of one group, as a number of CPUs. cgroup version 1 has the quota and the period in two files,
/// and version 2 has both in one file.
fn group_limit(host: &Host, old: bool, directory: &str) -> Option<f64> {
    if old {
        // The value -1 means no limit.
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
            "No frequency governor is visible; on a virtual machine the hypervisor sets the frequency.",
        );
    }
    let seen = found.iter().cloned().collect::<Vec<_>>().join(", ");
    if found.iter().all(|governor| governor == "performance") {
        return good("governor", seen);
    }
    let message = "CPUs run slower at low load, so a gateway looks worse at low rates.";
    let advice = "sudo cpupower frequency-set -g performance";
    doubt("governor", FitnessStatus::Warning, seen, message, advice)
}

pub(super) fn turbo(host: &Host) -> Fitness {
    let intel =
        host.number("sys/devices/system/cpu/intel_pstate/no_turbo").map(|off| (off == 0, "no_turbo", 1));
    let others = host.number("sys/devices/system/cpu/cpufreq/boost").map(|on| (on == 1, "boost", 0));
    let Some((on, file, off)) = intel.or(others) else {
        return unknown("turbo", "This machine does not show whether CPUs run above their rated frequency.");
    };
    if !on {
        return good("turbo", "off");
    }
    let folder = if file == "boost" { "cpufreq" } else { "intel_pstate" };
    let message = "The speed of a CPU depends on its temperature and on the load of other CPUs, so it \
                   differs between trials.";
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
        return unknown("smt", "This machine does not show which CPUs share a core.");
    };
    let usable = |group: &Vec<u32>| group.iter().filter(|cpu| host.allowed.contains(cpu)).count();
    let shared = groups.iter().filter(|group| usable(group) > 1).count();
    if shared == 0 {
        return good("smt", "each CPU is a core of its own");
    }
    let message = "Two CPUs of one core slow each other down: a busy generator slows the gateway.";
    let advice = "Pin the roles so that no two roles share a core (`cpus` in the plan), or run: echo off | \
                  sudo tee /sys/devices/system/cpu/smt/control";
    doubt("smt", FitnessStatus::Warning, format!("{shared} CPUs share cores"), message, advice)
}
