//! What the flow of a run knows of the world: drivers, and the services that they start.

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

    /// Starts `gateway` in front of `upstreams` and waits, within bounds, until it is ready.
    ///
    /// # Errors
    /// If it is not installed, could not be configured, exited, or never became ready; with its last log lines.
    fn start_gateway(
        &mut self,
        gateway: &Gateway,
        upstreams: &[SocketAddr],
    ) -> Result<Box<dyn Service>, Failure>;
}

/// Something that runs and answers requests.
pub trait Service {
    /// Where it answers; several for an upstream with instances.
    fn addresses(&self) -> &[SocketAddr];

    /// What was found out about it when it started.
    fn facts(&self) -> &Facts;

    /// The process whose CPU and memory are watched, with all its descendants; absent when unknown.
    fn process(&self) -> Option<Watched>;

    /// The upstream's count so far; absent for everything that keeps none.
    ///
    /// # Errors
    /// If it keeps one and cannot be asked.
    fn ledger(&self) -> Option<anyhow::Result<Ledger>> {
        None
    }

    /// Its logs and counters, before and after a trial.
    fn observe(&mut self) -> Observed {
        Observed::default()
    }

    /// What does something to it while a trial goes on; `None` where nothing can be done.
    fn hand(&self) -> Option<Box<dyn Hand>> {
        None
    }

    /// Whether it is still there.
    ///
    /// # Errors
    /// If it has exited, with its last log lines.
    fn check(&mut self) -> Result<(), Failure>;

    /// Stops it gracefully, then by force, and returns when nothing of it is left. Twice is once. Dropping a service
    /// stops it too.
    fn stop(&mut self);
}

/// Does to a service what the events of a plan ask for, from a thread of its own while a trial goes on. It is let go of at
/// the trial's end.
pub trait Hand: Send {
    /// Does it, and returns when it is done: when a signal was sent, a command has ended, an instance listens again, a gateway
    /// is ready.
    ///
    /// # Errors
    /// Why it could not be done, in words.
    fn act(&mut self, action: Action) -> Result<Done, String>;
}

/// What came of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// The prefix of the route that the gateway was given.
    pub new_route: Option<String>,
}

/// What was found out about a service when it started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Version as it told it.
    pub version: Option<String>,
    /// Worker threads or processes it was started with.
    pub workers: Option<u32>,
    /// Settings that differ from what it ships.
    pub settings: Vec<Setting>,
    /// The counters that [`Service::observe`] reads.
    pub counters: Vec<Counter>,
    /// Digest of each rendered file, by its name.
    pub rendered: BTreeMap<String, String>,
    /// What requests to it must carry that direct ones need not.
    pub change: Change,
}

/// What a service tells of itself at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Bytes in its logs; absent where they are not ours.
    pub log_bytes: Option<u64>,
    /// Its own counters, as far as they could be read.
    pub counters: BTreeMap<String, f64>,
}
