//! The passes after the rounds that explain slow requests. They measure nothing that a tax is computed from.

use super::{Flow, GatewayState};
use crate::run::pass;
use crate::run::tail_pass::{self, MOST_MOMENTS, TailTurn};
use crate::run::traffic::{Loaded, WatchedRoles};
use crate::run::trial::{load_spec, nothing_answered};
use crate::schedule::{Contender, Slot};
use hoptax_analysis::tails;
use hoptax_lab::Service;
use hoptax_plan::TailPasses;
use hoptax_record::dir::{DirError, RunDir};
use hoptax_record::tail::TailPass;
use hoptax_record::{DIRECT, DirectTrial, Failure, Stage};
use std::collections::BTreeMap;

/// Number of failed passes in a row after which passes of a contender are left out.
const MOST_FAILURES: u32 = 2;

impl Flow<'_> {
    /// Explains the slow requests of direct and of every gateway at every load point, if the plan says so,
    /// until a signal arrives. `number` is the number of trials so far. Each pass is on disk before the next
    /// begins. Fails if a pass cannot be written.
    pub(super) fn explain_tails(&mut self, number: usize, dir: &mut RunDir) -> Result<(), DirError> {
        let Some(asked) = self.run.plan.tail else { return Ok(()) };
        let turns = tail_pass::order(self.run.plan, asked, self.run.seed);
        let count = turns.len();
        let mut failures: BTreeMap<Option<usize>, u32> = BTreeMap::new();
        let mut sequence = 0;
        for (index, turn) in turns.into_iter().enumerate() {
            let failed = failures.entry(turn.gateway).or_default();
            let is_out =
                turn.gateway.is_some_and(|gateway| matches!(self.gateways[gateway], GatewayState::Failed(_)));
            if *failed >= MOST_FAILURES || is_out {
                continue;
            }
            let label = turn.gateway.map_or(DIRECT, |gateway| &self.run.plan.gateways[gateway].label);
            self.progress.preparing(&format!("slow requests {} of {count}: {label}", index + 1));
            let Some(mut record) = self.tail_pass(turn, asked, number, label) else { break };
            record.sequence = sequence;
            sequence += 1;
            match &record.failed {
                None => *failed = 0,
                Some(failure) => {
                    *failed += 1;
                    self.progress.failed(label, failure);
                }
            }
            dir.append_tail(&record)?;
        }
        Ok(())
    }

    /// Records one pass. `None` if a signal arrived before its end.
    fn tail_pass(
        &mut self,
        turn: TailTurn,
        asked: TailPasses,
        number: usize,
        label: &str,
    ) -> Option<TailPass> {
        if self.run.is_interrupted() {
            return None;
        }
        let blank = TailPass::blank(turn.round, label, turn.load as u32);
        let result = match turn.gateway {
            None => {
                self.warm_up_upstream(number);
                self.record_tail(turn, asked, None, &blank)
            }
            Some(gateway) => self.with_warm((gateway, turn.load, number), |flow, service| {
                flow.record_tail(turn, asked, Some(service), &blank)
            }),
        };
        let failed = |failure| TailPass { failed: Some(failure), ..blank.clone() };
        (!self.run.is_interrupted()).then(|| result.unwrap_or_else(failed))
    }

    /// Sends the load of a pass to a contender, and records the switches of all CPUs meanwhile.
    fn record_tail(
        &mut self,
        turn: TailTurn,
        asked: TailPasses,
        gateway: Option<&dyn Service>,
        blank: &TailPass,
    ) -> Result<TailPass, Failure> {
        let run = self.run;
        let service = gateway.unwrap_or(&*self.upstream);
        let contender = turn.gateway.map_or(Contender::Direct(DirectTrial::First), Contender::Gateway);
        let slot = Slot { round: turn.round, load: turn.load, contender, step: None };
        let mut spec = load_spec(run, &slot, service.endpoints());
        pass::fit(&mut spec, asked.duration);
        spec.moments = Some(MOST_MOMENTS);
        service.facts().change.apply(&mut spec);
        let failure = |message: &str| Failure::new(Stage::Trial, message);
        let no_process =
            "hoptax does not know its process; write `pid: …` in the plan to explain its slow requests";
        let process = |gateway: &dyn Service| gateway.process().ok_or_else(|| failure(no_process));
        let watched = gateway.map(process).transpose()?;
        let roles = WatchedRoles { upstream: self.upstream.process(), gateway: watched };
        let recording = self.traffic.record_switches(&roles)?;
        let from = run.plan.load[turn.load].from.as_deref();
        let Loaded { record, failed, usage, .. } =
            self.traffic.load(from, &spec, &roles, run.interrupted, &mut |_| {});
        let failed = failed.or_else(|| record.as_ref().and_then(nothing_answered));
        let disturbed = tail_pass::disturbed(record.as_ref(), &usage.host);
        // The server may allow fewer streams.
        let allowed = record.as_ref().and_then(|record| record.http2?.stream_limit).unwrap_or(u32::MAX);
        let in_flight = spec.connections.saturating_mul(spec.streams.min(allowed).max(1));
        let moments = match (failed, record) {
            (Some(failure), _) => return Err(failure),
            (None, record) => record
                .and_then(|record| record.moments)
                .ok_or_else(|| failure("the generator recorded no moments"))?,
        };
        let trace = recording.finish()?;
        if let Some(failure) = tail_pass::lost_too_much(&trace) {
            return Err(failure);
        }
        if moments.requests.is_empty() {
            let message = "no response carried the upstream's time stamps; the gateway may remove the header \
                 hoptax-stamp";
            return Err(failure(message));
        }
        Ok(tails::explain(&trace, &moments, in_flight, &disturbed, blank.clone()))
    }
}
