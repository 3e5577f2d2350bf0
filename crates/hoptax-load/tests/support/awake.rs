//! Tells a machine that stood still from an engine that is wrong: a test that depends on time may look again after the first,
//! and must fail at once after the second.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often the ticker wakes.
const TICK: Duration = Duration::from_millis(1);
/// A ticker that wakes this late did not get a CPU in time: then neither may have the engine.
const LATE: Duration = Duration::from_millis(5);
/// Most looks at one thing; `scripts/run-tests.py` holds each test to two repeats.
const LOOKS: usize = 3;

/// Watches the machine from a thread that only sleeps and wakes.
pub(crate) struct MachineWatch {
    /// By how much the ticker woke too late at most, microseconds.
    latest: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    ticker: Option<JoinHandle<()>>,
    steal: u64,
}

impl MachineWatch {
    pub(crate) fn start() -> Self {
        let (latest, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (written, stopped) = (Arc::clone(&latest), Arc::clone(&stop));
        let ticker = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let slept = Instant::now();
                thread::sleep(TICK);
                let late = slept.elapsed().saturating_sub(TICK);
                written.fetch_max(late.as_micros() as u64, Ordering::Relaxed);
            }
        });
        Self { latest, stop, ticker: Some(ticker), steal: steal() }
    }

    /// By how much the ticker woke too late at most.
    fn latest(&self) -> Duration {
        Duration::from_micros(self.latest.load(Ordering::Relaxed))
    }

    /// What kept the machine from running this process since the watch began; absent if nothing did.
    pub(crate) fn disturbance(&self) -> Option<String> {
        let (latest, steal) = (self.latest(), steal().saturating_sub(self.steal));
        match (latest >= LATE, steal > 0) {
            (true, _) => Some(format!("a sleeper woke {} ms late", latest.as_millis())),
            (_, true) => Some(format!("the hypervisor took {steal} ticks")),
            _ => None,
        }
    }
}

impl Drop for MachineWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(ticker) = self.ticker.take() {
            let _ = ticker.join();
        }
    }
}

/// Time that the hypervisor took from all CPUs, in ticks (proc(5)); 0 where the kernel does not say.
fn steal() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    stat.lines().next().and_then(|cpus| cpus.split_whitespace().nth(8)?.parse().ok()).unwrap_or(0)
}

/// Looks until what is looked for is seen. Looks again only if something kept the machine from running the test.
pub(crate) fn retry_if_disturbed<T>(look: impl Fn() -> Result<T, String>) -> T {
    let mut complaints = Vec::new();
    loop {
        let watch = MachineWatch::start();
        let complaint = match look() {
            Ok(seen) => return seen,
            Err(complaint) => complaint,
        };
        let Some(disturbance) = watch.disturbance() else {
            complaints.push(complaint);
            panic!("the machine was not disturbed: {complaints:#?}");
        };
        complaints.push(format!("{disturbance}: {complaint}"));
        assert!(
            complaints.len() < LOOKS,
            "inconclusive, as the machine was disturbed in every look: {complaints:#?}"
        );
        note_retry(&complaints[complaints.len() - 1]);
    }
}

/// Runs `work` on a thread of its own, and fails if it takes longer than `most` although the machine ran all the time.
pub(crate) fn unless_it_hangs<T: Send + 'static>(
    most: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (send, receive) = mpsc::channel();
    let working = thread::spawn(move || {
        let _ = send.send(work());
    });
    loop {
        let watch = MachineWatch::start();
        match receive.recv_timeout(most) {
            Ok(result) => return result,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                std::panic::resume_unwind(working.join().expect_err("it sends unless it panics"))
            }
            // Waking milliseconds late does not explain minutes.
            Err(mpsc::RecvTimeoutError::Timeout) if watch.latest() > most / 2 => {
                note_retry(&format!("waits on: a sleeper woke {:?} late", watch.latest()));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!(
                    "it hangs: nothing in {most:?}, while a sleeper woke {:?} late at most",
                    watch.latest()
                )
            }
        }
    }
}

/// Notes that the test that calls this looks again, where the suite counts such notes.
pub(crate) fn note_retry(reason: &str) {
    let Some(notes) = std::env::var_os("HOPTAX_TEST_NOTES") else { return };
    let thread = thread::current();
    let line = format!("retry {} {}\n", thread.name().unwrap_or("unnamed"), reason.replace('\n', " "));
    let file = std::fs::OpenOptions::new().create(true).append(true).open(notes);
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("notes can be written");
}
