//! The built-in upstream: answers every request as its settings say, and keeps a ledger.
//!
//! Each instance is one thread with a listener and an event loop of its own; nothing is shared between them on the way
//! of a request. A further thread serves the ledger on the control socket.

mod answer;
mod control;
mod counts;
mod delay;
mod server;
mod switch;

pub use answer::bytes;
pub use control::tell_instance;
pub use switch::Order;

use super::net;
use super::threads::{Threads, check_cpus, sleep_precisely};
use crate::plan::BuiltInUpstream;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// What `hoptax upstream` prints when it is ready, as one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamReady {
    /// Where the instances answer, in their order.
    pub instances: Vec<SocketAddr>,
    /// Where the ledger is served.
    pub control: SocketAddr,
}

/// How an upstream runs, apart from how it answers.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    /// Port of the ledger; the kernel's choice when absent.
    pub control_port: Option<u16>,
    /// Instance `i` is pinned to `cpus[i mod n]`; empty: not pinned.
    pub cpus: Vec<u32>,
    /// Seed of delays and failures.
    pub seed: u64,
    /// Whether answers carry stamps ([`hoptax_load::stamp`]).
    pub stamps: bool,
}

/// An upstream that runs in this process until it is dropped.
#[derive(Debug)]
pub struct RunningUpstream {
    ready: UpstreamReady,
    threads: Threads,
}

impl RunningUpstream {
    /// Starts it; it is ready when this returns.
    ///
    /// # Errors
    /// If a setting makes no sense, the body's file cannot be read, a port is in use or a CPU is not there.
    pub fn start(settings: &BuiltInUpstream, placement: &Placement) -> anyhow::Result<Self> {
        anyhow::ensure!(settings.instances > 0, "an upstream needs at least one instance");
        check_cpus(&placement.cpus)?;
        net::raise_descriptor_limit();
        let room = room(net::descriptor_limit(), settings.instances);
        let answers = answer::Answers::new(settings, placement.stamps)?;
        let listeners = (0..settings.instances)
            .map(|instance| {
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port(settings.port, instance)?));
                net::listener(address, false).with_context(|| {
                    format!("instance {} of {} of the upstream", instance + 1, settings.instances)
                })
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let control = SocketAddr::from((Ipv4Addr::LOCALHOST, placement.control_port.unwrap_or(0)));
        let control = net::listener(control, false).context("the upstream's control socket")?;
        let ready = UpstreamReady {
            instances: listeners.iter().map(std::net::TcpListener::local_addr).collect::<Result<_, _>>()?,
            control: control.local_addr()?,
        };

        let mut threads = Threads::new();
        let (mut counts, mut switches) = (Vec::new(), Vec::new());
        for (index, (listener, address)) in listeners.into_iter().zip(&ready.instances).enumerate() {
            let seen = Arc::new(counts::Counts::default());
            counts.push(Arc::clone(&seen));
            let switch = Arc::new(switch::Switch::new(*address));
            switches.push(Arc::clone(&switch));
            let behaviour = delay::Behaviour::new(settings, placement.seed, index as u64);
            // Each its own, as stamps are written into them.
            let answers = answers.clone();
            let cpu = placement.cpus.get(index % placement.cpus.len().max(1)).copied();
            threads.spawn(&format!("upstream-{index}"), *address, cpu, move |stop| {
                sleep_precisely();
                server::serve(listener, &answers, behaviour, &seen, room, (stop, &switch))
            })?;
        }
        threads.spawn("upstream-control", ready.control, None, move |stop| {
            control::serve(control, &counts, &switches, stop)
        })?;
        Ok(Self { ready, threads })
    }

    /// Where it answers.
    pub fn ready(&self) -> &UpstreamReady {
        &self.ready
    }

    /// Its threads, to wait for.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }
}

/// Descriptors beside the connections: standard streams, listeners, event loops.
const BESIDE: u64 = 32;

/// Connections that one instance may hold: a tenth of the descriptors stays free, so that the ledger can be asked for
/// whatever happens.
fn room(descriptors: u64, instances: u32) -> u64 {
    descriptors.saturating_sub(BESIDE) * 9 / 10 / u64::from(instances)
}

fn port(first: Option<u16>, instance: u32) -> anyhow::Result<u16> {
    let Some(first) = first else { return Ok(0) };
    u16::try_from(u32::from(first) + instance)
        .with_context(|| format!("there is no port {first} + {instance}; choose a lower first port"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Body, Delay};
    use std::time::Duration;

    fn settings(instances: u32, port: Option<u16>) -> BuiltInUpstream {
        BuiltInUpstream {
            instances,
            status: 200,
            headers: Vec::new(),
            body: Body::Size(1),
            delay: Delay::Fixed(Duration::ZERO),
            failures: 0.0,
            port,
        }
    }

    #[test]
    fn is_gone_when_it_is_dropped() {
        let upstream = RunningUpstream::start(&settings(3, None), &Placement::default()).expect("starts");
        let ready = upstream.ready().clone();
        assert_eq!(crate::lab::ledger::fetch(ready.control).expect("a ledger").instances.len(), 3);
        drop(upstream);
        for address in ready.instances.into_iter().chain([ready.control]) {
            assert!(std::net::TcpStream::connect(address).is_err(), "{address} still answers");
        }
    }

    #[test]
    fn refuses_what_cannot_be() {
        let start = |settings, placement| {
            format!("{:#}", RunningUpstream::start(&settings, &placement).expect_err("refused"))
        };
        assert!(start(settings(0, None), Placement::default()).contains("at least one instance"));
        assert!(start(settings(2, Some(65535)), Placement::default()).contains("65535 + 1"));
        let nowhere = Placement { cpus: vec![1000], ..Placement::default() };
        assert!(start(settings(1, None), nowhere).contains("CPU 1000"));
    }
}
