//! The real traffic: a generator process per trial, and the probes beside it.

use super::traffic::{Loaded, News, Traffic, Usage, Used, WatchedRoles};
use hoptax_host::Watched;
use hoptax_host::probe::bandwidth::{self, Asked, LARGEST};
use hoptax_host::probe::{NetworkCounters, Sampler, Seen, Timeline, network};
use hoptax_lab::features::Change;
use hoptax_lab::verify::{self, Requests, proofs};
use hoptax_load::clock;
use hoptax_load::record::{LoadRecord, Phase, PhaseLine, SecondLine};
use hoptax_load::spec::{LoadSpec, Timeouts};
use hoptax_record::{Failure, HostUsage, Link, RoleUsage, Stage};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How often a signal and the generator's time limit are looked for.
const LOOK: Duration = Duration::from_millis(50);
/// What a generator gets beyond the times that its spec names, for starting and for writing its record.
const SLACK_NS: u64 = 20 * clock::SECOND;

/// Who did not get to look for so long, where every [`LOOK`] was meant, was stopped.
const STOPPED_NS: u64 = clock::SECOND;

/// For how long the loopback is measured, once per run, where bodies are large.
const LINK_TIME: Duration = Duration::from_millis(300);

/// The generator is this same program, started anew for each trial.
#[derive(Debug)]
pub struct LocalTraffic {
    program: std::path::PathBuf,
    is_watched: bool,
}

impl LocalTraffic {
    /// Traffic made by this program.
    ///
    /// # Errors
    /// If the program cannot find itself.
    pub fn new() -> io::Result<Self> {
        Ok(Self { program: std::env::current_exe()?, is_watched: false })
    }

    /// Traffic made by another `hoptax` binary than the running one.
    pub fn of(program: &std::path::Path) -> Self {
        Self { program: program.to_owned(), is_watched: false }
    }

    /// Tells seconds, and what roles use, too: for those who watch.
    pub fn watched(self, is_watched: bool) -> Self {
        Self { is_watched, ..self }
    }

    /// Its own process group, so that Ctrl-C on the terminal reaches us alone and the trial under way can still be
    /// told to say what it has.
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
        direct: &[SocketAddr],
        gateway: SocketAddr,
        change: &Change,
    ) -> Result<(), Failure> {
        verify::verify(direct[0], gateway, requests, change, timeout)?;
        proofs::prove(direct, gateway, requests, change, timeout)
    }

    fn link(&mut self, message_bytes: u64) -> Option<Link> {
        let message_bytes = message_bytes.min(LARGEST);
        let asked = Asked { message_bytes, echo: false, duration: LINK_TIME };
        // Without it one finding is not looked for; that is no reason not to measure.
        let measured = bandwidth::measure_loopback(&asked).ok()?;
        Some(Link { message_bytes, bytes_per_second: measured.bytes_per_second })
    }

    fn load(
        &mut self,
        spec: &LoadSpec,
        watched: &WatchedRoles,
        interrupted: &AtomicBool,
        tell: &mut dyn FnMut(News),
    ) -> Loaded {
        let mut child = match self.spawn() {
            Ok(child) => child,
            Err(error) => {
                return failed(format!("the generator could not be started: {error}"), String::new());
            }
        };
        let generator = Watched { pid: child.id(), include_root: true };
        let roles = [Some(generator), watched.upstream, watched.gateway];
        let network = NetworkCounters::now();
        let sampler = Sampler::start(&roles.into_iter().flatten().collect::<Vec<_>>(), self.is_watched);
        let watching = Watching { sampler, roles: watched };
        let outcome = drive(&mut child, spec, interrupted, &watching, tell);
        let (timeline, seen) = watching.sampler.finish();
        let network = network.and_then(|before| {
            Some(NetworkCounters::now()?.since(&before, seen.time_wait_max, network::local_ports()))
        });
        match outcome {
            Ok(record) => {
                let usage = Usage { network, ..usage(&timeline, &seen, &record, watched) };
                Loaded { record: Some(record), usage, failed: None }
            }
            Err(failure) => Loaded { failed: Some(failure), ..Loaded::default() },
        }
    }
}

/// Which of the sampled trees are those of upstream and gateway. The generator is tree 0; the others follow as they are there.
fn trees(watched: &WatchedRoles) -> (Option<usize>, Option<usize>) {
    let upstream = watched.upstream.map(|_| 1);
    (upstream, watched.gateway.map(|_| 1 + usize::from(watched.upstream.is_some())))
}

/// The probes beside a trial.
struct Watching<'a> {
    sampler: Sampler,
    roles: &'a WatchedRoles,
}

impl Watching<'_> {
    /// What the roles used of late, where that was told since this was last asked.
    fn used(&self) -> Option<Used> {
        let recent = self.sampler.recent()?;
        let (upstream, gateway) = trees(self.roles);
        let of = |index: Option<usize>| recent.trees.get(index?).copied();
        Some(Used {
            generator: of(Some(0)),
            gateway: of(gateway),
            upstream: of(upstream),
            steal: recent.steal,
        })
    }
}

/// What the watched roles used over the record's measured time.
fn usage(timeline: &Timeline, seen: &Seen, record: &LoadRecord, watched: &WatchedRoles) -> Usage {
    let (from, to) = (record.started_ns, record.started_ns + record.measured_ns);
    let (upstream, gateway) = trees(watched);
    let of = |index: Option<usize>| {
        let index = index?;
        let usage = timeline.usage(index, from, to)?;
        let threads = seen.threads.get(index);
        Some(RoleUsage {
            busy_threads: threads.map(|threads| threads.busy),
            waiting_ns: threads.map(|threads| threads.waiting_ns),
            cpus_allowed: threads.map(|threads| threads.cpus_allowed.clone()).unwrap_or_default(),
            ..usage
        })
    };
    let host = HostUsage { load_average: seen.load_average, ..timeline.host(from, to) };
    Usage { generator: of(Some(0)), upstream: of(upstream), gateway: of(gateway), host, network: None }
}

/// Hands over the spec, follows the phases, and waits for the record, within bounds.
fn drive(
    child: &mut Child,
    spec: &LoadSpec,
    interrupted: &AtomicBool,
    watching: &Watching<'_>,
    tell: &mut dyn FnMut(News),
) -> Result<LoadRecord, Failure> {
    let stdout = child.stdout.take().expect("piped");
    let answer = thread::spawn(move || {
        let mut text = Vec::new();
        BufReader::new(stdout).read_to_end(&mut text).map(|_| text)
    });
    let lines = lines(child.stderr.take().expect("piped"));
    let text = serde_json::to_vec(spec).expect("a spec has only string keys");
    // If it died already, its standard error says why.
    let _ = child.stdin.take().expect("piped").write_all(&text);

    let complaints = follow(child, spec, interrupted, watching, &lines, tell);
    let status = child.wait();
    let answer = answer.join().expect("reading does not panic").unwrap_or_default();
    serde_json::from_slice(&answer).map_err(|_| {
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let message = format!("the generator ended without a record ({status})");
        Failure { stage: Stage::Trial, message, detail: complaints.join("\n") }
    })
}

/// What a generator tells.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Phase(PhaseLine),
    Second(SecondLine),
}

/// Reads phases and seconds until the generator closes its standard error. Returns what else it wrote there.
fn follow(
    child: &Child,
    spec: &LoadSpec,
    interrupted: &AtomicBool,
    watching: &Watching<'_>,
    lines: &Receiver<String>,
    tell: &mut dyn FnMut(News),
) -> Vec<String> {
    let Timeouts { connect_ns, total_ns, .. } = spec.timeouts;
    let connecting = connect_ns.saturating_mul(2).max(10 * clock::SECOND);
    let mut limit = clock::now() + connecting + spec.warmup_ns + spec.duration_ns + total_ns + SLACK_NS;
    let mut complaints = Vec::new();
    let mut told = false;
    let mut looked = clock::now();
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => match serde_json::from_str::<Line>(&line) {
                Ok(Line::Phase(begun)) => {
                    match begun.phase {
                        Phase::Measuring => watching.sampler.align(begun.at_ns),
                        Phase::Draining => watching.sampler.look(),
                        Phase::Connecting | Phase::Warmup => {}
                    }
                    tell(News::Phase(begun.phase));
                }
                Ok(Line::Second(second)) => tell(News::Second(second)),
                Err(_) => complaints.push(line),
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return complaints,
        }
        if let Some(used) = watching.used() {
            tell(News::Used(used));
        }
        // While Ctrl-Z has stopped us, the generator waits for somebody to take its record.
        let now = clock::now();
        limit += Some(now.saturating_sub(looked)).filter(|&gap| gap > STOPPED_NS).unwrap_or(0);
        looked = now;
        if interrupted.load(Ordering::Relaxed) && !told {
            told = true;
            signal(child, Signal::INT);
        }
        if now > limit {
            complaints.push(format!(
                "it was still running {} s after it should have ended",
                SLACK_NS / clock::SECOND
            ));
            signal(child, Signal::KILL);
        }
    }
}

/// The child has not been waited for, so its number is still its own.
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

fn failed(message: String, detail: String) -> Loaded {
    Loaded { failed: Some(Failure { stage: Stage::Trial, message, detail }), ..Loaded::default() }
}
