//! Processes of the gateways: their starts before trials, and their restarts between rounds.

use super::{Flow, GatewayState};
use crate::schedule::{self, Director};
use hoptax_lab::Service;
use hoptax_plan::{GatewayKind, Trials};
use hoptax_record::{DeathDuring, Failure, LateStep, RunRecord, Stage};

impl Flow<'_> {
    /// Returns the gateway for a trial, started and warmed up. If it dies while it is warmed up, it is
    /// started again and warmed up with less load. Fails if the gateway cannot be started, or if the case is
    /// left out because it killed the gateway.
    pub(super) fn take_warm(
        &mut self,
        index: usize,
        load: usize,
        number: usize,
    ) -> Result<Box<dyn Service>, Failure> {
        if let Some(failure) = self.deaths.left_out(index, load) {
            return Err(failure);
        }
        loop {
            let mut service = self.take(index, number)?;
            if std::mem::replace(&mut self.is_warm[index + 1], true) {
                return Ok(service);
            }
            let Some(warming) = self.warm_up_alone(index + 1, Some(&*service), number) else {
                return Ok(service);
            };
            let Err(failure) = service.check() else {
                self.keep_warm_up(index + 1, warming);
                return Ok(service);
            };
            self.progress.failed(&self.run.plan.gateways[index].label, &failure);
            self.deaths.add(index, DeathDuring::WarmUp, number, Some(warming.load()), failure);
        }
    }

    /// Returns the gateway for load before or in the trial with this number. Starts it if it does not run.
    pub(super) fn take(&mut self, index: usize, number: usize) -> Result<Box<dyn Service>, Failure> {
        match std::mem::replace(&mut self.gateways[index], GatewayState::Stopped) {
            GatewayState::Up(mut service) => {
                let Err(failure) = service.check() else { return Ok(service) };
                drop(service);
                self.progress.failed(&self.run.plan.gateways[index].label, &failure);
                self.deaths.add(index, DeathDuring::Pause, number, None, failure);
                self.start_again(index, number)
            }
            GatewayState::Stopped => self.start_again(index, number),
            GatewayState::Failed(failure) => {
                self.gateways[index] = GatewayState::Failed(failure.clone());
                Err(failure)
            }
        }
    }

    fn start_again(&mut self, index: usize, number: usize) -> Result<Box<dyn Service>, Failure> {
        self.is_warm[index + 1] = false;
        let started = self.start(&self.run.plan.gateways[index]);
        match &started {
            Ok(_) => {
                self.starts[index] += 1;
                self.deaths.started(index, number);
            }
            Err(failure) if self.deaths.start_failed(index) => {
                self.gateways[index] = GatewayState::Failed(failure.clone());
            }
            Err(_) => {}
        }
        started
    }

    /// Calls `record` with a gateway that runs and is warm.
    ///
    /// # Errors
    /// As for [`Self::take_warm`]; if `record` fails, or the gateway dies meanwhile.
    pub(super) fn with_warm<T>(
        &mut self,
        (index, load, number): (usize, usize, usize),
        record: impl FnOnce(&mut Self, &dyn Service) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let service = self.take_warm(index, load, number)?;
        let result = record(self, &*service);
        self.put_back(index, service, DeathDuring::Trial, number, load).map_or(result, Err)
    }

    /// Stores the gateway in `self.gateways` again after a load, or stops it if `isolate` is set. If the
    /// gateway has died, notes the death and returns its failure.
    pub(super) fn put_back(
        &mut self,
        index: usize,
        mut service: Box<dyn Service>,
        during: DeathDuring,
        number: usize,
        load: usize,
    ) -> Option<Failure> {
        if let Err(mut failure) = service.check() {
            failure.stage = Stage::Trial;
            self.deaths.add(index, during, number, Some(load), failure.clone());
            return Some(failure);
        }
        if self.run.plan.isolate {
            service.stop();
        } else {
            self.gateways[index] = GatewayState::Up(service);
        }
        None
    }

    /// Spreads the rounds over several processes if any gateway is restarted. Also reports how much
    /// longer the run takes.
    pub(super) fn plan_restarts(&mut self, director: &mut dyn Director, record: &RunRecord) {
        let (plan, restarted) = (self.run.plan, self.restarted(record));
        if restarted.is_empty() {
            return;
        }
        if !plan.load.iter().any(hoptax_plan::LoadPoint::is_in_rounds) {
            return;
        }
        director.spread_over(plan.restarts_of(true) + 1);
        let warm_ups = restarted.iter().filter_map(|index| record.contenders[index + 1].warm_ups.first());
        self.progress.extended(schedule::longer_by(plan, warm_ups));
    }

    /// The gateways that are restarted between rounds. Those that generate code are known only after their
    /// first warm-up. The record has all warm-ups so far.
    fn restarted(&self, record: &RunRecord) -> Vec<usize> {
        let plan = self.run.plan;
        if plan.isolate {
            return Vec::new();
        }
        let is_restarted = |index: &usize| {
            let is_ours = !matches!(plan.gateways[*index].kind, GatewayKind::External { .. });
            let runs = !matches!(self.gateways[*index], GatewayState::Failed(_));
            let generates_code = record.contenders[index + 1].warm_ups.iter().any(|one| one.generates_code);
            is_ours && runs && plan.restarts_of(generates_code) > 0
        };
        (0..self.gateways.len()).filter(is_restarted).collect()
    }

    /// Restarts gateways before the trial with this number, and warms them up again. A run that decides
    /// itself when to end first looks at the old processes again, and returns the steps that it found.
    pub(super) fn restart_gateways(&mut self, number: usize, record: &mut RunRecord) -> Vec<LateStep> {
        self.note_warm_ups(record);
        let gateways = self.restarted(record);
        let contenders: Vec<usize> = gateways.iter().map(|index| index + 1).collect();
        let looks = matches!(self.run.plan.trials, Trials::Auto(_));
        let steps = if looks { self.look_again_at(&contenders, number) } else { Vec::new() };
        for index in gateways {
            if let GatewayState::Up(service) = &mut self.gateways[index] {
                service.stop();
                self.gateways[index] = GatewayState::Stopped;
            }
            self.is_warm[index + 1] = false;
        }
        self.warm_up_together(&contenders, number);
        self.note_warm_ups(record);
        steps
    }
}
