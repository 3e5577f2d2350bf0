//! How fit the host is to be measured on: what `hoptax doctor` shows, and what every run looks at before its first trial and
//! after its last.
//!
//! What the kernel tells in files is read below a root, so that tests can lay out a host of their own; what has to be asked
//! for or tried stands in [`Host`], gathered once. The judgements themselves are pure.

mod clock;
mod cpu;
mod kernel;
mod memory;
mod network;
mod noise;
#[cfg(test)]
mod tests;

pub use noise::Snapshot;

use crate::record::{Fitness, FitnessStatus, HostLook};
use hoptax_load::clock as time;
use hoptax_load::event_loop::Choice;
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long steal and foreign load are watched for by `hoptax doctor`: the kernel counts them in ticks of 10 ms, so that 1 %
/// of one CPU is 1.5 ticks, and bursts of a hypervisor come several times in such a span.
pub const SAMPLED: Duration = Duration::from_millis(1500);

/// A host: where its files lie, and what it answered when it was asked.
#[derive(Debug, Clone)]
pub struct Host {
    /// Below it lie `proc` and `sys`.
    pub root: PathBuf,
    /// CPUs that this process may use.
    pub allowed: Vec<u32>,
    /// Whether a thread could be given CPUs of its own.
    pub can_pin: bool,
    /// Descriptors that a process may hold: as it starts, and after it has raised that itself.
    pub descriptors: (u64, u64),
    /// Release of the kernel, as in `6.8.0-45-generic`.
    pub release: String,
    /// Whether this user may do everything.
    pub is_root: bool,
    /// Why io_uring cannot be had; absent where it can.
    pub no_io_uring: Option<String>,
    /// Bytes free where results are written.
    pub disk_free: Option<u64>,
    /// How late short sleeps came, nanoseconds, in any order.
    pub late_ns: Vec<u64>,
    /// What one look at the clock costs, nanoseconds.
    pub clock_ns: u64,
}

impl Host {
    /// This host; results would be written to `results`, which need not be there yet. Takes some 50 ms.
    pub fn here(results: &Path) -> Self {
        let limit = getrlimit(Resource::Nofile);
        let (allowed, can_pin) = cpu::ask();
        Self {
            root: PathBuf::from("/"),
            allowed,
            can_pin,
            descriptors: (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX)),
            release: rustix::system::uname().release().to_string_lossy().into_owned(),
            is_root: rustix::process::geteuid().is_root(),
            no_io_uring: Choice::IoUring.choose().err(),
            disk_free: memory::free_below(results),
            late_ns: clock::lateness(),
            clock_ns: clock::cost(),
        }
    }

    /// Ports that the kernel may choose from towards one address.
    pub fn local_ports(&self) -> Option<u64> {
        network::range(self).map(|(first, last)| (last + 1).saturating_sub(first))
    }

    /// The trimmed content of a file below the root, if there is one with something in it.
    fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }
}

/// When a run looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before its first trial.
    Start,
    /// After its last.
    End,
}

/// The look that a run takes: nothing that needs more than a moment, and nothing that does not bear on its figures.
pub fn at(moment: Moment, results: &Path) -> HostLook {
    let host = Host::here(results);
    let mut items = lasting(&host);
    items.extend(passing(&host));
    // When a run is over the load average is its own.
    items.retain(|item| moment == Moment::Start || item.name != noise::LOAD_AVERAGE);
    HostLook { at_unix_ns: time::unix(), items }
}

/// The whole look, with what was seen between two snapshots.
pub fn whole(host: &Host, between: Option<(&Snapshot, &Snapshot)>) -> HostLook {
    let mut items = lasting(host);
    items.extend(noise::between(between));
    items.extend(passing(host));
    items.extend([kernel::io_uring(host), kernel::perf(host)]);
    HostLook { at_unix_ns: time::unix(), items }
}

/// What stays as it is until somebody changes it.
fn lasting(host: &Host) -> Vec<Fitness> {
    vec![
        cpu::cpus(host),
        cpu::pinning(host),
        cpu::limit(host),
        cpu::governor(host),
        cpu::turbo(host),
        cpu::smt(host),
        noise::hypervisor(host),
        clock::source(host),
        kernel::version(host),
        kernel::descriptors(host),
        network::ports(host),
        network::listen_queue(host),
        network::syn_backlog(host),
        network::device_backlog(host),
        memory::huge_pages(host),
    ]
}

/// What may be otherwise in a minute.
fn passing(host: &Host) -> Vec<Fitness> {
    vec![
        noise::load_average(host),
        clock::timer(host),
        network::time_wait(host),
        network::conntrack(host),
        memory::memory(host),
        memory::swap(host),
        memory::disk(host),
    ]
}

fn good(name: &str, seen: impl Into<String>) -> Fitness {
    let (name, seen) = (name.to_owned(), seen.into());
    Fitness { name, status: FitnessStatus::Good, seen, message: String::new(), advice: None }
}

fn unknown(name: &str, why: impl Into<String>) -> Fitness {
    let (name, message) = (name.to_owned(), why.into());
    Fitness { name, status: FitnessStatus::Unknown, seen: "cannot be told".into(), message, advice: None }
}

fn doubt(
    name: &str,
    status: FitnessStatus,
    seen: impl Into<String>,
    message: impl Into<String>,
    advice: impl Into<String>,
) -> Fitness {
    let (name, seen, message) = (name.to_owned(), seen.into(), message.into());
    Fitness { name, status, seen, message, advice: Some(advice.into()) }
}

/// `bad` above the worse of two bounds, `warning` above the other.
fn graded(value: f64, warning: f64, bad: f64) -> Option<FitnessStatus> {
    if value > bad { Some(FitnessStatus::Bad) } else { (value > warning).then_some(FitnessStatus::Warning) }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
