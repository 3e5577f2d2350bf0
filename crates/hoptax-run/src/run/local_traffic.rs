//! The real implementation of [`Traffic`]: one generator process per trial, and the probes that sample
//! resource use during the trial.

use super::sampling::Sampling;
use super::traffic::{
    FirstLoaded, Loaded, Look, Recorded, StackRecording, SwitchTracing, Traffic, TrialUpdate, WatchedRoles,
    first_loaded,
};
use hoptax_format::record::{LoadRecord, Phase, PhaseLine, SecondLine};
use hoptax_format::spec::LoadSpec;
use hoptax_format::{Address, clock};
use hoptax_host::probe::bandwidth::{self, Asked, LARGEST};
use hoptax_host::probe::{Processes, Sample, Tree, TreeSample, cpu_distance};
use hoptax_host::profile::{ProfileError, Profiler, Recording, Span};
use hoptax_host::switches::{Roles, SwitchRecording};
use hoptax_host::{Watched, cpus};
use hoptax_lab::features::Change;
use hoptax_lab::first_requests::FirstRequests;
use hoptax_lab::verify::{self, Requests, proofs};
use hoptax_lab::{Profiling, Service};
use hoptax_record::profile::PassKind;
use hoptax_record::tail::SwitchTrace;
use hoptax_record::{Failure, Link, Stage, Verified};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Interval at which signals and the generator's time limit are checked.
const POLL: Duration = Duration::from_millis(50);
/// Time that the generator may take in addition to the times in the spec. The generator needs it to start and
/// to write the record.
const SLACK_NS: u64 = 20 * clock::SECOND;

/// If the time between two polls is longer than this, instead of [`POLL`], our process was suspended between
/// the polls (Ctrl-Z).
const STOPPED_NS: u64 = clock::SECOND;

/// Duration of the measurement of the loopback. Only runs with large bodies measure it, and only once.
const LINK_TIME: Duration = Duration::from_millis(300);

/// Traffic from `hoptax load`. Each trial starts this program again.
#[derive(Debug)]
pub struct LocalTraffic {
    program: std::path::PathBuf,
    is_watched: bool,
    /// The process trees of the last reading, by process id. A tree remembers the CPU time of processes that
    /// have ended.
    trees: BTreeMap<u32, Tree>,
}

impl LocalTraffic {
    /// Uses the running program as generator.
    ///
    /// # Errors
    /// If the path of the running program cannot be found.
    pub fn new() -> io::Result<Self> {
        Ok(Self::of(&std::env::current_exe()?))
    }

    /// Uses another `hoptax` binary as generator.
    pub fn of(program: &std::path::Path) -> Self {
        Self { program: program.to_owned(), is_watched: false, trees: BTreeMap::new() }
    }

    /// Sets whether the traffic also reports each second and the CPU use of each role, for the live view.
    pub fn watched(self, is_watched: bool) -> Self {
        Self { is_watched, ..self }
    }

    /// Sends a part of a load ([`hoptax_format::spec::LoadPart`]). `start` receives the moment at which all
    /// parts begin to send, on this machine's clock. If `start` is closed before, the load fails.
    pub fn load_part(
        &self,
        spec: &LoadSpec,
        watched: &WatchedRoles,
        interrupted: &AtomicBool,
        start: Receiver<u64>,
        report: &mut dyn FnMut(TrialUpdate),
    ) -> Loaded {
        self.send(spec, watched, interrupted, Some(start), report)
    }

    fn send(
        &self,
        spec: &LoadSpec,
        watched: &WatchedRoles,
        interrupted: &AtomicBool,
        start: Option<Receiver<u64>>,
        report: &mut dyn FnMut(TrialUpdate),
    ) -> Loaded {
        let mut child = match self.spawn() {
            Ok(child) => child,
            Err(error) => {
                return Failure::new(Stage::Trial, format!("cannot start the generator: {error}")).into();
            }
        };
        let generator = Watched { pid: child.id(), include_root: true };
        let sampling = Sampling::start(Some(generator), watched, self.is_watched);
        let outcome = drive(&mut child, spec, (start, interrupted), &sampling, report);
        let sampled = sampling.finish();
        match outcome {
            Ok(record) => {
                let usage = sampled.usage(record.started_ns, record.started_ns + record.measured_ns);
                Loaded { record: Some(record), usage, ..Loaded::default() }
            }
            Err(failure) => failure.into(),
        }
    }

    /// Starts the generator in a process group of its own. Ctrl-C on the terminal then reaches only our
    /// process, and our process can ask the generator for the data of the unfinished trial.
    fn spawn(&self) -> io::Result<Child> {
        Command::new(&self.program)
            .args(["load", if self.is_watched { "--watched-spec" } else { "--spec" }, "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
    }
}

impl Traffic for LocalTraffic {
    fn verify(
        &mut self,
        requests: &Requests,
        timeout: Duration,
        direct: &[Address],
        gateway: &Address,
        change: &Change,
    ) -> Result<Verified, Failure> {
        let verified =
            verify::verify_and_note(direct[0].clone(), gateway.clone(), requests, change, timeout)?;
        proofs::prove(direct, gateway.clone(), requests, change, timeout)?;
        Ok(verified)
    }

    fn link(&mut self, message_bytes: u64) -> Option<Link> {
        let message_bytes = message_bytes.min(LARGEST);
        let asked = Asked { message_bytes, echo: false, duration: LINK_TIME };
        // If the measurement fails, the run continues. The only consequence is that the finding
        // `bandwidth-bound` is not checked.
        let measured = bandwidth::measure_loopback(&asked).ok()?;
        Some(Link { message_bytes, bytes_per_second: measured.bytes_per_second })
    }

    fn cpu_round_trip_ns(&mut self, one: u32, other: u32) -> Option<f64> {
        cpu_distance::round_trip_ns(one, other)
    }

    fn first_requests(
        &mut self,
        asked: &FirstRequests,
        upstream: Option<Watched>,
        gateway: Option<&mut dyn Service>,
        interrupted: &AtomicBool,
    ) -> FirstLoaded {
        let send = |has_ended: &mut dyn FnMut() -> bool, ready: &mut dyn FnMut()| {
            let _pinned = cpus::pin(&asked.cpus);
            asked.send(has_ended, ready)
        };
        let look = &mut |roles: &WatchedRoles| self.look(roles);
        first_loaded(asked.count, upstream, gateway, interrupted, look, send)
    }

    fn look(&mut self, roles: &WatchedRoles) -> Look {
        let processes = Processes::now();
        let both = [roles.upstream, roles.gateway];
        self.trees.retain(|pid, _| both.iter().flatten().any(|watched| watched.pid == *pid));
        let mut tree = |watched: Option<Watched>| {
            let Some(watched) = watched else { return TreeSample::default() };
            let tree = self.trees.entry(watched.pid).or_insert_with(|| Tree::new(watched, &processes));
            tree.rescan(&processes);
            tree.look()
        };
        let trees = both.map(&mut tree).to_vec();
        Look { sample: Some(Sample { trees, ..Sample::now(&mut []) }), ..Look::default() }
    }

    fn record_stacks(
        &mut self,
        gateway: Watched,
        kind: PassKind,
        profiling: &Profiling,
    ) -> Result<Box<dyn StackRecording>, Failure> {
        let profiler = Profiler::find().map_err(not_profiled)?;
        let recording =
            profiler.record(&self.program, gateway, kind, profiling.callers).map_err(not_profiled)?;
        Ok(Box::new(PerfRecording { profiler, recording, map: profiling.map.clone() }))
    }

    fn record_switches(&mut self, roles: &WatchedRoles) -> Result<Box<dyn SwitchTracing>, Failure> {
        let profiler = Profiler::find().map_err(not_profiled)?;
        let roles = Roles { gateway: roles.gateway, upstream: roles.upstream };
        let recording = profiler.record_switches(&self.program, roles).map_err(not_profiled)?;
        Ok(Box::new(PerfSwitches(recording)))
    }

    /// There is only one host, so all loads come from it.
    fn load(
        &mut self,
        _: Option<&str>,
        spec: &LoadSpec,
        watched: &WatchedRoles,
        interrupted: &AtomicBool,
        report: &mut dyn FnMut(TrialUpdate),
    ) -> Loaded {
        self.send(spec, watched, interrupted, None, report)
    }
}

/// Stacks that perf records.
struct PerfRecording {
    profiler: Profiler,
    recording: Recording,
    /// Command that writes the names of generated code.
    map: Vec<String>,
}

impl StackRecording for PerfRecording {
    fn finish(self: Box<Self>, spans: &[Span]) -> Result<Recorded, Failure> {
        let Self { profiler, recording, map } = *self;
        recording.write_maps(&map);
        let stacks = recording.finish(spans).map_err(not_profiled)?;
        let sees_kernel = profiler.sees_kernel();
        Ok(Recorded { stacks, profiler: profiler.version().to_owned(), sees_kernel })
    }
}

/// Switches that perf records.
struct PerfSwitches(SwitchRecording);

impl SwitchTracing for PerfSwitches {
    fn finish(self: Box<Self>) -> Result<SwitchTrace, Failure> {
        self.0.finish().map_err(not_profiled)
    }
}

fn not_profiled(error: ProfileError) -> Failure {
    Failure::new(Stage::Trial, error.to_string())
}

/// Sends the spec to the generator, follows its phases, and waits for its record, but not longer than the
/// time limit. If the load is a part of a larger load, also passes the moment from `start` to the generator.
fn drive(
    child: &mut Child,
    spec: &LoadSpec,
    (start, interrupted): (Option<Receiver<u64>>, &AtomicBool),
    sampling: &Sampling,
    report: &mut dyn FnMut(TrialUpdate),
) -> Result<LoadRecord, Failure> {
    let stdout = child.stdout.take().expect("piped");
    let answer = thread::spawn(move || {
        let mut text = Vec::new();
        BufReader::new(stdout).read_to_end(&mut text).map(|_| text)
    });
    let lines = lines(child.stderr.take().expect("piped"));
    let text = serde_json::to_vec(spec).expect("a spec has only string keys");
    // If the generator has already died, its standard error contains the reason.
    let mut stdin = child.stdin.take().expect("piped");
    let _ = stdin.write_all(&text);
    match start {
        Some(start) => {
            let _ = stdin.write_all(&[0]);
            thread::spawn(move || start.recv().map(|at_ns| writeln!(stdin, "{at_ns}")));
        }
        None => drop(stdin),
    }

    let complaints = follow(child, spec, interrupted, sampling, &lines, report);
    let status = child.wait();
    let answer = answer.join().expect("reading does not panic").unwrap_or_default();
    serde_json::from_slice(&answer).map_err(|_| {
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let message = format!("the generator ended without a record ({status})");
        Failure { stage: Stage::Trial, message, detail: complaints.join("\n") }
    })
}

/// A line of JSON that the generator writes to its standard error.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Phase(PhaseLine),
    Second(SecondLine),
}

/// Reads phases and seconds until the generator closes its standard error. Returns all other lines.
fn follow(
    child: &Child,
    spec: &LoadSpec,
    interrupted: &AtomicBool,
    sampling: &Sampling,
    lines: &Receiver<String>,
    report: &mut dyn FnMut(TrialUpdate),
) -> Vec<String> {
    let draining = spec.longest_response() + SLACK_NS;
    let connecting = spec.timeouts.connect_ns.saturating_mul(2).max(10 * clock::SECOND);
    let mut limit = clock::now() + connecting + spec.warmup_ns + spec.duration_ns + draining;
    let mut complaints = Vec::new();
    let mut is_signalled = false;
    let mut polled = clock::now();
    loop {
        match lines.recv_timeout(POLL) {
            Ok(line) => match serde_json::from_str::<Line>(&line) {
                Ok(Line::Phase(begun)) => {
                    match begun.phase {
                        Phase::Measuring => sampling.align(begun.at_ns),
                        Phase::Draining => sampling.look(),
                        Phase::Connecting | Phase::Connected | Phase::Warmup => {}
                    }
                    report(TrialUpdate::Phase(begun));
                }
                Ok(Line::Second(second)) => report(TrialUpdate::Second(second)),
                Err(_) => complaints.push(line),
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return complaints,
        }
        if let Some(used) = sampling.used() {
            report(TrialUpdate::Used(used));
        }
        // While Ctrl-Z suspends our process, the generator cannot deliver its record. Therefore the time
        // limit does not include this time.
        let now = clock::now();
        limit += Some(now.saturating_sub(polled)).filter(|&gap| gap > STOPPED_NS).unwrap_or(0);
        polled = now;
        if interrupted.load(Ordering::Relaxed) && !is_signalled {
            is_signalled = true;
            // From now on, the generator only waits for the last responses.
            limit = limit.min(now + draining);
            signal(child, Signal::INT);
        }
        if now > limit {
            complaints.push(format!(
                "hoptax killed it, because it was still running {} s after its expected end",
                SLACK_NS / clock::SECOND
            ));
            signal(child, Signal::KILL);
        }
    }
}

/// Sends a signal to the child. The child's PID cannot belong to another process, because we have not waited
/// for the child yet.
fn signal(child: &Child, signal: Signal) {
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        let _ = kill_process(pid, signal);
    }
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
hoptax_pages::stated! {
    FINDINGS "over the loopback, one way, for {}, with" seconds(LINK_TIME);
}
