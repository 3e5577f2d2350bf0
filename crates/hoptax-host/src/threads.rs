//! Threads that run event loops until they are stopped. The instances of the upstream and the workers of the
//! hops are such threads.

use anyhow::Context as _;
use hoptax_format::Address;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::net::TcpStream;
use std::num::NonZeroU64;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Threads, each with a listener. When this value is dropped, all threads are stopped and joined.
#[derive(Debug)]
pub struct Threads {
    running: Vec<(Address, JoinHandle<()>)>,
    stop: Stop,
    /// Channel for the messages that end [`Threads::wait`]. A message is the error of a thread, or `None` for
    /// a signal.
    news: (Sender<Option<io::Error>>, Receiver<Option<io::Error>>),
}

/// Flag that asks a thread to stop. A connection to the thread's listener wakes the thread, so that it checks
/// the flag.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether the thread should stop.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Maximum number of connections that are opened to wake one thread. Several attempts can be necessary: if
/// `n` threads listen on one address, each connection reaches the right thread only with probability `1/n`.
const WAKE_ATTEMPTS: u32 = 2000;

impl Default for Threads {
    fn default() -> Self {
        Self { running: Vec::new(), stop: Stop::default(), news: channel() }
    }
}

impl Threads {
    /// Runs `work` on a new thread that is pinned to `cpu` and listens on `address`. `work` must check
    /// [`Stop::asked`] after each connection that it accepts.
    pub fn spawn(
        &mut self,
        name: &str,
        address: impl Into<Address>,
        cpu: Option<u32>,
        work: impl FnOnce(&Stop) -> io::Result<()> + Send + 'static,
    ) -> anyhow::Result<()> {
        let (stop, news) = (self.stop.clone(), self.news.0.clone());
        let body = move || {
            if let Err(error) = cpu.map_or(Ok(()), pin).and_then(|()| work(&stop)) {
                // Sending fails while all threads are being stopped, because nobody receives errors then.
                let _ = news.send(Some(error));
            }
        };
        let thread = Builder::new().name(name.to_owned()).spawn(body).context("cannot start a thread")?;
        self.running.push((address.into(), thread));
        Ok(())
    }

    /// Waits until a signal asks the process to stop.
    ///
    /// # Errors
    /// If a thread ends by itself first.
    pub fn wait(&self, StopSignals(mut signals): StopSignals) -> anyhow::Result<()> {
        let handle = signals.handle();
        let news = self.news.0.clone();
        std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                let _ = news.send(None);
            }
        });
        let first = self.news.1.recv();
        handle.close();
        match first {
            Ok(Some(error)) => Err(error).context("the event loop failed"),
            Ok(None) | Err(_) => Ok(()),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.0.store(true, Ordering::Relaxed);
        for (address, thread) in self.running.drain(..) {
            for attempt in 0..WAKE_ATTEMPTS {
                if thread.is_finished() {
                    break;
                }
                wake(&address, Duration::from_millis(100));
                // Let the woken thread use the CPU.
                std::thread::sleep(Duration::from_micros(u64::from(attempt.min(20)) * 50));
            }
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

/// Opens a connection and closes it, so that the thread which listens on `address` wakes up. Waits at most
/// `limit` for a TCP connection.
pub fn wake(address: &Address, limit: Duration) {
    match address {
        Address::Tcp(address) => drop(TcpStream::connect_timeout(address, limit)),
        Address::Unix(path) => drop(UnixStream::connect(path)),
    }
}

/// Catches SIGTERM and SIGINT from the moment when this value is created.
#[derive(Debug)]
pub struct StopSignals(Signals);

impl StopSignals {
    /// Catches the signals. Call this before reporting readiness.
    ///
    /// # Errors
    /// If the handlers cannot be installed.
    pub fn catch() -> anyhow::Result<Self> {
        Ok(Self(Signals::new([SIGTERM, SIGINT]).context("cannot catch signals")?))
    }

    /// Waits for one of the signals.
    pub fn wait(self) {
        let Self(mut signals) = self;
        signals.forever().next();
    }
}

/// Returns a flag that the first of these `signals` sets. The second one ends the process at once, with
/// status 128 + its number.
///
/// A single thread counts the signals. Handlers of two signals can run at the same moment, and then each
/// would take its signal for the first.
///
/// # Errors
/// If the handlers cannot be installed.
pub fn interrupt_flag(signals: &[i32]) -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new(signals)?;
    let raised = Arc::clone(&flag);
    let count = move || {
        loop {
            let pending: Vec<i32> = signals.wait().collect();
            let first = usize::from(!raised.load(Ordering::Relaxed));
            if let Some(second) = pending.get(first) {
                signal_hook::low_level::exit(128 + second);
            }
            raised.fetch_or(!pending.is_empty(), Ordering::Relaxed);
        }
    };
    Builder::new().name("signals".to_owned()).spawn(count)?;
    Ok(flag)
}

/// Checks that threads can be pinned to `cpus`.
///
/// # Errors
/// If a CPU does not exist or this process may not use it; the error lists the usable CPUs.
pub fn check_cpus(cpus: &[u32]) -> anyhow::Result<()> {
    let allowed = sched_getaffinity(None).context("cannot find out which CPUs this process may use")?;
    match cpus.iter().find(|&&cpu| cpu as usize >= CpuSet::MAX_CPU || !allowed.is_set(cpu as usize)) {
        None => Ok(()),
        Some(cpu) => {
            let usable: Vec<String> =
                (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).map(|cpu| cpu.to_string()).collect();
            anyhow::bail!("CPU {cpu} is not available to this process. Available are: {}", usable.join(","))
        }
    }
}

fn pin(cpu: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    Ok(sched_setaffinity(None, &set)?)
}

/// Makes the calling thread's sleeps end on time. By default the kernel adds up to 50 µs to each sleep
/// (`PR_SET_TIMERSLACK`), which would lengthen planted delays.
pub fn sleep_precisely() {
    // If this fails, delays are longer by the timer slack.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}
