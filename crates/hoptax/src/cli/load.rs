//! `hoptax load`: one load point against one URL, for people (a summary), for scripts (`--json`), and for
//! `hoptax run`, which starts this verb with `--spec` wherever the generator shall run.

use super::{BadInput, Exit};
use crate::plan::units;
use anyhow::Context as _;
use hoptax_load::event_loop::Choice;
use hoptax_load::record::{LoadRecord, Phase, PhaseLine, Progress as Told};
use hoptax_load::spec::{Arrivals, LoadSpec};
use hoptax_load::{LoadError, Watch};
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

mod ask;
mod json;
mod summary;
mod url;

/// Load one URL and print what it did.
///
/// Closed loop unless a rate is given: each connection sends its next request when the previous response ends. With
/// --rate, requests are due at scheduled times whatever the responses do, and response times count from there.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What to request: http://HOST[:PORT][/PATH]
    #[arg(required_unless_present = "spec")]
    url: Option<String>,
    /// Connections, over all workers
    #[arg(short, long, default_value_t = 10, value_name = "N")]
    connections: u32,
    /// How long to measure, e.g. 10s or 500ms [default: 10s; with --requests, until they are done]
    #[arg(short, long, value_parser = units::duration, value_name = "TIME")]
    duration: Option<Duration>,
    /// Stop after this many requests
    #[arg(short = 'n', long, value_name = "N")]
    requests: Option<u64>,
    /// Open loop: requests due per second, e.g. 1000/s
    #[arg(short, long, value_parser = units::rate, value_name = "RATE")]
    rate: Option<f64>,
    /// How due times are spread: constant, jitter, jitter(20%) or poisson [default: constant]
    #[arg(long, value_parser = units::arrivals, requires = "rate", value_name = "HOW")]
    arrivals: Option<Arrivals>,
    /// Add a request header; may stand several times
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Method [default: GET, with a body POST]
    #[arg(short = 'X', long)]
    method: Option<String>,
    /// Request body: a text, or @FILE for a file's content
    #[arg(short, long, value_name = "TEXT|@FILE")]
    body: Option<String>,
    /// Given to each connect and to each request from the moment it was sent
    #[arg(long, default_value = "10s", value_parser = units::duration, value_name = "TIME")]
    timeout: Duration,
    /// Traffic before the measured time, thrown away
    #[arg(long, default_value = "0s", value_parser = units::duration, value_name = "TIME")]
    warmup: Duration,
    /// Threads [default: one per CPU of --cpus, or 1]
    #[arg(short = 't', long, value_name = "N")]
    workers: Option<u32>,
    /// CPUs to pin the workers to: 0, 0,2 or 2-3; taken to be theirs alone, and kept busy shortly before due times
    #[arg(long, value_name = "CPUS")]
    cpus: Option<String>,
    /// Seed of jitter and poisson arrivals
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How the workers wait for their sockets
    #[arg(long, value_enum, default_value_t, value_name = "NAME")]
    event_loop: EventLoop,
    /// Print JSON instead of the summary
    #[arg(long)]
    json: bool,
    /// Carry out the load spec (JSON) of this file, or of standard input with `-`; phases go to standard error, the
    /// load record to standard output, one JSON document per line
    #[arg(
        long,
        value_name = "FILE|-",
        conflicts_with_all = [
            "url", "connections", "duration", "requests", "rate", "arrivals", "headers", "method", "body", "timeout",
            "warmup", "workers", "cpus", "seed", "event_loop", "json"
        ]
    )]
    spec: Option<PathBuf>,
}

/// [`Choice`], as it is typed.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum EventLoop {
    /// The one that costs less: epoll, so far
    #[default]
    Auto,
    /// Readiness by epoll
    Epoll,
    /// Completions by io_uring; needs Linux 6.1 or newer, and a kernel that allows it
    IoUring,
}

impl From<EventLoop> for Choice {
    fn from(typed: EventLoop) -> Self {
        match typed {
            EventLoop::Auto => Self::Auto,
            EventLoop::Epoll => Self::Epoll,
            EventLoop::IoUring => Self::IoUring,
        }
    }
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let interrupt = watch_for_interrupts()?;
        if let Some(file) = &self.spec {
            return carry_out(&ask::read_spec(file)?, &interrupt);
        }
        let spec = ask::spec(&self)?;
        let record = generate(&spec, &interrupt, Progress::new(&spec).observer())?;
        let case = json::Case::new(&spec, &record).context("cannot read the histograms back")?;
        let mut out = std::io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut out, &case)?;
            writeln!(out)?;
        } else {
            let url = self.url.as_deref().unwrap_or_default();
            out.write_all(summary::Summary::new(url, &spec, &record)?.to_string().as_bytes())?;
        }
        Ok(verdict(&record))
    }
}

/// A load that nobody answered is a failure, unless it was cut short.
fn verdict(record: &LoadRecord) -> Exit {
    if record.counts.completed > 0 || record.completed_in_time > 0 || record.interrupted {
        return Exit::Success;
    }
    let cause = record.counts.errors.iter().max_by_key(|(_, count)| **count);
    let cause = cause.map_or("no request was due in the measured time", |(text, _)| text.as_str());
    eprintln!("error: no request completed: {cause}");
    Exit::Failed
}

/// The first signal ends the trial early; a second one ends the process at once.
fn watch_for_interrupts() -> anyhow::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the shutdown looks at the flag before the same signal raises it.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&interrupt))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupt)))
            .context("cannot watch for signals")?;
    }
    Ok(interrupt)
}

fn generate(
    spec: &LoadSpec,
    interrupt: &AtomicBool,
    mut observe: impl FnMut(PhaseLine),
) -> anyhow::Result<LoadRecord> {
    let observe = |told| match told {
        Told::Phase(line) => observe(line),
        Told::Window { .. } => {}
    };
    hoptax_load::run(spec, interrupt, Watch::Phases, observe).map_err(|error| match error {
        LoadError::Spec(_) => BadInput(error.to_string()).into(),
        other => other.into(),
    })
}

/// `--spec`: the generator of a run. It does not outlive the process that started it.
fn carry_out(spec: &LoadSpec, interrupt: &AtomicBool) -> anyhow::Result<Exit> {
    let parent = rustix::process::getppid();
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .context("cannot tie this process's life to its parent's")?;
    anyhow::ensure!(rustix::process::getppid() == parent, "the process that started this one is gone");
    let record = generate(spec, interrupt, |line| {
        // Whoever listened is gone when this fails, and its death signal is on its way.
        let _ = serde_json::to_string(&line).map(|line| writeln!(std::io::stderr(), "{line}"));
    })?;
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &record).context("cannot write the load record")?;
    writeln!(out).context("cannot write the load record")?;
    Ok(Exit::Success)
}

/// One line on a terminal that says what is going on.
struct Progress {
    shown: bool,
    measuring: String,
}

impl Progress {
    fn new(spec: &LoadSpec) -> Self {
        let measuring = match spec.requests {
            Some(requests) => format!("measuring {requests} requests"),
            None => {
                format!("measuring for {}", units::show_duration(Duration::from_nanos(spec.duration_ns)))
            }
        };
        Self { shown: std::io::stderr().is_terminal(), measuring }
    }

    fn observer(self) -> impl FnMut(PhaseLine) {
        move |line| {
            if !self.shown {
                return;
            }
            let text = match line.phase {
                Phase::Connecting => "connecting",
                Phase::Warmup => "warming up",
                Phase::Measuring => &self.measuring,
                Phase::Draining => "",
            };
            let hint = if text.is_empty() { "" } else { " (Ctrl-C ends it early)" };
            eprint!("\r\x1b[2K{text}{hint}");
        }
    }
}
