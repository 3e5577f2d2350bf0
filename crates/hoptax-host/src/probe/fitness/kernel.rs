//! Checks of the kernel's version, limits and permissions.

use super::host::Host;
use super::item::{doubt, good, unknown};
use hoptax_record::{Fitness, FitnessStatus};

/// The first kernel that has `epoll_pwait2`, whose timeouts are in nanoseconds.
const NEEDED: (u32, u32) = (5, 11);

/// Bounds on the number of descriptors. The first bound is enough for a moderate load. Below the second
/// bound, 1,000 connections through a proxy fail, because a proxy needs two descriptors for each connection.
const DESCRIPTORS: (u64, u64) = (16_384, 2_048);

pub(super) fn version(host: &Host) -> Fitness {
    let mut parts = host.release.split(|letter: char| !letter.is_ascii_digit());
    let mut part = || parts.next().and_then(|part| part.parse::<u32>().ok());
    let (Some(major), Some(minor)) = (part(), part()) else {
        return unknown("kernel", format!("cannot parse the kernel's release `{}`.", host.release));
    };
    if (major, minor) >= NEEDED {
        return good("kernel", host.release.clone());
    }
    let message = "This kernel lacks a system call that the generator needs (epoll_pwait2).";
    doubt("kernel", FitnessStatus::Bad, host.release.clone(), message, "Use Linux 5.11 or newer.")
}

pub(super) fn descriptors(host: &Host) -> Fitness {
    let (soft, hard) = host.descriptors;
    let ceiling = host.number("proc/sys/fs/nr_open").unwrap_or(u64::MAX);
    let usable = hard.min(ceiling);
    let seen = match ceiling {
        u64::MAX => format!("{} ({} at first)", count(usable), count(soft)),
        ceiling => format!("{} ({} at first; fs.nr_open {})", count(usable), count(soft), count(ceiling)),
    };
    let status = match usable {
        _ if usable < DESCRIPTORS.1 => FitnessStatus::Bad,
        _ if usable < DESCRIPTORS.0 => FitnessStatus::Warning,
        _ => return good("descriptors", seen),
    };
    let message =
        "Each connection needs one descriptor in the generator, one in the upstream and two in a gateway.";
    let advice = "Raise the hard limit: `ulimit -Hn 1048576` as root, LimitNOFILE= in a unit, --ulimit \
        nofile= for docker.";
    doubt("descriptors", status, seen, message, advice)
}

fn count(descriptors: u64) -> String {
    if descriptors == u64::MAX { "unlimited".into() } else { descriptors.to_string() }
}

/// Highest value of `kernel.perf_event_paranoid` at which all users may profile their own processes,
/// including the time in the kernel.
const OPEN_TO_ALL: i64 = 1;

pub(super) fn perf(host: &Host) -> Fitness {
    let Some(paranoid) =
        host.text("proc/sys/kernel/perf_event_paranoid").and_then(|text| text.parse::<i64>().ok())
    else {
        return unknown("perf", "This kernel has no performance events, or hides them.");
    };
    let seen = format!("kernel.perf_event_paranoid {paranoid}");
    if host.is_root || paranoid <= OPEN_TO_ALL {
        return good("perf", seen);
    }
    let message = "This user cannot profile gateways with `perf`. Results are not affected.";
    doubt("perf", FitnessStatus::Warning, seen, message, "sudo sysctl kernel.perf_event_paranoid=1")
}
