//! How far two CPUs are from each other: the time that a cache line takes from one CPU to the other and back.
//!
//! Data between processes on different CPUs travels in cache lines. Within a group of cores that share a
//! cache, a round trip takes about 80 ns, between groups 200 to 400 ns, between sockets longer. A hypervisor
//! may move the CPUs of a virtual machine between cores at any time. Only this round trip shows the machine
//! that its CPUs have moved.

use crate::cpus;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Round trips of one try.
const ROUND_TRIPS: u32 = 400;
/// Number of tries. The fastest one counts, because an interrupt can only make a try slower. The first try
/// also waits for the other thread to start.
const TRIES: u32 = 4;
/// If the CPUs are busy, the measurement ends without a result after this time.
const BOUND: Duration = Duration::from_millis(20);
/// Number of looks at the cache line after which a thread looks at the clock.
const LOOKS: u32 = 1 << 12;
/// Value that ends the measurement.
const STOP: u32 = u32::MAX;

/// A value in a cache line of its own. Some processors fetch lines in pairs of 64 bytes.
#[repr(align(128))]
struct Line(AtomicU32);

/// Measures the round trip of a cache line between two CPUs, in nanoseconds, for about a millisecond. `None`
/// if this process may not use both CPUs, or if they are too busy.
pub fn round_trip_ns(one: u32, other: u32) -> Option<f64> {
    let line = Line(AtomicU32::new(0));
    let until = Instant::now() + BOUND;
    thread::scope(|scope| {
        scope.spawn(|| answer(&line, other, until));
        let fastest = ask(&line, one, until);
        line.0.store(STOP, Ordering::Release);
        fastest
    })
}

/// Writes odd numbers and waits for the even number that follows each. Returns the time of a round trip in
/// the fastest try.
fn ask(line: &Line, cpu: u32, until: Instant) -> Option<f64> {
    let _pinned = cpus::pin(&[cpu])?;
    let mut asked = 1;
    let mut fastest = f64::INFINITY;
    for _ in 0..TRIES {
        let begun = Instant::now();
        for _ in 0..ROUND_TRIPS {
            line.0.store(asked, Ordering::Release);
            wait_for(line, asked + 1, until)?;
            asked += 2;
        }
        fastest = fastest.min(begun.elapsed().as_nanos() as f64 / f64::from(ROUND_TRIPS));
    }
    Some(fastest)
}

/// Answers each odd number with the next even number, until the end.
fn answer(line: &Line, cpu: u32, until: Instant) {
    let Some(_pinned) = cpus::pin(&[cpu]) else {
        line.0.store(STOP, Ordering::Release);
        return;
    };
    let mut asked = 1;
    while wait_for(line, asked, until).is_some() {
        line.0.store(asked + 1, Ordering::Release);
        asked += 2;
    }
}

/// Waits until the line has this value. `None` if the measurement has ended or takes too long.
fn wait_for(line: &Line, value: u32, until: Instant) -> Option<()> {
    for look in 1_u32.. {
        match line.0.load(Ordering::Acquire) {
            seen if seen == value => return Some(()),
            STOP => return None,
            _ if look.is_multiple_of(LOOKS) && Instant::now() > until => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "times {} round trips" number(ROUND_TRIPS);
    METHODOLOGY "the fastest of {} times" number(TRIES);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_takes_longer_than_a_write_and_ends_in_time() {
        let cpus = cpus::allowed().expect("known");
        if let [one, other, ..] = cpus[..] {
            // Other tests can keep the CPUs busy for longer than one measurement waits.
            let ns = (0..500).find_map(|_| round_trip_ns(one, other)).expect("a result within ten seconds");
            assert!((5.0..1e6).contains(&ns), "{ns} ns");
        }
        let begun = Instant::now();
        assert_eq!(round_trip_ns(u32::MAX, cpus[0]), None, "there is no such CPU");
        assert_eq!(round_trip_ns(cpus[0], u32::MAX), None, "there is no such CPU");
        assert!(begun.elapsed() < BOUND * 200, "{:?}", begun.elapsed());
    }
}
