//! Sampling of a host other than the generator's, during a load.

use super::agent_channel::AgentChannel;
use super::connection::{Call, Event};
use super::host::Host;
use super::layout;
use crate::protocol::message::{Order, Request, Update};
use hoptax_format::clock;
use hoptax_host::probe::{NetworkCounters, network};
use hoptax_record::Failure;
use hoptax_run::{Sampling, TrialUpdate, Usage, Used, WatchedRoles};
use std::sync::Arc;
use std::time::Duration;

/// Time limit for the samples of a load. Computing them takes some milliseconds.
const END: Duration = Duration::from_secs(60);

/// A host that samples its roles.
#[derive(Debug)]
pub(super) struct OtherSampling {
    pub(super) what: layout::Sampling,
    on: On,
    /// Resource use of its roles over the last second.
    pub(super) used: Option<Used>,
    /// Why there are no samples.
    failed: Option<Failure>,
}

#[derive(Debug)]
enum On {
    /// Our own host.
    Here(Sampling),
    HereNetwork(Option<NetworkCounters>),
    There {
        link: Arc<AgentChannel>,
        call: Call,
    },
}

impl OtherSampling {
    /// Starts to sample. `host` is absent for our own host. Fails if the host is lost.
    pub(super) fn begin(
        what: layout::Sampling,
        host: Option<&Host>,
        watched: &WatchedRoles,
        live: bool,
    ) -> Result<Self, Failure> {
        let roles = WatchedRoles {
            upstream: watched.upstream.filter(|_| what.upstream),
            gateway: watched.gateway.filter(|_| what.gateway),
        };
        let only_network = what.only_network;
        let on = match host {
            None if only_network => On::HereNetwork(NetworkCounters::now()),
            None => On::Here(Sampling::start(None, &roles, live)),
            Some(host) => {
                let link = host.link()?;
                let call = link.begin(Request::Sample { roles, only_network, live })?;
                On::There { link, call }
            }
        };
        Ok(Self { what, on, used: None, failed: None })
    }

    /// Passes on the beginning of the measured time, a moment of our clock.
    pub(super) fn align(&self, at_ns: u64) {
        match &self.on {
            On::Here(sampling) => sampling.align(at_ns),
            On::HereNetwork(_) => {}
            On::There { link, call } => call.order(Order::Align(link.offset().there(at_ns))),
        }
    }

    /// Passes on the end of the measured time.
    pub(super) fn look(&self) {
        match &self.on {
            On::Here(sampling) => sampling.look(),
            On::HereNetwork(_) => {}
            On::There { call, .. } => call.order(Order::Look),
        }
    }

    /// Receives updates. Must be called several times a second. Returns `false` if the host is lost.
    pub(super) fn poll(&mut self) -> bool {
        match &mut self.on {
            On::Here(sampling) => self.used = sampling.used().or(self.used.take()),
            On::HereNetwork(_) => {}
            On::There { call, .. } => loop {
                match call.wait::<Usage>(clock::now()) {
                    Ok(Event::Update(Update::Trial(TrialUpdate::Used(used)))) => self.used = Some(used),
                    Ok(Event::Update(_)) => {}
                    Ok(Event::Nothing | Event::Done(_)) => break,
                    Err(failure) => {
                        self.failed.get_or_insert(failure);
                        break;
                    }
                }
            },
        }
        self.failed.is_none()
    }

    /// Stops sampling. Returns the use of resources in the measured time, `[from_ns, to_ns)` of our clock. If
    /// nothing was measured, the result is empty. Fails if the host is lost.
    pub(super) fn end(self, measured: Option<(u64, u64)>) -> Result<Usage, Failure> {
        if let Some(failure) = self.failed {
            return Err(failure);
        }
        let Some((from_ns, to_ns)) = measured else {
            if let On::There { call, .. } = self.on {
                call.order(Order::Interrupt);
            }
            return Ok(Usage::default());
        };
        match self.on {
            On::Here(sampling) => Ok(sampling.finish().usage(from_ns, to_ns)),
            On::HereNetwork(before) => {
                let now = NetworkCounters::now();
                let network =
                    before.zip(now).map(|(before, now)| now.since(&before, 0, network::local_ports()));
                Ok(Usage { network, ..Usage::default() })
            }
            On::There { link, call } => {
                let offset = link.offset();
                call.order(Order::End { from_ns: offset.there(from_ns), to_ns: offset.there(to_ns) });
                call.answer(END)
            }
        }
    }
}
