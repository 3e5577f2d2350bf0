//! The generator starts the workers, sets the times of the trial for all of them, and merges their results
//! into one record.

use crate::clock;
use crate::codec::{Codec, Http1, Http2};
use crate::error::LoadError;
use crate::event_loop::Epoll;
use crate::limits;
use crate::pacer::{self, LARGEST_JITTER};
use crate::recorder::occupancy;
use crate::recorder::{Handshakes, Recorder, Tally};
use crate::target::{Mix, Protocol};
use crate::tls::{self, TlsToProxy};
use crate::trial::{self, Early, Message, Outcome, Reports, Shared, TrialTimes};
use crate::tunnel;
use crate::worker::{Setup, Spin, Worker};
use hoptax_format::clock::{MILLISECOND, thread_cpu, unix};
use hoptax_format::histogram::Encoded;
use hoptax_format::record::{
    EVENT_LOOP, GeneratorCpu, Histograms, Http2Tally, LoadRecord, Phase, PhaseLine, RECORD_SCHEMA,
    StampTally, Window,
};
use hoptax_format::spec::{
    Arrivals, Check, HttpVersion, LoadPart, LoadSpec, MOST_IN_FLIGHT, SPEC_SCHEMA, Shape,
};
use hoptax_format::stamp::ClockId;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// Time between setting the times of the trial and the first request. It is long enough for every worker to
/// read these times.
const LEAD: u64 = 5 * MILLISECOND;
/// Shortest window, ns. Shorter windows would use up the memory of a long load.
const SHORTEST_WINDOW: u64 = MILLISECOND;
/// Interval at which the starting thread checks that its workers are running.
const LOOK: u64 = 50 * MILLISECOND;
/// Delay after the end of a window until the starting thread collects it from the workers.
const AFTER_WINDOW: u64 = 10 * MILLISECOND;

/// Selects which progress is reported during a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Reports each phase when it begins.
    Phases,
    /// Reports each phase when it begins, and the windows of each worker when they end.
    ///
    /// Each window is reported once, in order, between [`Phase::Measuring`] and [`Phase::Draining`]. This
    /// includes the last window, which can be shorter than the others. A window is reported about 10 ms after
    /// its end, or about 60 ms if a worker is late. If the spec records no windows, they are still reported,
    /// but the record does not contain them.
    Windows,
}

/// Progress of a running generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A phase has begun.
    Phase(PhaseLine),
    /// Window `index` (from 0) of the measured time has ended in one worker. The receiver adds up the windows
    /// of all workers. Reported only with [`Watch::Windows`].
    Window {
        /// Index of the window.
        index: u64,
        /// This worker's part of the window.
        window: Window,
    },
}

/// Runs `spec`, and calls `observe` with the progress that `watch` selects. A trial without warm-up has no
/// [`Phase::Warmup`].
///
/// Setting `interrupt` to true ends the trial within 50 ms, without waiting for requests in flight. The
/// record is then marked as interrupted.
///
/// # Errors
/// If the spec is invalid, if the machine lacks a resource that the load needs, or if no connection can be
/// opened.
pub fn run(
    spec: &LoadSpec,
    interrupt: &AtomicBool,
    watch: Watch,
    observe: impl FnMut(Progress),
) -> Result<LoadRecord, LoadError> {
    run_from(spec, interrupt, watch, None, observe)
}

/// Like [`run`], for a part of a load. When all connections are open, reports [`Phase::Connected`], and waits
/// for the time at which all parts begin to send. This time, on the clock of [`clock::now`], arrives in
/// `start`.
///
/// # Errors
/// The errors of [`run`]. Also if the start time has already passed when it arrives, or if `start` is closed
/// before it arrives.
pub fn run_part(
    spec: &LoadSpec,
    interrupt: &AtomicBool,
    watch: Watch,
    start: &Receiver<u64>,
    observe: impl FnMut(Progress),
) -> Result<LoadRecord, LoadError> {
    run_from(spec, interrupt, watch, Some(start), observe)
}

fn run_from(
    spec: &LoadSpec,
    interrupt: &AtomicBool,
    watch: Watch,
    start: Option<&Receiver<u64>>,
    mut observe: impl FnMut(Progress),
) -> Result<LoadRecord, LoadError> {
    check(spec)?;
    let protocol = Protocol {
        version: spec.http,
        per_connection: spec.requests_per_connection,
        secure: spec.tls.is_some(),
    };
    let mix = Mix::new(&spec.targets, &spec.files, spec.seed, protocol)
        .map_err(|error| LoadError::Spec(error.to_string()))?;
    let tls = spec.tls.as_ref().map(tls::Client::new).transpose()?;
    let tunnel = spec.tunnel.as_ref().map(tunnel::request);
    let proxy = spec.tunnel.as_ref().and_then(|tunnel| tunnel.tls.as_ref());
    let proxy = proxy.map(tls::Client::new).transpose()?;
    let spare = limits::make_room_for(spec.own_connections())?;
    let workers = spec.own_workers();
    let shared = Shared {
        spec,
        workers: spec.all_workers(),
        times: OnceLock::new(),
        interrupt,
        hopeless: AtomicU32::new(0),
    };
    let setup = Setup {
        addresses: &spec.addresses,
        sources: &spec.sources,
        mix: &mix,
        streams: spec.streams,
        tls: tls.as_ref(),
        // With TLS to the proxy, [`TlsToProxy`] sends this header, because the header comes before TLS.
        proxy_protocol: spec.proxy_protocol.filter(|_| proxy.is_none()),
        tunnel: tunnel.as_deref(),
        most_leaving: usize::try_from(spare / u64::from(workers)).unwrap_or(usize::MAX),
        timeouts: spec.timeouts,
        retry: spec.retry,
        spin: Spin::of(spec),
        stamps: spec.stamps,
    };
    let (send, messages) = mpsc::channel();
    let (send_windows, windows) = (watch == Watch::Windows).then(mpsc::channel).unzip();
    let reports = Reports { messages: send, windows: send_windows };
    observe(phase(Phase::Connecting, clock::now()));
    thread::scope(|scope| {
        let mut handles = Vec::new();
        for index in 0..workers {
            let (shared, setup, reports) = (&shared, &setup, reports.clone());
            let proxy = proxy.as_ref();
            let body = move || work(index, setup, proxy, shared, &reports);
            match thread::Builder::new().name(format!("worker-{index}")).spawn_scoped(scope, body) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    let _ = shared.times.set(None);
                    return Err(LoadError::Thread(error));
                }
            }
        }
        let conducted =
            Conductor { shared: &shared, start, messages, windows, handles: &handles }.conduct(&mut observe);
        // Release the workers that are still waiting for the times.
        let _ = shared.times.set(None);
        let mut outcomes = Vec::new();
        for handle in handles {
            outcomes.push(handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(merge(spec, &mix, conducted?, outcomes))
    })
}

/// Runs one worker. `proxy` has the TLS settings of the connections to a proxy, if they use TLS.
fn work(
    index: u32,
    setup: &Setup<'_>,
    proxy: Option<&tls::Client>,
    shared: &Shared<'_>,
    reports: &Reports,
) -> Result<Outcome, LoadError> {
    let outcome = prepare(index, shared.spec).and_then(|()| {
        let index = shared.spec.place(index);
        let connections = shared.share(u64::from(shared.spec.connections), index) as u32;
        let windows = shared.spec.windows || reports.windows.is_some();
        let streams = shared.spec.http == HttpVersion::Http2;
        let recorder =
            Recorder::new(windows, setup.mix.len()).with_stamps(setup.stamps).with_streams(streams);
        let talks = || setup.mix.targets().filter_map(|target| target.stream.as_ref());
        let has_fan_out = talks().any(|stream| stream.spec.fan_out);
        let recorder = recorder.with_messages(talks().next().is_some()).with_reach(has_fan_out);
        let recorder = recorder.with_tokens(talks().any(|stream| stream.spec.tokens.is_some()));
        let most = shared.spec.moments.map(|most| most.div_ceil(shared.spec.own_workers()));
        let recorder = recorder.with_moments(most);
        let recorder = recorder.with_window_length(shared.spec.window_length());
        let place = (index, shared.workers);
        match streams {
            false => {
                let worker = Worker::<Http1>::new(setup, place, connections, recorder);
                run_on(worker, connections, index, proxy, shared, reports)
            }
            true => {
                let worker = Worker::<Http2>::new(setup, place, connections, recorder);
                run_on(worker, connections, index, proxy, shared, reports)
            }
        }
        .map_err(LoadError::EventLoop)
    });
    if outcome.is_err() {
        // Sending fails only if another worker has already failed.
        let _ = reports.messages.send(Message::Failed);
    }
    outcome
}

/// Runs a worker on the event loop that its connections need.
fn run_on<C: Codec>(
    worker: Worker<'_, C>,
    connections: u32,
    index: u32,
    proxy: Option<&tls::Client>,
    shared: &Shared<'_>,
    reports: &Reports,
) -> io::Result<Outcome> {
    // After the trial, the connections are reset. Closed connections would keep their ports in TIME_WAIT, and
    // a trial with thousands of them would leave too few ports for the next trial.
    match proxy {
        None => {
            let mut io = Epoll::new()?;
            let outcome = trial::run(worker, &mut io, index, shared, reports);
            io.reset_all();
            outcome
        }
        Some(client) => {
            let mut io = TlsToProxy::new(client, connections as usize, shared.spec.proxy_protocol)?;
            let outcome = trial::run(worker, &mut io, index, shared, reports);
            io.reset_all();
            outcome
        }
    }
}

fn prepare(index: u32, spec: &LoadSpec) -> Result<(), LoadError> {
    limits::minimize_timer_slack();
    match spec.cpus.as_slice() {
        [] => Ok(()),
        cpus => {
            let cpu = cpus[index as usize % cpus.len()];
            limits::pin_to(cpu).map_err(|source| LoadError::Pin { cpu, source })
        }
    }
}

/// What the starting thread does while the workers run.
struct Conductor<'a, 'scope> {
    shared: &'a Shared<'a>,
    /// Receives the start time of all parts of a load. Absent if this generator sends the whole load.
    start: Option<&'a Receiver<u64>>,
    messages: Receiver<Message>,
    windows: Option<Receiver<(u64, Window)>>,
    handles: &'a [ScopedJoinHandle<'scope, Result<Outcome, LoadError>>],
}

#[derive(Debug, Clone, Copy)]
struct Conducted {
    times: TrialTimes,
    started_unix: u64,
    /// CPU time of the starting thread during the measured time, in nanoseconds.
    cpu: u64,
}

impl Conductor<'_, '_> {
    fn conduct(&self, observe: &mut impl FnMut(Progress)) -> Result<Conducted, LoadError> {
        let spec = self.shared.spec;
        let (mut established, mut cause) = (0, None);
        for _ in self.handles {
            let Some(Message::Opened { established: more, error }) = self.wait(u64::MAX, 0, &mut *observe)
            else {
                break;
            };
            established += more;
            cause = cause.or(error);
        }
        if established == 0 && !self.shared.is_interrupted() {
            return Err(LoadError::NoConnection {
                asked: spec.own_connections(),
                addresses: spec.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
                cause: cause.unwrap_or_else(|| "the server closed each connection at once".to_owned()),
            });
        }
        let together = match self.start {
            Some(start) => {
                observe(phase(Phase::Connected, clock::now()));
                self.await_start(start)?
            }
            None => None,
        };
        let (now, unix) = (clock::now(), unix());
        let traffic = together.unwrap_or(now + LEAD);
        let start = traffic.saturating_add(spec.warmup_ns);
        let times = TrialTimes { traffic, start, end: start.saturating_add(spec.duration_ns) };
        let started_unix = unix.saturating_add(start - now);
        // The times can already be set here, but only if a worker failed. The workers' results then contain
        // the error.
        let _ = self.shared.times.set(Some(times));
        if spec.warmup_ns > 0 {
            observe(phase(Phase::Warmup, traffic));
        }
        let mut over = Vec::new();
        while over.len() < self.handles.len() && clock::now() < start {
            match self.wait(start, over.len(), &mut *observe) {
                Some(Message::Measured { ended }) => over.push(ended),
                Some(_) => return Ok(Conducted { times, started_unix, cpu: 0 }),
                None => {}
            }
        }
        let cpu = thread_cpu();
        if over.is_empty() {
            observe(phase(Phase::Measuring, start));
        }
        while over.len() < self.handles.len() {
            match self.wait(u64::MAX, over.len(), &mut *observe) {
                Some(Message::Measured { ended }) => over.push(ended),
                _ => break,
            }
        }
        let cpu = thread_cpu() - cpu;
        self.report_windows(&mut *observe);
        observe(phase(Phase::Draining, over.into_iter().max().unwrap_or(start)));
        Ok(Conducted { times, started_unix, cpu })
    }

    /// Waits for the moment at which all parts of the load begin. Returns `None` if a signal arrives or a
    /// worker fails.
    fn await_start(&self, start: &Receiver<u64>) -> Result<Option<u64>, LoadError> {
        loop {
            match start.recv_timeout(Duration::from_nanos(LOOK)) {
                Ok(at) => match clock::now().saturating_sub(at) {
                    0 => return Ok(Some(at)),
                    late_ns => return Err(LoadError::Late { late_ns }),
                },
                Err(RecvTimeoutError::Disconnected) => return Err(LoadError::Alone),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.shared.is_interrupted() || self.handles.iter().any(ScopedJoinHandle::is_finished) {
                return Ok(None);
            }
        }
    }

    /// Waits for the next message, and reports windows while waiting. Returns `None` at the time `until`, or
    /// as soon as more than `over` workers have ended.
    fn wait(&self, until: u64, over: usize, mut observe: impl FnMut(Progress)) -> Option<Message> {
        loop {
            let now = clock::now();
            let message = self
                .messages
                .recv_timeout(Duration::from_nanos(self.look(now).min(until.saturating_sub(now))));
            self.report_windows(&mut observe);
            match message {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    let ended = self.handles.iter().filter(|handle| handle.is_finished()).count();
                    if clock::now() >= until || ended > over {
                        // The worker may have sent a message just before it ended.
                        return self.messages.try_recv().ok();
                    }
                }
            }
        }
    }

    /// Returns how long to sleep. If windows are reported, the thread wakes twice per window: shortly after
    /// the end of each window, and halfway to the end of the next window. This is as often as it wakes when
    /// no windows are reported.
    fn look(&self, now: u64) -> u64 {
        match (&self.windows, self.shared.times.get()) {
            (Some(_), Some(Some(times))) => {
                let phase = times.start.saturating_add(AFTER_WINDOW) % LOOK;
                LOOK - (now + LOOK - phase) % LOOK
            }
            _ => LOOK,
        }
    }

    fn report_windows(&self, mut observe: impl FnMut(Progress)) {
        for (index, window) in self.windows.iter().flat_map(Receiver::try_iter) {
            observe(Progress::Window { index, window });
        }
    }
}

fn phase(phase: Phase, at_ns: u64) -> Progress {
    Progress::Phase(PhaseLine { phase, at_ns })
}

/// Checks `spec`, but not whether this machine can run it. Only the source addresses are checked against this
/// machine. [`run`] calls this function first.
///
/// # Errors
/// [`LoadError::Spec`] with the reason.
pub fn check(spec: &LoadSpec) -> Result<(), LoadError> {
    let wrong = |text: String| Err(LoadError::Spec(text));
    if spec.schema != SPEC_SCHEMA {
        return wrong(format!("schema is {}, but this version of hoptax reads {SPEC_SCHEMA}", spec.schema));
    }
    if spec.addresses.is_empty() {
        return wrong("addresses is empty; give at least one".into());
    }
    if spec.targets.is_empty() {
        return wrong("targets is empty; give at least one".into());
    }
    for (name, value) in [
        ("connections", u64::from(spec.connections)),
        ("streams", u64::from(spec.streams)),
        ("workers", u64::from(spec.workers)),
        ("duration_ns", spec.duration_ns),
        ("timeouts.connect_ns", spec.timeouts.connect_ns),
        ("timeouts.first_byte_ns", spec.timeouts.first_byte_ns),
        ("timeouts.total_ns", spec.timeouts.total_ns),
        ("requests", spec.requests.unwrap_or(1)),
        ("requests_per_connection", u64::from(spec.requests_per_connection.unwrap_or(1))),
    ] {
        if value == 0 {
            return wrong(format!("{name} is 0; give at least 1"));
        }
    }
    check_streams(spec)?;
    check_calls(spec)?;
    if let Some(LoadPart { index, of }) = spec.part {
        if index >= of {
            return wrong(format!(
                "part.index is {index}, but part.of is {of}; give at most {}",
                of.saturating_sub(1)
            ));
        }
        if spec.all_workers() > spec.connections {
            return wrong(format!(
                "connections is {}, but {of} parts have {} workers each; give at least one connection for \
                each worker",
                spec.connections, spec.workers
            ));
        }
    }
    if let Some(tunnel) = &spec.tunnel {
        tunnel::check(tunnel).map_err(LoadError::Spec)?;
    }
    if spec.window_length() < SHORTEST_WINDOW {
        return wrong(format!("window_ns is below {SHORTEST_WINDOW}; give at least 1 ms"));
    }
    route::check(&spec.addresses, &spec.sources).map_err(LoadError::Spec)?;
    if let Shape::Open { rate, arrivals } = &spec.shape {
        if let Some(refusal) = pacer::refusal(rate, spec.duration_ns) {
            return wrong(refusal);
        }
        if let Arrivals::Jitter(share) = arrivals
            && !(0.0..=LARGEST_JITTER).contains(share)
        {
            return wrong(format!("jitter is {share}; give a share of the interval, 0 to {LARGEST_JITTER}"));
        }
    }
    Ok(())
}

fn check_streams(spec: &LoadSpec) -> Result<(), LoadError> {
    let wrong = |text: String| Err(LoadError::Spec(text));
    let in_flight = spec.concurrency();
    if spec.streams > 1 && in_flight > MOST_IN_FLIGHT {
        return wrong(format!("connections × streams is {in_flight}; give at most {MOST_IN_FLIGHT}"));
    }
    if let Some(most) = spec.requests_per_connection
        && spec.streams > most
    {
        let streams = spec.streams;
        return wrong(format!(
            "streams is {streams}, but requests_per_connection {most}; give at most {most} streams"
        ));
    }
    let offers_h2 = spec.tls.as_ref().map(|tls| tls.alpn.iter().any(|protocol| protocol == "h2"));
    match (spec.http == HttpVersion::Http2, offers_h2) {
        (true, Some(false)) => wrong("tls.alpn does not contain \"h2\", which HTTP/2 needs".into()),
        (false, Some(true)) => {
            wrong("tls.alpn offers \"h2\", but the load speaks HTTP/1; offer \"http/1.1\", or nothing".into())
        }
        (false, _) if spec.streams > 1 => wrong(format!("streams is {}, which needs HTTP/2", spec.streams)),
        _ => Ok(()),
    }
}

fn check_calls(spec: &LoadSpec) -> Result<(), LoadError> {
    for target in &spec.targets {
        let checks_status = target.checks.iter().any(|check| matches!(check, Check::Grpc(_)));
        let wrong = match target.grpc {
            true if target.grpc_web && spec.http == HttpVersion::Http10 => {
                "is a gRPC-Web call, which needs HTTP/1.1 or HTTP/2"
            }
            true if !target.grpc_web && spec.http != HttpVersion::Http2 => {
                "is a gRPC call, which needs HTTP/2"
            }
            false if target.grpc_web => "uses gRPC-Web, but is no gRPC call",
            true if target.body_is_template => "is a gRPC call, whose message cannot have templates",
            false if checks_status => "checks the status of a gRPC call, but is none",
            _ => continue,
        };
        return Err(LoadError::Spec(format!("target {:?} {wrong}", target.name)));
    }
    Ok(())
}

fn merge(spec: &LoadSpec, mix: &Mix<'_>, conducted: Conducted, outcomes: Vec<Outcome>) -> LoadRecord {
    let workers = outcomes.len() as u32;
    let start = conducted.times.start;
    let ended = outcomes.iter().map(|outcome| outcome.ended).max().unwrap_or(start);
    let ended_by = |early| outcomes.iter().any(|outcome| outcome.early == Some(early));
    let (interrupted, gave_up) = (ended_by(Early::Interrupted), ended_by(Early::GaveUp));
    let busy = outcomes.iter().map(|outcome| &outcome.tally.busy);
    let occupancy = occupancy::sum(busy).map(|busy| busy.record(start));
    let cpu = GeneratorCpu {
        used_ns: conducted.cpu + outcomes.iter().map(|outcome| outcome.cpu).sum::<u64>(),
        busiest_worker_ns: outcomes.iter().map(|outcome| outcome.cpu).max().unwrap_or(0),
    };
    let mut tally = Tally::new();
    for outcome in outcomes {
        tally.add(outcome.tally);
    }
    tally.connections.asked = u64::from(spec.own_connections());
    let mixed = spec.targets.iter().any(|target| target.stream.is_none());
    tally.counts.failed_checks = tally.failed_checks.in_words(|target| &mix.target(target).checks);
    let tls = spec.tls.is_some().then(|| tally.tls.take().unwrap_or_else(|| Box::new(Handshakes::new())));
    let moments = tally.paths.as_mut().and_then(|paths| paths.moments.take()).map(|moments| {
        let mut moments = moments.kept;
        moments.requests.sort_unstable();
        moments
    });
    let (http2, waits) = match tally.streams.take() {
        None => (None, None),
        Some(streams) => {
            let stream_ns = occupancy.as_ref().map_or(0, |occupancy| occupancy.busy_ns);
            (Some(Http2Tally { stream_ns, ..streams.tally }), Some(streams.waits()))
        }
    };
    let [connection_wait, stream_wait, window_wait] =
        waits.map_or([None, None, None], |waits| waits.map(|waits| Some(Encoded::new(&waits))));
    let latencies = &tally.histograms;
    let paths = tally.paths.as_deref();
    let stamps = paths.map(|paths| StampTally { clock: ClockId::here(), ..paths.tally.clone() });
    LoadRecord {
        schema: RECORD_SCHEMA,
        event_loop: EVENT_LOOP.to_owned(),
        workers,
        started_unix_ns: conducted.started_unix,
        started_ns: start,
        measured_ns: ended.saturating_sub(start),
        interrupted,
        gave_up,
        occupancy,
        redirected_to: tally.redirected_to.take(),
        histograms: Histograms {
            response_time: Encoded::new(&latencies.response_time),
            service_time: Encoded::new(&latencies.service_time),
            send_lag: Encoded::new(&latencies.send_lag),
            first_byte: Encoded::new(&latencies.first_byte),
            connection_wait,
            stream_wait,
            window_wait,
            connect: Encoded::new(&latencies.connect),
            tls_handshake: tls.as_ref().map(|handshakes| Encoded::new(&handshakes.took)),
            request_path: paths.map(|paths| Encoded::new(&paths.request)),
            response_path: paths.map(|paths| Encoded::new(&paths.response)),
        },
        targets: tally.targets.records(mix.names()),
        tls: tls.map(|handshakes| handshakes.tally),
        stamps,
        moments,
        counts: tally.counts,
        completed_in_time: tally.completed_in_time,
        lifetime: tally.lifetime,
        connections: tally.connections,
        http2,
        messages: tally.messages.map(|messages| messages.record(mixed)),
        bytes: tally.bytes,
        cpu,
        rss_bytes_max: limits::largest_resident_set(),
        windows: tally.windows,
    }
}

mod route;
#[cfg(test)]
mod tests;
