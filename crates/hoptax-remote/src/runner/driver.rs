//! A driver whose upstream and gateways are on several hosts.

use super::agent_channel::PROMPT;
use super::connection::Event;
use super::host::Host;
use super::services::RemoteService;
use crate::protocol::message::{Order, Request, Started};
use hoptax_format::{Address, clock};
use hoptax_lab::features::Credentials;
use hoptax_lab::process::ProcessDriver;
use hoptax_lab::{Driver, Service};
use hoptax_plan::Gateway;
use hoptax_record::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time limit for a start: a gateway may be tried three times, and each time has two minutes to become ready.
const START: Duration = Duration::from_secs(15 * 60);

/// Interval at which to check for signals, ns.
const POLL_NS: u64 = 50 * clock::MILLISECOND;

/// Starts the services of a run on the hosts of their roles.
#[derive(Debug)]
pub struct HostsDriver {
    /// The gateways' host; absent if it is our own.
    pub(super) gateway: Option<Arc<Host>>,
    /// The upstream's host; absent if it is our own.
    pub(super) upstream: Option<Arc<Host>>,
    /// Starts the services of our own host.
    pub(super) local: Option<ProcessDriver>,
    /// Set by a signal.
    pub(super) interrupted: Arc<AtomicBool>,
    pub(super) credentials: Arc<Credentials>,
    /// Addresses of the upstream's instances that use TLS.
    pub(super) tls_upstreams: Vec<Address>,
}

impl HostsDriver {
    /// The driver of our own host.
    fn local(&mut self) -> &mut ProcessDriver {
        self.local.as_mut().expect("a role of our own host has a driver")
    }

    /// Starts a service on another host.
    fn start_there(&self, host: &Host, request: Request) -> Result<(RemoteService, Vec<Address>), Failure> {
        let link = host.link()?;
        let mut call = link.begin(request)?;
        let deadline = clock::now() + START.as_nanos() as u64;
        let mut is_interrupted = false;
        let started: Started = loop {
            let now = clock::now();
            match call.wait(now + POLL_NS)? {
                Event::Done(started) => break started,
                Event::Update(_) => {}
                Event::Nothing if now > deadline => return Err(call.too_late(START)),
                Event::Nothing => {}
            }
            if self.interrupted.load(Ordering::Relaxed) && !std::mem::replace(&mut is_interrupted, true) {
                call.order(Order::Interrupt);
            }
        };
        let tls_upstreams = started.tls_upstreams.clone();
        Ok((RemoteService::new(link, started, &self.credentials), tls_upstreams))
    }

    fn start(
        &mut self,
        gateway: &Gateway,
        upstreams: &[Address],
        waits: bool,
    ) -> Result<Box<dyn Service>, Failure> {
        let Some(host) = self.gateway.clone() else {
            if self.upstream.is_some() {
                let tls_upstreams = self.tls_upstreams.clone();
                self.local().set_tls_upstreams(tls_upstreams);
            }
            return match waits {
                true => self.local().start_gateway(gateway, upstreams),
                false => self.local().launch_gateway(gateway, upstreams),
            };
        };
        let request = Request::StartGateway {
            label: gateway.label.clone(),
            upstreams: upstreams.to_vec(),
            tls_upstreams: self.tls_upstreams.clone(),
            waits,
        };
        Ok(Box::new(self.start_there(&host, request)?.0))
    }
}

impl Driver for HostsDriver {
    fn start_upstream(&mut self) -> Result<Box<dyn Service>, Failure> {
        let Some(host) = self.upstream.clone() else {
            let service = self.local().start_upstream()?;
            self.tls_upstreams = self.local().tls_upstreams().to_vec();
            return Ok(service);
        };
        let (service, tls_upstreams) = self.start_there(&host, Request::StartUpstream)?;
        self.tls_upstreams = tls_upstreams;
        Ok(Box::new(service))
    }

    fn start_gateway(
        &mut self,
        gateway: &Gateway,
        upstreams: &[Address],
    ) -> Result<Box<dyn Service>, Failure> {
        self.start(gateway, upstreams, true)
    }

    fn launch_gateway(
        &mut self,
        gateway: &Gateway,
        upstreams: &[Address],
    ) -> Result<Box<dyn Service>, Failure> {
        self.start(gateway, upstreams, false)
    }

    fn prepare_profiles(&mut self) {
        match &self.gateway {
            // If the host is lost, the passes fail and say so.
            Some(host) => {
                let _ = host.link().and_then(|link| link.ask::<()>(Request::PrepareProfiles, PROMPT));
            }
            None => self.local().prepare_profiles(),
        }
    }
}
