//! The profiling passes after the rounds. No tax is computed from their measurements.

use super::{Flow, GatewayState};
use crate::run::pass::{self, Turn};
use crate::run::traffic::{Loaded, WatchedRoles};
use crate::run::trial::{load_spec, nothing_answered};
use crate::schedule::{Contender, Slot};
use hoptax_lab::Service;
use hoptax_plan::CpuProfile;
use hoptax_record::dir::{DirError, RunDir};
use hoptax_record::profile::{PassKind, PassRecord};
use hoptax_record::{Failure, Stage};
use std::collections::BTreeMap;

/// Number of failed passes in a row after which a gateway gets no more passes of this kind.
const MOST_FAILURES: u32 = 2;

impl Flow<'_> {
    /// Profiles every gateway at every load point, if the plan says so, until a signal arrives. `number` is
    /// the number of trials so far. Each pass is on disk before the next begins. After a signal, some
    /// gateways may never have been started. Fails if a pass cannot be written.
    pub(super) fn profile(&mut self, number: usize, dir: &mut RunDir) -> Result<(), DirError> {
        let Some(asked) = self.run.plan.cpu_profile.filter(|_| !self.run.is_interrupted()) else {
            return Ok(());
        };
        self.restart_for_profiles();
        let mut failures: BTreeMap<(usize, PassKind), u32> = BTreeMap::new();
        let turns = pass::order(self.run.plan, asked, self.run.seed);
        let count = turns.len();
        let mut sequence = 0;
        for (index, turn) in turns.into_iter().enumerate() {
            let failed = failures.entry((turn.gateway, turn.kind)).or_default();
            if *failed >= MOST_FAILURES || matches!(self.gateways[turn.gateway], GatewayState::Failed(_)) {
                continue;
            }
            let label = &self.run.plan.gateways[turn.gateway].label;
            self.progress.preparing(&format!("profile {} of {count}: {label}", index + 1));
            let Some(mut record) = self.pass(turn, asked, number) else { break };
            record.sequence = sequence;
            sequence += 1;
            match &record.failed {
                None => *failed = 0,
                Some(failure) => {
                    *failed += 1;
                    self.progress.failed(label, failure);
                }
            }
            dir.append_profile(&record)?;
            self.progress.profiled(&record);
        }
        Ok(())
    }

    /// Stops the gateways that must be started again so that their frames have names.
    fn restart_for_profiles(&mut self) {
        self.driver.prepare_profiles();
        for state in &mut self.gateways {
            let GatewayState::Up(service) = state else { continue };
            if service.facts().profiling.needs_restart {
                service.stop();
                *state = GatewayState::Stopped;
            }
        }
    }

    /// Records one pass. `None` if a signal arrived before its end.
    fn pass(&mut self, turn: Turn, asked: CpuProfile, number: usize) -> Option<PassRecord> {
        let run = self.run;
        if run.is_interrupted() {
            return None;
        }
        let label = &run.plan.gateways[turn.gateway].label;
        let at = (turn.gateway, turn.load, number);
        let result = self.with_warm(at, |flow, service| flow.record_pass(turn, asked, service));
        (!run.is_interrupted()).then(|| result.unwrap_or_else(|failure| pass::failed(turn, label, failure)))
    }

    /// Sends the load of a pass to a gateway that runs, and records its stacks meanwhile.
    fn record_pass(
        &mut self,
        turn: Turn,
        asked: CpuProfile,
        service: &dyn Service,
    ) -> Result<PassRecord, Failure> {
        let run = self.run;
        let failure = |message: &str| Failure::new(Stage::Trial, message);
        let no_process = "hoptax does not know its process; write `pid: …` in the plan to profile it";
        let watched = service.process().ok_or_else(|| failure(no_process))?;
        let facts = service.facts();
        let recording = self.traffic.record_stacks(watched, turn.kind, &facts.profiling)?;
        let Turn { round, load, gateway, .. } = turn;
        let slot = Slot { round, load, contender: Contender::Gateway(gateway), step: None };
        let mut spec = load_spec(run, &slot, service.addresses().to_vec());
        pass::fit(&mut spec, asked.duration);
        facts.change.apply(&mut spec);
        let roles = WatchedRoles { upstream: self.upstream.process(), gateway: Some(watched) };
        let from = run.plan.load[turn.load].from.as_deref();
        let Loaded { record, usage, failed, .. } =
            self.traffic.load(from, &spec, &roles, run.interrupted, &mut |_| {});
        let failed = failed.or_else(|| record.as_ref().and_then(nothing_answered));
        let load = match (failed, record) {
            (Some(failure), _) => return Err(failure),
            (None, Some(record)) => record,
            (None, None) => {
                return Err(failure("the generator recorded nothing while the gateway was profiled"));
            }
        };
        let recorded = recording.finish(&pass::spans(&load))?;
        let label = &run.plan.gateways[turn.gateway].label;
        Ok(pass::record(turn, label, &facts.profiling, &load, usage, recorded))
    }
}
