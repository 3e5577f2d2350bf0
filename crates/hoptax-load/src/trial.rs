//! Runs the phases of a trial in one worker, and communicates with the thread that started the worker.

use crate::clock;
use crate::codec::Codec;
use crate::event_loop::EventLoop;
use crate::pacer::{Pacer, Share};
use crate::recorder::Tally;
use crate::worker::{Source, Worker};
use hoptax_format::clock::{MILLISECOND, SECOND, thread_cpu};
use hoptax_format::record::Window;
use hoptax_format::spec::{self, HttpVersion, LoadSpec, Rate, Retry, Shape};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Sender;

/// Maximum duration of one sleep of a worker. A worker therefore notices an interrupt within this time.
const LONGEST_SLEEP: u64 = 50 * MILLISECOND;
/// Interval at which a worker checks whether the times of the trial are set.
const AGREEMENT_POLL: u64 = MILLISECOND;
/// Minimum time for opening all connections, even if the connect timeout is shorter.
const LEAST_OPENING: u64 = 10 * SECOND;

/// State that the workers share with the thread that started them.
#[derive(Debug)]
pub(crate) struct Shared<'a> {
    pub(crate) spec: &'a LoadSpec,
    /// Number of workers, of all parts of the load. It can be lower than the spec requests.
    pub(crate) workers: u32,
    /// The times of the trial. Empty until they are set. If they are set to `None`, there will be no traffic.
    pub(crate) times: OnceLock<Option<TrialTimes>>,
    pub(crate) interrupt: &'a AtomicBool,
    /// Number of hopeless workers ([`Worker::is_hopeless`]).
    pub(crate) hopeless: AtomicU32,
}

/// Times of a trial, the same for all workers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrialTimes {
    /// Start of the warm-up.
    pub(crate) traffic: u64,
    /// Start of the measured time.
    pub(crate) start: u64,
    /// Latest possible end of the measured time.
    pub(crate) end: u64,
}

#[derive(Debug)]
pub(crate) enum Message {
    /// The worker has stopped opening connections. `established` connections are open.
    Opened {
        established: u64,
        error: Option<String>,
    },
    Measured {
        ended: u64,
    },
    /// The worker has failed. Its result contains the reason.
    Failed,
}

/// Channels from a worker to the thread that started it.
#[derive(Debug, Clone)]
pub(crate) struct Reports {
    /// Channel for messages. Each message wakes the receiving thread.
    pub(crate) messages: Sender<Message>,
    /// Channel for windows that have ended, with their numbers. Present if windows are reported. The receiver
    /// polls this channel. If it were woken instead, the worker would lose time for a system call, and CPU
    /// time if both share a CPU.
    pub(crate) windows: Option<Sender<(u64, Window)>>,
}

impl Reports {
    /// If windows are reported, sends all windows before window `index`. Sending cannot fail while workers
    /// run, because the receiver lives longer than the workers.
    fn report_windows<C: Codec>(&self, worker: &mut Worker<'_, C>, index: u64, keep: bool) {
        if let Some(windows) = &self.windows {
            worker.recorder.report_windows(index, keep, |number, window| {
                let _ = windows.send((number, window));
            });
        }
    }
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    pub(crate) ended: u64,
    /// CPU time of the worker during the measured time, nanoseconds.
    pub(crate) cpu: u64,
    pub(crate) early: Option<Early>,
}

/// Why a trial ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Early {
    Interrupted,
    GaveUp,
}

impl Shared<'_> {
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// True if all workers of this generator are hopeless ([`Worker::is_hopeless`]). `counted` is true while
    /// this worker is counted as hopeless.
    fn all_hopeless<C: Codec>(&self, worker: &Worker<'_, C>, counted: &mut bool) -> bool {
        if !self.spec.gives_up {
            return false;
        }
        if !*counted && worker.is_hopeless() {
            *counted = true;
            self.hopeless.fetch_add(1, Ordering::Relaxed);
        } else if *counted && worker.has_response() {
            *counted = false;
            self.hopeless.fetch_sub(1, Ordering::Relaxed);
        }
        self.hopeless.load(Ordering::Relaxed) >= self.spec.own_workers()
    }

    /// The share that worker `index` has of `total`. Indexes count the workers of all parts.
    pub(crate) fn share(&self, total: u64, index: u32) -> u64 {
        spec::share(total, index, self.workers)
    }

    fn source(&self, times: TrialTimes, index: u32) -> Source {
        let spec = self.spec;
        match &spec.shape {
            Shape::Closed => Source::Closed {
                start: times.start,
                end: times.end,
                limit: spec.requests.map_or(u64::MAX, |requests| self.share(requests, index)),
            },
            Shape::Open { rate, arrivals } => {
                let share = Share { worker: index, workers: self.workers };
                let warmup = Rate::Fixed(rate.of_warmup());
                // The measured time has its own pacer, so that its requests do not depend on the length of
                // the warm-up. Requests that are still due from the warm-up are sent first.
                let pacer = |rate, seed, times, limit| {
                    Box::new(Pacer::new((rate, *arrivals), share, seed, times, limit))
                };
                Source::Open {
                    warmup: pacer(&warmup, !spec.seed, (times.traffic, times.start), None),
                    measured: pacer(rate, spec.seed, (times.start, times.end), spec.requests),
                }
            }
        }
    }
}

/// Runs all phases of a trial in one worker. `index` is the number of the worker, counted over all parts of
/// the load.
///
/// # Errors
/// If the event loop fails.
pub(crate) fn run<L: EventLoop, C: Codec>(
    mut worker: Worker<'_, C>,
    io: &mut L,
    index: u32,
    shared: &Shared<'_>,
    reports: &Reports,
) -> io::Result<Outcome> {
    open(&mut worker, io, shared)?;
    let error = worker.connect_error.clone();
    // Sending cannot fail, because the receiver lives longer than all workers.
    let _ = reports.messages.send(Message::Opened { established: worker.established_count(), error });
    let Some(times) = agreed(&mut worker, io, shared)? else {
        let now = clock::now();
        worker.recorder.measure(now, now);
        return Ok(Outcome {
            tally: worker.recorder.finish(now),
            ended: now,
            cpu: 0,
            early: Some(Early::Interrupted),
        });
    };
    let (ended, cpu, early) = measure(&mut worker, io, (index, shared, reports), times)?;
    let _ = reports.messages.send(Message::Measured { ended });
    worker.set_source(Source::Quiet);
    worker.end_endless(io, early.is_none());
    if early.is_none() {
        drain(&mut worker, io, shared, ended)?;
    }
    worker.record_unfinished();
    Ok(Outcome { tally: worker.finish(ended), ended, cpu, early })
}

/// Phase `Connecting`: opens all connections, or stops at a time limit.
fn open<L: EventLoop, C: Codec>(
    worker: &mut Worker<'_, C>,
    io: &mut L,
    shared: &Shared<'_>,
) -> io::Result<()> {
    let give_up = clock::now().saturating_add(shared.spec.timeouts.connect_ns.max(LEAST_OPENING));
    worker.open_all();
    loop {
        let now = clock::now();
        if worker.is_settled(now) || now >= give_up || shared.is_interrupted() {
            return Ok(());
        }
        worker.turn(io, now, give_up.min(now + LONGEST_SLEEP))?;
    }
}

/// Waits until the times of the trial are set, and then for the start of traffic.
fn agreed<L: EventLoop, C: Codec>(
    worker: &mut Worker<'_, C>,
    io: &mut L,
    shared: &Shared<'_>,
) -> io::Result<Option<TrialTimes>> {
    loop {
        let now = clock::now();
        let until = match shared.times.get() {
            None => now + AGREEMENT_POLL,
            Some(None) => return Ok(None),
            Some(Some(times)) if now >= times.traffic => return Ok(Some(*times)),
            Some(Some(times)) => times.traffic,
        };
        worker.turn(io, now, until)?;
    }
}

/// Runs the warm-up and the measured time. Returns the end of the measured time, the CPU time used in it, and
/// why the trial ended early, if it did.
///
/// The measured time ends at its latest end or at an interrupt. If the number of requests is limited, it also
/// ends when the last request has its outcome. The returned end is the first nanosecond after the measured
/// time.
fn measure<L: EventLoop, C: Codec>(
    worker: &mut Worker<'_, C>,
    io: &mut L,
    (index, shared, reports): (u32, &Shared<'_>, &Reports),
    times: TrialTimes,
) -> io::Result<(u64, u64, Option<Early>)> {
    let limit = shared.spec.requests.map(|requests| shared.share(requests, index));
    let established = worker.established_count();
    worker.recorder.established(established);
    worker.recorder.measure(times.start, times.end);
    worker.set_source(shared.source(times, index));
    let mut cpu_at_start = None;
    let keep = shared.spec.windows;
    let window_ns = shared.spec.window_length();
    let mut window_ends =
        if reports.windows.is_some() { times.start.saturating_add(window_ns) } else { u64::MAX };
    let (mut is_hopeless, mut turned) = (false, None);
    let (ended, early) = loop {
        let now = clock::now();
        if let Some(before) = turned.replace(now).filter(|before| *before >= times.start) {
            worker.recorder.turned(now - before);
        }
        if now >= times.start && cpu_at_start.is_none() {
            worker.adopt_endless();
            cpu_at_start = Some(thread_cpu());
        }
        if now >= times.end {
            break (times.end, None);
        }
        if now >= window_ends {
            let index = (now - times.start) / window_ns;
            reports.report_windows(worker, index, keep);
            window_ends = times.start + (index + 1) * window_ns;
        }
        if shared.is_interrupted() {
            break (if now < times.start { times.start } else { now + 1 }, Some(Early::Interrupted));
        }
        if now >= times.start && shared.all_hopeless(worker, &mut is_hopeless) {
            break (now + 1, Some(Early::GaveUp));
        }
        let resolved =
            |limit| worker.recorder.scheduled_so_far() >= limit && worker.recorder.outstanding() == 0;
        if now >= times.start && limit.is_some_and(resolved) {
            break ((worker.recorder.last_outcome() + 1).max(times.start), None);
        }
        let edge = if now < times.start { times.start } else { times.end };
        worker.turn(io, now, edge.min(window_ends).min(now + LONGEST_SLEEP))?;
    };
    let cpu = cpu_at_start.map_or(0, |start| thread_cpu() - start);
    worker.recorder.measured_until(ended);
    reports.report_windows(worker, (ended - times.start).div_ceil(window_ns), keep);
    // Requests that were due before the end, but were never assigned to a connection.
    let unsent = worker.due_unsent(ended);
    worker.recorder.left_unsent(unsent);
    Ok((ended, cpu, early))
}

/// Phase `Draining`: waits for outstanding responses. The time limit is the sum of the timeout of a connect
/// and of the longest response. With retries, it is twice as long, because a request can be sent twice.
fn drain<L: EventLoop, C: Codec>(
    worker: &mut Worker<'_, C>,
    io: &mut L,
    shared: &Shared<'_>,
    ended: u64,
) -> io::Result<()> {
    let (timeouts, connects) = (shared.spec.timeouts, 1 + u64::from(shared.spec.tls.is_some()));
    let connecting = timeouts.connect_ns.saturating_mul(connects);
    let patience = connecting.saturating_add(shared.spec.longest_response());
    let sends_again = shared.spec.retry == Retry::IdleClose || shared.spec.http == HttpVersion::Http2;
    let attempts = 1 + u64::from(sends_again);
    let give_up = ended.saturating_add(patience.saturating_mul(attempts));
    loop {
        let now = clock::now();
        worker.leave_unsent();
        if worker.active() == 0 || shared.is_interrupted() {
            return Ok(());
        }
        worker.turn(io, now, give_up.min(now + LONGEST_SLEEP))?;
        // This check is after the turn, so that timeouts that expire at this moment still count as timeouts.
        if now >= give_up {
            return Ok(());
        }
    }
}
