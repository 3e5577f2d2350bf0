//! Samples the roles that run on this machine while a load is sent, perhaps by another machine.

use super::traffic::{Usage, Used, WatchedRoles};
use hoptax_host::Watched;
use hoptax_host::probe::{NetworkCounters, Sampler, Seen, Timeline, network, stalls_by_window};
use hoptax_record::{ForeignProcess, HostUsage, NetworkUsage, RoleUsage};
use std::collections::BTreeMap;

/// The probes that sample this machine, and the roles on it.
#[derive(Debug)]
pub struct Sampling {
    sampler: Sampler,
    /// The network counters at the start.
    network: Option<NetworkCounters>,
    trees: Trees,
}

/// Indices of the roles' process trees among the sampled trees. Absent for roles that are not sampled.
#[derive(Debug, Clone, Copy)]
struct Trees {
    generator: Option<usize>,
    upstream: Option<usize>,
    gateway: Option<usize>,
}

impl Sampling {
    /// Starts to sample the generator, if it is on this machine, and `roles`. If `live` is true,
    /// [`Self::used`] returns the use of resources twice a second.
    pub fn start(generator: Option<Watched>, roles: &WatchedRoles, live: bool) -> Self {
        let network = NetworkCounters::now();
        let mut watched = Vec::new();
        let mut index = |role: Option<Watched>| {
            watched.push(role?);
            Some(watched.len() - 1)
        };
        let trees = Trees {
            generator: index(generator),
            upstream: index(roles.upstream),
            gateway: index(roles.gateway),
        };
        Self { sampler: Sampler::start(&watched, live), network, trees }
    }

    /// Aligns samples with windows that begin at `at_ns`, on the clock of this machine.
    pub fn align(&self, at_ns: u64) {
        self.sampler.align(at_ns);
    }

    /// Takes a detailed sample now. The measured time has ended.
    pub fn look(&self) {
        self.sampler.look();
    }

    /// CPU and memory that the roles used recently. `None` if there is no new sample since the last call.
    pub fn used(&self) -> Option<Used> {
        let recent = self.sampler.recent()?;
        let of = |index: Option<usize>| recent.trees.get(index?).copied();
        Some(Used {
            generator: of(self.trees.generator),
            gateway: of(self.trees.gateway),
            upstream: of(self.trees.upstream),
            steal: recent.steal,
        })
    }

    /// Stops sampling.
    pub fn finish(self) -> Sampled {
        let (timeline, seen) = self.sampler.finish();
        let network = self.network.and_then(|before| {
            Some(NetworkCounters::now()?.since(&before, seen.time_wait_max, network::local_ports()))
        });
        Sampled { timeline, seen, network, trees: self.trees }
    }
}

/// All samples of a load.
#[derive(Debug)]
pub struct Sampled {
    timeline: Timeline,
    seen: Seen,
    network: Option<NetworkUsage>,
    trees: Trees,
}

impl Sampled {
    /// CPU and memory that the roles and the machine used in `[from, to)`, on the clock of this machine.
    pub fn usage(self, from: u64, to: u64) -> Usage {
        let Self { timeline, seen, network, trees } = self;
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
        let busiest = seen.others.as_ref().and_then(|others| others.busiest.clone());
        let busiest_foreign = busiest.map(|(name, cpu_ns)| ForeignProcess { name, cpu_ns });
        let others_ns = seen.others.as_ref().map(|others| others.cpu_ns);
        let host = HostUsage {
            stalled: seen.stalls.as_deref().map(|stalls| stalls_by_window(stalls, from, to)),
            load_average: seen.load_average,
            busiest_foreign,
            ..timeline.host(from, to, others_ns)
        };
        Usage {
            generator: of(trees.generator),
            upstream: of(trees.upstream),
            gateway: of(trees.gateway),
            host,
            network,
            hosts: BTreeMap::new(),
        }
    }
}
