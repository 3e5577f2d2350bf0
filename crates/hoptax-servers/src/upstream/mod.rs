//! The built-in upstream: answers every request as its settings say, and keeps a ledger. One port serves
//! HTTP/1 and HTTP/2.
//!
//! Each instance is one thread with its own listener, on a port or on a Unix socket, and its own event loop.
//! With TLS, each instance has a second such thread. The threads share nothing while they serve a request.
//! Another thread serves the ledger on the control socket.

mod answer;
mod calls;
mod control;
mod conversation;
mod counts;
mod delay;
mod events;
mod like;
mod llm;
mod reflection;
mod rules;
mod secure;
mod server;
mod sockets;
mod sources;
mod special;
mod stream;
mod switch;
mod websocket;

pub use answer::bytes;
pub use control::send_order;
pub use special::{LONG_HEADER, MARK, RESPONSE_REMOVED, TOKEN_REVIEW_PATH, TRAILER};
pub use switch::Order;

use super::net::{self, Listener};
use anyhow::Context as _;
use hoptax_format::Address;
use hoptax_host::ports::LOOPBACK;
use hoptax_host::threads::{Threads, check_cpus, sleep_precisely};
use hoptax_plan::BuiltInUpstream;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Output of `hoptax upstream` when it is ready: one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamReady {
    /// Addresses of the instances, in order.
    pub instances: Vec<Address>,
    /// TLS addresses of the same instances; empty without TLS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tls_instances: Vec<Address>,
    /// Address of the control socket: on loopback, or in a network namespace of the run.
    pub control: SocketAddr,
}

/// Environment variable from which `hoptax upstream` reads its certificate and key. Other users can read a
/// process's arguments, but not its environment.
pub const IDENTITY: &str = "HOPTAX_UPSTREAM_IDENTITY";

/// Environment variable from which `hoptax upstream` reads the secret that signs valid tokens.
pub const TOKEN_SECRET: &str = "HOPTAX_UPSTREAM_TOKEN_SECRET";

/// Settings of an upstream that do not affect its responses.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    /// Port of the control socket. If absent, the kernel chooses the port.
    pub control_port: Option<u16>,
    /// Instance `i` is pinned to `cpus[i mod n]`. If empty, instances are not pinned.
    pub cpus: Vec<u32>,
    /// Seed of random delays and failures.
    pub seed: u64,
    /// Address of the control socket; loopback if absent. Only an upstream in a network namespace of the run
    /// needs it, because hoptax asks from outside. Other hosts do not reach such a namespace.
    pub control_address: Option<IpAddr>,
    /// Address for everything except the control socket; 127.0.0.1 if absent.
    pub address: Option<IpAddr>,
    /// Unix socket of the first instance: see [`socket_path`]. If absent, instances listen on ports.
    pub unix: Option<PathBuf>,
    /// Additional ports of the first instance.
    pub also: Vec<u16>,
    /// Whether responses carry stamps ([`hoptax_format::stamp`]).
    pub stamps: bool,
    /// Number of requests after which a connection is closed. HTTP/1 announces it with `connection: close`,
    /// HTTP/2 with GOAWAY.
    pub close_after: Option<u64>,
    /// Certificate chain and private key, PEM. If present, each instance has a second listener, for TLS.
    pub identity: Option<String>,
    /// Secret that signs valid tokens (HS256), for token reviews. Without a secret, no token is valid.
    pub token_secret: Option<String>,
}

/// An upstream that runs in this process. Dropping this value stops the upstream.
#[derive(Debug)]
pub struct RunningUpstream {
    ready: UpstreamReady,
    threads: Threads,
}

impl RunningUpstream {
    /// Starts an upstream. The upstream is ready when this function returns.
    ///
    /// # Errors
    /// If a setting is invalid, the body's file cannot be read, a port is in use or a CPU is not available.
    pub fn start(settings: &BuiltInUpstream, placement: &Placement) -> anyhow::Result<Self> {
        anyhow::ensure!(settings.instances > 0, "an upstream needs at least one instance");
        check_cpus(&placement.cpus)?;
        net::raise_descriptor_limit();
        let listeners = if placement.identity.is_some() { 2 } else { 1 };
        let room = room(net::descriptor_limit(), settings.instances * listeners);
        let tls = placement.identity.as_deref().map(secure::config).transpose()?;
        let mut answers = answer::Answers::new(settings, placement.stamps)?;
        let mut rules = rules::Rules::new(&settings.answers, &settings.headers, placement.stamps)?;
        let calls = calls::Calls::new(settings)?;
        let websockets =
            websocket::WebSockets::new(settings).context("the upstream's headers for WebSockets")?;
        let events = settings.events.as_ref();
        let events = events
            .map(|events| events::Events::new(events, &settings.headers, placement.stamps))
            .transpose()
            .context("the upstream's events")?;
        let llm = settings.llm.as_ref();
        let llm = llm
            .map(|llm| llm::Llm::new(llm, &settings.headers, placement.stamps))
            .transpose()
            .context("the upstream's language model")?;
        let mut sources = sources::Sources { events, llm };
        let ruled = rules.iter_mut().flat_map(rules::Rules::answers_mut);
        answer::encode(std::iter::once(&mut answers).chain(ruled).chain(sources.answers_mut()));
        let host = placement.address.unwrap_or(LOOPBACK);
        let listeners = (0..settings.instances)
            .map(|instance| {
                let address = match &placement.unix {
                    Some(first) => Address::Unix(socket_path(first, instance, false)),
                    None => SocketAddr::from((host, port(settings.port, instance)?)).into(),
                };
                Listener::bind(&address).with_context(|| {
                    format!("upstream instance {} (of {})", instance + 1, settings.instances)
                })
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let for_tls = |instance| match &placement.unix {
            Some(first) => Address::Unix(socket_path(first, instance, true)),
            None => SocketAddr::from((host, 0)).into(),
        };
        let secure_listeners = (0..settings.instances)
            .filter(|_| tls.is_some())
            .map(|instance| Listener::bind(&for_tls(instance)).context("a listener for TLS"))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut also = placement
            .also
            .iter()
            .map(|&port| {
                Listener::bind(&SocketAddr::from((host, port)).into())
                    .context("an additional port of the upstream")
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let control_host = placement.control_address.unwrap_or_else(|| loopback(host));
        let control = SocketAddr::from((control_host, placement.control_port.unwrap_or(0)));
        let control = net::listener(control, false).context("the upstream's control socket")?;
        let addresses = |of: &[Listener]| of.iter().map(|one| one.address().clone()).collect();
        let ready = UpstreamReady {
            instances: addresses(&listeners),
            tls_instances: addresses(&secure_listeners),
            control: control.local_addr()?,
        };

        let mut threads = Threads::default();
        let mut counts = vec![Vec::new(); listeners.len()];
        let mut switches = vec![Vec::new(); listeners.len()];
        let all: Vec<Arc<counts::Counts>> =
            listeners.iter().chain(&secure_listeners).map(|_| Arc::default()).collect();
        let plain = (0_u32..).zip(listeners).map(|(instance, listener)| (instance, listener, None));
        let secure =
            (0_u32..).zip(secure_listeners).map(|(instance, listener)| (instance, listener, tls.clone()));
        for ((instance, listener, tls), seen) in plain.chain(secure).zip(all.clone()) {
            let all_counts = all.clone();
            counts[instance as usize].push(Arc::clone(&seen));
            let behaviour = delay::Behaviour::new(settings, placement.seed, u64::from(instance));
            let switch = Arc::new(switch::Switch::new(listener.address().clone()));
            switches[instance as usize].push(Arc::clone(&switch));
            // Each instance has its own copy of the responses, because stamps are written into them.
            let (answers, calls, mut sources) = (answers.clone(), calls.clone(), sources.clone());
            if let Some(llm) = &mut sources.llm {
                llm.seed(placement.seed, instance << 1 | u32::from(tls.is_some()));
            }
            let websockets = websockets.clone();
            let mut rules = rules.clone();
            if let Some(rules) = &mut rules {
                rules.seed(placement.seed, u64::from(instance));
            }
            let (token_secret, close_after) = (placement.token_secret.clone(), placement.close_after);
            let cpu = placement.cpus.get(instance as usize % placement.cpus.len().max(1)).copied();
            let name = format!("upstream-{}{instance}", if tls.is_some() { "tls-" } else { "" });
            // The additional ports belong to the first instance.
            let address = listener.address().clone();
            let listeners = std::iter::once(listener).chain(also.drain(..)).collect();
            threads.spawn(&name, address, cpu, move |stop| {
                sleep_precisely();
                let from = server::Listening {
                    instance,
                    answers,
                    calls,
                    sources,
                    websockets,
                    rules,
                    behaviour,
                    counts: &seen,
                    all_counts: &all_counts,
                    room,
                    close_after,
                    token_secret: token_secret.as_deref(),
                    switch: &switch,
                };
                server::serve(listeners, from, tls.as_ref(), stop)
            })?;
        }
        threads.spawn("upstream-control", ready.control, None, move |stop| {
            control::serve(control, &counts, &switches, stop)
        })?;
        Ok(Self { ready, threads })
    }

    /// Addresses of the upstream.
    pub fn ready(&self) -> &UpstreamReady {
        &self.ready
    }

    /// Threads of the upstream.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }
}

/// Descriptors needed for everything except connections: standard streams, listeners, event loops.
const OVERHEAD: u64 = 32;

/// Maximum number of connections that one instance may hold. A tenth of the descriptors remains free, so that
/// the ledger can always be read.
fn room(descriptors: u64, instances: u32) -> u64 {
    descriptors.saturating_sub(OVERHEAD) * 9 / 10 / u64::from(instances)
}

/// The address of the control socket. Only processes of the same host ask it, even if gateways are on other
/// hosts.
fn loopback(host: IpAddr) -> IpAddr {
    if host.is_loopback() { host } else { LOOPBACK }
}

/// Path of an instance's Unix socket: `first` for the first instance, and `first.2` for the second. `.tls` is
/// added for TLS.
pub fn socket_path(first: &Path, instance: u32, is_tls: bool) -> PathBuf {
    let mut path = first.as_os_str().to_owned();
    if instance > 0 {
        path.push(format!(".{}", instance + 1));
    }
    if is_tls {
        path.push(".tls");
    }
    path.into()
}

fn port(first: Option<u16>, instance: u32) -> anyhow::Result<u16> {
    let Some(first) = first else { return Ok(0) };
    u16::try_from(u32::from(first) + instance)
        .with_context(|| format!("there is no port {first} + {instance}. Choose a lower first port"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_plan::Body;

    fn settings(instances: u32, port: Option<u16>) -> BuiltInUpstream {
        BuiltInUpstream { instances, port, ..BuiltInUpstream::with_body(Body::Size(1)) }
    }

    #[test]
    fn stops_when_dropped() {
        let upstream = RunningUpstream::start(&settings(3, None), &Placement::default()).expect("starts");
        let ready = upstream.ready().clone();
        assert_eq!(crate::ledger::fetch(ready.control).expect("a ledger").instances.len(), 3);
        drop(upstream);
        for address in ready.instances.into_iter().chain([ready.control.into()]) {
            let Address::Tcp(address) = address else { panic!("{address} is no port") };
            assert!(std::net::TcpStream::connect(address).is_err(), "{address} still answers");
        }
    }

    #[test]
    fn impossible_settings_are_refused() {
        let start = |settings, placement| {
            format!("{:#}", RunningUpstream::start(&settings, &placement).expect_err("refused"))
        };
        insta::assert_snapshot!(start(settings(0, None), Placement::default()));
        assert!(start(settings(2, Some(65535)), Placement::default()).contains("65535 + 1"));
        let nowhere = Placement { cpus: vec![1000], ..Placement::default() };
        assert!(start(settings(1, None), nowhere).contains("CPU 1000"));
    }
}
