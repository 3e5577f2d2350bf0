//! Measures starts and reloads of gateways, in rounds.
//!
//! In each round, every gateway has two turns, and direct has the same traffic. In the first turn, the
//! gateway answers requests one after the other on one connection. In the second turn, it gets the plan's
//! load from the first moment at which it is ready. If the plan measures reloads, each turn continues with a
//! reload and the same traffic again. The order of the turns is random.

mod order;
mod record;

use super::inputs::Run;
use super::progress::Progress;
use super::traffic::{FirstLoaded, Look, Traffic, WatchedRoles};
use super::trial::load_spec;
use crate::schedule::{Contender, Slot};
use hoptax_format::Address;
use hoptax_lab::features::Change;
use hoptax_lab::first_requests::FirstRequests;
use hoptax_lab::verify::Requests;
use hoptax_lab::{Driver, Service};
use hoptax_plan::{Action, Start};
use hoptax_record::dir::{DirError, RunDir};
use hoptax_record::start::{FIRST_REQUESTS, START_WINDOW_NS, StartKind, StartRecord, StartTraffic};
use hoptax_record::{DIRECT, DirectTrial, Failure, Stage};
use order::Turn;
use std::time::Duration;

/// Maximum time to wait for the first right answer. The longest readiness limit of the shipped packs is as
/// long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Number of failed starts in a row after which a gateway is left out. A single failure may be chance, for
/// example if another process took its port.
const MOST_FAILURES: u32 = 3;

/// Everything that measuring starts needs.
pub(super) struct Starts<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) upstream: &'a mut dyn Service,
    /// The requests that verified the gateways.
    pub(super) requests: Requests,
    /// For each gateway of the plan, how it takes part.
    pub(super) gateways: Vec<Participation>,
    pub(super) driver: &'a mut dyn Driver,
    pub(super) traffic: &'a mut dyn Traffic,
    pub(super) progress: &'a mut dyn Progress,
}

/// How a gateway takes part in the rounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Participation {
    /// It is measured. `reloads` is true if its reloads are measured too. `failures` is the number of its
    /// last turns in a row that failed.
    In { reloads: bool, failures: u32 },
    /// It is left out, because it failed.
    Out(Failure),
}

/// Result of all rounds.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// Number of starts, and of loads of direct, that were measured without a failure.
    pub(super) measured: usize,
    /// Why the run had to stop early.
    pub(super) failed: Option<Failure>,
    /// Gateways that were left out in the rounds, by index, with the reason.
    pub(super) left_out: Vec<(usize, Failure)>,
}

/// A gateway in its turn.
struct InTurn<'s> {
    turn: Turn,
    index: usize,
    service: &'s mut dyn Service,
}

impl Starts<'_> {
    /// Measures all rounds, until a signal arrives or the upstream dies. Each start is on disk before the
    /// next begins. Fails if a start cannot be written.
    pub(super) fn measure(mut self, start: Start, dir: &mut RunDir) -> Result<Measured, DirError> {
        let mut result = Measured::default();
        let (mut sequence, mut is_first) = (0, true);
        self.progress.planned(self.planned(start));
        for turn in order::all(self.gateways.len(), start.times, self.run.seed) {
            let Turn { round, contender, .. } = turn;
            if contender.is_some_and(|index| matches!(self.gateways[index], Participation::Out(_))) {
                continue;
            }
            if !std::mem::take(&mut is_first) {
                self.run.pause(self.progress);
            }
            if self.run.is_interrupted() {
                break;
            }
            let (label, number) = (self.label(turn).to_owned(), round + 1);
            let what = if contender.is_some() { "starting" } else { "measuring" };
            self.progress.preparing(&format!("round {number} of {}: {what} {label}", start.times));
            let mut records = match contender {
                None => self.direct(turn),
                Some(index) => self.gateway(turn, index),
            };
            for record in &mut records {
                record.sequence = sequence;
                sequence += 1;
                dir.append_start(record)?;
                self.progress.started(record);
                match &record.failed {
                    None => result.measured += 1,
                    Some(failure) => self.progress.failed(&label, failure),
                }
            }
            if let Some(index) = contender {
                result.left_out.extend(self.count_failures(index, &records));
            }
            if let Err(failure) = self.upstream.check() {
                self.progress.failed("upstream", &failure);
                result.failed = Some(failure);
                break;
            }
        }
        Ok(result)
    }

    /// Number of starts of the run, if no gateway is left out.
    pub(super) fn planned(&self, start: Start) -> usize {
        let of_gateway = |part: &Participation| match part {
            Participation::In { reloads, .. } => 1 + usize::from(*reloads),
            Participation::Out(_) => 0,
        };
        let in_turn: usize = 1 + self.gateways.iter().map(of_gateway).sum::<usize>();
        start.times as usize * order::TRAFFIC.len() * in_turn
    }

    fn label(&self, turn: Turn) -> &str {
        turn.contender.map_or(DIRECT, |index| &self.run.plan.gateways[index].label)
    }

    /// Counts failed turns in a row. Returns the gateway and the reason if it is left out from now on.
    fn count_failures(&mut self, index: usize, records: &[StartRecord]) -> Option<(usize, Failure)> {
        let Participation::In { failures, .. } = &mut self.gateways[index] else { return None };
        let Some(failure) = records.iter().find_map(|record| record.failed.as_ref()) else {
            *failures = 0;
            return None;
        };
        *failures += 1;
        if *failures < MOST_FAILURES {
            return None;
        }
        let message = format!("{MOST_FAILURES} starts in a row failed. The last one: {}", failure.message);
        let failure = Failure { message, ..failure.clone() };
        self.gateways[index] = Participation::Out(failure.clone());
        Some((index, failure))
    }

    /// Sends the traffic of this turn to direct. Empty if a signal arrived.
    fn direct(&mut self, turn: Turn) -> Vec<StartRecord> {
        let roles = WatchedRoles { upstream: self.upstream.process(), gateway: None };
        let before = self.traffic.look(&roles);
        let change = self.upstream.facts().change.clone();
        let asked = match self.asked(turn, &self.upstream.endpoints()[0], &change) {
            Ok(asked) => asked,
            Err(failure) => return vec![record::failed(turn, DIRECT, StartKind::Direct, failure)],
        };
        let first = self.traffic.first_requests(&asked, roles.upstream, None, self.run.interrupted);
        let began_ns = first.answers.began_ns;
        let mut record = record::of_first(turn, DIRECT, StartKind::Direct, began_ns, &first);
        record.host = first.at_end.host_since(&before);
        (record.listening_ns, record.at_ready) = (None, None);
        if record.failed.is_none() && turn.traffic == StartTraffic::Load {
            let addresses = self.upstream.endpoints();
            self.load(turn, addresses, &change, roles, &mut record);
        }
        if self.run.is_interrupted() { Vec::new() } else { vec![record] }
    }

    /// Starts a gateway, sends it the traffic of this turn, and stops it. If its reloads are measured,
    /// reloads it before it stops, and sends the traffic again. Starts that a signal interrupted are left
    /// out.
    fn gateway(&mut self, turn: Turn, index: usize) -> Vec<StartRecord> {
        let run = self.run;
        let gateway = &run.plan.gateways[index];
        let before = self.traffic.look(&WatchedRoles { upstream: self.upstream.process(), gateway: None });
        let mut service = match self.driver.launch_gateway(gateway, &self.upstream.endpoints()) {
            Ok(service) => service,
            Err(_) if run.is_interrupted() => return Vec::new(),
            Err(failure) => return vec![record::failed(turn, &gateway.label, StartKind::Start, failure)],
        };
        let mut in_turn = InTurn { turn, index, service: &mut *service };
        let mut records = vec![self.start(&mut in_turn, &before)];
        let reloads = matches!(self.gateways[index], Participation::In { reloads: true, .. });
        if reloads && records[0].failed.is_none() && !run.is_interrupted() {
            self.progress.preparing(&format!(
                "round {} of {}: reloading {}",
                turn.round + 1,
                run.plan.trials.at_least(),
                gateway.label
            ));
            records.push(self.reload(&mut in_turn));
        }
        service.stop();
        if run.is_interrupted() {
            // Only the last record can be incomplete.
            records.pop();
        }
        records
    }

    /// Measures the start of a gateway whose process is being created.
    fn start(&mut self, in_turn: &mut InTurn<'_>, before: &Look) -> StartRecord {
        let first = match self.first(in_turn) {
            Ok(first) => first,
            Err(failure) => return self.failed(in_turn, StartKind::Start, failure),
        };
        let began_ns = in_turn.service.began_ns().unwrap_or(first.answers.began_ns);
        let label = &self.run.plan.gateways[in_turn.index].label;
        let mut record = record::of_first(in_turn.turn, label, StartKind::Start, began_ns, &first);
        record.host = first.at_end.host_since(before);
        record.hosts = first.at_end.hosts_since(before);
        record.at_ready = first.at_ready.used_since(&Look::default());
        self.finish(in_turn, &mut record);
        record
    }

    /// Reloads a running gateway, and then measures the same things as after a start.
    fn reload(&mut self, in_turn: &mut InTurn<'_>) -> StartRecord {
        let roles = WatchedRoles { upstream: self.upstream.process(), gateway: in_turn.service.process() };
        let before = self.traffic.look(&roles);
        // The controller must not live longer than this statement: while it lives, the guard does not notice
        // the death of hoptax.
        let reloaded = in_turn.service.controller().map(|mut controller| controller.act(Action::Reload));
        let effect = match reloaded.unwrap_or_else(|| Err("it cannot be controlled".to_owned())) {
            Ok(effect) => effect,
            Err(why) => {
                let message = format!("it could not be reloaded: {why}");
                let failure = Failure { stage: Stage::Start, message, detail: in_turn.service.log_tails() };
                return self.failed(in_turn, StartKind::Reload, failure);
            }
        };
        let first = match self.first(in_turn) {
            Ok(first) => first,
            Err(failure) => return self.failed(in_turn, StartKind::Reload, failure),
        };
        let began_ns = effect.reload_began_ns.unwrap_or(first.answers.began_ns);
        let label = &self.run.plan.gateways[in_turn.index].label;
        let mut record = record::of_first(in_turn.turn, label, StartKind::Reload, began_ns, &first);
        record.host = first.at_end.host_since(&before);
        record.hosts = first.at_end.hosts_since(&before);
        record.at_ready = first.at_ready.used_since(&before);
        // The gateway listened all the time.
        record.listening_ns = None;
        self.finish(in_turn, &mut record);
        record
    }

    /// Sends the first requests to a gateway.
    fn first(&mut self, in_turn: &mut InTurn<'_>) -> Result<FirstLoaded, Failure> {
        let change = in_turn.service.facts().change.clone();
        let asked = self.asked(in_turn.turn, &in_turn.service.endpoints()[0], &change)?;
        let upstream = self.upstream.process();
        let interrupted = self.run.interrupted;
        Ok(self.traffic.first_requests(&asked, upstream, Some(&mut *in_turn.service), interrupted))
    }

    /// Sends the load if this is the turn for it. If the gateway failed, adds the reason from the gateway
    /// itself.
    fn finish(&mut self, in_turn: &mut InTurn<'_>, record: &mut StartRecord) {
        if record.failed.is_none() && in_turn.turn.traffic == StartTraffic::Load {
            let change = in_turn.service.facts().change.clone();
            let roles =
                WatchedRoles { upstream: self.upstream.process(), gateway: in_turn.service.process() };
            let addresses = in_turn.service.endpoints();
            self.load(in_turn.turn, addresses, &change, roles, record);
        }
        if let Err(death) = in_turn.service.check() {
            record.failed = Some(Failure { stage: Stage::Start, ..death });
        } else if let Some(failure) = &mut record.failed
            && failure.detail.is_empty()
        {
            failure.detail = in_turn.service.log_tails();
        }
    }

    fn failed(&self, in_turn: &InTurn<'_>, kind: StartKind, failure: Failure) -> StartRecord {
        record::failed(in_turn.turn, &self.run.plan.gateways[in_turn.index].label, kind, failure)
    }

    fn asked(&self, turn: Turn, address: &Address, change: &Change) -> Result<FirstRequests, Failure> {
        let timeout = self.run.plan.timeout.total;
        let asked = FirstRequests::new(address.clone(), &self.requests, change, timeout, PATIENCE);
        let mut asked = asked
            .map_err(|error| Failure::new(Stage::Start, format!("cannot build a request: {error:#}")))?;
        asked.count = if turn.traffic == StartTraffic::Load { 1 } else { FIRST_REQUESTS };
        asked.cpus.clone_from(&self.run.cpus.generator);
        Ok(asked)
    }

    /// Sends the plan's load, and adds its results to the record.
    fn load(
        &mut self,
        turn: Turn,
        addresses: Vec<Address>,
        change: &Change,
        roles: WatchedRoles,
        record: &mut StartRecord,
    ) {
        // With the same round, all contenders get the same arrivals.
        let slot =
            Slot { round: turn.round, load: 0, contender: Contender::Direct(DirectTrial::First), step: None };
        let mut spec = load_spec(self.run, &slot, addresses);
        change.apply(&mut spec);
        (spec.warmup_ns, spec.requests, spec.window_ns) = (0, None, Some(START_WINDOW_NS));
        let loaded = self.traffic.load(None, &spec, &roles, self.run.interrupted, &mut |_| {});
        record::add_load(record, loaded);
    }
}
