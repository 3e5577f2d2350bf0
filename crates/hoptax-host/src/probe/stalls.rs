//! The stall meter: a thread on each CPU that sleeps for 2 ms, again and again, and notes how late it wakes.
//!
//! The threads have real-time priority, so the generator, a gateway and other programs cannot delay them. A
//! late thread means that the CPU itself stood still, mostly because a hypervisor had taken it away. At
//! normal priority they would be late whenever a gateway uses much CPU time, and windows would be left out
//! because of the gateway. So without permission there are no stalls in the record.

use crate::cpus;
use hoptax_format::clock::{self, MILLISECOND};
use hoptax_format::record::WINDOW_NS;
use hoptax_record::Stalled;
use rustix::thread::{ClockId, clock_nanosleep_absolute, gettid};
use rustix::time::Timespec;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;

/// Time from one wake-up to the next.
const STEP_NS: u64 = 2 * MILLISECOND;

/// Lateness from which a wake-up is a stall. Quiet CPUs wake a thread within 0.1 ms.
const STALL_NS: u64 = MILLISECOND / 2;

/// A time in which a CPU stood still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// The CPU.
    pub cpu: u32,
    /// Its begin, on the clock [`clock::now`].
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
}

/// Watches the CPUs for stalls until it is finished or dropped.
#[derive(Debug)]
pub struct StallWatch {
    meter: &'static Meter,
}

/// The threads of this process. They exist from the first watch on, and sleep while nothing is watched.
#[derive(Debug, Default)]
struct Meter {
    state: Mutex<State>,
    begun: Condvar,
    is_watching: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    watches: u32,
    stalls: Vec<Stall>,
}

impl StallWatch {
    /// Begins to watch. `None` if real-time priority is not permitted here.
    pub fn begin() -> Option<Self> {
        static METER: OnceLock<Option<&'static Meter>> = OnceLock::new();
        let meter = (*METER.get_or_init(Meter::start))?;
        let mut state = meter.lock();
        state.watches += 1;
        meter.is_watching.store(true, Ordering::Relaxed);
        meter.begun.notify_all();
        Some(Self { meter })
    }

    /// Ends the watch. Returns all stalls since it began. If watches overlap, returns those since the first
    /// one began.
    pub fn finish(self) -> Vec<Stall> {
        self.meter.lock().stalls.clone()
    }
}

impl Drop for StallWatch {
    fn drop(&mut self) {
        let mut state = self.meter.lock();
        state.watches -= 1;
        if state.watches == 0 {
            self.meter.is_watching.store(false, Ordering::Relaxed);
            state.stalls.clear();
        }
    }
}

impl Meter {
    /// Starts the threads. `None` if one of them gets no real-time priority.
    fn start() -> Option<&'static Self> {
        let cpus = cpus::allowed().ok()?;
        let meter: &'static Self = Box::leak(Box::default());
        let (sender, answers) = mpsc::channel();
        for cpu in &cpus {
            let (cpu, sender) = (*cpu, sender.clone());
            let run = move || {
                let is_ready = cpus::pin(&[cpu]).filter(|_| become_real_time());
                let _ = sender.send(is_ready.is_some());
                if is_ready.is_some() {
                    meter.watch(cpu);
                }
            };
            thread::Builder::new().name(format!("stalls-{cpu}")).spawn(run).ok()?;
        }
        drop(sender);
        // Each thread answers once. If one of them has no priority, the others sleep for ever.
        let ready = answers.iter().take(cpus.len()).filter(|is_ready| *is_ready).count();
        (ready == cpus.len()).then_some(meter)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, cpu: u32) {
        loop {
            let idle = self.begun.wait_while(self.lock(), |state| state.watches == 0);
            drop(idle);
            let mut due = clock::now() + STEP_NS;
            while self.is_watching.load(Ordering::Relaxed) {
                let until = Timespec {
                    tv_sec: (due / clock::SECOND).cast_signed(),
                    tv_nsec: (due % clock::SECOND).cast_signed(),
                };
                // A signal may end the sleep early. The next one is as long as usual.
                let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
                let now = clock::now();
                if now.saturating_sub(due) > STALL_NS {
                    self.lock().stalls.push(Stall { cpu, from_ns: due, to_ns: now });
                }
                due = now + STEP_NS;
            }
        }
    }
}

/// Gives the calling thread the lowest real-time priority. `chrt` of util-linux does that, because it needs a
/// system call that no safe function offers. False if that is not permitted, or `chrt` is missing.
fn become_real_time() -> bool {
    let thread = gettid().as_raw_nonzero().to_string();
    let chrt = Command::new("chrt")
        .args(["--fifo", "--pid", "1", &thread])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    chrt.is_ok_and(|status| status.success())
}

/// Stalls in each window of `[from, to)`.
pub fn by_window(stalls: &[Stall], from: u64, to: u64) -> Stalled {
    let windows = to.saturating_sub(from).div_ceil(WINDOW_NS) as usize;
    let mut found = Stalled::default();
    let mut by_cpu: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for stall in stalls.iter().filter(|stall| stall.from_ns < to && stall.to_ns > from) {
        found.count += 1;
        found.longest_ns = found.longest_ns.max(stall.to_ns - stall.from_ns);
        let list = by_cpu.entry(stall.cpu).or_insert_with(|| vec![0; windows]);
        for (at, ns) in list.iter_mut().enumerate() {
            let begin = from + at as u64 * WINDOW_NS;
            let end = (begin + WINDOW_NS).min(to);
            *ns += stall.to_ns.min(end).saturating_sub(stall.from_ns.max(begin));
        }
    }
    found.ns_by_cpu = by_cpu;
    found
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "on each CPU wakes every {}, if that is permitted" time(std::time::Duration::from_nanos(STEP_NS));
    METHODOLOGY "later than {} is a stall" time(std::time::Duration::from_nanos(STALL_NS));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = MILLISECOND;

    fn stall(cpu: u32, from_ms: u64, to_ms: u64) -> Stall {
        Stall { cpu, from_ns: from_ms * MS, to_ns: to_ms * MS }
    }

    #[test]
    fn a_stall_belongs_to_each_window_that_it_touches() {
        let stalls =
            [stall(0, 1_090, 1_130), stall(1, 1_250, 1_251), stall(1, 100, 900), stall(0, 990, 1_010)];
        let found = by_window(&stalls, 1_000 * MS, 1_250 * MS + MS);
        assert_eq!((found.count, found.longest_ns), (3, 40 * MS));
        assert_eq!(found.ns_by_cpu[&0], [20 * MS, 30 * MS, 0]);
        assert_eq!(found.ns_by_cpu[&1], [0, 0, MS]);
        assert_eq!(by_window(&[], 0, MS), Stalled::default());
    }

    /// A thread of the same priority that has the CPU for 20 ms is a stall for the meter.
    #[test]
    fn the_meter_sees_a_cpu_that_is_taken_away() {
        let Some(watch) = StallWatch::begin() else {
            assert!(!become_real_time(), "without permission there is no meter");
            return;
        };
        let cpu = cpus::allowed().expect("known")[0];
        let hog = thread::spawn(move || {
            let _pinned = cpus::pin(&[cpu]).expect("it may run there");
            assert!(become_real_time());
            let begun = clock::now();
            while clock::now() < begun + 20 * MS {
                std::hint::spin_loop();
            }
            (begun, clock::now())
        });
        let (begun, ended) = hog.join().expect("it ends");
        // The thread of that CPU notes the stall when it runs again.
        let seen = |watch: &StallWatch| {
            watch
                .meter
                .lock()
                .stalls
                .iter()
                .any(|one| one.cpu == cpu && one.from_ns < ended && one.to_ns > begun + 15 * MS)
        };
        let limit = clock::now() + clock::SECOND;
        while !seen(&watch) && clock::now() < limit {
            thread::yield_now();
        }
        assert!(seen(&watch), "{:?}", watch.finish());
    }
}
