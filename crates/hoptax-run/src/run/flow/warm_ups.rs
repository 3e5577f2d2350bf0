//! Warm-ups of a run: which process gets a burst when.

use super::{Contender, Flow, GatewayState, Slot};
use crate::run::traffic::WatchedRoles;
use crate::run::warm_up::{self, LEAST_REQUESTS, Settled, WarmingUp};
use hoptax_lab::Service;
use hoptax_plan::UntilSettled;
use hoptax_record::{DeathDuring, LateStep, RunRecord, TrialRecord, WarmUp};

impl Flow<'_> {
    /// Warms up the upstream and every gateway that runs, in turn.
    pub(super) fn warm_up_all(&mut self) {
        let contenders: Vec<usize> = std::iter::once(0).chain(self.running()).collect();
        self.warm_up_together(&contenders, 0);
    }

    /// Warms up these contenders in turn, before the trial with this number.
    pub(super) fn warm_up_together(&mut self, contenders: &[usize], number: usize) {
        let Some(limits) = self.run.plan.until_settled else { return };
        let begun = |&index: &usize| Some((index, self.warming_up(index, limits, number)?));
        let cold = contenders.iter().filter_map(begun).collect();
        self.warm_up_in_turn(cold, number);
    }

    /// Loads all gateways that run once more, and finds those that have become faster since.
    pub(super) fn look_again(&mut self, number: usize) -> Vec<LateStep> {
        self.look_again_at(&self.running(), number)
    }

    /// Loads these warmed-up processes once more, and finds those that have become faster since. Leaves out
    /// gateways whose trials had at least as many requests as a warm-up, because their trials show a step.
    pub(super) fn look_again_at(&mut self, contenders: &[usize], number: usize) -> Vec<LateStep> {
        let Some(limits) = self.run.plan.until_settled else { return Vec::new() };
        let again = |&index: &usize| {
            let settled = &self.settled[index];
            let warm_up = settled.warm_up.as_ref().filter(|_| settled.answered < LEAST_REQUESTS)?;
            Some((index, self.warming_up(index, limits, number)?.after(warm_up)))
        };
        let cold = contenders.iter().filter_map(again).collect();
        self.warm_up_in_turn(cold, number);
        let labels = &self.run.plan.gateways;
        let found =
            self.warm_ups.iter().filter(|(index, one)| *index > 0 && one.before_trial as usize == number);
        found.filter_map(|(index, warm_up)| LateStep::of(&labels[index - 1].label, warm_up)).collect()
    }

    /// Indices of the contenders whose gateways run.
    fn running(&self) -> Vec<usize> {
        let gateways = self.gateways.iter().enumerate();
        let up = gateways.filter(|(_, state)| matches!(state, GatewayState::Up(_)));
        up.map(|(index, _)| index + 1).collect()
    }

    /// Counts the requests that the gateway of a trial answered.
    pub(super) fn count_answers(&mut self, slot: &Slot, trial: &TrialRecord) {
        if let Contender::Gateway(index) = slot.contender {
            let answered = trial.load_record.as_ref().map_or(0, |record| record.lifetime.completed);
            self.settled[index + 1].answered += answered;
        }
    }

    /// Keeps the warm-up of a process that is warm now.
    pub(super) fn keep_warm_up(&mut self, index: usize, warming: WarmingUp) {
        let start = index.checked_sub(1).map_or(0, |gateway| self.starts[gateway]);
        let warm_up = warming.into_record().map(|warm_up| WarmUp { start, ..warm_up });
        self.settled[index] =
            Settled { warm_up: warm_up.clone().filter(|warm_up| warm_up.settled), answered: 0 };
        self.warm_ups.extend(warm_up.map(|warm_up| (index, warm_up)));
    }

    /// Warms up these processes, each with the index of its contender, before the trial with this number.
    /// While one has its burst, the others have a pause.
    fn warm_up_in_turn(&mut self, mut cold: Vec<(usize, WarmingUp)>, number: usize) {
        while !cold.is_empty() && !self.run.is_interrupted() {
            let mut left = Vec::new();
            for (index, mut warming) in cold {
                let taken = index.checked_sub(1).map(|gateway| self.take(gateway, number)).transpose();
                let Ok(service) = taken else { continue };
                self.burst(index, service.as_deref(), &mut warming);
                let load = warming.load();
                let death = service
                    .and_then(|service| self.put_back(index - 1, service, DeathDuring::WarmUp, number, load));
                if let Some(failure) = &death {
                    // The gateway's first trial starts the gateway again, and warms it up alone.
                    self.progress.failed(&self.run.plan.gateways[index - 1].label, failure);
                } else if warming.is_over() {
                    self.is_warm[index] = true;
                    self.keep_warm_up(index, warming);
                } else {
                    left.push((index, warming));
                }
            }
            if left.len() == 1 {
                std::thread::sleep(warm_up::PAUSE);
            }
            cold = left;
        }
    }

    /// Warms up the upstream before the trial with this number, unless it is warm.
    pub(super) fn warm_up_upstream(&mut self, number: usize) {
        if !std::mem::replace(&mut self.is_warm[0], true)
            && let Some(warming) = self.warm_up_alone(0, None, number)
        {
            self.keep_warm_up(0, warming);
        }
    }

    /// Warms up a process that was started again, before the trial with this number. Returns `None` if the
    /// plan has a fixed warm-up.
    pub(super) fn warm_up_alone(
        &mut self,
        index: usize,
        service: Option<&dyn Service>,
        number: usize,
    ) -> Option<WarmingUp> {
        let mut warming = self.warming_up(index, self.run.plan.until_settled?, number)?;
        while !self.run.is_interrupted() {
            self.burst(index, service, &mut warming);
            if warming.is_over() {
                break;
            }
            std::thread::sleep(warm_up::PAUSE);
        }
        Some(warming)
    }

    /// The warm-up of a process. `None` if every load that it could get has killed it before.
    fn warming_up(&self, index: usize, limits: UntilSettled, number: usize) -> Option<WarmingUp> {
        let gateway = index.checked_sub(1);
        let deaths = gateway.map_or_else(Vec::new, |gateway| self.deaths.in_warm_ups(gateway));
        let gateway = gateway.map(|gateway| &self.run.plan.gateways[gateway]);
        WarmingUp::new(self.run.plan, limits, gateway, number, &deaths)
    }

    /// Sends one burst to a gateway, or to the upstream if there is no gateway.
    fn burst(&mut self, index: usize, service: Option<&dyn Service>, warming: &mut WarmingUp) {
        let label =
            index.checked_sub(1).map_or("the upstream", |gateway| &self.run.plan.gateways[gateway].label);
        self.progress.preparing(&format!("warming up {label}: {}", warming.describe()));
        let loaded_service = service.unwrap_or(&*self.upstream);
        let mut spec = warming.spec(self.run, loaded_service.endpoints());
        loaded_service.facts().change.apply(&mut spec);
        let gateway = service.and_then(Service::process);
        let watched = WatchedRoles { upstream: self.upstream.process(), gateway };
        // The burst has as many connections as this load point, so it comes from this load point's host.
        let from = self.run.plan.load[warming.load()].from.as_deref();
        let loaded = self.traffic.load(from, &spec, &watched, self.run.interrupted, &mut |_| {});
        let usage = &loaded.usage;
        let roles = &self.run.plan.roles;
        let (role, upstream) = match service {
            Some(_) if roles.gateway == roles.upstream => (&usage.gateway, usage.upstream.as_ref()),
            Some(_) => (&usage.gateway, None),
            None => (&usage.upstream, None),
        };
        warming.add(&loaded, role.as_ref(), upstream);
    }

    /// Moves the warm-ups so far to the record.
    pub(super) fn note_warm_ups(&mut self, record: &mut RunRecord) {
        for (index, warm_up) in self.warm_ups.drain(..) {
            record.contenders[index].warm_ups.push(warm_up);
        }
    }
}
