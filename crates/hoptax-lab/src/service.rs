//! Drivers and services: the traits that the flow of a run uses.

use super::features::Change;
use hoptax_host::Watched;
use hoptax_plan::{Action, Gateway};
use hoptax_record::{Counter, Failure, Setting};
use hoptax_servers::ledger::Ledger;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Starts services.
pub trait Driver {
    /// Starts the upstream (or attaches to one that already runs) and waits until it is ready.
    ///
    /// # Errors
    /// If it did not start, or nothing answers at its URL.
    fn start_upstream(&mut self) -> Result<Box<dyn Service>, Failure>;

    /// Starts `gateway` in front of `upstreams` and waits, within a time limit, until it is ready.
    ///
    /// # Errors
    /// If it is not installed, its configuration is wrong, it exited, or it did not become ready; with its last log
    /// lines.
    fn start_gateway(
        &mut self,
        gateway: &Gateway,
        upstreams: &[SocketAddr],
    ) -> Result<Box<dyn Service>, Failure>;
}

/// A running service.
pub trait Service {
    /// Its addresses; several for an upstream with instances.
    fn addresses(&self) -> &[SocketAddr];

    /// Facts recorded at its start.
    fn facts(&self) -> &Facts;

    /// Root of the process tree to watch; absent if unknown.
    fn process(&self) -> Option<Watched>;

    /// The upstream's counts so far; absent for services without a ledger.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    fn ledger(&self) -> Option<anyhow::Result<Ledger>> {
        None
    }

    /// Its log size and counters; called before and after a trial.
    fn observe(&mut self) -> Observed {
        Observed::default()
    }

    /// A controller that performs events on the service; `None` if it supports none.
    fn controller(&self) -> Option<Box<dyn Controller>> {
        None
    }

    /// Checks that it still runs.
    ///
    /// # Errors
    /// If it has exited, with its last log lines.
    fn check(&mut self) -> Result<(), Failure>;

    /// Stops it gracefully, then by force, and returns when all its processes have ended. Can be called twice.
    /// Dropping a service stops it too.
    fn stop(&mut self);
}

/// Performs a plan's events on a service, from a thread of its own during a trial. It is dropped at the end of the
/// trial.
pub trait Controller: Send {
    /// Performs the action and returns when it is complete: a signal was sent, a command has ended, an instance
    /// listens again, a gateway is ready.
    ///
    /// # Errors
    /// Why the action failed, as text.
    fn act(&mut self, action: Action) -> Result<Effect, String>;
}

/// Result of an action.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effect {
    /// Path prefix of the route that was added.
    pub new_route: Option<String>,
}

/// Facts about a service, recorded at its start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Version that it reports.
    pub version: Option<String>,
    /// Its worker threads or processes.
    pub workers: Option<u32>,
    /// Settings that differ from the shipped ones.
    pub settings: Vec<Setting>,
    /// The counters that [`Service::observe`] reads.
    pub counters: Vec<Counter>,
    /// Digest of each rendered file, by its name.
    pub rendered: BTreeMap<String, String>,
    /// Changes that requests to it need.
    pub change: Change,
}

/// Log size and counters at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Size of its logs, bytes; absent if the logs are not in the run directory.
    pub log_bytes: Option<u64>,
    /// Its own counters that could be read.
    pub counters: BTreeMap<String, f64>,
}
