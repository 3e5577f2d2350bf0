//! What a worker needs from the system: file descriptors, a CPU, and timers that wake it on time.

use crate::error::LoadError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, gettid, sched_setaffinity, set_current_timer_slack};
use std::io;
use std::num::NonZeroU64;

/// Number of descriptors reserved for everything except connections: event loops, and files that hoptax or
/// its libraries open.
const SPARE_DESCRIPTORS: u64 = 32;

/// Raises the soft limit on descriptors to the hard limit if `2 × connections` need more. Returns how many
/// additional connections are possible after `connections` are open.
///
/// # Errors
/// If even the hard limit is too low. The error contains the number of connections that are possible.
pub(crate) fn make_room_for(connections: u32) -> Result<u64, LoadError> {
    let taken = open_descriptors() + SPARE_DESCRIPTORS;
    let needed = u64::from(connections) + taken;
    let limit = getrlimit(Resource::Nofile);
    let mut most = limit.current.unwrap_or(u64::MAX);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if most < needed + u64::from(connections) && setrlimit(Resource::Nofile, raised).is_ok() {
        most = limit.maximum.unwrap_or(u64::MAX);
    }
    match most.checked_sub(needed) {
        Some(spare) => Ok(spare),
        None => Err(LoadError::Descriptors { asked: connections, fits: most.saturating_sub(taken) }),
    }
}

fn open_descriptors() -> u64 {
    // If /proc cannot be read, only the three standard descriptors are known to be open.
    std::fs::read_dir("/proc/self/fd").map_or(3, |entries| entries.count() as u64)
}

pub(crate) fn pin_to(cpu: u32) -> io::Result<()> {
    if cpu as usize >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    Ok(sched_setaffinity(None, &set)?)
}

/// Id of the calling thread.
pub(crate) fn thread_id() -> u32 {
    gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Sets the timer slack of the calling thread to 1 ns, so that sleeps end on time. By default, the kernel may
/// delay the end of a sleep by up to 50 µs to save power (`PR_SET_TIMERSLACK`, prctl(2)).
pub(crate) fn minimize_timer_slack() {
    // This cannot fail for a value above zero. If it did fail, the send lag would be higher.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// Maximum resident set of this process so far, in bytes, or 0 if the kernel does not report it.
pub(crate) fn largest_resident_set() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_how_many_connections_fit() {
        let Err(LoadError::Descriptors { asked, fits }) = make_room_for(u32::MAX) else {
            panic!("no process may hold four thousand million descriptors");
        };
        assert_eq!(asked, u32::MAX);
        assert!(fits > 0);
        let half = u32::try_from(fits / 2).unwrap_or(u32::MAX);
        let spare = make_room_for(half).expect("what fits is granted");
        // Other tests in this process open files at the same time.
        assert!(spare.abs_diff(fits - u64::from(half)) < 1000, "{spare} of {fits}");
    }

    #[test]
    fn the_largest_resident_set_is_plausible() {
        assert!(largest_resident_set() > 100 * 1024);
    }

    #[test]
    fn refuses_a_cpu_that_does_not_exist() {
        assert!(pin_to(u32::MAX).is_err());
        assert!(pin_to(CpuSet::MAX_CPU as u32 - 1).is_err());
    }
}
