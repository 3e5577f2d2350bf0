//! Drivers and services: the traits that the flow of a run uses.
//!
//! The types can be sent to another host that has the same version of hoptax. They are not a format for
//! files.

use super::features::Change;
use hoptax_format::Address;
use hoptax_host::Watched;
use hoptax_plan::{Action, Gateway};
use hoptax_record::profile::Callers;
use hoptax_record::{Counter, Failure, FoundProcess, RoleUsage, Setting};
use hoptax_servers::ledger::Ledger;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A service that was started, or why it was not.
pub type Launched = Result<Box<dyn Service>, Failure>;

/// Starts services.
pub trait Driver {
    /// Starts the upstream, or connects to an upstream that already runs, and waits until it is ready.
    ///
    /// # Errors
    /// If the upstream did not start, or nothing responds at its URL.
    fn start_upstream(&mut self) -> Launched;

    /// Starts `gateway` in front of `upstreams` and waits, within a time limit, until it is ready.
    ///
    /// # Errors
    /// If the gateway is not installed, its configuration is wrong, it exited, or it did not become ready.
    /// The error contains the gateway's last log lines.
    fn start_gateway(&mut self, gateway: &Gateway, upstreams: &[Address]) -> Launched;

    /// Starts `gateway` as [`Self::start_gateway`] does, but returns as soon as its process is being created.
    /// The gateway may not listen yet, and may still fail: the caller waits, and calls [`Service::check`]
    /// meanwhile.
    ///
    /// # Errors
    /// If the gateway is not installed or its configuration cannot be written, or hoptax cannot start its
    /// guard.
    fn launch_gateway(&mut self, gateway: &Gateway, upstreams: &[Address]) -> Launched;

    /// From now on, starts gateways so that profilers can name their frames. Gateways that run are not
    /// changed.
    fn prepare_profiles(&mut self) {}
}

/// A running service.
pub trait Service {
    /// The service's TCP addresses. Only an upstream with instances has several. An upstream on Unix sockets
    /// has none.
    fn addresses(&self) -> &[SocketAddr];

    /// Where the service accepts requests: its TCP addresses, or its Unix sockets. There is at least one.
    fn endpoints(&self) -> Vec<Address> {
        self.addresses().iter().copied().map(Address::from).collect()
    }

    /// Facts about the service, recorded when it started.
    fn facts(&self) -> &Facts;

    /// Root of the process tree that hoptax watches for this service; absent if unknown.
    fn process(&self) -> Option<Watched>;

    /// Time at which the service's process was last started, on the clock [`hoptax_format::clock::now`],
    /// nanoseconds. Absent until the process exists, and for services that hoptax did not start.
    fn began_ns(&self) -> Option<u64> {
        None
    }

    /// The last lines of the service's logs, without secrets.
    fn log_tails(&self) -> String {
        String::new()
    }

    /// CPU time and memory of a service that runs elsewhere, between two moments of
    /// [`hoptax_format::clock::now`]. `None` if the plan names no source of these values.
    ///
    /// # Errors
    /// If the values are not known for this time. The error is the reason as text.
    fn used(&self, from_ns: u64, to_ns: u64) -> Option<Result<RoleUsage, String>> {
        let _ = (from_ns, to_ns);
        None
    }

    /// The upstream's counts so far; absent for services without a ledger.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    fn ledger(&self) -> Option<anyhow::Result<Ledger>> {
        None
    }

    /// The current size of the service's logs and the values of its counters. Called before and after a
    /// trial.
    fn observe(&mut self) -> Observed {
        Observed::default()
    }

    /// A controller that performs a plan's events on the service; `None` if the service supports no events.
    fn controller(&self) -> Option<Box<dyn Controller>> {
        None
    }

    /// Checks that the service still runs.
    ///
    /// # Errors
    /// If the service has exited. The error contains the service's last log lines.
    fn check(&mut self) -> Result<(), Failure>;

    /// Stops the service. If the service does not stop within the grace period, it is killed. Returns when
    /// all processes of the service have ended. Can be called twice. Dropping a service stops it too.
    fn stop(&mut self);
}

/// Performs a plan's events on a service. It runs on its own thread during a trial and is dropped at the end
/// of the trial.
pub trait Controller: Send {
    /// Performs the action and returns when it is complete: the signal was sent, the command has ended, the
    /// instance listens again, or the gateway is ready.
    ///
    /// # Errors
    /// If the action failed. The error is the reason as text.
    fn act(&mut self, action: Action) -> Result<Effect, String>;

    /// Whether the service can reload its configuration.
    fn can_reload(&self) -> bool {
        false
    }
}

/// Result of an action.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Path prefix of the route that was added.
    pub new_route: Option<String>,
    /// Time right before the service was asked to reload, on the clock [`hoptax_format::clock::now`],
    /// nanoseconds. Absent if it was not asked.
    pub reload_began_ns: Option<u64>,
}

/// Facts about a service, recorded when it started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Version that the service reports.
    pub version: Option<String>,
    /// Number of the service's worker threads or processes.
    pub workers: Option<u32>,
    /// Settings that differ from the service's shipped defaults.
    pub settings: Vec<Setting>,
    /// The counters that [`Service::observe`] reads.
    pub counters: Vec<Counter>,
    /// Digest of each rendered file, by file name.
    pub rendered: BTreeMap<String, String>,
    /// A note that says which addresses of the service's name are used. Absent if the name has only one
    /// address.
    pub address_note: Option<String>,
    /// The changes that requests to the service need.
    pub change: Change,
    /// How to record stacks of the service.
    pub profiling: Profiling,
    /// The process of a service that already runs, if it was found by its listening socket.
    pub found_process: Option<FoundProcess>,
}

/// How to record stacks of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profiling {
    /// How the profiler finds the callers of a function.
    pub callers: Callers,
    /// Whether the service must be started again after [`Driver::prepare_profiles`], because generated code
    /// has no names otherwise.
    pub needs_restart: bool,
    /// A command that writes the names of generated code, with `{{ pid }}` for the process id. Empty if there
    /// is none.
    pub map: Vec<String>,
    /// What is needed so that all frames have names; absent if nothing is known.
    pub symbols: Option<String>,
}

/// Size of a service's logs and values of its counters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// Size of the service's logs in bytes; absent if hoptax cannot see them.
    pub log_bytes: Option<u64>,
    /// The values of the service's own counters. Counters that could not be read are missing.
    pub counters: BTreeMap<String, f64>,
}
