//! Memory and disk.

use super::host::Host;
use super::item::{doubt, good, unknown};
use hoptax_record::{Fitness, FitnessStatus};
use std::path::Path;

const MIB: u64 = 1 << 20;

/// What an upstream, a generator with thousands of connections and a thrifty gateway need together, several times over;
/// and below which the kernel begins to throw pages out that are in use.
const AVAILABLE: (u64, u64) = (1024 * MIB, 256 * MIB);

/// Less than this lies in swap on most machines that have any, and is not asked for again.
const SWAPPED: u64 = 64 * MIB;

/// A run with all its charts takes some MiB; and below the other, its last trials may find no room.
const DISK: (u64, u64) = (1024 * MIB, 64 * MIB);

/// Bytes free for us where `path` is or would be.
pub(super) fn free_below(path: &Path) -> Option<u64> {
    let path = std::path::absolute(path).ok()?;
    let there = path.ancestors().find(|ancestor| ancestor.exists())?;
    let stat = rustix::fs::statvfs(there).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}

/// A line of `/proc/meminfo`, bytes.
fn told(host: &Host, name: &str) -> Option<u64> {
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
    let (Some(free), Some(all)) = (told(host, "MemAvailable"), told(host, "MemTotal")) else {
        return unknown("memory", "The kernel does not tell how much memory is free.");
    };
    let seen = format!("{} of {} available", show(free), show(all));
    let Some(status) = least(free, AVAILABLE) else { return good("memory", seen) };
    let message = "Where memory runs short, the kernel stops processes to find some, or ends them.";
    doubt("memory", status, seen, message, "Stop what holds it, or use a larger machine.")
}

pub(super) fn swap(host: &Host) -> Fitness {
    let (Some(all), Some(free)) = (told(host, "SwapTotal"), told(host, "SwapFree")) else {
        return unknown("swap", "The kernel does not tell how much is swapped out.");
    };
    let used = all.saturating_sub(free);
    let seen = if all == 0 { "none".to_owned() } else { format!("{} in use", show(used)) };
    if used <= SWAPPED {
        return good("swap", seen);
    }
    let message = "Memory that is fetched from a disk takes milliseconds, which requests then wait for.";
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
            "Memory grows by 2 MiB at a time, used or not, and processes stand still while pages are put together: \
             gateways look larger, and now and then slower, than they are.",
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        Some(chosen) => good(NAME, chosen),
    }
}

pub(super) fn disk(host: &Host) -> Fitness {
    let Some(free) = host.disk_free else {
        return unknown("disk", "How much room there is for results could not be asked.");
    };
    let seen = format!("{} free for results", show(free));
    let Some(status) = least(free, DISK) else { return good("disk", seen) };
    let message = "Trials are written as they end; one that finds no room ends the run.";
    doubt("disk", status, seen, message, "Make room, or write elsewhere with --out.")
}
