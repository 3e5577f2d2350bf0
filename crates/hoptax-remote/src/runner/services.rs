//! Services on other hosts.

use super::agent_channel::{AgentChannel, PROMPT};
use crate::protocol::message::{Request, ServiceRequest, Started};
use hoptax_format::Address;
use hoptax_host::Watched;
use hoptax_lab::features::Credentials;
use hoptax_lab::{Controller, Effect, Facts, Observed, Service};
use hoptax_plan::Action;
use hoptax_record::{Failure, RoleUsage};
use hoptax_servers::ledger::Ledger;
use serde::de::DeserializeOwned;
use std::cell::OnceCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Time limit for stopping a service: the grace period of its pack, and the time in which its guard removes
/// secrets from large logs.
const STOP: Duration = Duration::from_secs(15 * 60);
/// Time limit for an event, in addition to the time for which an upstream's instance is down. A gateway is
/// restarted and must become ready.
const ACT: Duration = Duration::from_secs(10 * 60);

/// A service that the agent of another host has started.
#[derive(Debug)]
pub(super) struct RemoteService {
    link: Arc<AgentChannel>,
    number: u64,
    addresses: Vec<SocketAddr>,
    endpoints: Vec<Address>,
    facts: Facts,
    /// Root of the process tree, once it is known.
    process: OnceCell<Watched>,
    has_controller: bool,
    can_reload: bool,
    is_stopped: bool,
}

impl RemoteService {
    /// A service that was started by this link's agent. `credentials` are the run's.
    pub(super) fn new(link: Arc<AgentChannel>, started: Started, credentials: &Arc<Credentials>) -> Self {
        let mut facts = started.facts;
        facts.change.credentials = started.has_credentials.then(|| Arc::clone(credentials));
        Self {
            link,
            number: started.service,
            addresses: started.endpoints.iter().filter_map(Address::tcp).collect(),
            endpoints: started.endpoints,
            facts,
            process: started.process.map_or_else(OnceCell::new, OnceCell::from),
            has_controller: started.has_controller,
            can_reload: started.can_reload,
            is_stopped: false,
        }
    }

    fn ask<T: DeserializeOwned>(&self, request: ServiceRequest, limit: Duration) -> Result<T, Failure> {
        self.link.ask(Request::Service { id: self.number, request }, limit)
    }
}

impl Service for RemoteService {
    fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    fn endpoints(&self) -> Vec<Address> {
        self.endpoints.clone()
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn process(&self) -> Option<Watched> {
        if let Some(known) = self.process.get() {
            return Some(*known);
        }
        let found = self.ask::<Option<Watched>>(ServiceRequest::Process, PROMPT).ok()??;
        Some(*self.process.get_or_init(|| found))
    }

    fn began_ns(&self) -> Option<u64> {
        let began: Option<u64> = self.ask(ServiceRequest::Began, PROMPT).ok()?;
        Some(self.link.offset().here(began?))
    }

    fn log_tails(&self) -> String {
        let tails: Result<String, Failure> = self.ask(ServiceRequest::LogTails, PROMPT);
        tails.map_or_else(|failure| failure.message, |tails| self.link.shown(&tails))
    }

    fn used(&self, from_ns: u64, to_ns: u64) -> Option<Result<RoleUsage, String>> {
        let offset = self.link.offset();
        let request = ServiceRequest::Used { from_ns: offset.there(from_ns), to_ns: offset.there(to_ns) };
        self.ask(request, STOP).unwrap_or_else(|failure: Failure| Some(Err(failure.message)))
    }

    fn ledger(&self) -> Option<anyhow::Result<Ledger>> {
        let ledger: Result<Option<Result<Ledger, String>>, Failure> = self.ask(ServiceRequest::Ledger, STOP);
        match ledger {
            Ok(ledger) => ledger.map(|ledger| ledger.map_err(anyhow::Error::msg)),
            Err(failure) => Some(Err(anyhow::Error::msg(failure.message))),
        }
    }

    fn observe(&mut self) -> Observed {
        self.ask(ServiceRequest::Observe, STOP).unwrap_or_default()
    }

    fn controller(&self) -> Option<Box<dyn Controller>> {
        let link = Arc::clone(&self.link);
        let controller = RemoteController { link, service: self.number, can_reload: self.can_reload };
        (self.has_controller && !self.is_stopped).then(|| Box::new(controller) as Box<dyn Controller>)
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.ask(ServiceRequest::Check, PROMPT)
    }

    fn stop(&mut self) {
        if !std::mem::replace(&mut self.is_stopped, true) {
            // If the host is lost, its agent or the guards there stop the service.
            let _ = self.ask::<()>(ServiceRequest::Stop, STOP);
        }
    }
}

impl Drop for RemoteService {
    fn drop(&mut self) {
        let _ = self.ask::<()>(ServiceRequest::Drop, STOP);
    }
}

/// Performs events on a service of another host.
struct RemoteController {
    link: Arc<AgentChannel>,
    service: u64,
    can_reload: bool,
}

impl Controller for RemoteController {
    fn act(&mut self, action: Action) -> Result<Effect, String> {
        let limit = match action {
            Action::RestartUpstream { down, .. } => ACT + down,
            _ => ACT,
        };
        let request = Request::Service { id: self.service, request: ServiceRequest::Act(action) };
        let effect: Result<Effect, String> =
            self.link.ask(request, limit).unwrap_or_else(|failure: Failure| Err(failure.message));
        let effect = effect?;
        let reload_began_ns = effect.reload_began_ns.map(|at| self.link.offset().here(at));
        Ok(Effect { reload_began_ns, ..effect })
    }

    fn can_reload(&self) -> bool {
        self.can_reload
    }
}
