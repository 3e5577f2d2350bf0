//! Distinguishes a slow machine from a faulty engine. A test that depends on time may be repeated if the
//! machine was disturbed. If the machine was not disturbed, the test must fail at once.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(1);
/// If the thread that observes the machine wakes this late, it did not get a CPU in time. The engine was then
/// possibly delayed as well.
const LATE: Duration = Duration::from_millis(5);
/// Maximum number of attempts. `scripts/run-tests.py` also allows two repeats for each test.
const LOOKS: usize = 3;

/// Observes the machine with a thread that repeatedly sleeps for a short time.
pub(crate) struct MachineWatch {
    /// Maximum delay of this thread's wake-ups so far, microseconds.
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

    fn latest(&self) -> Duration {
        Duration::from_micros(self.latest.load(Ordering::Relaxed))
    }

    /// Describes how the machine was disturbed since the start. Returns `None` if it was not disturbed.
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

/// Time that the hypervisor took from all CPUs, in ticks (proc(5)), or 0 if the kernel does not report it.
fn steal() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    stat.lines().next().and_then(|cpus| cpus.split_whitespace().nth(8)?.parse().ok()).unwrap_or(0)
}

/// Calls `look` until it succeeds. Retries only if the machine was disturbed, and panics otherwise.
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
            "inconclusive, because the machine was disturbed in every attempt: {complaints:#?}"
        );
        note_retry(&complaints[complaints.len() - 1]);
    }
}

/// Runs `work` on its own thread. Panics if it takes longer than `most` although the machine was not
/// disturbed.
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
            // Continue to wait only if the thread that observes the machine was also delayed for long. A
            // delay of a few milliseconds does not explain a timeout of minutes.
            Err(mpsc::RecvTimeoutError::Timeout) if watch.latest() > most / 2 => {
                note_retry(&format!("keeps waiting: a sleeper woke {:?} late", watch.latest()));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!(
                    "it hangs: no result in {most:?}, while a sleeper woke at most {:?} late",
                    watch.latest()
                )
            }
        }
    }
}

/// Writes a note that the calling test was retried. Writes nothing if the test runner names no file for such
/// notes.
pub(crate) fn note_retry(reason: &str) {
    let Some(notes) = std::env::var_os("HOPTAX_TEST_NOTES") else { return };
    let thread = thread::current();
    let line = format!("retry {} {}\n", thread.name().unwrap_or("unnamed"), reason.replace('\n', " "));
    let file = std::fs::OpenOptions::new().create(true).append(true).open(notes);
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("notes can be written");
}
