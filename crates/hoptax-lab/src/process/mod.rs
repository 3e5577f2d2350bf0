//! Driver `process`: services run on this machine, each under its own guard.

use super::features::Change;
use super::{Driver, Launched};
use hoptax_format::Address;
use hoptax_plan::{Feature, Gateway, GatewayKind, HopKind, Upstream, units};

mod built_in;
mod controller;
mod driver;
mod external;
mod gateway;
mod pod_list;
mod pods;
mod probe;
mod prometheus;
mod ready;
mod refusals;
mod samples;
mod secrets;
mod service;

use built_in::Hop;
use driver::Wait;

pub use driver::ProcessDriver;
pub use secrets::Secrets;

impl Driver for ProcessDriver {
    fn start_upstream(&mut self) -> Launched {
        match &self.upstream {
            Upstream::BuiltIn(upstream) => {
                let upstream = upstream.clone();
                self.make_namespace();
                self.start_built_in(&upstream)
            }
            Upstream::Running(running) => {
                let change = Change::for_login(&self.upstream_login, &self.credentials);
                let watch = external::Watch { pid: running.pid, ..Default::default() };
                let ledger = running.ledger.as_ref();
                let resolve = running.access.resolve;
                let upstream = external::attach(&running.url, resolve, watch, &self.probe, change, ledger)?;
                self.upstream_process = upstream.process().map(|watched| watched.pid);
                Ok(upstream)
            }
        }
    }

    fn start_gateway(&mut self, gateway: &Gateway, upstreams: &[Address]) -> Launched {
        self.start(gateway, upstreams, Wait::UntilReady)
    }

    fn launch_gateway(&mut self, gateway: &Gateway, upstreams: &[Address]) -> Launched {
        self.start(gateway, upstreams, Wait::Caller)
    }

    fn prepare_profiles(&mut self) {
        self.profiles = true;
    }
}

impl ProcessDriver {
    /// Host and port of the upstream, as requests to a forward proxy name them.
    /// `None` for a Unix socket, which no forward proxy can reach.
    fn upstream_behind_proxy(&self, upstreams: &[Address]) -> Option<(String, u16)> {
        if let Upstream::Running(running) = &self.upstream
            && let Ok(origin) = units::origin(&running.url)
        {
            return Some((origin.host, origin.port));
        }
        let address = upstreams.first()?.tcp()?;
        Some((address.ip().to_string(), address.port()))
    }

    fn start(&self, gateway: &Gateway, upstreams: &[Address], wait: Wait) -> Launched {
        let l7 = Hop { kind: "l7", upstream: None, delay: None, proxy: None };
        let hop = match &gateway.kind {
            GatewayKind::Pack { features, instances, .. } => {
                let ours = matches!(self.upstream, Upstream::BuiltIn(_));
                let secure = ours && features.contains(&Feature::UpstreamTls);
                let upstreams = if secure { self.tls_upstreams.as_slice() } else { upstreams };
                let used = instances.map_or(upstreams.len(), |count| (count as usize).min(upstreams.len()));
                return self.start_pack(gateway, &upstreams[..used], wait);
            }
            GatewayKind::Hop(HopKind::L4) => Hop { kind: "l4", ..l7 },
            GatewayKind::Hop(HopKind::L7) => l7,
            GatewayKind::DelayingHop(delay) => Hop { delay: Some(delay), ..l7 },
            GatewayKind::ForwardingHop { proxy, delay } => {
                Hop { delay: delay.as_ref(), proxy: Some(*proxy), ..l7 }
            }
            GatewayKind::Http2Hop { upstream, delay } => {
                Hop { kind: "h2", upstream: Some(*upstream), delay: delay.as_ref(), ..l7 }
            }
            GatewayKind::External { url, pid, access, prometheus, pods } => {
                let mut change = self
                    .gateway_logins
                    .get(&gateway.label)
                    .map(|login| Change::for_login(login, &self.credentials));
                if let Some(change) = &mut change {
                    change.add_token(&self.upstream_login);
                }
                let watched = external::Watch {
                    pid: *pid,
                    other: self.upstream_process,
                    prometheus: prometheus.as_ref().map(|from| (from, self.shortest_trial)),
                    pods: pods.as_ref().map(|from| (from, self.shortest_trial)),
                };
                let mut change = Change { limits_rate: self.limits_rate, ..change.unwrap_or_default() };
                if let (Some(form), Some(login)) = (access.proxy, self.gateway_logins.get(&gateway.label))
                    && let Some((host, port)) = self.upstream_behind_proxy(upstreams)
                {
                    change.ask_proxy(form, login, (&host, port), &self.upstream_login);
                }
                return external::attach(url, access.resolve, watched, &self.probe, change, None);
            }
        };
        self.start_hop(&gateway.label, hop, upstreams, wait)
    }
}
