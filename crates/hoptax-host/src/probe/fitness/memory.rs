//! Checks of memory and disk.

use super::host::Host;
use super::item::{doubt, good, unknown};
use hoptax_record::{Fitness, FitnessStatus};
use std::path::Path;

const MIB: u64 = 1 << 20;

/// Bounds on the available memory, in bytes. The first bound is several times the memory that an upstream, a
/// generator with thousands of connections and a small gateway need together. Below the second bound, the
/// kernel begins to evict pages that are in use.
const AVAILABLE: (u64, u64) = (1024 * MIB, 256 * MIB);

/// Bound on the memory in swap, in bytes. Most machines with swap keep less than this in swap, and only pages
/// that are never needed again.
const SWAPPED: u64 = 64 * MIB;

/// Bounds on the free disk space, in bytes. A run with all its charts needs some MiB. Below the second bound,
/// the results of a run's last trials may not fit.
const DISK: (u64, u64) = (1024 * MIB, 64 * MIB);

/// Free bytes on the file system of `path`. The path need not exist yet.
pub(super) fn free_below(path: &Path) -> Option<u64> {
    let path = std::path::absolute(path).ok()?;
    let there = path.ancestors().find(|ancestor| ancestor.exists())?;
    let stat = rustix::fs::statvfs(there).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}

/// The value of a field of `/proc/meminfo`, in bytes.
fn meminfo(host: &Host, name: &str) -> Option<u64> {
    let text = host.text("proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

fn show(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 10 * 1024 * MIB => format!("{} GiB", bytes / (1024 * MIB)),
        _ if bytes >= 1024 * MIB => format!("{:.1} GiB", bytes as f64 / (1024 * MIB) as f64),
        _ => format!("{} MiB", bytes / MIB),
    }
}

fn least(bytes: u64, (warning, bad): (u64, u64)) -> Option<FitnessStatus> {
    match bytes {
        _ if bytes < bad => Some(FitnessStatus::Bad),
        _ if bytes < warning => Some(FitnessStatus::Warning),
        _ => None,
    }
}

pub(super) fn memory(host: &Host) -> Fitness {
    let (Some(free), Some(all)) = (meminfo(host, "MemAvailable"), meminfo(host, "MemTotal")) else {
        return unknown("memory", "The kernel does not report how much memory is free.");
    };
    let seen = format!("{} of {} available", show(free), show(all));
    let Some(status) = least(free, AVAILABLE) else { return good("memory", seen) };
    let message = "When memory runs short, the kernel pauses processes to reclaim memory, or kills them.";
    doubt("memory", status, seen, message, "Stop processes that use much memory, or use a larger machine.")
}

pub(super) fn swap(host: &Host) -> Fitness {
    let (Some(all), Some(free)) = (meminfo(host, "SwapTotal"), meminfo(host, "SwapFree")) else {
        return unknown("swap", "The kernel does not report how much memory is swapped out.");
    };
    let used = all.saturating_sub(free);
    let seen = if all == 0 { "none".to_owned() } else { format!("{} in use", show(used)) };
    if used <= SWAPPED {
        return good("swap", seen);
    }
    let message = "Requests wait milliseconds for memory that must be read from a disk.";
    doubt(
        "swap",
        FitnessStatus::Warning,
        seen,
        message,
        "sudo swapoff -a && sudo swapon -a, or sudo swapoff -a",
    )
}

pub(super) fn huge_pages(host: &Host) -> Fitness {
    const NAME: &str = "huge-pages";
    let text = host.text("sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match chosen {
        None => good(NAME, "none"),
        Some("always") => doubt(
            NAME,
            FitnessStatus::Warning,
            "always",
            "The kernel allocates memory in steps of 2 MiB, even if less is used, and pauses processes to \
             build huge pages. So gateways appear to use more memory, and are sometimes slower.",
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        Some(chosen) => good(NAME, chosen),
    }
}

pub(super) fn disk(host: &Host) -> Fitness {
    let Some(free) = host.disk_free else {
        return unknown("disk", "The free space for results could not be read.");
    };
    let seen = format!("{} free for results", show(free));
    let Some(status) = least(free, DISK) else { return good("disk", seen) };
    let message = "Each trial is written when it ends. The run fails when there is no space left.";
    doubt("disk", status, seen, message, "Free some disk space, or write to another disk with --out.")
}
