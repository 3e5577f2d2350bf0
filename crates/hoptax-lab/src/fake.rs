//! Scripted services for tests of a run's flow. All calls are logged.

use super::{Controller, Driver, Effect, Facts, Launched, Observed, Service};
use hoptax_format::Address;
use hoptax_host::Watched;
use hoptax_plan::{Action, Feature, Gateway, GatewayKind, LoadPoint, PackDriver, Plan};
use hoptax_record::{Failure, Stage};
use hoptax_servers::ledger::Ledger;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Time at which each fake service starts and reloads, ns.
pub const FAKE_BEGAN_NS: u64 = 1_000_000;

/// Behavior of a fake service.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// If present, the service fails to start with this message.
    pub start_fails: Option<String>,
    /// If present, the number of starts that succeed. Later starts fail.
    pub starts: Option<usize>,
    /// Number of the `check` call that is the first to report the service as dead; 1 is the first call. All
    /// later calls also report the service as dead.
    pub dies_at_check: Option<usize>,
    /// Setting this to true kills the process of the service that runs.
    pub killed: Rc<Cell<bool>>,
    /// Addresses of the service. If empty, the service has one address, on which nothing listens.
    pub addresses: Vec<SocketAddr>,
    /// Facts that the service reports.
    pub facts: Facts,
    /// The service's process to watch.
    pub process: Option<Watched>,
    /// Successive values of the service's ledger; the last value repeats. `Err` means that reading fails.
    /// Empty means that the service has no ledger.
    pub ledgers: Vec<Result<Ledger, String>>,
    /// Whether the service can reload.
    pub can_reload: bool,
    /// Successive results of `observe`. When all of them have been returned, `observe` returns default
    /// values.
    pub observed: Vec<Observed>,
}

/// Starts scripted services.
#[derive(Debug, Default)]
pub struct FakeDriver {
    /// The upstream's script.
    pub upstream: Script,
    /// Scripts of the gateways, by label. A gateway without a script starts and keeps running.
    pub gateways: BTreeMap<String, Script>,
    log: Rc<RefCell<Vec<String>>>,
}

impl FakeDriver {
    /// Creates a driver with these scripts for its gateways, by label.
    pub fn new<'a>(scripts: impl IntoIterator<Item = (&'a str, Script)>) -> Self {
        let gateways = scripts.into_iter().map(|(label, script)| (label.to_owned(), script)).collect();
        Self { gateways, ..Self::default() }
    }

    /// All calls so far, such as `start nginx`, `check nginx`, `ledger upstream`, `stop nginx`. A service
    /// that is dropped without `stop` also logs `stop`. The log can still be read after the driver was moved.
    pub fn log(&self) -> Rc<RefCell<Vec<String>>> {
        Rc::clone(&self.log)
    }

    fn start(&self, label: &str, script: Script) -> Launched {
        let start = format!("start {label}");
        self.log.borrow_mut().push(start.clone());
        let starts = self.log.borrow().iter().filter(|line| **line == start).count();
        let too_many = script.starts.filter(|most| starts > *most).map(|_| "not again".to_owned());
        if let Some(message) = script.start_fails.or(too_many) {
            return Err(Failure { stage: Stage::Start, message, detail: "its last log line".into() });
        }
        let nowhere = vec![SocketAddr::from(([127, 0, 0, 1], 9))];
        let addresses = if script.addresses.is_empty() { nowhere } else { script.addresses };
        Ok(Box::new(FakeService {
            label: label.to_owned(),
            addresses,
            facts: script.facts,
            process: script.process,
            dies_at_check: script.dies_at_check,
            killed: script.killed,
            is_dead: false,
            checks: 0,
            can_reload: script.can_reload,
            ledgers: RefCell::new(script.ledgers.into()),
            observed: script.observed.into(),
            stopped: false,
            log: Rc::clone(&self.log),
        }))
    }
}

impl Driver for FakeDriver {
    fn start_upstream(&mut self) -> Launched {
        self.start("upstream", self.upstream.clone())
    }

    fn start_gateway(&mut self, gateway: &Gateway, _: &[Address]) -> Launched {
        self.start(&gateway.label, self.gateways.get(&gateway.label).cloned().unwrap_or_default())
    }

    fn launch_gateway(&mut self, gateway: &Gateway, upstreams: &[Address]) -> Launched {
        self.start_gateway(gateway, upstreams)
    }
}

#[derive(Debug)]
struct FakeService {
    label: String,
    addresses: Vec<SocketAddr>,
    facts: Facts,
    process: Option<Watched>,
    dies_at_check: Option<usize>,
    killed: Rc<Cell<bool>>,
    is_dead: bool,
    checks: usize,
    can_reload: bool,
    ledgers: RefCell<VecDeque<Result<Ledger, String>>>,
    observed: VecDeque<Observed>,
    stopped: bool,
    log: Rc<RefCell<Vec<String>>>,
}

impl FakeService {
    fn note(&self, what: &str) {
        self.log.borrow_mut().push(format!("{what} {}", self.label));
    }
}

impl Service for FakeService {
    fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn process(&self) -> Option<Watched> {
        self.process
    }

    fn ledger(&self) -> Option<anyhow::Result<Ledger>> {
        let mut ledgers = self.ledgers.borrow_mut();
        let next = if ledgers.len() > 1 { ledgers.pop_front() } else { ledgers.front().cloned() };
        drop(ledgers);
        next.map(|answer| {
            self.note("ledger");
            answer.map_err(|message| anyhow::anyhow!(message))
        })
    }

    fn began_ns(&self) -> Option<u64> {
        Some(FAKE_BEGAN_NS)
    }

    fn controller(&self) -> Option<Box<dyn Controller>> {
        let reloads = Box::new(FakeController) as Box<dyn Controller>;
        self.can_reload.then_some(reloads)
    }

    fn observe(&mut self) -> Observed {
        self.observed.pop_front().unwrap_or_default()
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.note("check");
        self.checks += 1;
        self.is_dead |= self.killed.take() || self.dies_at_check.is_some_and(|at| self.checks >= at);
        if !self.is_dead {
            return Ok(());
        }
        Err(Failure {
            stage: Stage::Trial,
            message: format!("{} exited with code 1 in the middle of the run", self.label),
            detail: "its last log line".into(),
        })
    }

    fn stop(&mut self) {
        if !self.stopped {
            self.stopped = true;
            self.note("stop");
        }
    }
}

/// Reloads at once.
struct FakeController;

impl Controller for FakeController {
    fn act(&mut self, action: Action) -> Result<Effect, String> {
        match action {
            Action::Reload => Ok(Effect { reload_began_ns: Some(FAKE_BEGAN_NS), ..Effect::default() }),
            other => Err(format!("a fake service cannot {other}")),
        }
    }

    fn can_reload(&self) -> bool {
        true
    }
}

impl Drop for FakeService {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The plan that a text without files describes, on a machine with two CPUs.
///
/// # Panics
/// If the text is wrong.
pub fn parsed(text: &str) -> Plan {
    let context = hoptax_plan::Context { cpus: 2, known: Vec::new(), directory: ".".into() };
    hoptax_plan::parse("plan.yaml", text, &[], &context).unwrap_or_else(|errors| panic!("{errors}"))
}

/// A gateway of this pack, which runs as processes.
pub fn pack_gateway(label: &str, pack: &str, workers: u32, features: Vec<Feature>) -> Gateway {
    let kind = GatewayKind::Pack {
        pack: pack.to_owned(),
        workers,
        features,
        instances: None,
        driver: PackDriver::Process,
        upstream_http2: false,
    };
    Gateway { label: label.to_owned(), kind }
}

/// A plan with these gateways and one closed-loop load point, for tests of the lab and the flow.
pub fn plan(gateways: Vec<Gateway>, connections: u32) -> Plan {
    let text = "name: test\nupstream: { body: 64B }\ngateways: []\ntarget: { headers: { host: echo.com } }\n\
                load: [{ loop: closed, connections: 1, duration: 1s }]\ntrials: 1\nwarmup: 0s\nseed: 1\n";
    let load = vec![LoadPoint::closed(connections, Duration::from_secs(1))];
    Plan { gateways, load, ..parsed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_plan::HopKind;

    #[test]
    fn services_follow_their_scripts_and_every_call_is_logged() {
        let hop = |label: &str| Gateway { label: label.into(), kind: GatewayKind::Hop(HopKind::L4) };
        let mut driver = FakeDriver::new([
            ("dies", Script { dies_at_check: Some(2), ..Script::default() }),
            ("fails", Script { start_fails: Some("no".into()), ..Script::default() }),
        ]);
        driver.upstream.ledgers = vec![Ok(Ledger::default()), Err("gone".into())];
        let log = driver.log();

        let upstream = driver.start_upstream().expect("starts");
        assert!(upstream.ledger().expect("keeps one").is_ok());
        assert!(upstream.ledger().expect("keeps one").is_err());
        let mut dies = driver.start_gateway(&hop("dies"), &[]).expect("starts");
        assert!(driver.start_gateway(&hop("fails"), &[]).is_err());
        assert!(dies.check().is_ok());
        assert!(dies.check().is_err());
        dies.stop();
        drop(dies);
        drop(upstream);

        let calls = log.borrow().join(", ");
        assert_eq!(
            calls,
            "start upstream, ledger upstream, ledger upstream, start dies, start fails, check dies, check \
             dies, stop dies, stop upstream"
        );
    }
}
