//! How much of a gateway works at once: the CPU time that it uses while it is kept as busy as can be.
//!
//! What workers are made equal for is that no gateway may use more CPUs at once than another. Threads do not tell: a gateway may
//! move its work between several of which only one runs, or give each connection one of its own. CPU time does, but only a
//! gateway that has CPUs to spare shows that it takes no more. Where it proxies alone, generator and upstream need as much as it
//! does; so it is asked to compress large answers as well, if its pack can, and then nearly all of the work is its own.

use super::look::{Asked, plan};
use crate::run::Loaded;
use hoptax_analysis::checks::BEYOND;
use hoptax_lab::packs::{Pack, PackSet};
use hoptax_record::{Failure, Stage};
use std::path::Path;

/// CPUs wanted above this, over the number of workers, are more at once than the workers wherever there is room, when the
/// gateway computes and hardly calls the kernel. (In such calls it may wait beyond its number of workers: a language with a
/// scheduler of its own lets others run meanwhile.)
const WANTED: f64 = 1.4;

/// Below this share of its workers it was not the gateway that everything waited for.
const KEPT_BUSY: f64 = 0.8;

/// Of what it wanted it must have got this share, where several of its threads worked: those that mostly wait for a CPU are
/// hardly ever seen to want one at the same time.
const GOT: f64 = 0.5;

/// CPUs that nobody used, from which on the gateway could have used more.
const ROOM: f64 = 0.2;

/// Requests of one connection. New ones come to whichever worker is idle: those that stand from the start may all have come to
/// the same.
const PER_CONNECTION: u32 = 10;

/// How often a load is repeated that leaves something open, or tells otherwise than was asked for: what compiles as it goes
/// does not do so for ever.
const ATTEMPTS: u32 = 4;

/// Answers that take a gateway long to compress, and the upstream little to send.
const COMPRESSED: &str = "upstream: { body: 64KiB }\n";

/// What was seen of a gateway that was kept busy.
#[derive(Debug, Clone, PartialEq)]
pub struct Strain {
    /// Workers asked for.
    pub workers: u32,
    /// Whether it was asked to compress.
    pub compressed: bool,
    /// CPUs used on average.
    pub used: f64,
    /// CPUs used or waited for on average: how many of its threads could have run at once; absent where it cannot be told.
    pub wanted: Option<f64>,
    /// CPUs that nobody used.
    pub idle: f64,
    /// CPUs that the hypervisor took: what of it runs then, is not seen to want one.
    pub stolen: f64,
    /// CPUs that it may run on.
    pub cpus: u32,
    /// CPUs that hoptax may use.
    pub machine: u32,
    /// Threads that worked.
    pub busy_threads: u32,
    /// Its processes.
    pub processes: u32,
    /// Their threads.
    pub threads: u32,
}

/// Whether more of a gateway works at once than so many workers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// It does.
    Beyond,
    /// It does not, though it could have.
    Within,
    /// It cannot be told, for this reason.
    Open(&'static str),
}

impl Strain {
    /// Whether it works with more than `workers`.
    pub(super) fn beyond(&self, workers: u32) -> Told {
        let (workers, most) = (f64::from(workers), f64::from(workers) * BEYOND);
        let busy = |cpus: f64| cpus >= KEPT_BUSY * workers;
        let held = self.cpus < self.machine && f64::from(self.cpus) <= workers;
        let wants = self.wanted.is_some_and(|wanted| wanted > WANTED * workers);
        if self.used > most || (wants && self.compressed && !held) {
            return Told::Beyond;
        }
        if held {
            return Told::Within;
        }
        // Threads that hardly compute share what little there is to do.
        if !self.compressed && f64::from(self.busy_threads) > workers {
            return Told::Open(
                "several of its threads worked, and its pack has no `gzip` to keep them all busy",
            );
        }
        // What never wanted more would not use more anywhere.
        let seen = |wanted| self.used >= GOT * wanted && wanted + self.stolen <= most;
        let no_more = |wanted| f64::from(self.busy_threads) <= workers || seen(wanted);
        if self.wanted.is_some_and(|wanted| busy(wanted) && wanted <= most && no_more(wanted)) {
            return Told::Within;
        }
        match self.idle >= ROOM {
            true if busy(self.used) => Told::Within,
            true => Told::Open("something else than the gateway was waited for"),
            false => Told::Open("others left it too little of this machine's CPUs"),
        }
    }

    /// In words.
    pub(super) fn described(&self) -> String {
        let wanted = self.wanted.map_or_else(String::new, |wanted| format!(", up to {wanted:.2} wanted"));
        format!(
            "asked for {}: {:.2} CPUs used{wanted}, {:.2} left idle, may run on {}; {} thread(s) worked of {} in {} process(es)",
            self.workers, self.used, self.idle, self.cpus, self.busy_threads, self.threads, self.processes
        )
    }

    /// From what the probes saw; `None` where the gateway cannot be watched.
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

/// Starts `pack` with so many workers and keeps it busy.
pub(super) fn strain(
    pack: &Pack,
    workers: u32,
    packs: &PackSet,
    exe: &Path,
    directory: &Path,
) -> Result<Strain, Failure> {
    let name = pack.name();
    let compresses = pack.manifest().features.iter().any(|feature| feature == "gzip");
    let (features, body) = if compresses { (", features: [gzip]", COMPRESSED) } else { ("", "") };
    let plan = plan(&format!("name: \"{name}\", workers: {workers}{features}"), body, packs)?;
    let asked = Asked::start(&plan, packs, exe, &directory.join(format!("{name}-{workers}-busy")))?;
    // One worker is held to one CPU, and several use more: the attempt that shows it best is the one that counts.
    let (shown, sign) = if workers == 1 { (Told::Within, 1.0) } else { (Told::Beyond, -1.0) };
    let mut attempts: Vec<Strain> = Vec::new();
    for _ in 0..ATTEMPTS {
        attempts.extend(Strain::of(workers, compresses, &asked.load(Some(PER_CONNECTION))?));
        if attempts.last().is_some_and(|strain| strain.beyond(1) == shown) {
            return Ok(attempts.pop().expect("just seen"));
        }
    }
    let best = attempts.into_iter().min_by(|a, b| (sign * a.used).total_cmp(&(sign * b.used)));
    best.ok_or_else(|| Failure {
        stage: Stage::Trial,
        message: format!("{name} cannot be watched: the CPU time of its processes is not told"),
        detail: String::new(),
    })
}
