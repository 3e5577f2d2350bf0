//! The hops: built-in reference proxies, the least that any hop can cost on this machine.

mod l4;
mod l7;
mod turns;

use super::net;
use anyhow::Context as _;
use hoptax_host::threads::{Threads, check_cpus};
use hoptax_plan::{HopDelay, HopKind};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// What `hoptax hop` prints when it is ready, as one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopReady {
    /// Where it listens.
    pub listen: SocketAddr,
}

/// How a hop runs.
#[derive(Debug, Clone)]
pub struct HopSettings {
    /// Which of the two.
    pub kind: HopKind,
    /// Where to listen; port 0 is the kernel's choice.
    pub listen: SocketAddr,
    /// Where to forward, in turn; at least one.
    pub upstreams: Vec<SocketAddr>,
    /// Threads, each with a listener of its own on the same port; at least one.
    pub workers: u32,
    /// Worker `i` is pinned to `cpus[i mod n]`; empty: not pinned.
    pub cpus: Vec<u32>,
    /// What [`HopKind::L7`] adds on purpose.
    pub delay: Option<HopDelay>,
    /// Decides which requests are delayed.
    pub seed: u64,
}

/// A hop that runs in this process until it is dropped.
#[derive(Debug)]
pub struct RunningHop {
    ready: HopReady,
    threads: Threads,
}

impl RunningHop {
    /// Starts it; it is ready when this returns. The upstreams need not be there yet.
    ///
    /// # Errors
    /// If the address is in use, a CPU is not there, or there are no upstreams or workers.
    pub fn start(settings: &HopSettings) -> anyhow::Result<Self> {
        anyhow::ensure!(!settings.upstreams.is_empty(), "a hop needs at least one upstream");
        anyhow::ensure!(settings.workers > 0, "a hop needs at least one worker");
        let delayed = settings.delay.is_none() || settings.kind == HopKind::L7;
        anyhow::ensure!(delayed, "only the hop that reads requests can delay them");
        check_cpus(&settings.cpus)?;
        net::raise_descriptor_limit();
        // Only several workers share the port: one alone shall be told when somebody else has it.
        let shared = settings.workers > 1;
        let first = net::listener(settings.listen, shared).context("the hop's listener")?;
        let listen = first.local_addr()?;
        let mut listeners = vec![first];
        for _ in 1..settings.workers {
            listeners.push(net::listener(listen, shared).context("a further worker of the hop")?);
        }
        let mut threads = Threads::default();
        for (index, listener) in listeners.into_iter().enumerate() {
            let (kind, upstreams) = (settings.kind, settings.upstreams.clone());
            let (delay, seed) = (settings.delay, settings.seed);
            let cpu = settings.cpus.get(index % settings.cpus.len().max(1)).copied();
            let work = move |stop: &_| match kind {
                HopKind::L4 => l4::serve(listener, upstreams, index, stop),
                HopKind::L7 => {
                    let holds = l7::Holds::new(delay, seed, index, cpu.is_some());
                    l7::serve(listener, upstreams, index, holds, stop)
                }
            };
            threads.spawn(&format!("hop-{index}"), listen, cpu, work)?;
        }
        Ok(Self { ready: HopReady { listen }, threads })
    }

    /// Where it listens.
    pub fn ready(&self) -> &HopReady {
        &self.ready
    }

    /// Its threads, to wait for.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }
}
