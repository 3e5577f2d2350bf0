//! How fit the host is to be measured on: what `hoptax doctor` shows, and what every run looks at before its first trial and
//! after its last.
//!
//! What the kernel tells in files is read below a root, so that tests can lay out a host of their own; what has to be asked
//! for or tried stands in [`Host`], gathered once. The judgements themselves are pure.

mod clock;
mod cpu;
mod host;
mod item;
mod kernel;
mod memory;
mod network;
mod noise;
#[cfg(test)]
mod tests;

pub use host::Host;
pub use noise::Snapshot;

use hoptax_load::clock as time;
use hoptax_record::{Fitness, HostLook};
use rustix::process::{Resource, getrlimit};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long steal and foreign load are watched for by `hoptax doctor`: the kernel counts them in ticks of 10 ms, so that 1 %
/// of one CPU is 1.5 ticks, and bursts of a hypervisor come several times in such a span.
pub const SAMPLED: Duration = Duration::from_millis(1500);

/// This host; results would be written to `results`, which need not be there yet. Takes some 50 ms.
pub fn here(results: &Path) -> Host {
    let limit = getrlimit(Resource::Nofile);
    let (allowed, can_pin) = cpu::ask();
    Host {
        root: PathBuf::from("/"),
        allowed,
        can_pin,
        descriptors: (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX)),
        release: rustix::system::uname().release().to_string_lossy().into_owned(),
        is_root: rustix::process::geteuid().is_root(),
        disk_free: memory::free_below(results),
        late_ns: clock::lateness(),
        clock_ns: clock::cost(),
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
    let host = here(results);
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
    items.push(kernel::perf(host));
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
