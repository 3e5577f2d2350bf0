//! The hops: built-in reference proxies. They show the lowest cost that a hop can have on this machine.

mod forward;
mod h2;
mod holds;
mod l4;
mod l7;
mod pairs;
mod turns;
mod warming;

use super::net;
use anyhow::Context as _;
pub use forward::ForwardProxy;
pub use h2::UpstreamHttp;
use holds::Holds;
use hoptax_format::Address;
use hoptax_host::threads::{Threads, check_cpus};
use hoptax_plan::{HopDelay, HopKind};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;

/// Output of `hoptax hop` when it is ready: one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopReady {
    /// Address of the hop.
    pub listen: SocketAddr,
}

/// The kind of hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Forwards bytes.
    L4,
    /// Forwards requests of HTTP/1.
    L7,
    /// Forwards requests of HTTP/2. The value is the HTTP version to its upstreams.
    H2(UpstreamHttp),
}

impl From<HopKind> for Kind {
    fn from(kind: HopKind) -> Self {
        match kind {
            HopKind::L4 => Self::L4,
            HopKind::L7 => Self::L7,
        }
    }
}

/// Settings of a hop.
#[derive(Debug, Clone)]
pub struct HopSettings {
    /// The kind of hop.
    pub kind: Kind,
    /// Address to listen on. With port 0, the kernel chooses the port.
    pub listen: SocketAddr,
    /// Addresses of the upstreams, at least one. The hop uses them in turn.
    pub upstreams: Vec<Address>,
    /// Number of threads, at least 1. Each thread has its own listener on the same port.
    pub workers: u32,
    /// Worker `i` is pinned to `cpus[i mod n]`. If empty, workers are not pinned.
    pub cpus: Vec<u32>,
    /// Makes the hop a forward proxy, for [`Kind::L7`] only.
    pub forward: Option<ForwardProxy>,
    /// Planted delay and warm-up, not for [`Kind::L4`].
    pub delay: Option<HopDelay>,
    /// Seed for the choice of delayed requests.
    pub seed: u64,
}

/// A hop that runs in this process. Dropping this value stops the hop.
#[derive(Debug)]
pub struct RunningHop {
    ready: HopReady,
    threads: Threads,
}

impl RunningHop {
    /// Starts a hop. The hop is ready when this function returns. The upstreams need not run yet.
    ///
    /// # Errors
    /// If the address is in use, a CPU is not available, or there are no upstreams or workers.
    pub fn start(settings: &HopSettings) -> anyhow::Result<Self> {
        anyhow::ensure!(!settings.upstreams.is_empty(), "a hop needs at least one upstream");
        anyhow::ensure!(settings.workers > 0, "a hop needs at least one worker");
        let delayed = settings.delay.is_none() || settings.kind != Kind::L4;
        anyhow::ensure!(delayed, "hop-l4 cannot delay requests");
        let forwards = settings.forward.is_none() || settings.kind == Kind::L7;
        anyhow::ensure!(forwards, "only hop-l7 can be a forward proxy");
        check_cpus(&settings.cpus)?;
        net::raise_descriptor_limit();
        // The port is shared only if there are several workers. A single worker must get an error if another
        // process uses the port.
        let shared = settings.workers > 1;
        let first = net::listener(settings.listen, shared).context("the hop's listener")?;
        let listen = first.local_addr()?;
        let mut listeners = vec![first];
        for _ in 1..settings.workers {
            listeners
                .push(net::listener(listen, shared).context("the hop's listener for an additional worker")?);
        }
        let warming = settings.delay.and_then(|delay| delay.warming);
        let warming = warming.map(|planted| Arc::new(warming::Warming::new(planted)));
        let mut threads = Threads::default();
        for (index, listener) in listeners.into_iter().enumerate() {
            let (kind, upstreams) = (settings.kind, settings.upstreams.clone());
            let (delay, warming, seed) = (settings.delay, warming.clone(), settings.seed);
            let forward = settings.forward.clone();
            let cpu = settings.cpus.get(index % settings.cpus.len().max(1)).copied();
            let work = move |stop: &_| {
                let holds = Holds::new(delay, warming, seed, index, cpu.is_some());
                match kind {
                    Kind::L4 => l4::serve(listener, upstreams, index, stop),
                    Kind::L7 => l7::serve(listener, upstreams, index, (forward, holds), stop),
                    Kind::H2(http) => h2::serve(listener, upstreams, index, (http, holds), stop),
                }
            };
            threads.spawn(&format!("hop-{index}"), listen, cpu, work)?;
        }
        Ok(Self { ready: HopReady { listen }, threads })
    }

    /// Address of the hop.
    pub fn ready(&self) -> &HopReady {
        &self.ready
    }

    /// Threads of the hop.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }
}
