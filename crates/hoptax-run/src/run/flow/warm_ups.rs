//! Warm-ups of a run: which process gets a burst when.

use super::{Flow, GatewayState};
use crate::run::traffic::WatchedRoles;
use crate::run::warm_up::{self, WarmingUp};
use hoptax_lab::Service;
use hoptax_plan::UntilSettled;
use hoptax_record::DeathDuring;
use hoptax_record::RunRecord;

impl Flow<'_> {
    /// Warms up the upstream and every gateway that runs, in turn. While one has its burst, the others have a
    /// pause.
    pub(super) fn warm_up_together(&mut self) {
        let Some(limits) = self.run.plan.until_settled else { return };
        let gateways = self.gateways.iter().enumerate();
        let up =
            gateways.filter(|(_, state)| matches!(state, GatewayState::Up(_))).map(|(index, _)| index + 1);
        let begun = |index| Some((index, self.warming_up(index, limits, 0)?));
        let mut cold: Vec<(usize, WarmingUp)> = std::iter::once(0).chain(up).filter_map(begun).collect();
        while !cold.is_empty() && !self.run.is_interrupted() {
            let mut left = Vec::new();
            for (index, mut warming) in cold {
                let service = match index.checked_sub(1).map(|gateway| self.take(gateway, 0)).transpose() {
                    Ok(service) => service,
                    Err(_) => continue,
                };
                self.burst(index, service.as_deref(), &mut warming);
                let load = warming.load();
                let death = service
                    .and_then(|service| self.put_back(index - 1, service, DeathDuring::WarmUp, 0, load));
                if let Some(failure) = &death {
                    // The gateway's first trial starts the gateway again, and warms it up alone.
                    self.progress.failed(&self.run.plan.gateways[index - 1].label, failure);
                } else if warming.is_over() {
                    self.is_warm[index] = true;
                    self.warm_ups.extend(warming.into_record().map(|record| (index, record)));
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
            self.warm_ups.extend(warming.into_record().map(|record| (0, record)));
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
        let role = if service.is_some() { &loaded.usage.gateway } else { &loaded.usage.upstream };
        warming.add(&loaded, role.as_ref());
    }

    /// Moves the warm-ups so far to the record.
    pub(super) fn note_warm_ups(&mut self, record: &mut RunRecord) {
        for (index, warm_up) in self.warm_ups.drain(..) {
            record.contenders[index].warm_ups.push(warm_up);
        }
    }
}
