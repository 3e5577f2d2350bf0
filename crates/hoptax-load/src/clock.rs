//! The one clock: `CLOCK_MONOTONIC` in nanoseconds. It is the same for every process of a host, so that the
//! generator's windows, the probes' samples and the upstream's stamps can be laid side by side.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of one second.
pub const SECOND: u64 = 1_000_000_000;
/// Nanoseconds of one millisecond.
pub const MILLISECOND: u64 = 1_000_000;

/// Nanoseconds since an arbitrary moment before boot's end; never goes back.
pub fn now() -> u64 {
    #[cfg(test)]
    if let Some(stopped) = STOPPED.get() {
        skip(LOOK);
        return stopped + SKIPPED.get();
    }
    let now = nanoseconds(ClockId::Monotonic);
    #[cfg(test)]
    let now = now + SKIPPED.get();
    now
}

#[cfg(test)]
thread_local! {
    static SKIPPED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    static STOPPED: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// What passes with each look at a clock that was stopped.
#[cfg(test)]
const LOOK: u64 = 10_000;

/// From now on time passes for this thread where it [`skip`]s, and a little with each look at the clock: a machine that
/// stands still, or does much else, takes none of it.
#[cfg(test)]
pub(crate) fn stop() {
    STOPPED.set(Some(nanoseconds(ClockId::Monotonic)));
}

/// As if so many nanoseconds had passed, for this thread: tests do not wait.
#[cfg(test)]
pub(crate) fn skip(nanoseconds: u64) {
    SKIPPED.set(SKIPPED.get() + nanoseconds);
}

/// Wall-clock nanoseconds since the Unix epoch. For stamps on records, never for durations.
pub fn unix() -> u64 {
    nanoseconds(ClockId::Realtime)
}

/// CPU time that all threads of this process have used, in nanoseconds.
pub fn process_cpu() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

/// CPU time that the calling thread has used, in nanoseconds.
pub fn thread_cpu() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}
