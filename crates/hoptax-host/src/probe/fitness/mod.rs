//! Checks whether this host is fit for measurements. `hoptax doctor` prints the results. Every run also
//! performs some of these checks before its first trial and after its last.
//!
//! Files such as `/proc` are read below a root directory, so that tests can create a host of their own. All
//! measurements are made once and kept in [`Host`]. The functions that judge them are pure.

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

pub use cpu::CPUS;
pub use host::Host;
pub use noise::Snapshot;

use super::Stall;
use crate::idle;
use hoptax_format::clock as time;
use hoptax_record::{Fitness, HostLook};
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Time for which `hoptax doctor` observes steal and foreign load. The kernel counts both in ticks of 10 ms.
/// 1.5 s is long enough that 1 % of one CPU is at least one tick, and that bursts of a hypervisor occur
/// several times.
pub const SAMPLED: Duration = Duration::from_millis(1500);

/// Observes this host. `results` is the directory for results, which need not exist yet. Takes about 50 ms.
pub fn here(results: &Path) -> Host {
    let limit = getrlimit(Resource::Nofile);
    let (allowed, can_pin) = cpu::ask();
    Host {
        root: PathBuf::from("/"),
        allowed,
        can_pin,
        can_poll: idle::possible().map_err(|error| error.to_string()),
        descriptors: (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX)),
        release: rustix::system::uname().release().to_string_lossy().into_owned(),
        is_root: rustix::process::geteuid().is_root(),
        disk_free: memory::free_below(results),
        late_ns: clock::lateness(),
        clock_ns: clock::cost(),
    }
}

/// When a run checks the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moment {
    /// Before the first trial.
    Start,
    /// After the last trial.
    End,
}

/// Time for which the checks of a run observe the CPU use of other processes, if the load average is high.
const LOOK: Duration = Duration::from_millis(300);

/// Performs the checks of a run: only those that are fast and that affect the results.
pub fn at(moment: Moment, results: &Path) -> HostLook {
    let host = here(results);
    let mut items = lasting(&host);
    items.extend(passing(&host));
    if moment == Moment::Start && items.iter().any(noise::is_high_load_average) {
        let before = Snapshot::take(&host.root);
        thread::sleep(LOOK);
        let after = Snapshot::take(&host.root);
        noise::excuse_load_average(&mut items, &noise::between(before.as_ref().zip(after.as_ref())));
    }
    // After a run, the load average includes the run's own load.
    items.retain(|item| moment == Moment::Start || item.name != noise::LOAD_AVERAGE);
    items.iter_mut().for_each(|item| item::for_this_user(item, &host));
    HostLook { at_unix_ns: time::unix(), items }
}

/// Performs all checks. If `between` contains two snapshots, measures steal and foreign load between them.
/// `stalls` are the stalls during [`SAMPLED`].
pub fn whole(host: &Host, between: Option<(&Snapshot, &Snapshot)>, stalls: Option<&[Stall]>) -> HostLook {
    let mut items = lasting(host);
    let of_others = noise::between(between);
    items.extend(passing(host));
    noise::excuse_load_average(&mut items, &of_others);
    items.extend(of_others);
    items.push(noise::stalls(stalls, SAMPLED));
    items.push(kernel::perf(host));
    items.iter_mut().for_each(|item| item::for_this_user(item, host));
    HostLook { at_unix_ns: time::unix(), items }
}

/// Checks with results that change only if the user changes something.
fn lasting(host: &Host) -> Vec<Fitness> {
    let [listen_queue, syn_backlog, device_backlog] = network::QUEUES.map(|of| network::queue(host, of));
    vec![
        cpu::cpus(host),
        cpu::pinning(host),
        cpu::idle(host),
        cpu::limit(host),
        cpu::governor(host),
        cpu::turbo(host),
        cpu::smt(host),
        noise::hypervisor(host),
        clock::source(host),
        kernel::version(host),
        kernel::descriptors(host),
        network::ports(host),
        listen_queue,
        syn_backlog,
        device_backlog,
        memory::huge_pages(host),
    ]
}

/// Checks with results that may change within a minute.
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
