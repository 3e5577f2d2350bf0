//! The clock: `CLOCK_MONOTONIC` in nanoseconds. All processes of a host share this clock. The generator's
//! windows, the probes' samples and the upstream's timestamps can therefore be aligned.

#[cfg(target_os = "linux")]
use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds per second.
pub const SECOND: u64 = 1_000_000_000;
/// Nanoseconds per millisecond.
pub const MILLISECOND: u64 = 1_000_000;

/// Nanoseconds since an arbitrary moment during boot. This value never decreases.
#[inline]
pub fn now() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Wall-clock time in nanoseconds since the Unix epoch. Use it for dates in records, never for durations.
pub fn unix() -> u64 {
    nanoseconds(ClockId::Realtime)
}

/// CPU time that all threads of this process have used, nanoseconds.
#[cfg(target_os = "linux")]
pub fn process_cpu() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

/// CPU time that the calling thread has used, nanoseconds.
#[cfg(target_os = "linux")]
#[inline]
pub fn thread_cpu() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

#[cfg(target_os = "linux")]
#[inline]
fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// On other systems hoptax measures nothing, so processes need not share a clock there.
#[cfg(not(target_os = "linux"))]
enum ClockId {
    Monotonic,
    Realtime,
}

#[cfg(not(target_os = "linux"))]
fn nanoseconds(clock: ClockId) -> u64 {
    use std::sync::OnceLock;
    use std::time::{Instant, SystemTime};
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    let time = match clock {
        ClockId::Monotonic => BEGIN.get_or_init(Instant::now).elapsed(),
        ClockId::Realtime => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
    };
    time.as_nanos() as u64
}
