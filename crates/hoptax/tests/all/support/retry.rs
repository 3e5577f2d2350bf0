//! Retries and waiting. Bursts of CPU steal can spoil a test that measures. Such a test may retry only if the
//! machine's own counters show a disturbance. A test that fails on a quiet machine is not retried.

use super::notes;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum number of retries of an attempt. `scripts/run-tests.py` also limits retries per test and per
/// suite.
const MOST_RETRIES: usize = 2;

/// An attempt counts as disturbed if at least this share of the CPU time was stolen.
const STOLEN: f64 = 0.01;
/// Time that each ticker sleeps. There is one ticker per CPU.
const TICK: Duration = Duration::from_millis(2);
/// Maximum number of tickers. More tickers would themselves load the machine.
const MOST_TICKERS: usize = 8;
/// An attempt counts as disturbed if a ticker overslept by at least this time. On an idle machine, a ticker
/// oversleeps by less than 1 ms.
const OVERSLEPT: Duration = Duration::from_millis(5);

/// Returns the result of an attempt. If an attempt fails on a disturbed machine, tries again. Panics if an
/// attempt fails on an undisturbed machine, or if all attempts fail (inconclusive).
#[track_caller]
pub(crate) fn eventually<T>(attempt: impl FnMut() -> Result<T, String>) -> T {
    retry_until_success(Disturbance::is_significant, notes::retry, attempt)
}

/// Like [`eventually`], but retries only after a stall that lasted at least `least`.
#[track_caller]
pub(crate) fn retry_only_after_stall<T>(least: Duration, attempt: impl FnMut() -> Result<T, String>) -> T {
    retry_until_success(|disturbance| disturbance.overslept >= least, notes::retry, attempt)
}

/// Retries until an attempt succeeds. `note` receives the reason for each retry.
#[track_caller]
fn retry_until_success<T>(
    excuses: impl Fn(&Disturbance) -> bool,
    note: impl Fn(&str),
    mut attempt: impl FnMut() -> Result<T, String>,
) -> T {
    let mut seen = Vec::new();
    loop {
        let watch = Watch::start();
        let complaint = match attempt() {
            Ok(found) => return found,
            Err(complaint) => complaint,
        };
        let disturbance = watch.end();
        assert!(
            excuses(&disturbance),
            "{complaint}\nThe machine is not to blame: {disturbance}.{}",
            listed(&seen)
        );
        seen.push(format!("{disturbance}: {complaint}"));
        assert!(
            seen.len() <= MOST_RETRIES,
            "inconclusive: the machine was disturbed in every attempt.{}",
            listed(&seen)
        );
        note(&seen[seen.len() - 1]);
    }
}

fn listed(seen: &[String]) -> String {
    seen.iter().zip(1..).map(|(seen, number)| format!("\nlook {number}: {seen}")).collect()
}

/// Waits until a condition is true; panics after `bound`. This does not count as a retry, because nothing is
/// measured again.
#[track_caller]
pub(crate) fn wait_until(what: &str, bound: Duration, mut condition: impl FnMut() -> bool) {
    wait_for(what, bound, || condition().then_some(()));
}

/// Like [`wait_until`], for a value. Returns the value as soon as there is one.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, bound: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + bound;
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < end, "not within {bound:?}: {what}");
        // This sleep is long enough to leave the CPU to the process under test.
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[derive(Debug, Clone, Copy)]
struct Disturbance {
    /// Share of all CPU time that the hypervisor took.
    stolen: f64,
    /// Longest time that a ticker overslept. A ticker oversleeps if the hypervisor or other processes take
    /// its CPU.
    overslept: Duration,
}

impl Disturbance {
    fn is_significant(&self) -> bool {
        self.stolen >= STOLEN || self.overslept >= OVERSLEPT
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stolen, overslept) = (100.0 * self.stolen, self.overslept.as_secs_f64() * 1e3);
        write!(formatter, "{stolen:.1} % of the CPU time stolen, overslept by up to {overslept:.1} ms")
    }
}

/// Observes the machine until it is dropped.
struct Watch {
    before: Option<CpuTime>,
    over: Arc<AtomicBool>,
    tickers: Vec<JoinHandle<Duration>>,
}

impl Watch {
    fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let allowed = sched_getaffinity(None).expect("the CPUs of this process");
        let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).take(MOST_TICKERS);
        let tickers = cpus.map(|cpu| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || tick(cpu, &over))
        });
        Self { before: CpuTime::now(), tickers: tickers.collect(), over }
    }

    fn end(mut self) -> Disturbance {
        let stolen =
            self.before.zip(CpuTime::now()).map_or(0.0, |(before, after)| after.stolen_since(before));
        Disturbance { stolen, overslept: self.stop() }
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

    fn stolen_since(self, before: Self) -> f64 {
        let of = |now: u64, then: u64| now.saturating_sub(then) as f64;
        of(self.stolen, before.stolen) / of(self.all, before.all).max(1.0)
    }
}

mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Runs a test whose first `complaints` attempts fail. Returns the panic message, the number of attempts
    /// and the notes.
    fn attempts(excused: bool, complaints: usize) -> (Option<String>, usize, Vec<String>) {
        let (mut count, noted) = (0, RefCell::new(Vec::new()));
        let attempt = || {
            count += 1;
            if count > complaints { Ok(()) } else { Err(format!("complaint {count}")) }
        };
        let note = |seen: &str| noted.borrow_mut().push(seen.to_owned());
        let outcome = catch_unwind(AssertUnwindSafe(|| retry_until_success(|_| excused, note, attempt)));
        let words = outcome.err().map(|panic| *panic.downcast::<String>().expect("words"));
        (words, count, noted.into_inner())
    }

    #[test]
    fn a_failure_on_a_quiet_machine_is_not_retried() {
        let (words, count, noted) = attempts(false, 1);
        let words = words.expect("it fails");
        assert!(words.starts_with("complaint 1\nThe machine is not to blame: "), "{words}");
        assert_eq!((count, noted.len()), (1, 0));
    }

    #[test]
    fn retries_are_noted_and_limited() {
        for complaints in 0..=MOST_RETRIES {
            let (words, count, noted) = attempts(true, complaints);
            assert_eq!((words, count, noted.len()), (None, complaints + 1, complaints));
            assert!(noted.iter().zip(1..).all(|(seen, it)| seen.ends_with(&format!(": complaint {it}"))));
        }
        let (words, count, noted) = attempts(true, MOST_RETRIES + 1);
        let words = words.expect("it is inconclusive");
        assert!(words.starts_with("inconclusive: ") && words.ends_with(": complaint 3"), "{words}");
        assert_eq!((count, noted.len()), (MOST_RETRIES + 1, MOST_RETRIES));
    }

    #[test]
    fn reads_the_share_of_stolen_time() {
        let before = CpuTime::parse("cpu  10 0 10 60 0 0 0 20 5 0\ncpu0 1 2\n").expect("a line");
        assert_eq!(before, CpuTime { stolen: 20, all: 100 });
        let after = CpuTime { stolen: 30, all: 150 };
        assert!((after.stolen_since(before) - 0.2).abs() < 1e-9);
        assert_eq!(CpuTime::parse("cpu  1 2 3\n"), None);
        assert!(CpuTime::now().is_some_and(|now| now.all > 0));
    }
}
