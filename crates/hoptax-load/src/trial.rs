//! One worker's way through the phases of a trial, and the little that it shares with the thread that started it.

use crate::clock::{self, MILLISECOND, SECOND};
use crate::event_loop::EventLoop;
use crate::pacer::{Pacer, Share};
use crate::recorder::Tally;
use crate::spec::{LoadSpec, Shape};
use crate::worker::{Source, Worker};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

/// Longest sleep: how late an interrupt may be seen.
const LONGEST_SLEEP: u64 = 50 * MILLISECOND;
/// How often the agreed times are asked for while there are none.
const AGREEMENT_POLL: u64 = MILLISECOND;
/// Least time given to the opening of connections, however short the timeout.
const LEAST_OPENING: u64 = 10 * SECOND;

/// What is agreed between the workers and the thread that started them.
#[derive(Debug)]
pub(crate) struct Shared<'a> {
    pub(crate) spec: &'a LoadSpec,
    /// Workers, which may be fewer than asked for.
    pub(crate) workers: u32,
    /// When traffic begins; `None`: never.
    pub(crate) times: OnceLock<Option<TrialTimes>>,
    pub(crate) interrupt: &'a AtomicBool,
}

/// Moments that hold for all workers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrialTimes {
    /// The warm-up begins.
    pub(crate) traffic: u64,
    /// The measured time begins.
    pub(crate) start: u64,
    /// It ends, at the latest.
    pub(crate) end: u64,
}

/// What a worker tells while it goes on.
#[derive(Debug)]
pub(crate) enum News {
    /// Its connections stand, or will not.
    Opened { standing: u64, error: Option<String> },
    /// Its measured time is over.
    Measured { ended: u64 },
    /// It cannot go on; its result says why.
    Failed,
}

/// What a worker leaves behind.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    pub(crate) ended: u64,
    /// CPU time over the measured time.
    pub(crate) cpu: u64,
    pub(crate) interrupted: bool,
}

impl Shared<'_> {
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// How many of `total` fall to worker `index`.
    pub(crate) fn share(&self, total: u64, index: u32) -> u64 {
        let workers = u64::from(self.workers);
        total / workers + u64::from(u64::from(index) < total % workers)
    }

    /// Where worker `index` takes its requests from.
    fn source(&self, times: TrialTimes, index: u32) -> Source {
        let spec = self.spec;
        match &spec.shape {
            Shape::Closed => Source::Closed {
                start: times.start,
                end: times.end,
                limit: spec.requests.map_or(u64::MAX, |requests| self.share(requests, index)),
            },
            Shape::Open { rate, arrivals } => {
                let (rate, arrivals) = (rate.mean(), *arrivals);
                let share = Share { worker: index, workers: self.workers };
                // The measured time has a pacer of its own, so that its requests do not hang on the warm-up's length;
                // what the warm-up leaves in line still goes first.
                let pacer =
                    |seed, times, limit| Box::new(Pacer::new((rate, arrivals), share, seed, times, limit));
                Source::Open {
                    warmup: pacer(!spec.seed, (times.traffic, times.start), None),
                    measured: pacer(spec.seed, (times.start, times.end), spec.requests),
                }
            }
        }
    }
}

/// Takes a worker through all phases.
///
/// # Errors
/// If the event loop breaks.
pub(crate) fn run<L: EventLoop>(
    mut worker: Worker<'_>,
    io: &mut L,
    index: u32,
    shared: &Shared<'_>,
    news: &Sender<News>,
) -> io::Result<Outcome> {
    open(&mut worker, io, shared)?;
    let error = worker.connect_error.clone();
    // The receiver outlives all workers; if it does not, nobody is left to care.
    let _ = news.send(News::Opened { standing: worker.standing(), error });
    let Some(times) = agreed(&mut worker, io, shared)? else {
        let now = clock::now();
        worker.recorder.measure(now, now);
        return Ok(Outcome { tally: worker.recorder.finish(now), ended: now, cpu: 0, interrupted: true });
    };
    let (ended, cpu, interrupted) = measure(&mut worker, io, index, shared, times)?;
    let _ = news.send(News::Measured { ended });
    worker.set_source(Source::Quiet);
    if !interrupted {
        drain(&mut worker, io, shared, ended)?;
    }
    worker.leave_over();
    Ok(Outcome { tally: worker.finish(ended), ended, cpu, interrupted })
}

/// Connecting: opens all connections, within bounds.
fn open<L: EventLoop>(worker: &mut Worker<'_>, io: &mut L, shared: &Shared<'_>) -> io::Result<()> {
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

/// Waits until it is agreed when traffic begins, and then until it does.
fn agreed<L: EventLoop>(
    worker: &mut Worker<'_>,
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

/// Warm-up and measured time. Returns when that ended, the CPU time it took, and whether it was cut short.
///
/// It ends at its agreed end; when the last of a limited number of requests has its outcome; or at an interrupt. The
/// end is the first moment that is not part of it.
fn measure<L: EventLoop>(
    worker: &mut Worker<'_>,
    io: &mut L,
    index: u32,
    shared: &Shared<'_>,
    times: TrialTimes,
) -> io::Result<(u64, u64, bool)> {
    let limit = shared.spec.requests.map(|requests| shared.share(requests, index));
    let standing = worker.standing();
    worker.recorder.established(standing);
    worker.recorder.measure(times.start, times.end);
    worker.set_source(shared.source(times, index));
    let mut cpu_at_start = None;
    let (ended, interrupted) = loop {
        let now = clock::now();
        if now >= times.start && cpu_at_start.is_none() {
            cpu_at_start = Some(clock::thread_cpu());
        }
        if now >= times.end {
            break (times.end, false);
        }
        if shared.is_interrupted() {
            break (if now < times.start { times.start } else { now + 1 }, true);
        }
        let resolved =
            |limit| worker.recorder.scheduled_so_far() >= limit && worker.recorder.outstanding() == 0;
        if now >= times.start && limit.is_some_and(resolved) {
            break ((worker.recorder.last_outcome() + 1).max(times.start), false);
        }
        let edge = if now < times.start { times.start } else { times.end };
        worker.turn(io, now, edge.min(now + LONGEST_SLEEP))?;
    };
    let cpu = cpu_at_start.map_or(0, |start| clock::thread_cpu() - start);
    worker.recorder.measured_until(ended);
    // Due before the end, but no connection was free to take it.
    let in_line = worker.in_line(ended);
    worker.recorder.left_in_line(in_line);
    Ok((ended, cpu, interrupted))
}

/// Draining: waits for what is under way, at most as long as a connect and a response may take.
fn drain<L: EventLoop>(
    worker: &mut Worker<'_>,
    io: &mut L,
    shared: &Shared<'_>,
    ended: u64,
) -> io::Result<()> {
    let (timeouts, connects) = (shared.spec.timeouts, 1 + u64::from(shared.spec.tls.is_some()));
    let patience = timeouts.connect_ns.saturating_mul(connects).saturating_add(timeouts.total_ns);
    let give_up = ended.saturating_add(patience);
    loop {
        let now = clock::now();
        if worker.under_way() == 0 || shared.is_interrupted() {
            return Ok(());
        }
        worker.turn(io, now, give_up.min(now + LONGEST_SLEEP))?;
        // Looked at after the turn, so that a timeout which runs out at this very moment is still one.
        if now >= give_up {
            return Ok(());
        }
    }
}
