//! How much the machine was disturbed during an attempt: CPU time that the hypervisor took, and stalls.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time that each ticker sleeps. There is one ticker per CPU.
const TICK: Duration = Duration::from_millis(2);
/// Maximum number of tickers. More tickers would themselves load the machine.
const MOST_TICKERS: usize = 8;

/// An attempt of one second counts as disturbed if a ticker overslept by at least this time. The limit grows
/// with the square root of the attempt's length, because a longer attempt sees rarer stalls.
///
/// Measured on 70 attempts that succeeded, while a dozen compilers shared two CPUs with them. With fixed
/// limits of 5 ms and of 1 % of stolen time, 28 % of the attempts below 0.5 s would have counted as
/// disturbed, 39 % of those up to 1.5 s, and all longer ones. With the limits in use, it is 16 %, 23 % and 50
/// %. `make test` prints the share of each run.
const OVERSLEPT_IN_A_SECOND: Duration = Duration::from_millis(10);
/// Smallest such limit. Without other load, a ticker oversleeps by less than 1 ms.
const LEAST_OVERSLEPT: Duration = Duration::from_millis(5);
/// An attempt counts as disturbed if the hypervisor took at least this share of the CPU time.
const STOLEN: f64 = 0.02;
/// The hypervisor must also have taken at least this much CPU time. The kernel counts in ticks of 10 ms, so
/// one or two ticks mean little in a short attempt.
const LEAST_STOLEN: Duration = Duration::from_millis(30);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Disturbance {
    pub(crate) length: Duration,
    /// Share of all CPU time that the hypervisor took.
    pub(crate) stolen: f64,
    /// CPU time that the hypervisor took.
    pub(crate) stolen_time: Duration,
    /// Longest time that a ticker overslept. A ticker oversleeps if the hypervisor or other processes take
    /// its CPU.
    pub(crate) overslept: Duration,
}

impl Disturbance {
    pub(crate) fn is_significant(&self) -> bool {
        let most = OVERSLEPT_IN_A_SECOND.mul_f64(self.length.as_secs_f64().sqrt());
        (self.stolen >= STOLEN && self.stolen_time >= LEAST_STOLEN)
            || self.overslept >= most.max(LEAST_OVERSLEPT)
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stolen, overslept) = (100.0 * self.stolen, self.overslept.as_secs_f64() * 1e3);
        let seconds = self.length.as_secs_f64();
        write!(
            formatter,
            "{seconds:.2} s, {stolen:.1} % of the CPU time stolen, overslept by up to {overslept:.1} ms"
        )
    }
}

/// Observes the machine until it is dropped.
pub(crate) struct Watch {
    started: Instant,
    before: Option<CpuTime>,
    over: Arc<AtomicBool>,
    tickers: Vec<JoinHandle<Duration>>,
}

impl Watch {
    pub(crate) fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let allowed = sched_getaffinity(None).expect("the CPUs of this process");
        let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).take(MOST_TICKERS);
        let tickers = cpus.map(|cpu| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || tick(cpu, &over))
        });
        Self { started: Instant::now(), before: CpuTime::now(), tickers: tickers.collect(), over }
    }

    pub(crate) fn end(mut self) -> Disturbance {
        let length = self.started.elapsed();
        let both = self.before.zip(CpuTime::now());
        let (stolen, stolen_time) =
            both.map_or((0.0, Duration::ZERO), |(before, after)| after.stolen_since(before));
        Disturbance { length, stolen, stolen_time, overslept: self.stop() }
    }

    fn stop(&mut self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        let overslept = self.tickers.drain(..).map(|ticker| ticker.join().expect("it only sleeps"));
        overslept.max().unwrap_or_default()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Sleeps repeatedly on one CPU. Returns how late the latest wake-up was.
fn tick(cpu: usize, over: &AtomicBool) -> Duration {
    let mut only = CpuSet::new();
    only.set(cpu);
    // If this CPU is no longer available, the ticker sleeps on any CPU.
    let _ = sched_setaffinity(None, &only);
    let mut worst = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let started = Instant::now();
        std::thread::sleep(TICK);
        worst = worst.max(started.elapsed().saturating_sub(TICK));
    }
    worst
}

/// Unit of `/proc/stat` on all architectures that hoptax supports (`getconf CLK_TCK` is 100).
const TICK_OF_THE_KERNEL: Duration = Duration::from_millis(10);

/// CPU time of the whole machine since boot, in ticks of `/proc/stat`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct CpuTime {
    stolen: u64,
    all: u64,
}

impl CpuTime {
    fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses the line `cpu user nice system idle iowait irq softirq steal …`. The kernel counts the fields
    /// after `steal` in `user` too, so they are ignored.
    fn parse(stat: &str) -> Option<Self> {
        let ticks: Vec<u64> =
            stat.lines().next()?.split_whitespace().skip(1).take(8).map_while(|it| it.parse().ok()).collect();
        Some(Self { stolen: *ticks.get(7)?, all: ticks.iter().sum() })
    }

    /// Share and amount of the stolen time.
    fn stolen_since(self, before: Self) -> (f64, Duration) {
        let of = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let stolen = of(self.stolen, before.stolen);
        (stolen / of(self.all, before.all).max(1.0), TICK_OF_THE_KERNEL.mul_f64(stolen))
    }
}

#[test]
fn reads_the_share_of_stolen_time() {
    let before = CpuTime::parse("cpu  10 0 10 60 0 0 0 20 5 0\ncpu0 1 2\n").expect("a line");
    assert_eq!(before, CpuTime { stolen: 20, all: 100 });
    let after = CpuTime { stolen: 30, all: 150 };
    let (share, time) = after.stolen_since(before);
    assert!((share - 0.2).abs() < 1e-9);
    assert_eq!(time, Duration::from_millis(100));
    assert_eq!(CpuTime::parse("cpu  1 2 3\n"), None);
    assert!(CpuTime::now().is_some_and(|now| now.all > 0));
}

#[test]
fn the_limits_grow_with_the_length_of_the_attempt() {
    let attempt = |seconds: f64, stolen: f64, overslept_ms: u64| Disturbance {
        length: Duration::from_secs_f64(seconds),
        stolen,
        stolen_time: Duration::from_secs_f64(seconds * 2.0 * stolen),
        overslept: Duration::from_millis(overslept_ms),
    };
    for (seconds, stolen, overslept_ms, expected) in [
        (0.1, 0.0, 4, false),
        (0.1, 0.0, 5, true),
        (1.0, 0.0, 9, false),
        (1.0, 0.0, 10, true),
        (25.0, 0.0, 49, false),
        (25.0, 0.0, 50, true),
        // A single tick of two CPUs in 100 ms is a share of 5 %.
        (0.1, 0.05, 0, false),
        (1.0, 0.02, 0, true),
        (60.0, 0.015, 0, false),
        (60.0, 0.02, 0, true),
    ] {
        let attempt = attempt(seconds, stolen, overslept_ms);
        assert_eq!(attempt.is_significant(), expected, "{attempt}");
    }
}
