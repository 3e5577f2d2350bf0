//! Measures how many CPUs a gateway uses at once under full load.
//!
//! Packs set the number of workers so that no gateway can use more CPUs at once than another gateway. The
//! number of threads does not show whether the setting works. A gateway can have many threads and run only
//! one of them at a time, or it can use a thread per connection. CPU time does show whether the setting
//! works, but only if some CPUs were idle, so that the gateway could have used more CPUs. When a gateway only
//! proxies, the generator and the upstream need as much CPU time as the gateway. Therefore, if its pack has
//! the feature `gzip`, the gateway also compresses large responses. The gateway then does nearly all of the
//! work.

use super::observe::{RunningGateway, plan};
use hoptax_analysis::checks::BEYOND;
use hoptax_lab::legs::Legs;
use hoptax_lab::packs::{Pack, PackSet};
use hoptax_record::{Failure, Stage};
use hoptax_run::Loaded;
use std::path::Path;

/// Maximum number of CPUs per worker that the gateway may use or wait for. Above this limit, the gateway
/// would use more CPUs than it has workers if enough CPUs were idle. The limit applies only while the gateway
/// compresses, because then it makes few system calls. (While one thread is in a system call, the scheduler
/// of a language such as Go runs another thread, which can wait for a CPU too.)
const WANTED: f64 = 1.4;

/// Minimum number of CPUs per worker that the gateway uses if it is the bottleneck. If the gateway used fewer
/// CPUs, it was not the bottleneck.
const KEPT_BUSY: f64 = 0.8;

/// If several threads of the gateway worked, the gateway must have received at least this share of the CPU
/// time that it wanted. Otherwise the result is not reliable, because threads that mostly wait for a CPU
/// seldom want a CPU at the same moment.
const GOT: f64 = 0.5;

/// Minimum number of idle CPUs that shows that the gateway could have used more CPUs than it did.
const ROOM: f64 = 0.2;

/// Number of requests per connection. The number is small, because new connections go to an idle worker.
/// Long-lived connections may all belong to the same worker.
const PER_CONNECTION: u32 = 10;

/// Maximum number of loads. A load is repeated if its result was inconclusive or showed a fault. A repetition
/// can help because a gateway with a just-in-time compiler uses more CPU at first.
const ATTEMPTS: u32 = 4;

/// Responses that are expensive to compress and cheap to send.
const COMPRESSED: &str = "upstream: { body: 64KiB }\n";

/// CPU use of a gateway under full load.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuUse {
    /// Number of workers requested.
    pub workers: u32,
    /// True if the gateway compressed responses.
    pub compressed: bool,
    /// Average number of CPUs used.
    pub used: f64,
    /// Average number of CPUs that the gateway used or waited for. This is the number of its threads that
    /// could have run at the same time. Absent if the kernel does not report the waiting time.
    pub wanted: Option<f64>,
    /// Average number of idle CPUs.
    pub idle: f64,
    /// Average number of CPUs that the hypervisor took. A thread that loses its CPU to the hypervisor does
    /// not count as waiting.
    pub stolen: f64,
    /// Number of CPUs that the gateway is allowed to run on.
    pub cpus: u32,
    /// Number of CPUs that hoptax is allowed to run on.
    pub machine: u32,
    /// Threads that used CPU time.
    pub busy_threads: u32,
    /// Number of processes.
    pub processes: u32,
    /// Number of threads.
    pub threads: u32,
}

/// Result of [`CpuUse::beyond`]: whether a gateway uses more CPUs at once than a given number of workers can
/// use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conclusion {
    /// The gateway uses more CPUs.
    Beyond,
    /// The gateway does not use more CPUs, although more CPUs were available.
    Within,
    /// The measurement does not show the answer, for this reason.
    Unknown(&'static str),
}

impl CpuUse {
    /// Decides whether the gateway uses more CPUs at once than `workers` workers can use.
    pub(super) fn beyond(&self, workers: u32) -> Conclusion {
        let (workers, most) = (f64::from(workers), f64::from(workers) * BEYOND);
        let busy = |cpus: f64| cpus >= KEPT_BUSY * workers;
        let held = self.cpus < self.machine && f64::from(self.cpus) <= workers;
        let wants = self.wanted.is_some_and(|wanted| wanted > WANTED * workers);
        if self.used > most || (wants && self.compressed && !held) {
            return Conclusion::Beyond;
        }
        if held {
            return Conclusion::Within;
        }
        // Without compression, there is little work. Several threads may then have shared the work of one
        // worker.
        if !self.compressed && f64::from(self.busy_threads) > workers {
            return Conclusion::Unknown(
                "several threads of the gateway were busy, and hoptax cannot load them fully, because the \
                 gateway's pack has no feature `gzip`",
            );
        }
        // If a gateway received enough CPU time and never wanted more CPUs, it would not use more CPUs on any
        // machine.
        let seen = |wanted| self.used >= GOT * wanted && wanted + self.stolen <= most;
        let no_more = |wanted| f64::from(self.busy_threads) <= workers || seen(wanted);
        if self.wanted.is_some_and(|wanted| busy(wanted) && wanted <= most && no_more(wanted)) {
            return Conclusion::Within;
        }
        match self.idle >= ROOM {
            true if busy(self.used) => Conclusion::Within,
            true => Conclusion::Unknown("the gateway was not the bottleneck"),
            false => Conclusion::Unknown("other processes left too little CPU time for the gateway"),
        }
    }

    /// The evidence as text.
    pub(super) fn described(&self) -> String {
        let wanted = self.wanted.map_or_else(String::new, |wanted| format!(", up to {wanted:.2} wanted"));
        format!(
            "workers {}: {:.2} CPUs used{wanted}, {:.2} left idle; allowed on {} CPU(s); {} of {} thread(s) \
            busy, {} process(es)",
            self.workers, self.used, self.idle, self.cpus, self.busy_threads, self.threads, self.processes
        )
    }

    /// Computes the CPU use from the probes' samples. `None` if the gateway's processes cannot be sampled.
    fn of(workers: u32, compressed: bool, loaded: &Loaded) -> Option<Self> {
        let (record, usage) = (loaded.record.as_ref()?, loaded.usage.gateway.as_ref()?);
        let share = |ns: u64| ns as f64 / record.measured_ns.max(1) as f64;
        let machine = std::thread::available_parallelism().map_or(1, usize::from);
        Some(Self {
            workers,
            compressed,
            used: share(usage.cpu_ns),
            wanted: usage.waiting_ns.map(|waiting| share(usage.cpu_ns + waiting)),
            idle: loaded.usage.host.idle * machine as f64,
            stolen: loaded.usage.host.steal * machine as f64,
            cpus: usage.cpus_allowed.len() as u32,
            machine: machine as u32,
            busy_threads: usage.busy_threads.unwrap_or(0),
            processes: usage.processes,
            threads: usage.threads,
        })
    }
}

/// Starts `pack` with this many workers and puts it under full load.
pub(super) fn measure(
    pack: &Pack,
    workers: u32,
    legs: Legs,
    packs: &PackSet,
    exe: &Path,
    directory: &Path,
) -> Result<CpuUse, Failure> {
    let name = pack.name();
    let compresses = pack.manifest().features.iter().any(|feature| feature == "gzip");
    let (features, body) = if compresses { (", features: [gzip]", COMPRESSED) } else { ("", "") };
    let plan = plan(&format!("name: \"{name}\", workers: {workers}{features}"), body, legs, packs)?;
    let running =
        RunningGateway::start(&plan, packs, exe, &directory.join(format!("{name}-{workers}-busy")))?;
    // One worker is expected to use at most one CPU, and two workers are expected to use more. If no attempt
    // shows this, the closest attempt is the result.
    let (expected, sign) = if workers == 1 { (Conclusion::Within, 1.0) } else { (Conclusion::Beyond, -1.0) };
    let mut attempts: Vec<CpuUse> = Vec::new();
    for _ in 0..ATTEMPTS {
        attempts.extend(CpuUse::of(workers, compresses, &running.load(Some(PER_CONNECTION))?));
        if attempts.last().is_some_and(|cpu_use| cpu_use.beyond(1) == expected) {
            return Ok(attempts.pop().expect("just seen"));
        }
    }
    let best = attempts.into_iter().min_by(|a, b| (sign * a.used).total_cmp(&(sign * b.used)));
    best.ok_or_else(|| Failure {
        stage: Stage::Trial,
        message: format!("cannot read the CPU time of {name}'s processes"),
        detail: String::new(),
    })
}
