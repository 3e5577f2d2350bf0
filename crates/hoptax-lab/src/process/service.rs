//! A service that runs under a guard, as the flow of a run sees it.

use super::controller::{GatewayController, Tools, UpstreamController};
use crate::counters::Counters;
use crate::docker::Container;
use crate::features::Credentials;
use crate::{Controller, Facts, Observed, Service};
use hoptax_format::Address;
use hoptax_host::guard::remove_started;
use hoptax_host::guarded::Guarded;
use hoptax_host::{Watched, logs};
use hoptax_record::{Failure, Stage};
use hoptax_servers::ledger::{self, Ledger};
use std::cell::OnceCell;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ChildStdout, ExitStatus};

/// A service that this run started.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) name: String,
    pub(super) addresses: Vec<SocketAddr>,
    /// The Unix sockets of an upstream that listens on no ports.
    pub(super) sockets: Vec<Address>,
    pub(super) facts: Facts,
    pub(super) guarded: Guarded,
    /// File to which the guard writes the time of each start. Absent once the service was stopped.
    pub(super) started: Option<PathBuf>,
    /// The container that the service runs in, with its name. Its processes are no descendants of the guard.
    pub(super) container: Option<(Container, String)>,
    /// Process of the container, once it is known.
    pub(super) contained: OnceCell<u32>,
    pub(super) log_directory: PathBuf,
    /// Address of the control socket of the built-in upstream, which serves the ledger.
    pub(super) control: Option<SocketAddr>,
    /// The gateway's own counters, if its pack defines any.
    pub(super) counters: Option<Counters>,
    /// Secrets to remove from the service's logs, if the service received any.
    pub(super) secrets: Option<Credentials>,
    /// Objects that the controller needs to change the gateway while it runs.
    pub(super) tools: Option<Tools>,
    /// Keeps the reading end of standard output open, because a process that writes to a pipe without a
    /// reader is killed.
    pub(super) _stdout: Option<ChildStdout>,
}

impl Service for Started {
    fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    fn endpoints(&self) -> Vec<Address> {
        endpoints(&self.addresses, &self.sockets)
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn process(&self) -> Option<Watched> {
        let pid = match &self.container {
            None => self.guarded.pid(),
            Some((container, name)) => match self.contained.get() {
                Some(pid) => *pid,
                None => {
                    let pid = container.process(name)?;
                    *self.contained.get_or_init(|| pid)
                }
            },
        };
        Some(Watched { pid, include_root: false })
    }

    fn began_ns(&self) -> Option<u64> {
        std::fs::read_to_string(self.started.as_ref()?).ok()?.parse().ok()
    }

    fn log_tails(&self) -> String {
        let tails = logs::tails(&self.log_directory);
        self.secrets.as_ref().map_or_else(|| tails.clone(), |secrets| secrets.redact(&tails))
    }

    fn ledger(&self) -> Option<anyhow::Result<Ledger>> {
        self.control.map(ledger::fetch)
    }

    fn observe(&mut self) -> Observed {
        // Measure the logs after reading the counters, because the requests that read the counters can add
        // lines to the logs.
        let counters = self.counters.as_mut().map(Counters::read).unwrap_or_default();
        Observed { log_bytes: Some(logs::bytes(&self.log_directory)), counters }
    }

    fn controller(&self) -> Option<Box<dyn Controller>> {
        if let Some(control) = self.control {
            return Some(Box::new(UpstreamController { control }));
        }
        let tools = self.tools.clone()?;
        Some(Box::new(GatewayController { tools, handle: self.guarded.restart_handle()? }))
    }

    fn check(&mut self) -> Result<(), Failure> {
        match self.guarded.ended() {
            None => Ok(()),
            Some(status) => Err(Failure {
                stage: Stage::Trial,
                message: format!("{} {} in the middle of the run", self.name, how(status)),
                detail: self.log_tails(),
            }),
        }
    }

    fn stop(&mut self) {
        self.guarded.stop();
        if let Some(file) = self.started.take() {
            // The guard does not remove this file if the service ended by itself, or if the guard was killed.
            remove_started(&file);
        }
        // The guard normally removes the secrets itself. If the guard was killed, hoptax removes them here.
        if let Some(secrets) = self.secrets.take().filter(|_| !self.guarded.ended_by_itself()) {
            logs::scrub(&self.log_directory, &secrets.secrets());
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The addresses of a service, or its Unix sockets if it has no addresses.
pub(super) fn endpoints(addresses: &[SocketAddr], sockets: &[Address]) -> Vec<Address> {
    addresses.iter().copied().map(Address::from).chain(sockets.iter().cloned()).collect()
}

/// The TCP addresses among `all`, and the Unix sockets.
pub(super) fn by_kind(all: Vec<Address>) -> (Vec<SocketAddr>, Vec<Address>) {
    let tcp = all.iter().filter_map(Address::tcp).collect();
    (tcp, all.into_iter().filter(|one| one.tcp().is_none()).collect())
}

/// Describes how a service ended, from the exit status of its guard. If a signal ended the service, the guard
/// exits with 128 + the signal's number, as shells do.
pub(super) fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code @ 129..=192), _) => format!("was ended by signal {}", code - 128),
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("ended because signal {signal} killed its guard"),
        (None, None) => "ended".to_owned(),
    }
}
