//! A host of a run: our own, or one with an agent.

use super::host::Host;
use super::layout::Seat;
use crate::protocol::machine;
use anyhow::{Context as _, anyhow};
use hoptax_format::stamp::ClockId;
use hoptax_host::{cpus, idle, probe};
use hoptax_plan::Idle;
use hoptax_record::Environment;
use std::net::IpAddr;
use std::sync::Arc;

/// A host of a run.
#[derive(Debug, Clone)]
pub enum HostRef {
    /// The host of this process.
    Local {
        /// Its name in the plan.
        name: String,
        /// The address at which the other hosts reach it.
        address: Option<IpAddr>,
    },
    /// A host with an agent.
    Remote(Arc<Host>),
}

/// What is known of a host before it is made ready.
pub(super) struct Known {
    pub(super) host: Option<Arc<Host>>,
    pub(super) address: Option<IpAddr>,
    pub(super) seat: Seat,
    pub(super) environment: Environment,
    pub(super) allowed: Vec<u32>,
    pub(super) can_poll: bool,
    pub(super) clock: Option<ClockId>,
    pub(super) clock_uncertainty_ns: u64,
}

impl HostRef {
    /// The host's name in the plan.
    pub fn name(&self) -> &str {
        match self {
            Self::Local { name, .. } => name,
            Self::Remote(host) => host.name(),
        }
    }

    /// The agent's host; `None` for our own.
    pub fn remote(&self) -> Option<&Arc<Host>> {
        match self {
            Self::Local { .. } => None,
            Self::Remote(host) => Some(host),
        }
    }

    /// Names the machine, as [`Welcome`](crate::protocol::message::Welcome) does.
    pub(super) fn machine(&self) -> String {
        self.remote().map_or_else(machine::machine, |host| host.welcome().machine)
    }

    pub(super) fn known(&self) -> anyhow::Result<Known> {
        match self {
            Self::Local { name, address } => Ok(Known {
                host: None,
                address: *address,
                seat: Seat { host: name.clone(), machine: machine::machine(), network: machine::network() },
                environment: probe::environment(Idle::Sleep),
                allowed: cpus::allowed().context("finding out which CPUs may be used")?,
                can_poll: idle::possible().is_ok(),
                clock: ClockId::here(),
                clock_uncertainty_ns: 0,
            }),
            Self::Remote(host) => {
                let welcome = host.welcome();
                let link = host.link().map_err(|failure| anyhow!(failure.message))?;
                Ok(Known {
                    host: Some(Arc::clone(host)),
                    address: host.address(),
                    seat: Seat {
                        host: host.name().to_owned(),
                        machine: welcome.machine,
                        network: welcome.network,
                    },
                    environment: welcome.environment,
                    allowed: welcome.cpus,
                    can_poll: welcome.can_poll,
                    clock: welcome.clock,
                    clock_uncertainty_ns: link.offset().uncertainty_ns,
                })
            }
        }
    }
}
