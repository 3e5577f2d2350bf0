//! Looking again, and waiting. A test that measures may be spoilt by a machine whose hypervisor takes the CPUs away in bursts.
//! It may look again only when the machine's own counters say that it was disturbed: what the product does wrong on a quiet
//! machine fails at the first look, and what it does wrong now and then is not excused by chance.

use super::notes;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a look is repeated at most. `scripts/run-tests.py` also holds each test and the whole suite to a bound.
const REPEATS: usize = 2;

/// Share of the CPU time taken by the hypervisor from which a look counts as disturbed.
const STOLEN: f64 = 0.01;
/// Sleep of the tickers, of which each CPU has one.
const TICK: Duration = Duration::from_millis(2);
/// Most tickers: they must not become a load themselves.
const MOST_TICKERS: usize = 8;
/// Oversleep of a ticker from which a look counts as disturbed: an idle machine wakes it within one.
const OVERSLEPT: Duration = Duration::from_millis(5);

/// Gives what a look found, or looks again where it failed on a disturbed machine. Panics where it failed on an undisturbed one, and
/// as inconclusive where every look failed.
#[track_caller]
pub(crate) fn eventually<T>(look: impl FnMut() -> Result<T, String>) -> T {
    looked(Disturbance::is_felt, notes::retry, look)
}

/// The same for a look that only a machine at a standstill for at least this long can spoil.
#[track_caller]
pub(crate) fn unless_it_stood_still<T>(least: Duration, look: impl FnMut() -> Result<T, String>) -> T {
    looked(|disturbance| disturbance.overslept >= least, notes::retry, look)
}

/// Looks until one look succeeds; `note` gets what was seen whenever another look follows.
#[track_caller]
fn looked<T>(
    excuses: impl Fn(&Disturbance) -> bool,
    note: impl Fn(&str),
    mut look: impl FnMut() -> Result<T, String>,
) -> T {
    let mut seen = Vec::new();
    loop {
        let watch = Watch::start();
        let complaint = match look() {
            Ok(found) => return found,
            Err(complaint) => complaint,
        };
        let disturbance = watch.end();
        assert!(
            excuses(&disturbance),
            "{complaint}\nThe machine is not to blame: {disturbance}.{}",
            told(&seen)
        );
        seen.push(format!("{disturbance}: {complaint}"));
        assert!(
            seen.len() <= REPEATS,
            "inconclusive: the machine was disturbed in every look.{}",
            told(&seen)
        );
        note(&seen[seen.len() - 1]);
    }
}

/// One line for each look.
fn told(seen: &[String]) -> String {
    seen.iter().zip(1..).map(|(seen, number)| format!("\nlook {number}: {seen}")).collect()
}

/// Waits until a condition holds; panics if it does not within `bound`. This is no repeated look: nothing is measured again.
#[track_caller]
pub(crate) fn wait_until(what: &str, bound: Duration, mut condition: impl FnMut() -> bool) {
    wait_for(what, bound, || condition().then_some(()));
}

/// The same for something to have, as soon as there is something.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, bound: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + bound;
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < end, "not within {bound:?}: {what}");
        // Long enough to leave the CPU to what is waited for.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What the machine's own counters say of the time of a look.
#[derive(Debug, Clone, Copy)]
struct Disturbance {
    /// Share of all CPU time that the hypervisor took.
    stolen: f64,
    /// How much longer than asked for a ticker slept, at most: its CPU was taken, by the hypervisor or by others.
    overslept: Duration,
}

impl Disturbance {
    fn is_felt(&self) -> bool {
        self.stolen >= STOLEN || self.overslept >= OVERSLEPT
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stolen, overslept) = (100.0 * self.stolen, self.overslept.as_secs_f64() * 1e3);
        write!(formatter, "{stolen:.1} % of the CPU time stolen, overslept by up to {overslept:.1} ms")
    }
}

/// Watches the machine until it is dropped.
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

/// Sleeps on one CPU, again and again; gives the longest oversleep.
fn tick(cpu: usize, over: &AtomicBool) -> Duration {
    let mut only = CpuSet::new();
    only.set(cpu);
    // Without its CPU, as when that was taken away meanwhile, it sleeps on any.
    let _ = sched_setaffinity(None, &only);
    let mut worst = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let started = Instant::now();
        std::thread::sleep(TICK);
        worst = worst.max(started.elapsed().saturating_sub(TICK));
    }
    worst
}

/// CPU time of the whole machine since it started, in ticks of `/proc/stat`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct CpuTime {
    stolen: u64,
    all: u64,
}

impl CpuTime {
    fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// From the line `cpu  user nice system idle iowait irq softirq steal …`; what follows is counted in `user` already.
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

    /// Makes looks of which the first `complaints` fail. Gives the words of the panic, how many looks there were, and what was noted.
    fn looks(excused: bool, complaints: usize) -> (Option<String>, usize, Vec<String>) {
        let (mut count, noted) = (0, RefCell::new(Vec::new()));
        let look = || {
            count += 1;
            if count > complaints { Ok(()) } else { Err(format!("complaint {count}")) }
        };
        let note = |seen: &str| noted.borrow_mut().push(seen.to_owned());
        let outcome = catch_unwind(AssertUnwindSafe(|| looked(|_| excused, note, look)));
        let words = outcome.err().map(|panic| *panic.downcast::<String>().expect("words"));
        (words, count, noted.into_inner())
    }

    #[test]
    fn a_failed_look_on_a_quiet_machine_fails_at_once() {
        let (words, count, noted) = looks(false, 1);
        let words = words.expect("it fails");
        assert!(words.starts_with("complaint 1\nThe machine is not to blame: "), "{words}");
        assert_eq!((count, noted.len()), (1, 0));
    }

    #[test]
    fn repeats_are_noted_and_bounded() {
        for complaints in 0..=REPEATS {
            let (words, count, noted) = looks(true, complaints);
            assert_eq!((words, count, noted.len()), (None, complaints + 1, complaints));
            assert!(noted.iter().zip(1..).all(|(seen, it)| seen.ends_with(&format!(": complaint {it}"))));
        }
        let (words, count, noted) = looks(true, REPEATS + 1);
        let words = words.expect("it is inconclusive");
        assert!(words.starts_with("inconclusive: ") && words.ends_with(": complaint 3"), "{words}");
        assert_eq!((count, noted.len()), (REPEATS + 1, REPEATS));
    }

    #[test]
    fn the_share_of_stolen_time_is_read() {
        let before = CpuTime::parse("cpu  10 0 10 60 0 0 0 20 5 0\ncpu0 1 2\n").expect("a line");
        assert_eq!(before, CpuTime { stolen: 20, all: 100 });
        let after = CpuTime { stolen: 30, all: 150 };
        assert!((after.stolen_since(before) - 0.2).abs() < 1e-9);
        assert_eq!(CpuTime::parse("cpu  1 2 3\n"), None);
        assert!(CpuTime::now().is_some_and(|now| now.all > 0));
    }
}
